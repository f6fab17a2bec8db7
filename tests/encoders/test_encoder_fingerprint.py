"""The fingerprint changes with everything that decides an embedding, and with nothing else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import retrokit
from retrokit.encoders.store import EmbeddingCache
from retrokit.ranking.reranking.maps import TokenCache

VARIANTS = [
    "{bert}",
    "{bert},pooling=cls",
    "{bert},pooling=token1",
    "{bert},pooling=token2",
    "{bert},pooling=sep",
    '{bert},query_prompt="a "',
    '{bert},document_prompt="a "',
    '{bert},query_prompt="a ",document_prompt="a "',
    "{bert},max_length=9",
    "{bert},max_length=10",
    "{bert},query_max_length=9",
    "{bert},max_length=10,query_max_length=9",
    "{bert},truncation=left",
    "{bert},end_token=false",
    "{llama},pooling=mean,end_token=true",
    "{bert},dtype=bf16",
    "{bert},dtype=fp16",
    "scratch:{bert},seed=2",
    "scratch:{bert},seed=1",
    "{llama},pooling=mean",
    "{llama},pooling=last",
    "static:dim=4,tokenizer={bert}",
    "static:dim=8,tokenizer={bert}",
    "static:dim=4,tokenizer={bert},seed=1",
    "static:dim=4,tokenizer={bert},max_length=3",
    "static:dim=4,tokenizer={bert},max_length=4",
    "static:dim=4,tokenizer={llama}",
]


@pytest.fixture
def named(tiny_bert, tiny_llama):
    return lambda text: text.format(bert=tiny_bert, llama=tiny_llama)


def fingerprint(spec) -> str:
    return retrokit.encoder(str(spec)).fingerprint()


def test_variants_have_different_fingerprints(named):
    prints = [fingerprint(named(variant)) for variant in VARIANTS]
    same = [
        (one, other) for i, one in enumerate(VARIANTS) for j, other in enumerate(VARIANTS[:i]) if prints[i] == prints[j]
    ]
    assert same == []
    assert all(len(made) == 64 for made in prints)


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if "dtype" not in variant])
def test_saving_loading_encoding_and_devices_leave_it(named, variant, tmp_path):
    encoder = retrokit.encoder(named(variant))
    before = encoder.fingerprint()
    for role in ("query", "document"):
        encoder.embed(["cat dog", "a red bird flies over the house at night", ""], role, "bf16")
        encoder.embed(["cat dog"], role, "fp32")
    assert encoder.fingerprint() == before
    assert retrokit.encoder(named(variant), device="cpu").fingerprint() == before
    encoder.to_train().model.save(str(tmp_path / "saved"), create_model_card=False)
    assert encoder.fingerprint() == before
    assert fingerprint(tmp_path / "saved") == before


@pytest.mark.parametrize("spec", ["{bert}", "static:dim=4,tokenizer={bert}"])
def test_the_last_bit_of_one_weight_counts(named, spec):
    encoder = retrokit.encoder(named(spec))
    before = encoder.fingerprint()
    weight = next(encoder.to_train().model.parameters())
    with torch.no_grad():
        kept = weight[-1, -1].clone()
        weight[-1, -1] = torch.nextafter(kept, torch.tensor(100.0))
        assert encoder.fingerprint() != before
        weight[-1, -1] = kept
    assert encoder.fingerprint() == before


def swap_words(tokenizer: dict) -> None:
    words = tokenizer["model"]["vocab"]
    words["cat"], words["dog"] = words["dog"], words["cat"]


def drop_lowercase(tokenizer: dict) -> None:
    assert tokenizer["normalizer"] == {"type": "Lowercase"}
    tokenizer["normalizer"] = None


def other_pretokenizer(tokenizer: dict) -> None:
    tokenizer["pre_tokenizer"] = {"type": "WhitespaceSplit"}


@pytest.mark.parametrize("change", [swap_words, drop_lowercase, other_pretokenizer])
@pytest.mark.parametrize("spec", ["{folder}", "static:dim=4,tokenizer={folder}"])
def test_the_tokenizer_counts(tiny_bert, tmp_path, change, spec):
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "bert"))
    before = fingerprint(spec.format(folder=folder))
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text(encoding="utf-8"))
    change(described)
    path.write_text(json.dumps(described), encoding="utf-8")
    assert fingerprint(spec.format(folder=folder)) != before


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_act", "relu"), ("layer_norm_eps", 1e-3), ("num_attention_heads", 4)]
)
def test_the_architecture_counts_where_no_weight_shows_it(tiny_bert, tmp_path, key, value):
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "bert"))
    path = folder / "config.json"
    described = json.loads(path.read_text(encoding="utf-8"))
    described[key] = value
    path.write_text(json.dumps(described), encoding="utf-8")
    assert fingerprint(folder) != fingerprint(tiny_bert)


TEXTS = ["a cat", "the dog runs"]


def tokens(encoder, folder) -> Callable[[], int]:
    def ask() -> int:
        TokenCache(EmbeddingCache(folder, 10**9), encoder, "fp32").tokens(TEXTS, "query")
        return encoder.asked

    return ask


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_side_at_which_a_folder_cuts_texts_is_part_of_it(tiny_bert, tmp_path, side):
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "truncation_side": side}))
    assert (fingerprint(folder) == fingerprint(tiny_bert)) == (side == "right")
