"""Mining: choices worked out by hand, the library's own choices, every similarity, and a break in the middle."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives

import retrokit
import retrokit.augmentation.mining as mining
from retrokit import similarities
from retrokit.augmentation.mining import Mined, mine, mine_pairs
from retrokit.augmentation.settings import MiningSettings
from retrokit.core.errors import DataError, Interrupted, UsageError
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair
from retrokit.encoders import registry as encoders
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.retrieval.dense import Dense
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from tests.close import assert_rounded
from tests.evaluation.fakes import GivenEncoder
from tests.models import sentences

NO_MARGIN = MiningSettings(negatives=3, absolute_margin=None)


def on_the_circle(**degrees: float) -> dict[str, tuple[float, float]]:
    """Unit vectors, so that the cosine with the one at 0° is the cosine of the angle."""
    return {name: (float(np.cos(np.radians(a))), float(np.sin(np.radians(a)))) for name, a in degrees.items()}


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def searching(encoder: GivenEncoder, sim: str = "cosine", precision: str = "auto") -> Dense:
    similarity = retrokit.similarity(sim)
    return Dense(SharedEmbeddings(encoder, [similarity], precision), similarity)


def mined(
    pairs: Sequence[Pair], vectors: dict, settings: MiningSettings, tmp_path: Path, sim: str = "cosine", **more: object
) -> tuple[list[list[str]], Mined]:
    out = tmp_path / "out.jsonl"
    done = mine_pairs(pairs, searching(GivenEncoder(vectors), sim), str(out), settings, **more)
    assert not (tmp_path / "out.jsonl.work").exists()
    return [row["negatives"] for row in rows_of(out)], done


# q at 0°; p scores 0.866, and a…d, in this order, 0.985, 0.846, 0.819 and 0.5
CIRCLE = on_the_circle(q=0, p=30, a=10, b=32.2, c=35, d=60, r=180, s=-170)
ONE = [Pair("q", "p", ())]
CORPUS = ["s", "d", "c", "b", "a", "p", "q"]


@pytest.mark.parametrize(
    ("settings", "expected", "counted"),
    [
        ({}, ["a", "b", "c"], {}),
        # 0.866 − 0.04 = 0.826 leaves a (0.985) and b (0.846) out
        ({"absolute_margin": 0.04}, ["c", "d", "s"], {"within_absolute_margin": 2}),
        ({"absolute_margin": 0.0}, ["b", "c", "d"], {"within_absolute_margin": 1}),
        # 0.866 · 0.95 = 0.823: c (0.819) just stays; at 0.94 (0.814) it goes
        ({"relative_margin": 0.05}, ["c", "d", "s"], {"within_relative_margin": 2}),
        ({"relative_margin": 0.06}, ["d", "s"], {"within_relative_margin": 3, "rows_short": 1}),
        (
            {"absolute_margin": 0.04, "relative_margin": 0.06},
            ["d", "s"],
            {"within_absolute_margin": 2, "within_relative_margin": 1, "rows_short": 1},
        ),
        ({"max_score": 0.9, "min_score": 0.4}, ["b", "c", "d"], {"above_max_score": 1, "below_min_score": 1}),
        # ranks count what is left without q and p: a, b, c, d, s
        ({"negatives": 2, "first_rank": 2, "last_rank": 3}, ["b", "c"], {}),
        ({"negatives": 2, "first_rank": 4, "last_rank": 50}, ["d", "s"], {}),
        ({"negatives": 1, "first_rank": 9, "last_rank": 50}, [], {"rows_without": 1}),
    ],
)
def test_choices_by_hand(tmp_path, settings, expected, counted):
    settings = replace(NO_MARGIN, **settings)
    negatives, done = mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS)
    assert negatives == [expected]
    names = ("within_absolute_margin", "within_relative_margin", "above_max_score", "below_min_score")
    names += ("rows_short", "rows_without")
    assert {name: done.counts[name] for name in names} == dict.fromkeys(names, 0) | counted
    assert done.counts["candidates"] == 7
    assert done.counts["negatives"] == len(expected)
    assert done.mean_positive_score == pytest.approx(0.8660254, abs=1e-6)
    if expected:
        by_hand = np.mean([CIRCLE[name][0] for name in expected])
        assert done.mean_negative_score == pytest.approx(by_hand, abs=1e-5)


@pytest.mark.parametrize(
    ("sim", "vectors", "settings", "expected"),
    [
        # a score at the margin stays
        ("dot", {"q": [1.0], "p": [4.0], "a": [3.0], "b": [3.5], "c": [2.0]}, {"absolute_margin": 1.0}, ["a", "c"]),
        ("dot", {"q": [1.0], "p": [4.0], "a": [3.0], "b": [3.5], "c": [2.0]}, {"relative_margin": 0.25}, ["a", "c"]),
        # below zero a relative margin asks for lower scores too: −2 − 0.3 = −2.3
        ("l2", {"q": [0.0], "p": [2.0], "a": [1.5], "b": [2.2], "c": [2.4]}, {"relative_margin": 0.15}, ["c"]),
    ],
)
def test_margins_of_other_similarities(tmp_path, sim, vectors, settings, expected):
    settings = replace(NO_MARGIN, **settings)
    assert mined(ONE, vectors, settings, tmp_path, sim, candidates=["a", "b", "c"])[0] == [expected]


@pytest.mark.parametrize(("last", "degrees", "counted"), [(1, 20, 2), (1, 35, 1), (2, 35, 2), (3, 35, 2)])
def test_what_is_excluded_counts_up_to_the_first_candidate_behind_the_last_rank(tmp_path, last, degrees, counted):
    """Of q's ranking, q a b c with p between, q and p are excluded; of y's, which is searched deeper, y and its two
    documents."""
    vectors = on_the_circle(q=0, a=10, p=degrees, b=30, c=40, x2=165, x=170, y=180)
    settings = replace(NO_MARGIN, negatives=1, last_rank=last)
    pairs = [Pair("q", "p"), Pair("y", "x", ("x2",))]
    negatives, done = mined(pairs, vectors, settings, tmp_path, candidates=list(vectors))
    assert negatives == [["a"], ["x2", "c"]]
    assert done.counts["excluded"] == counted + 3


def test_known_positives_and_duplicates_are_no_negatives(tmp_path):
    vectors = on_the_circle(q=0, p=30, **{"p2": 5, " q": 0, "p2 \n": 5, "far  one": 50, "far one": 50, "x": 70})
    pairs = [Pair("q", "p"), Pair("y", "x"), Pair(" q", "p2")]
    vectors |= on_the_circle(y=90)
    corpus = ["p", "p2 \n", "q", "", " ", "far  one", "far one", "x"]
    negatives, done = mined(pairs, vectors, NO_MARGIN, tmp_path, candidates=corpus)
    assert negatives == [["far  one", "x"], ["far  one", "p", "p2 \n"], ["far  one", "x"]]
    expected = {"rows": 3, "anchors": 2, "candidates": 5, "candidates_repeated": 1, "candidates_without_text": 2}
    expected |= {"positives_not_candidates": 0, "rows_short": 2, "rows_complete": 1, "excluded": 3 + 1}
    assert {name: done.counts[name] for name in expected} == expected


def test_the_margin_is_each_rows_own_and_rows_keep_their_order(tmp_path):
    vectors = on_the_circle(q=0, easy=10, hard=50, y=90, a=40, b=60)
    pairs = [Pair("q", "easy"), Pair("y", "b"), Pair("q", "hard")]
    settings = MiningSettings(negatives=2, scores=True)
    out = tmp_path / "out.jsonl"
    mine_pairs(pairs, searching(GivenEncoder(vectors)), str(out), settings, ["a", "b"])
    rows = rows_of(out)
    assert [(row["anchor"], row["positive"], row["negatives"]) for row in rows] == [
        ("q", "easy", ["a", "b"]),
        ("y", "b", ["a"]),
        ("q", "hard", ["b"]),
    ]
    assert rows[0]["positive_score"] == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    assert rows[0]["negative_scores"] == pytest.approx([np.cos(np.radians(40)), 0.5], abs=1e-6)
    assert rows[2]["negative_scores"] == pytest.approx([0.5], abs=1e-6)


def test_given_negatives_are_kept_or_replaced(tmp_path):
    vectors = on_the_circle(q=0, p=10, a=20, b=30, c=40, y=80, z=85)
    pairs = [Pair("q", "p", ("b", "new")), Pair("y", "z", ("c",))]
    vectors |= on_the_circle(new=60)
    settings = MiningSettings(negatives=2, absolute_margin=None, scores=True)
    out = tmp_path / "out.jsonl"

    def made(**changes: object) -> list[dict]:
        chosen = MiningSettings(**{**vars(settings), **changes})
        mine_pairs(pairs, searching(GivenEncoder(vectors)), str(out), chosen)
        return rows_of(out)

    assert made(keep_negatives=False)[0]["negatives"] == ["b", "c"], "without a corpus, of positives and negatives"
    kept = made()
    assert kept[0]["negatives"] == ["b", "new", "c", "z"]
    assert kept[0]["negative_scores"] == pytest.approx(
        [float(np.cos(np.radians(a))) for a in (30, 60, 40, 85)], abs=1e-6
    )
    assert "negative_scores" not in made(scores=False)[0]
    assert [len(pair.negatives) for pair in read_source(str(out), "pairs").records] == [4, 3]


def test_rows_without_a_negative_are_kept_or_left_out(tmp_path):
    vectors = on_the_circle(q=0, p=30, a=10, y=100, z=100)
    pairs = [Pair("q", "p"), Pair("y", "z"), Pair("q", "p", ("given",))]
    vectors |= on_the_circle(given=0)
    out = str(tmp_path / "out.jsonl")
    encoder = GivenEncoder(vectors)
    kept = mine_pairs(pairs, searching(encoder), out, MiningSettings(), ["a"])
    assert [row["negatives"] for row in rows_of(Path(out))] == [[], ["a"], ["given"]]
    assert (kept.counts["rows_without"], kept.counts["rows_dropped"]) == (2, 0)
    assert "2 rows got none (retained)" in kept.summary()
    assert "1 rows got fewer than 7" in kept.summary()
    dropped = mine_pairs(pairs, searching(encoder), out, MiningSettings(drop_rows_without=True), ["a"])
    assert [row["negatives"] for row in rows_of(Path(out))] == [["a"], ["given"]]
    assert (dropped.counts["rows_without"], dropped.counts["rows_dropped"]) == (2, 1)


def test_random_sampling_takes_any_of_the_ranks_and_the_seed_decides(tmp_path):
    vectors = on_the_circle(q=0, p=1, **{f"c{i}": 10 + i for i in range(40)})
    corpus = [f"c{i}" for i in range(40)]

    def made(seed: int) -> list[str]:
        settings = MiningSettings(4, "random", first_rank=5, last_rank=30, absolute_margin=None, seed=seed)
        return mined(ONE, vectors, settings, tmp_path, candidates=corpus)[0][0]

    drawn = {seed: made(seed) for seed in range(60)}
    assert made(3) == drawn[3] != drawn[4]
    numbers = {seed: [int(name[1:]) for name in names] for seed, names in drawn.items()}
    assert all(len(set(found)) == 4 and found == sorted(found) for found in numbers.values()), "best first"
    assert {number for found in numbers.values() for number in found} == set(range(4, 30))


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        ((0, 80), {"absolute_margin": 0.15}),
        ((0, 80), {"relative_margin": 0.2}),
        ((0, 80), {"absolute_margin": 0.1, "relative_margin": 0.15, "max_score": 0.7, "min_score": 0.6}),
        # the library counts ranks after the margins, and looks one text further for each positive
        ((0, 25), {}),
        ((10, 40), {}),
    ],
)
def test_the_library_chooses_the_same(tiny_bert, tmp_path, window, wanted):
    texts = sentences(140, seed=5)
    pairs = [Pair(a, p) for a, p in zip(texts[:60], texts[60:120], strict=True)]
    encoder = encoders.create(str(tiny_bert), device="cpu")
    triplets = mine_hard_negatives(
        Dataset.from_list([{"anchor": pair.anchor, "positive": pair.positive} for pair in pairs]),
        encoder.to_train().model,
        corpus=texts[60:],
        range_min=window[0],
        range_max=window[1],
        num_negatives=7,
        output_format="triplet",
        output_scores=True,
        verbose=False,
        **wanted,
    )
    theirs: dict[str, list[tuple[str, float]]] = {}
    for row in triplets:
        theirs.setdefault(row["anchor"], []).append((row["negative"], row["scores"][1]))
    settings = MiningSettings(
        negatives=7, first_rank=window[0] + 1, last_rank=window[1], scores=True, **{"absolute_margin": None, **wanted}
    )
    out = tmp_path / "out.jsonl"
    done = mine_pairs(pairs, searching(encoder, precision="fp32"), str(out), settings, texts[60:])
    rows = rows_of(out)
    assert [row["negatives"] for row in rows] == [[text for text, _ in theirs.get(pair.anchor, [])] for pair in pairs]
    for row in rows:
        assert row["negative_scores"] == pytest.approx([score for _, score in theirs.get(row["anchor"], [])], abs=1e-5)
    assert done.counts["negatives"] == len(triplets) >= 50
    bounds = {"absolute_margin": "within", "relative_margin": "within", "max_score": "above", "min_score": "below"}
    for bound, side in bounds.items():
        assert (done.counts[f"{side}_{bound}"] > 0) == (bound in wanted), "or the bound would not be tried"


@pytest.mark.parametrize(
    "spec", [*(name for name in similarities.registry.names() if name != "sfs"), "sfs:2", "sfs:4,base=l2"]
)
def test_every_similarity_ranks_by_itself(tmp_path, spec):
    generator = np.random.default_rng(0)
    vectors = {f"{side}{i}": generator.normal(size=8) * generator.uniform(0.2, 5) for side in "qpc" for i in range(20)}
    pairs = [Pair(f"q{i}", f"p{i}") for i in range(20)]
    settings = MiningSettings(negatives=5, absolute_margin=None, relative_margin=0.1, last_rank=15)
    corpus = [*(f"c{i}" for i in range(20)), *(f"p{i}" for i in range(20))]
    negatives, done = mined(pairs, vectors, settings, tmp_path, spec, candidates=corpus)
    similarity = retrokit.similarity(spec)
    with torch.no_grad():
        scores = similarity.score(*(np.array([vectors[name] for name in names]) for names in (QUERIES, corpus))).numpy()
    for row, (given, found) in enumerate(zip(scores, negatives, strict=True)):
        own = 20 + row
        ranked = [i for i in np.argsort(-given, kind="stable") if i != own][:15]
        expected = [corpus[i] for i in ranked if given[i] <= given[own] - abs(given[own]) * 0.1][:5]
        assert found == expected
    assert done.similarity == spec
    assert done.counts["negatives"] > 20


QUERIES = [f"q{i}" for i in range(20)]


# --- the judge


class GivenJudge(PairwiseReranker):
    """Stands in for a reranker."""

    spec = "given-judge"

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores
        self.asked: list[tuple[str, str]] = []

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        self.asked += zip(queries, documents, strict=True)
        return np.array([self.scores[document] for document in documents], dtype=np.float32)

    def fingerprint(self) -> str:
        return "judge"


@pytest.mark.parametrize("judges", [False, True])
def test_many_equal_scores_keep_the_order_of_the_ranks(tmp_path, judges):
    """More than a sort of few items takes, of two different scores: those of equal similarity in the order of the
    candidates, those of equal scores of a judge in the order of the ranks."""
    names = [f"c{i}" for i in range(60)]
    vectors = on_the_circle(q=0, p=1, **{name: 20 + 20 * (i % 2) for i, name in enumerate(names)})
    settings = MiningSettings(50, absolute_margin=None, last_rank=60)
    judge = GivenJudge({"p": 2.0, **{name: float(i % 3 == 0) for i, name in enumerate(names)}}) if judges else None
    ranked = sorted(range(60), key=lambda i: i % 2)
    expected = sorted(ranked, key=lambda i: i % 3 > 0) if judges else ranked
    (negatives,), _ = mined(ONE, vectors, settings, tmp_path, candidates=names, judge=judge)
    assert negatives == [f"c{i}" for i in expected[:50]]


def test_a_judge_decides_within_the_ranks(tmp_path):
    judge = GivenJudge({"p": 0.9, "a": 0.88, "b": 0.1, "c": 0.6, "d": 0.7, "s": 0.0})
    settings = MiningSettings(negatives=2, last_rank=4, scores=True)
    negatives, done = mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS, judge=judge)
    assert negatives == [["d", "c"]], "a is within the margin of 0.9; b scores lower; s is rank 5"
    assert rows_of(tmp_path / "out.jsonl")[0]["negative_scores"] == [0.7, 0.6]
    assert sorted(judge.asked) == [("q", name) for name in ("a", "b", "c", "d", "p")], "each once, and the positive"
    assert (done.judge, done.mean_positive_score) == ("given-judge", pytest.approx(0.9))
    assert mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS)[0] == [["c", "d"]]


class ListJudge(GivenJudge):
    """Stands in for one that orders lists: a score is the number of documents from a place to the list's end."""

    listwise = True

    def __init__(self, scores: dict[str, float]) -> None:
        super().__init__(scores)
        self.lists: list[tuple[str, list[str]]] = []

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        raise AssertionError("pairs are not lists")

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        raise AssertionError("all lists are given at once")

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        self.lists += zip(queries, map(list, lists), strict=True)
        values = [np.array([self.scores[document] for document in documents]) for documents in lists]
        return [(np.argsort(np.argsort(part)) + 1).astype(np.float32) for part in values]


