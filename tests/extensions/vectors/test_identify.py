"""What gave the vectors of a table: planted mixtures are explained row by row, and nothing else is."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import feather, ipc, parquet
from scipy.stats import binomtest
from transformers import AutoTokenizer, BertConfig, BertModel

from retrokit import cli, encoders
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.vectors import identification as command
from retrokit.extensions.vectors.identification import NONE, Identification, Traits, _densest, identify
from retrokit.extensions.vectors.stored import read_table
from retrokit.ranking.export import export
from retrokit.report.records import read_record
from tests.evaluation.fakes import write_folder
from tests.llm.server import ChatServer
from tests.models import WORDS, make_bert

COUNT = 240
DIMENSION = 32


def texts_of(count: int, seed: int = 0) -> list[str]:
    """Texts of 5 to 150 words."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(5, 150))) for _ in range(count)]


def make_model(folder: Path, seed: int) -> Path:
    """A tiny BERT that reads up to 192 tokens."""
    make_bert(folder, DIMENSION)
    config = BertConfig.from_pretrained(folder)
    config.max_position_embeddings = 192
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 192
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return str(make_model(folder / "one", seed=1)), str(make_model(folder / "other", seed=2))


TEXTS = texts_of(COUNT)
IDS = [f"d{number}" for number in range(COUNT)]


def embedded(spec: str, texts: list[str], role: Any = "document", precision: str = "fp32") -> np.ndarray:
    return normalised(encoders.registry.create(spec).embed(texts, role, precision))


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def plain(models: tuple[str, str]) -> np.ndarray:
    return embedded(models[0], TEXTS)


