"""Planted mixtures for ``retrokit vectors identify``: precision and recall by row, and how often intervals cover.

    python tests/benchmarks/identify.py CORPUS [CORPUS …] --encoder minilm --other HUB-ID [--draws 500] [--rows 3000]
    python tests/benchmarks/identify.py CORPUS --encoder static:dim=384 --other static:dim=384,seed=1 --draws 20
    python tests/benchmarks/identify.py CORPUS --rows 100000 --draws 1 --time

A draw takes ``--rows`` texts, one kind of damage and a share of 0.5 to 20% of the rows. Damage that leaves a row as it
is (a cut of a text that is shorter) does not count. Each line has the kind, and over its draws: precision and recall
of rows that differ, among those that were embedded and among all, and the share of draws whose interval covers. With
``--time`` the seconds of a draw are compared with those of embedding 5,000 texts and a minute.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from retrokit import encoders
from retrokit.data.corpus import read_corpus
from retrokit.extensions.vectors.identification import identify

KINDS = (
    *("prompt", "no-prompt", "pooling", "cut-64", "cut-128", "cut-256", "int8", "float16", "truncated"),
    *("unnormalised", "edited", "model", "shuffled", "bf16"),
)
HARMLESS = ("int8", "float16", "bf16")
"""Kinds that do not count as a difference: any row that is named is a false alarm."""
Rows = np.ndarray


def unit(rows: Rows) -> Rows:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def edited(text: str) -> str:
    """The text without its last third."""
    words = text.split()
    return " ".join(words[: max(1, len(words) * 2 // 3)])


def damage(kind: str, encoder: str, other: str, texts: Sequence[str], plain: Rows) -> Rows:
    """What a kind of damage leaves of the vectors of ``texts``."""

    def embedded(spec: str, items: Sequence[str], precision: str = "fp32") -> Rows:
        return encoders.registry.create(spec).embed(items, "document", precision)

    def quantised() -> Rows:
        low, high = plain.min(axis=0), plain.max(axis=0)
        step = np.maximum(high - low, 1e-12) / 255
        return ((plain - low) / step).round() * step + low

    make: dict[str, Callable[[], Rows]] = {
        "prompt": lambda: unit(embedded(f"{encoder},document_prompt=query: ", texts)),
        "no-prompt": lambda: unit(embedded(f"{encoder},document_prompt=", texts)),
        "pooling": lambda: unit(embedded(f"{encoder},pooling=cls", texts)),
        "int8": quantised,
        "float16": lambda: plain.astype(np.float16).astype(np.float32),
        "truncated": lambda: unit(plain * (np.arange(plain.shape[1]) < plain.shape[1] // 2)),
        "unnormalised": lambda: embedded(encoder, texts),
        "edited": lambda: unit(embedded(encoder, [*map(edited, texts)])),
        "model": lambda: unit(embedded(other, texts)),
        "shuffled": lambda: np.roll(plain, 1, axis=0),
        "bf16": lambda: unit(embedded(encoder, texts, "bf16")),
    }
    if kind.startswith("cut-"):
        return unit(embedded(f"{encoder},max_length={kind.removeprefix('cut-')}", texts))
    return make[kind]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--other", default="static:dim=384")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    outcomes: dict[str, list[list[float]]] = defaultdict(list)
    for corpus in options.corpora:
        texts = {document.id: document.full_text for document in read_corpus(corpus) if document.text}
        every = list(texts)
        vectors = unit(encoders.registry.create(options.encoder).embed([*texts.values()], "document", "fp32"))
        for draw in range(options.draws // len(options.corpora)):
            kind = options.kinds[draw % len(options.kinds)]
            rows = random.choice(len(every), min(options.rows, len(every)), replace=False)
            plain = vectors[rows]
            ids = [every[row] for row in rows]
            count = max(2, round(len(rows) * np.exp(random.uniform(np.log(0.005), np.log(0.2)))))
            chosen = random.choice(len(rows), count, replace=False)
            stored = plain.copy()
            stored[chosen] = damage(
                kind, options.encoder, options.other, [texts[ids[row]] for row in chosen], plain[chosen]
            )
            changed = np.abs(stored - plain).max(axis=1) > 1e-4
            if kind in HARMLESS:
                changed[:] = False
            outcomes[kind].append(explain(options, texts, ids, stored, changed))
    print(f"{'kind':14}{'draws':>6}  precision, recall (embedded)  precision, recall (all)  covered  seconds")
    for kind, values in outcomes.items():
        means = np.nanmean(np.array(values), axis=0)
        print(f"{kind:14}{len(values):6}  " + "  ".join(f"{mean:.4f}" for mean in means))


def explain(
    options: argparse.Namespace, texts: dict[str, str], ids: list[str], stored: Rows, changed: Rows
) -> list[float]:
    """Precision and recall among embedded rows, among all, whether the interval covers, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "index.npy", stored.astype(np.float32))
        lines = (json.dumps({"id": id, "text": texts[id]}) + "\n" for id in ids)
        (folder / "index.ids.jsonl").write_text("".join(lines))
        start = time.perf_counter()
        report = identify(str(folder / "index.npy"), [options.encoder, options.other], rows=str(folder / "rows.jsonl"))
        seconds = time.perf_counter() - start
        rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    differs = np.array([row["differs"] for row in rows])
    embedded = np.array([row["by"] == "embedding" for row in rows])
    figures = []
    for among in (embedded, np.ones_like(embedded)):
        hits = (differs & changed & among).sum()
        named, planted = (differs & among).sum(), (changed & among).sum()
        figures += [hits / named if named else 1.0, hits / planted if planted else 1.0]
    share = 1 - changed.mean()
    first = report.shares[0]
    figures += [float(first.low - 1e-9 <= share <= first.high + 1e-9), seconds]
    if options.time:
        encoder = encoders.registry.create(options.encoder)
        start = time.perf_counter()
        encoder.embed([texts[id] for id in ids[:5000]], "document", "fp32")
        print(f"{seconds:.0f} s; 5,000 texts and a minute: {time.perf_counter() - start + 60:.0f} s")
    return figures


if __name__ == "__main__":
    main()
