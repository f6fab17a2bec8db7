"""A static encoder distilled from a transformer, against a computation by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import retrokit
from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.static import distil_static
from tests.models import sentences
from tests.training.test_saved_folders import PAIR, assert_read_alike, prompted


def alone(folder: Path) -> np.ndarray:
    """Each token between [CLS] and [SEP], one at a time, through the library."""
    model = SentenceTransformer(str(folder)).eval()
    cls, sep = model.tokenizer.cls_token_id, model.tokenizer.sep_token_id
    rows = []
    for token in range(len(model.tokenizer)):
        ids = torch.tensor([[cls, token, sep]])
        with torch.no_grad():
            made = model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["sentence_embedding"]
        rows.append(made[0].double().numpy())
    return np.array(rows)


@pytest.fixture(scope="module")
def rows(tiny_bert):
    return alone(tiny_bert)


def test_the_table_is_what_was_said(tiny_bert, rows, tmp_path):
    made = distil_static(str(tiny_bert), str(tmp_path / "static"), dims=8, sif=0.01)
    centred = rows - rows.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    assert (made.tokens, made.dimension) == (len(rows), 8)
    assert made.variance == pytest.approx((values[:8] ** 2).sum() / (values**2).sum(), rel=1e-5)
    inverse = 1 / np.arange(2, len(rows) + 2)
    weights = 0.01 / (0.01 + inverse / inverse.sum())
    expected = centred @ axes[:8].T * weights[:, None]
    table = SentenceTransformer(str(tmp_path / "static"))[0].embedding.weight.detach().numpy()
    expected *= np.sign((expected * table).sum(axis=0))  # an axis has no direction of its own
    np.testing.assert_allclose(table, expected, atol=1e-4 * np.abs(expected).max())


def test_all_dimensions_keep_the_angles(tiny_bert, rows, tmp_path):
    made = distil_static(str(tiny_bert), str(tmp_path / "static"), dims=None, sif=0)
    assert made.variance == pytest.approx(1)
    table = SentenceTransformer(str(tmp_path / "static"))[0].embedding.weight.detach().double().numpy()
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(table @ table.T, centred @ centred.T, atol=1e-4 * np.abs(centred @ centred.T).max())


def test_frequencies_of_a_corpus(tiny_bert, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    write_jsonl(corpus, ({"id": str(place), "text": text} for place, text in enumerate(sentences(30))))
    for name, options in (("plain", {"sif": 0}), ("counted", {"sif": 0.001, "corpus": str(corpus)})):
        distil_static(str(tiny_bert), str(tmp_path / name), dims=8, **options)
    plain, counted = (SentenceTransformer(str(tmp_path / name)) for name in ("plain", "counted"))
    tokenizer = plain.tokenizer
    seen = [token for text in sentences(30) for token in tokenizer.encode(text, add_special_tokens=False).ids]
    frequencies = np.bincount(seen, minlength=tokenizer.get_vocab_size()) / len(seen)
    lengths = [np.linalg.norm(model[0].embedding.weight.detach().numpy(), axis=1) for model in (plain, counted)]
    np.testing.assert_allclose(lengths[1], lengths[0] * 0.001 / (0.001 + frequencies), rtol=1e-4, atol=1e-7)


def test_it_is_an_encoder_like_any_other(tiny_bert, tmp_path, capsys):
    out = tmp_path / "static"
    assert cli.run(["distil-static", str(tiny_bert), "--dims", "8", "-o", str(out)]) == 0
    assert "8 dimensions with" in capsys.readouterr().err
    encoder = retrokit.encoder(str(out))
    assert encoder.similarity.spec == "cosine"
    assert encoder.embed(["a cat", "the dog"], "query").shape == (2, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["static"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["static:8"], "static: expected a transformer with a fast tokenizer"),
        (["BERT", "--dims", "17"], "--dims 17: "),
        (["BERT", "--dims", "8", "--corpus", "none.jsonl"], "none.jsonl: does not exist"),
        (["BERT", "--sif", "-1"], "--sif -1.0 is out of range"),
        (["minilmm"], "minilmm"),
    ],
)
def test_what_cannot_be_distilled_is_one_line(tiny_bert, tmp_path, capsys, words, message):
    words = [str(tiny_bert) if word == "BERT" else word for word in words]
    assert cli.run(["distil-static", *words, "-o", str(tmp_path / "out")]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert message.removeprefix("static: ") in line
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_kept(tiny_bert, tmp_path, capsys):
    (tmp_path / "mine").write_text("a user's own")
    assert cli.run(["distil-static", str(tiny_bert), "-o", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "a user's own"


def test_prompts_of_the_base_are_not_saved(tiny_bert, tmp_path):
    base = prompted(tmp_path / "base", tiny_bert, {"prompts": PAIR})
    distil_static(str(base), str(tmp_path / "static"), dims=8, device="cpu")
    assert_read_alike(tmp_path / "static", ("", ""))