def test_a_judge_of_lists_gets_them_in_the_order_of_the_search(tmp_path):
    judge = ListJudge({"p": 0.9, "a": 0.95, "b": 0.1, "c": 0.6, "d": 0.7, "s": 0.0})
    settings = MiningSettings(negatives=2, last_rank=4, scores=True)
    assert mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS, judge=judge)[0] == [["d", "c"]]
    nearest = sorted("abcdp", key=lambda name: -np.dot(CIRCLE["q"], CIRCLE[name]))
    assert judge.lists == [("q", nearest)]


def test_a_judge_gets_each_anchor_with_its_own_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(mining, "JUDGED", 3)
    names = [f"{side}{i}" for side in "qpn" for i in range(10)]
    vectors = on_the_circle(**{name: 7.0 * number for number, name in enumerate(names)})
    pairs = [Pair(f"q{i % 8}", f"p{i}", (f"n{i}",)) for i in range(10)]
    judge = GivenJudge({name: int(name[1:]) / 10 for name in names})
    settings = MiningSettings(negatives=2, absolute_margin=0.0, scores=True, last_rank=6)
    mined(pairs, vectors, settings, tmp_path, judge=judge)
    for row, pair in zip(rows_of(tmp_path / "out.jsonl"), pairs, strict=True):
        assert row["positive_score"] == pytest.approx(judge.scores[pair.positive])
        assert row["negatives"][0] == pair.negatives[0]
        assert row["negative_scores"] == pytest.approx([judge.scores[text] for text in row["negatives"]])
        assert all(judge.scores[text] <= judge.scores[pair.positive] for text in row["negatives"][1:])
    assert len(judge.asked) == len(set(judge.asked)), "no pair is judged twice"


