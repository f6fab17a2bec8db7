"""Lengths, effect sizes and gains: by hand, against direct computations, and through the training of a tiny model."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr

from retrokit import encoders, evaluation
from retrokit.core.errors import DataError, UsageError
from retrokit.core.registry import Entry
from retrokit.data.jsonl import write_jsonl
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.effect_size import EffectSize, Moments, bootstrapped_d
from retrokit.probing.magnitude import (
    LengthFinding,
    Lengths,
    MagnitudeProbe,
    measure,
    probe_magnitude,
    probe_training,
)
from retrokit.probing.settings import MagnitudeSettings
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import GivenEncoder, hashed, write_folder
from tests.metrics.test_effect_size import cohens_d
from tests.models import sentences


def options(**given: Any) -> MagnitudeSettings:
    return MagnitudeSettings([], [], **given)


def task(folder: Path) -> Retrieval:
    return evaluation.registry.create(f"beir:{folder}")


# lengths 5, 2, 1, 3; all find the query, for whom two documents are relevant
VECTORS = {"q": [1, 0], "r": [0, 2], "a": [3, 4], "b": [2, 0], "c": [1, 0], "e": [0, 3]}
DOCUMENTS = {"a": "a", "b": "b", "c": "c", "e": "e"}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    qrels = {"q": {"a": 1, "b": 2, "c": 0}, "r": {"e": 1}}
    return write_folder(tmp_path / "small", DOCUMENTS, {"q": "q", "r": "r"}, qrels)


def test_by_hand(small):
    found = measure(GivenEncoder(VECTORS), task(small), options())
    assert found.effect.value == pytest.approx(cohens_d(np.array([5.0, 2.0, 3.0]), np.array([1.0, 3, 5, 2, 1])))
    assert (found.relevant.count, found.relevant.mean) == (3, pytest.approx(10 / 3))
    assert (found.irrelevant.count, found.irrelevant.mean) == (5, pytest.approx(12 / 5))
    assert found.relevant.deviation == pytest.approx(np.std([5.0, 2.0, 3.0]))
    assert (found.queries.mean, found.queries.cv) == (1.5, pytest.approx(0.5 / 1.5))
    assert found.cv_ratio is None


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """More documents than a query's top 100."""
    documents = {f"d{i}": f"document {i}" for i in range(130)}
    queries = {f"q{i}": f"query {i}" for i in range(12)}
    qrels = {query: {f"d{i}": 1, f"d{i + 40}": 1, f"d{i + 80}": 0} for i, query in enumerate(queries)}
    return write_folder(tmp_path / "large", documents, queries, qrels)


def directly(data: Retrieval) -> tuple[np.ndarray, dict[str, float], list[list[str]]]:
    """Lengths of queries and documents, and each query's documents from the best down by angle, in NumPy alone."""
    encoder = hashed(0)
    queries, documents = (encoder.embed(texts, "query") for texts in (data.data.queries, data.data.documents))
    lengths = np.linalg.norm(documents.astype(np.float64), axis=1)
    scores = queries @ documents.T / lengths
    ranked = [[data.data.document_ids[i] for i in np.argsort(-row)] for row in scores]
    return np.linalg.norm(queries, axis=1), dict(zip(data.data.document_ids, lengths, strict=True)), ranked


@pytest.mark.parametrize("sim", ["cosine", "dot"])
@pytest.mark.parametrize("irrelevant", ["top", "all"])
def test_groups_against_a_direct_computation(large, sim, irrelevant):
    data = task(large)
    found = measure(GivenEncoder(hashed(0).vectors, similarity=sim), data, options(irrelevant=irrelevant))
    queries, lengths, ranked = directly(data)
    relevant, others = [], []
    for query, order in zip(data.data.query_ids, ranked, strict=True):
        chosen = {document for document, grade in data.data.qrels[query].items() if grade > 0}
        relevant += [lengths[document] for document in chosen]
        rest = order[:100] if irrelevant == "top" else order
        others += [lengths[document] for document in rest if document not in chosen]
    assert found.effect.value == pytest.approx(cohens_d(np.array(relevant), np.array(others)), abs=1e-6)
    assert found.irrelevant.count == len(others)
    assert found.irrelevant.deviation == pytest.approx(np.std(others), rel=1e-5)
    assert found.queries.cv == pytest.approx(queries.std() / queries.mean(), rel=1e-5)


