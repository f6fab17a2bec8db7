"""A language model as an annotator."""

from pathlib import Path
from typing import Any

import pytest

from retrokit.core.calls import PromptRefused
from retrokit.llm.base import Completion, Sampling
from retrokit.sure.agreement import read_verdicts
from retrokit.sure.audit import Sample, draw_sample, judge_sample
from retrokit.sure.prompts import load_prompts
from tests.sure.pretending import ScriptedLLM, fields_of
from tests.sure_folders import small_folder

PROMPTS = load_prompts()


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return draw_sample(small_folder(tmp_path / "sure"), 2)


class Critic(ScriptedLLM):
    """Calls summaries unqualified, mumbles on expansions, does not take paraphrases."""

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        self.prompts.append(("judge", prompt, system))
        variant = fields_of(prompt)["variant"]
        if variant.startswith("paraphrase"):
            raise PromptRefused("too long")
        text = {"summary": "**No**, it lacks the answer.", "expansion": "Hm."}.get(variant.split()[0], "Yes.")
        return Completion(text, 1, 1)


def judged(sample: Sample, output: Path, llm: Any, **more: Any) -> Any:
    how = {"sampling": Sampling(), "concurrency": 4, "store": output.with_suffix(".sqlite"), **more}
    return judge_sample(sample, llm, output, prompts=PROMPTS, **how)


def test_a_model_judges_the_sample(tmp_path, sample):
    llm = Critic()
    found = judged(sample, tmp_path / "m.jsonl", llm)
    assert (found.qualified, found.unqualified, found.without_verdict) == (4, 2, 4)
    verdicts = read_verdicts([tmp_path / "m.jsonl"])["scripted"]
    assert {kind for (_, kind), qualified in verdicts.items() if not qualified} == {"summary"}
    assert {kind for (_, kind), qualified in verdicts.items() if qualified} == {
        "key-sentences",
        "key-sentences-with-noise",
    }
    asked = [prompt for _, prompt, _ in llm.prompts]
    assert (
        sum("An earlier answer was rejected: the answer is neither 'yes' nor 'no'" in prompt for prompt in asked) == 4
    )
    for item in sample.items:
        (first,) = [
            prompt for prompt in asked if fields_of(prompt)["variant"] == item.variant and "rejected" not in prompt
        ]
        assert fields_of(first) == {"query": item.query, "passage": item.passage, "variant": item.variant}
        assert PROMPTS["judge"].words[item.kind] in first


def test_a_second_time_makes_no_call(tmp_path, sample):
    judged(sample, tmp_path / "m.jsonl", Critic(), annotator="M")
    before = (tmp_path / "m.jsonl").read_bytes()
    again = Critic()
    judged(sample, tmp_path / "m.jsonl", again, annotator="M")
    assert all(fields_of(prompt)["variant"].startswith("paraphrase") for _, prompt, _ in again.prompts)
    assert (tmp_path / "m.jsonl").read_bytes() == before
    assert list(read_verdicts([tmp_path / "m.jsonl"])) == ["M"]
