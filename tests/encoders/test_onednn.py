"""The seam of oneDNN's operators: they are used where they prove themselves, and nothing depends on them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import retrokit
from retrokit.encoders import onednn, packed
from retrokit.ranking.retrieval.exact import top_k
from tests.close import assert_rounded
from tests.models import sentences

PACKAGE = Path(retrokit.__file__).parent
REAL = torch.ops.mkldnn


class Raising:
    """Raises whatever it is called with."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name}: no such kernel")


def wrong(*arguments: Any) -> torch.Tensor:
    return REAL._linear_pointwise(*arguments) + 1e-3


def operators(**changed: Any) -> SimpleNamespace:
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    return SimpleNamespace(**{name: getattr(REAL, name) for name in names} | changed)


BROKEN = {
    "all are gone": SimpleNamespace(),
    "they raise": Raising(),
    "one takes other arguments": operators(_reorder_linear_weight=lambda weight: weight),
    "a product is another": operators(_linear_pointwise=wrong),
    "weights are packed otherwise": operators(_reorder_linear_weight=lambda weight, size: weight.flip(0)),
}


@pytest.fixture(autouse=True)
def asked_anew():
    onednn.works.cache_clear()
    yield
    onednn.works.cache_clear()


@pytest.mark.parametrize("how", BROKEN)
def test_what_does_not_prove_itself_is_not_used(how, monkeypatch, tiny_bert):
    texts = sentences(9, seed=4)
    encoder = retrokit.encoder(str(tiny_bert), device="cpu")
    queries, documents = np.random.default_rng(0).normal(size=(2, 40, 16)).astype(np.float32)
    dot = retrokit.similarity("dot")
    expected = encoder.embed(texts, "document", "fp32"), top_k(dot, queries, documents, 5, torch.device("cpu"))[0]
    packed._packed_modules.clear()
    onednn.works.cache_clear()
    monkeypatch.setattr(torch.ops, "mkldnn", BROKEN[how])
    assert not onednn.works(torch.float32)
    assert not onednn.works(torch.bfloat16)
    assert_rounded(encoder.embed(texts, "document", "fp32"), expected[0])
    assert_rounded(top_k(dot, queries, documents, 5, torch.device("cpu"))[0], expected[1])


def test_the_proof_is_made_once(monkeypatch):
    calls = []
    real = onednn.linear
    monkeypatch.setattr(onednn, "linear", lambda *arguments: calls.append(1) or real(*arguments))
    found = [onednn.works(torch.float32) for _ in range(3)]
    count = len(calls)
    assert found == [found[0]] * 3
    onednn.works(torch.float32)
    assert len(calls) == count


def test_random_numbers_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    onednn.works(torch.float32)
    assert torch.equal(torch.rand(2), expected)
