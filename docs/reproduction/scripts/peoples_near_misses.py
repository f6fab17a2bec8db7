"""Test sets for verifiers in words that people wrote, of seven kinds of sources, and what verifiers make of them.

    python docs/reproduction/scripts/peoples_near_misses.py build DATA OUT.jsonl [--per-family 30]
    python docs/reproduction/scripts/peoples_near_misses.py table OUT.jsonl --with dense:minilm --with default

``build`` reads a folder with ``stsb``, ``paradetox``, ``banking77``, ``scifact`` and ``ml-abstracts``, the docstrings
of the standard library and the licences of installed packages: sources that the default verifier was not trained on.

- Paraphrases are people's: pairs of STS-B that people scored 4.6 and more. Near-misses of theirs, and of texts without
  a paraphrase, are rule edits of people's sentences (``retrokit augment near-misses``): the rule is the training's, the
  sentences are not. (ParaDetox's two sides are not used as paraphrases: what is left out is often what was said.)
- ``adversarial`` are people's own near-misses: pairs of STS-B in nearly the same words that people scored 3 or less,
  and claims of SciFact in nearly the same words.

``table`` sets the near-misses of each source and family, and of each kind of edit, against all paraphrases, and shows
what the last reranker lets in.
"""

import argparse
import ast
import re
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.augmentation.edits import NEAR_MISSES
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.generator import near_misses
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.metrics.separation import false_accept_rate, roc_auc
from retrokit.metrics.significance import draw
from retrokit.ranking import reranking

ALIKE = 0.7  # share of the words that two adversarial sentences have in common
AT_MOST = 400  # texts of a source that are looked at
SAME, OTHER = 4.6, 3.0  # scores of STS-B from which on two sentences are the same, and up to which they are not


