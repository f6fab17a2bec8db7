"""Question answering over what a retriever finds: the first passages, a reader's answer, exact match and token F1
(MAG, 5.2 and J).

The prompt is MAG's (J.3): the question before the passages, so that what a reader cannot hold is the end of the last
passages; "Answer:" stays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from retrokit.data.beir import corpus_file, queries_file, read_answers
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.files import digest
from retrokit.encoders.encoder import Encoder
from retrokit.encoders.generator import Generator, Prompt, load_generator
from retrokit.errors import DataError
from retrokit.evaluation.asymmetric import AsymmetricTask
from retrokit.evaluation.encoding import encode_sides, norm_statistics
from retrokit.evaluation.result import Result
from retrokit.metrics.qa import exact_match, token_f1
from retrokit.registry import Entry, Param, SpecRegistry
from retrokit.search import top_k
from retrokit.similarities.base import Role, Similarity

readers = SpecRegistry(
    "reader",
    "retrokit.readers",
    [
        Entry(
            "transformers",
            "a sequence-to-sequence or causal model: a folder or a hub id (the name may be left out)",
            "retrokit.evaluation.rag:local_reader",
            (
                Param("path", str, required=True, summary="folder or hub id"),
                Param("max_length", int, minimum=1, summary="tokens that it reads; default: what the model allows"),
                Param("new_tokens", int, 32, minimum=1, summary="tokens of an answer at most"),
            ),
            positional="path",
        ),
    ],
    fallback="transformers",
)


class Answers(NamedTuple):
    """What a reader answers, and of how many prompts it read only a part."""

    texts: list[str]
    shortened: int


class Reader(Protocol):
    """What answers prompts, such as a local model or a service.

    Attributes:
        spec: the canonical spec it was made from.
    """

    spec: str

    def answer(self, prompts: Sequence[Prompt]) -> Answers:
        """The answer to each prompt; where one is too long for the reader, the end of its middle goes."""

    def fingerprint(self) -> str | None:
        """A digest of all that decides an answer; ``None``: there is none to be had (a service)."""


class LocalReader:
    """A model of the machine's own, decoding greedily."""

    spec = ""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def answer(self, prompts: Sequence[Prompt]) -> Answers:
        """As :class:`Reader` says."""
        texts = [self.generator.fitted(prompt) for prompt in prompts]
        shortened = sum(text != prompt.text for text, prompt in zip(texts, prompts, strict=True))
        return Answers(self.generator.generate(texts), shortened)

    def fingerprint(self) -> str | None:
        """Of the model."""
        return self.generator.fingerprint()


def local_reader(path: str, max_length: int | None, new_tokens: int, device: str | None = None) -> LocalReader:
    """The reader ``transformers``; raises as :func:`retrokit.encoders.generator.load_generator` does."""
    return LocalReader(load_generator(path, max_length, new_tokens, device))


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
    document_ids: list[str]
    passages: list[str]
    counts: dict[str, int]


