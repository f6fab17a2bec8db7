"""Search in exported folders: what is found is what exact search of the same numbers finds, and nothing is embedded."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.core.notices import listening
from retrokit.data import exports
from retrokit.data.dtypes import DTYPES
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.ranking.export import export, open_export
from retrokit.ranking.retrieval.approximate import ApproximateIndex
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.retrieval.dense import dense, export_index
from tests.evaluation.fakes import Notices, write_lines
from tests.models import sentences

TEXTS = sentences(60, seed=5)
TEXTS[40] = TEXTS[3]  # of equal scores the lower position comes first, whichever shard it is in
QUERIES = sentences(7, seed=6)
CHUNK = 16


@pytest.fixture(autouse=True)
def portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "CHUNK", CHUNK)
    monkeypatch.setattr(exports, "SAMPLE", CHUNK)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    lines = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]
    return str(write_lines(tmp_path_factory.mktemp("data") / "corpus.jsonl", lines))


def made(tiny_bert: Path, corpus: str, out: Path, shards: int = 1, **options: Any) -> exports.Export:
    for shard in [f"{number}/{shards}" for number in range(1, shards + 1)] if shards > 1 else [None]:
        export(str(tiny_bert), corpus, str(out), shard=shard, precision="fp32", **options)
    return open_export(out)


@pytest.mark.parametrize(("dtype", "shards"), [*product(DTYPES, [1, 3]), ("float32", 6)])
def test_it_finds_what_the_numbers_say(tiny_bert, corpus, tmp_path, dtype, shards):
    folder = made(tiny_bert, corpus, tmp_path / "out", shards, dtype=dtype)
    encoder = retrokit.encoder(str(tiny_bert))
    asked = encoder.similarity.prepare(torch.as_tensor(encoder.embed(QUERIES, "query", "fp32")), "query").numpy()
    asked = np.where(asked > 0, 1, -1) if dtype == "binary" else asked
    scores = asked.astype(np.float64) @ folder.vectors().T.astype(np.float64)
    found = retrokit.search("", folder, QUERIES, k=9, precision="fp32")
    for row, (values, places) in zip(scores, found, strict=True):
        assert values == pytest.approx(np.sort(row)[::-1][:9], rel=1e-5)
        assert row[places] == pytest.approx(values, rel=1e-5)
        twins = [place for place in places.tolist() if place in (3, 40)]
        assert twins in ([], [3], [3, 40])


@pytest.mark.parametrize("index", [None, "HNSW8:efSearch=100"])
@pytest.mark.parametrize("quantize", ["float16", "int8", "binary", "binary+rescore"])
def test_it_finds_what_an_evaluation_of_those_numbers_does(tiny_bert, corpus, tmp_path, quantize, index):
    """A folder holds what ``eval --quantize`` searches in; a number between two steps of int8 may fall in either."""
    if index is not None:
        pytest.importorskip("faiss", reason="of the extra faiss")
    folder = made(tiny_bert, corpus, tmp_path / "out", sim="sfs:4", dtype=quantize.removesuffix("+rescore"))
    options = {"precision": "fp32", "quantize": quantize, "index": index}
    expected = retrokit.search(str(tiny_bert), TEXTS, QUERIES, k=9, sim="sfs:4", **options)
    step = float(folder.quantization().linear()[0].max()) if quantize == "int8" else 0.0
    for _ in range(2):  # the second time from the index that is kept in the folder
        found = retrokit.search("", folder, QUERIES, k=9, **options)
        for (scores, places), (values, best) in zip(found, expected, strict=True):
            assert scores == pytest.approx(values, rel=1e-5, abs=2 * step)
            assert places.tolist() == best.tolist() or index is not None or step
    if quantize == "int8":
        with pytest.raises(UsageError, match="contains int8; `quantize=` binary does not fit"):
            retrokit.search("", folder, QUERIES, quantize="binary")


def test_no_document_is_embedded(tiny_bert, corpus, tmp_path, monkeypatch):
    folder = made(tiny_bert, corpus, tmp_path / "out")
    roles = []
    real = TorchEncoder.embed

    def embed(self: Any, items: Any, role: str, *more: Any) -> Any:
        roles.append((role, len(items)))
        return real(self, items, role, *more)

    monkeypatch.setattr(TorchEncoder, "embed", embed)
    index = export_index(folder)
    index.search(TextList(QUERIES), 3)
    assert set(roles) == {("query", len(QUERIES))}
    account = index.account()
    assert set(account.norms) == {"query_norm_mean", "query_norm_std", "query_norm_cv"}
    assert account.configuration["dtype"] == "float32"
    assert [len(places) for _, places in index.search(TextList(QUERIES), 100)] == [60] * 7
    assert index.search(TextList(), 3) == []
    with pytest.raises(UsageError, match="k must be at least 1"):
        index.search(TextList(QUERIES), 0)


def test_of_equal_scores_the_lower_position_in_the_list_comes_first(tiny_bert, corpus, tmp_path):
    """Also if the two lie in different shards, of which the later one has the document that is listed first."""
    folder = made(tiny_bert, corpus, tmp_path / "out", shards=3)
    searcher = dense(str(tiny_bert), export=str(folder.folder), precision="fp32")
    listed = searcher.index(TextList(TEXTS[::-1], folder.ids()[::-1]))
    twins = [len(TEXTS) - 1 - 40, len(TEXTS) - 1 - 3]
    ((scores, positions),) = listed.search(TextList(TEXTS[3:4]), 2)
    assert scores[0] == scores[1]
    assert positions.tolist() == twins
    ((_, positions),) = listed.search(TextList(TEXTS[3:4]), 1)
    assert positions.tolist() == twins[:1]


def test_what_does_not_fit_the_folder(tiny_bert, corpus, tmp_path):
    folder = made(tiny_bert, corpus, tmp_path / "out", sim="learn:query=0.3,document=0.8", dims=8)
    for given, problem in (
        (
            ("static:16",),
            "was written by .*bert, whose weights or settings static:16 does not have; give an encoder whose",
        ),
        (("", None, "cosine"), "was written for the similarity learn.*, not cosine"),
        (("", None, "learn"), "was written for the similarity learn.*, not learn"),
        (("", None, None, 4), "was written with the first 8 dimensions; `dims=` 4 does not fit"),
    ):
        with pytest.raises(UsageError, match=problem) as error:
            export_index(folder, *given)
        assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="is searched with the encoder that wrote it, not with bm25"):
        retrokit.search("bm25", folder, QUERIES)
    gone = shutil.copytree(tiny_bert, tmp_path / "gone")
    orphan = made(gone, corpus, tmp_path / "orphan")
    shutil.rmtree(gone)
    with pytest.raises(
        UsageError, match=r"orphan: needs \S*gone, which cannot be loaded .*; put it back, or give"
    ) as error:
        export_index(orphan)
    assert "\n" not in str(error.value)
    queries = export(str(tiny_bert), corpus, str(tmp_path / "queries"), role="query")
    with pytest.raises(UsageError, match="contains embeddings of the role query; documents are searched"):
        export_index(queries)


@pytest.mark.parametrize(("dtype", "shards"), [("float32", 1), ("int8", 2)])
def test_an_index_of_faiss_finds_the_same(tiny_bert, corpus, tmp_path, dtype, shards):
    pytest.importorskip("faiss", reason="of the extra faiss")
    folder = made(tiny_bert, corpus, tmp_path / "out", shards, dtype=dtype)
    exact = export_index(folder, precision="fp32").search(TextList(QUERIES), 5)
    through = export_index(folder, precision="fp32", index="IVF2,Flat:nprobe=2")
    for (scores, places), (values, best) in zip(through.search(TextList(QUERIES), 5), exact, strict=True):
        assert scores == pytest.approx(values, rel=1e-5)
        assert sorted(places) == sorted(best)
    assert through.account().configuration["index_recall"] == {"recall@5": 1.0, "queries": 7}


@pytest.mark.parametrize("kind", ["IVF2,Flat:nprobe=2", "HNSW8", "PCA8,Flat"])
def test_an_index_of_faiss_is_kept_in_the_folder(tiny_bert, corpus, tmp_path, monkeypatch, kind):
    pytest.importorskip("faiss", reason="of the extra faiss")
    folder = made(tiny_bert, corpus, tmp_path / "out", dtype="float16")
    built = []
    real = ApproximateIndex._build
    monkeypatch.setattr(ApproximateIndex, "_build", lambda self: (built.append(kind), real(self)))

    def search(index: str = kind) -> tuple[Any, Any]:
        through = export_index(folder, precision="fp32", index=index)
        found = through.search(TextList(QUERIES), 5)
        return [places.tolist() for _, places in found], through.account().configuration["index_recall"]

    first = search()
    with monkeypatch.context() as patch:  # nor is its recall measured again
        patch.setattr("retrokit.ranking.retrieval.approximate._recall", None)
        assert (search(), built) == (first, [kind])
    if "IVF" in kind:  # other parameters at search are for the same index, whose recall with them is measured
        assert search("IVF2,Flat:nprobe=1")[1] != first[1]
        assert built == [kind]
    (file,) = folder.folder.glob("index-*.faiss")
    for damaged in (b"", file.read_bytes()[:-50]):
        file.write_bytes(damaged)
        heard = Notices()
        with listening(heard):
            again = search()
        assert again == first or "HNSW" in kind  # which threads build, not twice alike
        assert any("is damaged; the index is built again" in said for said in heard.messages)
    assert built == [kind] * 3
    file.unlink()
    with monkeypatch.context() as patch, listening(heard):
        patch.setattr("faiss.write_index", lambda *_: (_ for _ in ()).throw(RuntimeError("disk full")))
        search()
    assert any("could not be written (disk full)" in said for said in heard.messages)
    made(tiny_bert, corpus, tmp_path / "out", overwrite=True)
    assert not list(folder.folder.glob("index-*"))
