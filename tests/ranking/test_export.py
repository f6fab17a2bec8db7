"""Exported embeddings: the files, what they say of themselves, and that they rank as exact search does."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError, Interrupted, UsageError
from retrokit.core.files import digest
from retrokit.encoders.base import Encoder
from retrokit.ranking import export
from tests.close import assert_rounded
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences

TEXTS = sentences(90, seed=21)
DOCUMENTS = {f"d{number:02}": text for number, text in enumerate(TEXTS[:70])}
QUERIES = {f"q{number:02}": text for number, text in enumerate(TEXTS[70:])}
FACTORABLE = (
    *("cosine", "dot", "qnorm", "dnorm", "learn:query=0.3,document=0.8"),
    *("sfs:4", "sfs:4,dims=8", "sfs:4,base=dot"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(
        tmp_path_factory.mktemp("data") / "toy", DOCUMENTS, QUERIES, {query: {"d00": 1} for query in QUERIES}
    )


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return retrokit.encoder(str(tiny_bert))


def test_files_hold_what_the_note_says(tiny_bert, encoder, folder, tmp_path):
    made = export.export(str(tiny_bert), str(folder), str(tmp_path / "out"), sim="sfs:4", precision="fp32")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"canaries.json", "embeddings.npy", "embeddings.parquet", "ids.jsonl", "export.json"}
    rows = made.embeddings()
    assert isinstance(rows, np.memmap)
    assert (rows.dtype, rows.shape) == (np.dtype("float32"), (70, 16))
    assert made.ids() == list(DOCUMENTS)
    table = pyarrow.parquet.read_table(tmp_path / "out" / "embeddings.parquet")
    assert table["id"].to_pylist() == list(DOCUMENTS)
    assert np.array_equal(np.array(table["embedding"].to_pylist(), dtype=np.float32), rows)
    raw = encoder.embed(list(DOCUMENTS.values()), "document", "fp32").reshape(70, 4, 4)
    expected = raw / np.linalg.norm(raw, axis=2, keepdims=True) / 2
    assert_rounded(rows, expected.reshape(70, 16))
    assert {key: made.note[key] for key in ("count", "dimension", "role")} == {
        "count": 70,
        "dimension": 16,
        "role": "document",
    }
    assert made.note["similarity"] == {"spec": "sfs:4", "learned": {}}
    assert made.note["metric"].startswith("inner product")
    assert made.note["encoder"]["fingerprint"] == encoder.document_fingerprint()
    assert made.note["source"]["digest"] == digest(folder / "corpus.jsonl")
    assert "consecutive fragments f of 4 dimensions" in made.note["transform"]["query"]
    assert export.open_export(tmp_path / "out").note == made.note


def in_words(words: str, x: np.ndarray) -> np.ndarray:
    """What the note's words say, done by someone who has nothing but NumPy and the note."""
    taken, _, words = words.rpartition("; ") if words.startswith("the first") else ("", "", words)
    if taken:
        x = x[:, : int(taken.split()[2])]
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if words == "x as it is":
        return x
    if words == "x / max(‖x‖, 1e-12)":
        return x / norms
    return x / norms ** float(words.removeprefix("x / max(‖x‖, 1e-12)^"))


@pytest.mark.parametrize("dims", [None, 8])
@pytest.mark.parametrize("sim", ["cosine", "dot", "qnorm", "dnorm", "learn:query=0.3,document=0.8"])
def test_the_transform_in_words_suffices(tiny_bert, encoder, folder, tmp_path, sim, dims):
    for role, texts in (("document", DOCUMENTS), ("query", QUERIES)):
        out = str(tmp_path / role)
        made = export.export(str(tiny_bert), str(folder), out, role=role, sim=sim, precision="fp32", dims=dims)
        raw = encoder.embed(list(texts.values()), role, "fp32")
        assert_rounded(made.embeddings(), in_words(made.note["transform"][role], raw))


@pytest.mark.parametrize("sim", ["cosine", "dot", "qnorm", "dnorm", "learn:query=0.3,document=0.8"])
@pytest.mark.parametrize("normalises", [False, True])
def test_a_server_of_raw_queries_ranks_exported_documents(tiny_bert, encoder, folder, tmp_path, sim, normalises):
    """The scores of a query are the similarity's times a positive number."""
    rows = export.export(str(tiny_bert), str(folder), str(tmp_path / "out"), sim=sim, precision="fp32").vectors()
    queries = encoder.embed(list(QUERIES.values()), "query", "fp32")
    documents = encoder.embed(list(DOCUMENTS.values()), "document", "fp32")
    expected = retrokit.similarity(sim).score(torch.from_numpy(queries), torch.from_numpy(documents)).numpy(force=True)
    if normalises:
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    scores = queries @ rows.T
    scores *= np.linalg.norm(expected, axis=1, keepdims=True) / np.linalg.norm(scores, axis=1, keepdims=True)
    assert_rounded(scores, expected, size=float(np.abs(expected).max()))


