"""InfoNCE against the library's loss and against sums worked out here; cached against uncached."""

import copy
from functools import partial

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    DistillKLDivLoss,
    GISTEmbedLoss,
    MarginMSELoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.util import cos_sim, dot_score, pairwise_cos_sim, pairwise_dot_score

import retrokit
from retrokit.data.pairs import Source
from retrokit.data.training_rows import Pair, ScoredPair, pair_codes
from retrokit.encoders import engine
from retrokit.training import loss as module
from retrokit.training.batches import Collator, TrainingSet
from retrokit.training.loss import Guide, InfoNCE, KnownPairs, ScoredMSE, Taught
from retrokit.training.model import build
from tests.codes import codes
from tests.models import make_bert, sentences

EPS = torch.finfo(torch.float32).eps  # a unit in the last place of 1


def near(value: float):
    """``value`` up to float32's rounding of scores that are multiplied by 20, however a processor adds them up."""
    return pytest.approx(value, rel=32 * EPS, abs=32 * EPS * 20)


def assert_near(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """The same gradients up to rounding, which is that of the largest sums in them."""
    assert found.keys() == expected.keys()
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1024 * EPS, atol=64 * EPS * largest, msg=name)


SIMILARITIES = [
    *("cosine", "dot", "qnorm", "dnorm", "learn", "l2", "l1"),
    *("sfs:4", "sfs:4,base=dot", "sfs:4,base=l2", "sfs:4,base=l1", "sfs:4,dims=8"),
]


def source(records, known=None) -> Source:
    known = known or {}
    for record in records:
        if isinstance(record, Pair):
            known.setdefault(record.anchor, set()).add(record.positive)
    return Source("test", "test", records, 1.0, None, None, "sha256:0", codes(known), {})


def make(folder, spec, records, **options):
    encoder = retrokit.encoder(str(folder))
    model, similarity = build(encoder, spec, options.pop("prefixes", ()), dropout=0.0)
    data = TrainingSet([source(records)])
    collator = Collator(model.preprocess, data.sources, encoder.prompts, None)
    collator.guide = options.get("guide")
    batch = collator([data[i] for i in range(len(data))])
    kind = options.pop("kind", InfoNCE)
    if issubclass(kind, InfoNCE):
        options |= {"positives": data.positives}
    prefixes = list(model)[-1].prefixes
    widths = [similarity.prepare(torch.ones(1, size), "query").shape[-1] for size in prefixes] if prefixes else None
    loss = kind(model, similarity, widths=widths, **options)
    return loss, batch


def value_and_gradients(loss, batch):
    loss.zero_grad()
    value = loss([dict(batch["query"]), dict(batch["document"])], batch.get("label"))
    value.backward()
    gradients = {n: p.grad.clone() for n, p in loss.model.named_parameters() if p.grad is not None}
    return value.item(), gradients


@torch.no_grad()
def embedded(loss, batch, *roles: str) -> list[torch.Tensor]:
    return [loss.model(dict(batch[role]))["sentence_embedding"] for role in roles or ("query", "document")]


def assert_equals_the_librarys(loss, batch, library, starts, **options) -> None:
    """``library`` makes its loss of a model; ``starts`` are the documents' rows, a column each."""
    ours, our_gradients = value_and_gradients(loss, batch)
    plain = copy.deepcopy(loss.model)
    del plain[len(plain) - 1]
    documents = {key: values for key, values in batch["document"].items() if isinstance(values, torch.Tensor)}
    columns = [{key: values[rows] for key, values in documents.items()} for rows in starts]
    theirs = library(plain, **options)([dict(batch["query"]), *columns], batch.get("label"))
    plain.zero_grad()
    theirs.backward()
    assert ours == near(theirs.item())
    assert_near(our_gradients, {n: p.grad for n, p in plain.named_parameters() if p.grad is not None})


HALVES = slice(0, 8), slice(8, 16)


def triplets(count: int = 8) -> list[Pair]:
    texts = sentences(3 * count)
    return [Pair(texts[i], texts[count + i], (texts[2 * count + i],)) for i in range(count)]


@pytest.mark.parametrize(("spec", "function", "scale"), [("cosine", cos_sim, 20.0), ("dot", dot_score, 0.5)])
def test_equals_the_librarys_loss_and_gradients(tiny_bert, spec, function, scale):
    loss, batch = make(tiny_bert, spec, triplets(), scale=scale)
    options = {"scale": scale, "similarity_fct": function}
    assert_equals_the_librarys(loss, batch, MultipleNegativesRankingLoss, HALVES, **options)


