"""The table of examples/similarities_on_scifact.sh as Markdown: mean ± deviation over seeds.

python examples/similarities_table.py OUT
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

METRICS = ("ndcg@10", "recall@100", "mrr@10")


def main(folder: Path) -> None:
    """Print a row per similarity."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    gammas: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())["results"][0]
        name = "before training" if path.stem == "minilm" else result["similarity"]
        found[name].append(result["metrics"])
        if "gamma_query" in result["configuration"]:
            gammas[name].append("{gamma_query:.4f}, {gamma_document:.4f}".format(**result["configuration"]))
    print(f"| similarity | seeds | {' | '.join(METRICS)} |")
    print(f"|---|---:|{'---:|' * len(METRICS)}")
    for name, rows in found.items():
        cells = []
        for metric in METRICS:
            values = [100 * row[metric] for row in rows]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}")
        print(f"| {name} | {len(rows)} | {' | '.join(cells)} |")
    for name, values in gammas.items():
        print(f"\nγq, γd of {name}: {'; '.join(values)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