# --- a break in the middle


def many(count: int = 30) -> tuple[list[Pair], dict[str, np.ndarray]]:
    generator = np.random.default_rng(1)
    vectors = {f"{side}{i}": generator.normal(size=4) for side in "qp" for i in range(count)}
    return [Pair(f"q{i}", f"p{i}") for i in range(count)], vectors


class BreakingJudge(GivenJudge):
    """Is interrupted at the query q15."""

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        if "q15" in queries:
            raise KeyboardInterrupt
        return super().score_pairs(queries, documents)


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., GivenJudge]:
    """Mines with a judge, 4 anchors at once; with ``breaks`` it is interrupted after 12 of 30."""
    monkeypatch.setattr(mining, "JUDGED", 4)
    pairs, vectors = many()
    scores = {name: float(vector[0]) for name, vector in vectors.items()}

    def run(name: str, breaks: bool = False, print_of_judge: str = "judge") -> GivenJudge:
        judge = (BreakingJudge if breaks else GivenJudge)(scores)
        judge.fingerprint = lambda: print_of_judge  # type: ignore[method-assign]
        searcher, settings = searching(GivenEncoder(vectors)), MiningSettings(absolute_margin=0.0, scores=True)
        if breaks:
            with pytest.raises(Interrupted, match=r"the judge's scores are in .*out\.jsonl\.work") as stopped:
                mine_pairs(pairs, searcher, str(tmp_path / name), settings, judge=judge)
            assert stopped.value.exit_code == 130
        else:
            mine_pairs(pairs, searcher, str(tmp_path / name), settings, judge=judge)
        return judge

    return run


