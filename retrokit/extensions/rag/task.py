"""Question answering over what a retriever finds: the first passages, a reader's answer, exact match and token F1
(MAG, 5.2 and J).

The prompt is MAG's (J.3): the question before the passages, so that what a reader cannot hold is the end of the last
passages; "Answer:" stays.
"""

import os
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.calls import wait_for
from retrokit.core.errors import DataError, ServiceError
from retrokit.core.files import digest
from retrokit.core.notices import progress
from retrokit.core.registry import head_of
from retrokit.data.beir import corpus_file, queries_file, read_answers
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.evaluation.tasks.base import Measured, SearchTask, left_out, run_of
from retrokit.extensions.rag.metrics import exact_match, token_f1
from retrokit.llm import registry as llms
from retrokit.llm.base import LLM, Prompt, Sampling
from retrokit.llm.session import Session, run_all
from retrokit.llm.store import ResponseStore
from retrokit.ranking.retrieval.base import Index, Searcher, TextList


def prompt_of(question: str, passages: Sequence[str]) -> Prompt:
    """MAG's prompt (J.3).

    >>> print(prompt_of("Who purrs?", ["Cats purr.", "Dogs bark."]).text)
    Question: Who purrs?
    Answer the question based on the following context:
    [1] Cats purr. [2] Dogs bark.
    Answer:
    """
    before = f"Question: {question}\nAnswer the question based on the following context:\n"
    numbered = " ".join(f"[{number}] {passage}" for number, passage in enumerate(passages, start=1))
    return Prompt(before, numbered, "\nAnswer:")


@dataclass(frozen=True)
class Questions:
    """The questions that have answers, by id, and the passages, in descending order of their ids.

    ``counts``: queries, queries_without_answers (left out), documents, documents_without_text.
    """

    folder: Path
    questions: dict[str, str]
    answers: dict[str, list[str]]
    documents: TextList
    counts: dict[str, int]


def read_questions(folder: str | Path) -> Questions:
    """Read ``corpus.jsonl``, and ``queries.jsonl`` whose queries have ``answers``. Raises :class:`DataError` for no
    such folder, a wrong line, or no query with answers."""
    folder = Path(folder)
    if not os.path.isdir(folder):
        raise DataError(folder, "is not a folder; expected corpus.jsonl, and queries.jsonl with answers")
    answers, every = read_answers(folder), dict(read_queries(queries_file(folder)))
    questions = {query: text for query, text in every.items() if query in answers}
    if not questions:
        raise DataError(queries_file(folder), "no query has answers; expected a field 'answers' with a list of them")
    # in descending order of ids, so that equal scores rank as trec_eval ranks them
    corpus = sorted(read_corpus(corpus_file(folder)), key=lambda document: document.id, reverse=True)
    passages = TextList((document.full_text for document in corpus), [document.id for document in corpus])
    counts = {
        "queries": len(questions),
        "queries_without_answers": len(every) - len(questions),
        "documents": len(passages),
        "documents_without_text": sum(not passage for passage in passages),
    }
    return Questions(folder, questions, answers, passages, counts)


class Rag(SearchTask):
    """Answers to the questions of a folder from the ``k`` best passages: greedy ones of ``reader``, of ``new_tokens``
    at most, cached in the file ``store`` if given."""

    main_metric = "exact_match"
    shown_metrics = ("exact_match", "f1")
    default_metrics = shown_metrics

    def __init__(
        self, data: Questions, reader: LLM, k: int = 5, new_tokens: int = 32, store: str | Path | None = None
    ) -> None:
        self.data = data
        self.counts = data.counts
        self.queries = TextList(data.questions.values(), list(data.questions))
        self.documents = data.documents
        self.reader = reader
        self.k = k
        self.sampling = Sampling(max_tokens=new_tokens)
        self.store = store

    def describe(self) -> str:
        counts = self.data.counts
        line = (
            f"{self.data.folder.resolve().name}: {counts['queries']:,} questions, {counts['documents']:,} documents, "
            f"the {self.k} best of which {self.reader.spec} reads"
        )
        words = {
            "queries_without_answers": "queries without answers, left out",
            "documents_without_text": "documents without text, kept as empty",
        }
        return line + left_out(counts, words)

    def digest(self) -> str:
        """The digest of the files read, and what of the reader decides an answer."""
        folder = self.data.folder
        files = [path.relative_to(folder).as_posix() for path in (corpus_file(folder), queries_file(folder))]
        return f"{digest(folder, files)} {self.reader.identity}, {self.sampling.max_tokens} tokens"

    def depth(self, names: Sequence[str]) -> int:
        return self.k

    def measure_index(self, index: Index, names: Sequence[str], depth: int, searcher: Searcher) -> Measured:
        """Exact match and F1 of the reader's answers. Raises :class:`UsageError` if a question does not fit it."""
        lists, questions = index.search(self.queries, depth), self.data.questions
        prompts = [
            prompt_of(question, [self.documents[i] for i in positions])
            for question, (_, positions) in zip(self.queries, lists, strict=True)
        ]
        fitted = [self.reader.fitted(prompt, self.sampling.max_tokens) for prompt in prompts]
        pairs = [(text, self.data.answers[query]) for query, text in zip(questions, self._read(fitted), strict=True)]
        per_query = {
            name: dict(zip(questions, (score(*pair) for pair in pairs), strict=True))
            for name, score in (("exact_match", exact_match), ("f1", token_f1))
        }
        shortened = sum(text != prompt.text for text, prompt in zip(fitted, prompts, strict=True))
        return Measured(
            per_query=per_query,
            configuration={"reader": self.reader.spec, "k": self.k},
            counts={"prompts_shortened": shortened},
            run=run_of(lists, list(questions), self.documents.ids),
        )

    def _read(self, prompts: Sequence[str]) -> list[str]:
        """The answer to each prompt: the first line of what the reader writes."""

        async def read() -> list[str]:
            # the shortest first, so that a local model computes prompts of about the same length together
            order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
            texts = [""] * len(prompts)
            with (
                nullcontext() if self.store is None else ResponseStore(self.store) as store,
                progress("reading", len(prompts), "prompts") as advance,
            ):
                async with (
                    Session(self.reader, store, sampling=self.sampling) as session,
                    aclosing(run_all(session.ask, [prompts[i] for i in order])) as answers,
                ):
                    for position in order:
                        texts[position] = (await anext(answers)).text
                        advance(1)
            if not any(texts):
                raise ServiceError(f"{self.reader.spec} says nothing to any of {len(prompts):,} questions")
            return [(text.splitlines() or [""])[0].strip() for text in texts]

        return wait_for(read())


def rag(path: str, reader: str, k: int, new_tokens: int, store: str | None, device: str | None = None) -> Rag:
    """The task of a folder of questions with answers, and a reader: a language model of the registry, or what
    ``local`` takes.

    Raises:
        UsageError: a reader's spec that is wrong.
        DataError: as for :func:`read_questions`, or a folder without a reader.
        ServiceError: a reader's hub id that cannot be had.
    """
    named = head_of(reader) in llms.names()
    spec = llms.parse(reader if named else f"local:{reader}")
    data = read_questions(path)  # before a large model is loaded
    return Rag(data, llms.create_on(spec, device), k, new_tokens, store)
