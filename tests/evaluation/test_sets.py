"""A folder of BEIR folders: figures are means over the sets, right to the last digit, and each set has its own."""

from pathlib import Path
from statistics import fmean

import pytest

from retrokit import evaluation
from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.evaluation.comparison.gates import gates_of
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.settings import GateSettings
from retrokit.evaluation.tasks.sets import RetrievalSets

SETS = {
    "cats": (
        {"d1": "cats purr softly", "d2": "dogs bark loudly", "d3": "birds sing songs"},
        {"q1": "who purrs softly", "q2": "songs bark", "q3": "dogs"},
        {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d2": 1}},
    ),
    "tools": (
        {"d1": "hammers hit nails", "d2": "saws cut wood"},
        {"q1": "wood cut", "q2": "hit wood saws"},
        {"q1": {"d2": 1}, "q2": {"d1": 1}},
    ),
    "trees": ({"d1": "oaks grow", "d2": "elms fall"}, {"q1": "grow"}, {"q1": {"d2": 1}}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, (documents, queries, qrels) in SETS.items():
        corpus = [Document(id, "", text) for id, text in documents.items()]
        write_beir(tmp_path / "sets" / name, corpus, queries.items(), {"test": qrels})
    (tmp_path / "sets" / "notes").mkdir()
    return tmp_path / "sets"


def test_figures_are_unweighted_means_over_the_sets(folder: Path) -> None:
    pytest.importorskip("bm25s", reason="the extra bm25 is not installed")
    (result,) = evaluate(["bm25"], on=[f"beir:{folder}"]).results
    of_sets = {name: evaluate(["bm25"], on=[f"beir:{folder / name}"]).results[0] for name in SETS}
    for metric in ("ndcg@10", "recall@1", "mrr@10"):
        expected = fmean(of_set.metrics[metric] for of_set in of_sets.values())
        assert result.metrics[metric] == expected
        assert result.per_query[metric] == {name: of_set.metrics[metric] for name, of_set in of_sets.items()}
    assert result.metrics["ndcg@10"] != pytest.approx(
        fmean(value for of_set in of_sets.values() for value in of_set.per_query["ndcg@10"].values())
    )
    for name, of_set in of_sets.items():
        assert result.metrics[f"{name}:ndcg@10"] == of_set.metrics["ndcg@10"]
        assert result.per_query[f"{name}:ndcg@10"] == of_set.per_query["ndcg@10"]
    assert (result.counts["sets"], result.counts["queries"], result.counts["documents"]) == (3, 6, 7)
    assert result.run["tools/q1"] == of_sets["tools"].run["q1"]
    assert (result.task, result.main_metric) == (f"beir:{folder}", "ndcg@10")


def test_a_run_of_sets_is_read_as_it_is_written(folder: Path) -> None:
    pytest.importorskip("bm25s", reason="the extra bm25 is not installed")
    run, on = str(folder.parent / "run.trec"), [f"beir:{folder}"]
    (written,) = evaluate(["bm25"], on=on, save_run=run).results
    systems = [f"run:{run}", f"hybrid:a=run:{run},b=bm25"]
    read, fused = evaluate(systems, on=on, keep_runs=True).results
    assert read.run == written.run
    assert (read.metrics, read.per_query) == (written.metrics, written.per_query)
    assert fused.metrics == written.metrics
    (of_set,) = [line for line in Path(run).read_text().splitlines() if line.startswith("trees/")]
    Path(run).write_text(f"{of_set}\n")
    with pytest.raises(DataError, match=r"run\.trec: none of its queries is among those searched for"):
        evaluate([f"run:{run}"], on=on)


def test_systems_are_compared_over_the_sets(folder: Path) -> None:
    pytest.importorskip("bm25s", reason="the extra bm25 is not installed")
    metrics = ["recall_1", "tools:P_1"]
    found = evaluate(["bm25", "bm25:k1=0.1"], on=[f"beir:{folder}"], metrics=metrics)
    assert found.shown == {f"beir:{folder}": ["recall@1", "tools:precision@1"]}
    tested = {comparison.metric: comparison.test.queries for comparison in found.comparisons}
    assert (tested["recall@1"], tested["tools:precision@1"], tested["ndcg@10"]) == (3, 2, 3)
    (gate, _) = gates_of(found, GateSettings(fail_under=["tools:precision@1=0.99"]))
    assert (gate.verdict, gate.value) == ("failed", 0.5)


def test_what_a_task_of_sets_says(folder: Path) -> None:
    task = evaluation.registry.create(f"beir:{folder}")
    assert isinstance(task, RetrievalSets)
    assert task.describe().startswith("sets: the mean over 3 sets; cats (test): 3 queries, 3 documents, 3 judgements; ")
    assert task.shown_metrics == ("ndcg@10", "cats:ndcg@10", "tools:ndcg@10", "trees:ndcg@10")
    with pytest.raises(UsageError, match=r"^unknown set 'cat' \(did you mean cats\?\); beir:.* has cats, tools, tr"):
        task.check_metrics(["cat:ndcg@10"])
    with pytest.raises(UsageError, match="unknown metric 'ndgc@10'"):
        task.check_metrics(["cats:ndgc@10"])
    before = task.digest()
    with (folder / "tools" / "qrels" / "test.tsv").open("a") as stream:
        stream.write("q1\td1\t1\n")
    assert task.digest() != before
    texts = task.judged_texts()
    assert texts is not None
    assert ("grow", "elms fall") in texts.pairs
