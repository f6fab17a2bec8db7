"""SURE against an independent computation by loops, on the published folders; references; bad input."""

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import retrokit
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.data.sure import read_sure
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.correlations import check_correlated, correlations
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import save_runs
from retrokit.evaluation.tasks.sure import RerankerReference, Sure, make_reference
from retrokit.ranking import retrieval
from retrokit.ranking.reranking.base import PairwiseReranker
from tests.close import assert_rounded
from tests.evaluation.fakes import GivenEncoder, Notices, hashed
from tests.models import sentences
from tests.sure_folders import VARIANTS, cut, small_folder, write_sure

KINDS = {
    "precision": ["key-sentences", None, "key-sentences-with-noise"],
    "abstraction": ["summary", None, "expansion"],
    "equivalence": [None, "paraphrase"],
}

Score = Callable[[str, str], float]


# --- an independent computation of the published evaluator's rules: files, sorts and loops


def whole_numbers(text: str, salt: str = "") -> list[int]:
    """A vector of small whole numbers that the text decides: inner products are exact, and many are equal."""
    return [byte % 3 for byte in hashlib.md5((salt + text).encode()).digest()[:6]]


def inner(query: str, text: str, salt: str = "") -> int:
    return sum(a * b for a, b in zip(whole_numbers(query, salt), whole_numbers(text, salt), strict=True))


class WholeNumbers(dict[str, list[float]]):
    """The vectors of all texts, for :class:`GivenEncoder`."""

    def __init__(self) -> None:
        super().__init__({"": [0.0] * 6})

    def __missing__(self, text: str) -> list[float]:
        return [float(number) for number in whole_numbers(text)]


