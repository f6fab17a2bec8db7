"""Question answering over what is found: prompts, readers, and values worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

import retrokit
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.encoders.generator import Prompt, load_generator
from retrokit.errors import DataError, ServiceError, UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.rag import Answers, LocalReader, Rag, prompt_of, read_questions
from tests.evaluation.fakes import GivenEncoder

VECTORS = {
    "Who purrs?": [1.0, 0.0],
    "Who barks?": [0.0, 1.0],
    "Nobody knows?": [1.0, 1.0],
    "Cats They purr.": [2.0, 1.0],
    "Dogs bark.": [0.0, 1.0],
    "Fish swim.": [1.0, 0.1],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [Document("c", "Cats", "They purr."), Document("d", "", "Dogs bark."), Document("f", "", "Fish swim.")]
    queries = [("q1", "Who purrs?"), ("q2", "Who barks?"), ("q3", "Nobody knows?")]
    answers = {"q1": ["The cat", "cats"], "q2": ["dogs"]}
    write_beir(tmp_path / "pets", documents, queries, {"test": {"q1": {"c": 1}}}, answers)
    return tmp_path / "pets"


class First:
    """Answers with the first word of the first passage; remembers what it read."""

    spec = "first"

    def __init__(self) -> None:
        self.read: list[Prompt] = []

    def answer(self, prompts: Sequence[Prompt]) -> Answers:
        self.read += prompts
        return Answers([prompt.middle.split()[1] for prompt in prompts], shortened=1)

    def fingerprint(self) -> str | None:
        return None


def test_the_prompt_is_the_papers() -> None:
    assert prompt_of("Who?", ["A b.", "C."]).text == (
        "Question: Who?\nAnswer the question based on the following context:\n[1] A b. [2] C.\nAnswer:"
    )


def test_values_by_hand(folder: Path) -> None:
    reader = First()
    task = Rag(read_questions(folder), reader, k=2)
    encoder = GivenEncoder(VECTORS)
    cosine, dot = task.evaluate(encoder, [retrokit.similarity("cosine"), retrokit.similarity("dot")])
    # cosine: q1 finds fish (0.995) before cats (0.894); q2 dogs before cats
    assert [prompt.middle for prompt in reader.read[:2]] == [
        "[1] Fish swim. [2] Cats They purr.",
        "[1] Dogs bark. [2] Cats They purr.",
    ]
    assert cosine.per_query == {"exact_match": {"q1": 0.0, "q2": 1.0}, "f1": {"q1": 0.0, "q2": 1.0}}
    assert cosine.metrics == {"exact_match": 0.5, "f1": 0.5}
    # dot: q1 finds cats (2) before fish (1); q2 scores dogs and cats 1 each: the higher id comes first
    assert [list(ranked) for ranked in dot.run.values()] == [["c", "f"], ["d", "c"]]
    assert dot.metrics == {"exact_match": 1.0, "f1": 1.0}
    assert dot.counts == {
        "queries": 2,
        "queries_without_answers": 1,
        "documents": 3,
        "documents_without_text": 0,
        "prompts_shortened": 1,
    }
    assert (dot.configuration["reader"], dot.configuration["k"], dot.main_metric) == ("first", 2, "exact_match")
    assert [role for role, _, _ in encoder.embedded] == ["query", "document"]
    assert json.loads(json.dumps(dot.to_json(True), allow_nan=False))
    assert task.describe() == (
        "pets: 2 questions, 3 documents, the 2 best of which first reads; 1 queries without answers, left out"
    )
    assert task.digest() is None


def test_metrics(folder: Path) -> None:
    task = Rag(read_questions(folder), First())
    task.check_metrics(["f1", "exact_match"])
    with pytest.raises(UsageError, match=r"unknown metric 'exact-match' \(did you mean exact_match\?\)"):
        task.check_metrics(["exact-match"])
    (result,) = task.evaluate(GivenEncoder(VECTORS), [retrokit.similarity("cosine")], ["f1"])
    assert list(result.metrics) == ["exact_match", "f1"]


def test_wrong_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: is no folder; expected corpus.jsonl, and queries.jsonl"):
        tasks.create(f"rag:{tmp_path / 'nowhere'},reader=x")
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "Who?"}\n')
    with pytest.raises(DataError, match=r"queries.jsonl: no query has answers; expected a field 'answers'"):
        read_questions(folder)
    (folder / "corpus.jsonl").unlink()
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "Who?", "answers": ["x"]}\n')
    with pytest.raises(DataError, match=r"holds no corpus.jsonl"):
        read_questions(folder)


def test_readers_that_cannot_be_had(folder: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"queries.jsonl is a file; a reader is a folder or a hub id"):
        tasks.create(f"rag:{folder},reader={folder / 'queries.jsonl'}")
    with pytest.raises(DataError, match=r"is no model that writes text"):
        tasks.create(f"rag:{folder},reader={folder}")
    with pytest.raises(DataError, match=r"is no model that writes text: its weights lack cls"):
        tasks.create(f"rag:{folder},reader={tiny_bert}")

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.model_info", fail)
    with pytest.raises(ServiceError, match=r"'google/flan-t5-large' is no folder, and the model hub gave nothing: no"):
        tasks.create(f"rag:{folder},reader=google/flan-t5-large")


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A sequence-to-sequence checkpoint of a few thousand weights; its tokenizer allows 64 tokens."""
    folder = tmp_path_factory.mktemp("models") / "t5"
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    tokenizer.save_pretrained(folder)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)  # so that what is read changes what is written
        model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_generation_is_the_librarys(kind: str, tiny_t5: Path, tiny_llama: Path) -> None:
    made = load_generator(str(tiny_t5 if kind == "t5" else tiny_llama), None, 6)
    texts = ["the cat runs", "a small red fish sleeps under the house", "dog"]
    expected = []
    for text in texts:  # one at a time: no padding
        ids = made.tokenizer(text, return_tensors="pt")["input_ids"].to(made.model.device)
        written = made.model.generate(input_ids=ids, max_new_tokens=6, do_sample=False)
        written = written[0] if kind == "t5" else written[0, ids.shape[1] :]
        decoded = made.tokenizer.decode(written, skip_special_tokens=True).strip()
        expected.append(decoded if kind == "t5" else (decoded.splitlines() or [""])[0].strip())
    assert made.generate(texts) == expected
    assert len(set(expected)) > 1
    assert made.window == (64 if kind == "t5" else 58)
    assert made.generate([]) == []


