"""A bridge between two encoders: its maps against scipy and lstsq, what it writes, and when it says no."""

import json
import os
import shutil
import subprocess
import sys
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
from retrokit.data.corpus import read_queries
from retrokit.data.dtypes import DTYPES
from retrokit.data.jsonl import write_jsonl
from retrokit.evaluation.comparison.comparison import evaluation_of
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.result import Result
from retrokit.extensions.vectors import bridging
from retrokit.extensions.vectors.bridging import BridgeSample, _gained, bridge
from retrokit.extensions.vectors.maps import RIDGES, VectorMap, fit, ridge
from retrokit.extensions.vectors.query_side import train
from retrokit.ranking.export import export, open_export
from retrokit.similarities import registry
from tests.evaluation.fakes import write_folder
from tests.models import make_bert, sentences
from tests.training.test_saved_folders import PAIR, assert_read_alike, prompted

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


def test_an_mlp_learns_what_is_bent():
    x = drawn(600, 4)
    y = np.abs(x)
    errors = [np.square(fit(kind, x[:500], y[:500])(x[500:]) - y[500:]).mean() for kind in ("affine", "mlp:32")]
    assert errors[1] < 0.5 * errors[0]  # over 20 seeds 0.26, with an SD of 0.03


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
    of_documents = replace(sample, own=queries, maps_queries=False)
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


def test_queries_are_learned_from_too(tiny_bert, other, task, tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "retrokit")
    read: list[str] = []
    monkeypatch.setattr(bridging, "read_queries", lambda path: read.append(path) or read_queries(path))
    export(str(tiny_bert), str(task), str(tmp_path / "old"), precision="fp32")
    options = {"queries": str(task), "precision": "fp32", "map": "affine", "on": [f"beir:{task}"]}
    bridge(str(tmp_path / "old"), str(other), str(tmp_path / "run"), **options)
    assert len(read) == 1
    assert f"beir:{task}: the bridge learns from 30 of 30 queries that measure it" in caplog.text
    texts, queries = TEXTS, sentences(30, seed=9)
    sides = [retrokit.encoder(str(path)).embed([*texts, *queries], "query", "fp32") for path in (other, tiny_bert)]
    given, wanted = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sides)
    expected = fit("affine", given, wanted)(given[:5])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert SentenceTransformer(str(tmp_path / "run")).encode_query(texts[:5]) == pytest.approx(expected, abs=1e-4)


def test_labels_improve_a_bridge(tiny_bert, other, task, tmp_path):
    """It is trained further as any query side, against the old export."""
    export(str(tiny_bert), str(task), str(tmp_path / "old"), precision="fp32")
    bridge(str(tmp_path / "old"), str(other), str(tmp_path / "run"), map="orthogonal", precision="fp32")
    data = [f"beir:{task},split=test"]
    options = {"steps": 120, "batch_size": 10, "lr": 1e-2, "precision": "fp32", "encoder": str(tmp_path / "run")}
    train(str(tmp_path / "old"), data, str(tmp_path / "learned"), **options)
    systems = [f"dense:{tmp_path / name},export={tmp_path / 'old'}" for name in ("run", "learned")]
    bridged, learned = evaluate(systems, [f"beir:{task}"]).systems
    # over 20 seeds 0.19 more, with an SD of 0.01
    assert learned.metrics["ndcg@10"] > bridged.metrics["ndcg@10"] + 0.1


def test_weights_in_bf16(tiny_bert, other, task, tmp_path):
    """Of queries they are saved in float32, and of documents refused: the export would not fit them."""
    half = f"model:{tiny_bert},dtype=bf16"
    for name, encoder in (("old", str(tiny_bert)), ("half", half)):
        export(encoder, str(task), str(tmp_path / name), precision="fp32")
    bridge(str(tmp_path / "old"), f"model:{other},dtype=bf16", str(tmp_path / "run"), sample=60, precision="fp32")
    assert SentenceTransformer(str(tmp_path / "run")).encode_query(["cat"]).shape == (1, 16)
    assert len(retrokit.search(str(tmp_path / "run"), open_export(tmp_path / "old"), ["cat"], k=3)) == 1
    with pytest.raises(UsageError, match="its weights are bfloat16; give dtype=fp32 and export again"):
        bridge(str(tmp_path / "half"), str(other), str(tmp_path / "run2"), sample=60)