class Loops:
    """Reads a folder and measures one testbed, a query at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passages = self.contents("passages.jsonl")
        self.variants = {kind: self.contents(name) for kind, name in VARIANTS.items()}
        (qrels,) = folder.glob("qrels-*.tsv")
        self.original = {line.split("\t")[0]: line.split("\t")[2] for line in qrels.read_text().splitlines()}

    def contents(self, name: str) -> dict[str, str]:
        rows = [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]
        return {row["id"]: row["contents"] for row in rows}

    def queries(self, testbed: str) -> dict[str, str]:
        end = "-semantic-equivalence" if testbed == "equivalence" else ""
        (path,) = [p for p in self.folder.glob(f"query-*{end}.tsv") if end or "equivalence" not in p.name]
        lines = path.read_text(encoding="utf-8").split("\n")
        return {line.split("\t")[0]: line.split("\t")[1] for line in lines if line}

    def listed(self, text: str, score: Score, depth: int) -> list[str]:
        by_id = sorted(self.passages, reverse=True)
        return sorted(by_id, key=lambda id: -score(text, self.passages[id]))[:depth]

    def measure(
        self, testbed: str, score: Score, reference: dict[str, dict[str, float]], depth: int, twice: bool
    ) -> dict:
        kinds = KINDS[testbed]
        rdc, roc, ranges, dropped = {}, {}, [], {"original": 0, "reference": 0}
        for query, text in self.queries(testbed).items():
            original = self.original[query]
            passages = self.listed(text, score, depth)
            if original not in passages:
                dropped["original"] += 1
                continue
            names = [f"{original}#{kind}" for kind in kinds if kind]
            known = reference.get(query, {})
            if any(name not in known for name in passages + names):
                dropped["reference"] += 1
                continue
            texts = [self.variants[kind][original] for kind in kinds if kind]
            pairs = [(name, score(text, self.passages[name])) for name in passages]
            pairs += [(name, score(text, found)) for name, found in zip(names, texts, strict=True)]
            own = [name for name, _ in sorted(pairs, key=lambda pair: -pair[1])]
            places = [f"{original}#{kind}" if kind else original for kind in kinds]
            # twice: the list as merged, variants under the id of their original, and the variants after it again
            again = [(name.partition("#")[0], known[name]) for name in own] + [(name, known[name]) for name in names]
            once = [(name, known[name]) for name in passages + names]
            gold = sorted(again if twice else once, key=lambda pair: -pair[1])
            rank_of = {name: rank for rank, (name, _) in enumerate(gold, start=1)}
            a, b = [own.index(name) + 1 for name in places], [rank_of[name] for name in places]
            low, high = sorted([statistics.pstdev(a), statistics.pstdev(b)])
            rdc[query] = low / high if high else 1.0
            pairs = [(i, j) for i in range(len(a)) for j in range(i) if a[i] != a[j] and b[i] != b[j]]
            if pairs:
                roc[query] = sum((a[i] < a[j]) == (b[i] < b[j]) for i, j in pairs) / len(pairs)
            ranges.append(max(b) - min(b))
        return {
            "rdc": statistics.fmean(rdc.values()), "roc": statistics.fmean(roc.values()),
            "range": statistics.fmean(ranges), "per_query": (rdc, roc), "dropped": dropped,
        }  # fmt: skip

    def reciprocal_ranks(self, score: Score, reference: dict[str, dict[str, float]], depth: int) -> list[float]:
        before, after = [], []
        for query, text in self.queries("precision").items():
            passages, original = self.listed(text, score, depth), self.original[query]
            before.append(1 / (passages.index(original) + 1) if original in passages else 0)
            known = reference.get(query, {})
            if all(name in known for name in passages):
                gold = sorted(passages, key=lambda name: -known[name])
                after.append(1 / (gold.index(original) + 1) if original in passages else 0)
        return [statistics.fmean(before), statistics.fmean(after)]

    def reference(self) -> dict[str, dict[str, float]]:
        """Coarse scores of everything, but for one query, for one passage of a second and one variant of a third."""
        run = {}
        for query, text in self.queries("precision").items():
            original = self.original[query]
            found = {id: inner(text, passage, "reference ") for id, passage in self.passages.items()}
            for kind, texts in self.variants.items():
                if original in texts:
                    found[f"{original}#{kind}"] = inner(text, texts[original], "reference ")
            run[query] = found
        first, second, third, *_ = run
        del run[first]
        del run[second][self.original[second]]
        del run[third][f"{self.original[third]}#summary"]
        return run


def write_trec(path: Path, run: dict[str, dict[str, float]]) -> Path:
    lines = [f"{query} Q0 {id} 0 {score!r} x\n" for query, found in run.items() for id, score in found.items()]
    path.write_text("".join(lines))
    return path


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "queries", "passages"), [("fiqa", 191, 191), ("msmarco", 120, 150)])
@pytest.mark.parametrize(("depth", "counting"), [(60, "once"), (2000, "once"), (60, "published-script")])
def test_the_published_folders_give_what_loops_give(real_sure, tmp_path, name, queries, passages, depth, counting):
    folder = cut(real_sure / name, tmp_path / "folder", queries, passages)
    loops = Loops(folder)
    reference = loops.reference()
    file = write_trec(tmp_path / "reference.trec", reference)
    task = tasks.create(f"sure:{folder},reference=run:{file},depth={depth},counting={counting}")
    (result,) = task.evaluate(Request(GivenEncoder(WholeNumbers(), similarity="dot"), [retrokit.similarity("dot")]))
    twice = counting == "published-script"
    expected = {testbed: loops.measure(testbed, inner, reference, depth, twice) for testbed in KINDS}
    for testbed, found in expected.items():
        for measure in ("rdc", "roc", "range"):
            assert result.metrics[f"{testbed}_{measure}"] == pytest.approx(found[measure], abs=1e-9)
        for measure, scores in zip(("rdc", "roc"), found["per_query"], strict=True):
            assert result.per_query[f"{testbed}_{measure}"] == pytest.approx(scores, abs=1e-9)
        assert result.counts[f"{testbed}_original_not_listed"] == found["dropped"]["original"]
        assert result.counts[f"{testbed}_without_reference"] == found["dropped"]["reference"]
        assert result.counts[f"{testbed}_queries"] == len(found["per_query"][0])
    for measure in ("rdc", "roc"):
        average = statistics.fmean(found[measure] for found in expected.values())
        assert result.metrics[measure] == pytest.approx(average, abs=1e-9)
        value = result.resampled[measure].value
        assert value(np.arange(result.resampled[measure].items)) == pytest.approx(average, abs=1e-9)
    assert list(result.metrics.items())[8:10] == [
        (f"mrr@{depth}", pytest.approx(loops.reciprocal_ranks(inner, reference, depth)[0], abs=1e-9)),
        (f"reranked_mrr@{depth}", pytest.approx(loops.reciprocal_ranks(inner, reference, depth)[1], abs=1e-9)),
    ]
    # the cases that the comparison is meant to hold
    assert (expected["precision"]["dropped"]["original"] > 20) == (depth == 60)
    assert expected["abstraction"]["dropped"]["reference"] >= expected["precision"]["dropped"]["reference"]
    one = next(query for query in loops.queries("precision") if query in expected["precision"]["per_query"][0])
    scores = [inner(loops.queries("precision")[one], text) for text in loops.passages.values()]
    assert len(set(scores)) < len(scores) / 3, "many scores must be equal"


# --- references


class CountingScorer(PairwiseReranker):
    """A reranker that counts the pairs it is asked for."""

    spec = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        pairs = list(zip(queries, documents, strict=True))
        self.asked += pairs
        return np.array([inner(*pair) for pair in pairs], dtype=np.float32)

    def fingerprint(self) -> str:
        return "counting"


def test_a_reranker_scores_each_pair_of_texts_once(tmp_path):
    folder = small_folder(tmp_path / "small", 6)
    # p0 and p1 share a text, the paraphrase of p2 is p2's own
    texts = (folder / "passages.jsonl").read_text().replace("passage 1", "passage 0")
    (folder / "passages.jsonl").write_text(texts)
    rows = (folder / "passages-with-keywords-replaced.jsonl").read_text().replace("paraphrase 2", "passage 2")
    (folder / "passages-with-keywords-replaced.jsonl").write_text(rows)
    scorer = CountingScorer()
    task = Sure(read_sure(folder), RerankerReference(scorer))
    encoders = [GivenEncoder(WholeNumbers(), similarity="dot"), hashed(1)]
    results = [task.evaluate(Request(encoder, [retrokit.similarity("dot")]))[0] for encoder in encoders]
    distinct = {text for kind in VARIANTS for text in [f"{kind} 0"]}
    assert len(scorer.asked) == len(set(scorer.asked)) == 6 * (5 + len(distinct)) - 1
    assert results[0].metrics["rdc"] == results[0].metrics["roc"] == 1.0, "the reference agrees with itself"
    assert results[1].metrics["roc"] < 1.0


def test_variants_that_equal_their_passage_are_reported_and_change_roc(tmp_path):
    """Of q0 to q3 the first has its own passage as paraphrase: a tie in every ranking, hence a ROC of 1."""
    folder = small_folder(tmp_path / "small", 4)
    file = folder / "passages-with-keywords-replaced.jsonl"
    file.write_text(file.read_text().replace("paraphrase 0", "passage 0"))
    results = {}
    for identical in ("counted", "left-out"):
        data = read_sure(folder, "equivalence", identical)
        task = Sure(data, RerankerReference(CountingScorer()), identical=identical)
        assert "equals its passage word for word" in task.describe()
        (results[identical],) = task.evaluate(Request(hashed(1), [retrokit.similarity("cosine")]))
        assert results[identical].counts["equivalence_identical_variant"] == 1
    counted, left_out = results["counted"], results["left-out"]
    values = counted.per_query["equivalence_roc"]
    assert values["q0"] == 1.0
    assert left_out.per_query["equivalence_roc"] == {query: values[query] for query in ("q1", "q2", "q3")}
    assert left_out.metrics["equivalence_roc"] == pytest.approx(np.mean([values[q] for q in ("q1", "q2", "q3")]))
    assert left_out.counts["equivalence_queries"] == 3
    assert left_out.configuration["identical"] == "left-out"


def test_a_saved_ranking_is_a_reference(tmp_path):
    folder = small_folder(tmp_path / "small", 9)
    first = tasks.create(f"sure:{folder},reference=run:{write_trec(tmp_path / 'no.trec', Loops(folder).reference())}")
    (result,) = first.evaluate(Request(hashed(1), [retrokit.similarity("cosine")]))
    assert result.metrics["rdc"] < 1
    save_runs([result], str(tmp_path / "own.trec"))
    second = tasks.create(f"sure:{folder},reference=run:{tmp_path / 'own.trec'}")
    (again,) = second.evaluate(Request(hashed(1), [retrokit.similarity("cosine")]))
    assert {again.metrics[f"{testbed}_{measure}"] for testbed in KINDS for measure in ("rdc", "roc")} == {1.0}
    assert again.metrics["mrr@2000"] == again.metrics["reranked_mrr@2000"] == result.metrics["mrr@2000"]
    assert first.digest() != second.digest()
    assert second.digest() == tasks.create(second.spec).digest()


def test_bm25_is_a_reference(tmp_path):
    texts = iter(sentences(90))
    ids = [f"p{i}" for i in range(12)]
    queries = {f"q{i}": next(texts) for i in range(12)}
    passages, *variants = ({id: next(texts) for id in ids} for _ in range(6))
    variants[-1]["p2"] = passages["p3"]  # a paraphrase that is another passage
    qrels = dict(zip(queries, ids, strict=True))
    folder = write_sure(tmp_path / "x", queries, qrels, passages, dict(zip(VARIANTS, variants, strict=True)))
    task = tasks.create(f"sure:{folder},reference=bm25")
    assert task.describe().endswith(", reference bm25")
    bm25 = retrieval.registry.create("bm25")
    own = task.evaluate(Request(searcher=bm25))[0]
    assert {own.metrics[f"{testbed}_{measure}"] for testbed in KINDS for measure in ("rdc", "roc")} == {1.0}
    candidates = task._candidates
    everything = np.arange(len(candidates.ids))
    found = task.reference.scores(candidates, [(query, everything) for query in range(12)])
    index = bm25.index(candidates.of(np.arange(12)))
    for query, scores in zip(candidates.queries, found, strict=True):
        expected = index.score_pairs([query] * len(everything), candidates.of(everything))
        assert_rounded(scores, expected, 16)
    assert 0.1 < np.mean(np.stack(found) > 0) < 0.95
    place = {id: position for position, id in enumerate(candidates.ids)}
    assert all(scores[place["p2#paraphrase"]] == scores[place["p3"]] for scores in found)
    other = tasks.create(f'sure:{folder},reference="bm25:k1=1,b=0.5"')
    assert other.digest() != task.digest()


# --- what decides a rank


def test_a_variant_with_the_text_of_its_original_ties_with_it(tmp_path):
    folder = small_folder(tmp_path / "small", 60)
    rows = (folder / "passages-with-keywords-replaced.jsonl").read_text().replace("paraphrase", "passage")
    (folder / "passages-with-keywords-replaced.jsonl").write_text(rows)
    task = Sure(read_sure(folder), RerankerReference(CountingScorer()))
    encoder = hashed(3)
    (searcher,) = Request(encoder, [retrokit.similarity("cosine")]).searchers(task)
    found = task.search(searcher.index(task.documents))
    ranks = task._ranks("equivalence", found, task._reference_scores(found, ["equivalence"])["equivalence"])
    assert (ranks.ranks[:, 1] - ranks.ranks[:, 0]).tolist() == [1] * 60
    assert len(set(ranks.ranks[:, 0].tolist())) > 10


@pytest.mark.parametrize(
    ("scores", "once", "twice"),
    [
        # twice: 3 3' 2 1 1' 0, where the last entry with the original's id is the first 1
        ({"key-sentences": 3, "original": 2, "key-sentences-with-noise": 1}, [1, 2, 3], [2, 4, 5]),
        # twice: 3 2 2' 1 1' 0: the original seems to come after its key sentences
        ({"key-sentences": 2, "original": 3, "key-sentences-with-noise": 1}, [2, 1, 3], [3, 4, 5]),
    ],
)
def test_counting_as_the_published_script(tmp_path, scores, once, twice):
    folder = small_folder(tmp_path / "small", 1)
    with (folder / "passages.jsonl").open("a") as stream:
        stream.write('{"id": "x", "contents": "other"}\n')
    run = {f"p0#{kind}": float(score) for kind, score in scores.items()} | {"p0": scores["original"], "x": 0.0}
    file = write_trec(tmp_path / "reference.trec", {"q0": run})
    vectors = {"query 0": [1.0], "passage 0": [scores["original"]], "other": [0.0]}
    vectors |= {f"{kind} 0": [score] for kind, score in scores.items()}
    results = {}
    for counting in ("once", "published-script"):
        task = tasks.create(f"sure:{folder},testbed=precision,reference=run:{file},counting={counting}")
        (results[counting],) = task.evaluate(
            Request(GivenEncoder(vectors, similarity="dot"), [retrokit.similarity("dot")])
        )
        assert ("counts every variant twice" in task.describe()) == (counting != "once")
    # the retriever's scores are the reference's, so counted once they agree
    assert results["once"].metrics["rdc"] == results["once"].metrics["roc"] == 1.0
    assert results["once"].metrics["precision_range"] == max(once) - min(once)
    again = results["published-script"].metrics
    low, high = sorted([statistics.pstdev(once), statistics.pstdev(twice)])
    assert again["rdc"] == pytest.approx(low / high)
    pairs = [(once[i] < once[j]) == (twice[i] < twice[j]) for i in range(3) for j in range(i)]
    assert again["roc"] == pytest.approx(sum(pairs) / 3)
    assert again["precision_range"] == max(twice) - min(twice)
    assert again["reranked_mrr@2000"] == results["once"].metrics["reranked_mrr@2000"]


def test_a_corpus_of_ones_own(tmp_path):
    folder = small_folder(tmp_path / "small", 6)
    rows = [{"id": f"p{i}", "title": "", "text": f"passage {i}"} for i in range(5)]
    rows += [{"id": f"x{i}", "text": f"other {i}"} for i in range(40)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reference = RerankerReference(CountingScorer())
    documents = [(row["id"], row["text"]) for row in rows]
    task = Sure(read_sure(folder), reference, documents)
    notices = Notices()
    with listening(notices):
        (result,) = task.evaluate(Request(hashed(1), [retrokit.similarity("cosine")]))
    assert result.counts["documents"] == 45
    assert result.counts["precision_original_not_listed"] == 1  # p5 is not in the corpus
    assert notices.messages[0] == "given cosine, precision: of 6 queries dropped: 1 without their original in the list"
    assert set(result.run["q2"]) == {row["id"] for row in rows} | {f"p2#{kind}" for kind in VARIANTS}
    assert result.metrics["mrr@2000"] < 5 / 6

    write_trec(tmp_path / "x.trec", {"q1": {"p0": 1.0}})
    same = tasks.create(f"sure:{folder},reference=run:{tmp_path / 'x.trec'},corpus={corpus}")
    assert same.describe().startswith(
        "small: 6 queries (6 of precision, 6 of abstraction, 6 of equivalence), 45 passages"
    )
    corpus.write_text('{"id": "1", "text": "a"}\n')
    with pytest.raises(DataError, match=r"none of its passages is in the corpus by its id \(the first is 'p0'\)"):
        tasks.create(f"sure:{folder},reference=run:{tmp_path / 'x.trec'},corpus={corpus}")


def test_lost_queries_are_said_and_never_imputed(tmp_path):
    folder = small_folder(tmp_path / "small")
    file = write_trec(tmp_path / "x.trec", {"q9": {"p0": 1.0}})
    task = tasks.create(f"sure:{folder},reference=run:{file}")
    with pytest.raises(DataError, match="no query of precision can be used: 4 without scores of the reference for all"):
        task.evaluate(Request(hashed(1), [retrokit.similarity("cosine")]))
    for spec, problem in {
        "maxsimm": "unknown reranker 'maxsimm' (did you mean maxsim?)",
        "run": "run needs path (run:path=TEXT)",
        "cross-encoder": "cross-encoder needs path",
    }.items():
        with pytest.raises(UsageError) as raised:
            make_reference(spec)
        assert problem in str(raised.value)
    with pytest.raises(UsageError, match="sure needs reference"):
        tasks.create(f"sure:{folder}")


# --- systems compared


def system_of(encoder: str, task: str, metrics: dict[str, float]) -> System:
    return System((Result(encoder, "cosine", task, next(iter(metrics)), metrics, {}, {}, {}, {}),))


NAMES = ["rdc", *(f"{testbed}_{measure}" for testbed in KINDS for measure in ("rdc", "roc")), "roc"]
ROWS = [[1, 1, 4, 1, 1, 5, 1, 1], [2, 2, 3, 3, 1, 4, 2, 2], [3, 3, 2, 2, 1, 3, 3, 3], [4, 4, 1, 4, 1, 2, 4, 4]]


def test_correlations_over_systems():
    systems = [system_of(f"e{i}", "sure:x", dict(zip(NAMES, row, strict=True))) for i, row in enumerate(ROWS)]
    systems += [system_of(f"e{i}", "beir:x", {"ndcg@10": value}) for i, value in enumerate([0.1, 0.3, 0.2])]
    found = {(one.first, one.second): (one.tasks, one.systems, one.spearman) for one in correlations(systems)}
    assert found == {
        ("precision_rdc", "abstraction_rdc"): (("sure:x",), 4, pytest.approx(0.8)),
        ("precision_rdc", "equivalence_rdc"): (("sure:x",), 4, pytest.approx(-1.0)),
        ("abstraction_rdc", "equivalence_rdc"): (("sure:x",), 4, pytest.approx(-0.8)),
        ("precision_roc", "abstraction_roc"): (("sure:x",), 4, None),
        ("precision_roc", "equivalence_roc"): (("sure:x",), 4, pytest.approx(-1.0)),
        ("abstraction_roc", "equivalence_roc"): (("sure:x",), 4, None),
        ("rdc", "ndcg@10"): (("sure:x",), 3, pytest.approx(0.5)),
        ("roc", "ndcg@10"): (("sure:x",), 3, pytest.approx(0.5)),
    }


def test_correlations_over_data_sets():
    """By hand: the means of rdc are 2 1.5 2.5 5, of nDCG 2.5 1.5 2.5 3.5."""
    given = {"sure:x": [1, 2, 3, 4], "beir:x": [1, 2, 3, 4], "sure:y": [3, 1, 2, 6], "beir:y": [4, 1, 2, 3]}
    systems = [
        system_of(f"e{i}", task, {"rdc" if task.startswith("sure") else "ndcg@10": float(value)})
        for task, values in given.items()
        for i, value in enumerate(values)
    ]
    systems.append(system_of("only here", "sure:x", {"rdc": 9.0}))
    systems.append(system_of("undefined", "sure:x", {"rdc": float("nan")}))
    systems.append(system_of("undefined", "beir:x", {"ndcg@10": 1.0}))
    assert [(one.tasks, one.systems, one.spearman) for one in correlations(systems)] == [
        (("sure:x",), 4, pytest.approx(1.0)),
        (("sure:y",), 4, pytest.approx(0.8)),
        (("sure:x", "sure:y"), 4, pytest.approx(spearmanr([2, 1.5, 2.5, 5], [2.5, 1.5, 2.5, 3.5]).statistic)),
    ]
    assert correlations(systems[:2] + systems[4:6])[0].spearman is None, "two systems have no order to speak of"


@pytest.mark.parametrize(
    ("tasks_given", "systems", "problem"),
    [
        (["beir:x"], 3, "give a task sure:FOLDER"),
        (
            ["sure:x", "beir:x", "beir:y"],
            3,
            "one other task for each SURE task, in their order, or none: here are 1 and 2",
        ),
        (["sure:x", "sure:y", "beir:x"], 3, "here are 2 and 1"),
        (["sure:x"], 2, r"at least 3 systems \(encoders × similarities\), here are 2"),
    ],
)
def test_correlations_that_cannot_be(tasks_given, systems, problem):
    main = {task: "rdc" if task.startswith("sure") else "ndcg@10" for task in tasks_given}
    with pytest.raises(UsageError, match=problem):
        check_correlated(main, systems)
