"""A table of embeddings is the library's, bit for bit: what it reads, computes and learns."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import StaticEmbedding as LibraryEmbedding
from tokenizers import Tokenizer

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders.tables import StaticEmbedding, set_length
from retrokit.training.rows import RowBag
from tests.close import assert_rounded
from tests.models import sentences

LONG = " ".join(sentences(300))
TEXTS = ["", *sentences(5), "  ", "🜁🜂 of 中文 é", "[UNK] x\x00y", LONG, "cat cat cat", ""]


@pytest.fixture(params=[None, 7], ids=["whole", "cut"])
def pair(request: pytest.FixtureRequest) -> tuple[StaticEmbedding, LibraryEmbedding]:
    """Ours and the library's, of the same weights and tokenizer, which cuts texts off or not."""
    options = "" if request.param is None else f",max_length={request.param}"
    module: Any = retrokit.encoder(f"static:12{options}").to_train().model[0]
    assert type(module) is StaticEmbedding
    weights = module.embedding.weight.detach().clone()
    return module, LibraryEmbedding(deepcopy(module.tokenizer), embedding_weights=weights)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[::-1], [""], ["", ""], [LONG], TEXTS[1:2]], ids=len)
@pytest.mark.parametrize("prompt", [None, "", "query: "])
def test_tokens_and_embeddings_are_the_librarys(
    pair: tuple[StaticEmbedding, LibraryEmbedding], texts: list[str], prompt: str | None
) -> None:
    ours, library = pair
    features, expected = ours.preprocess(texts, prompt), library.preprocess(texts, prompt)
    assert features.keys() == expected.keys()
    for name, values in expected.items():
        assert torch.equal(features[name], values)
        assert features[name].dtype == values.dtype
    embeddings = ours(features)["sentence_embedding"]
    assert embeddings.shape == (len(texts), 12)
    assert torch.equal(embeddings, library(expected)["sentence_embedding"])


def test_a_step_is_the_librarys(pair: tuple[StaticEmbedding, LibraryEmbedding]) -> None:
    """The gradient, and the weights behind a step; by rows, as in training, the sums have another order."""
    ours, library = pair
    by_rows = deepcopy(ours)
    by_rows.embedding = RowBag(by_rows.embedding)
    target = torch.randn(len(TEXTS), 12, generator=torch.Generator().manual_seed(3))
    for module in (ours, library, by_rows):
        embeddings = module(module.preprocess(TEXTS))["sentence_embedding"]
        ((embeddings - target) ** 2).sum().backward()
    expected = library.embedding.weight.grad
    assert expected is not None
    assert torch.equal(ours.embedding.weight.grad, expected)
    assert 12 < (expected != 0).any(dim=1).sum() < len(expected)
    assert_rounded(by_rows.embedding.weight.grad.to_dense(), expected)
    for module in (ours, library):
        torch.optim.AdamW(module.parameters(), lr=0.1).step()
    assert torch.equal(ours.embedding.weight, library.embedding.weight)


def test_the_limit_in_a_tokenizers_file_is_none_of_the_tables(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "bert")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))
    model = retrokit.encoder(f"static:dim=8,tokenizer={folder}").to_train().model
    assert model.tokenizer.truncation is None
    assert len(model.preprocess([LONG])["input_ids"]) > 3


def test_a_table_has_one_length_for_queries_and_documents() -> None:
    problem = "^static:8: a static encoder has one max_length for queries and documents$"
    with pytest.raises(UsageError, match=problem):
        set_length(None, "static:8", max_length=4, query_max_length=3)