@pytest.mark.parametrize("spec", SIMILARITIES)
@pytest.mark.parametrize("directions", ["query-to-document", "both"])
def test_cached_equals_uncached(tiny_bert, spec, directions):
    whole, batch = make(tiny_bert, spec, triplets(), scale=2.0, directions=directions)
    expected, expected_gradients = value_and_gradients(whole, batch)
    cached, batch = make(tiny_bert, spec, triplets(), scale=2.0, directions=directions, mini_batch=3)
    value, gradients = value_and_gradients(cached, batch)
    assert value == near(expected)
    assert_near(gradients, expected_gradients)


def test_gamma_gets_a_gradient_and_is_the_models():
    similarity = retrokit.similarity("learn")
    q, d = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 2.0]])
    score = similarity.score(q, d).sum()
    score.backward()
    # MAG, Eq. 38: ∂s/∂γ = −ln‖q‖ · s, and dγ/dγ̂ = γ(1 − γ) = 1/4.
    expected = -torch.log(torch.tensor(5.0)) * score.item() / 4
    torch.testing.assert_close(similarity.query_gamma_logit.grad, expected.reshape(1))


def test_the_directions_are_what_they_say(tiny_bert):
    records = triplets()
    values = {}
    for directions in ("query-to-document", "document-to-query", "both"):
        loss, batch = make(tiny_bert, "cosine", records, scale=20.0, directions=directions)
        values[directions], _ = value_and_gradients(loss, batch)
    loss, batch = make(tiny_bert, "cosine", records, scale=20.0)
    q, d = embedded(loss, batch)
    scores = 20 * q @ d.T
    to_query = -torch.log_softmax(scores[:, :8], dim=0).diagonal().mean().item()
    to_document = -torch.log_softmax(scores, dim=1).diagonal().mean().item()
    assert values["document-to-query"] == near(to_query)
    assert values["query-to-document"] == near(to_document)
    assert values["both"] == near((to_query + to_document) / 2)


def test_known_positives_and_copies_are_no_negatives(tiny_bert):
    q1, q2, d1, d2, d3 = sentences(5)
    # d3 is a second positive of q1; d1 stands twice; q1 stands twice.
    records = [Pair(q1, d1), Pair(q2, d2, (d1,)), Pair(q1, d3)]
    loss, batch = make(tiny_bert, "cosine", records, scale=20.0)
    value, _ = value_and_gradients(loss, batch)
    q, d = embedded(loss, batch)
    scores = 20 * q @ d.T  # documents: d1, d2, d3, d1
    keep = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=torch.bool)
    logits = scores.masked_fill(~keep, -torch.inf)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2]))
    assert value == near(expected.item())


@pytest.mark.parametrize("spec", ["cosine", "qnorm", "learn", "sfs:4", "l2"])
def test_matryoshka_is_the_sum_over_prefixes_under_the_same_similarity(tiny_bert, spec):
    records = triplets()
    loss, batch = make(tiny_bert, spec, records, scale=2.0, prefixes=(8,))
    value, _ = value_and_gradients(loss, batch)
    raw, _ = make(tiny_bert, "dot", records, scale=1.0)
    q, d = embedded(raw, batch)
    similarity = retrokit.similarity(spec)
    expected = sum(
        torch.nn.functional.cross_entropy(2 * similarity.score(q[:, :size], d[:, :size]), torch.arange(8)).item()
        for size in (8, 16)
    )
    assert value == near(expected)


@pytest.mark.parametrize("mini_batch", [None, 3])
def test_mse_is_the_mean_squared_distance_to_the_labels(tiny_bert, mini_batch):
    texts = sentences(10)
    records = [ScoredPair(texts[i], texts[5 + i], i / 4) for i in range(5)]
    loss, batch = make(tiny_bert, "qnorm", records, scale=0.3, kind=ScoredMSE, mini_batch=mini_batch)
    value, _ = value_and_gradients(loss, batch)
    raw, _ = make(tiny_bert, "dot", records, scale=1.0, kind=ScoredMSE, mini_batch=None)
    a, b = embedded(raw, batch)
    scores = 0.3 * (a * b).sum(1) / a.norm(dim=1)
    assert value == near(((scores - torch.tensor([r.score for r in records])) ** 2).mean().item())


MIXED = [Pair(text, " ".join(sentences(40, seed=9)[: 1 + 3 * i % 11])) for i, text in enumerate(sentences(12))]


def embedded_shapes(loss):
    """The shapes of input that the model is given, filled in while it is used."""
    shapes = []
    loss.model[0].register_forward_pre_hook(lambda module, given: shapes.append(tuple(given[0]["input_ids"].shape)))
    return shapes


