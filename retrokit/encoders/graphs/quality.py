"""What a graph in 8 bits is calibrated with, and what converting has cost: cosines to the model, and nDCG@10."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from retrokit.core.errors import DataError
from retrokit.core.files import digest
from retrokit.data.beir import corpus_file, digest_beir, has_judgements, read_beir
from retrokit.data.pairs import read_source, texts_file
from retrokit.data.training_rows import Unlabelled
from retrokit.metrics.ranking import evaluate_run, mean
from retrokit.metrics.significance import paired_t_test
from retrokit.similarities.base import Role, Similarity

CALIBRATION, MEASURED, QUERIES = 96, 200, 100  # texts, other texts where there are enough, judged queries
BATCH = 8
Forward = Callable[[dict[str, Any]], dict[str, Any]]
"""Features of a batch → the features, and token embeddings among them."""
LEAST = {"fp32": 0.9999, "int8": 0.8}  # median cosine to the model; below, the conversion has failed


@dataclass(frozen=True)
class _Drawn:
    """Texts in a random order of their own, and judged queries among them, if any."""

    documents: dict[str, str]
    queries: dict[str, str] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)


class CalibrationTexts:
    """The texts of ``path``: a BEIR folder, a JSONL file of texts, or by default English of Python's own manual.

    Raises:
        DataError: it is neither.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._is_judged = path is not None and os.path.isdir(path) and has_judgements(path)

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "Python's manual" if self.path is None else self.path

    @cached_property
    def digest(self) -> str:
        """Of all that it reads."""
        if self.path is None:
            return hashlib.sha256("".join(_manual()).encode()).hexdigest()
        if self._is_judged:
            return digest_beir(self.path, "test")
        return digest(texts_file(self.path, corpus_file))

    @cached_property
    def texts(self) -> _Drawn:
        """Those to calibrate with first; of judged ones, those that a judged query needs last."""
        if self.path is None:
            return _Drawn(_shuffled(enumerate(_manual())))
        if not self._is_judged:
            records = read_source(texts_file(self.path, corpus_file), "texts").records
            return _Drawn(_shuffled(enumerate(record.text for record in records if isinstance(record, Unlabelled))))
        data = read_beir(self.path)
        queries = dict(list(_shuffled(zip(data.query_ids, data.queries, strict=True)).items())[:QUERIES])
        qrels = {query: data.qrels[query] for query in queries}
        needed = {document for grades in qrels.values() for document in grades}
        documents = _shuffled(zip(data.document_ids, data.documents, strict=True))
        others = [identifier for identifier in documents if identifier not in needed]
        identifiers = [
            *others[: CALIBRATION + MEASURED],
            *(identifier for identifier in documents if identifier in needed),
        ]
        return _Drawn({identifier: documents[identifier] for identifier in identifiers}, queries, qrels)

    def calibration(self) -> list[list[str]]:
        """Batches of texts of about one length."""
        texts = sorted(list(self.texts.documents.values())[:CALIBRATION], key=len)
        return [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]

    def compare(
        self, model: SentenceTransformer, plain: Forward, computed: Forward, similarity: Similarity, dtype: str
    ) -> str:
        """What embeddings are worth where ``computed`` stands in for ``plain``, the transformer of ``model``: one line.

        Raises:
            DataError: they are not those of the model.
        """
        first = CALIBRATION if len(self.texts.documents) >= 2 * CALIBRATION else 0
        documents = dict(list(self.texts.documents.items())[first:])
        if not self.texts.qrels:
            documents = dict(list(documents.items())[:MEASURED])
        sides = [_embedded(model, way, documents.values(), "document") for way in (plain, computed)]
        cosines = torch.cosine_similarity(sides[0].double(), sides[1].double())
        if not cosines.median() >= LEAST[dtype]:
            problem = f"cannot be computed so: half of the cosines to the model are below {cosines.median():.4f}"
            raise DataError(self.name, problem)
        said = f"cosine to fp32 at least {cosines.min():.4f}, median {cosines.median():.4f} ({len(cosines)} texts)"
        if not self.texts.qrels:
            return said
        query_sides = [_embedded(model, way, self.texts.queries.values(), "query") for way in (plain, computed)]
        before, after = (
            _ndcg(similarity.score(queries, side), self.texts, list(documents))
            for queries, side in zip(query_sides, sides, strict=True)
        )
        test = paired_t_test(before, after)
        return (
            f"{said}; nDCG@10 {mean(before):.4f} in fp32, {mean(after):.4f} now: {test.difference:+.4f} "
            f"(95%: {test.low:+.4f} to {test.high:+.4f}; {test.queries} queries, {len(documents)} documents)"
        )


def _manual() -> list[str]:
    """Paragraphs of the manual that comes with Python."""
    from pydoc_data.topics import topics

    paragraphs = (" ".join(part.split()) for topic in sorted(topics) for part in topics[topic].split("\n\n"))
    return [paragraph for paragraph in dict.fromkeys(paragraphs) if len(paragraph) >= 80]


def _shuffled(texts: Iterable[tuple[Any, str]]) -> dict[str, str]:
    """Texts by name, those without any left out, in an order that is always the same."""
    items = [(str(name), text) for name, text in texts if text.strip()]
    random.Random(0).shuffle(items)
    return dict(items)


@torch.inference_mode()
def _embedded(model: SentenceTransformer, transformer: Forward, texts: Iterable[str], role: Role) -> Tensor:
    """Embeddings float32 ``[n, d]`` in the order of ``texts``."""
    everything = list(texts)
    order = sorted(range(len(everything)), key=lambda place: len(everything[place]))
    embeddings: list[Tensor] = []
    for start in range(0, len(order), BATCH):
        part = [everything[place] for place in order[start : start + BATCH]]
        features = transformer(model.preprocess(part, prompt=(model.prompts or {}).get(role) or None, task=role))
        for module in list(model)[1:]:
            features = module(features)
        embeddings.append(features["sentence_embedding"].float())
    return torch.cat(embeddings)[torch.tensor(np.argsort(order))]


def _ndcg(scores: Tensor, texts: _Drawn, documents: Sequence[str]) -> dict[str, float]:
    """nDCG@10 of every query; ``scores`` ``[nq, nd]`` of the queries and ``documents``, in order."""
    run = {
        query: dict(zip(documents, row, strict=True)) for query, row in zip(texts.queries, scores.tolist(), strict=True)
    }
    return evaluate_run(texts.qrels, run, ["ndcg@10"])["ndcg@10"]
