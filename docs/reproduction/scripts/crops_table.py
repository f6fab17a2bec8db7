"""The results of crops_vs_dropout.sh as Markdown: kNN accuracy in percent before and after training.

python docs/reproduction/scripts/crops_table.py OUT
"""

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path


def show(values: list[float]) -> str:
    """Mean, and deviation where there are several."""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def main(folder: Path) -> None:
    """Print a row per configuration, then the curves."""
    found: dict[str, list[list[tuple[int, float]]]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        evaluations = json.loads(path.read_text())["evaluations"]
        points = [(row["step"], 100 * next(iter(row["evaluation"].values()))) for row in evaluations]
        found[re.sub(r"^(static-(?:held-out-|ten-)?(?:crops|dropout))-\d+$", r"\1", path.stem)].append(points)
    print("| run | seeds | steps | before | after | gain |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, runs in found.items():
        before, after = [run[0][1] for run in runs], [run[-1][1] for run in runs]
        gains = [last - first for first, last in zip(before, after, strict=True)]
        print(f"| {name} | {len(runs)} | {runs[0][-1][0]} | {show(before)} | {show(after)} | {show(gains)} |")
    for name, runs in found.items():
        if len(runs[0]) > 2:
            print(f"\n{name}, accuracy after n steps:\n")
            print(f"| {' | '.join(str(step) for step, _ in runs[0])} |")
            print("|" + "---:|" * len(runs[0]))
            print(f"| {' | '.join(f'{value:.1f}' for _, value in runs[0])} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
