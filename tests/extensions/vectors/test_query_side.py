"""Training of a query side against stored vectors: the export stays as it is, and the new queries fit it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import retrokit
from retrokit.cli.entry import run as retrokit_run
from retrokit.core.errors import UsageError
from retrokit.core.files import digest
from retrokit.data.dtypes import DTYPES
from retrokit.data.jsonl import write_jsonl
from retrokit.evaluation.evaluate import evaluate
from retrokit.extensions.vectors import query_side
from retrokit.extensions.vectors.query_side import QueryMap, plan, train
from retrokit.extensions.vectors.settings import VectorsConfig
from retrokit.ranking.export import export, open_export
from retrokit.training.trainer import Options
from tests.evaluation.fakes import write_folder
from tests.models import sentences
from tests.runs import assert_same_weights, history_of, killed_after

TEXTS, QUERIES = sentences(96), sentences(40, seed=9)
IDS = [f"d{number}" for number in range(96)]
SIDES = ["map", "low-rank:3", "mlp:8", "encoder"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "corpus.jsonl", ({"id": id, "text": t} for id, t in zip(IDS, TEXTS, strict=True)))
    return tmp_path / "corpus.jsonl"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs by the ids of documents, some with negatives, and one anchor with two positives."""
    rows = [{"anchor": q, "positive": IDS[i], "negatives": IDS[50 : 50 + i % 3]} for i, q in enumerate(QUERIES)]
    rows[1]["anchor"] = rows[0]["anchor"]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


def exported(encoder: Path, corpus: Path, out: Path, shards: int = 1, **options) -> Path:
    for shard in [f"{number}/{shards}" for number in range(1, shards + 1)] if shards > 1 else [None]:
        export(str(encoder), str(corpus), str(out), shard=shard, precision="fp32", **options)
    return out


def configure(encoder: Path | None, data: Path, documents: Path, output: Path | None, **options) -> VectorsConfig:
    defaults = {"steps": 6, "batch_size": 8, "precision": "fp32", "lr": 1e-2, "device": "cpu", "log_every": 2}
    defaults |= {"mined": 2, "mine_every": 2, "encoder": encoder and str(encoder)}
    return VectorsConfig(str(documents), [str(data)], None if output is None else str(output), **(defaults | options))


@pytest.mark.parametrize(("side", "sim", "dtype"), zip(SIDES, ["cosine", "dot", "sfs:4", "qnorm"], DTYPES, strict=True))
def test_the_new_queries_fit_the_old_vectors(tiny_bert, corpus, pairs, tmp_path, side, sim, dtype):
    documents = exported(tiny_bert, corpus, tmp_path / "documents", dtype=dtype, sim=sim)
    before = digest(documents)
    train(configure(tiny_bert, pairs, documents, tmp_path / "run", query_side=side))
    assert digest(documents) == before
    card = (tmp_path / "run" / "README.md").read_text()
    assert "Only its query side was trained" in card
    assert str(documents) not in card
    start, trained = retrokit.encoder(str(tiny_bert)), retrokit.load(str(tmp_path / "run"))
    assert np.array_equal(start.embed(TEXTS, "document", "fp32"), trained.embed(TEXTS, "document", "fp32"))
    queries = trained.embed(QUERIES, "query", "fp32")
    assert np.abs(queries - start.embed(QUERIES, "query", "fp32")).max() > 1e-3
    plain = SentenceTransformer(str(tmp_path / "run"), trust_remote_code=sim.startswith("sfs"))
    prepared = trained.similarity.prepare(torch.from_numpy(queries), "query").numpy()
    shown = prepared if trained.similarity.export != "raw" else queries
    assert plain.encode_query(QUERIES) == pytest.approx(shown, abs=1e-5)
    asked = np.where(prepared > 0, 1, -1) if dtype == "binary" else prepared
    scores = asked.astype(np.float64) @ open_export(documents).vectors().T.astype(np.float64)
    found = retrokit.search(str(tmp_path / "run"), open_export(documents), QUERIES, k=5, precision="fp32")
    for row, (values, places) in zip(scores, found, strict=True):
        assert values == pytest.approx(np.sort(row)[::-1][:5], rel=1e-4)
        assert row[places] == pytest.approx(values, rel=1e-4)


