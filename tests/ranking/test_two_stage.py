"""Two stages by hand, against pytrec_eval, scipy and scikit-learn; breaks and bad input."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from scipy.stats import ttest_rel
from sklearn.metrics import roc_auc_score, roc_curve

from retrokit import encoders
from retrokit.core.errors import DataError, Interrupted, UsageError
from retrokit.core.notices import listening
from retrokit.data.trec import read_run, write_run
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.two_stage import TwoStageOptions, rerank
from retrokit.metrics.significance import holm, randomisation_test
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking import kept
from retrokit.ranking.retrieval.base import TextList
from tests.evaluation.fakes import Notices, write_folder, write_lines
from tests.ranking import scorers
from tests.ranking.scorers import hashed, register
from tests.trec import read_qrels, trec_order

DOCUMENTS = {"a": "text a", "b": "text b", "c": "text c", "d": "text d"}
QUERIES = {"q1": "first", "q2": "second"}
QRELS = {"q1": {"b": 1}, "q2": {"c": 1, "d": 2}}
RUN = {"q1": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0}, "q2": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
SCORES = {
    **{("first", f"text {name}"): score for name, score in zip("abcd", (0.1, 0.9, 5.0, 5.0), strict=True)},
    **{("second", f"text {name}"): score for name, score in zip("abcd", (0.2, 0.1, 0.8, 0.9), strict=True)},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "data", DOCUMENTS, QUERIES, QRELS)


def reranked(folder: Path, run: dict[str, dict[str, float]] | Path, *names: str, **options: object) -> Evaluation:
    """Both stages of a run on a folder, with the rerankers ``names``."""
    path = run
    if isinstance(run, dict):
        path = folder.parent / "first.trec"
        write_run(path, run, "first")
    extra = {name: options.pop(name) for name in ("work", "save_run") if name in options}
    given = TwoStageOptions(run=str(path), **options)
    return rerank(None, [f"beir:{folder}"], names or ["fake"], given, **extra)


def test_metrics_of_built_in_documents() -> None:
    found = rerank("static:8", ["docstrings:documents=200"], ["static,dim=8,name=small"])
    assert list(found.shown.values()) == [["ndcg@10", "accuracy@1", "mrr@10"]]


@pytest.mark.parametrize("spec", ["minilm,name=small", "static,dim=8", "mine,sim=dot", "runs/mine,sim=dot", "minilm"])
def test_an_encoder_as_reranker(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert reranking.registry_of(spec) is encoders.registry


def test_a_reranker_with_a_comma() -> None:
    assert reranking.registry_of("maxsim,encoder=minilm") is reranking.registry


def test_both_stages_by_hand(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = register(monkeypatch, fake=SCORES)
    found = reranked(folder, RUN, depth=3, save_run=str(tmp_path / "second.trec"))
    before, after = found.results
    # q1: b is second; q2: c is third and d fourth
    assert before.metrics["mrr@10"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert before.metrics["accuracy@1"] == 0
    gain = 1 / math.log2(4) + 2 / math.log2(5)
    assert before.per_query["ndcg@10"]["q2"] == pytest.approx(gain / (2 + 1 / math.log2(3)))
    # q1: c, b, a, then d, which would be first but lies below the depth; q2: c, a, b, then d
    assert [trec_order(after.run[query]) for query in QUERIES] == [["c", "b", "a", "d"], ["c", "a", "b", "d"]]
    assert after.metrics["mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert after.metrics["accuracy@1"] == 0.5
    gain = 1 + 2 / math.log2(5)
    assert after.per_query["ndcg@10"]["q2"] == pytest.approx(gain / (2 + 1 / math.log2(3)))
    assert after.metrics["recall@3"] == before.metrics["recall@3"] == 0.75
    assert (after.similarity, before.encoder) == ("own + fake, depth 3", f"run:{tmp_path / 'first.trec'}")
    assert after.counts["reranked_pairs"] == 6
    assert after.counts["documents_below_depth"] == 2
    assert after.configuration["cost"]["pairs_computed"] == 6
    assert made[0].calls == [[(text, f"text {name}") for text in QUERIES.values() for name in "abc"]]
    assert read_run(tmp_path / "second.trec") == after.run
    assert list(found.shown.values()) == [["ndcg@10", "accuracy@1", "mrr@10"]]
    assert not (tmp_path / "second.trec.work").exists()


def test_fusion_by_hand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, fake=SCORES)
    # q1: min-max of the first stage 1, 2/3, 1/3, 0; of the reranker 0, 0.8/4.9, 1, 1
    run = reranked(folder, RUN, blend=0.25).results[1].run["q1"]
    expected = {"a": 0.75, "b": 0.5 + 0.2 / 4.9, "c": 0.25 + 0.25, "d": 0.25}
    assert run == pytest.approx(expected)
    # the reranker ranks c, d (an equal score, later in the first stage), b, a
    found = reranked(folder, RUN, fusion="rrf").results[1]
    expected = {"a": 1 / 61 + 1 / 64, "b": 1 / 62 + 1 / 63, "c": 1 / 63 + 1 / 61, "d": 1 / 64 + 1 / 62}
    assert found.run["q1"] == pytest.approx(expected, rel=1e-12)
    assert found.similarity == "own + fake, rrf"
    for weight, same in ((0.0, 0), (1.0, 1)):
        results = reranked(folder, RUN, blend=weight).results
        alone = reranked(folder, RUN).results
        assert results[1].metrics == alone[same].metrics
        assert trec_order(results[1].run["q2"]) == trec_order(alone[same].run["q2"])


@pytest.mark.parametrize("value", [0.3, 0.0, -2.0, 1e9])
@pytest.mark.parametrize("depth", [3, 100])
def test_equal_scores_keep_the_order_of_the_first_stage(folder, monkeypatch, value, depth):
    register(monkeypatch, fake=lambda query, document: value)
    with listening(notices := Notices()):
        before, after = reranked(folder, RUN, depth=depth).results
    assert after.metrics == before.metrics
    assert [trec_order(after.run[query]) for query in RUN] == [trec_order(before.run[query]) for query in RUN]
    problem = "fake: all scores are equal for 2 of 2 queries; their documents keep the first stage's order"
    assert problem in notices.messages


@pytest.mark.parametrize("size", [1.0, 1e7, -3e9, 1e-9])
def test_what_lies_below_the_depth_stays_behind(folder: Path, monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    documents = {f"d{i:03}": f"text {i}" for i in range(300)}
    long = write_folder(folder.parent / "long", documents, {"q": "query"}, {"q": {"d250": 1}})
    register(monkeypatch, fake=lambda query, document: size * (1 + hashed(query, document)))
    first = {"q": {name: -float(i) for i, name in enumerate(documents)}}
    result = reranked(long, first, depth=20).results[1]
    order = trec_order(result.run["q"])
    assert order[20:] == list(documents)[20:]
    assert sorted(order[:20]) == list(documents)[:20]
    assert len(set(map(np.float32, list(result.run["q"].values())[19:]))) == 281
    assert result.metrics["mrr@10"] == 0


@pytest.fixture
def many(tmp_path: Path) -> tuple[Path, dict[str, dict[str, float]]]:
    """A folder of 40 queries and 60 documents, and a run with ties that lacks two of the queries."""
    rng = np.random.default_rng(3)
    documents = {f"d{i}": f"document {i}" for i in range(60)}
    queries = {f"q{i}": f"query {i}" for i in range(40)}
    qrels = {query: {f"d{d}": int(rng.integers(0, 3)) for d in rng.choice(60, 6, replace=False)} for query in queries}
    run = {
        query: {f"d{d}": float(rng.integers(0, 9)) for d in rng.choice(60, 30, replace=False)}
        for query in list(queries)[:-2]
    }
    return write_folder(tmp_path / "many", documents, queries, qrels), run


def test_metrics_and_tests_are_those_of_others(many, tmp_path, monkeypatch):
    register(monkeypatch, fake=hashed, other=lambda query, document: -hashed(document, query))
    folder, run = many
    save = tmp_path / "runs"
    found = reranked(folder, run, "fake", "other", depth=12, save_run=str(save))
    before, *after = found.results
    assert [result.counts["queries_without_candidates"] for result in after] == [2, 2]
    qrels = read_qrels(folder / "qrels" / "test.tsv")
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "success.1", "recip_rank"})
    p_values = []
    scorings = hashed, lambda query, document: -hashed(document, query)
    for result, file, score in zip(after, sorted(save.iterdir()), scorings, strict=True):
        for query, scores in run.items():
            order = sorted(scores, key=lambda d: (scores[d], d), reverse=True)
            text = f"query {query[1:]}"
            top = sorted(order[:12], key=lambda d: np.float32(score(text, f"document {d[1:]}")), reverse=True)
            assert trec_order(read_run(file)[query]) == top + order[12:]
        theirs = evaluator.evaluate(read_run(file))
        for name, key in (("ndcg@10", "ndcg_cut_10"), ("accuracy@1", "success_1")):
            expected = {query: theirs.get(query, {}).get(key, 0.0) for query in qrels}
            assert result.per_query[name] == pytest.approx(expected)
            assert result.metrics[name] == pytest.approx(sum(expected.values()) / 40)
        a, b = before.per_query["ndcg@10"], result.per_query["ndcg@10"]
        t_test = ttest_rel([b[query] for query in qrels], [a[query] for query in qrels])
        p_values.append(max(t_test.pvalue, randomisation_test(a, b)))
    compared = [c for c in found.comparisons if c.metric == "ndcg@10"]
    assert [c.corrected_p for c in compared] == pytest.approx(holm(p_values))
    assert [c.test.difference for c in compared] == pytest.approx(
        [result.metrics["ndcg@10"] - before.metrics["ndcg@10"] for result in after]
    )


def test_a_break_changes_nothing(many: tuple[Path, dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = register(monkeypatch, fake=hashed)
    monkeypatch.setattr(kept, "PAIRS_AT_ONCE", 100)
    folder, run = many
    whole = tmp_path / "whole.trec"
    reranked(folder, run, depth=12, save_run=str(whole))
    blocks = len(made[0].calls)
    assert blocks == 5  # eight queries with twelve documents each go together
    monkeypatch.setitem(scorers.BREAK, "at", 3)
    broken = tmp_path / "broken.trec"
    with pytest.raises(Interrupted, match=r"broken\.trec\.work"):
        reranked(folder, run, depth=12, save_run=str(broken))
    assert not broken.exists()
    scorers.BREAK.clear()
    notices = Notices()
    with listening(notices):
        found = reranked(folder, run, depth=12, save_run=str(broken))
    assert any("resuming" in message for message in notices.messages)
    assert [len(one.calls) for one in made[1:]] == [3, blocks - 3]
    assert broken.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "broken.trec.work").exists()
    cost = found.results[1].configuration["cost"]
    assert (cost["pairs"], cost["pairs_computed"]) == (456, 456 - 3 * 96)


def test_kept_scores_serve_other_blends_and_depths_alone(many, tmp_path, monkeypatch):
    made = register(monkeypatch, fake=hashed)
    folder, run = many
    work = tmp_path / "made" / "here"
    for weight in (None, 0.3):
        reranked(folder, run, depth=12, work=str(work), blend=weight)
    assert [len(one.calls) for one in made] == [1, 0]
    assert work.is_dir()
    reranked(folder, run, depth=13, work=str(work))
    assert len(made[2].calls) == 1


def test_a_search_caches_scores_too(tmp_path, monkeypatch):
    made = register(monkeypatch, fake=hashed)
    spec = f"two-stage:bm25,reranker=fake,work={tmp_path / 'work'}"
    first, second = (retrieval.search(spec, list(DOCUMENTS.values()), ["text b"])[0] for _ in range(2))
    assert [len(one.calls) for one in made] == [1, 0]
    assert [side.tolist() for side in first] == [side.tolist() for side in second]


def test_scores_that_are_not_finite_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, fake=lambda query, document: math.nan if query == "second" else 1.0)
    with pytest.raises(DataError, match="fake: 4 of 8 scores are not finite, the first of the query 'second'"):
        reranked(folder, RUN)


def test_what_a_query_excludes_never_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, fake=lambda query, document: {"text d": 3.0, "text c": 2.0}.get(document, 1.0))
    (tmp_path / "b").mkdir()
    write_lines(tmp_path / "b" / "documents.jsonl", [{"id": k, "content": v} for k, v in DOCUMENTS.items()])
    example = {"id": "q1", "query": "first", "excluded_ids": ["d"], "gold_ids": ["c"], "gold_ids_long": ["N/A"]}
    write_lines(tmp_path / "b" / "examples.jsonl", [{**example, "reasoning": ""}])
    write_run(tmp_path / "r.trec", {"q1": RUN["q1"]}, "x")
    found = rerank(None, [f"bright:{tmp_path / 'b'}"], ["fake"], TwoStageOptions(run=str(tmp_path / "r.trec")))
    before, after = found.results
    assert "d" not in before.run["q1"]
    assert trec_order(after.run["q1"])[0] == "c"
    assert after.counts["run_documents_left_out"] == 1
    assert after.metrics["accuracy@1"] == 1


def test_seeds_of_either_stage_are_averaged(many, tmp_path, monkeypatch):
    register(monkeypatch, fake=hashed)
    folder, run = many
    fresh = [f"static:16,seed={seed}" for seed in (1, 2)]
    results = str(tmp_path / "results")
    behind = reranked(folder, run, *fresh, "fake", results=results)
    first, seeds, fake = behind.systems
    assert (len(first.results), len(fake.results), seeds.seeds) == (1, 1, ("1", "2"))
    assert (seeds.encoder, first.encoder) == (first.encoder, behind.results[0].encoder)
    assert seeds.similarity == "own + static:16,seed=* (2 seeds)"
    values = [one.metrics["ndcg@10"] for one in behind.results[1:3]]
    assert seeds.metrics["ndcg@10"] == pytest.approx(np.mean(values))
    assert seeds.deviation("ndcg@10") == pytest.approx(np.std(values, ddof=1))
    kept = evaluate(results=results)
    assert [one.name for one in kept.systems] == [one.name for one in behind.systems]
    page = Evaluation.from_json(json.loads(json.dumps(behind.to_json())))
    assert [(one.name, one.seeds) for one in page.systems] == [(one.name, one.seeds) for one in behind.systems]
    # as first stages, and both: the seeds of one reranker stay apart from another's
    both = rerank(fresh, [f"beir:{folder}"], ["fake", *fresh], TwoStageOptions()).systems
    assert [(len(one.results), one.seeds) for one in both] == [
        (2, ("1", "2")),
        (2, ("1", "2")),
        (4, ("1+1", "1+2", "2+1", "2+2")),
    ]
    assert both[1].name == "static:16,seed=* (2 seeds) cosine + fake"


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        (None, {}, "needs a first stage"),
        ("bm25", {"run": "x"}, "takes the place of bm25"),
        ("bm25", {"sim": "dot"}, "`sim=` dot: no encoder is evaluated"),
        (None, {"run": "x", "dims": 8}, "`dims=` 8: no encoder is evaluated"),
        ("bm25", {"paraphrases": "pairs.jsonl"}, "is for near-misses"),
        ("bm25", {"metrics": ("ndgc@10",)}, "did you mean ndcg@10"),
        ("nonsense:x", {"sim": "cosin"}, "cosin"),
    ],
)
def test_requests_that_make_no_sense(folder, monkeypatch, encoder, options, message):
    register(monkeypatch, fake=SCORES)
    with pytest.raises(UsageError, match=message):
        rerank(encoder, [f"beir:{folder}"], ["fake"], TwoStageOptions(**options))


@pytest.mark.parametrize(
    "wrong", [{"depth": 0}, {"blend": 1.5}, {"blend": math.nan}, {"fusion": "sum"}, {"blend": 0.5, "fusion": "rrf"}]
)
def test_options_out_of_range(wrong: dict) -> None:
    with pytest.raises(UsageError):
        replace(TwoStageOptions(), **wrong)


# --- near-misses


def near_misses(tmp_path: Path, count: int = 30, paraphrases: bool = True) -> Path:
    names = ("anchor", "positive", "negatives", "family")
    positive = "same" if paraphrases else "anchor"
    rows = (
        (f"anchor {i}", f"{positive} {i}", [f"near {i}", f"nearer {i}"], ("negation", "binding")[i % 2])
        for i in range(count)
    )
    return write_lines(tmp_path / "pairs.jsonl", [dict(zip(names, row, strict=True)) for row in rows])


def test_near_misses_are_scikit_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = register(monkeypatch, fake=lambda query, document: hashed(query, document) + 0.3 * document.startswith("s"))
    path = near_misses(tmp_path)
    found = rerank(None, [f"pairs:{path}"], ["fake"])
    (result,) = found.results
    score = lambda query, document: np.float32(made[0]._score(query, document))  # noqa: E731
    positive = np.array([score(f"anchor {i}", f"same {i}") for i in range(30)])
    for family, members in (("", range(30)), ("/negation", range(0, 30, 2)), ("/binding", range(1, 30, 2))):
        near = np.array([score(f"anchor {i}", f"{kind} {i}") for i in members for kind in ("near", "nearer")])
        labels = np.repeat([1, 0], [30, len(near)])
        both = np.concatenate([positive, near])
        rate, accepts, _ = roc_curve(labels, both, drop_intermediate=False)
        assert result.metrics[f"roc_auc{family}"] == pytest.approx(roc_auc_score(labels, both))
        assert result.metrics[f"false_accept@95{family}"] == pytest.approx(min(rate[accepts >= 0.95]))
        assert result.metrics[f"near_miss{family}"] == pytest.approx(near.mean())
        own = np.array([score(f"anchor {i}", f"same {i}") for i in members])
        assert result.metrics[f"positive{family}"] == pytest.approx(own.mean())
    assert 0.5 < result.metrics["roc_auc"] < 1
    (system,) = found.systems
    low, high = system.draws("roc_auc").interval
    assert low < result.metrics["roc_auc"] < high
    assert len(made[0].calls[0]) == len(set(made[0].calls[0])) == 90


def test_scores_of_pairs_embed_no_document_of_the_index():
    documents = TextList(["a cat", "a dog", "a bird"], ["d0", "d1", "d2"])
    index = retrieval.create("static:8").index(documents)
    assert len(index.score_pairs(TextList(["cat"]), TextList(["a cat"]))) == 1
    assert "blocks" not in vars(index.source)