def test_embeddings_that_are_cut_are_refused(tiny_bert, other, task, tmp_path):
    cut = tmp_path / "cut"
    SentenceTransformer(str(tiny_bert), truncate_dim=8).save(str(cut))
    for name, encoder in (("whole", other), ("cut-rows", cut)):
        export(str(encoder), str(task), str(tmp_path / name), precision="fp32")
    for rows, encoder in (("whole", cut), ("cut-rows", other)):
        with pytest.raises(UsageError, match="cuts embeddings to 8 dimensions"):
            bridge(str(tmp_path / rows), str(encoder), str(tmp_path / "run"), sample=60)


def test_texts_are_those_of_the_export(tiny_bert, other, tmp_path, monkeypatch):
    texts, old = tmp_path / "texts.jsonl", tmp_path / "old"
    write_jsonl(texts, ({"id": id, "text": text} for id, text in zip(IDS, TEXTS, strict=True)))
    export(str(tiny_bert), str(texts), str(old), precision="fp32")
    write_jsonl(texts, ({"id": id, "text": text} for id, text in zip(IDS, reversed(TEXTS), strict=True)))
    with pytest.raises(UsageError, match=r"texts.jsonl: is not what .*old was written from"):
        bridge(str(old), str(other), str(tmp_path / "run"), sample=60)
    note = old / "export.json"
    piped = json.loads(note.read_text())
    piped["source"] = {"spec": "-", "digest": None}
    note.write_text(json.dumps(piped))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match=r"-: is not what .*old was written from"):
        bridge(str(old), str(other), str(tmp_path / "run"), sample=60)
    note.write_text(json.dumps(piped | {"source": {"spec": str(tmp_path / "gone.jsonl"), "digest": "x"}}))
    with pytest.raises(UsageError, match=r"gone.jsonl: does not exist; give the texts of .*old as `texts=`$"):
        bridge(str(old), str(other), str(tmp_path / "run"), sample=60)
    note.write_text(json.dumps(piped | {"source": {"spec": "", "digest": "x"}}))
    with pytest.raises(UsageError, match=r"unknown training data ''; .*; give the texts of .*old as `texts=`$"):
        bridge(str(old), str(other), str(tmp_path / "run"), sample=60)
    note.write_text(json.dumps(piped))
    bridge(str(old), str(other), str(tmp_path / "run"), sample=60, texts=str(texts))


def test_the_same_encoder_needs_no_bridge(tiny_bert, task, tmp_path):
    """The identity is learned, ranks as before, and gains nothing."""
    export(str(tiny_bert), str(task), str(tmp_path / "old"), precision="fp32")
    result = bridge(str(tmp_path / "old"), str(tiny_bert), str(tmp_path / "run"), on=[f"beir:{task}"], precision="fp32")
    # over 20 seeds there is no difference; a near tie of two documents may fall the other way
    assert result.mrr == pytest.approx(result.mrr_unmapped, abs=0.05)
    old, bridged, again = (system.metrics["ndcg@10"] for system in result.evaluation.systems)
    assert old == again == pytest.approx(bridged, abs=0.05)
    assert result.gained == {f"beir:{task}": None}
    assert result.verdict.endswith("no: not even embedding again is shown to be better than the old system")


