"""How fast is a cross-encoder beside the library's ``CrossEncoder.predict``? Not part of the test suite.

    python tests/benchmarks/cross_encoder.py [PAIRS] [TURNS]

The model has minilm's weights and a random output layer. The pairs are docstrings: of mixed lengths, then each repeated
until it fills 256 tokens. Both sides score in turns; times are medians, ratios those of the medians.
"""

import sys
import tempfile
import time
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
            for precision in ("fp32", "bf16"):
                row(folder, name, precision, queries, texts, turns)


def row(folder: str, name: str, precision: str, queries: list[str], documents: list[str], turns: int) -> None:
    """Time both sides in turns, the first turn apart."""
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    options = {"dtype": dtypes[precision]}
    library = CrossEncoder(folder, device="cpu", max_length=LENGTH, model_kwargs=options)
    reranker = reranking.registry.create(f"cross-encoder:{folder},max_length={LENGTH},dtype={precision}", device="cpu")
    together = list(zip(queries, documents, strict=True))
    times: dict[str, list[float]] = {"library": [], "retrokit": []}
    for _ in range(turns + 1):
        began = time.perf_counter()
        theirs = library.predict(together, show_progress_bar=False)
        times["library"].append(time.perf_counter() - began)
        began = time.perf_counter()
        ours = reranker.score_pairs(queries, documents)
        times["retrokit"].append(time.perf_counter() - began)
    theirs_median, ours_median = median(times["library"][1:]), median(times["retrokit"][1:])
    difference = float(np.abs(theirs - ours).max())
    print(f"{len(documents)} pairs, {name}, {precision}, {torch.get_num_threads()} threads:", end=" ")
    print(f"library {theirs_median:.2f} s, retrokit {ours_median:.2f} s, {theirs_median / ours_median:.2f} x;", end=" ")
    print(f"scores differ by {difference:.1g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