@pytest.mark.parametrize("side", SIDES[:3])
def test_a_map_starts_as_the_identity_and_is_saved_as_it_is(side):
    query_map, given = QueryMap(16, side, seed=1), torch.randn(5, 16)
    assert torch.equal(query_map({"sentence_embedding": given})["sentence_embedding"], given)

    def saved(rows: torch.Tensor) -> torch.Tensor:
        features = {"sentence_embedding": rows}
        for layer in query_map.layers():
            features = layer(features)
        return features["sentence_embedding"]

    assert torch.equal(saved(given), given)
    torch.nn.init.normal_(query_map.last.weight)
    query_map.share = 0.25
    first = given if query_map.first is None else given @ query_map.first.weight.T
    expected = given + 0.25 * (first.relu() if side == "mlp:8" else first) @ query_map.last.weight.T
    for mapped in (query_map({"sentence_embedding": given})["sentence_embedding"], saved(given)):
        torch.testing.assert_close(mapped, expected, atol=1e-4, rtol=1e-4)


def test_the_loss_is_infonce_over_the_stored_vectors(tiny_bert, corpus, pairs, tmp_path):
    documents = exported(tiny_bert, corpus, tmp_path / "documents", dtype="int8", sim="dot")
    job = plan(configure(tiny_bert, pairs, documents, None, mined=0, batch_size=16, scale=0.5))
    trainer = job.trainer(Options(output_dir=str(tmp_path / "checkpoints"), report_to="none", use_cpu=True))
    batch = next(iter(trainer.loader))
    loss = trainer.compute_loss(job.model, batch).item()
    queries = torch.from_numpy(
        retrokit.encoder(str(tiny_bert)).embed([p.anchor for p in batch["batch"]], "query", "fp32")
    )
    vectors = torch.from_numpy(open_export(documents).vectors())
    scores = 0.5 * queries.double() @ vectors[batch["rows"]].double().T
    both = [IDS[0], IDS[1]]  # positives of one anchor, which are no negatives of each other
    for i, pair in enumerate(batch["batch"]):
        for j, row in enumerate(batch["rows"].tolist()):
            known = pair.anchor == QUERIES[0] and IDS[row] in both
            if j != i and (known or IDS[row] == pair.positive):
                scores[i, j] = -np.inf
    own = torch.arange(len(queries))
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(scores, own).item(), rel=1e-5)


def test_without_negatives_it_is_the_librarys_loss(tiny_bert, corpus, tmp_path):
    documents = exported(tiny_bert, corpus, tmp_path / "documents")
    rows = [{"anchor": query, "positive": id} for query, id in zip(QUERIES, IDS, strict=False)]
    write_jsonl(tmp_path / "plain.jsonl", rows)
    job = plan(configure(tiny_bert, tmp_path / "plain.jsonl", documents, None, mined=0, batch_size=16))
    trainer = job.trainer(Options(output_dir=str(tmp_path / "checkpoints"), report_to="none", use_cpu=True))
    batch = next(iter(trainer.loader))
    encoder = retrokit.encoder(str(tiny_bert))
    queries = torch.from_numpy(encoder.embed([pair.anchor for pair in batch["batch"]], "query", "fp32"))
    positives = torch.from_numpy(open_export(documents).vectors())[batch["rows"]]
    theirs = MultipleNegativesRankingLoss(SentenceTransformer(str(tiny_bert)))
    expected = theirs.compute_loss_from_embeddings([queries, positives], None)
    assert trainer.compute_loss(job.model, batch).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("among", [1000, 64])
