"""Queries by a base language model: when it is given up, and prompts of examples that it continues."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.core.errors import DataError
from retrokit.extensions.weak_supervision import queries
from retrokit.extensions.weak_supervision.writing import SHAPES
from retrokit.llm.prompts import load_prompts
from retrokit.llm.session import IN_VAIN
from tests.llm.server import ChatServer, Plan, completion, message, prompt_of
from tests.llm.test_few_shot import corpus as corpus


def test_a_model_that_never_ends_is_given_up(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s", reason="of the extra bm25")
    with ChatServer(Plan(reply=lambda body: message(200, completion("and so on " * 9, "length")))) as server:
        words = ["--llm", f"openai:m,url={server.url}", "--encoder", "bm25", "--types", "claim", "--retries", "0"]
        assert cli.run(["augment", "queries", str(corpus), *words, "-o", str(corpus.with_name("o.jsonl"))]) == 4
        told = "none of the first 64 answers ended within 4,096 tokens; add `stop=` to the model's spec"
        assert told in capsys.readouterr().err
        assert IN_VAIN <= len(server.log.bodies) < 120
    assert corpus.with_name("o.jsonl.answers.sqlite").exists()


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


@pytest.mark.parametrize(
    ("line", "told"), [("stop = 3", "stop is no text"), ("answer-tokens = 0", "answer-tokens is no number from 1")]
)
def test_a_prompt_of_ones_own_that_ends_nowhere(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "retry.toml").write_text(f'{line}\nprompt = "{{reason}}"\n')
    with pytest.raises(DataError, match=told):
        load_prompts(tmp_path, SHAPES, "retrokit.extensions.weak_supervision")