SIMILARITIES = ["cosine", "dot", "qnorm", "sfs:4", "l2"]
KNOWN_D = 0.88


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Retrieval, dict[str, np.ndarray]]:
    """A benchmark whose relevant documents are longer by a Cohen's d of 0.88, whatever their angle to the query."""
    rng = np.random.default_rng(0)
    vectors = {f"query {i}": row for i, row in enumerate(rng.normal(size=(30, 16)))}
    relevant = {f"relevant {i} {j}": vectors[f"query {i}"] + rng.normal(size=16) for i in range(30) for j in range(4)}
    others = {f"other {i}": row for i, row in enumerate(rng.normal(size=(2000, 16)))}
    for group, mean in ((others, 10.0), (relevant, 10.0 + KNOWN_D)):
        lengths = rng.normal(size=len(group))
        lengths = mean + (lengths - lengths.mean()) / lengths.std()
        vectors |= {
            text: row / np.linalg.norm(row) * length for (text, row), length in zip(group.items(), lengths, strict=True)
        }
    qrels = {f"query {i}": {f"relevant {i} {j}": 1 for j in range(4)} for i in range(30)}
    texts = {text: text for text in (*others, *relevant)}
    folder = write_folder(tmp_path_factory.mktemp("known") / "set", texts, {text: text for text in qrels}, qrels)
    return task(folder), vectors


def effects(simulated: tuple[Retrieval, dict[str, np.ndarray]], settings: MagnitudeSettings) -> list[EffectSize]:
    data, vectors = simulated
    return [measure(GivenEncoder(vectors, similarity=sim), data, settings).effect for sim in SIMILARITIES]


@pytest.mark.parametrize("irrelevant", ["top", "all"])
def test_a_known_d_is_found_under_every_similarity(simulated, irrelevant):
    first, *rest = effects(simulated, options(irrelevant=irrelevant))
    assert rest == [first] * len(rest)
    assert first.value == pytest.approx(
        KNOWN_D, abs=0.08
    )  # other queries' relevant documents are irrelevant to this one
    assert first.low < KNOWN_D < first.high


@pytest.mark.parametrize("irrelevant", ["top", "all"])
def test_without_labels_the_best_by_angle_stand_in(large, irrelevant):
    data = task(large)
    found = measure(hashed(0), data, options(irrelevant=irrelevant, without_labels=True, proxies=7))
    _, lengths, ranked = directly(data)
    best = [lengths[document] for order in ranked for document in order[:7]]
    last = 100 if irrelevant == "top" else None
    rest = [lengths[document] for order in ranked for document in order[7:last]]
    assert found.effect.value == pytest.approx(cohens_d(np.array(best), np.array(rest)), abs=1e-6)
    assert found.gain is None


def test_the_gain_is_that_of_eval(large, monkeypatch):
    for name in ("one", "other"):
        entry = Entry(name, "", f"tests.probing.test_magnitude:{name}")
        monkeypatch.setitem(encoders.registry._entries, name, entry)
    spec = f"beir:{large}"
    by_sim = {r.similarity: r.metrics["ndcg@10"] for r in evaluate(["one"], [spec], ["cosine", "qnorm"]).results}
    alone = probe_magnitude(["one"], [spec]).results[0]
    assert (alone.gain.baseline, alone.gain.score) == pytest.approx((by_sim["cosine"], by_sim["qnorm"]))
    assert alone.gain.percent == pytest.approx(100 * (by_sim["qnorm"] / by_sim["cosine"] - 1))
    own = {r.encoder: r for r in evaluate(["one", "other"], [spec]).results}
    against = probe_magnitude(["other"], [spec], reference_encoder="one", cv_reference="one").results[0]
    assert (against.gain.over, against.gain.of) == ("one cosine", "other qnorm")
    assert against.gain.baseline == pytest.approx(own["one"].metrics["ndcg@10"])
    assert against.gain.score == pytest.approx(own["other"].metrics["ndcg@10"])
    ratio = own["other"].norms["query_norm_cv"] / own["one"].norms["query_norm_cv"]
    assert (against.cv_ratio.of, against.cv_ratio.over) == ("other qnorm", "one cosine")
    assert against.cv_ratio.value == pytest.approx(ratio)
    assert alone.cv_ratio is None
    apart = probe_magnitude(["other"], [spec], cv_reference="one").results[0]
    assert (apart.gain, apart.cv_ratio) == (probe_magnitude(["other"], [spec]).results[0].gain, against.cv_ratio)
    assert probe_magnitude(["other"], [spec], reference_encoder="one").results[0].cv_ratio is None
    with pytest.raises(UsageError, match="`reference_encoder=` and `without_labels=` exclude each other"):
        probe_magnitude(["other"], [spec], without_labels=True, reference_encoder="one")


def one(device: str | None = None) -> GivenEncoder:
    return hashed(1)


def other(device: str | None = None) -> GivenEncoder:
    encoder = hashed(2)
    return GivenEncoder(encoder.vectors, "given", "qnorm")


