"""A local model: what it writes is the library's, whatever else is computed with it, and its draws are of its
distribution."""

import asyncio
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from retrokit.core.errors import DataError, UsageError
from retrokit.llm import registry
from retrokit.llm.base import Completion, Prompt, Sampling
from retrokit.llm.local import Generator, LocalLLM, LocalRequest, load_generator
from retrokit.llm.session import Session
from retrokit.llm.store import ResponseStore
from tests.models import sentences

TEXTS = ["the cat runs", "a small red fish sleeps under the house", "dog"]
TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }} : {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)


def greedy(made: Generator, text: str, new_tokens: int) -> str:
    """By the library alone, one text at a time: no padding."""
    ids = made.tokenizer(text, return_tensors="pt")["input_ids"].to(made.model.device)
    written = made.model.generate(input_ids=ids, max_new_tokens=new_tokens, do_sample=False)
    written = written[0] if made.writes_anew else written[0, ids.shape[1] :]
    return made.tokenizer.decode(written, skip_special_tokens=True).strip()


def complete(llm: LocalLLM, texts: list[str], sampling: Sampling, system: str | None = None) -> list[Completion]:
    async def asked() -> list[Completion]:
        async with Session(llm, None, sampling=sampling) as session:
            return await asyncio.gather(*(session.ask(text, system=system) for text in texts))

    return asyncio.run(asked())


@pytest.fixture(params=["t5", "llama"])
def model(request: pytest.FixtureRequest, tiny_t5: Path, tiny_llama: Path) -> Path:
    return tiny_t5 if request.param == "t5" else tiny_llama


def test_greedy_answers_are_the_librarys(model: Path) -> None:
    llm = registry.create(f"local:{model}")
    expected = [greedy(llm.generator, text, 6) for text in TEXTS]
    assert len(set(expected)) > 1
    found = complete(llm, TEXTS, Sampling(max_tokens=6))
    assert [completion.text for completion in found] == expected
    assert [completion.prompt_tokens for completion in found] == [len(llm.generator.tokens(text)) for text in TEXTS]
    assert complete(llm, TEXTS[::-1], Sampling(max_tokens=6)) == found[::-1]  # once more, in a new event loop


def test_prompts_that_wait_together_are_computed_together(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    plain = Generator.generate

    def counted(self: Generator, requests: list[LocalRequest], *rest: Any) -> object:
        sizes.append(len(requests))
        return plain(self, requests, *rest)

    llm = registry.create(f"local:{tiny_llama},batch=4")
    monkeypatch.setattr(Generator, "generate", counted)
    complete(llm, sentences(10), Sampling(max_tokens=3))
    assert sizes == [4, 4, 2]


def test_lengths_and_ends(tiny_llama: Path) -> None:
    llm = registry.create(f"local:{tiny_llama}")
    made = llm.generator
    (whole,) = complete(llm, ["the cat"], Sampling(max_tokens=8))
    assert (whole.completion_tokens, whole.finish) == (8, "length")
    ids = made.tokenizer("the cat", return_tensors="pt")["input_ids"]
    written = made.model.generate(input_ids=ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :].tolist()
    made.model.generation_config.eos_token_id = [written[4]]  # now that is how an answer ends
    (ended,) = complete(llm, ["the cat"], Sampling(max_tokens=8))
    assert (ended.completion_tokens, ended.finish) == (written.index(written[4]) + 1, "stop")


def test_a_chat_template_is_used(tiny_llama: Path, tmp_path: Path) -> None:
    llm = registry.create(f"local:{tiny_llama}")
    plain = llm.identity
    assert llm.generator.chat("the cat", None) == "the cat"
    assert llm.generator.chat("the cat", "a dog") == "a dog\n\nthe cat"
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.chat_template = TEMPLATE
    chat = LocalLLM(Generator("chat", llm.generator.model, tokenizer))
    tokenizer.pad_token = tokenizer.eos_token
    text = "<s>system : a dog <s>user : the cat assistant : "
    assert chat.generator.chat("the cat", "a dog") == text
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids.count(tokenizer.bos_token_id) == 2  # the template's own: none is added
    (found,) = complete(chat, ["the cat"], Sampling(max_tokens=5), system="a dog")
    assert found.prompt_tokens == len(ids)
    written = chat.generator.model.generate(input_ids=torch.tensor([ids]), max_new_tokens=5, do_sample=False)
    assert found.text == tokenizer.decode(written[0, len(ids) :], skip_special_tokens=True).strip()
    assert chat.identity != plain
    # some templates refuse a system message
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('none') }}{% endif %}" + TEMPLATE
    )
    assert chat.generator.chat("the cat", "a dog") == "<s>user : a dog\n\nthe cat assistant : "


def test_too_long_a_prompt_loses_the_end_of_its_middle(tiny_t5: Path) -> None:
    made = load_generator(str(tiny_t5), None)
    prompt = Prompt("who runs ? ", "the cat sees a dog near the river " * 3 + "the bird flies " * 20, " which ?")
    fitted = made.fitted(prompt, 4)
    assert 60 < len(made.tokenizer(fitted)["input_ids"]) <= 64 < len(made.tokenizer(prompt.text)["input_ids"])
    assert fitted.startswith(prompt.before)
    assert fitted.endswith(prompt.after)
    assert prompt.middle.startswith(fitted.removeprefix(prompt.before).removesuffix(prompt.after))
    short = Prompt("who runs ?", "a cat", "")
    assert made.fitted(short, 4) == short.text
    with pytest.raises(UsageError, match=r"reads 64 tokens, too few for 'dog dog"):
        made.fitted(Prompt("dog " * 80, "x", ""), 4)
    assert len(made.tokenizer(load_generator(str(tiny_t5), 55).fitted(prompt, 4))["input_ids"]) <= 55


