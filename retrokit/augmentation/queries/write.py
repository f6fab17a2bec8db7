"""From passages to training data: queries are written, taken once each, searched with, graded, and put into a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from retrokit import llm as llms
from retrokit.augmentation.draws import bits
from retrokit.augmentation.queries.asking import Asker
from retrokit.augmentation.queries.settings import (
    NONE,
    SHAPES,
    QuerySettings,
    TypeCounts,
    WrittenQueries,
    listed_causes,
)
from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.files import named
from retrokit.core.notices import progress
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.data import pairs as training_data
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.jsonl import write_jsonl
from retrokit.llm.answers import Rejected
from retrokit.llm.base import LLM, estimated_tokens
from retrokit.llm.prompts import PromptTemplate, load_prompts
from retrokit.llm.session import Session, run_all, wait_for
from retrokit.llm.store import ResponseStore
from retrokit.llm.words import words_of
from retrokit.ranking import retrieval
from retrokit.ranking.retrieval.base import Index, Searcher, TextList

SEARCHED = 1024  # queries searched at once
_IN_VAIN = 50  # after so many answers of which none is a query a model is given up

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass
class Query:
    """A query, the position of its passage, and what is found out about it: ``dropped`` says why it is none."""

    place: int
    type: str
    text: str = ""
    dropped: str | None = None
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Passages:
    """The different texts of a corpus: ``texts``, the id of each one's first document, which are ``chosen`` (positions)
    and what was left out."""

    texts: TextList
    chosen: list[int]
    without_text: int
    repeated: int


@taking(QuerySettings)
def queries(settings: QuerySettings) -> WrittenQueries:
    """Have a language model write queries for the passages of a corpus, and write those that stand every test as
    training data: ``{"anchor", "positive", "type", "id"}``, with ``positive_score``, ``negatives`` and
    ``negative_scores`` of the round trip, and ``grade`` of the judge.

    Answers are kept before they are used, and embeddings in the cache: after a break the same call goes on, to the same
    bytes.

    Raises:
        UsageError: wrong names, or a searcher that needs more than texts.
        DataError: a corpus that cannot be used, or no query that stood every test (the message counts why).
        ServiceError: a model failed, or nothing that it wrote is a query.
        BudgetSpent, Interrupted: what the budget allows does not suffice, or Ctrl-C. What was answered is kept.
    """
    store, opened = settings.kept_in(settings.output), _opened(settings)
    passages = opened.passages
    index = opened.searcher.index(passages.texts) if opened.searcher is not None else None
    with ResponseStore(store) as responses, responses.going_on():
        work = _QueryFilters(settings, opened.prompts, passages, responses)
        work.write(opened.writer)
        work.take_once(opened.known)
        if index is not None:
            work.search(index)
        if settings.judge != NONE:
            work.judge(opened.judge)
        written = work.outcome()
        if not written.kept:
            why = listed_causes(sum((type_counts.dropped for type_counts in written.types.values()), Counter()))
            raise DataError(named(settings.source), f"no query is left ({why}); the answers are kept in {store}")
        write_jsonl(settings.output, work.rows())
    return written


@taking(QuerySettings)
def estimate_queries(settings: QuerySettings) -> dict[str, int]:
    """What writing would take at least, estimated from the texts alone: ``passages``, ``queries`` to write, and about
    how many ``prompt_tokens``. Grading takes as many calls again at the most. Raises as :func:`queries` does before the
    first call."""
    opened = _opened(settings)
    passages, prompts = opened.passages, [opened.prompts[type] for type in settings.types]
    tokens = sum(
        estimated_tokens(prompt.system, prompt.fill(passage=passages.texts[place]))
        for place in passages.chosen
        for prompt in prompts
    )
    return {"passages": len(passages.chosen), "queries": len(passages.chosen) * len(prompts), "prompt_tokens": tokens}


@dataclass(frozen=True)
class _Opened:
    """What the settings name, checked and loaded: the texts of ``known`` queries, no ``searcher`` for none."""

    prompts: dict[str, PromptTemplate]
    passages: Passages
    known: set[str]
    searcher: Searcher | None
    writer: LLM
    judge: LLM


def _opened(settings: QuerySettings) -> _Opened:
    requests: list[tuple[Registry, str]] = [
        (llms.registry, spec) for spec in (settings.llm, settings.judge) if spec not in (None, NONE)
    ]
    requests += [(retrieval.registry_of(settings.searcher), settings.searcher)] if settings.searcher != NONE else []
    parse_all(requests)
    check_settings(settings)
    prompts = load_prompts(settings.prompts, SHAPES, "retrokit.augmentation.queries")
    passages, known = _passages(settings), _existing(settings)
    searcher = retrieval.create(settings.searcher, settings.device) if settings.searcher != NONE else None
    writer = llms.registry.create(settings.llm)
    judge = writer if settings.judge in (None, NONE, settings.llm) else llms.registry.create(settings.judge)
    return _Opened(prompts, passages, known, searcher, writer, judge)


def _passages(settings: QuerySettings) -> Passages:
    path = training_data.texts_file(settings.source, corpus_file)
    ids: dict[str, str] = {}
    without = repeated = 0
    for document in read_corpus(path):
        text = document.full_text
        without += not text
        repeated += text in ids
        if text:
            ids.setdefault(text, document.id)
    if not ids:
        raise DataError(named(path), "holds no passage with text")
    texts = TextList(ids)
    order = sorted(range(len(texts)), key=lambda place: bits(settings.seed, "passage", ids[texts[place]]))
    return Passages(TextList(texts, list(ids.values())), sorted(order[: settings.limit]), without, repeated)


def _files(settings: QuerySettings) -> list[str]:
    """The files of existing queries."""
    return [training_data.texts_file(path, queries_file) for path in settings.existing]


def _existing(settings: QuerySettings) -> set[str]:
    if [settings.source, *settings.existing].count("-") > 1:
        raise UsageError("standard input can be read once only")
    return {_key(text) for file in _files(settings) for _, text in read_queries(file)}


def _key(query: str) -> str:
    return " ".join(words_of(query))


class _QueryFilters:
    """The queries on their way through the filters."""

    def __init__(
        self,
        settings: QuerySettings,
        wording: dict[str, PromptTemplate],
        passages: Passages,
        responses: ResponseStore,
    ) -> None:
        self._settings, self._wording, self._passages, self._responses = settings, wording, passages, responses
        self._queries = [Query(place, type) for place in passages.chosen for type in settings.types]
        self._rejections: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()

    @property
    def _left(self) -> list[Query]:
        return [query for query in self._queries if query.dropped is None]

    def write(self, llm: LLM) -> None:
        """Have every query written; raises :class:`ServiceError` if none of all, or of the first ones, is one."""

        async def one(asker: Asker, query: Query) -> None:
            try:
                query.text = await asker.query(self._passages.texts[query.place], query.type)
            except Rejected as rejected:
                query.dropped = rejected.cause

        def check(done: int, session: Session) -> None:
            tried = self._queries[:done]
            if done in (_IN_VAIN, len(self._queries)) and all(query.dropped not in (None, NONE) for query in tried):
                session.check()  # says it better where everything was refused
                why = listed_causes(Counter(query.dropped for query in tried if query.dropped))
                where = f"its answers are kept in {self._responses.path}"
                raise ServiceError(f"nothing that the model wrote is a query, of {done:,} ({why}); {where}")

        self._ask(llm, "writing", self._queries, one, check)

    def take_once(self, known: set[str]) -> None:
        """Drop queries that are known, and all but the first of those with the same words."""
        taken: set[str] = set()
        for query in self._left:
            key = _key(query.text)
            query.dropped = "existing" if key in known else "repeated" if key in taken else None
            taken.add(key)

    def search(self, index: Index) -> None:
        """Drop queries that do not bring their passage back; of the others, note the scores and the negatives."""
        left, settings = self._left, self._settings
        depth = min(settings.k + settings.negatives, len(self._passages.texts))
        with progress("round trip", len(left), "queries") as advance:
            for start in range(0, len(left), SEARCHED):
                part = left[start : start + SEARCHED]
                results = index.search(TextList(query.text for query in part), depth)
                for query, (scores, places) in zip(part, results, strict=True):
                    self._note(query, scores, places)
                advance(len(part))

    def _note(self, query: Query, scores: np.ndarray, places: np.ndarray) -> None:
        own = np.flatnonzero(places[: self._settings.k] == query.place)
        if not len(own):
            query.dropped = "round_trip"
            return
        query.row["positive_score"] = _rounded(scores[own[0]])
        below = np.flatnonzero(scores < scores[own[0]])[: self._settings.negatives]
        query.row["negatives"] = [self._passages.texts[place] for place in places[below]]
        query.row["negative_scores"] = [_rounded(score) for score in scores[below]]

    def judge(self, llm: LLM) -> None:
        """Drop queries that the judge grades too low, or not at all."""

        async def one(asker: Asker, query: Query) -> None:
            try:
                grade = await asker.grade(query.text, self._passages.texts[query.place])
            except Rejected:
                query.dropped = "no_grade"
                return
            query.row["grade"] = grade
            query.dropped = "low_grade" if grade < self._settings.grade else None

        self._ask(llm, "judging", self._left, one)

    def _ask(
        self,
        llm: LLM,
        doing: str,
        queries: Sequence[Query],
        task: Callable[[Asker, Query], Awaitable[None]],
        check: Callable[[int, Session], None] = lambda done, session: None,
    ) -> None:
        settings = self._settings
        spent = self._calls["prompt_tokens"] + self._calls["completion_tokens"]
        budget = None if settings.max_tokens is None else max(1, settings.max_tokens - spent)

        async def work() -> None:
            session = Session(
                llm, self._responses, concurrency=settings.concurrency, max_tokens=budget, sampling=settings.sampling
            )
            asker = Asker(session, self._wording, settings.retries, self._rejections)
            done = 0
            async with session:
                with progress(doing, len(queries), "queries") as advance:
                    async for _ in run_all(partial(task, asker), queries, limit=max(2 * settings.concurrency, 8)):
                        advance(1)
                        check(done := done + 1, session)
            self._calls.update(session.counts)

        wait_for(work())

    def rows(self) -> list[dict[str, Any]]:
        """The training data, in the order of the corpus."""
        return [
            {
                **{"anchor": query.text, "positive": self._passages.texts[query.place]},
                **{"type": query.type, "id": self._passages.texts.ids[query.place], **query.row},
            }
            for query in self._left
        ]

    def outcome(self) -> WrittenQueries:
        """The record of it all."""
        types = {type: TypeCounts() for type in self._settings.types}
        for query in self._queries:
            types[query.type].asked += 1
            types[query.type].kept += query.dropped is None
            types[query.type].dropped.update([] if query.dropped is None else [query.dropped])
        counts = {
            "passages": len(self._passages.chosen),
            "passages_without_text": self._passages.without_text,
            "passages_repeated": self._passages.repeated,
            "passages_with_queries": len({query.place for query in self._left}),
        }
        return WrittenQueries(self._settings.output, counts, types, dict(self._rejections), dict(self._calls))


def _rounded(score: np.floating) -> float:
    return round(float(score), 6)
