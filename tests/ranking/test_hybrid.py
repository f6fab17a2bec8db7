"""``hybrid``: two rankings as one, against sums over dictionaries; ``weight=auto`` is tuned on another split."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.ranking.retrieval import registry
from retrokit.ranking.retrieval.base import Ranking, TextList, TuningQueries
from retrokit.ranking.retrieval.hybrid import fuse, placed
from tests.evaluation.fakes import write_folder
from tests.models import sentences

DOCUMENTS = sentences(60, seed=5)
QUERIES = [" ".join(text.split()[:5]) for text in DOCUMENTS[:12]]
FUSIONS = ("rrf", "minmax", "zscore")


def naive(sides: Sequence[dict[int, float]], fusion: str, weight: float) -> dict[int, float]:
    total: dict[int, float] = {}
    for side, share in zip(sides, (1 - weight, weight), strict=True):
        values = list(side.values())
        low, high = min(values, default=0), max(values, default=0)
        missing = {"rrf": 0.0, "minmax": 0.0, "zscore": (low - fmean(values)) / pstdev(values) if low < high else 0.0}
        for document in {*sides[0], *sides[1]}:
            if document not in side:
                value = missing[fusion]
            elif fusion == "rrf":
                value = 1 / (60 + 1 + list(side).index(document))
            elif low == high:
                value = 0.0
            elif fusion == "minmax":
                value = (side[document] - low) / (high - low)
            else:
                value = (side[document] - fmean(values)) / pstdev(values)
            total[document] = total.get(document, 0.0) + share * value
    return total


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("sizes", [(8, 8), (8, 1), (0, 5), (0, 0)])
def test_the_sum_is_that_of_a_naive_one(fusion, weight, sizes):
    rng = np.random.default_rng(7)
    rankings: list[Ranking] = []
    for size in sizes:
        scores = np.sort(rng.normal(size=size).astype(np.float32))[::-1]
        rankings.append((scores, rng.permutation(12)[:size]))
    expected = naive([dict(zip(p.tolist(), s.tolist(), strict=True)) for s, p in rankings], fusion, weight)
    scores, positions = fuse(*rankings, fusion, weight, 100)
    assert sorted(positions.tolist()) == sorted(expected)
    np.testing.assert_allclose(scores, [expected[place] for place in positions.tolist()], rtol=1e-6, atol=1e-12)
    assert all(
        a > b or (a == b and p < q) for a, b, p, q in zip(scores, scores[1:], positions, positions[1:], strict=False)
    )
    top, places = fuse(*rankings, fusion, weight, 3)
    np.testing.assert_array_equal(places, positions[:3])
    np.testing.assert_array_equal(top, scores[:3])


@pytest.mark.parametrize(("weight", "alone"), [(0.0, "bm25"), (1.0, "static")])
def test_all_weight_on_one_side_ranks_as_it_does(weight, alone):
    found = retrokit.search(f"hybrid:a=bm25,b=static,fusion=minmax,weight={weight}", DOCUMENTS, QUERIES, k=5)
    for (_, places), (scores, expected) in zip(found, retrokit.search(alone, DOCUMENTS, QUERIES, k=5), strict=True):
        distinct = scores > scores[-1] if len(scores) == 5 else np.ones(len(scores), dtype=bool)
        np.testing.assert_array_equal(places[: len(expected)][distinct], expected[distinct])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_pair_scores_as_in_the_search(fusion):
    index = retrokit.ranking.retrieval.index_of(
        f"hybrid:a=static,b='static:8',fusion={fusion},weight=0.3".replace("'", '"'), DOCUMENTS
    )
    for query, (scores, places) in zip(QUERIES, index.search(TextList(QUERIES), 60), strict=True):
        pairs = index.score_pairs(TextList([query] * 60), TextList(DOCUMENTS[place] for place in places))
        rank = 1 / 61 - 1 / 62 if fusion == "rrf" else 1e-5  # near ties share the better one
        np.testing.assert_allclose(pairs, scores, rtol=0, atol=rank)


def test_a_text_from_elsewhere_is_placed():
    index = retrokit.ranking.retrieval.index_of("hybrid:a=bm25,b=static", DOCUMENTS)
    own, other = index.score_pairs(TextList(QUERIES[:1] * 2), TextList([QUERIES[0], "nothing of the kind"]))
    assert own == pytest.approx(1 / 61)
    assert other < own


@pytest.mark.parametrize(
    ("fusion", "score", "value"),
    [
        ("minmax", 0.5, 0.0),
        ("minmax", 1.0, 0.0),
        ("minmax", 3.0, 1.0),
        ("minmax", 5.0, 2.0),
        ("zscore", 0.5, -(1.5**0.5)),
        ("zscore", 2.0, 0.0),
        ("rrf", 2.5, 1 / 62),
        ("rrf", 1.0, 1 / 63),
        ("rrf", 0.5, 0.0),
    ],
)
def test_what_is_below_all_of_a_list_has_its_lowest_value(fusion, score, value):
    assert placed(np.array([3.0, 2.0, 1.0]), score, fusion) == pytest.approx(value)
    assert placed(np.array([2.0, 2.0]), score, fusion) == pytest.approx(
        {"minmax": 0.0, "zscore": 0.0, "rrf": 1 / 61 if score >= 2 else 0.0}[fusion]
    )
    assert placed(np.array([]), score, fusion) == 0.0


@pytest.mark.parametrize(("best", "weight"), [((8, 12), 0.4), ((0, 20), 0.0), ((3, 12), 0.6), ((7, 9, 11), 0.45)])
def test_of_equally_good_weights_the_nearest_to_the_middle_then_the_lower(best, weight):
    """The measure is asked for the weights 0, 0.05, … in this order."""
    asked = iter(range(21))
    on = TuningQueries(
        TextList(DOCUMENTS),
        TextList(QUERIES),
        [set() for _ in QUERIES],
        5,
        lambda lists: float(next(asked) in best),
        {},
    )
    tuned = registry.create("hybrid:a=bm25,b=static,weight=auto").tuned(on)
    assert tuned.weight == weight
    assert tuned.tuned_on == {"value": 1.0}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("hybrid:a=bm25,b=bm25", "a hybrid of bm25 with itself is bm25"),
        ("hybrid:a=bm25", "needs b"),
        ("hybrid:a=bm25,b=staticc:3", "unknown encoder 'staticc'"),
        ("hybrid:a=bm25,b=static,weight=1.5", "weight"),
        ("hybrid:a=bm25,b=static,fusion=rank", "fusion"),
        ("hybrid:a=bm25,b=static,depth=9999999999999", "depth"),
    ],
)
def test_wrong_use_is_one_line(spec, told):
    with pytest.raises(UsageError, match=told) as caught:
        retrokit.search(spec, DOCUMENTS, QUERIES)
    assert "\n" not in str(caught.value)


COUNT = 40
TEXTS = sentences(COUNT, seed=21)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Even queries are of the split test, odd ones of dev."""
    documents = {f"d{place}": text for place, text in enumerate(TEXTS)}
    queries = {f"q{place}": " ".join(text.split()[::2]) for place, text in enumerate(TEXTS)}
    made = write_folder(
        tmp_path / "data", documents, queries, {f"q{place}": {f"d{place}": 1} for place in range(0, COUNT, 2)}
    )
    judge(made, "dev", range(1, COUNT, 2))
    return made


