"""Queries of several types that a language model writes for the passages of a corpus: training data without labels.

Bonifacio et al., "InPars", 2022, and Dai et al., "Promptagator", 2022 (the round trip: a query stays if a search with
it brings its passage back); the judge grades as in Upadhyay et al., "UMBRELA", 2024.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from retrokit import llm as llms
from retrokit.augmentation.draws import bits
from retrokit.core.calls import wait_for
from retrokit.core.errors import DataError, ServiceError
from retrokit.core.notices import progress
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Registry, estimating, parse_all
from retrokit.core.settings import taking
from retrokit.data import pairs as training_data
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.weak_supervision.settings import NONE, TYPES, QuerySettings
from retrokit.llm.answers import Rejected, after, holds_run, read_text, words_of
from retrokit.llm.base import LLM, Completion, estimated_tokens
from retrokit.llm.prompts import OURS, WORDINGS, PromptShape, PromptTemplate, load_prompts, wording_for
from retrokit.llm.session import Session, run_all
from retrokit.llm.store import ResponseStore
from retrokit.ranking import retrieval
from retrokit.ranking.retrieval.base import Index, TextList

SHAPES = {
    **dict.fromkeys(TYPES, PromptShape(("passage",), ("marker", "none"))),
    "judge": PromptShape(("query", "passage"), ("marker",)),
    "retry": PromptShape(("reason",)),
}
"""The prompts by name; each is a file NAME.toml."""

CAUSES = {
    "none": "the model reports none",
    "refused": "prompt refused by the model",
    "off_format": "answer in another format",
    "cut_off": "answer cut off at the token limit",
    "too_long": "too long",
    "copied": "copied from the passage",
    "refers": "refers to the passage",
    "existing": "in the existing queries",
    "repeated": "duplicate query",
    "round_trip": "passage not among the top hits",
    "low_grade": "grade too low",
    "no_grade": "no grade",
}
"""Why a query is dropped, by the name that it is counted under, in the order of the filters."""


@dataclass
class TypeCounts:
    """Of one type: queries requested and retained, and by key of :data:`CAUSES` those dropped."""

    asked: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class WrittenQueries:
    """The counts of a run.

    Attributes:
        output: the file.
        counts: ``passages``, ``passages_without_text``, ``passages_repeated``, ``passages_with_queries``.
        types: counts by type.
        rejections: a key of :data:`CAUSES` → answers that were rejected, those included that a further answer mended.
        calls: calls and tokens (:attr:`retrokit.llm.session.Session.counts`).
    """

    output: str
    counts: Mapping[str, int]
    types: Mapping[str, TypeCounts]
    rejections: Mapping[str, int]
    calls: Mapping[str, int]

    @property
    def kept(self) -> int:
        """How many queries were retained."""
        return sum(type_counts.kept for type_counts in self.types.values())

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        types = {name: {**vars(counts), "dropped": dict(counts.dropped)} for name, counts in self.types.items()}
        return {**vars(self), "types": types, "kept": self.kept}

    def summary(self) -> list[str]:
        """A line for all, one for each type, and one for the calls."""
        counts, calls = self.counts, self.calls
        requested = sum(type_counts.asked for type_counts in self.types.values())
        passages = f"{counts['passages_with_queries']:,} of {counts['passages']:,} passages"
        lines = [f"{self.kept:,} of {requested:,} queries kept, of {passages}"]
        for name, type_counts in self.types.items():
            why = listed_causes(type_counts.dropped)
            lines.append(f"{name}: {type_counts.kept:,} of {type_counts.asked:,}{f' ({why})' if why else ''}")
        tokens = calls["prompt_tokens"] + calls["completion_tokens"]
        lines.append(
            f"{calls['calls']:,} calls ({tokens:,} tokens), {calls['from_store']:,} answers from the answer cache"
        )
        return lines


def listed_causes(counts: Mapping[str, int]) -> str:
    """How many for each cause, in the order of :data:`CAUSES`."""
    return "; ".join(f"{counts[cause]:,}: {CAUSES[cause]}" for cause in CAUSES if counts.get(cause))


LONGEST = 100
"""Words of a query at most."""
TELLING = 8
"""A run of fewer words that passage and query share, such as a name, is no copy."""
_REFERS = re.compile(
    r"\b(?:the|this|that|above|given|provided) (?:passage|text|article|excerpt|paragraph|abstract|document)\b", re.I
)
_GRADE = re.compile(r"(?<![\d.])([0-3])(?!\d|[.,]\d)")

Read = TypeVar("Read")


class Asker:
    """Asks one model for queries and grades, and counts the answers that it rejects in ``rejections``."""

    def __init__(
        self, session: Session, prompts: Mapping[str, PromptTemplate], retries: int, rejections: Counter[str]
    ) -> None:
        self._session, self._prompts, self._retries, self._rejections = session, prompts, retries, rejections

    async def query(self, passage: str, type: str) -> str:
        """A query of that type (one of :data:`~retrokit.extensions.weak_supervision.settings.TYPES`) for ``passage``.

        Raises:
            Rejected: there is none.
            ServiceError, BudgetSpent: of the session.
        """
        words = self._prompts[type].words

        def read(answer: str) -> str:
            """The query, on one line; nothing where the answer says that there is none."""
            query = " ".join(read_text(answer, words["marker"]).split())
            query_words = words_of(query)
            if query_words == words_of(words["none"]):
                return ""
            if len(query_words) > LONGEST:
                raise Rejected("too_long", f"{len(query_words)} words are too long; use at most {LONGEST}")
            if _REFERS.search(query):
                raise Rejected("refers", "it speaks of the passage, which nobody who asks has seen")
            if len(query_words) >= TELLING and holds_run(words_of(passage), query_words):
                raise Rejected("copied", "it stands in the passage word for word; use other words")
            return query

        text = await self._ask(type, read, passage=passage)
        if not text:
            raise Rejected("none", "there is none")
        return text

    async def grade(self, query: str, passage: str) -> int:
        """How well ``passage`` answers ``query``: from 0, not at all, to 3, just that. Raises as :meth:`query`."""
        marker = self._prompts["judge"].words["marker"]
        return await self._ask("judge", lambda text: read_grade(text, marker), query=query, passage=passage)

    async def _ask(self, name: str, read: Callable[[str], Read], **fields: str) -> Read:
        def whole(completion: Completion) -> Read:
            try:
                return read(prompt.answer(self._session.whole(completion)))
            except Rejected as rejected:
                self._rejections[rejected.cause] += 1
                raise

        prompt, retry = self._prompts[name], self._prompts["retry"]
        return await self._session.ask_until(prompt, retry, self._retries, whole, **fields)


def read_grade(answer: str, marker: str) -> int:
    """The grade in an answer: the first number after the marker, or the only one where there is no marker. Raises
    :class:`Rejected` if it is none from 0 to 3.

    >>> read_grade("**Grade:** 3/3, it is all there", "grade:"), read_grade("2", "grade:")
    (3, 2)
    """
    try:
        numbers = _GRADE.findall(after(answer, marker))[:1]
    except Rejected:
        numbers = re.findall(r"\d+", answer)
    if len(numbers) != 1 or numbers[0] not in "0123":
        raise Rejected("off_format", "the answer is no grade from 0 to 3")
    return int(numbers[0])


SEARCHED = 1024  # queries searched at once


@dataclass
class Query:
    """A query, the position of its passage, and the further fields of its row: ``dropped`` says why it is none."""

    passage: int
    type: str
    text: str = ""
    dropped: str | None = None
    row: dict[str, Any] = field(default_factory=dict)


@taking(QuerySettings)
def queries(settings: QuerySettings) -> WrittenQueries:
    """Let a language model write queries for the passages of a corpus, and write those that pass every filter as
    training data: ``{"anchor", "positive", "type", "id"}``, with ``positive_score``, ``negatives`` and
    ``negative_scores`` of the round trip, and ``grade`` of the judge. Answers are cached: the same call after a break
    resumes, to the same bytes.

    Raises:
        UsageError: wrong names, or a searcher that needs more than texts.
        DataError: a corpus that cannot be used, or no query that passed (the message counts why).
        ServiceError: a model failed, or no answer is a query.
        BudgetSpent, Interrupted: the budget does not suffice, or Ctrl-C. The answers are cached.
    """
    store, work = settings.kept_in(settings.output), _QueryWork(settings)
    index = work.searcher.index(work.passages) if work.searcher is not None else None
    with ResponseStore(store) as responses, responses.going_on():
        work.write(responses)
        work.take_once()
        if index is not None:
            work.search(index)
        if settings.judge != NONE:
            work.grade(responses)
        written = work.outcome()
        if not written.kept:
            why = listed_causes(sum((type_counts.dropped for type_counts in written.types.values()), Counter()))
            raise DataError(settings.source, f"no query is left ({why}); the answers are cached in {store}")
        write_jsonl(settings.output, (work.row_of(query) for query in work.remaining))
    return written


@taking(QuerySettings)
@estimating()
def estimate_queries(settings: QuerySettings) -> dict[str, int]:
    """An estimate of the least calls, from the texts only: ``passages``, ``queries`` to write, and about
    how many ``prompt_tokens``. Grading takes as many calls again at the most. Raises as :func:`queries` does before the
    first call."""
    work = _QueryWork(settings)
    prompts = [work.prompts[type] for type in settings.types]
    tokens = 0
    for index in work.chosen:
        for prompt in prompts:
            tokens += estimated_tokens(prompt.system, prompt.fill(passage=work.passages[index]))
    return {"passages": len(work.chosen), "queries": len(work.chosen) * len(prompts), "prompt_tokens": tokens}


class _QueryWork:
    """The passages (different texts, each with the id of its first document), and their queries on the way through the
    filters. Raises as :func:`queries` does before the first call."""

    def __init__(self, settings: QuerySettings) -> None:
        _check_names(settings)
        check_settings(settings)
        self.settings = settings
        self.prompts = load_prompts(settings.prompts or OURS, SHAPES, __package__, WORDINGS)
        self._read_passages()
        files = [training_data.texts_file(path, queries_file) for path in settings.existing]
        self.existing: set[str] = set()
        for file in files:
            self.existing.update(_key(text) for _, text in read_queries(file))
        self.searcher = None if settings.searcher == NONE else retrieval.create(settings.searcher, settings.device)
        self.writer = self.judge = llms.registry.create(settings.llm)
        if settings.prompts is None:
            self.prompts = load_prompts(wording_for(self.writer), SHAPES, __package__, WORDINGS)
        if settings.judge not in (None, NONE, settings.llm):
            self.judge = llms.registry.create(settings.judge)
        self._queries = [Query(index, type) for index in self.chosen for type in settings.types]
        self._rejections: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()

    def _read_passages(self) -> None:
        path = training_data.texts_file(self.settings.source, corpus_file)
        ids: dict[str, str] = {}
        self._left_out = {"passages_without_text": 0, "passages_repeated": 0}
        for document in read_corpus(path):
            text = document.full_text
            if not text or text in ids:
                self._left_out["passages_repeated" if text else "passages_without_text"] += 1
            else:
                ids[text] = document.id
        if not ids:
            raise DataError(path, "contains no passage with text")
        self.passages = TextList(ids, list(ids.values()))
        seed = self.settings.seed
        order = sorted(range(len(ids)), key=lambda index: bits(seed, "passage", self.passages.ids[index]))
        self.chosen = sorted(order[: self.settings.limit])

    @property
    def remaining(self) -> list[Query]:
        """The queries that no filter has dropped, in the order of the corpus."""
        return [query for query in self._queries if query.dropped is None]

    def row_of(self, query: Query) -> dict[str, Any]:
        """The row of training data of a query."""
        row = {"anchor": query.text, "positive": self.passages[query.passage], "type": query.type}
        return {**row, "id": self.passages.ids[query.passage], **query.row}

    def write(self, responses: ResponseStore) -> None:
        """Have every query written; raises :class:`ServiceError` if no answer is one."""

        async def task(asker: Asker, query: Query) -> None:
            try:
                query.text = await asker.query(self.passages[query.passage], query.type)
            except Rejected as rejected:
                query.dropped = rejected.cause

        self._ask(self.writer, responses, "writing", self._queries, task)
        if all(query.dropped not in (None, NONE) for query in self._queries):
            why = listed_causes(Counter(query.dropped for query in self._queries if query.dropped))
            raise ServiceError(
                f"nothing that the model wrote is a query ({why}); answers are cached in {responses.path}"
            )

    def take_once(self) -> None:
        """Drop existing queries, and all but the first of those with the same words."""
        seen: set[str] = set()
        for query in self.remaining:
            key = _key(query.text)
            if key in self.existing:
                query.dropped = "existing"
            elif key in seen:
                query.dropped = "repeated"
            seen.add(key)

    def search(self, index: Index) -> None:
        """Drop queries that do not bring their passage back; of the others, note the scores and the negatives."""
        remaining, settings = self.remaining, self.settings
        depth = min(settings.k + settings.negatives, len(self.passages))
        with progress("round trip", len(remaining), "queries") as advance:
            for start in range(0, len(remaining), SEARCHED):
                batch = remaining[start : start + SEARCHED]
                results = index.search(TextList(query.text for query in batch), depth)
                for query, (scores, passages) in zip(batch, results, strict=True):
                    ranks = np.flatnonzero(passages[: settings.k] == query.passage)
                    if not len(ranks):
                        query.dropped = "round_trip"
                        continue
                    positive_score = scores[ranks[0]]
                    below = np.flatnonzero(scores < positive_score)[: settings.negatives]
                    query.row |= {
                        "positive_score": round(float(positive_score), 6),
                        "negatives": [self.passages[passage] for passage in passages[below]],
                        "negative_scores": [round(float(score), 6) for score in scores[below]],
                    }
                advance(len(batch))

    def grade(self, responses: ResponseStore) -> None:
        """Drop queries that the judge grades too low, or not at all."""

        async def task(asker: Asker, query: Query) -> None:
            try:
                grade = await asker.grade(query.text, self.passages[query.passage])
            except Rejected:
                query.dropped = "no_grade"
                return
            query.row["grade"] = grade
            query.dropped = "low_grade" if grade < self.settings.grade else None

        self._ask(self.judge, responses, "judging", self.remaining, task)

    def _ask(
        self,
        llm: LLM,
        responses: ResponseStore,
        doing: str,
        queries: Sequence[Query],
        task: Callable[[Asker, Query], Awaitable[None]],
    ) -> None:
        limit, concurrency = self.settings.max_tokens, self.settings.concurrency
        spent = self._calls["prompt_tokens"] + self._calls["completion_tokens"]
        budget = None if limit is None else max(1, limit - spent)

        async def work() -> None:
            sampling = self.settings.sampling
            session = Session(llm, responses, concurrency=concurrency, max_tokens=budget, sampling=sampling)
            asker = Asker(session, self.prompts, self.settings.retries, self._rejections)
            async with session:
                with progress(doing, len(queries), "queries") as advance:
                    async for _ in run_all(partial(task, asker), queries, limit=max(2 * concurrency, 8)):
                        advance(1)
            self._calls.update(session.counts)

        wait_for(work())

    def outcome(self) -> WrittenQueries:
        """The counts of all queries."""
        types = {type: TypeCounts() for type in self.settings.types}
        for query in self._queries:
            counts_of_type = types[query.type]
            counts_of_type.asked += 1
            if query.dropped is None:
                counts_of_type.kept += 1
            else:
                counts_of_type.dropped[query.dropped] += 1
        passages_with = len({query.passage for query in self.remaining})
        counts = {"passages": len(self.chosen), **self._left_out, "passages_with_queries": passages_with}
        return WrittenQueries(self.settings.output, counts, types, dict(self._rejections), dict(self._calls))


def _check_names(settings: QuerySettings) -> None:
    requests: list[tuple[Registry, str]] = [(llms.registry, settings.llm)]
    if settings.judge not in (None, NONE):
        requests.append((llms.registry, settings.judge))
    if settings.searcher != NONE:
        requests.append((retrieval.registry_of(settings.searcher), settings.searcher))
    parse_all(requests)


def _key(query: str) -> str:
    return " ".join(words_of(query))
