"""``retrokit probe`` from the words of the command line to tables, JSON, CSV and pictures, and its exit codes."""

import csv
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from retrokit.report.terminal import ELSEWHERE
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences
from tests.samples import all_samples

Command = Callable[..., tuple[int, str, str]]
TEXTS = sentences(48, seed=21)


@pytest.fixture
def probe(typed: Command) -> Command:
    """Run ``retrokit probe …``."""
    return lambda *words: typed("probe", *words, "--device", "cpu")


SAMPLES = all_samples()


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
        "near-miss": ["--on", f"pairs:{data['near']}", "--paraphrases", str(data["reference"])],
        **{probe: words.format(**data).split() for probe, (words, _, _) in SAMPLES.probes.items()},
    }[name]


FILES = {
    "fragments": ({"wholes", "fragments", "prefixes", "random"}, {"fragments", "prefixes"}),
    "near-miss": ({"families", "distributions", "scores"}, {"near-miss"}),
    **{probe: (tables, pictures) for probe, (_, tables, pictures) in SAMPLES.probes.items()},
}


def widest(shown: str) -> int:
    """The width of the longest line."""
    return max(map(cell_len, shown.splitlines()))


def ends_with(shown: str, sentence: str) -> bool:
    """Whether a printed text ends with a sentence, which may be wrapped."""
    return " ".join(shown.split()).endswith(" ".join(sentence.split()))


@pytest.mark.parametrize("name", FILES)
def test_tables_a_sentence_csv_and_pictures(
    probe: Command, data: dict[str, Path], tiny_bert: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "new" / "pictures"
    code, out, err = probe(name, tiny_bert, *words_of(name, data), "--plot", folder)
    assert (code, "Traceback" in err) == (0, False)
    assert tiny_bert.name in out
    assert str(tiny_bert) not in out
    assert out.rstrip().endswith(".")
    assert len(out.splitlines()) < 40  # a short table
    assert widest(out) <= ELSEWHERE
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
    assert ends_with(shown, found["conclusion"].replace(str(tiny_bert), tiny_bert.name))


def test_the_sentence_on_several_systems_is_no_wider_than_a_table(probe: Command, data: dict[str, Path]) -> None:
    words = ("near-miss", "static:4", "static:8", "static:16", *words_of("near-miss", data))
    sentence = json.loads(probe(*words, "--json")[1])["conclusion"]
    assert len(sentence) > ELSEWHERE
    code, shown, _ = probe(*words)
    assert code == 0
    assert widest(shown) <= ELSEWHERE
    assert ends_with(shown, sentence)


# --- magnitude and fisher


def write_set(tmp_path: Path, name: str, seed: int = 0) -> str:
    texts = sentences(60, seed)
    documents = {f"d{i}": text for i, text in enumerate(texts[:40])}
    queries = {f"q{i}": text for i, text in enumerate(texts[40:])}
    return f"beir:{write_folder(tmp_path / name, documents, queries, {f'q{i}': {f'd{i}': 1} for i in range(20)})}"


def pixels(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["magnitude", "static:8", "--proxies", 3], "--proxies needs --without-labels"),
        (["magnitude", "static:8", "static:4", "--checkpoints"], "--checkpoints takes one model folder"),
        (["magnitude", "static:8", "--irrelevant", "few"], "--irrelevant few is none of top, all"),
        (
            ["magnitude", "static:8", "--checkpoints", "--cv-reference", "static:4"],
            "--checkpoints and --cv-reference exclude each other",
        ),
        (
            ["magnitude", "static:8", "--without-labels", "--reference-encoder", "static:4"],
            "--reference-encoder and --without-labels exclude each other",
        ),
    ],
)
def test_wrong_use_is_one_line(probe, tmp_path, words, told):
    code, out, err = probe(*words, "--on", write_set(tmp_path, "set"))
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