def test_negatives_are_the_nearest_of_a_sample(tiny_bert, corpus, pairs, tmp_path, monkeypatch, among):
    monkeypatch.setattr(query_side, "MINED_AMONG", among)
    monkeypatch.setattr(query_side, "BLOCK", 8)
    documents = exported(tiny_bert, corpus, tmp_path / "documents", shards=3)
    job = plan(configure(tiny_bert, pairs, documents, None, mined=5, mine_every=10))
    mined, encoder = job.negatives(), job.query_encoder()
    drawn = mined.draw(QUERIES[2:10], 0, encoder).reshape(8, 5)
    sample = np.unique(mined._sample_of(0)[0])
    assert len(sample) == min(among, 96)
    vectors = open_export(documents).vectors()
    scores = encoder.embed(QUERIES[2:10], "query", "fp32") @ vectors[sample].T
    nearest = sample[(-scores).argsort(axis=1)[:, : query_side.DEPTH]]
    assert mined.nearest[1:9].sort()[0].tolist() == np.sort(nearest, axis=1).tolist()
    assert all(set(own) <= set(near) for own, near in zip(drawn.tolist(), nearest.tolist(), strict=True))
    _, sampled = mined._sample_of(0)  # which is read from disk once, whatever encoder asks
    assert query_side.asked_by(encoder, sampled).source.blocks is vars(sampled.source)["blocks"]
    assert (mined._sample_of(1)[0].tolist() != sample.tolist()) == (among == 64)


def test_a_map_learns_what_was_done_to_the_documents(tiny_bert, corpus, tmp_path):
    """Documents are rotated, and each is the answer to its own text: Procrustes finds all again, the start next to
    none, and a map far more than the start does, held-out ones too."""
    documents = exported(tiny_bert, corpus, tmp_path / "documents")
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0].astype(np.float32)
    rows = np.load(documents / "embeddings.npy") @ rotation
    np.save(documents / "embeddings.npy", rows)
    write_jsonl(tmp_path / "own.jsonl", ({"anchor": t, "positive": id} for id, t in zip(IDS, TEXTS, strict=True)))
    options = {"holdout": 0.2, "steps": 300, "lr": 0.05, "batch_size": 64}
    outcome = train(configure(tiny_bert, tmp_path / "own.jsonl", documents, tmp_path / "run", **options))
    first, best = outcome.evaluations[0], max(row["evaluation"]["holdout:ndcg@10"] for row in outcome.evaluations)
    assert best > first["evaluation"]["holdout:ndcg@10"] + 0.4  # over 20 seeds 0.78 more, with an SD of 0.05
    raw = retrokit.encoder(str(tiny_bert)).embed(TEXTS, "query", "fp32")
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    learned = retrokit.load(str(tmp_path / "run")).embed(TEXTS, "query", "fp32")
    procrustes = raw @ orthogonal_procrustes(raw, rows)[0]
    start, mapped, best_rotation = (
        np.mean((side @ rows.T).argmax(axis=1) == np.arange(96)) for side in (raw, learned, procrustes)
    )
    assert start + 0.3 < mapped <= best_rotation == 1  # over 20 seeds 0.63 more, with an SD of 0.03


@pytest.mark.parametrize("side", ["map", "encoder"])
def test_a_killed_run_ends_as_if_it_had_not_been(tiny_bert, corpus, pairs, tmp_path, side):
    documents = exported(tiny_bert, corpus, tmp_path / "documents")
    options = {"query_side": side, "steps": 8, "mine_every": 4, "save_every": 1, "holdout": 0.2, "eval_every": 4}
    train(configure(tiny_bert, pairs, documents, tmp_path / "whole", **options))
    with killed_after(3):
        train(configure(tiny_bert, pairs, documents, tmp_path / "run", **options))
    train(configure(tiny_bert, pairs, documents, tmp_path / "run", resume=True, **options))
    assert_same_weights(tmp_path / "whole", tmp_path / "run")
    evaluations = [[row for row in history_of(tmp_path / run) if "evaluation" in row] for run in ("whole", "run")]
    assert evaluations[0] == evaluations[1]