@pytest.mark.parametrize("spec", ["cosine", "learn", "sfs:4"])
def test_parts_of_a_batch_are_the_batch(tiny_bert, monkeypatch, spec):
    whole, batch = make(tiny_bert, spec, MIXED)
    shapes = embedded_shapes(whole)
    expected = value_and_gradients(whole, batch)
    assert [count for count, _ in shapes] == [12, 12]
    monkeypatch.setattr(engine, "CPU_TOKENS", 100)
    parts, _ = make(tiny_bert, spec, MIXED)
    shapes = embedded_shapes(parts)
    value, gradients = value_and_gradients(parts, batch)
    assert len(shapes) > 4
    assert all(count * width <= 100 for count, width in shapes)
    assert value == near(expected[0])
    assert_near(gradients, expected[1])


@pytest.mark.parametrize("mini_batch", [None, 3])
def test_little_is_padding(tiny_bert, monkeypatch, mini_batch):
    monkeypatch.setattr(engine, "CPU_TOKENS", 100)
    loss, batch = make(tiny_bert, "cosine", MIXED, mini_batch=mini_batch)
    shapes = embedded_shapes(loss)
    value_and_gradients(loss, batch)
    masks = [batch[role]["attention_mask"] for role in ("query", "document")]
    passes = 1 if mini_batch is None else 2
    tokens = passes * sum(int(mask.sum()) for mask in masks)
    given = sum(count * width for count, width in shapes)
    unsorted = passes * sum(part.sum(1).max().item() * len(part) for mask in masks for part in mask.split(3))
    assert tokens <= given < 0.9 * unsorted
    widths = [width for _, width in shapes]
    assert widths[0] == masks[0].sum(1).max()  # the longest first: what does not fit fails at once


def taught(counts: list[int]) -> list[Pair]:
    """Pairs of so many negatives, with a teacher's scores."""
    texts, made, numbers = sentences(2 * len(counts) + sum(counts)), [], torch.Generator().manual_seed(0)
    for place, count in enumerate(counts):
        start = 2 * len(counts) + sum(counts[:place])
        scores = torch.randn(count + 1, generator=numbers).tolist()
        made.append(Pair(texts[place], texts[len(counts) + place], tuple(texts[start : start + count]), tuple(scores)))
    return made


@pytest.mark.parametrize(("spec", "function"), [("cosine", pairwise_cos_sim), ("dot", pairwise_dot_score)])
@pytest.mark.parametrize("term", ["kl", "margin-mse"])
def test_a_teachers_loss_equals_the_librarys(tiny_bert, spec, function, term):
    loss, batch = make(tiny_bert, spec, taught([2] * 6), scale=1.0, kind=Taught, weights={term: 1.0}, temperature=0.7)
    starts = slice(0, 6), slice(6, 18, 2), slice(7, 18, 2)
    library = partial(DistillKLDivLoss, teacher_temperature=0.7) if term == "kl" else MarginMSELoss
    assert_equals_the_librarys(loss, batch, library, starts, similarity_fct=function)


@pytest.mark.parametrize("spec", SIMILARITIES)
def test_a_teachers_loss_cached_and_by_rows_of_any_length(tiny_bert, spec):
    records, weights = taught([2, 0, 3, 1, 2]), {"infonce": 1.0, "kl": 0.5, "margin-mse": 2.0}
    options = {"scale": 0.5, "kind": Taught, "weights": weights}
    loss, batch = make(tiny_bert, spec, records, **options)
    value, gradients = value_and_gradients(loss, batch)
    cached, again = make(tiny_bert, spec, records, **options, mini_batch=3)
    cached_value, cached_gradients = value_and_gradients(cached, again)
    assert cached_value == near(value)
    assert_near(cached_gradients, gradients)
    plain, batch = make(tiny_bert, spec, records, scale=0.5)
    expected, _ = value_and_gradients(plain, batch)
    similarity = plain.model[-1].similarity
    with torch.no_grad():
        for place, record in enumerate(records):
            places = [place, *range(5 + sum([2, 0, 3, 1, 2][:place]), 5 + sum([2, 0, 3, 1, 2][: place + 1]))]
            q = plain.model(dict(batch["query"]))["sentence_embedding"][place : place + 1]
            d = plain.model(dict(batch["document"]))["sentence_embedding"][places]
            student, teacher = 0.5 * similarity.kernel(q, d)[0], torch.tensor(record.scores)
            divergence = (teacher.softmax(0) * (teacher.log_softmax(0) - student.log_softmax(0))).sum()
            margins = (student[0] - student[1:]) - (teacher[0] - teacher[1:])
            expected += (0.5 * divergence + 2 * margins.square().sum() / max(1, len(margins))).item() / 5
    assert value == near(expected)