@pytest.mark.parametrize("sim", FACTORABLE)
def test_the_inner_product_is_the_similarity(tiny_bert, encoder, folder, tmp_path, sim):
    sides = [
        export.export(str(tiny_bert), str(folder), str(tmp_path / role), role=role, sim=sim, precision="fp32")
        for role in ("query", "document")
    ]
    queries, documents = (side.embeddings() for side in sides)
    raw = [
        encoder.embed(list(texts.values()), role, "fp32")
        for texts, role in ((QUERIES, "query"), (DOCUMENTS, "document"))
    ]
    scores = retrokit.similarity(sim).score(*raw).detach().numpy()
    assert_rounded(queries @ documents.T, scores)


@pytest.mark.parametrize("sim", ["l1", "l2", "sfs:size=4,base=l2", "sfs:size=4,base=l1"])
def test_distances_are_refused_in_one_line(folder, tmp_path, sim):
    with pytest.raises(UsageError, match="is not an inner product of prepared embeddings") as error:
        export.export("no/such/encoder", str(folder), str(tmp_path / "out"), sim=sim)  # before anything is loaded
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("one_length", [False, True])
def test_queries_prepared_as_the_note_says(tiny_bert, folder, tmp_path, monkeypatch, one_length):
    options = {"sim": "sfs:4", "precision": "fp32", "dims": 8, "one_length": one_length}
    made = export.export(str(tiny_bert), str(folder), str(tmp_path / "out"), **options)
    assert made.note["one_length"] == made.note["metric"].endswith("cosine and L2 rank alike") == one_length
    assert made.note["transform"]["query"].endswith(", then a 0") == one_length
    assert ("then √(M² − the square of its length)" in made.note["transform"]["document"]) == one_length
    names: dict[str, Any] = {}
    exec(made.note["prepare_queries"]["python"].replace("a query", TEXTS[0]), names)
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "queries.jsonl", [{"id": 1, "text": TEXTS[0]}])
    command = made.note["prepare_queries"]["command"].split()
    assert command[0] == "retrokit"
    assert cli.run(command[1:]) == 0
    from_command = export.open_export("queries")
    assert from_command.ids() == ["1"]
    assert_rounded(from_command.embeddings(), names["prepared"])
    assert names["prepared"].shape == (1, 9 if one_length else 8)


def test_a_repeated_line_is_exported_once(tiny_bert, tmp_path):
    rows = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "a", "text": "x"}, {"id": "c", "text": "z"}]
    made = export.export(str(tiny_bert), str(write_lines(tmp_path / "c.jsonl", rows)), str(tmp_path / "out"))
    assert (made.ids(), made.note["count"], len(made.embeddings())) == (["a", "b", "c"], 3, 3)


def test_bad_input_leaves_nothing(tiny_bert, folder, tmp_path, monkeypatch):
    bad = write_lines(tmp_path / "bad.jsonl", [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}])
    out = str(tmp_path / "out")
    with pytest.raises(DataError, match=r"bad\.jsonl:2: the id 'a' is already on line 1"):
        export.export("no/such/encoder", str(bad), out)  # before the encoder is loaded
    with pytest.raises(UsageError, match="`role=` passage is none of document, query"):
        export.export(str(tiny_bert), str(folder), out, role="passage")
    with pytest.raises(UsageError, match=r"`dims=` 17: .* has 16 dimensions"):
        export.export(str(tiny_bert), str(folder), out, dims=17)
    with pytest.raises(UsageError, match="size 5 does not divide 16"):
        export.export(str(tiny_bert), str(folder), out, sim="sfs:5")
    with pytest.raises(DataError, match="does not exist"):
        export.export(str(tiny_bert), "nowhere.jsonl", out)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export.Prepared, "of_chunks", interrupt)
    with pytest.raises(Interrupted):
        export.export(str(tiny_bert), str(folder), out)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_only_an_export_is_replaced(tiny_bert, folder, tmp_path):
    out = tmp_path / "out"
    export.export(str(tiny_bert), str(folder), str(out), sim="dot")
    with pytest.raises(UsageError, match="exists already; name a new folder, or give `overwrite=`"):
        export.export(str(tiny_bert), str(folder), str(out), sim="cosine")
    made = export.export(str(tiny_bert), str(folder), str(out), sim="cosine", overwrite=True)
    assert export.open_export(out).note["similarity"]["spec"] == "cosine"
    assert torch.allclose(torch.tensor(made.embeddings()).norm(dim=1), torch.ones(70), atol=1e-5)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"mine: is not a folder of 'retrokit export'"):
        export.export(str(tiny_bert), str(folder), str(tmp_path / "mine"), overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()
