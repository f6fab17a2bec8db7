"""Whole builds: the files that come out, what is asked again after a break, and a service that misbehaves."""

import json
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import ServiceError, UsageError
from retrokit.data.sure import TESTBEDS, read_sure
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.llm.base import Completion, Sampling
from retrokit.llm.session import BudgetSpent
from retrokit.llm.store import default_store
from retrokit.sure.build import Built, build
from retrokit.sure.config import SureConfig
from retrokit.sure.prompts import load_prompts
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.sure.pretending import ScriptedLLM, by_rules, bytes_of, passage_of, query_of, step_of, write_beir_folder

RELEASE = {
    "expansions.jsonl",
    "key-sentences-with-noise.jsonl",
    "key-sentences.jsonl",
    "passages-with-keywords-replaced.jsonl",
    "passages.jsonl",
    "qrels-6.tsv",
    "query-6-semantic-equivalence.tsv",
    "query-6.tsv",
    "summaries.jsonl",
}
OWN = {"manifest.jsonl", "build-sure.json", "README.md"}
CALLS = 9


class RuledLLM(ScriptedLLM):
    """Answers as ``rule`` says, given the step and the prompt; by the usual rules where it says ``None``."""

    def __init__(self, rule: Callable[[str, str], str | None]) -> None:
        super().__init__()
        self._rule = rule

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        said = self._rule(step_of(prompt), prompt)
        return Completion(said, 1, 1) if said is not None else await super().complete(prompt, system, sampling)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_beir_folder(tmp_path / "law")


def built(data: Path, output: Path, llm: Any = None, **more: Any) -> Built:
    config = SureConfig(str(data), output=str(output), **more)
    return build(config, config.items(), llm or ScriptedLLM(), load_prompts(config.prompts or "ours"))


def manifest_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


# --- the folder


def test_the_layout_is_the_releases(tmp_path, data):
    output = built(data, tmp_path / "sure" / "law").folder
    assert set(bytes_of(output)) == RELEASE | OWN
    assert (output / "query-6.tsv").read_text() == "".join(f"q{i}\t{query_of(i)}\n" for i in range(6))
    assert (output / "qrels-6.tsv").read_text() == "".join(f"q{i}\t0\tp{i}\t1\n" for i in range(6))
    rows = [json.loads(line) for line in (output / "passages.jsonl").read_text().splitlines()]
    assert rows == [{"id": f"p{i}", "contents": passage_of(i)} for i in range(6)]


def test_what_is_written_is_read(tmp_path, data):
    found = read_sure(built(data, tmp_path / "out").folder)
    ids = [f"q{i}" for i in range(6)]
    assert found.testbeds == dict.fromkeys(TESTBEDS, ids)
    assert found.originals == {f"q{i}": f"p{i}" for i in range(6)}
    assert found.variants["summary"]["p4"] == by_rules_summary(4)
    assert all(count == 0 for counts in found.dropped.values() for count in counts.values())
    assert found.repeated == 0


def by_rules_summary(number: int) -> str:
    sentence = passage_of(number).split(". ")[1]
    return f"In short: {sentence}."


def test_a_query_leaves_a_testbed_and_stays_in_others(tmp_path, data):
    def rule(step: str, prompt: str) -> str | None:
        bad = (step == "noise" and "type 2" in prompt) or (step == "paraphrase" and "type 4" in prompt)
        worse = step in ("summary", "key-sentences", "paraphrase") and "type 5" in prompt
        return "nothing of use" if bad or worse else None

    result = built(data, tmp_path / "out", RuledLLM(rule))
    found = read_sure(result.folder)
    assert found.testbeds == {
        "precision": ["q0", "q1", "q3", "q4"],
        "abstraction": ["q0", "q1", "q2", "q3", "q4"],
        "equivalence": ["q0", "q1", "q2", "q3"],
    }
    assert set(found.variants["key-sentences"]) == {"p0", "p1", "p3", "p4"}
    assert set(bytes_of(result.folder)) >= {"query-5.tsv", "query-4-semantic-equivalence.tsv", "qrels-5.tsv"}
    assert set(found.passages) == {f"p{i}" for i in range(5)}
    assert result.record["testbeds"]["precision"] == {
        "kept": 4,
        "dropped": {"key-sentences-with-noise: off_format": 1, "key-sentences: off_format": 1},
    }
    kinds = result.record["kinds"]
    assert kinds["key-sentences-with-noise"] == {
        "tried": 5,
        "at_once": 4,
        "after_retries": 0,
        "dropped": 1,
        "rejections": {"off_format": 3},
    }
    assert kinds["expansion"]["tried"] == 5
    assert [row["kept"] for row in manifest_of(result.folder)[4:]] == [["precision", "abstraction"], []]


def test_the_manifest_tells_how_each_query_went(tmp_path, data):
    llm = RuledLLM(lambda step, prompt: "Summary: no" if step == "summary" and "rejected" not in prompt else None)
    result = built(data, tmp_path / "out", llm)
    rows = manifest_of(result.folder)
    assert [row["query"] for row in rows] == [f"q{i}" for i in range(6)]
    row = rows[2]
    assert (row["passage"], row["model"], row["dropped"]) == ("p2", "scripted", {})
    assert row["position"] in ("start", "middle", "end")
    assert row["keywords"] == ["where", "harbours", "type", "2", "rest"]
    assert row["prompts"]["summary"] == load_prompts()["summary"].digest
    (verdict,) = [call for call in row["calls"] if call["step"] == "verify-key-sentences"]
    assert verdict["answer"] == "yes"
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", call["prompt"]) for call in row["calls"])
    assert len({call["prompt"] for call in row["calls"]}) == len(row["calls"])


