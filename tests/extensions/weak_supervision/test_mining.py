"""Mining: choices worked out by hand, the library's own choices, every similarity, and a break in the middle."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives

import retrokit
import retrokit.extensions.weak_supervision.mining as mining
from retrokit.core.errors import DataError, Interrupted, UsageError
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair
from retrokit.encoders import registry as encoders
from retrokit.extensions.weak_supervision.mining import Mined, mine, mine_pairs
from retrokit.extensions.weak_supervision.settings import MiningSettings
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.retrieval.dense import Dense
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
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


def test_a_judge_decides_within_the_ranks(tmp_path):
    judge = GivenJudge({"p": 0.9, "a": 0.88, "b": 0.1, "c": 0.6, "d": 0.7, "s": 0.0})
    settings = MiningSettings(negatives=2, last_rank=4, scores=True)
    negatives, done = mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS, judge=judge)
    assert negatives == [["d", "c"]], "a is within the margin of 0.9; b scores lower; s is rank 5"
    assert rows_of(tmp_path / "out.jsonl")[0]["negative_scores"] == [0.7, 0.6]
    assert sorted(judge.asked) == [("q", name) for name in ("a", "b", "c", "d", "p")], "each once, and the positive"
    assert (done.judge, done.mean_positive_score) == ("given-judge", pytest.approx(0.9))
    assert mined(ONE, CIRCLE, settings, tmp_path, candidates=CORPUS)[0] == [["c", "d"]]


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


# --- other searchers


# --- from specs


def write_pairs(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


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


def test_the_summary_by_hand():
    counts = {"negatives": 9000, "rows": 2000, "candidates": 3000, "rows_short": 1100, "rows_without": 30}
    mined = Mined("minilm", "cosine", None, NO_MARGIN, {**counts, "rows_dropped": 30}, 0.75, 0.25)
    line = "9,000 negatives for 2,000 rows from 3,000 candidates; 1,100 rows got fewer than 3; 30 rows got none"
    assert mined.summary() == f"{line} (dropped); mean score 0.250, of positives 0.750"
    retained = replace(mined, counts={**counts, "rows_dropped": 0}, mean_negative_score=None)
    assert retained.summary() == f"{line} (retained)"


def test_each_row_has_a_draw_of_its_own(tmp_path):
    vectors = on_the_circle(p=1, **{f"q{i}": 0 for i in range(8)}, **{f"c{i}": 10 + i for i in range(40)})
    settings = MiningSettings(4, "random", last_rank=40, absolute_margin=None)
    rows = [Pair(f"q{i}", "p") for i in range(8)]
    negatives, _ = mined(rows, vectors, settings, tmp_path, candidates=[f"c{i}" for i in range(40)])
    assert len({tuple(row) for row in negatives}) > 4
