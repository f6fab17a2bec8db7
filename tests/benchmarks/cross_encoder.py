"""How fast is a cross-encoder beside the library's ``CrossEncoder.predict``? Not part of the test suite.

    python tests/benchmarks/cross_encoder.py [PAIRS] [TURNS]

The model has minilm's weights and a random output layer. The pairs are docstrings: of mixed lengths, then each repeated
until it fills 256 tokens. Both sides score in turns; times are medians, ratios those of the medians.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from transformers import BertForSequenceClassification

from retrokit import encoders
from retrokit.data.beir import read_beir
from retrokit.data.pairs import beir_folder
from retrokit.ranking import reranking

LENGTH = 256  # tokens


def save_model(folder: str) -> None:
    """A cross-encoder of one output in ``folder``."""
    transformer = encoders.registry.create("minilm", device="cpu").to_train().model[0]
    config = transformer.auto_model.config
    config.num_labels = 1
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(transformer.auto_model.state_dict(), strict=False)
    model.save_pretrained(folder)
    transformer.tokenizer.save_pretrained(folder)


def pairs(count: int) -> tuple[list[str], list[str]]:
    """Queries and documents of the built-in set, in their own order."""
    task = read_beir(beir_folder("docstrings"))
    documents, queries = list(task.documents)[:count], list(task.queries)
    return [queries[i % len(queries)] for i in range(len(documents))], documents


def main(count: int = 320, turns: int = 5) -> None:
    """Print a row for each length and precision."""
    queries, documents = pairs(count)
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder)
        for name, texts in (("mixed", documents), ("full", [f"{text} " * 40 for text in documents])):
            row(folder, name, queries, texts, turns)


def row(folder: str, name: str, queries: list[str], documents: list[str], turns: int) -> None:
    """Time the library and retrokit in both precisions in turns, the first turn apart."""
    pairs_of_texts = list(zip(queries, documents, strict=True))
    scorers: dict[str, Callable[[], np.ndarray]] = {}
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        library = CrossEncoder(folder, device="cpu", max_length=LENGTH, model_kwargs={"dtype": dtype})
        spec = f"cross-encoder:{folder},max_length={LENGTH},dtype={precision}"
        reranker = reranking.registry.create(spec, device="cpu")
        scorers[f"library {precision}"] = partial(library.predict, pairs_of_texts, show_progress_bar=False)
        scorers[f"retrokit {precision}"] = partial(reranker.score_pairs, queries, documents)
    times: dict[str, list[float]] = {scorer: [] for scorer in scorers}
    scores: dict[str, np.ndarray] = {}
    for _ in range(turns + 1):
        for scorer, score in scorers.items():
            began = time.perf_counter()
            scores[scorer] = score()
            times[scorer].append(time.perf_counter() - began)
    first = median(times["library fp32"][1:])
    print(f"{len(documents)} pairs, {name}, {torch.get_num_threads()} threads:")
    for scorer, taken in times.items():
        seconds = median(taken[1:])
        difference = float(np.abs(scores[scorer] - scores["library fp32"]).max())
        print(f"  {scorer}: {seconds:.2f} s, {first / seconds:.2f} x; scores differ by {difference:.1g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
