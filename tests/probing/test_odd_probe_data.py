"""Odd but valid data in every probe: constant, zero, huge and tiny embeddings, one query, one pair, one label, equal
texts. A probe answers in strict JSON, in a sentence and in pictures, or in one line that says why it cannot."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrokit import encoders
from retrokit.core import figures
from retrokit.core.errors import RetrokitError
from retrokit.core.figures import plt
from retrokit.data.jsonl import write_jsonl
from retrokit.probing.fisher import probe_fisher
from retrokit.probing.fragments import probe_fragments
from retrokit.probing.magnitude import probe_magnitude
from retrokit.probing.near_miss import probe_near_misses
from tests.evaluation.fakes import GivenEncoder, hashed, write_folder

RANDOM = hashed(0).vectors
ENCODERS: dict[str, Callable[[str], Any]] = {
    "constant": lambda text: [1.0] * 8,
    "zero": lambda text: [0.0] * 8,
    "one zero": lambda text: [0.0] * 8 if text.endswith("0") else RANDOM[text],
    "huge": lambda text: [1e25 * value for value in RANDOM[text]],
    "tiny": lambda text: [1e-30 * value for value in RANDOM[text]],
    "usual": lambda text: RANDOM[text],
}
SPEC = ["static:8"]
PROXIES = {"without_labels": True, "proxies": 3}
REFUSED = ("magnitude, equal texts", "fragments, one label")  # by any encoder
PROBES: dict[str, Callable[[str], Any]] = {
    "magnitude": lambda d: probe_magnitude(SPEC, [f"beir:{d}/many"]),
    "magnitude, one query": lambda d: probe_magnitude(SPEC, [f"beir:{d}/one"]),
    "magnitude, no labels": lambda d: probe_magnitude(SPEC, [f"beir:{d}/one"], **PROXIES),
    "magnitude, equal texts": lambda d: probe_magnitude(SPEC, [f"beir:{d}/equal"]),
    "fisher": lambda d: probe_fisher(SPEC, [f"beir:{d}/many"]),
    "fragments, one query": lambda d: probe_fragments(SPEC, f"beir:{d}/one", [4]),
    "fragments, equal texts": lambda d: probe_fragments(SPEC, f"classify:{d}/equal.jsonl", [4]),
    "fragments, one label": lambda d: probe_fragments(SPEC, f"classify:{d}/one.jsonl", [4]),
    "near-miss": lambda d: probe_near_misses(SPEC, f"pairs:{d}/near.jsonl"),
    "near-miss, one pair": lambda d: probe_near_misses(SPEC, f"pairs:{d}/pair.jsonl", "dot"),
    "near-miss, odd families": lambda d: probe_near_misses(SPEC, f"pairs:{d}/odd.jsonl,family=kind"),
}  # fmt: skip


class Vectors(dict[str, Any]):
    def __init__(self, made: Callable[[str], Any]) -> None:
        super().__init__({"": made("")})
        self.made = made

    def __missing__(self, text: str) -> Any:
        return self.made(text)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    documents = {f"d{i}": f"document {i}" for i in range(12)}
    judged = {f"q{i}": {f"d{i}": 1} for i in range(12)}
    queries = {query: f"query {query}" for query in judged}
    write_folder(folder / "many", documents, queries, judged)
    write_folder(folder / "one", documents, {"q0": "query"}, {"q0": {"d0": 1}})
    write_folder(folder / "equal", dict.fromkeys(documents, "same"), queries, judged)
    rows = {
        "equal": [{"text": "same", "label": "ab"[i % 2]} for i in range(20)],
        "one": [{"text": f"text {i}", "label": "a"} for i in range(20)],
        "two": [{"a": f"a {i}", "b": f"b {i}"} for i in range(2)],
        "near": [{"text": f"a {i}", "near_miss": f"b {i}", "positive": f"c {i}"} for i in range(6)],
        "pair": [{"text": "a", "near_miss": "b"}],
        "odd": [
            {"text": f"a {i}", "near_miss": f"b {i}", "positive": f"c {i}", "kind": ["all", "positives", "$x$"][i % 3]}
            for i in range(6)
        ],
    }
    for name, lines in rows.items():
        write_jsonl(folder / f"{name}.jsonl", lines)
    return folder


def draw(figure: Any, folder: Any, name: str) -> list[Path]:
    figure.draw_without_rendering()
    plt.close(figure)
    return []


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_answers_or_says_why_not(probe, kind, data, tmp_path, monkeypatch):
    check_answer(PROBES[probe], probe in REFUSED, kind, data, tmp_path, monkeypatch)


def check_answer(probe, refuses, kind, data, tmp_path, monkeypatch):
    """A probe of such embeddings answers whole, or says in one line why not; it ``refuses`` them of any encoder."""
    monkeypatch.setattr(encoders.registry, "create", lambda spec, device=None: GivenEncoder(Vectors(ENCODERS[kind])))
    monkeypatch.setattr(figures, "save", draw)
    refused = None
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            found = probe(str(data))
        except RetrokitError as error:
            refused = str(error)
        else:
            found.plot(tmp_path)
    if refuses or refused is not None:
        assert refuses or kind != "usual"
        assert refused is not None
        assert "\n" not in refused
        assert "nan" not in refused
        return
    found.sheets()
    json.dumps(found.to_json(), allow_nan=False)
    assert "nan" not in found.conclusion
    assert not [row for rows in found.rows().values() for row in rows if any(value != value for value in row.values())]


def test_families_named_like_other_groups_are_told_from_them(data, monkeypatch):
    monkeypatch.setattr(encoders.registry, "create", lambda spec, device=None: GivenEncoder(Vectors(ENCODERS["usual"])))
    found = PROBES["near-miss, odd families"](str(data))
    names = ["all", "$x$", "all (family)", "positives (family)"]
    assert [(row.family, row.near_misses) for row in found.families] == list(zip(names, [6, 2, 2, 2], strict=True))
