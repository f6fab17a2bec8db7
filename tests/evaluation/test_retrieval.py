"""The retrieval task on a benchmark that can be worked out by hand."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

import retrokit
from retrokit.core.errors import UsageError
from retrokit.core.notices import listening
from retrokit.data.beir import read_beir
from retrokit.data.trec import read_run
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Bright, save_runs
from retrokit.metrics.ranking import DEFAULT_METRICS, evaluate_run, mean
from retrokit.ranking import retrieval
from tests.evaluation.fakes import GivenEncoder, Notices, write_folder

VECTORS = {
    "first": [1, 0, 0, 0],
    "second": [0, 2, 0, 0],
    "A": [4, 3, 0, 0],
    "B": [1, 0, 0, 0],
    "C": [0, 1, 0, 0],
    "D": [0, 0, 0, 5],
}
DOCUMENTS = {"a": "A", "b": "B", "c": "C", "d": "D"}
QUERIES = {"q1": "first", "q2": "second"}
QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2, "a": 1}}
SECOND = 1 / math.log2(3)  # the discount of rank 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "hand", DOCUMENTS, QUERIES, QRELS)


def evaluate(folder: Path, similarities: Sequence[str], encoder: GivenEncoder | None = None, **options) -> list[Result]:
    task = tasks.create(f"beir:{folder}")
    return task.evaluate(
        Request(encoder or GivenEncoder(VECTORS), [retrokit.similarity(s) for s in similarities], **options)
    )


def test_values_by_hand(folder: Path) -> None:
    cosine, dot, qnorm = evaluate(folder, ["cosine", "dot", "qnorm"])
    # cosine: q1 b 1, a 0.8, then d and c at 0; q2 c 1, a 0.6, then d and b at 0
    assert cosine.per_query["ndcg@10"] == pytest.approx({"q1": SECOND, "q2": 1.0})
    assert cosine.metrics["ndcg@10"] == pytest.approx((SECOND + 1) / 2)
    assert cosine.metrics["mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert cosine.metrics["recall@1"] == pytest.approx((0 + 1 / 2) / 2)
    assert cosine.metrics["map@100"] == pytest.approx((1 / 2 + 1) / 2)
    assert [list(ranked) for ranked in cosine.run.values()] == [["b", "a", "d", "c"], ["c", "a", "d", "b"]]
    assert cosine.run["q1"] == pytest.approx({"b": 1, "a": 0.8, "d": 0, "c": 0})
    # dot: q1 a 4, b 1; q2 a 6, c 2
    ideal = 2 + SECOND
    assert dot.per_query["ndcg@10"] == pytest.approx({"q1": 1.0, "q2": (1 + 2 * SECOND) / ideal})
    assert dot.run["q2"] == pytest.approx({"a": 6, "c": 2, "d": 0, "b": 0})
    assert qnorm.run["q2"] == pytest.approx({"a": 3, "c": 1, "d": 0, "b": 0})
    assert qnorm.metrics == dot.metrics != cosine.metrics


def test_what_a_result_says(folder: Path) -> None:
    encoder = GivenEncoder(VECTORS)
    cosine, learned = evaluate(folder, ["cosine", "learn:document=0.25"], encoder, precision="fp32")
    assert (cosine.encoder, cosine.similarity, cosine.task) == ("given", "cosine", f"beir:{folder}")
    assert (cosine.main_metric, cosine.name, learned.name) == ("ndcg@10", "given cosine", "given learn:document=0.25")
    assert tuple(cosine.metrics) == DEFAULT_METRICS
    assert set(cosine.per_query) == set(DEFAULT_METRICS)
    assert cosine.counts["queries"] == 2
    assert cosine.norms == pytest.approx(
        {
            **{"query_norm_mean": 1.5, "query_norm_std": 0.5, "query_norm_cv": 1 / 3},
            **{"document_norm_mean": 3.0, "document_norm_std": 2.0, "document_norm_cv": 2 / 3},
        }
    )
    expected = {"precision": "float32", "device": "cpu", "dims": 4, "fingerprint": "print"}
    assert {key: cosine.configuration[key] for key in expected} == expected
    assert cosine.configuration["retrokit"] == retrokit.__version__
    assert "gamma_document" not in cosine.configuration
    assert learned.configuration["gamma_document"] == pytest.approx(0.25)


def test_the_first_dimensions(folder: Path) -> None:
    (result,) = evaluate(folder, ["dot"], dims=1, metrics=["recall@1", "precision@3"])
    # q2 has nothing left: every document scores 0 and ranks by descending id
    assert result.run["q2"] == {"d": 0.0, "c": 0.0, "b": 0.0, "a": 0.0}
    fourth = 1 / math.log2(5)
    assert result.per_query["ndcg@10"] == pytest.approx({"q1": 1.0, "q2": (2 * SECOND + fourth) / (2 + SECOND)})
    assert list(result.metrics) == ["ndcg@10", "recall@1", "precision@3"], "the main one is always there"
    assert result.metrics["precision@3"] == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert (result.configuration["dims"], result.norms["query_norm_mean"]) == (1, 0.5)
    (whole,) = evaluate(folder, ["dot"], dims=4)
    assert whole.metrics == evaluate(folder, ["dot"])[0].metrics
    first, second = evaluate(folder, ["sfs:2", "dot"], dims=2)
    # one fragment of two dimensions: its cosine
    assert first.run["q1"] == pytest.approx({"b": 1, "a": 0.8, "d": 0, "c": 0})
    assert second.run["q1"] == pytest.approx({"a": 4, "b": 1, "d": 0, "c": 0})


@pytest.mark.parametrize(
    ("similarity", "dims", "problem"),
    [
        ("cosine", 0, "`dims=` 0: given has 4 dimensions"),
        ("cosine", 5, "`dims=` 5: given has 4 dimensions"),
        ("sfs:2", 3, "size 2 does not divide 3; sizes that do: 1, 3"),
        ("sfs:2,dims=4", 2, "dims=4 is more than the embedding's 2 dimensions"),
        ("sfs:3", None, "size 3 does not divide 4; sizes that do: 1, 2, 4"),
    ],
)
def test_dims_that_do_not_fit(folder: Path, similarity: str, dims: int | None, problem: str) -> None:
    encoder = GivenEncoder(VECTORS)
    with pytest.raises(UsageError, match=problem):
        evaluate(folder, ["cosine", similarity], encoder, dims=dims)
    assert encoder.embedded == []  # found before the work


def test_a_document_with_the_querys_own_id(tmp_path: Path) -> None:
    documents = {f"d{i:02}": f"D{i}" for i in range(12)} | {"q": "Q"}
    vectors = {f"D{i}": [1.0, i] for i in range(12)} | {"Q": [1, 0], "question": [1, 0]}
    folder = write_folder(tmp_path / "same", documents, {"q": "question"}, {"q": {"d00": 1, "d01": 1}})
    (kept,) = evaluate(folder, ["cosine"], GivenEncoder(vectors), metrics=["ndcg@10"])
    assert list(kept.run["q"])[:3] == ["q", "d00", "d01"]
    assert len(kept.run["q"]) == 10
    assert kept.metrics["ndcg@10"] == pytest.approx((SECOND + 1 / 2) / (1 + SECOND))
    task = tasks.create(f"beir:{folder},ignore_identical_ids=true")
    (dropped,) = task.evaluate(Request(GivenEncoder(vectors), [retrokit.similarity("cosine")], metrics=["ndcg@10"]))
    assert list(dropped.run["q"]) == [f"d{i:02}" for i in range(10)]  # still ten
    assert dropped.metrics["ndcg@10"] == 1.0
    assert dropped.task == f"beir:{folder},ignore_identical_ids=true"
    assert task.describe().endswith("; 1 documents left out of the ranking of the query with their id")
    assert dropped.counts["identical_ids_left_out"] == 1
    # the id is the same and the text is not
    assert "ignore_identical_ids" not in tasks.create(f"beir:{folder}").describe()


def test_a_document_that_is_the_query_is_left_out_of_the_sets_of_which_the_field_does_it(tmp_path: Path) -> None:
    documents, vectors = {"d": "D", "q": "question"}, {"question": [1, 0], "D": [1, 1]}
    for name, expected in (("Quora", 1.0), ("arguana", 1.0), ("cranfield", SECOND)):
        folder = write_folder(tmp_path / name, documents, {"q": "question"}, {"q": {"d": 1}})
        task = tasks.create(f"beir:{folder}")
        (result,) = task.evaluate(Request(GivenEncoder(vectors), [retrokit.similarity("cosine")]))
        assert result.metrics["ndcg@10"] == pytest.approx(expected)
        assert ("ignore_identical_ids=true leaves them out" in task.describe()) == (name == "cranfield")
    kept = tasks.create(f"beir:{tmp_path / 'Quora'},ignore_identical_ids=false")
    (result,) = kept.evaluate(Request(GivenEncoder(vectors), [retrokit.similarity("cosine")]))
    assert result.metrics["ndcg@10"] == pytest.approx(SECOND)


RANKED = {"q1": {"a": 3.0, "x": 2.0, "b": 1.0}, "q2": {"d": 0.5, "c": 0.5, "gone": 0.25}}
GRADED = {"q1": {"a": 1, "b": 3, "c": -2, "gone": 2}, "q2": {"c": 2, "d": 0, "gone": 1}, "q3": {"a": 1}, "q9": {"a": 1}}
NAMES = {"ndcg@2": "ndcg_cut_2", "map@10": "map_cut_10", "recall@2": "recall_2", "precision@2": "P_2"}
NAMES |= {"accuracy@1": "success_1", "mrr@10": "recip_rank"}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_absent_documents_and_queries_ties_grades_and_levels_are_those_of_trec_eval(tmp_path: Path, level: int) -> None:
    folder = write_folder(tmp_path / "graded", DOCUMENTS, {**QUERIES, "q3": "third"}, GRADED)
    (tmp_path / "run.trec").write_text(
        "".join(f"{q} Q0 {d} 1 {score} tag\n" for q, ranked in RANKED.items() for d, score in ranked.items())
    )
    task = tasks.create(f"beir:{folder},level={level}")
    notices = Notices()
    with listening(notices):
        request = Request(searcher=retrieval.create(f"run:{tmp_path / 'run.trec'}"), metrics=list(NAMES))
        (result,) = task.evaluate(request)
    measures = {re.sub(r"_(\d+)$", r".\1", name) for name in NAMES.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(GRADED, measures, relevance_level=level)
    expected = evaluator.evaluate(RANKED)
    for ours, theirs in NAMES.items():
        assert result.per_query[ours] == pytest.approx({**{q: v[theirs] for q, v in expected.items()}, "q3": 0.0})
    path = tmp_path / "run.trec"
    assert notices.messages == [
        f"{path}:2: document 'x' is not among those that are searched; 2 such lines keep their ranks in metrics, as in "
        "trec_eval",
        f"{path}: 1 of 3 queries are not in the run; each counts as 0",
    ]
    assert (result.counts["queries_not_in_run"], result.counts["run_documents_not_in_corpus"]) == (1, 2)
    assert result.counts["judgements_of_absent_documents"] == 2
    reachable = {1: (2 / 3 + 1 / 2 + 1) / 3, 2: (1 / 2 + 1) / 2, 3: 1.0}
    assert result.counts["highest_recall"] == pytest.approx(reachable[level])
    assert result.counts["queries_without_relevant"] == {1: 0, 2: 1, 3: 2}[level]


def test_equal_scores_rank_by_descending_id_at_the_cut_too(tmp_path: Path) -> None:
    documents = {str(i): f"D{i}" for i in range(30)}
    vectors = {f"D{i}": [1, 1] for i in range(30)} | {"question": [1, 0]}
    folder = write_folder(tmp_path / "ties", documents, {"q": "question"}, {"q": {"9": 1, "10": 1}})
    (result,) = evaluate(folder, ["dot"], GivenEncoder(vectors), metrics=["recall@10", "mrr@10"])
    assert list(result.run["q"]) == sorted(documents, reverse=True)[:10]
    assert result.metrics["mrr@10"] == 1.0
    assert result.metrics["recall@10"] == 0.5


def assert_same_metrics(path: Path, folder: Path, result: Result) -> None:
    again = evaluate_run(read_beir(folder).qrels, read_run(path))
    assert {name: mean(scores) for name, scores in again.items()} == result.metrics


def test_saved_run(folder: Path, tmp_path: Path) -> None:
    results = evaluate(folder, ["cosine"])
    path = tmp_path / "run.trec"
    save_runs(results, str(path))
    assert read_run(path) == results[0].run
    assert_same_metrics(path, folder, results[0])
    assert path.read_text().splitlines()[0] == "q1 Q0 b 1 1.0 retrokit"
    save_runs(results, str(path))  # a file may be replaced
    target = tmp_path / "existing"
    target.mkdir()
    save_runs(results, str(target))
    (written,) = target.iterdir()
    assert read_run(written) == results[0].run


DOCUMENT_COUNT, QUERY_COUNT, DIMENSION = 60, 25, 6


def write(folder: Path, documents: list[dict[str, Any]], examples: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("documents", documents), ("examples", examples)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def made(
    seed: int, folder: Path, noise: float = 0.0
) -> tuple[Path, GivenEncoder, list[dict[str, Any]], dict[str, str]]:
    """Exclusions known and unknown, none and N/A; gold ids repeated, graded, excluded, missing; equal scores."""
    random = np.random.default_rng(seed)
    ids = [f"d/{i}.txt" for i in range(DOCUMENT_COUNT)]
    texts = {identifier: f"text {i}" for i, identifier in enumerate(ids)}
    # few values, so that many documents score alike, where there is no noise
    vectors = {
        text: (random.integers(1, 3, DIMENSION) + noise * random.normal(size=DIMENSION)).tolist()
        for text in texts.values()
    }
    documents = [{"id": identifier, "content": text} for identifier, text in texts.items()]
    vectors["text again"] = random.integers(1, 3, DIMENSION).tolist()
    documents.append({"id": ids[3], "content": "text again"})
    texts[ids[3]] = "text again"
    examples: list[dict[str, Any]] = []
    for i in range(QUERY_COUNT):
        gold = random.choice(ids, size=random.integers(1, 6), replace=False).tolist()
        excluded = random.choice(ids, size=random.integers(0, 30), replace=False).tolist()
        if i % 5:
            excluded = [identifier for identifier in excluded if identifier not in gold]
        examples.append(
            {
                "id": str(i),
                "query": f"query {i}",
                "gold_ids": gold + gold[:1] if i % 3 else {g: int(random.integers(0, 4)) for g in gold},
                "excluded_ids": excluded + excluded[:2] if i % 4 else [*excluded, "N/A"],
            }
        )
        vectors[f"query {i}"] = random.integers(1, 4, DIMENSION).tolist()
    examples[1]["excluded_ids"] = examples[1]["gold_ids"]
    examples[2]["excluded_ids"] = ["elsewhere.txt"]
    examples[3]["gold_ids"] = ["nowhere.txt", ids[0]]
    examples[4]["gold_ids"] = ["N/A"]
    return write(folder, documents, examples), GivenEncoder(vectors), examples, texts


def reference(
    encoder: GivenEncoder, similarity: str, examples: list[dict[str, Any]], texts: dict[str, str]
) -> dict[str, float]:
    """Every document of every query is scored; the excluded ones are taken out; pytrec_eval does the rest."""
    scorer = retrokit.similarity(similarity)
    documents = np.array([encoder.vectors[text] for text in texts.values()], dtype=np.float32)
    run, qrels = {}, {}
    for example in examples:
        query = np.array([encoder.vectors[example["query"]]], dtype=np.float32)
        scores = dict(zip(texts, scorer.score(query, documents)[0].tolist(), strict=True))
        for identifier in set(example["excluded_ids"]):
            scores.pop(identifier, None)
        run[example["id"]] = scores
        gold = example["gold_ids"]
        qrels[example["id"]] = gold if isinstance(gold, dict) else {g: 1 for g in gold if g != "N/A"}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    return {query: values["ndcg_cut_10"] for query, values in measured.items()}


# a division by norms rounds as the shape of the product has it, so cosine gets no documents of equal angle
@pytest.mark.parametrize(("similarity", "noise"), [("cosine", 0.1), ("dot", 0.0), ("l2", 0.0), ("dot", 0.1)])
@pytest.mark.parametrize("seed", range(5))
def test_parity_with_pytrec_eval(tmp_path: Path, seed: int, similarity: str, noise: float) -> None:
    folder, encoder, examples, texts = made(seed, tmp_path / "made", noise)
    task = tasks.create(f"bright:{folder}")
    (result,) = task.evaluate(Request(encoder, [retrokit.similarity(similarity)], ["ndcg@10"]))
    expected = reference(encoder, similarity, examples, texts)
    assert "4" not in expected  # an example without gold ids is no part of the mean
    assert result.per_query["ndcg@10"] == pytest.approx(expected, abs=1e-12)
    assert result.metrics["ndcg@10"] == pytest.approx(sum(expected.values()) / len(expected), abs=1e-12)
    assert result.per_query["ndcg@10"]["1"] == 0.0
    assert 0.05 < result.metrics["ndcg@10"] < 0.95
    for query, ranked in result.run.items():
        assert not set(ranked) & set(examples[int(query)]["excluded_ids"])
        assert len(ranked) == 10


def test_exclusion_comes_before_the_cut_off(tmp_path: Path) -> None:
    documents = [{"id": f"{i:03}", "content": f"D{i}"} for i in range(100)]
    vectors = {f"D{i}": [1.0, i] for i in range(100)} | {"question": [1, 0]}
    excluded = [f"{i:03}" for i in range(50)]
    example = {"id": "q", "query": "question", "gold_ids": ["050", "000"], "excluded_ids": excluded}
    task = tasks.create(f"bright:{write(tmp_path / 'made', documents, [example])}")
    (result,) = task.evaluate(Request(GivenEncoder(vectors), [retrokit.similarity("cosine")], ["ndcg@10", "mrr@10"]))
    assert list(result.run["q"]) == [f"{i:03}" for i in range(50, 60)]
    assert result.metrics["mrr@10"] == 1.0
    # the excluded gold id stays in the ideal ranking, as in the reference
    assert result.metrics["ndcg@10"] == pytest.approx(1 / (1 + 1 / np.log2(3)))


def test_instructions_come_before_queries(tmp_path: Path) -> None:
    folder, _, _, _ = made(0, tmp_path / "biology")
    plain, instructed = (tasks.create(f"bright:{folder}{option}") for option in ("", ",instructions=true"))
    assert isinstance(instructed, Bright)
    prefix = "Instruct: Given a biology post, retrieve relevant passages that help answer the post\nQuery: "
    assert instructed.data.queries == [prefix + query for query in plain.data.queries]
    assert instructed.data.documents == plain.data.documents
    with pytest.raises(UsageError, match="has no instruction"):
        tasks.create(f"bright:{folder},domain=unheard_of,instructions=true")