def test_a_failure_reaches_its_batch_alone_and_closing_ends_what_is_written(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = registry.create(f"local:{tiny_llama},batch=1")
    plain = Generator.generate

    def failing(self: Generator, requests: list[LocalRequest], *rest: Any) -> object:
        if len(requests[0].ids) > 3:
            raise torch.OutOfMemoryError("full")
        return plain(self, requests, *rest)

    monkeypatch.setattr(Generator, "generate", failing)

    async def both() -> list[Any]:
        calls = [llm.complete(text, None, Sampling(max_tokens=2)) for text in ("the cat runs by", "dog")]
        return await asyncio.gather(*calls, return_exceptions=True)

    failed, answer = asyncio.run(both())
    assert str(failed).endswith("1 prompts do not fit into the GPU's memory; give a smaller `batch=`")
    assert answer.completion_tokens == 2

    started = threading.Event()

    def endless(self: Generator, requests: list[LocalRequest], is_stopped: Callable[[], bool]) -> list[Completion]:
        started.set()
        while not is_stopped():
            time.sleep(0.001)
        return [Completion("ended", 1, 1)]

    async def closed() -> Completion:
        writing = asyncio.create_task(llm.complete("dog", None, Sampling()))
        while not started.is_set():
            await asyncio.sleep(0.001)
        await llm.close()
        return await writing

    monkeypatch.setattr(Generator, "generate", endless)
    assert asyncio.run(closed()).text == "ended"
    monkeypatch.setattr(Generator, "generate", plain)
    assert asyncio.run(both())[1].completion_tokens == 2, "and it can be asked again"


def test_the_identity_is_of_the_weights(tiny_llama: Path, tmp_path: Path) -> None:
    llm = registry.create(f"local:{tiny_llama}")
    again = registry.create(f"local:{tiny_llama},batch=2")
    assert llm.identity == again.identity
    with torch.no_grad():
        next(again.generator.model.parameters())[0, 0] += 1
    assert LocalLLM(again.generator).identity != llm.identity
    with ResponseStore(tmp_path / "s.db") as store:

        async def asked() -> dict[str, int]:
            async with Session(llm, store) as session:
                await asyncio.gather(*map(session.ask, TEXTS))
                return session.counts

        assert asyncio.run(asked())["calls"] == 3
        assert asyncio.run(asked())["from_store"] == 3


WEIGHTS = "model.safetensors"


def setting(name: str, **values: Any) -> Callable[[Path], None]:
    """Change keys of a JSON file."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))

    return change


def holds(name: str, text: str | bytes) -> Callable[[Path], None]:
    """Put a text in a file's place."""
    return lambda folder: (folder / name).write_bytes(text.encode() if isinstance(text, str) else text) and None


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def renamed(folder: Path) -> None:
    save_file({f"x.{name}": row for name, row in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)


def reshaped(folder: Path) -> None:
    save_file({name: row[:2].clone() for name, row in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)


def short_table(folder: Path) -> None:
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    setting("config.json", vocab_size=2)(folder)
    weights = load_file(folder / WEIGHTS)
    save_file({name: row[:2].clone() if len(row) == rows else row for name, row in weights.items()}, folder / WEIGHTS)


def pickled(folder: Path) -> None:
    torch.save({"a": os.system}, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


DEEP = "[" * 100_000 + "]" * 100_000
DAMAGES: dict[str, Callable[[Path], None]] = {
    **{
        f"{name}: {text[:9]}": holds(name, text)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
        for text in ("", "[]", "5", DEEP)
        if (name, text) != ("generation_config.json", "")
    },
    **{
        f"config: {name}={value!r}": setting("config.json", **{name: value})
        for name, value in (
            *(("hidden_size", "x"), ("hidden_size", [1]), ("hidden_size", -1), ("hidden_size", 10**12)),
            *(("num_hidden_layers", "a"), ("num_attention_heads", 0), ("hidden_act", "nope"), ("dtype", "nope")),
            *(("model_type", "nope"), ("model_type", 5), ("eos_token_id", "x"), ("rope_scaling", "x")),
            *(("max_position_embeddings", "x"), ("max_position_embeddings", -3)),
        )
    },
    **{
        f"tokenizer: {name}={value!r}": setting("tokenizer_config.json", **{name: value})
        for name, value in (
            *(("model_max_length", "x"), ("model_max_length", -5), ("tokenizer_class", 5), ("chat_template", 5)),
            *(("chat_template", "{% if %}"), ("chat_template", "{{ raise_exception('no') }}")),
            *(("chat_template", "{{ messages[7].x.y }}"), ("chat_template", "{{ 1/0 }}"), ("chat_template", [1])),
        )
    },
    "template file": holds("chat_template.jinja", "{% if %}"),
    "end: x": setting("generation_config.json", eos_token_id="x"),
    "end: 10**30": setting("generation_config.json", eos_token_id=10**30),
    "special": setting("special_tokens_map.json", pad_token=5),
    "no tokenizer": without("tokenizer.json"),
    "no weights": without(WEIGHTS),
    "empty weights": holds(WEIGHTS, b""),
    "cut weights": lambda folder: os.truncate(folder / WEIGHTS, 500),
    "other names": renamed,
    "other shapes": reshaped,
    "short table": short_table,
    "pickled": pickled,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_told_in_a_line(damage: str, tiny_llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_llama, folder)
    DAMAGES[damage](folder)

    async def ask() -> None:
        llm = registry.create(f"local:{folder},device=cpu")
        assert damage == "short table"  # all others are found out when the model is loaded
        async with Session(llm, None) as session:
            await session.ask("the cat runs")

    with pytest.raises(DataError, match=str(folder)) as caught:
        asyncio.run(ask())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
