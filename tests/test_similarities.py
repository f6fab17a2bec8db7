"""Every row of the table of similarities against a float64 NumPy formula written here, and what follows from
``score = kernel(prepare, prepare)``: one inner-product search, ranking equivalences, stock export."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SimilarityFunction
from torch import nn

import retrokit
from retrokit.core.errors import UsageError
from retrokit.similarities import distance, registry
from tests.close import assert_rounded

D = 12


def power_formula(query_gamma: float, document_gamma: float):
    """‖q‖^(1−γq) ‖d‖^(1−γd) cos θ."""

    def formula(q: np.ndarray, d: np.ndarray) -> float:
        lengths = np.sqrt((q**2).sum()), np.sqrt((d**2).sum())
        angle = (q * d).sum() / (lengths[0] * lengths[1])
        return lengths[0] ** (1 - query_gamma) * lengths[1] ** (1 - document_gamma) * angle

    return formula


def distance_formula(p: int):
    def formula(q: np.ndarray, d: np.ndarray) -> float:
        return -((np.abs(q - d) ** p).sum() ** (1 / p))

    return formula


def fragment_formula(size: int, base, dims: int | None = None):
    """The mean of ``base`` over consecutive slices of the first ``dims`` dimensions."""

    def formula(q: np.ndarray, d: np.ndarray) -> float:
        starts = range(0, dims or len(q), size)
        return sum(base(q[i : i + size], d[i : i + size]) for i in starts) / len(starts)

    return formula


COSINE, DOT, L2, L1 = power_formula(1, 1), power_formula(0, 0), distance_formula(2), distance_formula(1)
FORMULAS = {
    "cosine": COSINE,
    "dot": DOT,
    "qnorm": power_formula(1, 0),
    "dnorm": power_formula(0, 1),
    "learn": power_formula(0.5, 0.5),
    "learn:document=0.9,query=0.2": power_formula(0.2, 0.9),
    "l2": L2,
    "l1": L1,
    "sfs:4": fragment_formula(4, COSINE),
    "sfs:1": fragment_formula(1, COSINE),
    "sfs:12": COSINE,
    "sfs:4,dims=8": fragment_formula(4, COSINE, 8),
    "sfs:4,base=dot": fragment_formula(4, DOT),
    "sfs:3,base=dot,dims=6": fragment_formula(3, DOT, 6),
    "sfs:4,base=l2": fragment_formula(4, L2),
    "sfs:4,base=l2,dims=8": fragment_formula(4, L2, 8),
    "sfs:4,base=l1": fragment_formula(4, L1),
    "sfs:3,base=l1,dims=6": fragment_formula(3, L1, 6),
}
SPECS = list(FORMULAS)
WITHOUT_TIES = [spec for spec in SPECS if spec != "sfs:1"]  # sfs:1 is a mean of signs: many ties


def vectors(count: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random vectors of clearly different lengths."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(count, D, generator=generator, dtype=torch.float64)
    return (made * torch.linspace(0.3, 3.0, count, dtype=torch.float64)[:, None]).to(dtype)


def expected(spec: str, queries: torch.Tensor, documents: torch.Tensor) -> np.ndarray:
    q, d = queries.double().numpy(), documents.double().numpy()
    return np.array([[FORMULAS[spec](row, column) for column in d] for row in q]).reshape(len(q), len(d))


def ranking(scores: torch.Tensor) -> list[list[int]]:
    return scores.argsort(dim=1, descending=True).tolist()


@pytest.fixture(params=SPECS)
def spec(request):
    return request.param


def test_all_dimensions_may_be_named():
    queries, documents = vectors(3, 1), vectors(4, 2)
    for base in ("cosine", "dot", "l2", "l1"):
        named = retrokit.similarity(f"sfs:4,base={base},dims={D}").score(queries, documents)
        assert torch.equal(named, retrokit.similarity(f"sfs:4,base={base}").score(queries, documents))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("sfs:4,base=dot", "dot"),
        ("sfs:4,base=dot,dims=8", ""),
        ("sfs:4,base=l1", "l1"),
        ("sfs:4,base=l1,dims=8", ""),
        ("sfs:1,base=l2", "l1"),
        ("sfs:4,base=l2", ""),
        ("sfs:4", ""),
    ],
)
def test_a_multiple_has_the_others_scores_but_for_a_factor(name, other):
    similarity, queries, documents = retrokit.similarity(name), vectors(5, 1), vectors(6, 2)
    assert similarity.multiple_of == other
    if other:
        ratios = similarity.score(queries, documents) / retrokit.similarity(other).score(queries, documents)
        torch.testing.assert_close(ratios, ratios[0, 0].expand(5, 6), rtol=1e-4, atol=0)


def test_every_registered_name_is_tested_here():
    assert {registry.parse(spec).name for spec in SPECS} == set(registry.names())
    bases = registry.entry("sfs").param("base").choices
    assert {registry.options(registry.parse(spec))["base"] for spec in SPECS if spec.startswith("sfs")} == set(bases)


def test_the_api_makes_what_the_spec_names(spec):
    assert retrokit.similarity(spec).spec == spec
    assert retrokit.similarity("sfs:size=16,base=cosine").spec == "sfs:16"


def test_score_is_the_formula(spec):
    queries, documents = vectors(5, 1), vectors(7, 2)
    scores = retrokit.similarity(spec).score(queries, documents)
    assert scores.shape == (5, 7)
    assert_rounded(scores, expected(spec, queries, documents), 16)


def test_score_of_float64_is_the_formula_to_the_last_digits(spec):
    queries, documents = vectors(5, 1, torch.float64), vectors(7, 2, torch.float64)
    scores = retrokit.similarity(spec).double().score(queries, documents)
    assert scores.dtype == torch.float64
    dtype = np.float32 if spec.startswith("learn:") else np.float64  # γ̂ is stored in float32
    assert_rounded(scores, expected(spec, queries, documents), 16, dtype)


def test_handcrafted_values():
    q, d = torch.tensor([[3.0, 4.0, 0.0, 2.0]]), torch.tensor([[4.0, 3.0, 1.0, 0.0]])
    values = {
        "dot": 24.0,
        "l1": -5.0,  # 1 + 1 + 1 + 2
        "l2": -(7**0.5),
        "sfs:2": 0.96 / 2,
        "sfs:2,base=dot": 12.0,
        "sfs:2,base=l2": -(2**0.5 + 5**0.5) / 2,
        "sfs:2,base=l1": -2.5,
        "sfs:2,dims=2": 0.96,
        "cosine": 24 / (29 * 26) ** 0.5,
        "qnorm": 24 / 29**0.5,
        "dnorm": 24 / 26**0.5,
        "learn": 24 / (29 * 26) ** 0.25,
    }
    for name, value in values.items():
        assert retrokit.similarity(name).score(q, d).item() == pytest.approx(value, rel=1e-6), name


def test_score_is_the_kernel_of_prepared_embeddings(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(5, 3), vectors(7, 4)
    prepared = similarity.prepare(queries, "query"), similarity.prepare(documents, "document")
    scores = similarity.score(queries, documents)
    torch.testing.assert_close(similarity.kernel(*prepared), scores, rtol=0, atol=0)
    product = prepared[0] @ prepared[1].T
    if similarity.factorable:
        assert_rounded(product, scores, 16)
    else:
        assert not torch.allclose(product, scores, atol=0.1)


def test_score_pairs_is_the_diagonal(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(6, 5), vectors(6, 6)
    pairs = similarity.score_pairs(queries, documents)
    assert pairs.shape == (6,)
    assert_rounded(pairs, similarity.score(queries, documents).diagonal(), 16)


def test_a_slice_scores_as_in_the_whole(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(6, 7), vectors(9, 8)
    whole = similarity.score(queries, documents)
    assert_rounded(similarity.score(queries[2:4], documents[3:]), whole[2:4, 3:], 16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_inputs_are_scored_in_float32(spec, dtype):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(4, 9).to(dtype), vectors(5, 10).to(dtype)
    scores = similarity.score(queries, documents)
    assert scores.dtype == torch.float32
    assert similarity.prepare(queries, "query").dtype == torch.float32
    assert similarity.score_pairs(queries, documents[:4]).dtype == torch.float32
    torch.testing.assert_close(scores, similarity.score(queries.float(), documents.float()), rtol=0, atol=0)


def test_sides_of_different_types_are_scored_in_the_wider(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(4, 9, torch.float64), vectors(4, 10)
    wide = similarity.score(queries, documents.double())
    assert wide.dtype == torch.float64
    torch.testing.assert_close(similarity.score(queries, documents), wide, rtol=0, atol=0)
    torch.testing.assert_close(similarity.score_pairs(queries, documents), wide.diagonal())
    turned = similarity.score(documents.double(), queries)
    torch.testing.assert_close(similarity.score(documents, queries), turned, rtol=0, atol=0)
    torch.testing.assert_close(similarity.score_pairs(documents, queries), turned.diagonal())


def test_arrays_are_scored_as_tensors(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(4, 9), vectors(4, 10)
    scores, pairs = similarity.score(queries, documents), similarity.score_pairs(queries, documents)
    assert torch.equal(similarity.score(queries.numpy(), documents.numpy()), scores)
    assert torch.equal(similarity.score(queries, documents.numpy()), scores)
    assert torch.equal(similarity.score_pairs(queries.numpy(), documents), pairs)


def test_one_vector_counts_as_one_row(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(3, 11), vectors(4, 12)
    torch.testing.assert_close(similarity.score(queries[1], documents), similarity.score(queries, documents)[1:2])
    torch.testing.assert_close(similarity.score(queries, documents[2]), similarity.score(queries, documents)[:, 2:3])
    assert similarity.score_pairs(queries[1], documents[2]).shape == (1,)
    with pytest.raises(UsageError, match=r"must be \[n, d\] or \[d\], not \[1, 3, 12\]"):
        similarity.score(queries[None], documents)


def test_no_queries_or_no_documents(spec):
    similarity = retrokit.similarity(spec)
    some, none = vectors(3, 13), torch.zeros(0, D)
    assert similarity.score(none, some).shape == (0, 3)
    assert similarity.score(some, none).shape == (3, 0)
    assert similarity.score(none, none).shape == (0, 0)
    assert similarity.score_pairs(none, none).shape == (0,)


def test_zero_vectors_have_finite_scores_and_gradients(spec):
    similarity = retrokit.similarity(spec)
    queries = torch.cat([torch.zeros(1, D), vectors(2, 14)]).requires_grad_()
    documents = torch.cat([torch.zeros(1, D), vectors(2, 15)]).requires_grad_()
    for scores in (similarity.score(queries, documents), similarity.score_pairs(queries, documents)):
        assert scores.isfinite().all()
        if similarity.factorable:
            assert scores.flatten()[0].item() == 0
        inputs = [queries, documents, *similarity.parameters()]
        gradients = torch.autograd.grad(scores.sum(), inputs)
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert gradients[0][1:].abs().sum() > 0
    same = similarity.score(queries.detach(), queries.detach())
    assert same.isfinite().all()


class Scored(nn.Module):
    """Both scores of a similarity as one module, for ``functional_call``."""

    def __init__(self, spec: str) -> None:
        super().__init__()
        self.similarity = retrokit.similarity(spec)

    def forward(self, queries, documents):
        return self.similarity.score(queries, documents), self.similarity.score_pairs(queries, documents)


def test_gradients_are_those_of_finite_differences(spec):
    module = Scored(spec).double()
    names = [name for name, _ in module.named_parameters()]
    parameters = [value.detach().clone().requires_grad_() for _, value in module.named_parameters()]
    assert len(parameters) == (2 if spec.startswith("learn") else 0)

    def scores(queries, documents, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (queries, documents))

    inputs = [vectors(3, seed, torch.float64).requires_grad_() for seed in (16, 17)]
    assert torch.autograd.gradcheck(scores, (*inputs, *parameters), eps=1e-6, atol=1e-6)


def test_learned_gammas_are_parameters_that_are_saved():
    similarity = retrokit.similarity("learn:document=0.9,query=0.2")
    assert similarity.statistics() == pytest.approx({"gamma_query": 0.2, "gamma_document": 0.9})
    other = retrokit.similarity("learn")
    assert other.statistics() == {"gamma_query": 0.5, "gamma_document": 0.5}
    other.load_state_dict(similarity.state_dict())
    queries, documents = vectors(3, 18), vectors(4, 19)
    assert torch.equal(other.score(queries, documents), similarity.score(queries, documents))
    similarity.score(queries, documents).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in similarity.parameters())
    assert retrokit.similarity("cosine").statistics() == {}


def test_different_dimensions_and_counts_are_named(spec):
    similarity = retrokit.similarity(spec)
    for method in (similarity.score, similarity.score_pairs):
        with pytest.raises(UsageError) as caught:
            method(torch.ones(2, 24), torch.ones(2, 36))
        assert str(caught.value) == "query embeddings have 24 dimensions, document embeddings 36"
    with pytest.raises(UsageError, match="as many queries as documents: 3 and 4"):
        similarity.score_pairs(vectors(3, 1), vectors(4, 1))


@pytest.mark.parametrize("base", ["cosine", "dot", "l2", "l1"])
def test_a_size_that_does_not_divide_lists_those_that_do(base):
    divisors = "1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 384"
    similarity = retrokit.similarity(f"sfs:7,base={base}")
    message = f"size 7 does not divide 384; sizes that do: {divisors}"
    with pytest.raises(UsageError) as caught:
        similarity.check_dimension(384)
    assert str(caught.value) == message
    with pytest.raises(UsageError) as caught:
        similarity.score(torch.ones(2, 384), torch.ones(2, 384))
    assert str(caught.value) == message
    similarity.check_dimension(385)
    with pytest.raises(UsageError, match="dims=20 is not a multiple of the fragment size 8"):
        retrokit.similarity(f"sfs:8,base={base},dims=20")
    similarity = retrokit.similarity(f"sfs:7,base={base},dims=14")
    similarity.check_dimension(20)  # what lies behind the first 14 does not count
    with pytest.raises(UsageError, match="dims=14 is more than the embedding's 12 dimensions"):
        similarity.check_dimension(12)


def test_symmetric_says_whether_scores_are(spec):
    if spec == "learn":
        spec = "learn:document=0.9,query=0.2"  # what training makes of it: at the start its two γ are equal
    similarity = retrokit.similarity(spec)
    one, other = vectors(5, 20, torch.float64), vectors(6, 21, torch.float64)
    swapped = similarity.score(other, one).T
    assert torch.allclose(similarity.score(one, other), swapped, rtol=1e-5, atol=1e-6) == similarity.symmetric


def test_uses_magnitude_says_whether_lengths_change_scores(spec):
    similarity = retrokit.similarity(spec)
    queries, documents = vectors(5, 22, torch.float64), vectors(6, 23, torch.float64)
    scores = similarity.score(queries, documents)
    changed = [similarity.score(3 * queries, documents), similarity.score(queries, 0.2 * documents)]
    is_changed = [not torch.allclose(other, scores, rtol=1e-4, atol=1e-5) for other in changed]
    assert any(is_changed) == similarity.uses_magnitude
    if spec == "qnorm":
        assert is_changed == [False, True]
    if spec == "dnorm":
        assert is_changed == [True, False]


NUMBERS = st.floats(-10, -(2**-10), width=32) | st.floats(2**-10, 10, width=32)  # none is 0, and no draw is thrown away
ROWS = st.lists(st.lists(NUMBERS, min_size=D, max_size=D), min_size=1, max_size=3).map(torch.tensor)
SCALES = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("name", [name for name in SPECS if not retrokit.similarity(name).uses_magnitude])
@given(queries=ROWS, documents=ROWS, query_scale=SCALES, document_scale=SCALES)
@settings(max_examples=30, deadline=None)
def test_positive_scaling_leaves_angles_alone(name, queries, documents, query_scale, document_scale):
    similarity = retrokit.similarity(name)
    scores = similarity.score(queries, documents)
    scaled = similarity.score(query_scale * queries, document_scale * documents)
    assert_rounded(scaled, scores, size=1)
    assert scores.abs().max() <= 1 + 1e-5
    torch.testing.assert_close(similarity.score_pairs(queries, queries), torch.ones(len(queries)))
    torch.testing.assert_close(similarity.score_pairs(queries, -queries), -torch.ones(len(queries)))


@given(queries=ROWS, documents=ROWS, scale=SCALES, gammas=st.tuples(*[st.floats(0.05, 0.95)] * 2))
@settings(max_examples=30, deadline=None)
def test_magnitudes_enter_with_the_power_one_minus_gamma(queries, documents, scale, gammas):
    similarity = retrokit.similarity(f"learn:query={gammas[0]},document={gammas[1]}").double()
    queries, documents = queries.double(), documents.double()
    scores = similarity.score(queries, documents)
    by_query, by_document = (scale ** (1 - gamma) for gamma in gammas)
    assert_rounded(similarity.score(scale * queries, documents), by_query * scores, 128)
    assert_rounded(similarity.score(queries, scale * documents), by_document * scores, 128)


@pytest.mark.parametrize("name", [name for name in SPECS if not retrokit.similarity(name).factorable])
@given(queries=ROWS, documents=ROWS, shift=st.floats(-5, 5))
@settings(max_examples=30, deadline=None)
def test_distances_are_metrics(name, queries, documents, shift):
    similarity = retrokit.similarity(name)
    scores = similarity.score(queries, documents)
    assert (scores <= 0).all()
    assert similarity.score_pairs(queries, queries).abs().max() == 0
    torch.testing.assert_close(similarity.score(queries + shift, documents + shift), scores, rtol=1e-4, atol=1e-4)
    through = scores[:, :1] + similarity.score(documents[:1], documents)
    assert (scores >= through - 1e-3).all()


@given(queries=ROWS, documents=ROWS)
@settings(max_examples=30, deadline=None)
def test_fragments_of_the_whole_dimension_are_the_plain_similarity(queries, documents):
    pairs = {"sfs:12": "cosine", "sfs:12,base=dot": "dot", "sfs:12,base=l2": "l2", "sfs:12,base=l1": "l1"}
    terms = {"cosine": 1.0, "dot": float(queries.norm(dim=1).max() * documents.norm(dim=1).max())}  # they may cancel
    for fragments, plain in pairs.items():
        one, other = (retrokit.similarity(name).score(queries, documents) for name in (fragments, plain))
        assert_rounded(one, other, 32, size=terms.get(plain, 0.0))


@pytest.mark.parametrize("name", ["l2", "l1", "sfs:4,base=l2", "sfs:4,base=l1"])
def test_close_vectors_far_from_the_origin_keep_their_distance(name):
    near = 1000 + vectors(3, 24) / 100
    other = 1000 + vectors(4, 25) / 100
    scores = retrokit.similarity(name).score(near, other)
    np.testing.assert_allclose(scores.numpy(), expected(name, near, other), rtol=1e-5)


@pytest.mark.parametrize(("one", "other"), [("qnorm", "dot"), ("dnorm", "cosine")])
def test_normalising_the_query_never_changes_a_ranking(one, other):
    queries, documents = vectors(20, 26, torch.float64), vectors(40, 27, torch.float64)
    rankings = [ranking(retrokit.similarity(name).score(queries, documents)) for name in (one, other)]
    assert rankings[0] == rankings[1]
    assert ranking(retrokit.similarity("dot").score(queries, documents)) != ranking(
        retrokit.similarity("cosine").score(queries, documents)
    )


def test_a_learned_similarity_ranks_by_the_documents_gamma_alone():
    queries, documents = vectors(20, 28, torch.float64), vectors(40, 29, torch.float64)

    def ranked(query, document):
        similarity = retrokit.similarity(f"learn:query={query},document={document}")
        return ranking(similarity.double().score(queries, documents))

    assert ranked(0.1, 0.5) == ranked(0.5, 0.5) == ranked(0.9, 0.5)
    assert ranked(0.5, 0.1) != ranked(0.5, 0.5) != ranked(0.5, 0.9)


def as_exported(similarity, embeddings, role):
    """What a saved model yields."""
    if similarity.export == "normalize":
        return torch.nn.functional.normalize(embeddings, dim=-1)
    return similarity.prepare(embeddings, role).detach() if similarity.export == "prepared" else embeddings


@pytest.mark.parametrize("name", WITHOUT_TIES)
def test_the_librarys_similarity_of_exported_embeddings_ranks_the_same_where_it_says_so(name):
    similarity = retrokit.similarity(name)
    queries, documents = vectors(20, 30, torch.float64), vectors(40, 31, torch.float64)
    exported = as_exported(similarity, queries, "query"), as_exported(similarity, documents, "document")
    library = SimilarityFunction.to_similarity_fn(similarity.library_name)(*exported)
    same = ranking(library) == ranking(similarity.score(queries, documents).detach())
    assert same == similarity.library_exact
    assert similarity.library_exact == (not name.startswith("sfs:4,base=l2"))


@pytest.mark.parametrize("name", WITHOUT_TIES)
def test_stock_export_for_all_but_learn_and_sfs(name):
    kinds = {"cosine": "normalize", "dot": "raw", "qnorm": "raw", "dnorm": "raw", "l2": "raw", "l1": "raw"}
    assert retrokit.similarity(name).export == kinds.get(name, "prepared")


@pytest.mark.parametrize("name", SPECS)
def test_typical_score(name):
    similarity = retrokit.similarity(name)
    queries, documents = vectors(5, 32, torch.float64), vectors(6, 33, torch.float64)
    prepared = [similarity.prepare(queries, "query"), similarity.prepare(documents, "document")]
    typical = similarity.typical_score(*prepared)
    sides = [side.detach().double().numpy() for side in prepared]
    if similarity.factorable:
        # no score is larger than the product of the longest, and parallel vectors of mean length reach it
        value = np.prod([np.sqrt((side**2).sum(1)).mean() for side in sides])
    else:
        value = np.mean([-np.array([FORMULAS[name](row, 0 * row) for row in side]).mean() for side in sides])
    assert typical == pytest.approx(value, rel=1e-6)
    zeros = torch.zeros(2, prepared[0].shape[1])
    assert 0 < similarity.typical_score(zeros, zeros) <= 1e-6


@pytest.mark.parametrize("size", [4, 12])
@pytest.mark.parametrize("apart", [0.0, 1e-6, 1e-3, 1.0])
def test_distances_by_products_are_those_by_differences(size, apart, monkeypatch):
    monkeypatch.setattr(distance, "DOCUMENT_BLOCK", 7)
    generator = torch.Generator().manual_seed(0)
    queries = 3 + torch.randn(5, 12, generator=generator)
    documents = queries.repeat(4, 1) + apart * torch.randn(20, 12, generator=generator)
    fragments = (side.double().unflatten(-1, (-1, size)) for side in (queries[:, None], documents[None]))
    expected = torch.linalg.vector_norm(torch.sub(*fragments), dim=-1).sum(-1)
    found = distance.summed_distances(queries, documents, size)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() <= 1e-7 * 12 / size * queries.norm(dim=-1).max() + 1e-7 * expected.max()
    queries.requires_grad_()
    torch.testing.assert_close(distance.summed_distances(queries, documents, size), found, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert torch.equal(distance.summed_distances(queries, documents, size), found)


@pytest.mark.parametrize("spec", ["l2", "sfs:size=4,base=l2"])
def test_distances_have_gradients_where_vectors_meet(spec):
    queries = torch.ones(2, 8, requires_grad=True)
    retrokit.similarity(spec).score(queries, torch.ones(3, 8)).sum().backward()
    assert queries.grad is not None
    assert torch.equal(queries.grad, torch.zeros(2, 8))


def test_there_are_no_ceilings_where_a_squared_length_may_overflow():
    queries, documents = torch.tensor([[1.0, 0.0], [4e18, 0.0]]), torch.ones(3, 2)
    l2 = retrokit.similarity("l2")
    assert l2.ceilings(queries[:1], documents) is not None
    assert l2.ceilings(queries, documents) is None
