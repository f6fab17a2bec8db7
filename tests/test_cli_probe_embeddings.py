"""``retrokit probe fragments``, ``contrast``, ``near-miss``, ``layers``, ``geometry`` and ``map`` from the words of the
command line to tables, JSON, CSV and pictures, and their exit codes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit import cli
from tests.evaluation.fakes import write_lines
from tests.models import sentences

Command = Callable[..., tuple[int, str, str]]
TEXTS = sentences(48, seed=21)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``retrokit probe …`` in this process; exit code, standard output, standard error."""
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run(["probe", *map(str, words), "--device", "cpu"])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    """A file for every kind of probe."""
    halves = list(zip(TEXTS[:24], TEXTS[24:], strict=True))
    near = [{"text": a, "near_miss": f"{a} not", "family": ("negation", "spatial")[i % 2]} for i, a in enumerate(TEXTS)]
    return {
        "labelled": write_lines(
            tmp_path / "labelled.jsonl", [{"text": t, "label": i % 2} for i, t in enumerate(TEXTS)]
        ),
        "pairs": write_lines(tmp_path / "pairs.jsonl", [{"toxic": a, "neutral": b} for a, b in halves]),
        "near": write_lines(tmp_path / "near.jsonl", near),
        "reference": write_lines(tmp_path / "ref.jsonl", [{"anchor": a, "positive": b} for a, b in halves]),
    }


def words_of(name: str, data: dict[str, Path]) -> list[str]:
    """The options of the probe of that name."""
    return {
        "fragments": ["--on", f"classify:{data['labelled']}", "--size", "4", "--size", "8"],
        "contrast": ["--on", f"pairs:{data['pairs']},a=toxic,b=neutral", "--size", "4"],
        "near-miss": ["--on", f"pairs:{data['near']}", "--reference", str(data["reference"])],
        "layers": ["--on", f"knn:{data['labelled']},k=3"],
        "geometry": ["--on", str(data["labelled"]), "--size", "4", "--neighbours", "3"],
        "map": ["--on", f"knn:{data['labelled']},k=3"],
    }[name]


FILES = {
    "fragments": ({"wholes", "fragments", "prefixes", "random"}, {"fragments", "prefixes"}),
    "contrast": ({"fragments", "dimensions"}, {"contrast"}),
    "near-miss": ({"families", "distributions", "scores"}, {"near-miss"}),
    "layers": ({"layers"}, {"layers"}),
    "geometry": ({"geometry"}, {"geometry"}),
    "map": ({"map"}, {"map"}),
}


@pytest.mark.parametrize("name", FILES)
def test_tables_a_sentence_csv_and_pictures(
    probe: Command, data: dict[str, Path], tiny_bert: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "new" / "pictures"
    code, out, err = probe(name, tiny_bert, *words_of(name, data), "--plot", folder)
    assert (code, "Traceback" in err) == (0, False)
    assert str(tiny_bert)[:20] in out
    last = out.rstrip().splitlines()[-1]
    assert last.endswith(".")
    assert len(out.splitlines()) < 40  # a short table
    tables, pictures = FILES[name]
    found = {path.name for path in folder.iterdir()}
    assert found == {f"{t}.csv" for t in tables} | {f"{p}{ending}" for p in pictures for ending in (".png", ".svg")}
    for table in tables:
        rows = list(csv.DictReader((folder / f"{table}.csv").open(encoding="utf-8")))
        assert rows
        assert {row["encoder"] for row in rows} == {str(tiny_bert)}
    for picture in pictures:
        png = (folder / f"{picture}.png").read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert int.from_bytes(png[16:20]) == 800  # pixels wide
        assert b"<svg" in (folder / f"{picture}.svg").read_bytes()[:2000]


@pytest.mark.parametrize("name", FILES)
def test_json_is_all_there_is_on_standard_output(
    probe: Command, data: dict[str, Path], tiny_bert: Path, tmp_path: Path, name: str
) -> None:
    plot = ["--plot", str(tmp_path / "p")] if name == "map" else []
    words = (name, tiny_bert, *words_of(name, data), *plot)
    code, out, _ = probe(*words, "--json")
    assert code == 0
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    _, shown, _ = probe(*words)
    assert found["conclusion"] == shown.rstrip().splitlines()[-1]


def test_several_encoders_stand_side_by_side(
    probe: Command, data: dict[str, Path], tiny_bert: Path, tmp_path: Path
) -> None:
    specs = [str(tiny_bert), f"{tiny_bert},pooling=cls"]
    for name in FILES:
        code, _, err = probe(name, *specs, *words_of(name, data), "--plot", tmp_path / name)
        assert code == 0, err
        table = next((tmp_path / name).glob("*.csv"))
        rows = list(csv.DictReader(table.open(encoding="utf-8")))
        assert len({row["encoder"] for row in rows}) == 2
    assert {path.name for path in (tmp_path / "map").glob("*.png")} == {"map-1.png", "map-2.png"}
    assert {path.name for path in (tmp_path / "contrast").glob("*.png")} == {"contrast-1.png", "contrast-2.png"}


def test_the_layers_of_a_changed_encoder(
    probe: Command, data: dict[str, Path], tiny_bert: Path, tmp_path: Path
) -> None:
    words = ("layers", tiny_bert, *words_of("layers", data), "--start", tiny_bert, "--plot", tmp_path / "p")
    code, out, _ = probe(*words)
    assert code == 0
    assert "0.000%" in out
    assert (tmp_path / "p" / "moved.png").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["fragments", "--on", "classify:{labelled}", "--size", "5"],
            "size 5 does not divide 16; sizes that do: 1, 2, 4",
        ),
        (["fragments", "--on", "knn:{labelled}", "--size", "4"], "add metric=similarity"),
        (["contrast", "--on", "pairs:{pairs},a=toxic,b=polite", "--size", "4"], "no field 'polite'"),
        (["contrast", "--on", "pairs:{pairs}", "--size", "4"], "pairs needs a"),
        (["near-miss", "--on", "pairs:{pairs}"], "expected anchor, positive and negatives"),
        (["layers", "--on", "knn:{labelled},k=99"], "expected 99 or more"),
        (["geometry", "--on", "{labelled}", "--neighbours", "48"], "48 different texts, but 48 neighbours"),
        (["map", "--on", "sts:{pairs}", "--plot", "p"], "a map needs labelled texts"),
        (["layers", "--on", "nearest:{labelled}"], "unknown task 'nearest'"),
    ],
)
def test_mistakes_are_one_clear_line(
    probe: Command, data: dict[str, Path], tiny_bert: Path, words: list[str], says: str
) -> None:
    paths = {name: str(path) for name, path in data.items()}
    name, *options = [word.format(**paths) for word in words]
    code, out, err = probe(name, tiny_bert, *options)
    assert (code, out) == (2, "")
    line = err.strip().splitlines()[-1]
    assert line.startswith("retrokit: ")
    assert says in line


def test_one_label_only(probe: Command, tiny_bert: Path, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "one.jsonl", [{"text": text, "label": "x"} for text in TEXTS])
    for name, task, options in (
        ("layers", "knn", []),
        ("map", "knn", ["--plot", "p"]),
        ("fragments", "classify", ["--size", 4]),
    ):
        code, _, err = probe(name, tiny_bert, "--on", f"{task}:{file}", *options)
        assert code == 2
        assert "every text has the label 'x'; expected at least two labels" in err
