"""A bridge between two encoders: its maps against scipy and lstsq, what it writes, and when it says no."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from sentence_transformers import SentenceTransformer

import retrokit
from retrokit.cli.entry import run
from retrokit.core.errors import UsageError
from retrokit.core.files import digest
from retrokit.data.dtypes import DTYPES
from retrokit.data.jsonl import to_json, write_jsonl
from retrokit.extensions.vectors import bridging
from retrokit.extensions.vectors.bridging import BridgeSample, bridge
from retrokit.extensions.vectors.maps import RIDGES, VectorMap, fit, ridge
from retrokit.ranking.export import export, open_export
from retrokit.report.records import read_record
from retrokit.similarities import registry
from tests.evaluation.fakes import write_folder
from tests.models import make_bert, sentences

TEXTS = sentences(96)
IDS = [f"d{number}" for number in range(96)]
MAPS = ["orthogonal", "affine", "low-rank:5", "mlp:8"]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another encoder of other weights and another dimension."""
    return make_bert(tmp_path_factory.mktemp("other"), dimension=24, layers=1)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    queries = sentences(30, seed=9)
    return write_folder(
        tmp_path_factory.mktemp("task") / "beir",
        dict(zip(IDS, TEXTS, strict=True)),
        {f"q{i}": text for i, text in enumerate(queries)},
        {f"q{i}": {IDS[i]: 1} for i in range(30)},
    )


def test_orthogonal_is_procrustes():
    x, y = drawn(50, 6), drawn(50, 6, seed=1)
    assert fit("orthogonal", x, y)(x) == pytest.approx(x @ orthogonal_procrustes(x, y)[0])
    narrow = fit("orthogonal", x, y[:, :4]).weight
    assert narrow.T @ narrow == pytest.approx(np.eye(4))


def test_affine_is_least_squares_and_its_strength_is_cross_validated():
    x, y = drawn(50, 6), drawn(50, 4, seed=1)
    one = np.column_stack([x, np.ones(50)])
    assert ridge(x, y, 0)(x) == pytest.approx(one @ np.linalg.lstsq(one, y, rcond=None)[0])
    centred, strength = x - x.mean(axis=0), 0.3
    gram = centred.T @ centred
    weight = np.linalg.solve(gram + strength * np.linalg.eigvalsh(gram)[-1] * np.eye(6), centred.T @ y)
    assert ridge(x, y, strength).weight == pytest.approx(weight)
    truth = drawn(6, 4, seed=2)
    assert fit("affine", x, x @ truth + 3).weight == pytest.approx(truth, abs=1e-6)

    def validation(share: float) -> float:
        """Generalised cross-validation, by the matrix from which fitted values are computed."""
        hat = centred @ np.linalg.solve(gram + share * np.linalg.eigvalsh(gram)[-1] * np.eye(6), centred.T)
        errors = (y - y.mean(axis=0)) - hat @ (y - y.mean(axis=0))
        return float(np.square(errors).sum() / (len(x) - 1 - np.trace(hat)) ** 2)

    best = min(RIDGES, key=validation)
    assert best > min(RIDGES), "y is noise"
    assert fit("affine", x, y).weight == pytest.approx(ridge(x, y, best).weight)


def test_low_rank_is_the_best_of_its_rank():
    x, y = drawn(50, 6), drawn(50, 4, seed=1)
    whole, low = ridge(x, y), fit("low-rank:2", x, y)
    assert np.linalg.matrix_rank(low.weight, tol=1e-9) == 2
    fitted = whole(x) - y.mean(axis=0)
    left, scales, right = np.linalg.svd(fitted, full_matrices=False)
    assert low(x) - y.mean(axis=0) == pytest.approx((left[:, :2] * scales[:2]) @ right[:2])


@pytest.mark.parametrize("hidden", [0, 5])
def test_the_layers_are_the_map(hidden):
    more = [drawn(6, hidden, seed=3), drawn(hidden, 4, seed=4)] if hidden else []
    mapped, rows = VectorMap(drawn(6, 4), drawn(4, seed=1), *more), drawn(9, 6, seed=2)
    features = {"sentence_embedding": torch.tensor(rows).float()}
    for layer in mapped.layers():
        features = layer(features)
    assert features["sentence_embedding"].detach().numpy() == pytest.approx(mapped(rows), abs=1e-4)


