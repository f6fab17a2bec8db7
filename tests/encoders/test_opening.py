"""Encoders of folders that the embedding cache knows: they are what they would be if they were loaded."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from tokenizers import Tokenizer
from torch import nn

import retrokit
from retrokit.core.errors import DataError
from retrokit.encoders import loading
from retrokit.encoders.base import Encoder
from retrokit.encoders.opening import RecordedEncoder, RememberedEncoder
from retrokit.encoders.store import FILE
from retrokit.encoders.views import MemoizedEncoder
from tests.close import assert_rounded
from tests.models import sentences

TEXTS = sentences(12, seed=3)
OPTIONS = [
    "",
    ",pooling=cls",
    ",pooling=token1",
    ",dtype=bf16",
    ",max_length=9,query_max_length=7",
    ',query_prompt="a "',
]


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def embedded(spec: object, **options: str) -> Encoder:
    """An encoder whose embeddings of the texts are in the cache from now on."""
    encoder = retrokit.encoder(str(spec), **options)
    encoder.embed(TEXTS, "document", "fp32")
    return encoder


def is_remembered(encoder: Encoder) -> bool:
    """Whether it is known from another time, and nothing has loaded it yet."""
    inner = getattr(encoder, "_encoder", encoder)  # below the cache
    return isinstance(inner, RememberedEncoder) and not inner._is_loaded


@pytest.mark.parametrize("options", OPTIONS)
def test_what_is_remembered_is_what_the_model_says(tiny_bert, loads, options):
    spec = f"{tiny_bert}{options}"
    first = embedded(spec)
    again = retrokit.encoder(spec)
    assert not is_remembered(first)
    assert is_remembered(again)
    for role in ("query", "document"):
        assert again.max_length(role) == first.max_length(role)
    for name in ("spec", "dimension", "device", "prompts", "had_normalize"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.similarity.spec == first.similarity.spec
    assert again.fingerprint() == first.fingerprint()
    assert np.array_equal(again.embed(TEXTS, "document", "fp32"), first.embed(TEXTS, "document", "fp32"))
    assert is_remembered(again)
    assert len(loads) == 1


@pytest.mark.parametrize(("options", "count"), [("", 1), (",pooling=token1", 2)])
def test_a_text_that_is_new_loads_the_model(tiny_bert, monkeypatch, loads, options, count):
    """By the library only if that alone knows it."""
    embedded(f"{tiny_bert}{options}")
    again = retrokit.encoder(f"{tiny_bert}{options}")
    made = again.embed([*TEXTS, "a bird"], "document", "fp32")
    assert is_remembered(again) == (count == 1)
    assert len(loads) == count
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    expected = retrokit.encoder(f"{tiny_bert}{options}").embed([*TEXTS, "a bird"], "document", "fp32")
    assert_rounded(made, expected)


def test_all_that_asks_for_the_model_loads_it_once(tiny_bert, loads):
    embedded(tiny_bert)
    again = retrokit.encoder(str(tiny_bert))
    kept = MemoizedEncoder(again)
    assert kept.embed(TEXTS, "document", "fp32").shape == (12, 16)
    assert is_remembered(again)
    tokens = again.with_tokens().token_embeddings(TEXTS, "document", "fp32")
    assert kept.to_train().model is again.to_train().model
    assert len(tokens) == 12
    assert len(loads) == 2


READS = """
import sys
import numpy as np
import retrokit
spec, file, precision, *texts = sys.argv[1:]
print(np.load(file).tobytes() == retrokit.encoder(spec).embed(texts, "document", precision).tobytes())
print(sorted({"sentence_transformers", "transformers", "tokenizers"} & set(sys.modules)))
encoder = retrokit.encoder(spec)
questions = ["which bird sees a tree", "a bird", "no bird and no tree " * 9]
print(np.load(file + ".question.npy").tobytes() == encoder.embed(questions, "query", precision).tobytes())
encoder.cut(questions, "query")
print(sorted({"sentence_transformers", "sklearn", "datasets", "pandas"} & set(sys.modules)))
"""


@pytest.mark.parametrize("precision", ["fp32", "auto"])  # auto: what this processor is faster in
def test_what_is_in_the_cache_takes_no_library(tiny_bert, tmp_path, precision):
    file = str(tmp_path / "expected.npy")
    first = retrokit.encoder(str(tiny_bert))
    questions = ["which bird sees a tree", "a bird", "no bird and no tree " * 9]
    np.save(file, first.embed(TEXTS, "document", precision))
    np.save(f"{file}.question.npy", first.to_train().embed(questions, "query", precision))
    command = [sys.executable, "-c", READS, str(tiny_bert), file, precision, *TEXTS]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["True", "[]"] * 2, done.stderr


def of_modules(*following: nn.Module, pooling: str = "mean", **options: str) -> Callable[[Path, Path], object]:
    def save(bert: Path, folder: Path) -> None:
        modules = [Transformer(str(bert)), Pooling(16, pooling), *following]
        SentenceTransformer(modules=modules, device="cpu", **options).save(str(folder))

    return save


def table(bert: Path, folder: Path) -> None:
    first = StaticEmbedding(Tokenizer.from_file(str(bert / "tokenizer.json")), embedding_dim=16)
    SentenceTransformer(modules=[first, Dense(16, 8)], device="cpu").save(str(folder))


FOLDERS: dict[str, Callable[[Path, Path], object]] = {
    "cls": of_modules(pooling="cls"),
    "dense": of_modules(Dense(16, 8), Dense(8, 16, bias=False, activation_function=None)),
    "dense, normalised": of_modules(Dense(16, 8, activation_function=nn.GELU()), Normalize()),
    "normalised and kept": of_modules(Normalize(), Dense(16, 8), Normalize(), similarity_fn_name="manhattan"),
    "a table": table,
}


@pytest.mark.parametrize("options", ["", ",dtype=bf16", ",max_length=9", ',document_prompt="a "'])
@pytest.mark.parametrize("kind", FOLDERS)
def test_folders_of_known_modules_are_computed_without_the_library(kind, options, tiny_bert, tmp_path, loads):
    folder = tmp_path / "model"
    FOLDERS[kind](tiny_bert, folder)
    spec = f"{folder}{options}"
    first = embedded(spec)
    again = retrokit.encoder(spec)
    texts = ["a bird", "", "a text of this length " * 9, "[SEP] and Ünïcode\n"]
    for precision in ("fp32", "bf16"):
        expected = first.to_train().embed(texts, "document", precision)
        assert again.embed(texts, "document", precision).tobytes() == expected.tobytes()
    is_rounded = (
        options == ",dtype=bf16" and any(folder.glob("*_Dense")) and kind != "a table"
    )  # the library rounds that layer too
    assert is_remembered(again) != is_rounded
    assert len(loads) == 1 + is_rounded


@pytest.mark.parametrize("kind", ["residual", "max pooling", "weights of another form"])
def test_other_folders_are_loaded_by_the_library(kind, tiny_bert, tmp_path, loads):
    folder = tmp_path / "model"
    of_modules(Dense(16, 8, use_residual=kind == "residual"))(tiny_bert, folder)
    if kind == "max pooling":
        change_json(folder, "1_Pooling/config.json", pooling_mode="max")
    if kind == "weights of another form":
        weights = folder / "2_Dense" / "model.safetensors"
        torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
        weights.unlink()
    embedded(folder)
    again = retrokit.encoder(str(folder))
    again.embed(["a bird"], "document", "fp32")
    assert not is_remembered(again)
    assert len(loads) == 2


def change_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][7, 3] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def change_json(folder: Path, file: str, **values: object) -> None:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


CHANGES: dict[str, Callable[[Path], None]] = {
    "a weight": change_weight,
    "the prompt": lambda folder: change_json(
        folder, "config_sentence_transformers.json", prompts={"document": "text "}
    ),
    "the pooling": lambda folder: change_json(folder, "1_Pooling/config.json", pooling_mode="cls"),
    "a setting": lambda folder: change_json(folder, "config.json", layer_norm_eps=0.1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_folder_is_loaded_anew(model, loads, change, monkeypatch):
    before = embedded(model).embed(TEXTS, "document", "fp32")
    CHANGES[change](model)
    again = retrokit.encoder(str(model))
    assert not is_remembered(again)
    assert len(loads) == 2
    made = again.embed(TEXTS, "document", "fp32")
    assert not np.allclose(made, before, atol=1e-4)
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    assert np.array_equal(made, retrokit.encoder(str(model)).embed(TEXTS, "document", "fp32"))


def test_a_folder_that_changes_between_opening_and_loading_is_an_error(model):
    embedded(model)
    again = retrokit.encoder(str(model))
    change_weight(model)
    with pytest.raises(DataError, match="has changed since it was opened"):
        again.embed(["a bird"], "document", "fp32")


def test_a_run_is_remembered_with_its_similarity(model, loads):
    change_json(model, "config_sentence_transformers.json", similarity_fn_name="dot")
    (model / "retrokit.json").write_text(json.dumps({"similarity": "sfs:size=4", "status": "finished"}))
    (model / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    first = embedded(model)
    (model / "checkpoints" / "checkpoint-1" / "trainable.pt").write_bytes(b"no part of the model")
    again = retrokit.load(str(model))
    assert is_remembered(again)
    assert len(loads) == 1
    assert again.similarity.spec == first.similarity.spec == "sfs:4"


class Own(nn.Identity):
    """A module that is no part of retrokit or the libraries."""


def test_a_model_with_a_class_of_its_own_is_loaded(tiny_bert, monkeypatch):
    load = loading.load_model

    def with_own(*arguments: object, **options: object) -> Encoder:
        made = load(*arguments, **options)
        made.to_train().model.append(Own())
        return made

    monkeypatch.setattr(loading, "load_model", with_own)
    embedded(tiny_bert)
    assert not is_remembered(embedded(tiny_bert))


def test_a_folder_that_changes_while_it_is_loaded_is_not_remembered(model, monkeypatch):
    load = loading.load_model

    def and_change(*arguments: object, **options: object) -> Encoder:
        made = load(*arguments, **options)
        change_weight(model)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(loading, "load_model", and_change)
        embedded(model)
    assert not is_remembered(retrokit.encoder(str(model)))


def linked(model: Path) -> None:
    (model / "1_Pooling").rename(model.parent / "elsewhere")
    (model / "1_Pooling").symlink_to(model.parent / "elsewhere")


def naming_a_tokenizer(model: Path) -> None:
    change_json(model, "sentence_bert_config.json", tokenizer_name_or_path=str(model))


@pytest.mark.parametrize("spread", [linked, naming_a_tokenizer])
def test_a_model_that_is_not_all_in_its_folder_is_loaded(model, loads, spread):
    spread(model)
    for _ in range(2):
        embedded(model)
    assert loads[-2:] == [str(model)] * 2


DAMAGE = ["substr(content, 1, 20)", "''", """replace(content, '"dimension": 16', '"dimension": 17')""", "'[]'", "x'ff'"]


def facts(folder: Path, statement: str = "SELECT content FROM facts ORDER BY key") -> list[tuple]:
    with closing(sqlite3.connect(folder / FILE)) as opened, opened:
        return opened.execute(statement).fetchall()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_made_again(tiny_bert, cache_folder, loads, damage):
    embedded(tiny_bert)
    whole = facts(cache_folder)
    facts(cache_folder, f"UPDATE facts SET content = {damage}")
    assert not is_remembered(embedded(tiny_bert))
    assert facts(cache_folder) == whole
    assert is_remembered(embedded(tiny_bert))
    assert len(loads) == 2


def test_an_assumption_is_reported_again(tiny_bert, caplog):
    caplog.set_level("INFO", "retrokit")
    messages = []
    for _ in range(2):
        caplog.clear()
        encoder = embedded(tiny_bert)
        messages.append([message for message in caplog.messages if "assuming mean pooling" in message])
    assert is_remembered(encoder)
    assert len(messages[0]) == 1
    assert messages[1] == messages[0]


def test_a_record_gives_all_traits():
    record = {
        "similarity": "dot",
        "had_normalize": True,
        "dimension": 8,
        "task_prompts": {"classification": "classify: "},
        "max_lengths": {"query": 32, "document": 64},
        "fingerprint": "of queries",
        "document_fingerprint": "of documents",
    }
    encoder = RecordedEncoder("mine", record)
    assert (encoder.fingerprint(), encoder.document_fingerprint()) == ("of queries", "of documents")
    assert encoder.task_prompts == {"classification": "classify: "}
    assert (encoder.max_length("query"), encoder.max_length("document"), encoder.dimension) == (32, 64, 8)