def test_a_judges_scores_outlive_a_break(tmp_path, judged):
    judged("whole.jsonl")
    judged("out.jsonl", breaks=True)
    assert not (tmp_path / "out.jsonl").exists()
    assert (tmp_path / "out.jsonl.work" / "scores.sqlite").is_file()
    assert {query for query, _ in judged("out.jsonl").asked} == {f"q{i}" for i in range(12, 30)}
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "whole.jsonl"]


def test_damaged_scores_are_made_again(tmp_path, judged):
    judged("whole.jsonl")
    judged("out.jsonl", breaks=True)
    work = tmp_path / "out.jsonl.work"
    with closing(sqlite3.connect(work / "scores.sqlite")) as opened, opened:
        (cut, flipped, _), *_ = zip(*opened.execute("SELECT rowid FROM shards"), strict=True)
        opened.execute("UPDATE shards SET content = substr(content, 5) WHERE rowid = ?", (cut,))
        opened.execute("UPDATE shards SET content = zeroblob(length(content)) WHERE rowid = ?", (flipped,))
    (work / "mine.txt").write_text("a user's own")
    assert len({query for query, _ in judged("out.jsonl").asked}) == 18 + 8
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert [path.name for path in work.iterdir()] == ["mine.txt"]


def test_scores_of_another_judge_are_not_used(judged):
    judged("out.jsonl", breaks=True)
    assert len({query for query, _ in judged("out.jsonl", print_of_judge="another").asked}) == 30