@pytest.mark.parametrize(("kind", "dtype"), zip(MAPS, DTYPES, strict=True))
def test_both_ways(tiny_bert, other, task, tmp_path, kind, dtype):
    export(str(tiny_bert), str(task), str(tmp_path / "old"), dtype=dtype, precision="fp32")
    before = digest(tmp_path / "old")
    options = {"map": kind, "sample": 90, "precision": "fp32"}
    into_old = bridge(str(tmp_path / "old"), str(other), str(tmp_path / "run"), **options)
    into_new = bridge(str(tmp_path / "old"), str(other), str(tmp_path / "new"), into="new", **options)
    assert digest(tmp_path / "old") == before
    assert f"queries by `{other}`, mapped into the space of `{tiny_bert}`" in (tmp_path / "run/README.md").read_text()
    queries = sentences(5, seed=7)
    plain = SentenceTransformer(str(tmp_path / "run")).encode_query(queries)
    stored = open_export(tmp_path / "old")
    asked = np.where(plain > 0, 1, -1) if dtype == "binary" else plain
    scores = asked @ stored.vectors().T
    ours = retrokit.search(str(tmp_path / "run"), stored, queries, k=3, precision="fp32")
    assert [row[places] for row, (_, places) in zip(scores, ours, strict=True)] == [
        pytest.approx(values, rel=1e-4) for values, _ in ours
    ]
    mapped = open_export(tmp_path / "new")
    assert (mapped.note["count"], mapped.note["dimension"], mapped.ids()) == (96, 24, IDS)
    assert mapped.note["notes"]["bridged"]["map"] == kind
    raw = retrokit.encoder(str(other)).embed(TEXTS, "document", "fp32")
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    rows = open_export(tmp_path / "old").vectors()
    chosen = np.random.default_rng(0).choice(96, 90, replace=False)
    expected = fit(kind, rows[chosen], raw[chosen])(rows)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    if dtype in ("float32", "float16"):
        assert mapped.vectors() == pytest.approx(expected, abs=2e-3)
    assert len(retrokit.search("", mapped, queries, k=3)) == 5
    for result in (into_old, into_new):
        assert 0 < result.mrr == result.curve[-1]["mrr"] <= 1
        assert result.curve[-1]["texts"] == 72
        assert result.verdict.split(":")[0] in ("no", "perhaps")
    assert into_old.bytes_saved == 96 * open_export(tmp_path / "new").quantization().row_bytes
    assert into_new.bytes_saved is None


def test_known_items_are_found_by_hand(monkeypatch):
    """Among three documents; the second query's document ties with another, which counts as a better one."""
    documents = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    queries = np.array([[3.0, 4.0], [0.0, 2.0]])
    held, unit = np.array([True, True, False]), registry.create("cosine")
    monkeypatch.setattr(bridging, "BLOCK", 1)
    sample = BridgeSample(documents, documents, held, queries, documents[:2], unit)
    same, turned = VectorMap(np.eye(2), np.zeros(2)), VectorMap(np.eye(2)[::-1], np.zeros(2))
    assert sample.mrr(None) == pytest.approx((1 + 1 / 2) / 2)
    assert sample.mrr(same) == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert sample.mrr(turned) == pytest.approx((1 + 1 / 3) / 2)
    of_documents = replace(sample, prepared=queries, maps_queries=False)
    assert of_documents.mrr(turned) == pytest.approx((1 + 1 / 3) / 2)


def test_auto_is_the_map_that_finds_most(tiny_bert, other, task, tmp_path):
    export(str(tiny_bert), str(task), str(tmp_path / "old"), precision="fp32")
    for into in ("old", "new"):
        mrr = {}
        for kind in ("orthogonal", "affine", "auto"):
            result = bridge(str(tmp_path / "old"), str(other), str(tmp_path / kind / into), into=into, map=kind)
            mrr[kind] = result.mrr
        assert mrr["auto"] == max(mrr.values())
        assert mrr[result.map] == mrr["auto"]
        assert result.verdict.startswith("no: known-item search finds ") == (result.mrr / result.mrr_unmapped < 1 / 3)


