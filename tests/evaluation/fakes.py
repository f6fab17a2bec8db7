"""Encoders whose embeddings are given, benchmark files written by hand, and a listener that remembers."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.notices import Advance
from retrokit.encoders.base import Encoder
from retrokit.encoders.precision import choose_precision, name_of
from retrokit.ranking.reranking import dense
from retrokit.similarities.base import Similarity


class GivenEncoder(Encoder):
    """Stands in for an encoder: what each text's embedding is, is given. Counts what it is asked for."""

    dimension = 0
    device = torch.device("cpu")

    def __init__(self, vectors: Mapping[str, Sequence[float]], spec: str = "given", similarity: str = "cosine") -> None:
        self.vectors = vectors
        self.spec = spec
        self.similarity = retrokit.similarity(similarity)
        self.dimension = len(next(iter(vectors.values())))
        self.embedded: list[tuple[str, list[str], str]] = []
        self.used_with: list[str] = []

    def embed(self, texts: Sequence[str], role: str, precision: str = "auto") -> np.ndarray:
        self.embedded.append((role, list(texts), precision))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32).reshape(len(texts), self.dimension)

    def computes_in(self, precision: str = "auto") -> str:
        return name_of(choose_precision(precision, self.device))

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        self.used_with.append(similarity.spec)
        similarity.check_dimension(dims or self.dimension)

    def fingerprint(self) -> str:
        return "print"

    def key(self, precision: str = "auto") -> str:
        return f"{self.fingerprint()} {self.computes_in(precision)}"


class _Hashed(dict[str, list[float]]):
    def __init__(self, seed: int) -> None:
        super().__init__({"": [1.0] * 8})
        self.seed = seed

    def __missing__(self, text: str) -> list[float]:
        digest = hashlib.sha256(f"{self.seed} {text}".encode()).digest()
        return np.random.default_rng(list(digest)).normal(size=8).tolist()


def hashed(number: int, device: str | None = None) -> GivenEncoder:
    """An entry of the encoder registry: random embeddings of 8 dimensions that the text and the number decide."""
    return GivenEncoder(_Hashed(number))


def write_folder(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    split: str = "test",
) -> Path:
    """A BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps({"_id": identifier, "text": text}) for identifier, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    judged = [f"{query}\t{document}\t{grade}" for query, grades in qrels.items() for document, grade in grades.items()]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    return folder


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@contextmanager
def piped(number: int = 87) -> Iterator[Callable[[str], str]]:
    """A function that puts a text into a pipe, always of the same name, which it returns."""

    def give(text: str) -> str:
        reader, writer = os.pipe()
        os.dup2(reader, number)
        os.close(reader)
        with os.fdopen(writer, "w") as stream:
            stream.write(text)
        return f"/dev/fd/{number}"

    try:
        os.dup2(0, number)  # so that there is something to close
        yield give
    finally:
        os.close(number)


class Notices:
    """A listener that remembers: notices; of each display of progress its label, total and unit, then each advance."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.displays: list[list] = []

    def notice(self, message: str) -> None:
        self.messages.append(message)

    def progress(self, label: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
        display: list = [(label, total, unit)]
        self.displays.append(display)

        def advance(count, said="", earlier=False):
            display.append((count, earlier))

        return nullcontext(advance)


class CountedRows(np.ndarray):
    """Embeddings that remember how many of their rows are copied at once."""

    most = 0

    def __getitem__(self, key: Any) -> Any:
        taken = super().__getitem__(key)
        if isinstance(key, np.ndarray):  # which copies
            CountedRows.most = max(CountedRows.most, len(taken))
        return taken


def count_rows(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """Let :class:`GivenEncoder` return :class:`CountedRows`, and pairs be scored in batches of that size."""
    embed = GivenEncoder.embed
    monkeypatch.setattr(CountedRows, "most", 0)
    monkeypatch.setattr(GivenEncoder, "embed", lambda *words, **more: embed(*words, **more).view(CountedRows))
    monkeypatch.setattr(dense, "PAIRS_AT_ONCE", batch)