def folders(tmp_path: Path, count: int) -> list[str]:
    made = []
    for number in range(count):
        documents = {f"d{i}": f"document {number} {i}" for i in range(30)}
        queries = {f"q{i}": f"query {number} {i}" for i in range(10)}
        qrels = {f"q{i}": {f"d{i}": 1} for i in range(10)}
        made.append(f"beir:{write_folder(tmp_path / f'set{number}', documents, queries, qrels)}")
    return made


def test_three_data_sets_are_correlated_and_fewer_are_not(tmp_path, monkeypatch):
    monkeypatch.setitem(encoders.registry._entries, "one", Entry("one", "", "tests.probing.test_magnitude:one"))
    specs = folders(tmp_path, 4)
    found = probe_magnitude(["one"], specs)
    points = [(r.effect.value, r.gain.percent) for r in found.results if r.gain.percent is not None]
    assert len(points) >= 3
    (line,) = found.correlations
    assert line.datasets == len(points)
    assert line.r == pytest.approx(pearsonr(*zip(*points, strict=True)).statistic)
    few = probe_magnitude(["one"], specs[:2])
    assert few.correlations == []
    same = probe_magnitude(["one"], [specs[0]] * 3)
    assert same.correlations == []


LINE = {f"t{i}": [1.0 + i, 0.0] for i in range(6)}


@pytest.mark.parametrize(
    ("documents", "qrels", "value", "has_interval"),
    [
        (4, {"q": {"t1": 1}}, 0.0, False),  # one query: nothing to draw anew
        (2, {"q": {"t1": 1}}, None, False),  # one relevant, one irrelevant: no deviation
        (4, {"q": {"t1": 1}, "r": {"t2": 1}}, -1 / 3, True),
    ],
)
def test_of_too_few_there_is_no_d_and_no_interval(tmp_path, monkeypatch, documents, qrels, value, has_interval):
    vectors = {**LINE, "q": [1.0, 0.0], "r": [0.0, 1.0]}
    texts = {f"t{i}": f"t{i}" for i in range(documents)}
    folder = write_folder(tmp_path / "few", texts, {query: query for query in qrels}, qrels)
    monkeypatch.setattr(encoders.registry, "create", lambda spec, device=None: GivenEncoder(vectors))
    probe = probe_magnitude(["static:2", "static:2"], [f"beir:{folder}"], cv_reference="static:2")
    shown = json.loads(json.dumps(probe.to_json(), allow_nan=False))["results"][0]
    assert probe.rows()["magnitude"][0]["d"] == shown["effect"]["value"]
    assert (shown["effect"]["low"] is not None) == has_interval
    assert (shown["effect"]["value"] is None) == (value is None)
    assert (shown["effect"]["size"] == "undefined") == (value is None)
    assert shown["cv_ratio"]["value"] is None  # all queries are of one length
    effect = probe.results[0].effect
    assert effect.is_clear is False
    assert value is None or not has_interval or effect.low <= effect.value <= effect.high
    one = MagnitudeProbe(probe.results[:1], [], []).conclusion
    assert ("too few queries and documents to tell" in one) == (not has_interval)
    assert "nan" not in one + probe.conclusion + repr(shown)


def test_bad_input_is_one_clear_line(small, tmp_path):
    every = {"q": dict.fromkeys(DOCUMENTS, 1), "r": dict.fromkeys(DOCUMENTS, 1)}
    all_relevant = write_folder(tmp_path / "relevant", DOCUMENTS, {"q": "q", "r": "r"}, every)
    encoder = GivenEncoder(VECTORS)
    with pytest.raises(DataError, match="no irrelevant documents: it takes judged ones"):
        measure(encoder, task(all_relevant), options())
    nothing = write_folder(tmp_path / "nothing", DOCUMENTS, {"q": "q"}, {"q": {"a": 0}})
    with pytest.raises(DataError, match="no relevant documents: it takes judged ones"):
        measure(encoder, task(nothing), options())
    unit = {text: [math.cos(i), math.sin(i)] for i, text in enumerate(VECTORS)}
    with pytest.raises(DataError, match="given: all documents' embeddings have the norm 1: there is nothing to probe"):
        measure(GivenEncoder(unit), task(small), options())
    with pytest.raises(UsageError, match="`irrelevant=` some is none of top, all"):
        options(irrelevant="some")
    with pytest.raises(UsageError, match=r"`proxies=` 100 is out of range \(1 to 99\)"):
        options(without_labels=True, proxies=100)
    with pytest.raises(UsageError, match=r"(?s)unknown encoder 'statik.*\n.*unknown encoder 'minilm2'"):
        probe_magnitude(["statik:4"], [f"beir:{small}"], cv_reference="minilm2:x")


