"""What a graph in 8 bits is calibrated with, and what converting has cost: cosines to the model."""

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from retrokit.core.errors import DataError
from retrokit.core.files import digest
from retrokit.data.beir import corpus_file
from retrokit.data.pairs import read_source, texts_file
from retrokit.data.training_rows import Unlabelled

CALIBRATION, MEASURED = 96, 200  # texts, and others where there are enough
BATCH = 8
Forward = Callable[[dict[str, Any]], dict[str, Any]]
"""Features of a batch → the features, and token embeddings among them."""
LEAST = {"fp32": 0.9999, "int8": 0.8}  # median cosine to the model; below, the conversion has failed


class CalibrationTexts:
    """The texts of ``path``: a BEIR folder, a JSONL file of texts, or by default English of Python's own manual.

    Raises:
        DataError: it is neither.
    """

    def __init__(self, path: str | None) -> None:
        self.name = "Python's manual" if path is None else path
        self._file = None if path is None else texts_file(path, corpus_file)

    @cached_property
    def digest(self) -> str:
        """Of all that it reads."""
        return hashlib.sha256("".join(_manual()).encode()).hexdigest() if self._file is None else digest(self._file)

    @cached_property
    def texts(self) -> list[str]:
        """Those to calibrate with first, in an order that is random and always the same."""
        records = [] if self._file is None else read_source(self._file, "texts").records
        texts = [record.text for record in records if isinstance(record, Unlabelled)] if records else _manual()
        texts = [text for text in texts if text.strip()]
        random.Random(0).shuffle(texts)
        return texts

    def calibration(self) -> list[list[str]]:
        """Batches of texts of about one length."""
        texts = sorted(self.texts[:CALIBRATION], key=len)
        return [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]

    def compare(self, model: SentenceTransformer, plain: Forward, computed: Forward, dtype: str) -> str:
        """What embeddings are worth where ``computed`` stands in for ``plain``, the transformer of ``model``: one line.

        Raises:
            DataError: they are not those of the model.
        """
        texts = self.texts[CALIBRATION if len(self.texts) >= 2 * CALIBRATION else 0 :][:MEASURED]
        before, after = (_embedded(model, way, texts) for way in (plain, computed))
        cosines = torch.cosine_similarity(before.double(), after.double())
        if not cosines.median() >= LEAST[dtype]:
            problem = f"cannot be computed so: half of the cosines to the model are below {cosines.median():.4f}"
            raise DataError(self.name, problem)
        return f"cosine to fp32 at least {cosines.min():.4f}, median {cosines.median():.4f} ({len(cosines)} texts)"


def _manual() -> list[str]:
    """Paragraphs of the manual that comes with Python."""
    from pydoc_data.topics import topics

    paragraphs = (" ".join(part.split()) for topic in sorted(topics) for part in topics[topic].split("\n\n"))
    return [paragraph for paragraph in dict.fromkeys(paragraphs) if len(paragraph) >= 80]


@torch.inference_mode()
def _embedded(model: SentenceTransformer, transformer: Forward, texts: Sequence[str]) -> Tensor:
    """Embeddings of documents, float32 ``[n, d]``, in the order of ``texts``."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    embeddings: list[Tensor] = []
    for rows in np.split(order, range(BATCH, len(order), BATCH)):
        prompt = (model.prompts or {}).get("document") or None
        features = transformer(model.preprocess([texts[row] for row in rows], prompt=prompt, task="document"))
        for module in list(model)[1:]:
            features = module(features)
        embeddings.append(features["sentence_embedding"].float())
    return torch.cat(embeddings)[torch.from_numpy(np.argsort(order))]
