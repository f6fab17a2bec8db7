"""``retrokit build-sure`` from the words of the command line to files, output and exit codes."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from retrokit.data.sure import read_sure
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.sure.pretending import by_rules, write_beir_folder

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def build_sure(typed: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``retrokit build-sure …``."""
    monkeypatch.setenv("COLUMNS", "200")
    return partial(typed, "build-sure")


@pytest.fixture
def llm() -> Iterator[str]:
    with ChatServer(Plan(lambda body: by_rules(prompt_of(body)))) as server:
        yield f"openai:m,url={server.url}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_beir_folder(tmp_path / "law")


def test_build_in_short_and_in_full(build_sure, tmp_path, data, llm):
    code, shown, _ = build_sure(data, "--llm", llm, "-o", tmp_path / "a", "--store", tmp_path / "s.sqlite")
    assert code == 0
    assert "54 calls" in shown
    assert "precision" in shown
    assert read_sure(tmp_path / "a").testbeds["equivalence"] == [f"q{i}" for i in range(6)]
    code, shown, _ = build_sure(
        "build", data, "--llm", llm, "-o", tmp_path / "b", "--store", tmp_path / "s.sqlite", "--json"
    )
    found = json.loads(shown)
    assert (code, found["calls"]["calls"], found["calls"]["from_store"]) == (0, 0, 54)
    assert found["testbeds"]["precision"] == {"kept": 6, "dropped": {}}
    code, _, said = build_sure(data, "--llm", llm, "-o", tmp_path / "a")
    assert (code, "a exists; give --overwrite" in said) == (2, True)
    assert build_sure(data, "--llm", llm, "-o", tmp_path / "a", "--limit", 2, "--overwrite")[0] == 0
    assert len(read_sure(tmp_path / "a").queries) == 2


def test_a_dry_run_says_where_texts_would_go(build_sure, data):
    said = build_sure(data, "--llm", "openai:m,url=http://localhost:9/v1", "--dry-run")[2]
    assert "openai:m: texts would be sent to localhost:9\n" in said
    assert "texts are sent" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["DATA", "-o", "out"], "name a language model: --llm (or only count: --dry-run)"),
        (["DATA", "--llm", "opnai:m", "-o", "out"], "unknown llm 'opnai' (did you mean openai?)"),
        (["--queries", "q.jsonl", "--dry-run"], "both --queries and --passages"),
        (["DATA", "--queries", "q.jsonl", "--dry-run"], "not both"),
        (["DATA", "--testbeds", "precision,abstracton", "--dry-run"], "--testbeds abstracton: unknown testbed"),
        (["DATA", "--retries", "-1", "--dry-run"], "greater than or equal to 0"),
        (["DATA", "--retries", "99999999999999999999", "--dry-run"], "less than or equal to 100"),
        (
            ["DATA", "--answer-tokens", "99999999999999999999", "--dry-run"],
            "less than or equal to 10000000",
        ),
        (["DATA", "--temperature", "inf", "--dry-run"], "--temperature inf is out of range"),
        (["DATA", "--temperature", "nan", "--dry-run"], "--temperature nan is out of range"),
        (
            ["DATA", "--llm", "replay:FILE", "-o", "out", "--concurrency", "99999999999999999999"],
            "less than or equal to 1024",
        ),
        (["DATA", "--llm", "replay:FILE", "-o", "out", "--max-tokens", "0"], "is out of range (at least 1)"),
        (["DATA", "--llm", "openai:m,timeout=inf", "-o", "out"], "timeout=inf is out of range (0.1 to 86400)"),
        (["DATA", "--llm", "openai:m,timeout=nan", "-o", "out"], "timeout=nan is out of range (0.1 to 86400)"),
        (["DATA", "--llm", "openai:m,timeout=1e300", "-o", "out"], "timeout=1e300 is out of range (0.1 to 86400)"),
        (["DATA", "--llm", "local:m,batch=99999999999999999999", "-o", "out"], "out of range (1 to 4096)"),
        (["DATA", "--limit", "0", "--dry-run"], "--limit 0 is out of range (at least 1)"),
        (["DATA", "--split", "dev", "--dry-run"], "has no split 'dev'"),
        (["nowhere", "--dry-run"], "nowhere: does not exist"),
        (["DATA", "--prompts", "nowhere", "--dry-run"], "nowhere: is neither ours nor paper"),
        (["DATA", "--llm", "replay:nowhere.jsonl", "-o", "out"], "nowhere.jsonl: does not exist"),
        (["DATA", "--answer-tokens", "0", "--dry-run"], "greater than or equal to 1"),
    ],
)
def test_wrong_use_is_one_clear_line(build_sure, tmp_path, data, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    recorded = tmp_path / "law" / "recorded.jsonl"
    recorded.write_text('{"prompt": "p", "answer": "a"}\n')
    named = {"DATA": str(data), "replay:FILE": f"replay:{recorded}"}
    code, _, said = build_sure(*[named.get(word, word) for word in words])
    assert code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["law"]