def by_range(rows: np.ndarray) -> np.ndarray:
    """int8 in the range of each dimension, and back."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    step = (high - low) / 255
    return (np.clip(np.floor((rows - low) / step), 0, 255) * step + low).astype(np.float32)


def by_row(rows: np.ndarray) -> np.ndarray:
    """int8 by the largest number of each row, and back."""
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    return ((rows / step).round() * step).astype(np.float32)


def edited(text: str) -> str:
    words = text.split()
    return " ".join(["mountain", *words[: len(words) // 2]])


def written(folder: Path, vectors: np.ndarray, texts: list[str] = TEXTS, ids: list[str] = IDS) -> str:
    columns = {"id": ids, "text": texts, "vector": [*vectors]}
    parquet.write_table(pyarrow.table(columns), folder / "index.parquet")
    return str(folder / "index.parquet")


def explained(table: str, candidates: list[str], folder: Path, **more: Any) -> tuple[Identification, list[dict]]:
    report = identify(table, candidates, rows=str(folder / "rows.jsonl"), **more)
    return report, [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def shifted(rows: np.ndarray) -> np.ndarray:
    return np.roll(rows, 1, axis=0)


def planted(kind: str, one: str, other: str, texts: list[str]) -> np.ndarray:
    """What a kind of damage leaves of the vectors of ``texts``."""
    make: Mapping[str, Callable[[], np.ndarray]] = {
        "prompt": lambda: embedded(f"{one},document_prompt=query: ", texts),
        "pooling": lambda: embedded(f"{one},pooling=cls", texts),
        "cut": lambda: embedded(f"{one},max_length=64", texts),
        "model": lambda: embedded(other, texts),
        "edited": lambda: embedded(one, [*map(edited, texts)]),
        "shuffled": lambda: shifted(embedded(one, texts)),
        "truncated": lambda: normalised(embedded(one, texts) * (np.arange(DIMENSION) < DIMENSION // 2)),
        "unnormalised": lambda: encoders.registry.create(one).embed(texts, "document", "fp32"),
        "int8": lambda: by_row(embedded(one, texts)),
        "float16": lambda: embedded(one, texts).astype(np.float16).astype(np.float32),
    }
    return make[kind]()


NAMES = {
    "prompt": ", prompt 'query: '",
    "pooling": ", pooling cls",
    "cut": ", cut at 64 tokens",
    "model": "",
    "edited": NONE,
    "shuffled": ", the text of another row",
    "truncated": ", first 16 dimensions",
    "unnormalised": ", not normalised",
    "int8": ", int8",
    "float16": ", float16",
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_planted_kind_is_explained_by_row(models, plain, kind, tmp_path):
    one, other = models
    rows = np.sort(np.random.default_rng(7).choice(COUNT, 36, replace=False))
    vectors = plain.copy()
    vectors[rows] = planted(kind, one, other, [TEXTS[row] for row in rows])
    report, lines = explained(written(tmp_path, vectors), [one, other], tmp_path)
    if kind == "cut":  # others are the same
        rows = np.array([row for row in rows if len(TEXTS[row].split()) > 62])
    name = NONE if kind == "edited" else f"{other if kind == 'model' else one}{NAMES[kind]}"
    named = [row for row, line in enumerate(lines) if line["explanation"] == name]
    assert named == rows.tolist()
    rest = {line["explanation"] for row, line in enumerate(lines) if row not in named}
    assert rest == {one}
    differing = [row for row, line in enumerate(lines) if line["differs"]]
    assert differing == ([] if kind in ("int8", "float16") else rows.tolist())
    if kind == "shuffled":
        assert [lines[row]["text_of"] for row in rows] == [IDS[row] for row in np.roll(rows, 1)]
    assert all(line["cosine"] > 0.99 for line in lines if line["explanation"] == one)
    assert report.again == len(differing)
    assert report.shares[0].share == pytest.approx(1 - len(differing) / COUNT)
    assert (report.shares[0].low, report.shares[0].high) == (report.shares[0].share, report.shares[0].share)
    assert (report.overlap < 1) == bool(differing)


def test_rounding_is_no_difference(models, tmp_path):
    one, _ = models
    vectors = np.concatenate([embedded(one, TEXTS[:120]), embedded(one, TEXTS[120:], precision="bf16")])
    report, lines = explained(written(tmp_path, vectors), [one], tmp_path)
    assert {line["explanation"] for line in lines} == {one}
    assert report.again == 0
    assert report.groups == []


def test_a_longer_vector_explains_its_first_dimensions(models, plain, tmp_path):
    report, lines = explained(written(tmp_path, plain[:, :16]), [models[0]], tmp_path)
    assert (report.again, report.dimension) == (0, 16)
    assert {line["explanation"] for line in lines} == {models[0]}


@pytest.mark.parametrize("options", [{}, {"sim": "dot"}, {"sim": "sfs:8"}, {"dtype": "int8"}, {"one_length": True}])
def test_an_export_is_explained_by_its_encoder(models, tmp_path, options):
    rows = [{"id": id, "text": text} for id, text in zip(IDS[:60], TEXTS, strict=False)]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    export(models[0], str(tmp_path / "corpus.jsonl"), str(tmp_path / "out"), **options)
    report, lines = explained(str(tmp_path / "out"), [models[0]], tmp_path)
    assert report.again == 0
    assert {line["explanation"] for line in lines} == {models[0] + (", int8" if options.get("dtype") else "")}


def test_rows_that_two_candidates_explain_name_both(models, plain, tmp_path):
    one, _ = models
    same = f"{one},max_length=190"
    _, lines = explained(written(tmp_path, plain[:20], TEXTS[:20], IDS[:20]), [one, same], tmp_path)
    assert [(line["explanation"], line["also"]) for line in lines] == [(one, [same])] * 20


def test_rows_that_differ_are_found_as_a_stretch_and_embedded_again(models, plain, tmp_path, capsys):
    one, other = models
    vectors = plain.copy()
    vectors[150:180] = embedded(other, TEXTS[150:180])
    table = written(tmp_path, vectors)
    again = str(tmp_path / "again.txt")
    words = ["vectors", "identify", table, "--candidates", one, "--again", again]
    junit = str(tmp_path / "gate.xml")
    assert cli.run([*words, "--fail-under", "0.875", "--json"]) == 0
    printed = capsys.readouterr().out
    report = json.loads(printed)
    (group,) = report["groups"]
    assert (group["by"], group["first"], group["last"], group["differing"]) == ("order", "d150", "d179", 30)
    assert Path(again).read_text().split() == IDS[150:180]
    rows = [{"id": id, "text": text} for id, text in zip(IDS, TEXTS, strict=True)]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    on = ["--on", str(tmp_path / "corpus.jsonl"), "--only", again]
    assert cli.run(["export", one, *on, "-o", str(tmp_path / "out")]) == 0
    assert read_table(str(tmp_path / "out"), None).ids == IDS[150:180]
    capsys.readouterr()
    assert cli.run([*words, "--fail-under", "0.9", "--junit", junit]) == 1
    shown = capsys.readouterr()
    assert "retrokit: 87.50% of the rows of" in shown.err
    assert "none of these" in shown.out
    assert '<failure message="' in Path(junit).read_text()
    (tmp_path / "report.json").write_text(printed)
    source = read_record(str(tmp_path / "report.json"), "a report")
    assert source is not None
    assert source.record.to_json().items() <= report.items()
    assert source.conclusion.startswith("87.50% of the rows")


def test_a_service_is_a_candidate(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    texts = [" ".join(text.split()[:4]) for text in TEXTS[:30]]
    with ChatServer() as server:
        spec = f"api:model,url={server.url}"
        vectors = embedded(spec, texts, precision="auto")
        vectors[:3] = embedded(spec, [f"query: {text}" for text in texts[:3]], precision="auto")
        report, lines = explained(written(tmp_path, vectors, texts, IDS[:30]), [spec], tmp_path)
    assert [line["differs"] for line in lines] == [True] * 3 + [False] * 27
    assert all(", prompt 'query: '" in line["explanation"] for line in lines[:3])
    assert report.again == 3


def test_what_repair_is_worth_on_a_task(models, plain, tmp_path):
    documents = dict(zip(IDS[:60], TEXTS, strict=False))
    queries = {f"q{number}": TEXTS[number] for number in range(20)}
    write_folder(tmp_path / "task", documents, queries, {f"q{number}": {f"d{number}": 1} for number in range(20)})
    vectors = plain[:60].copy()
    vectors[:20] = shifted(vectors[:20])
    table = written(tmp_path, vectors, TEXTS[:60], IDS[:60])
    report = identify(table, [models[0]], on=[f"beir:{tmp_path / 'task'}"])
    (cost,) = report.costs
    assert cost.repaired == 1
    assert cost.stored < 0.7
    assert identify(table, [models[0], models[0]]).shares == report.shares, "a repeated candidate counts once"
    with pytest.raises(UsageError, match="lacks 55 documents"):
        identify(written(tmp_path, plain[:5], TEXTS[:5], IDS[:5]), [models[0]], on=[f"beir:{tmp_path / 'task'}"])


def test_a_large_table_is_sampled_and_the_rest_inferred(monkeypatch, tmp_path):
    one, other, count = "static:32,max_length=5000", "static:32,max_length=5000,seed=1", 1500
    monkeypatch.setattr(command, "BUDGET", 1400)
    monkeypatch.setattr(command, "TRIED", 8)
    monkeypatch.setattr(command, "WORDS", 256)
    texts, ids = texts_of(count, seed=3), [f"d{number}" for number in range(count)]
    changed = np.random.default_rng(5).choice(count, 450, replace=False)
    vectors = embedded(one, texts)
    vectors[changed[:430]] = embedded(other, [texts[row] for row in changed[:430]])
    vectors[changed[430:]] = shifted(vectors[changed[430:]])
    report, lines = explained(written(tmp_path, vectors, texts, ids), [one, other], tmp_path, sample=200)
    assert report.embedded < 700
    by = [line["by"] for line in lines]
    assert {*by} == {"embedding", "inference", "not embedded"}
    assert by.count("inference") == report.inferred > 20
    differing = [row for row, line in enumerate(lines) if line["differs"]]
    assert np.isin(differing, changed).mean() >= 0.99
    assert np.isin(changed, differing).mean() >= 0.95
    assert {lines[row]["explanation"] for row in changed[:430] if by[row] == "embedding"} == {other}
    first = report.shares[0]
    assert first.low < first.share < first.high
    assert first.low <= 0.7 <= first.high


def test_shares_outside_flagged_rows_have_the_exact_interval(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "BUDGET", 100)
    monkeypatch.setattr(command, "WORDS", 64)
    texts, ids = texts_of(300, seed=4), [f"d{number}" for number in range(300)]
    table = written(tmp_path, embedded("static:dim=16", texts), texts, ids)
    report = identify(table, ["static:dim=16,max_length=5000"], sample=100)
    lows = []
    for drawn in range(50, 101):  # rows of the sample that are not among the most surprising ones
        interval = binomtest(drawn, drawn).proportion_ci(0.95, method="exact")
        lows.append((100 - drawn + (200 + drawn) * interval.low) / 300)
    assert report.embedded == 100
    assert min(abs(low - report.shares[0].low) for low in lows) < 1e-9
    assert (report.shares[0].share, report.shares[0].high) == (1, 1)


def test_an_inference_that_embedding_does_not_confirm_is_dropped(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "BUDGET", 900)
    monkeypatch.setattr(command, "VERIFIED", 50)
    monkeypatch.setattr(command, "TRIED", 8)
    monkeypatch.setattr(command, "WORDS", 64)
    count, one, other = 1000, "static:32,max_length=5000", "static:32,max_length=5000,seed=1"

    def mistaken(evidence: Any, sample: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        posteriors = np.zeros((len(evidence.variants), count))
        posteriors[1, 300:600] = 1  # of which a third are of the other
        return posteriors

    monkeypatch.setattr(command, "_posteriors", mistaken)
    texts, ids = texts_of(count, seed=6), [f"d{number}" for number in range(count)]
    vectors = embedded(one, texts)
    vectors[500:600] = embedded(other, texts[500:600])
    report, lines = explained(written(tmp_path, vectors, texts, ids), [one, other], tmp_path, sample=100)
    differing = [row for row, line in enumerate(lines) if line["differs"]]
    assert report.inferred == 0
    assert differing
    assert min(differing) >= 500
    assert max(differing) < 600


def test_a_grid_of_numbers_is_read_off(plain):
    traits = Traits.read(np.concatenate([plain[:200], by_range(plain)[200:]]))
    assert traits.storage.tolist() == [""] * 200 + ["int8"] * 40
    bfloat16 = torch.from_numpy(plain).bfloat16().float().numpy()
    assert {*Traits.read(bfloat16).storage} == {"bfloat16"}


def test_the_densest_stretch_needs_to_stand_out():
    random = np.random.default_rng(0)
    scattered = random.random(400) < 0.1
    assert _densest(scattered) is None
    scattered[100:140] = True
    segment = _densest(scattered)
    assert segment is not None
    start, stop, p = segment
    assert (abs(start - 100) < 20, abs(stop - 140) < 20, p < 0.01) == (True, True, True)


# --- reading


def lines_of(vectors: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": id, "text": text, "vector": row, **more}
        for id, text, row in zip("abc", TEXTS, vectors.tolist(), strict=False)
    ]


def as_parquet(folder: Path, vectors: np.ndarray) -> Path:
    return Path(written(folder, vectors, TEXTS[:3], [*"abc"]))


def as_feather(folder: Path, vectors: np.ndarray) -> Path:
    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
    columns = {"doc_id": [*"abc"], "contents": TEXTS[:3], "embedding": rows}
    feather.write_feather(pyarrow.table(columns), folder / "index.feather", compression="uncompressed")
    return folder / "index.feather"


def as_stream(folder: Path, vectors: np.ndarray) -> Path:
    table = pyarrow.table({"id": [*"abc"], "text": TEXTS[:3], "vector": [*vectors]})
    with ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as stream:
        stream.write_table(table)
    return folder / "data-00000-of-00001.arrow"


def as_json_lines(folder: Path, vectors: np.ndarray) -> Path:
    write_jsonl(folder / "index.jsonl", lines_of(vectors))
    return folder / "index.jsonl"


def as_pgvector(folder: Path, vectors: np.ndarray) -> Path:
    rows = [{**line, "vector": json.dumps(line["vector"])} for line in lines_of(vectors)]
    write_jsonl(folder / "index.jsonl", rows)
    return folder / "index.jsonl"


def as_qdrant(folder: Path, vectors: np.ndarray) -> Path:
    lines = [
        {"id": line["id"], "vector": {"dense": line["vector"]}, "payload": {"text": line["text"]}}
        for line in lines_of(vectors)
    ]
    write_jsonl(folder / "points.jsonl", lines)
    return folder / "points.jsonl"


def as_array(folder: Path, vectors: np.ndarray) -> Path:
    np.save(folder / "index.npy", vectors)
    write_jsonl(folder / "index.ids.jsonl", [{"id": line["id"], "text": line["text"]} for line in lines_of(vectors)])
    return folder / "index.npy"


def as_array_with_lines(folder: Path, vectors: np.ndarray) -> Path:
    np.save(folder / "index.npy", vectors)
    (folder / "index.ids.txt").write_text("a\nb\nc\n")
    return folder / "index.npy"


FORMS = [as_parquet, as_feather, as_stream, as_json_lines, as_pgvector, as_qdrant, as_array, as_array_with_lines]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_table_is_read(form, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    write_jsonl(
        tmp_path / "corpus.jsonl", [{"id": id, "text": text} for id, text in zip("cba", TEXTS[2::-1], strict=True)]
    )
    texts = str(tmp_path / "corpus.jsonl") if form is as_array_with_lines else None
    table = read_table(str(form(tmp_path, vectors)), texts)
    assert (table.ids, table.texts) == ([*"abc"], TEXTS[:3])
    assert table.vectors.tolist() == vectors.tolist()


def test_texts_that_are_given_replace_those_of_a_table(tmp_path):
    write_jsonl(tmp_path / "index.jsonl", [{"id": "a", "vector": [1.0], "text": "x"}, {"id": "b", "vector": [1.0]}])
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "b", "text": "z"}, {"id": "a", "text": "y"}])
    table = read_table(str(tmp_path / "index.jsonl"), str(tmp_path / "corpus.jsonl"))
    assert table.texts == ["y", "z"]


NUMBERS = [0.5, -0.5]
BAD = {
    "no texts": ([{"id": "a", "vector": NUMBERS}], "index.jsonl: has no texts; give --texts, their file"),
    "a row without a text": (
        [{"id": "a", "vector": NUMBERS, "text": "x"}, {"id": "b", "vector": NUMBERS}],
        "index.jsonl: 1 of 2 rows have no text; give --texts",
    ),
    "lengths": (
        [{"id": "a", "vector": NUMBERS, "text": "x"}, {"id": "b", "vector": [1.0], "text": "y"}],
        "index.jsonl:2: its vector has 1 numbers, and the first row's 2",
    ),
    "no vector": ([{"id": "a", "vector": None, "text": "x"}], "index.jsonl:1: has no vector"),
    "zeros": ([{"id": "a", "vector": [0, 0], "text": "x"}], "index.jsonl:1: has no vector, or zeros only"),
    "an empty vector": ([{"id": "a", "vector": [], "text": "x"}], "index.jsonl:1: has no vector"),
    "no field": ([{"id": "a", "text": "x"}], "index.jsonl:1: no field 'vector' or 'embedding'"),
    "words": ([{"id": "a", "vector": ["x"], "text": "x"}], "index.jsonl:1: its vector is not a list of numbers"),
    "a text": ([{"id": "a", "vector": "x,y", "text": "x"}], "index.jsonl:1: its vector is not a list of numbers"),
    "several": ([{"id": "a", "vector": [NUMBERS, NUMBERS], "text": "x"}], "index.jsonl:1: has several vectors"),
    "two names": ([{"id": "a", "vector": {"x": [1], "y": [1]}, "text": "x"}], "index.jsonl:1: field 'vector' has 2"),
    "not finite": ([{"id": "a", "vector": [None, 1], "text": "x"}], "index.jsonl:1: its vector contains a number that"),
    "an id twice": (
        [{"id": "a", "vector": NUMBERS, "text": "x"}, {"id": "a", "vector": NUMBERS, "text": "y"}],
        "index.jsonl:2: the id 'a' is already on line 1",
    ),
}


def test_a_table_of_lancedb_is_read(tmp_path, monkeypatch):
    path = tmp_path / "lake" / "index.lance"
    path.mkdir(parents=True)
    rows = pyarrow.table({"id": [1, 2], "text": TEXTS[:2], "vector": [[1.0, 0.0], [0.0, 1.0]]})

    def connect(folder: Path) -> Any:
        assert folder == path.parent
        return SimpleNamespace(open_table=lambda name: SimpleNamespace(to_arrow=lambda: rows if name == "index" else 1))

    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(UsageError, match="needs the package lancedb"):
        read_table(str(path), None)
    monkeypatch.setitem(sys.modules, "lancedb", SimpleNamespace(connect=connect))
    table = read_table(str(path), None)
    assert (table.ids, table.texts, table.vectors.tolist()) == (["1", "2"], TEXTS[:2], [[1, 0], [0, 1]])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused_before_a_model_loads(name, tmp_path, monkeypatch, capsys):
    rows, message = BAD[name]
    monkeypatch.chdir(tmp_path)
    write_jsonl("index.jsonl", rows)
    monkeypatch.setattr(encoders.registry, "create", lambda *_, **__: pytest.fail("a model is loaded"))
    assert cli.run(["vectors", "identify", "index.jsonl", "--candidates", "minilm"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.removeprefix("retrokit: ").startswith(message)


def test_other_files_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("index.npy", np.ones((3, 4)))
    np.save("flat.npy", np.ones(3))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "three.npy").write_bytes((tmp_path / "index.npy").read_bytes())
    (tmp_path / "three.ids.txt").write_text("a\nb\n")
    write_jsonl("index.jsonl", [{"id": "a", "vector": [1.0] * 32, "text": "x"}])
    write_jsonl("corpus.jsonl", [{"id": "b", "text": "x"}])
    messages = {
        "index.npy": "index.npy: has no ids; write them next to it as index.ids.jsonl",
        "flat.npy": "flat.npy: contains [3]; expected [rows, dimensions]",
        "broken.npy": "broken.npy: could not be read",
        "broken.parquet": "broken.parquet: could not be read",
        "folder": "folder: is no folder of retrokit export, and no LanceDB table",
        "three.npy": "three.ids.txt: has 2 ids, and three.npy 3 vectors",
        "index.jsonl --texts corpus.jsonl": "corpus.jsonl: has no text of 1 of 1 rows, the first 'a'",
        "index.jsonl": "static:16: gives 16 dimensions, and index.jsonl has 32",
    }
    for words, message in messages.items():
        assert cli.run(["vectors", "identify", *words.split(), "--candidates", "static:dim=16"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line


def test_neighbours_that_stay_by_hand(monkeypatch):
    """The second row, at 10 degrees, is moved to 85, next to the third, at 90."""
    monkeypatch.setattr(command, "NEIGHBOURS", 1)
    stored, repaired = (
        np.array([[np.cos(np.radians(a)), np.sin(np.radians(a))] for a in (0, second, 90, 100)]) for second in (10, 85)
    )
    report: Any = SimpleNamespace(_sample=np.arange(4), _differs=np.array([False, True, False, False]))
    assert command._Report._overlaps(report, stored, repaired) == (0.5, 0.0)
    report._differs = np.zeros(4, dtype=bool)
    assert command._Report._overlaps(report, stored, stored) == (1.0, None)


def test_stretches_by_id_and_length_name_their_ends():
    ids = [f"n{number}" for number in range(100)]
    order = np.random.default_rng(0).permutation(100)
    differs = np.zeros(100, dtype=bool)
    differs[(order >= 40) & (order < 70)] = True
    table = SimpleNamespace(ids=[ids[rank] for rank in order], texts=["a" * (rank + 1) for rank in order])
    report: Any = SimpleNamespace(_sample=np.arange(100), _differs=differs, _table=table)
    groups = {group.by: (group.first, group.last, group.rows) for group in command._Report._groups(report)}
    assert groups == {"id": ("n40", "n69", 30), "length": ("41 characters", "70 characters", 30)}


def test_zeros_at_the_end_and_norms_are_read_off():
    vectors = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    vectors[1, 31:], vectors[2, 30:], vectors[3, 16:] = 0, 0, 0
    assert Traits.read(vectors).widths.tolist() == [32, 32, 30, 16]
    unit = normalised(vectors)
    norms = np.array([[1.2], [1.2], [1.2], [1.0]], dtype=np.float32)
    assert Traits.read(unit * norms).is_unit.tolist() == [False] * 4, "a norm of 1 is usual among these"
    assert Traits.read(unit * norms**8).is_unit.tolist() == [False] * 3 + [True]