def rows(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    return [row for _, row in read_jsonl(path)]


@cache
def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(re.findall(r"\w+", text.lower()))


def alike(one: str, other: str) -> bool:
    """Whether two different texts have nearly the same words."""
    first, second = words(one), words(other)
    return first != second and len(first & second) >= ALIKE * len(first | second)


def sources(data: Path) -> Iterator[tuple[str, list[str | tuple[str, str]]]]:
    """The texts of each source, each with its paraphrase where people wrote one."""
    pairs = [pair for part in ("train", "dev", "test") for pair in rows(data / "stsb" / f"{part}.jsonl")]
    for name, genre in (("captions", "main-captions"), ("news", "main-news")):
        same = [pair for pair in pairs if pair["genre"] == genre and pair["score"] >= SAME]
        yield name, [(pair["sentence1"], pair["sentence2"]) for pair in same]
    yield "chat", [row["neutral"] for row in rows(data / "paradetox" / "pairs.jsonl")]
    yield "questions", [row["text"] for row in rows(data / "banking77" / "test.jsonl")]
    yield "medical", [row["text"] for row in rows(data / "scifact" / "queries.jsonl")]
    yield "abstracts", [row["text"] for row in rows(data / "ml-abstracts" / "abstracts.jsonl")]
    yield "docstrings", list(docstrings(Path(sysconfig.get_path("stdlib"))))
    licences = filter(Path.is_file, sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info/**/LICEN[CS]E*")))
    yield "legal", list(dict.fromkeys(" ".join(path.read_text(errors="replace").split()) for path in licences))


def docstrings(folder: Path) -> Iterator[str]:
    """What the modules of a folder say of their functions and classes."""
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(errors="replace"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                yield " ".join(text.split("\n\n")[0].split())


def adversarial(data: Path) -> Iterator[dict[str, Any]]:
    """People's own near-misses."""
    for row in rows(data / "stsb" / "test.jsonl") + rows(data / "stsb" / "dev.jsonl"):
        if row["score"] <= OTHER and alike(row["sentence1"], row["sentence2"]):
            yield {"anchor": row["sentence1"], "near_miss": row["sentence2"], "family": "adversarial: STS-B"}
    claims = [row["text"] for row in rows(data / "scifact" / "queries.jsonl")]
    for one, other in combinations(claims, 2):
        if alike(one, other):
            yield {"anchor": one, "near_miss": other, "family": "adversarial: claims"}


def build(data: Path, out: str, per_family: int) -> None:
    """Write paraphrases (``positive``) and near-misses (``near_miss``), one or the other to a line."""
    found: list[dict[str, Any]] = []
    for name, texts in sources(data):
        paraphrases = [text for text in texts if isinstance(text, tuple) and words(text[0]) != words(text[1])]
        step = max(1, len(paraphrases) // (3 * per_family))
        for one, other in islice(paraphrases[::step], 3 * per_family):
            found.append({"anchor": one, "positive": other, "family": f"{name}: paraphrase"})
        some = [text if isinstance(text, tuple) else text[:2000] for text in texts[:: max(1, len(texts) // AT_MOST)]]
        for _, miss in near_misses(
            some, load_families([*NEAR_MISSES, "time", "degree", "action", "cause"]), per_family=per_family
        ):
            made = {"anchor": miss.anchor, "near_miss": miss.negatives[0], "edit": f"{miss.family}: {miss.edit}"}
            found.append({**made, "family": f"{name}: {miss.family}"})
    own: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in adversarial(data):
        own[row["family"]].append({**row, "edit": row["family"]})
    found += [row for part in own.values() for row in part[: 2 * per_family]]
    write_jsonl(out, found)
    same = sum("positive" in row for row in found)
    print(f"{out}: {same} paraphrases, {len(found) - same} near-misses")


def table(path: str, specs: list[str]) -> None:
    """Print areas under the ROC curve and shares let in where 95% of the paraphrases pass, and examples."""
    found = rows(Path(path))
    anchors = [row["anchor"] for row in found]
    others = [row.get("positive") or row["near_miss"] for row in found]
    scores = {spec: reranking.registry.create(spec, device="cpu").score_pairs(anchors, others) for spec in specs}
    same = np.array(["positive" in row for row in found])

    def line(name: str, chosen: np.ndarray) -> None:
        cells = []
        for values in scores.values():
            area, let_in = (of(values[same], values[chosen]) for of in (roc_auc, false_accept_rate))
            cells.append(f"{area:.2f} | {let_in:.0%}")
        of_row, positive = values[same | chosen], same[same | chosen]
        drawn = draw(lambda at: roc_auc(of_row[at][positive[at]], of_row[at][~positive[at]]), len(of_row))
        cells.append("{:.2f} to {:.2f}".format(*drawn.interval))
        print(f"| {name} | {chosen.sum()} | {' | '.join(cells)} |", flush=True)

    for key in ("family", "edit"):
        names = sorted({row[key] for row in found if "near_miss" in row})
        print(
            f"\n| {key} | pairs | " + " | ".join(f"{spec}: area | let in" for spec in specs) + " | its 95% interval |"
        )
        print("|---|---:|" + "---:|" * (2 * len(specs) + 1))
        for name in names:
            line(name, np.array([row.get(key) == name and "near_miss" in row for row in found]))
        line("all", ~same)
    last = scores[specs[-1]]
    gate = np.quantile(last[same], 0.05)
    print(f"\nLet in by {specs[-1]} at {gate:.3f}, and the paraphrases that it scores lowest:\n")
    by_edit: dict[str, list[int]] = defaultdict(list)
    for row in np.argsort(-last):
        if not same[row] and last[row] >= gate:
            by_edit[found[row]["edit"]].append(row)
    shown = [row for part in by_edit.values() for row in part[:3]] + [row for row in np.argsort(last) if same[row]][:8]
    for row in shown:
        print(f"- {found[row].get('edit', found[row]['family'])}, {last[row]:.2f}: {anchors[row]!r} / {others[row]!r}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("data", type=Path)
    building.add_argument("out")
    building.add_argument("--per-family", type=int, default=30)
    showing = commands.add_parser("table")
    showing.add_argument("file")
    showing.add_argument("--with", dest="specs", action="append", required=True)
    asked = parser.parse_args()
    if asked.command == "build":
        build(asked.data, asked.out, asked.per_family)
    else:
        table(asked.file, asked.specs)


if __name__ == "__main__":
    sys.exit(main())