def test_nothing_left_is_an_error_and_leaves_nothing(tmp_path, data):
    nonsense = RuledLLM(lambda step, prompt: "colourless green ideas")
    with pytest.raises(ServiceError) as caught:
        built(data, tmp_path / "out", nonsense, retries=0)
    assert str(caught.value) == (
        "the model made no variant that passes of 6 queries (18: the answer is not in the form that was asked for); "
        f"its answers are in {tmp_path / 'out.answers.sqlite'}"
    )
    assert not (tmp_path / "out").exists()


# --- again


def test_a_folder_that_exists_is_not_replaced_unasked(tmp_path, data):
    built(data, tmp_path / "out")
    llm = ScriptedLLM()
    with pytest.raises(UsageError, match="out exists; give `overwrite=`"):
        built(data, tmp_path / "out", llm, store=str(tmp_path / "other.sqlite"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="was not written by build-sure"):
        built(data, tmp_path / "mine", llm, overwrite=True)
    assert llm.prompts == []
    result = built(data, tmp_path / "out", overwrite=True, testbeds="equivalence")
    assert not (result.folder / "query-6.tsv").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["law", "mine", "out", "out.answers.sqlite"]


def test_the_budget_stops_cleanly_and_a_larger_one_goes_on(tmp_path, data):
    whole = built(data, tmp_path / "whole")
    first = ScriptedLLM()
    with pytest.raises(BudgetSpent, match="budget of 4,000 tokens"):
        built(data, tmp_path / "out", first, max_tokens=4000, answer_tokens=100, concurrency=2)
    assert 0 < len(first.prompts) < 6 * CALLS
    assert not (tmp_path / "out").exists()
    second = ScriptedLLM()
    result = built(data, tmp_path / "out", second, answer_tokens=100)
    assert len(first.prompts) + len(second.prompts) == 6 * CALLS
    assert read_sure(result.folder).variants == read_sure(whole.folder).variants


# --- against a server


def served(body: dict[str, Any]) -> str:
    return by_rules(prompt_of(body))


def command(data: Path, output: Path, url: str, *more: str) -> list[str]:
    words = ["build-sure", str(data), "--llm", f"openai:m,url={url}", "-o", str(output), *more]
    return [sys.executable, "-m", "retrokit", *words]


def stored_prompts(store: Path) -> set[str]:
    if not store.exists():
        return set()
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        try:
            return {prompt for (prompt,) in connection.execute("SELECT prompt FROM responses")}
        except sqlite3.OperationalError:  # killed before there was a table
            return set()
        finally:
            connection.rollback()


def killed_and_finished(tmp_path: Path, count: int, kills: int) -> None:
    """Kill builds at random moments, then finish: nothing stored is asked again, and the bytes are those of one go."""
    data = write_beir_folder(tmp_path / "law", count)
    built(data, tmp_path / "whole", NamedLikeTheServer())
    moments = random.Random(0)
    output = tmp_path / "out"
    with ChatServer(Plan(served, delay=0.02)) as server:
        survived = 0
        for _ in range(kills):
            before = {prompt: server.log.asked[prompt] for prompt in stored_prompts(default_store(output))}
            process = subprocess.Popen(
                command(data, output, server.url, "--concurrency", "2"), stdout=subprocess.DEVNULL
            )
            time.sleep(moments.uniform(0.4, 2.0))
            survived += process.poll() is not None
            process.kill()
            process.wait()
            assert {prompt: server.log.asked[prompt] for prompt in before} == before
            if output.exists():
                assert bytes_of(output) == bytes_of(tmp_path / "whole")
                for path in sorted(output.iterdir()):
                    path.unlink()
                output.rmdir()
        before = {prompt: server.log.asked[prompt] for prompt in stored_prompts(default_store(output))}
        subprocess.run(command(data, output, server.url), check=True, stdout=subprocess.DEVNULL, timeout=120)
        assert {prompt: server.log.asked[prompt] for prompt in before} == before
        assert len(server.log.asked) == count * CALLS
    assert survived < kills
    assert bytes_of(output) == bytes_of(tmp_path / "whole")


class NamedLikeTheServer(ScriptedLLM):
    """Answers as the server does, under its model's name."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = "m"


def test_killed_builds_go_on_where_they_were(tmp_path):
    killed_and_finished(tmp_path, count=12, kills=4)


# --- further on


def test_the_benchmark_is_evaluated(tmp_path, data, tiny_bert):
    folder = built(data, tmp_path / "out").folder
    task = tasks.create(f"sure:{folder},reference=maxsim:{tiny_bert}")
    from retrokit import encoders, similarities

    (result,) = task.evaluate(
        Request(encoders.registry.create(str(tiny_bert)), [similarities.registry.create("cosine")])
    )
    assert result.counts["queries"] == 6
    assert {f"{testbed}_queries": result.counts[f"{testbed}_queries"] for testbed in TESTBEDS} == {
        f"{testbed}_queries": 6 for testbed in TESTBEDS
    }
    assert all(0 <= result.metrics[name] <= 1 for name in ("rdc", "roc"))