# --- conclusions


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (9.0, "larger norms (large effect), which qnorm or dot can use; qnorm: +"),
        (0.1, "smaller norms (large effect), so norms mislead a ranking; qnorm: -"),
        (1.0, "document norms carry little about relevance (d = "),
    ],
)
def test_the_conclusion_says_what_to_do(large, monkeypatch, factor, told):
    data = task(large)
    vectors = {text: np.array(hashed(3).vectors[text]) for text in (*data.data.queries, *data.data.documents)}
    relevant = [f"document {i + offset}" for i in range(12) for offset in (0, 40)]
    lengths = {text: float(np.linalg.norm(vectors[text])) for text in data.data.documents}
    usual = np.mean([length for text, length in lengths.items() if text not in relevant])
    scale = factor * usual / np.mean([lengths[text] for text in relevant])  # at 1 as long as the others on average
    for i, query in enumerate(data.data.queries):
        for text in (f"document {i}", f"document {i + 40}"):  # half towards its query
            turned = vectors[text] + vectors[query]
            vectors[text] = scale * lengths[text] * turned / np.linalg.norm(turned)
    monkeypatch.setattr(encoders.registry, "create", lambda spec, device=None: GivenEncoder(vectors))
    probe = probe_magnitude(["static:8"], [f"beir:{large}"])
    assert told in probe.conclusion
    assert f"{probe.results[0].gain.percent:+.1f}% ndcg@10 against cosine." in probe.conclusion
    assert json.loads(json.dumps(probe.to_json(), allow_nan=False))["conclusion"] == probe.conclusion


# --- through training


@pytest.fixture(scope="module")
def run(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    texts = sentences(64)
    write_jsonl(
        folder / "pairs.jsonl", [{"anchor": a, "positive": b} for a, b in zip(texts[:32], texts[32:], strict=True)]
    )
    finetune(
        FinetuneConfig(
            str(tiny_bert), [str(folder / "pairs.jsonl")], str(folder / "run"), sim="learn", steps=6, batch_size=8,
            lr=1e-3, sim_lr=0.1, precision="fp32", device="cpu", log_every=2, save_every=2, keep_checkpoints=9,
        )
    )  # fmt: skip
    return folder / "run"


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    texts = sentences(64)
    documents = {f"d{i}": text for i, text in enumerate(texts[32:])}
    queries = {f"q{i}": text for i, text in enumerate(texts[:32])}
    return write_folder(tmp_path / "benchmark", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(32)})


@pytest.mark.parametrize(("shift", "is_clear"), [(0.0, False), (0.12, True)])
def test_the_change_of_d_is_judged_on_the_same_queries(shift, is_clear):
    """Queries differ much more from each other than each does from itself at another step."""
    random = np.random.default_rng(0)
    of_query = random.normal(0, 1, 60)
    lengths = [(10 + q + random.normal(0, 1, 4), 10 + random.normal(0, 1, 4)) for q in of_query]
    again = [(a + shift + random.normal(0, 0.05, 4), b + random.normal(0, 0.05, 4)) for a, b in lengths]
    size = Lengths(1, 1.0, 0.0)
    stages = []
    for step, groups in enumerate([lengths, again]):
        effect = bootstrapped_d(*(Moments.of(side, 10.0) for side in zip(*groups, strict=True)))
        stages.append(LengthFinding("run", "task", step, size, None, size, size, effect, None))
    first, last = (stage.effect for stage in stages)
    assert first.high > last.low  # each by itself says nothing
    (change,) = MagnitudeProbe(stages, [], []).changes
    assert change.difference == pytest.approx(last.value - first.value)
    assert change.is_clear == is_clear
    assert ("a clear change" in MagnitudeProbe(stages, [], []).conclusion) == is_clear
    assert MagnitudeProbe([], [], []).changes == []


def test_every_stage_of_a_run_is_probed(run, tiny_bert, benchmark):
    settings = {"precision": "fp32", "device": "cpu"}
    found = probe_training(str(run), [f"beir:{benchmark}"], **settings)
    assert [result.step for result in found.results] == [0, 2, 4, 6]
    assert [Path(result.encoder).name for result in found.results] == ["bert", "checkpoint-2", "checkpoint-4", "run"]
    last = probe_magnitude([str(run)], [f"beir:{benchmark}"], **settings).results[0]
    assert found.results[-1].effect == last.effect
    first = probe_magnitude([str(tiny_bert)], [f"beir:{benchmark}"], **settings)
    assert found.results[0].effect == first.results[0].effect
    assert found.results[0].effect != last.effect
    assert [row["step"] for row in found.gamma] == [2, 4, 6]
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert found.gamma[-1]["gamma_document"] == logged[-1]["gamma_document"]
    assert "from step 0 to 6, d on beir:" in found.conclusion
    assert f"γd at {logged[-1]['gamma_document']:.4f}" in found.conclusion
