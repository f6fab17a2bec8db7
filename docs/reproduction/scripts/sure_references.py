"""Do two reference rankings judge encoders alike (SURE, Figure 4)? Spearman's correlations over systems, as Markdown.

retrokit eval ENCODER... --on sure:SURE/fiqa,reference=bm25 --on sure:SURE/fiqa,reference=minilm --json > two.json
python docs/reproduction/scripts/sure_references.py two.json
"""

import json
import math
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from scipy.stats import spearmanr

METRICS = ("abstraction_rdc", "abstraction_roc", "rdc", "roc")


def told(rho: float, systems: int) -> str:
    """Spearman's correlation with its 95% interval (Bonett and Wright, 2000), which ±1 has not."""
    if abs(rho) > 1 - 1e-9:
        return f"{rho:.2f}"
    half = 1.96 * math.sqrt((1 + rho**2 / 2) / (systems - 3))
    return f"{rho:.2f} ({math.tanh(math.atanh(rho) - half):.2f} to {math.tanh(math.atanh(rho) + half):.2f})"


def main(path: Path) -> None:
    """Print a row per folder, pair of references and metric."""
    found = json.loads(path.read_text())
    folders: dict[str, dict[str, dict[str, dict[str, float]]]] = defaultdict(lambda: defaultdict(dict))
    grouped = {encoder for group in found["seeds"] for encoder in group["encoders"]}
    for result in found["results"]:
        if result["encoder"] not in grouped:
            folder, _, reference = result["task"].partition(",reference=")
            folders[folder][reference][f"{result['encoder']} {result['similarity']}"] = result["metrics"]
    for group in found["seeds"]:
        folder, _, reference = group["task"].partition(",reference=")
        means = {metric: value["mean"] for metric, value in group["metrics"].items()}
        folders[folder][reference][group["name"]] = means
    print("| folder | references | metric | systems | Spearman (95%) |\n|---|---|---|---:|---|")
    for folder, references in folders.items():
        for first, second in combinations(references, 2):
            both = [name for name in references[first] if name in references[second]]
            for metric in METRICS:
                rho = spearmanr(*([references[side][name][metric] for name in both] for side in (first, second)))
                cells = [folder, f"{first}, {second}", metric, len(both), told(float(rho.statistic), len(both))]
                print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
