"""BRIGHT's figures equal a direct computation with pytrec_eval, written as its reference evaluation is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

import retrokit
from retrokit.core.errors import UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Bright
from tests.evaluation.fakes import GivenEncoder

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


def test_everything_is_excluded(tmp_path: Path) -> None:
    documents = [{"id": "a", "content": "A"}]
    example = {"id": "q", "query": "Q", "gold_ids": ["a"], "excluded_ids": ["a"]}
    task = tasks.create(f"bright:{write(tmp_path / 'made', documents, [example])}")
    (result,) = task.evaluate(Request(GivenEncoder({"A": [1, 0], "Q": [1, 1]}), [retrokit.similarity("cosine")]))
    assert result.run == {"q": {}}
    assert set(result.metrics.values()) == {0.0}
    assert "1 examples whose gold ids are all excluded, counted as 0" in task.describe()


def test_what_is_said(tmp_path: Path) -> None:
    said = tasks.create(f"bright:{made(0, tmp_path / 'biology')[0]}").describe()
    assert said.startswith("BRIGHT biology (short): 24 queries, 60 documents, ")
    for part in (
        *("1 examples without gold ids, left out", "examples whose gold ids are all excluded"),
        *("1 gold ids that are not documents and cannot be found", "1 excluded ids that are not documents"),
        *("1 documents whose id came before; the last counts", "gold ids that came twice, used once"),
    ):
        assert part in said


def test_instructions_come_before_queries(tmp_path: Path) -> None:
    folder, _, _, _ = made(0, tmp_path / "biology")
    plain, instructed = (tasks.create(f"bright:{folder}{option}") for option in ("", ",instructions=true"))
    assert isinstance(instructed, Bright)
    prefix = "Instruct: Given a biology post, retrieve relevant passages that help answer the post\nQuery: "
    assert instructed.data.queries == [prefix + query for query in plain.data.queries]
    assert instructed.data.documents == plain.data.documents
    with pytest.raises(UsageError, match="has no instruction"):
        tasks.create(f"bright:{folder},domain=unheard_of,instructions=true")