@pytest.fixture(scope="module")
def another_bert(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp("guide"), dimension=8)


@pytest.mark.usefixtures("in_fp32")
@pytest.mark.parametrize(("margin", "type"), [(0.0, "absolute"), (0.002, "absolute"), (0.001, "relative")])
@pytest.mark.parametrize("mini_batch", [None, 3])
def test_a_guide_masks_what_the_librarys_does(tiny_bert, another_bert, margin, type, mini_batch):
    guide = Guide(str(another_bert), margin, type)
    loss, batch = make(tiny_bert, "cosine", triplets(), scale=20.0, guide=guide, mini_batch=mini_batch)
    value_and_gradients(loss, batch)
    assert 0 < guide.share() < 1
    assert guide.share() is None
    alone = {"contrast_anchors": False, "contrast_positives": False, "margin_strategy": type, "margin": margin}
    library = partial(GISTEmbedLoss, guide=SentenceTransformer(str(another_bert)), temperature=0.05)
    assert_equals_the_librarys(loss, batch, library, HALVES, **alone)


@pytest.mark.parametrize("scale", [0.1, 20.0])
def test_what_pads_fewer_negatives_of_another_process_is_no_candidate(tiny_bert, monkeypatch, scale):
    loss, batch = make(tiny_bert, "cosine", triplets(), scale=scale)
    expected, _ = value_and_gradients(loss, batch)
    gathered = module._gathered_documents

    def padded(documents, ids, count):
        documents, ids, own = gathered(documents, ids, count)
        return torch.cat([documents, torch.zeros_like(documents[:3])]), torch.cat([ids, torch.full((3,), -1)]), own

    monkeypatch.setattr(module, "_gathered_documents", padded)
    assert value_and_gradients(loss, batch)[0] == near(expected)


def test_a_relative_margin_of_a_score_below_zero():
    """A tenth of −1 is 0.1: what is above −1.1 is masked, what is at it is not."""
    guide = Guide("static:4", 0.1, "relative")
    scores = torch.tensor([[-1.0, -1.05, -1.2, -1.0 - 0.1], [0.9, 1.0, 0.95, 0.5]])
    found = guide.nearer(scores, torch.tensor([0, 1]), torch.zeros(2, 4, dtype=torch.bool))
    assert found[:, :3].tolist() == [[True, True, False], [False, True, True]]
    assert guide.share() == pytest.approx(2 / 6)


@pytest.mark.parametrize("spec", ["qnorm", "l2", "sfs:4"])
def test_a_guide_masks_in_both_directions(tiny_bert, another_bert, spec):
    options = {"scale": 2.0, "guide": Guide(str(another_bert), 0.001, "absolute"), "directions": "both"}
    loss, batch = make(tiny_bert, spec, triplets(), **options)
    value, _ = value_and_gradients(loss, batch)
    with torch.no_grad():
        q, d = (loss.model(dict(batch[role]))["sentence_embedding"] for role in ("query", "document"))
        scores = 2 * loss.model[-1].similarity.kernel(q, d)
        guided = batch["query"]["guide"] @ batch["document"]["guide"].T
        own = torch.arange(8)
        means = []
        for given, theirs in ((scores, guided), (scores[:, :8].T, guided[:, :8].T)):
            masked = theirs > theirs.diagonal()[:, None] - 0.001
            masked[own, own] = False
            means.append(-given.masked_fill(masked, -torch.inf).log_softmax(1).diagonal().mean().item())
    assert value == near(sum(means) / 2)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 4000])
@pytest.mark.parametrize("highest", [3, 2**40, 2**63 - 1], ids=["alike", "close", "random"])
def test_known_pairs_are_those_with_a_positives_code(count, highest):
    """Also where codes share their first bits, or end the list: those of real texts are random, a test's are not."""
    generator = torch.Generator().manual_seed(count)
    anchors, documents = torch.randint(highest, (2, count), generator=generator)
    other_anchors, other_documents = torch.randint(highest, (2, 40), generator=generator)
    positives = pair_codes(anchors, documents).unique()
    queries = torch.cat([anchors[:50], other_anchors, torch.tensor([0, 2**63 - 1])])
    candidates = torch.cat([documents[:60], other_documents, torch.tensor([0, -1])])
    expected = torch.isin(pair_codes(queries[:, None], candidates[None]), positives) & (candidates >= 0)
    assert torch.equal(KnownPairs(positives)(queries, candidates), expected)
    assert expected[: min(count, 50), : min(count, 60)].diagonal().all()
