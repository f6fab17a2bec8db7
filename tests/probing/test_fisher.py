"""Fisher information and κ: against autograd and direct computations, and what must hold for all embeddings."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.core.notices import listening
from retrokit.data.jsonl import write_jsonl
from retrokit.probing import fisher
from retrokit.probing.fisher import (
    FAMILY,
    Fisher,
    Information,
    Prediction,
    condition_number,
    gradients,
    measure,
    partial_derivatives,
    predict,
    probe_fisher,
)
from retrokit.training import finetune as training
from retrokit.training.config import FinetuneConfig
from tests.evaluation.fakes import GivenEncoder, Notices, hashed, write_folder
from tests.models import sentences


def embeddings(seed: int, pairs: int = 40, dimension: int = 6, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(pairs, dimension))
    return scale * (common + rng.normal(size=common.shape)), common + rng.normal(size=common.shape)


@pytest.mark.parametrize("spec", [*FAMILY, "learn:query=0.2,document=0.9"])
def test_closed_forms_equal_autograd_in_lengths_and_angle(spec):
    similarity = retrokit.similarity(spec).double()
    q, d = (torch.from_numpy(side) for side in embeddings(1))
    along = torch.nn.functional.normalize(q, dim=1)
    across = torch.nn.functional.normalize(d - (d * along).sum(1, keepdim=True) * along, dim=1)
    angle = torch.atan2((d * across).sum(1), (d * along).sum(1)).requires_grad_()
    query, document = (side.norm(dim=1).requires_grad_() for side in (q, d))
    turned = torch.cos(angle)[:, None] * along + torch.sin(angle)[:, None] * across
    scores = similarity.score_pairs(query[:, None] * along, document[:, None] * turned)
    expected = torch.autograd.grad(scores.sum(), (document, query, angle))
    found = partial_derivatives(similarity.gammas, q.numpy(), d.numpy())
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("spec", [*FAMILY, "learn:query=0.2,document=0.9"])
def test_gradients_equal_autograd(spec):
    similarity = retrokit.similarity(spec).double()
    q, d = (torch.from_numpy(side).requires_grad_() for side in embeddings(2))
    expected = torch.autograd.grad(similarity.score_pairs(q, d).sum(), (q, d))
    found = gradients(similarity.gammas, q.detach().numpy(), d.detach().numpy())
    np.testing.assert_allclose(found, torch.cat(expected, dim=1).numpy(), atol=1e-6, rtol=1e-6)


def test_what_is_normalised_has_exactly_no_information():
    encoder = hashed(0)
    texts = sentences(40)
    found = measure(encoder, list(zip(texts[:20], texts[20:], strict=True)), "texts")
    by_name = {one.similarity: one for one in found.information}
    assert (by_name["cosine"].document, by_name["cosine"].query) == (0.0, 0.0)
    assert by_name["qnorm"].query == 0.0 < by_name["qnorm"].document
    assert by_name["dnorm"].document == 0.0 < by_name["dnorm"].query
    assert all(by_name[name].angle > 0 for name in FAMILY)
    assert by_name["cosine"].log10["document"] is None


def test_information_is_the_mean_square():
    # lengths 5 and 2 with cos θ = 0.8, and lengths 1 and 3 with cos θ = 0
    encoder = GivenEncoder({"a": [3, 4], "b": [0, 2], "c": [1, 0], "d": [0, 3]})
    pairs = [("a", "b"), ("c", "d")] * 5
    by_name = {one.similarity: one for one in measure(encoder, pairs, "given").information}
    assert by_name["dot"].document == pytest.approx((4**2 + 0) / 2)
    assert by_name["dot"].query == pytest.approx((1.6**2 + 0) / 2)
    assert by_name["dot"].angle == pytest.approx((6**2 + 3**2) / 2)
    assert by_name["cosine"].angle == pytest.approx((0.6**2 + 1) / 2)


def test_a_run_is_probed_with_the_gammas_that_it_learned():
    encoder = GivenEncoder({"a": [3, 4], "b": [0, 2]}, similarity="learn:query=0.1,document=0.9")
    pairs = [("a", "b")] * 10
    before = measure(encoder, pairs, "given").information[-1]
    encoder.similarity.spec = "learn"
    after = measure(encoder, pairs, "given").information[-1]
    assert before.document == pytest.approx((0.5 * 5**0.5 * 2**-0.5 * 0.8) ** 2)
    assert after.document == pytest.approx((0.1 * 5**0.9 * 2**-0.9 * 0.8) ** 2)


@pytest.mark.parametrize("pairs", [60, 7])
def test_kappa_is_the_ratio_of_the_second_moments_eigenvalues(pairs):
    rows = np.random.default_rng(0).normal(size=(pairs, 12)) * np.linspace(1, 3, 12)
    values = np.linalg.eigvalsh(rows.T @ rows / pairs)
    kept = values[values > 1e-10 * values[-1]]
    kappa, count = condition_number(rows)
    assert count == len(kept) == min(pairs, 12)
    assert kappa == pytest.approx(kept[-1] / kept[0])


def test_the_interval_is_that_of_pairs_drawn_anew():
    q, d = embeddings(6)
    found = predict(q, d, seed=5)
    rng, differences = np.random.default_rng(5), []
    for _ in range(fisher.DRAWS):
        rows = rng.integers(0, 40, 40)
        both = [gradients(retrokit.similarity(name).gammas, q[rows], d[rows]) for name in ("qnorm", "dnorm")]
        values = [np.linalg.eigvalsh(side.T @ side) for side in both]
        differences.append(np.subtract(*(np.log10(own[-1] / own[own > 1e-10 * own[-1]][0]) for own in values)))
    margin = 1.96 * np.std(differences, ddof=1)
    assert (found.low, found.high) == pytest.approx((found.difference - margin, found.difference + margin))


def test_the_smaller_kappa_is_chosen_where_it_is_clear():
    q, d = embeddings(4, pairs=300)
    narrow = q * np.linspace(1, 0.1, 6)  # some directions of one side hardly vary
    for sides, expected in (((narrow, d), "dnorm"), ((d, narrow), "qnorm")):
        found = predict(*sides)
        assert found.low > 0 or found.high < 0
        assert found.choice == found.lower == expected
        assert found.difference == pytest.approx(found.log_kappa["qnorm"] - found.log_kappa["dnorm"])
        assert found.low < found.difference < found.high


@pytest.mark.parametrize(("pairs", "is_too_few"), [(344, True), (1536, False)])
def test_a_prediction_reports_its_interval_and_too_few_pairs(pairs, is_too_few):
    prediction = Prediction({"qnorm": 3.2, "dnorm": 2.9}, {"qnorm": 9, "dnorm": 9}, 0.3, 0.1, 0.5, "dnorm", "dnorm")
    verdict = Fisher("e", "pairs", pairs, 768, [], prediction).verdict
    assert "dnorm is predicted to train better than qnorm; the difference is +0.30 (95%: +0.10 to +0.50)" in verdict
    assert ("fewer pairs than dimensions" in verdict) == is_too_few


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    texts = sentences(40)
    documents = {f"d{i}": text for i, text in enumerate(texts[:20])}
    queries = {f"q{i}": text for i, text in enumerate(texts[20:])}
    return write_folder(tmp_path / "small", documents, queries, {f"q{i}": {f"d{i}": 1, "d0": 0} for i in range(1, 20)})


def test_pairs_come_from_judgements_and_training_data(tiny_bert, benchmark, tmp_path):
    texts = sentences(30, seed=5)
    write_jsonl(tmp_path / "pairs.jsonl", [{"anchor": a, "positive": b} for a, b in zip(texts, texts, strict=True)])
    notices = Notices()
    with listening(notices):
        found = probe_fisher([str(tiny_bert)], [f"beir:{benchmark}"], [str(tmp_path / "pairs.jsonl")], device="cpu")
    assert found.results[0].pairs == 19 + 30
    assert found.results[0].dimension == 16
    assert any("49 pairs, not 1,000: all are used" in message for message in notices.messages)
    same = probe_fisher([str(tiny_bert)], [f"beir:{benchmark}"], pairs=12, device="cpu", seed=3)
    assert same.results[0].pairs == 12
    again = probe_fisher([str(tiny_bert)], [f"beir:{benchmark}"], pairs=12, device="cpu", seed=3)
    assert same.to_json() == again.to_json()
    assert "tiny" not in json.dumps(found.to_json(), allow_nan=False)


# --- finetune --sim auto


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    texts = sentences(64)
    write_jsonl(
        tmp_path / "train.jsonl", [{"anchor": a, "positive": b} for a, b in zip(texts[:32], texts[32:], strict=True)]
    )
    return tmp_path / "train.jsonl"


def configure(encoder: Path, data: Path, output: Path, **options) -> FinetuneConfig:
    defaults = {"sim": "auto", "steps": 6, "batch_size": 8, "precision": "fp32", "lr": 1e-3, "device": "cpu"}
    return FinetuneConfig(str(encoder), [str(data)], str(output), **(defaults | options))


def test_auto_trains_with_what_the_probe_says(tiny_bert, pairs, tmp_path):
    notices = Notices()
    with listening(notices):
        training.finetune(configure(tiny_bert, pairs, tmp_path / "run"))
    told = next(message for message in notices.messages if message.startswith("`sim=` auto: "))
    chosen = told.removeprefix("`sim=` auto: ").partition(".")[0]
    probed = probe_fisher([str(tiny_bert)], (), [str(pairs)], device="cpu").results[0].prediction
    assert chosen == probed.choice
    assert "log₁₀ κ(qnorm) = " in told
    assert "32 pairs" in told
    described = json.loads((tmp_path / "run" / "retrokit.json").read_text())
    assert described["similarity"] == described["identity"]["sim"] == described["configuration"]["sim"] == chosen
    assert described["similarity_chosen_by"]["choice"] == chosen
    assert described["similarity_chosen_by"]["log_kappa"]["qnorm"] == pytest.approx(probed.log_kappa["qnorm"], rel=1e-3)
    assert retrokit.load(str(tmp_path / "run")).similarity.spec == chosen


def test_auto_is_refused_where_there_are_no_roles(tiny_bert, pairs, tmp_path):
    with pytest.raises(UsageError, match="`sim=` auto is for `loss=` infonce, not for scored pairs"):
        configure(tiny_bert, pairs, tmp_path / "run", loss="mse")


def test_log10_of_zero_is_none():
    logs = Information("dot", 0.0, 1e-3, 1e-300).log10
    assert logs == {"document": None, "query": pytest.approx(-3), "angle": pytest.approx(-300)}