@pytest.mark.parametrize("shards", [1, 3])
def test_eval_with_the_export_is_eval_of_the_texts(tiny_bert, pairs, tmp_path, shards):
    folder = write_folder(
        tmp_path / "beir",
        dict(zip(IDS, TEXTS, strict=True)),
        {f"q{i}": text for i, text in enumerate(QUERIES)},
        {f"q{i}": {IDS[i]: 2, IDS[i + 1]: 1} for i in range(len(QUERIES))},
    )
    documents = exported(tiny_bert, folder, tmp_path / "documents", shards)
    train(configure(tiny_bert, pairs, documents, tmp_path / "run", eval=[f"beir:{folder}"], eval_every=3))
    systems = [str(tmp_path / "run"), f"dense:{tmp_path / 'run'},export={documents},precision=fp32"]
    results = evaluate(systems, on=[f"beir:{folder}"], precision="fp32").results
    assert results[0].per_query == results[1].per_query
    best = json.loads((tmp_path / "run" / "retrokit.json").read_text())["outcome"]["best_step"]
    rows = [row for row in history_of(tmp_path / "run") if row["step"] == best and "evaluation" in row]
    assert rows[0]["share"] in query_side.SHARES
    assert rows[0]["evaluation"]["beir:ndcg@10"] == pytest.approx(results[0].metrics["ndcg@10"], abs=1e-9)


def test_a_task_of_other_documents_is_refused_at_once(tiny_bert, corpus, pairs, tmp_path):
    documents = exported(tiny_bert, corpus, tmp_path / "documents")
    folder = write_folder(tmp_path / "beir", {IDS[0]: TEXTS[0], "x": "cat"}, {"q": "cat"}, {"q": {"x": 1}})
    with pytest.raises(UsageError, match="lacks 1 of 2 documents, the first of them 'x'"):
        plan(configure(tiny_bert, pairs, documents, None, eval=[f"beir:{folder}"]))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--query-side", "cube"], "--query-side cube is not map, low-rank:N, mlp or encoder"),
        (["--query-side", "low-rank:17"], "--query-side low-rank:17: the rank is above the 16 dimensions of"),
        (
            ["--query-side", "mlp:100000"],
            "mlp or encoder; at most low-rank:9999 and mlp:99999",
        ),
        (["--lora", "4"], "--lora needs --query-side encoder"),
        (["--freeze", "x", "--query-side", "encoder"], "--freeze x is not embeddings, first:N or all-but:K"),
        (
            ["--encoder", "static:16"],
            "static:16 does not have; give an encoder whose queries fit its vectors",
        ),
        (["--eval", "sts:missing.jsonl"], "missing.jsonl"),
        (["gone"], "gone: is not a folder of 'retrokit export'"),
        (["queries"], "contains embeddings of the role query"),
        (["chunks"], "contains chunks, and pairs are of documents"),
        (["few"], "has the first dimensions only"),
        (["--data", "other.jsonl"], "1 of 1 documents are no ids or texts of documents, the first 'nowhere'"),
    ],
)
def test_bad_input_is_one_line(tiny_bert, corpus, pairs, tmp_path, monkeypatch, capsys, options, complaint):
    monkeypatch.chdir(tmp_path)
    exported(tiny_bert, corpus, Path("documents"))
    write_jsonl(tmp_path / "other.jsonl", [{"anchor": "cat", "positive": "nowhere"}])
    if "queries" in options:
        exported(tiny_bert, corpus, Path("queries"), role="query")
    if "chunks" in options:
        export(f"model:{tiny_bert},chunks=8", str(corpus), "chunks", precision="fp32")
    if "few" in options:
        exported(tiny_bert, corpus, Path("few"), dims=8)
    words = ["vectors", "train", *options, "-o", "run", "--batch-size", "8", "--steps", "1"]
    if options[0].startswith("-"):
        words.append("documents")
    if "--data" not in options:
        words += ["--data", str(pairs)]
    assert retrokit_run(words) == 2
    error = capsys.readouterr().err.strip()
    assert complaint in error.splitlines()[-1]
    assert not Path("run").exists()