def test_a_note_that_names_no_texts_names_the_export(tiny_bert, other, task, tmp_path):
    export(str(tiny_bert), str(task), str(tmp_path / "old"), precision="fp32")
    note = tmp_path / "old" / "export.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"source": {"spec": "", "digest": "x"}}))
    with pytest.raises(UsageError, match=r"unknown training data ''; .*; give the texts of .*old as `texts=`$"):
        bridge(str(tmp_path / "old"), str(other), str(tmp_path / "run"), sample=60)


def test_the_command_prints_it_all(tiny_bert, other, task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    export(str(tiny_bert), str(task), "old", precision="fp32")
    words = ["vectors", "bridge", "old", str(other), "--on", f"beir:{task}", "--sample", "60"]
    assert run([*words, "-o", "bridged"]) == 0
    shown = capsys.readouterr().out
    assert "known-item MRR" in shown
    assert "MB to write" in shown
    assert f"dense:{other},export" not in shown
    assert "dense:bridged,export=old" in shown
    assert run([*words, "--into", "new", "-o", "mapped", "--json"]) == 0
    printed = capsys.readouterr().out
    result = json.loads(printed)
    assert result["texts"] == 60
    assert len(result["evaluation"]["results"]) == 3
    (tmp_path / "bridge.json").write_text(printed)
    source = read_record("bridge.json", "a bridge")
    assert source is not None
    assert json.loads(to_json(source.record.to_json(), kind="bridge")) == result
    assert source.conclusion == result["verdict"]
    assert "bridge" in source.sheets[0].title
    assert len(source.sheets) > 2, "those of the evaluation too"
    assert run(["vectors", "bridge", "old", str(tiny_bert), "-o", "unmeasured"]) == 0
    assert "; measure with --on" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--map", "cube"], "--map cube is not auto, orthogonal, affine, low-rank:N or mlp"),
        (["--map", "low-rank:17"], "--map low-rank:17: the rank is above the 16 dimensions of the embeddings"),
        (["--map", "low-rank:999999999"], "low-rank:N or mlp; at most low-rank:9999 and mlp:99999"),
        (["--texts", "gone.jsonl"], "gone.jsonl: does not exist"),
        (["--texts", "nameless.jsonl"], "nameless.jsonl:1: "),
        (["--texts", "/dev/zero"], "/dev/zero:1: the line is longer than 1 MiB; expected"),
        (["--texts", "few.jsonl"], "few.jsonl: lacks 95 documents of old; give --texts"),
        (["gone"], "gone: is not a folder of 'retrokit export'"),
        (["queries", "--on", "beir:TASK"], "queries: contains embeddings of the role query"),
        (["--sim", "l2"], "No such option"),
        (["--on", "beir:gone"], "gone"),
        (["--on", "beir:TASK", "--metrics", "ndgc@10"], "unknown metric 'ndgc@10'"),
        (["--on", "beir:elsewhere"], "old: lacks 1 of 1 documents"),
        (["--queries", "few.jsonl", "--into", "new"], "--queries needs --into old"),
        (["--queries", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_bad_input_is_one_line(tiny_bert, other, task, tmp_path, monkeypatch, capsys, options, complaint):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("retrokit.core.files.LONGEST_LINE", 1 << 20)
    write_jsonl(tmp_path / "few.jsonl", [{"id": IDS[0], "text": TEXTS[0]}])
    write_jsonl(tmp_path / "nameless.jsonl", [{"text": TEXTS[0]}])
    write_folder(tmp_path / "elsewhere", {"x": "a"}, {"q": "b"}, {"q": {"x": 1}})
    first, *options = [word.replace("TASK", str(task)) for word in (["old"] if options[0][0] == "-" else []) + options]
    export(str(tiny_bert), str(task), "old", precision="fp32")
    export(str(tiny_bert), str(task), "queries", role="query", precision="fp32")
    assert run(["vectors", "bridge", first, str(other), "-o", "bridged", *options]) == 2
    assert complaint in capsys.readouterr().err.strip().splitlines()[-1]
    assert not Path("bridged").exists()
