"""The table of examples/structural_negatives.sh as Markdown: mean ± deviation over seeds.

python examples/structural_negatives_table.py OUT
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

COSINES = ("cosine_near_miss", "cosine_near_miss/negation", "cosine_near_miss/binding", "cosine_near_miss/spatial")


def show(values: list[float]) -> str:
    """Mean, and deviation where there are several."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def main(folder: Path) -> None:
    """Print a row per measure, a column per model."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("[0-9]*.json")):
        for result in json.loads(path.read_text())["results"]:
            model = next((name for name in ("A", "B") if f"run-{name}-" in result["encoder"]), "before")
            task = result["task"].rpartition("/")[2]
            names = ("ndcg@10", "accuracy@1") if "ndcg@10" in result["metrics"] else COSINES
            for name in names:
                found[name if name in COSINES else f"{task}: {name}"][model].append(result["metrics"][name])
    seeds = max(len(values) for models in found.values() for values in models.values())
    print(f"{seeds} seed{'s' * (seeds > 1)}\n")
    print("| measure | before | A | B | (B − A) / A |")
    print("|---|---:|---:|---:|---:|")
    for measure, models in found.items():
        first, second = statistics.mean(models["A"]), statistics.mean(models["B"])
        cells = " | ".join(show(models[name]) for name in ("before", "A", "B"))
        print(f"| {measure} | {cells} | {100 * (second - first) / first:+.1f}% |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
