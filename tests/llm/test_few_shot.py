"""Base language models: where an answer ends, and prompts of examples that they continue."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.augment import queries
from retrokit.augmentation.edits import NEAR_MISSES, by_model
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.files import write_near_misses
from retrokit.augmentation.queries import SHAPES, Asker
from retrokit.augmentation.settings import TYPES
from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.data.jsonl import write_jsonl
from retrokit.llm import registry
from retrokit.llm.base import Completion, CompletionRequest, Sampling
from retrokit.llm.local import LocalLLM
from retrokit.llm.prompts import load_prompts, wording_for
from retrokit.llm.session import IN_VAIN, Session
from retrokit.sure import checks
from retrokit.sure import prompts as sure
from retrokit.sure.build import build
from retrokit.sure.config import SureConfig
from retrokit.sure.variants import read_paraphrase, read_two_sentences
from tests.llm.server import ChatServer, Plan, completion, error, message, prompt_of
from tests.llm.test_llm_local import TEMPLATE, TEXTS, complete, greedy
from tests.sure.pretending import by_rules, write_beir_folder

QUERIES = load_prompts("few-shot", SHAPES, "retrokit.augmentation.queries", ("ours", "few-shot"))


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


def test_prompts_of_other_ends_are_not_computed_together(tiny_llama: Path) -> None:
    llm = registry.create(f"local:{tiny_llama}")
    whole = greedy(llm.generator, TEXTS[0], 12)

    async def both() -> list[Completion]:
        async with Session(llm, None, sampling=Sampling(max_tokens=12)) as session:
            stopping = session.ask(TEXTS[0], sampling=Sampling(max_tokens=12, stop=(whole[4:7],)))
            return await asyncio.gather(session.ask(TEXTS[0]), stopping)

    assert [answer.text for answer in asyncio.run(both())] == [whole, whole.split(whole[4:7])[0].strip()]


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


def test_recorded_answers_end_there_too(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "said.jsonl", [{"prompt": "p", "answer": "a cat\nand more"}])
    plain, ended = (registry.create(f"replay:{tmp_path / 'said.jsonl'}{more}") for more in ("", r",stop=\n"))
    texts = [asyncio.run(llm.complete("p", None, Sampling())).text for llm in (plain, ended)]
    assert (texts, plain.identity != ended.identity) == (["a cat\nand more", "a cat"], True)


def test_a_key_has_stop_strings_only_where_there_are_any() -> None:
    keys = [CompletionRequest("m", Sampling(stop=stop), None, "p").key for stop in ((), ("\n",), ("\n", "x"))]
    assert len(set(keys)) == 3
    assert "stop" not in Sampling().to_json()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [f"The animal number {n} sleeps under an old bridge and eats leaves." for n in range(120)]
    write_jsonl(tmp_path / "corpus.jsonl", ({"id": f"d{n}", "text": text} for n, text in enumerate(texts)))
    return tmp_path / "corpus.jsonl"


def test_a_model_that_never_ends_is_given_up(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s", reason="of the extra bm25")
    with ChatServer(Plan(reply=lambda body: message(200, completion("and so on " * 9, "length")))) as server:
        words = ["--llm", f"openai:m,url={server.url}", "--encoder", "bm25", "--types", "claim", "--retries", "0"]
        assert cli.run(["augment", "queries", str(corpus), *words, "-o", str(corpus.with_name("o.jsonl"))]) == 4
        told = "none of the first 64 answers ended within 4,096 tokens; add `stop=` to the model's spec"
        assert told in capsys.readouterr().err
        assert IN_VAIN <= len(server.log.bodies) < 120
    assert corpus.with_name("o.jsonl.answers.sqlite").exists()


# --- prompts that end where the answer begins


def test_a_base_model_gets_them_by_itself(tiny_llama: Path, tiny_t5: Path) -> None:
    base, encoder_decoder = (registry.create(f"local:{folder}") for folder in (tiny_llama, tiny_t5))
    with heard() as said:
        assert [wording_for(base), wording_for(encoder_decoder), wording_for(object())] == ["few-shot", "ours", "ours"]
    assert said == [f"{base.spec} has no chat template: a base model continues texts, so `prompts=` is few-shot"]
    base.generator.tokenizer.chat_template = TEMPLATE
    assert wording_for(LocalLLM(base.generator)) == "ours"


def continuing(body: dict[str, Any]) -> str:
    """As a base model that has understood the examples; its first answer about number 3 is no claim."""
    number = re.findall(r"number (\d+)", prompt_of(body))[-1]
    if number == "3" and not body["temperature"]:
        return "The animal number 3 sleeps under an old bridge and eats leaves."
    return f"A beast {number} rests below bridges.\n\nPassage: The sea is salty."


def test_queries_by_examples(corpus: Path) -> None:
    pytest.importorskip("bm25s", reason="of the extra bm25")
    output = corpus.with_name("out.jsonl")
    with ChatServer(Plan(continuing)) as server:
        options = {"llm": f"openai:m,url={server.url}", "prompts": "few-shot", "types": ("claim",), "judge": "none"}
        written = queries(str(corpus), str(output), **options, searcher="none")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["anchor"] for row in rows] == [f"A beast {n} rests below bridges." for n in range(120)]
    assert written.rejections == {"copied": 1}
    first, second = (body for body in server.log.bodies if "number 3 " in prompt_of(body))
    assert [first["stop"], first["max_tokens"], first["temperature"]] == [["\n"], 64, 0]
    assert (second["temperature"], second["messages"]) == (0.7, first["messages"])  # a draw: it reads no reason
    assert [part["role"] for part in first["messages"]] == ["user"]
    assert prompt_of(first).endswith("eats leaves.\nClaim:")


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


class FewShotLLM:
    """Continues the few-shot prompts of SURE with the answers by rules."""

    spec = identity = "base"

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        for name, template in FEW_SHOT.items():
            examples, last = template.template.rpartition("\n\n")[::2]
            for word, text in template.words.items():
                last = last.replace(f"{{{word}}}", text)
            last = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(last))
            if template.stop and prompt.startswith(examples[:40]) and (match := re.search(f"{last}$", prompt)):
                answer = by_rules(OURS[name].fill(**match.groupdict()))
                for word, text in OURS[name].words.items():
                    answer = answer.replace(text, template.words[word])
                answer = " ".join(answer.split()) if template.stop == "\n" else answer
                return Completion(answer.removeprefix(template.words.get("marker", "")) + "\n\nQuery: what", 1, 1)
        raise AssertionError(prompt)

    async def close(self) -> None:
        """Nothing to close."""


def test_a_benchmark_by_examples(tmp_path: Path) -> None:
    config = SureConfig(str(write_beir_folder(tmp_path / "law")), output=str(tmp_path / "out"), retries=0)
    built = build(config, config.items(), FewShotLLM(), FEW_SHOT)
    assert set(built.record["wordings"].values()) == {"few-shot"}
    assert all(counts["kept"] == 6 for counts in built.record["testbeds"].values())


# --- the examples are what the checks let through


def examples(template: str, *fields: str) -> list[tuple[str, ...]]:
    """The texts of the examples, in the order of their ``fields``, the labels of the lines."""
    pattern = "\n".join(rf"{re.escape(field)} ?(.*)" for field in fields)
    return [match.groups() for part in template.split("\n\n")[:-1] if (match := re.fullmatch(pattern, part))]


@pytest.mark.parametrize("name", TYPES)
def test_examples_of_queries_pass(name: str) -> None:
    class Example:
        sampling = Sampling()

        async def ask_until(self, prompt: Any, retry: Any, retries: int, read: Any, **fields: str) -> str:
            return read(Completion(answer, 1, 1))

        def whole(self, completion: Completion) -> str:
            return completion.text

    pairs = examples(QUERIES[name].template, "Passage:", "{marker}")
    assert len(pairs) == 3
    for passage, answer in pairs:
        asker = Asker(Example(), QUERIES, 0, Counter())  # type: ignore[arg-type]
        assert asyncio.run(asker.query(passage, name)) == answer


FAMILY_PROMPTS = {prompt.name: prompt for prompt in by_model.prompts_of(load_families(NEAR_MISSES), "few-shot")}


@pytest.mark.parametrize("family", load_families(NEAR_MISSES), ids=lambda family: family.name)
def test_examples_of_near_misses_pass(family: Any) -> None:
    pairs = examples(FAMILY_PROMPTS[family.name].template, "Sentence:", "Edited:")
    causes = [by_model.why_rejected(*pair, family.least_overlap) for pair in pairs]
    assert (len(pairs), set(causes) - {"none"}) == (4, {None})


def test_examples_of_sures_prompts_pass() -> None:
    few = {name: prompt.template for name, prompt in FEW_SHOT.items()}
    for _, passage, sentences in examples(few["key-sentences"], "Query:", "Passage:", "{marker}"):
        checks.check_key_sentences([sentences], passage)
    for passage, sentences, replaced in examples(few["pronouns"], "Passage:", "Sentences:", "{marker}"):
        checks.check_pronouns(replaced, sentences, passage, "")
    for _, noise in examples(few["noise"], "Query:", "{marker}"):
        checks.check_noise(read_two_sentences(f"x: {noise}", "x:", "en"), [])
    for _, passage, summary in examples(few["summary"], "Query:", "Passage:", "{marker}"):
        checks.check_summary(summary, passage)
    for passage, expansion in examples(few["expansion"], "Passage:", "{marker}"):
        checks.check_expansion(expansion, passage)
    for query, passage, named, other in examples(few["paraphrase"], "Query:", "Passage:", "{keywords}", "{marker}"):
        keywords, _ = read_paraphrase(f"k: {named}\nm: {other}", "k:", "m:")
        checks.check_paraphrase(other, passage, checks.keywords_in_query(keywords, query))


@pytest.mark.parametrize(
    ("line", "told"), [("stop = 3", "stop is no text"), ("answer-tokens = 0", "answer-tokens is no number from 1")]
)
def test_a_prompt_of_ones_own_that_ends_nowhere(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "retry.toml").write_text(f'{line}\nprompt = "{{reason}}"\n')
    with pytest.raises(DataError, match=told):
        load_prompts(tmp_path, SHAPES, "retrokit.augmentation.queries")
