"""Damaged model folders: one line that names the folder, or embeddings that are those of the whole one."""

import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM

import retrokit
from retrokit.core.errors import DataError, RetrokitError, UsageError
from tests.close import assert_rounded
from tests.encoders.damages import damaged, damages

TEXTS = ["a cat", "the dog runs " * 40]
PARTS = 6  # of the damages; one by one their tests would take longer than their work
MEANS_SOMETHING_ELSE = (  # valid settings and weights, of another model
    "of whole numbers",
    "static model.safetensors of another shape",
    "post_processor null",
    "modules.json",
    "modality_config",
    "normalizer",
    "tokenizer_class",
    "model_max_length",
    "max_seq_length",
    "prompts",
    "default_prompt_name",
    "removed",
    "a folder",
    "include_prompt",
    "activation_function",
    "query_length",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tiny_bert, tiny_llama) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("whole")
    modules = [Transformer(str(tiny_bert)), Pooling(16, "mean"), Dense(16, 8)]
    SentenceTransformer(modules=modules, device="cpu").save(str(place / "modules"))
    retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}").to_train().model.save(str(place / "static"))
    return {"bert": tiny_bert, "llama": tiny_llama, "modules": place / "modules", "static": place / "static"}


@pytest.mark.parametrize("part", range(PARTS))
def test_no_traceback_and_no_silent_nonsense(folders, tmp_path, part):
    tried = 0
    for kind, folder in folders.items():
        whole = retrokit.encoder(str(folder), device="cpu").embed(TEXTS, "query", "fp32")
        for name, damage in damages(folder):
            if zlib.crc32(f"{kind} {name}".encode()) % (PARTS * EVERY) != part * EVERY:
                continue
            tried += 1
            place = damaged(folder, tmp_path / "damaged", damage)
            found, error = outcome(place)
            if error is not None:
                assert error.exit_code == 2, name
                assert str(error).startswith(str(place)), f"{name}: {error}"
                assert "\n" not in str(error), name
                assert len(str(error)) < len(str(place)) + 400, name
            elif not any(words in f"{kind} {name}" for words in MEANS_SOMETHING_ELSE):
                assert_rounded(found, whole)
    assert tried


def outcome(place: Path) -> tuple[np.ndarray, RetrokitError | None]:
    try:
        return retrokit.encoder(str(place), device="cpu").embed(TEXTS, "query", "fp32"), None
    except RetrokitError as error:
        return np.empty(0), error


EVERY = 24  # so many damages of which one is tried; the rest are its like


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("model.safetensors of other names", "its weights lack embeddings.LayerNorm.bias"),
        ("model.safetensors renamed", "its weights lack encoder.layer.0"),
        ("model.safetensors of another layer", "its weights have no place for encoder.layer.7"),
        (
            "model.safetensors of another shape",
            "have another shape in embeddings.LayerNorm.bias (15 for 16)",
        ),
        ("config_sentence_transformers.json a prompt object", "its prompts are not texts by name"),
        ("sentence_bert_config.json max_seq_length negative", "its max_seq_length is -1, and no number of tokens"),
        ("modules.json removed", "has lost a part"),
    ],
)
def test_what_is_wrong_is_named(folders, tmp_path, damage, message):
    place = damaged(folders["modules"], tmp_path / "damaged", dict(damages(folders["modules"]))[damage])
    with pytest.raises(DataError) as caught:
        retrokit.encoder(str(place), device="cpu")
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["bert", "modules"])
def test_a_folder_without_a_tokenizer_gets_no_default(folders, tmp_path, kind):
    shutil.copytree(folders[kind], tmp_path / "damaged")
    for file in (tmp_path / "damaged").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(DataError, match="it has no tokenizer"):
        retrokit.encoder(str(tmp_path / "damaged"))


def test_a_table_smaller_than_its_tokenizer(tiny_bert, tmp_path):
    model = AutoModel.from_pretrained(tiny_bert)
    model.resize_token_embeddings(150)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="its tokenizer numbers tokens up to 199, and its table has 150 rows"):
        retrokit.encoder(str(tmp_path))


def test_heads_of_other_tasks_and_an_unused_pooler_are_no_damage(tiny_bert, tmp_path):
    """A checkpoint of a language model has a head, and lacks the pooler that nothing asks for."""
    config = BertConfig.from_pretrained(tiny_bert)
    model = BertForMaskedLM(config)
    model.bert.load_state_dict(AutoModel.from_pretrained(tiny_bert).state_dict(), strict=False)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    first, second, whole = (retrokit.encoder(str(path)) for path in (tmp_path, tmp_path, tiny_bert))
    np.testing.assert_array_equal(first.embed(TEXTS, "query", "fp32"), whole.embed(TEXTS, "query", "fp32"))
    assert first.fingerprint() == second.fingerprint(), "what is opened again is the same model"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is not the description of a run"),
        ("5", "is not the description of a run"),
        ("[" * 100_000, "expected the description of a run"),
        ('{"similarity": 5, "status": "finished"}', "field 'similarity' should be a string, found a number"),
        ('{"similarity": null, "status": "finished"}', "field 'similarity' should be a string, found null"),
        ('{"similarity": "angle:3", "status": "finished"}', "needs the similarity angle:3; install the plugin"),
        ('{"similarity": "cosine", "status": [1]}', "field 'status' is '[1]'; expected training or finished"),
    ],
)
def test_a_damaged_description(folders, tmp_path, content, message):
    place = damaged(folders["modules"], tmp_path / "run", lambda at: _written(at / "retrokit.json", content))
    with pytest.raises((DataError, UsageError)) as caught:
        retrokit.encoder(str(place))
    assert message in str(caught.value)
    assert str(place) in str(caught.value)


def _written(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
