"""The table of docs/reproduction/scripts/clip.sh as Markdown: mean ± deviation over seeds.

python docs/reproduction/scripts/clip_table.py OUT
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

CONFIGURATIONS = ("norm-sym", "nonorm-sym", "imgnorm-i2t", "nonorm-i2t", "txtnorm-t2i", "nonorm-t2i")
COLUMNS = {
    "d of images": ("text-to-image", "d"),
    "d of texts": ("image-to-text", "d"),
    "cv of images": ("text-to-image", "cv"),
    "cv of texts": ("image-to-text", "cv"),
    "cosine I→T": ("image-to-text", "cosine"),
    "cosine T→I": ("text-to-image", "cosine"),
    "dot I→T": ("image-to-text", "dot"),
    "dot T→I": ("text-to-image", "dot"),
}
"""Where each column is from: a task, whose documents are the side that it tells of, and what is measured there."""


def measured(folder: Path) -> dict[tuple[str, str, str], list[float]]:
    """The values over seeds, by configuration, task and measure; those of R@1 in per cent."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(row: dict[str, Any], measure: str, value: float) -> None:
        configuration = Path(row["encoder"]).name.rpartition("-")[0]
        found[configuration, Path(row["task"].partition(":")[2]).name, measure].append(value)

    for row in json.loads((folder / "eval.json").read_text())["results"]:
        add(row, row["similarity"], 100 * row["metrics"]["accuracy@1"])
        if row["similarity"] == "dot":
            add(row, "cv", row["norms"]["document_norm_cv"])
    for row in json.loads((folder / "probe.json").read_text())["results"]:
        add(row, "d", row["effect"]["value"])
    return found


def main(folder: Path) -> None:
    """Print a row per configuration."""
    found = measured(folder)
    print(f"| trained | seeds | {' | '.join(COLUMNS)} |")
    print(f"|---|---:|{'---:|' * len(COLUMNS)}")
    for name in CONFIGURATIONS:
        of_each = {column: found[name, *where] for column, where in COLUMNS.items()}
        cells = []
        for column, values in of_each.items():
            digits = 2 if column.startswith(("d ", "cv")) else 1
            spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.{digits}f}{spread}")
        print(f"| {name} | {len(of_each['dot T→I'])} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