def judge(folder: Path, split: str, places: range) -> None:
    lines = [f"q{place}\td{place}\t1" for place in places]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")


def noisy(path: Path, loud: float, seed: int, scale: float = 1) -> str:
    """A run of all queries that scores the right document 1, and all with noise."""
    scores = scale * (np.eye(COUNT) + loud * np.random.default_rng(seed).normal(size=(COUNT, COUNT)))
    rows = (f"q{q} Q0 d{d} 1 {scores[q, d]} x\n" for q in range(COUNT) for d in range(COUNT))
    path.write_text("".join(rows))
    return f"run:{path}"


def evaluated(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict]:
    capsys.readouterr()
    assert cli.run(["eval", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["results"]


@pytest.mark.parametrize("fusion", ["rrf", "minmax", "zscore"])
@pytest.mark.parametrize("metric", ["ndcg@10", "mrr@3"])
def test_it_is_the_weight_that_is_best_on_the_other_split(fusion, metric, folder, tmp_path, capsys):
    sides = f"a={noisy(tmp_path / 'a', 0.9, 1)},b={noisy(tmp_path / 'b', 0.5, 2)},fusion={fusion}"
    (found,) = evaluated(capsys, f"hybrid:{sides},weight=auto", "--on", f"beir:{folder}", "--metrics", metric)
    grid = [step / 20 for step in range(21)]
    hybrids = [f"hybrid:{sides},weight={one}" for one in grid]
    on_dev = evaluated(capsys, *hybrids, "--on", f"beir:{folder},split=dev", "--metrics", metric)
    values = [one["metrics"][metric] for one in on_dev]
    best = max(grid, key=lambda one: (values[grid.index(one)], -abs(one - 0.5), -one))
    assert found["configuration"]["weight"] == best
    assert found["configuration"]["tuned_on"] == {"split": "dev", "queries": 20, "metric": metric, "value": max(values)}
    assert len(set(values)) > 5, "the weight matters"
    (same,) = evaluated(capsys, f"hybrid:{sides},weight={best}", "--on", f"beir:{folder}", "--metrics", metric)
    assert same["metrics"] == found["metrics"]
    assert "weight=auto" in found["encoder"]
    assert cli.run(["eval", f"hybrid:{sides},weight=auto", "--on", f"beir:{folder}", "--metrics", metric]) == 0
    assert f"weight {best:g} by {metric} of 20 queries of the split dev" in " ".join(capsys.readouterr().out.split())


def test_dev_goes_before_train_and_never_is_what_is_reported(folder, tmp_path, capsys):
    judge(folder, "train", range(1, 30, 2))
    spec = f"hybrid:a={noisy(tmp_path / 'a', 0.9, 1)},b={noisy(tmp_path / 'b', 0.5, 2)},weight=auto"
    (on_test,) = evaluated(capsys, spec, "--on", f"beir:{folder}")
    assert on_test["configuration"]["tuned_on"]["split"] == "dev"
    judge(folder, "dev", range(31, COUNT, 2))
    (on_dev,) = evaluated(capsys, spec, "--on", f"beir:{folder},split=dev")
    told = on_dev["configuration"]["tuned_on"]
    assert (told["split"], told["queries"]) == ("train", 15)


def test_equally_good_weights_give_the_middle(folder, tmp_path, capsys):
    same = [noisy(tmp_path / str(scale), 0.5, 3, scale) for scale in (1, 2)]
    (found,) = evaluated(capsys, f"hybrid:a={same[0]},b={same[1]},weight=auto", "--on", f"beir:{folder}")
    assert found["configuration"]["weight"] == 0.5


HYBRID = "hybrid:a=bm25,b=static,weight=auto"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["eval", HYBRID, "--on", "beir:{folder}"], "has no dev or train split with other queries"),
        (["eval", HYBRID, "--on", "beir:{folder},split=dev"], "has no split 'dev'"),
        (["eval", f'two-stage:"{HYBRID}",reranker=maxsim', "--on", "beir:{folder}"], "weight=auto cannot be tuned"),
        (["rerank", HYBRID, "--with", "maxsim", "--on", "beir:{folder}"], "weight=auto cannot be tuned"),
        (["search", HYBRID, "--corpus", "{folder}", "--query", "x"], "weight=auto is tuned on judged queries"),
        (["eval", "hybrid:a=bm25,b=static,weight=best", "--on", "beir:{folder}"], "weight=best is not a number"),
        (["eval", "hybrid:a=bm25,b=static,weight=1.2", "--on", "beir:{folder}"], "weight=1.2 is out of range (0 to 1)"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(words, told, folder, capsys):
    (folder / "qrels" / "dev.tsv").unlink()
    assert cli.run([word.format(folder=folder) for word in words]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1
    assert told in lines[0]
