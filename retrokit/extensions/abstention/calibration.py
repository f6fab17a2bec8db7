"""The file of a calibration: which searcher abstains on which corpus, by which signal."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import digest
from retrokit.data.exports import IDS, NOTE, Export
from retrokit.data.images import Image
from retrokit.data.jsonl import read_json, write_json
from retrokit.extensions.abstention.signals import SIGNALS, VERIFIER, Hubs, threshold_of
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import TextList


def corpus_of(documents: TextList | Export, name: str) -> str:
    """A digest of the documents, in any order, or of the note of an export; of texts from a pipe, its ids too. Raises
    :class:`UsageError`, about the searcher ``name``, for documents without ids."""
    if isinstance(documents, Export):
        names = [NOTE] if documents.note["source"]["digest"] else [NOTE, IDS]
        return " ".join(digest(shard.folder, names) for shard in documents.parts)
    if len(documents.ids) != len(documents):
        raise UsageError(f"{name}: recognises its corpus by ids, and these documents have none")
    content = hashlib.sha256()
    for id, text in sorted(zip(documents.ids, documents, strict=True)):
        content.update(f"{id}\0{text.digest if isinstance(text, Image) else text}\0".encode())
    return f"sha256:{content.hexdigest()}"


def mark_of(query: str) -> str:
    """A short digest by which a query is recognised."""
    return hashlib.sha256(query.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Abstention:
    """What a calibration has measured: it serves one system on one corpus.

    Attributes:
        system: the spec that makes its searcher.
        fingerprint: of what decides its scores.
        corpus: digest of the documents.
        task, data: the calibration queries' task, and the digest of its data.
        queries: short digests of the calibration queries.
        signal: what is compared with the threshold.
        verifier: spec and fingerprint of the verifier; empty: none.
        nulls: ascending signals of the calibration queries without their relevant documents.
        answerable: ascending signals of the same queries with them.
        hubs: hub scores, of the signal hubness.
    """

    system: str
    fingerprint: str
    corpus: str
    task: str
    data: str | None
    queries: list[str]
    signal: Annotated[str, (*SIGNALS, VERIFIER)]
    verifier: list[str]
    nulls: list[float]
    answerable: list[float]
    hubs: Hubs

    def write(self, path: str | Path) -> None:
        """Write it as JSON. Raises :class:`DataError`."""
        write_json(path, asdict(self), kind="abstention")

    def threshold(self, error: float, file: str) -> float:
        """The threshold for that error. Raises :class:`UsageError`, about its ``file``, if there are too few
        calibration queries."""
        limit, count = threshold_of(np.array(self.nulls), error), len(self.nulls)
        if math.isinf(limit):
            needed = f"{count:,} calibration queries, and at least {math.ceil(1 / error - 1e-9) - 1:,} are needed"
            raise UsageError(f"{file}: cannot promise an error of at most {error:g}: {needed}")
        return limit

    def unseen(self, queries: Sequence[str], name: str) -> np.ndarray:
        """The positions of the queries that were not calibrated on. Raises :class:`UsageError`, about ``name``, if more
        than half were."""
        calibrated = {*self.queries}
        unseen = np.array(
            [row for row, query in enumerate(queries) if mark_of(query) not in calibrated], dtype=np.int64
        )
        if 2 * len(unseen) < len(queries):
            shared = f"{len(queries) - len(unseen):,} of {len(queries):,} queries are those of the calibration"
            raise UsageError(f"{name}: {shared}; calibrate on another split")
        return unseen


def read_calibration(path: str | Path) -> Abstention:
    """What ``retrokit abstain calibrate`` has written. Raises :class:`UsageError` if there is no such file, and
    :class:`DataError` for another one."""
    if not Path(path).exists():
        raise UsageError(f"{path}: no such file; retrokit abstain calibrate writes it")
    calibration: Abstention = read_json(path, "a calibration of retrokit abstain calibrate", Abstention)
    if len(calibration.verifier) not in (0, 2) or len(calibration.nulls) != len(calibration.answerable):
        raise DataError(path, "is not a calibration of retrokit abstain calibrate: its lists differ in length")
    try:
        retrieval.registry.parse(calibration.system)
        check_system(calibration.system)
    except UsageError as error:
        raise DataError(path, f"was calibrated for a system that cannot be opened: {error}") from error
    return calibration


def check_system(spec: str) -> None:
    """Raise :class:`UsageError` for a system that abstains already; its file could be its own."""
    if "abstain:" in spec:
        raise UsageError(f"{spec}: abstains already; calibrate the system inside")


def verifier_of(spec: str, device: str | None) -> Reranker:
    """The reranker of that spec, to score pairs. Raises :class:`UsageError` if it is listwise."""
    verifier = reranking.create(spec, device)
    if verifier.listwise:
        raise UsageError(f"{spec}: listwise reranker; cannot score pairs")
    return verifier