def test_too_long_a_prompt_loses_the_end_of_its_passages(tiny_t5: Path) -> None:
    made = load_generator(str(tiny_t5), None, 4)
    passages = ["the cat sees a dog near the river " * 3, "the bird flies " * 20]
    prompt = prompt_of("who runs ?", passages)
    fitted = made.fitted(prompt)
    assert len(made.tokenizer(fitted)["input_ids"]) <= 64 < len(made.tokenizer(prompt.text)["input_ids"])
    assert len(made.tokenizer(fitted)["input_ids"]) > 60  # no more is lost than has to be
    assert fitted.startswith(prompt.before)
    assert fitted.endswith("\nAnswer:")
    assert prompt.middle.startswith(fitted.removeprefix(prompt.before).removesuffix(prompt.after))
    short = prompt_of("who runs ?", ["a cat"])
    assert made.fitted(short) == short.text
    answers = LocalReader(made).answer([prompt, short])
    assert answers.shortened == 1
    assert answers.texts == made.generate([fitted, short.text])
    with pytest.raises(UsageError, match=r"reads 64 tokens, too few for 'Question: dog dog"):
        made.fitted(prompt_of("dog " * 80, ["x"]))


def test_max_length_is_the_readers(tiny_t5: Path) -> None:
    made = load_generator(str(tiny_t5), 55, 4)
    assert made.window == 55
    assert len(made.tokenizer(made.fitted(prompt_of("who ?", ["the bird flies " * 20])))["input_ids"]) <= 55


def test_the_whole_task(folder: Path, tiny_t5: Path) -> None:
    task = tasks.create(f'rag:{folder},reader="{tiny_t5},new_tokens=5",k=1')
    (result,) = task.evaluate(GivenEncoder(VECTORS), [retrokit.similarity("cosine")])
    assert result.configuration["reader"] == f"{tiny_t5},new_tokens=5"
    assert result.counts["prompts_shortened"] == 0
    assert set(result.per_query["f1"]) == {"q1", "q2"}
    assert all(len(ranked) == 1 for ranked in result.run.values())


def test_the_digest_follows_the_data_and_the_reader(folder: Path, tiny_t5: Path) -> None:
    def digest(options: str = "") -> str | None:
        return tasks.create(f'rag:{folder},reader="{tiny_t5}{options}"').digest()

    before = digest()
    assert digest() == before is not None
    assert digest(",new_tokens=5") != before
    assert digest(",max_length=20") != before
    with open(folder / "corpus.jsonl", "a") as stream:
        stream.write('{"_id": "z", "text": "Zebras."}\n')
    assert digest() != before
