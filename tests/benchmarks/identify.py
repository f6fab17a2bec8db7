"""Planted mixtures for ``retrokit vectors identify``: precision and recall by row, and how often intervals cover.

    python tests/benchmarks/identify.py CORPUS [CORPUS …] --encoder minilm --other static:dim=384 --pool 160
    python tests/benchmarks/identify.py CORPUS --encoder static:dim=384 --other static:dim=384,seed=1 --rows 1500
    python tests/benchmarks/identify.py CORPUS --rows 100000 --draws 1 --time

``--pool`` texts of each corpus are embedded with each kind of damage once. A draw takes ``--rows`` of them, one kind,
and a share of 0.5 to 20% of the rows. With RETROKIT_CACHE=FOLDER what identify embeds is cached too, so that draws are
cheap. A row that the damage moves by less than ``--least`` in cosine distance, as a cut of a short text does, does not
count as damaged.

Each line has the kind and, of all rows of its draws: precision and recall of "differs", and recall among the rows that
were embedded; the share of damaged rows whose explanation names the damage; false alarms; and the share of draws whose
interval covers. With ``--time`` the seconds of a draw are compared with those of embedding 5,000 texts and a minute.
"""

import argparse
import functools
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
NAMES = {
    **{kind: f"cut at {kind.removeprefix('cut-')} tokens" for kind in KINDS if kind.startswith("cut-")},
    **{"prompt": "prompt 'query: '", "no-prompt": "without its prompt", "pooling": "pooling cls"},
    **{"truncated": "dimensions", "unnormalised": "not normalised", "edited": "none of these"},
    "shuffled": "the text of another row",
}
"""What the explanation of a damaged row contains; of another model, its name."""
Rows = np.ndarray


def unit(rows: Rows) -> Rows:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def edited(text: str) -> str:
    """The text without its last third."""
    words = text.split()
    return " ".join(words[: max(1, len(words) * 2 // 3)])


def damage(kind: str, encoder: str, other: str, texts: Sequence[str], plain: Rows) -> Rows:
    """What a kind of damage leaves of the vectors of ``texts``."""

    def embedded(spec: str, items: Sequence[str], precision: str = "fp32", **params: Any) -> Rows:
        changed = encoders.registry.parse(spec).changed(**params)
        return encoders.registry.create(changed).embed(items, "document", precision)

    def quantised() -> Rows:
        low, high = plain.min(axis=0), plain.max(axis=0)
        step = np.maximum(high - low, 1e-12) / 255
        return ((plain - low) / step).round() * step + low

    make: dict[str, Callable[[], Rows]] = {
        "prompt": lambda: unit(embedded(encoder, texts, document_prompt="query: ")),
        "no-prompt": lambda: unit(embedded(encoder, texts, document_prompt="")),
        "pooling": lambda: unit(embedded(encoder, texts, pooling="cls")),
        "int8": quantised,
        "float16": lambda: plain.astype(np.float16).astype(np.float32),
        "truncated": lambda: unit(plain * (np.arange(plain.shape[1]) < plain.shape[1] // 2)),
        "unnormalised": lambda: embedded(encoder, texts),
        "edited": lambda: unit(embedded(encoder, [*map(edited, texts)])),
        "model": lambda: unit(embedded(other, texts)),
        "shuffled": lambda: plain,  # a draw permutes its rows
        "bf16": lambda: unit(embedded(encoder, texts, "bf16")),
    }
    if kind.startswith("cut-"):
        return unit(embedded(encoder, texts, max_length=int(kind.removeprefix("cut-"))))
    return make[kind]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--other", default="static:dim=384")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--pool", type=int, default=10**6)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--least", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    encoders.registry.create = functools.cache(encoders.registry.create)  # type: ignore[method-assign]
    random = np.random.default_rng(options.seed)
    outcomes: dict[str, list[list[float]]] = defaultdict(list)
    for corpus in options.corpora:
        texts = {document.id: document.full_text for document in read_corpus(corpus) if document.text}
        pool = [*texts]
        pool = [pool[row] for row in random.permutation(len(pool))[: options.pool]]
        pool_texts = [texts[id] for id in pool]
        vectors = unit(encoders.registry.create(options.encoder).embed(pool_texts, "document", "fp32"))
        damaged: dict[str, Rows] = {}
        for draw in range(options.draws // len(options.corpora)):
            kind = options.kinds[draw % len(options.kinds)]
            if kind not in damaged:
                damaged[kind] = damage(kind, options.encoder, options.other, pool_texts, vectors)
            rows = random.permutation(len(pool))[: options.rows]
            count = max(2, round(len(rows) * np.exp(random.uniform(np.log(0.005), np.log(0.2)))))
            chosen = random.choice(len(rows), count, replace=False)
            sources = rows[chosen]
            if kind == "shuffled":
                sources = np.roll(sources, 1)
            plain = vectors[rows]
            stored = plain.copy()
            stored[chosen] = damaged[kind][sources]
            changed = 1 - np.einsum("nd,nd->n", unit(stored), plain) > options.least
            if kind == "unnormalised":
                changed[chosen] = True
            if kind in HARMLESS:
                changed[:] = False
            ids = [pool[row] for row in rows]
            outcomes[kind].append(explain(options, kind, texts, ids, stored, changed))
        show(outcomes)


def show(outcomes: dict[str, list[list[float]]]) -> None:
    titles = ["draws", "rows", "damaged", "precision", "recall", "(embedded)", "named", "false", "covered", "seconds"]
    print(f"{'kind':14}" + "".join(f"{title:>11}" for title in titles))
    for kind, draws in outcomes.items():
        rows, planted, named, hits, embedded_planted, embedded_hits, explained, covered, seconds = np.sum(draws, axis=0)
        figures = [
            f"{len(draws)}",
            f"{rows:.0f}",
            f"{planted:.0f}",
            f"{hits / named:.4f}" if named else "-",
            f"{hits / planted:.4f}" if planted else "-",
            f"{embedded_hits / embedded_planted:.4f}" if embedded_planted else "-",
            f"{explained / planted:.4f}" if planted else "-",
            f"{named - hits:.0f}",
            f"{covered / len(draws):.4f}",
            f"{seconds / len(draws):.1f}",
        ]
        print(f"{kind:14}" + "".join(f"{figure:>11}" for figure in figures), flush=True)


def explain(
    options: argparse.Namespace, kind: str, texts: dict[str, str], ids: list[str], stored: Rows, changed: Rows
) -> list[float]:
    """Counts of a draw, as :func:`show` prints them."""
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
    name = NAMES.get(kind, encoders.registry.create(options.other).name)
    explained = np.array([name in " ".join([row["explanation"] or "", *row.get("also", [])]) for row in rows])
    hits = differs & changed
    share = 1 - changed.mean()
    first = report.shares[0]
    covered = first.low - 1e-9 <= share <= first.high + 1e-9
    if options.time:
        encoder = encoders.registry.create(options.encoder)
        start = time.perf_counter()
        encoder.embed([texts[id] for id in ids[:5000]], "document", "fp32")
        print(f"{seconds:.0f} s; 5,000 texts and a minute: {time.perf_counter() - start + 60:.0f} s")
    counts = [changed, differs, hits, changed & embedded, hits & embedded, hits & explained]
    return [len(ids), *(float(rows.sum()) for rows in counts), float(covered), seconds]


if __name__ == "__main__":
    main()