@pytest.mark.parametrize(("gain", "spread", "share"), [(0.2, 0.01, 0.5), (0.2, 2.0, None), (-0.2, 0.01, None)])
def test_a_share_is_of_a_gain_that_is_shown(gain, spread, share):
    old, noise = drawn(40), drawn(40, seed=1)
    noise = spread * (noise - noise.mean())
    results = []
    for name, values in {"old": old, "bridged": old + gain / 2 + noise, "new": old + gain + noise}.items():
        per_query = {"ndcg@10": {f"q{place}": value for place, value in enumerate(values.tolist())}}
        metrics = {"ndcg@10": float(values.mean())}
        results.append(Result(name, "cosine", "beir:x", "ndcg@10", metrics, per_query, {}, {}, {}))
    gained = _gained(evaluation_of(results, {"beir:x": ["ndcg@10"]}, {}))
    assert gained == {"beir:x": None if share is None else pytest.approx(share)}


def test_an_encoder_that_is_gone_is_named_with_its_export(tiny_bert, other, task, tmp_path):
    gone = shutil.copytree(tiny_bert, tmp_path / "gone")
    export(str(gone), str(task), str(tmp_path / "old"), precision="fp32")
    shutil.rmtree(gone)
    for options, advice in (({}, "give `into=` new"), ({"into": "new", "on": [f"beir:{task}"]}, "leave out `on=`")):
        problem = rf"old: needs \S*gone, which cannot be loaded \(.*\); put it back, or {advice}"
        with pytest.raises(UsageError, match=problem) as error:
            bridge(str(tmp_path / "old"), str(other), str(tmp_path / "run"), **options)
        assert "\n" not in str(error.value)
    bridge(str(tmp_path / "old"), str(other), str(tmp_path / "mapped"), into="new", sample=60)


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
    result = json.loads(capsys.readouterr().out)
    assert result["texts"] == 60
    assert len(result["evaluation"]["results"]) == 3
    assert run(["vectors", "bridge", "old", str(tiny_bert), "-o", "unmeasured"]) == 0
    assert "; measure with --on" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--map", "cube"], "--map cube: expected auto, orthogonal, affine, low-rank:N or mlp"),
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
        (["--queries", "few.jsonl", "--into", "new"], "--queries is for --into old"),
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


def test_a_bridge_saves_prompts_too(tiny_bert: Path, tmp_path: Path) -> None:
    base = str(prompted(tmp_path / "base", tiny_bert, {"prompts": PAIR}))
    corpus = {f"d{number}": text for number, text in enumerate(sentences(12, seed=30))}
    data = write_folder(tmp_path / "data", corpus, {"q1": "who sees the mountain"}, {"q1": {"d1": 1}})
    stored = str(tmp_path / "export")
    assert run(["export", base, "--on", f"beir:{data}", "-o", stored, "--precision", "fp32", "--device", "cpu"]) == 0
    command = ["vectors", "bridge", stored, base, "--map", "orthogonal", "--into", "old", "--device", "cpu"]
    assert run([*command, "-o", str(tmp_path / "bridged")]) == 0
    assert_read_alike(tmp_path / "bridged", ("who sees ", "the mountain is "))


@pytest.mark.slow
def test_the_example_trains_queries_and_moves_to_another_encoder(other, tmp_path):
    queries = {f"q{i}": text for i, text in enumerate(sentences(90, seed=9))}
    data = write_folder(tmp_path / "data", dict(zip(IDS, TEXTS, strict=True)), queries, {"q0": {"d0": 1}})
    for split, first, last in (("train", 0, 66), ("dev", 66, 78), ("test", 78, 90)):
        rows = [f"q{i}\td{i}\t1" for i in range(first, last)]
        (data / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    example = Path(__file__).parents[3] / "examples" / "stored_documents.sh"
    words = ["bash", str(example), str(tmp_path / "out"), "static:16", str(other), str(data)]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("map", "encoder", "bridge", "bridge-trained"):
        assert len(retrokit.search(str(tmp_path / "out" / name), open_export(tmp_path / "out/documents"), ["cat"])) == 1
    assert "bridge-trained,export" in done.stdout