def test_without_a_judge_and_to_standard_output_nothing_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pairs, vectors = many()
    mine_pairs(pairs, searching(GivenEncoder(vectors)), "-")
    assert len(capsys.readouterr().out.splitlines()) == 30
    scores = {name: float(vector[0]) for name, vector in vectors.items()}
    for output, judge in (("-", BreakingJudge(scores)), ("out.jsonl", None)):
        encoder = GivenEncoder(vectors)
        if judge is None:
            encoder.embed = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
        with pytest.raises(Interrupted, match=r"mining stopped$"):
            mine_pairs(pairs, searching(encoder), output, judge=judge)
    assert list(tmp_path.iterdir()) == []


# --- other searchers


@pytest.mark.parametrize("index", [None, "Flat"])
def test_an_index_finds_what_exact_search_finds(tiny_bert, tmp_path, index):
    texts = sentences(60, seed=3)
    rows = [{"anchor": q, "positive": p} for q, p in zip(texts[:20], texts[20:40], strict=True)]
    data = write_pairs(tmp_path / "p.jsonl", rows)
    done = mine(str(tiny_bert), [data], str(tmp_path / "o.jsonl"), index=index, settings=NO_MARGIN, precision="fp32")
    assert done.counts["negatives"] == 60
    exact = tmp_path / "exact.jsonl"
    mine(str(tiny_bert), [data], str(exact), settings=NO_MARGIN, precision="fp32")
    assert rows_of(tmp_path / "o.jsonl") == rows_of(exact)