def read_questions(folder: str | Path) -> Questions:
    """Read ``corpus.jsonl``, and ``queries.jsonl`` whose queries have ``answers``.

    Raises:
        DataError: no such folder, a wrong line, or no query with answers.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):
        raise DataError(folder, "is no folder; expected corpus.jsonl, and queries.jsonl with answers")
    answers = read_answers(folder)
    every = dict(read_queries(queries_file(folder)))
    questions = {query: text for query, text in every.items() if query in answers}
    if not questions:
        raise DataError(queries_file(folder), "no query has answers; expected a field 'answers' with a list of them")
    # in descending order of ids, so that equal scores rank as trec_eval ranks them
    documents = sorted(read_corpus(corpus_file(folder)), key=lambda document: document.id, reverse=True)
    passages = [document.full_text for document in documents]
    return Questions(
        folder=folder,
        questions=questions,
        answers=answers,
        document_ids=[document.id for document in documents],
        passages=passages,
        counts={
            "queries": len(questions),
            "queries_without_answers": len(every) - len(questions),
            "documents": len(documents),
            "documents_without_text": sum(not passage for passage in passages),
        },
    )


class Rag(AsymmetricTask):
    """Answers to the questions of a folder from the ``k`` best passages."""

    main_metric = "exact_match"
    shown_metrics = ("exact_match", "f1")
    default_metrics = shown_metrics

    def __init__(self, data: Questions, reader: Reader, k: int = 5) -> None:
        self.data = data
        self.reader = reader
        self.k = k

    def describe(self) -> str:
        """What is used and what is left out, in a line."""
        counts = self.data.counts
        line = (
            f"{self.data.folder.resolve().name}: {counts['queries']:,} questions, {counts['documents']:,} documents, "
            f"the {self.k} best of which {self.reader.spec} reads"
        )
        left_out = {
            "queries without answers, left out": counts["queries_without_answers"],
            "documents without text, kept as empty": counts["documents_without_text"],
        }
        return line + "".join(f"; {count:,} {what}" for what, count in left_out.items() if count)

    def digest(self) -> str | None:
        """The digest of the files read and the reader; ``None`` where the reader has none."""
        reader, folder = self.reader.fingerprint(), self.data.folder
        files = [path.relative_to(folder).as_posix() for path in (corpus_file(folder), queries_file(folder))]
        return None if reader is None else f"{digest(folder, files)} {reader}"

    def evaluate(
        self,
        encoder: Encoder,
        similarities: list[Similarity],
        metrics: list[str] | None = None,
        precision: str = "auto",
        dims: int | None = None,
    ) -> list[Result]:
        """One result per similarity; the texts are encoded once.

        Raises:
            UsageError: dims or a similarity does not fit the encoder, or a question does not fit the reader.
        """
        names = list(dict.fromkeys([self.main_metric, *(metrics or self.default_metrics)]))
        sides: list[tuple[Sequence[str], Role]] = [
            (list(self.data.questions.values()), "query"),
            (self.data.passages, "document"),
        ]
        (queries, documents), configuration = encode_sides(encoder, similarities, sides, precision, dims)
        norms = {**norm_statistics(queries, "query"), **norm_statistics(documents, "document")}
        results = []
        for similarity in similarities:
            scores, positions = top_k(similarity, queries, documents, self.k, encoder.device)
            found = self.reader.answer(self._prompts(positions))
            per_query = self._measured(found.texts)
            results.append(
                Result(
                    encoder=encoder.spec,
                    similarity=similarity.spec,
                    task=self.spec,
                    main_metric=self.main_metric,
                    metrics={name: float(np.mean(list(per_query[name].values()))) for name in names},
                    per_query={name: per_query[name] for name in names},
                    counts={**self.data.counts, "prompts_shortened": found.shortened},
                    norms=norms,
                    configuration={**configuration, **similarity.statistics(), "reader": self.reader.spec, "k": self.k},
                    run=self._run(scores, positions),
                )
            )
        return results

    def _prompts(self, positions: np.ndarray) -> list[Prompt]:
        return [
            prompt_of(question, [self.data.passages[i] for i in row])
            for question, row in zip(self.data.questions.values(), positions.tolist(), strict=True)
        ]

    def _measured(self, texts: Sequence[str]) -> dict[str, dict[str, float]]:
        pairs = list(zip(self.data.questions, texts, strict=True))
        return {
            "exact_match": {query: exact_match(text, self.data.answers[query]) for query, text in pairs},
            "f1": {query: token_f1(text, self.data.answers[query]) for query, text in pairs},
        }

    def _run(self, scores: np.ndarray, positions: np.ndarray) -> dict[str, dict[str, float]]:
        return {
            query: {self.data.document_ids[i]: score for i, score in zip(row, values, strict=True)}
            for query, row, values in zip(self.data.questions, positions.tolist(), scores.tolist(), strict=True)
        }


def rag(path: str, reader: str, k: int, device: str | None = None) -> Rag:
    """The task of a folder of questions with answers, and a reader.

    Raises:
        UsageError: a reader's spec that is wrong.
        DataError: as for :func:`read_questions`, or a folder that holds no reader.
        ServiceError: a reader's hub id that cannot be had.
    """
    spec = readers.parse(reader)
    data = read_questions(path)  # before a large model is loaded
    return Rag(data, readers.create_on(spec, device), k)
