"""Base language models: where an answer ends, and prompts of examples that they continue."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from retrokit.augmentation.edits import NEAR_MISSES, by_model
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.files import write_near_misses
from retrokit.data.jsonl import write_jsonl
from retrokit.llm import registry
from retrokit.llm.base import Sampling
from retrokit.llm.local import LocalLLM
from retrokit.llm.session import Session
from retrokit.sure import prompts as sure
from tests.llm.server import ChatServer, Plan, error, message, prompt_of
from tests.llm.test_llm_local import TEXTS, complete, greedy

# --- the end of an answer


@pytest.mark.parametrize("name", ["tiny_t5", "tiny_llama"])
def test_a_stop_string_ends_a_local_models_answer(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    plain: LocalLLM = registry.create(f"local:{folder}")
    whole = [greedy(plain.generator, text, 12) for text in TEXTS]
    end = whole[0][4:7]
    expected = [text.split(end)[0].strip() for text in whole]
    assert expected[0] != whole[0]
    found = complete(plain, TEXTS, Sampling(max_tokens=12, stop=(end, "never written")))
    assert [answer.text for answer in found] == expected
    assert [answer.finish for answer in found] == ["stop" if end in text else "length" for text in whole]
    assert found[0].completion_tokens < 12  # it was not written to its limit and cut afterwards
    own = registry.create(f"local:{folder},stop={end}")
    assert [answer.text for answer in complete(own, TEXTS, Sampling(max_tokens=12))] == expected
    assert own.identity == f"{plain.identity} stop={[end]}"


def picky(body: dict[str, Any]) -> bytes | None:
    refusal = error("No stop here.", param="stop", code="unsupported_parameter")
    return message(400, refusal) if "stop" in body and body["messages"][-1]["content"] == "picky" else None


@pytest.mark.parametrize("prompt", ["plain", "picky"])
def test_a_service_gets_it_and_may_ignore_or_refuse_it(prompt: str) -> None:
    async def asked(spec: str, sampling: Sampling) -> str:
        async with Session(registry.create(spec), None, sampling=sampling) as session:
            return (await session.ask(prompt)).text

    with ChatServer(Plan(lambda body: "a claim\nText: another\n\nText", reply=picky)) as server:
        spec = f"openai:m,url={server.url}"
        assert asyncio.run(asked(spec, Sampling())) == "a claim\nText: another\n\nText"
        assert asyncio.run(asked(spec, Sampling(stop=("\n\n",)))) == "a claim\nText: another"
        assert asyncio.run(asked(spec + r",stop=\n", Sampling(stop=("\n\n",)))) == "a claim"
    sent = [body.get("stop") for body in server.log.bodies]
    again = [None] if prompt == "picky" else []
    assert sent == [None, ["\n\n"], *again, ["\n\n", "\n"], *again]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [f"The animal number {n} sleeps under an old bridge and eats leaves." for n in range(120)]
    write_jsonl(tmp_path / "corpus.jsonl", ({"id": f"d{n}", "text": text} for n, text in enumerate(texts)))
    return tmp_path / "corpus.jsonl"


# --- prompts that end where the answer begins


def test_near_misses_by_examples(corpus: Path) -> None:
    pytest.importorskip("HanTa", reason="of the extra negatives")
    edits = {"negation": ("sleeps", "never sleeps"), "spatial": ("under", "above")}

    def edited(body: dict[str, Any]) -> str:
        family = next(name for name in edits if prompt_of(body).startswith(FAMILY_PROMPTS[name].template[:150]))
        return f" {re.findall('Sentence: (.*)', prompt_of(body))[-1].replace(*edits[family])}\n\nSentence: A"

    with ChatServer(Plan(edited)) as server:
        words = {"families": list(edits), "llm": f"openai:m,url={server.url}", "prompts": "few-shot"}
        written = write_near_misses(str(corpus), str(corpus.with_name("near.jsonl")), **words)
    assert (written.counts["negation/train"], written.counts["spatial/train"]) == (120, 120)
    assert {(*body["stop"], body["max_tokens"]) for body in server.log.bodies} == {("\n", 128)}


OURS, FEW_SHOT = sure.load_prompts(), sure.load_prompts("few-shot")


# --- the examples are what the checks let through


def examples(template: str, *fields: str) -> list[tuple[str, ...]]:
    """The texts of the examples, in the order of their ``fields``, the labels of the lines."""
    pattern = "\n".join(rf"{re.escape(field)} ?(.*)" for field in fields)
    return [match.groups() for part in template.split("\n\n")[:-1] if (match := re.fullmatch(pattern, part))]


FAMILY_PROMPTS = {prompt.name: prompt for prompt in by_model.prompts_of(load_families(NEAR_MISSES), "few-shot")}