def test_words_find_negatives(tmp_path):
    pytest.importorskip("bm25s", reason="the extra bm25 is not installed")
    data = write_pairs(tmp_path / "p.jsonl", [{"anchor": "red cat", "positive": "a red cat sleeps"}])
    corpus = write_pairs(
        tmp_path / "c.jsonl",
        [{"id": str(i), "text": text} for i, text in enumerate(("red fish", "a cat", "blue bird"))],
    )
    done = mine("bm25", [data], str(tmp_path / "o.jsonl"), corpus=corpus, settings=NO_MARGIN)
    assert (done.encoder, done.similarity) == ("bm25", "own")
    assert sorted(rows_of(tmp_path / "o.jsonl")[0]["negatives"]) == ["a cat", "red fish"]
    with pytest.raises(UsageError, match="an encoder's, and bm25 is none"):
        mine("bm25", [data], str(tmp_path / "o.jsonl"), sim="dot")
    (tmp_path / "x.trec").write_text("q Q0 d 1 1.0 x\n")
    with pytest.raises(UsageError, match=r"x\.trec ranks by ids, and these documents have none"):
        mine(f"run:{tmp_path / 'x.trec'}", [data], str(tmp_path / "o.jsonl"))


# --- from specs


def write_pairs(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_from_specs_to_a_file(tiny_bert, tmp_path):
    texts = sentences(60, seed=3)
    data = [
        write_pairs(tmp_path / f"{i}.jsonl", [{"query": q, "answer": a} for q, a in zip(texts[:20], part, strict=True)])
        for i, part in enumerate((texts[20:40], texts[40:]))
    ]
    out = tmp_path / "out.jsonl.gz"
    settings = MiningSettings(negatives=3, absolute_margin=None)
    done = mine(str(tiny_bert), data, str(out), sim="dot", settings=settings, precision="fp32", device="cpu")
    assert (done.encoder, done.similarity) == (str(tiny_bert), "dot")
    assert (done.counts["rows"], done.counts["anchors"], done.counts["candidates"]) == (40, 20, 40)
    assert done.summary().startswith("120 negatives for 40 rows from 40 candidates; mean score ")
    records = read_source(str(out), "pairs").records
    positives: dict[str, set[str]] = {}
    for record in [*read_source(data[0], "pairs").records, *read_source(data[1], "pairs").records]:
        positives.setdefault(record.anchor, set()).add(record.positive)
    for pair in records:
        assert len(pair.negatives) == len(set(pair.negatives)) == 3
        assert not {pair.anchor, *positives[pair.anchor]} & set(pair.negatives)


def test_a_corpus_is_read_with_its_titles(tiny_bert, tmp_path):
    data = write_pairs(tmp_path / "pairs.jsonl", [{"anchor": "the cat", "positive": "Big a dog runs"}])
    folder = tmp_path / "corpus"
    folder.mkdir()
    corpus = write_pairs(
        folder / "corpus.jsonl",
        [
            {"_id": "1", "title": "Big", "text": "a dog runs"},
            {"_id": "2", "title": "", "text": "red fish"},
            {"_id": "3", "title": "Blue", "text": "bird"},
            {"_id": "4", "text": ""},
        ],
    )
    settings = MiningSettings(absolute_margin=None)
    for given in (corpus, str(folder)):
        done = mine(
            str(tiny_bert), [data], str(tmp_path / "out.jsonl"), corpus=given, settings=settings, precision="fp32"
        )
        assert set(rows_of(tmp_path / "out.jsonl")[0]["negatives"]) == {"red fish", "Blue bird"}
        expected = {"candidates": 3, "candidates_without_text": 1, "positives_not_candidates": 0, "excluded": 1}
        assert {name: done.counts[name] for name in expected} == expected


def test_a_cross_encoder_judges(tiny_bert, tmp_path):
    from tests.ranking.test_library import make_cross_encoder

    texts = sentences(40, seed=8)
    data = write_pairs(
        tmp_path / "p.jsonl", [{"anchor": a, "positive": p} for a, p in zip(texts[:20], texts[20:], strict=True)]
    )
    judge = f"cross-encoder:{make_cross_encoder(tmp_path / 'judge')}"
    settings = MiningSettings(negatives=2, absolute_margin=0.0, scores=True)
    found = {}
    for chosen in (None, judge):
        done = mine(
            str(tiny_bert), [data], str(tmp_path / "out.jsonl"), judge=chosen, settings=settings, precision="fp32"
        )
        found[chosen] = [row["negatives"] for row in rows_of(tmp_path / "out.jsonl")]
    assert done.judge == judge
    assert found[None] != found[judge]
    from retrokit.ranking import reranking

    reranker = reranking.registry.create(judge)
    for row in rows_of(tmp_path / "out.jsonl"):
        scores = reranker.rank(row["anchor"], [row["positive"], *row["negatives"]])
        assert_rounded([row["positive_score"], *row["negative_scores"]], scores)
        allowed = [score for score in reranker.rank(row["anchor"], texts[20:]) if score <= scores[0] - 1e-6]
        assert_rounded(row["negative_scores"], sorted(allowed, reverse=True)[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"negatives": 0}, "`negatives=` 0 is out of range"),
        ({"sampling": "best"}, "`sampling=` best is none of top, random"),
        ({"first_rank": 0}, "ranks 0 to 100"),
        ({"first_rank": 9, "last_rank": 8}, "ranks 9 to 8"),
        ({"first_rank": 95}, "7 negatives cannot come from 6 ranks"),
        ({"absolute_margin": -0.1}, "`absolute_margin=` -0.1 is out of range"),
        ({"relative_margin": float("nan")}, "`relative_margin=` nan is out of range"),
        ({"max_score": float("inf")}, "`max_score=` inf is out of range"),
        ({"min_score": 0.5, "max_score": 0.4}, "min_score 0.5 is above max_score 0.4"),
        ({"seed": -1}, "`seed=` -1 is out of range"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(UsageError, match=message):
        MiningSettings(**changes)


def test_wrong_use_is_refused_before_the_encoder_works(tmp_path):
    data, out = write_pairs(tmp_path / "p.jsonl", [{"anchor": "a", "positive": "b"}]), str(tmp_path / "o.jsonl")
    names = {"sim": "cosin", "judge": "best"}
    for words, options, error, message in (
        (("minilmm", [data], out), names, UsageError, "(?s)unknown encoder 'minilmm'.*similarity 'cosin'.*reranker"),
        (("static:8", [str(tmp_path / "p2.jsonl")], out), {}, DataError, r"p2\.jsonl: does not exist"),
        (("static:8", [f"{data},weight=2"], out), {}, UsageError, "rows are taken once"),
        (("static:8", [f"{data},query_prompt=x"], out), {}, UsageError, "leave out weight and prompts"),
        (("static:8", ["-"], out), {"corpus": "-"}, UsageError, "once only"),
        (("static:8", [data], f"{data}/o.jsonl"), {}, DataError, "could not be written: Not a directory"),
        (("static:8", [data], data), {}, UsageError, "is an input too"),
        (("static:8", [data], str(tmp_path)), {}, DataError, "it is a folder"),
        (("static:8", [data], out), {"corpus": str(tmp_path)}, DataError, r"contains no corpus\.jsonl"),
    ):
        with pytest.raises(error, match=message):
            mine(*words, **options)
    encoder = GivenEncoder({"a": [1.0, 0.0], "b": [1.0, 0.0]})
    with pytest.raises(UsageError, match="does not divide 2"):
        mine_pairs([Pair("a", "b")], searching(encoder, "sfs:4"), out)
    with pytest.raises(DataError, match="mining: no candidates"):
        mine_pairs([Pair("a", "b")], searching(encoder), out, candidates=[" "])
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]
