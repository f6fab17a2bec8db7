"""The encoder ``api``: embeddings of a service, and a service that misbehaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.errors import RetrokitError, ServiceError, UsageError
from retrokit.llm import retries
from tests.evaluation.fakes import write_folder
from tests.llm.hostile import KEY
from tests.llm.server import FAULTS, ChatServer, Plan, embeddings, error, letters, message
from tests.llm.test_hostile_service import QuickClock
from tests.models import sentences

TEXTS = sentences(150)
EXPECTED = np.array([letters(text) for text in TEXTS], dtype=np.float32)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "clock", QuickClock())
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def spec(server: ChatServer, more: str = "") -> str:
    return f"api:model,url={server.url},batch=16,concurrency=4{more}"


def inputs(server: ChatServer) -> list[str]:
    return [text for body in server.log.bodies for text in body["input"]]


def test_embeddings_come_in_the_order_of_the_texts_and_once() -> None:
    with ChatServer(Plan(key=KEY, delay=0.05)) as server:
        made = retrokit.encoder(spec(server))
        np.testing.assert_array_equal(made.embed(TEXTS, "document"), EXPECTED)
        assert made.dimension == 8
        asked = inputs(server)
        assert sorted(asked[1:]) == sorted(TEXTS), "a probe, and each text"
        assert 1 < server.log.most_at_once <= 4
        assert {body["model"] for body in server.log.bodies} == {"model"}
        again = retrokit.encoder(spec(server))
        np.testing.assert_array_equal(again.embed(TEXTS[::-1], "document"), EXPECTED[::-1])
        assert len(inputs(server)) == len(asked) + 1, "the probe alone"
        assert again.fingerprint() == made.fingerprint()


def test_prompts_dimensions_and_empty_texts_are_sent() -> None:
    with ChatServer() as server:
        made = retrokit.encoder(spec(server, ',dimensions=8,query_prompt="ask: "'))
        found = made.embed(["cat", ""], "query")
        np.testing.assert_array_equal(found, np.array([letters("ask: cat"), letters("ask: ")], dtype=np.float32))
        np.testing.assert_array_equal(made.embed([""], "document")[0], letters(" "))
        assert {body["dimensions"] for body in server.log.bodies} == {8}


def test_it_is_evaluated_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = {f"d{place}": text for place, text in enumerate(TEXTS[:30])}
    data = write_folder(tmp_path / "data", documents, {"q": TEXTS[4]}, {"q": {"d4": 1}})
    with ChatServer() as server:
        words = ["eval", spec(server), "--on", f"beir:{data}", "--metrics", "accuracy@1", "--format", "csv"]
        assert cli.run(words) == 0
        assert "1.0" in capsys.readouterr().out
        refused = ["finetune", spec(server), "--data", str(data), "-o", str(tmp_path / "run")]
        assert cli.run(refused) == 2


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("null", "empty", "no-choices", "slow")])
def test_a_fault_that_passes_changes_nothing(fault: str) -> None:
    with ChatServer(Plan(faults=[fault])) as server:
        np.testing.assert_array_equal(retrokit.encoder(spec(server)).embed(TEXTS, "query"), EXPECTED)


BAD = {
    "one is missing": embeddings(EXPECTED[:1].tolist())[:-30],
    "too few": b'{"data": []}',
    "twice the same": b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    "ragged": b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]}',
    "words": b'{"data": [{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": ["y"]}]}',
    "a number": b'{"data": 7}',
    "nothing": b"null",
    "no vectors": b'{"data": [{"index": 0, "embedding": 3}, {"index": 1, "embedding": 4}]}',
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_answer_ends_in_one_line(name: str) -> None:
    with (
        ChatServer(Plan(reply=lambda body: message(200, BAD[name]) if len(body["input"]) > 1 else None)) as server,
        pytest.raises(ServiceError, match="cut off or no embeddings"),
    ):
        retrokit.encoder(spec(server)).embed(TEXTS[:2], "query")


def test_numbers_that_are_none() -> None:
    bad = embeddings([[float("nan"), *[1.0] * 7], [1.0] * 8])
    with (
        ChatServer(Plan(reply=lambda body: message(200, bad) if len(body["input"]) > 1 else None)) as server,
        pytest.raises(RetrokitError, match="1 of 2 embeddings are not finite"),
    ):
        retrokit.encoder(spec(server)).embed(TEXTS[:2], "query")


def test_other_dimensions_than_before() -> None:
    with (
        ChatServer(Plan(embed=lambda text: [1.0] * (3 if "cat" in text else 4))) as server,
        pytest.raises(ServiceError, match="gives 3 dimensions, and gave 4 for the first text"),
    ):
        retrokit.encoder(spec(server)).embed(["a cat"], "query")


def test_a_batch_that_is_too_large_is_halved_and_a_text_that_is_refused_is_named() -> None:
    def reply(body: dict[str, list[str]]) -> bytes | None:
        refuses = len(body["input"]) > 5 or any("forbidden" in text for text in body["input"])
        return message(400, error("too many inputs")) if refuses else None

    with ChatServer(Plan(reply=reply)) as server:
        made = retrokit.encoder(spec(server))
        np.testing.assert_array_equal(made.embed(TEXTS, "query"), EXPECTED)
        with pytest.raises(ServiceError, match="the text begins 'forbidden words'"):
            made.embed([*TEXTS[:3], "forbidden words"], "document")


def test_a_service_that_changes_its_model_is_found(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    plan = Plan()
    with ChatServer(plan) as server:
        before = retrokit.encoder(spec(server))
        before.embed(TEXTS[:3], "query")
        plan.embed = lambda text: [value + 1e-4 for value in letters(text)]
        alike = retrokit.encoder(spec(server))
        assert alike.fingerprint() == before.fingerprint()
        np.testing.assert_array_equal(alike.embed(TEXTS[:3], "query"), EXPECTED[:3])
        plan.embed = lambda text: letters(text)[::-1]
        changed = retrokit.encoder(spec(server))
        np.testing.assert_array_equal(changed.embed(TEXTS[:3], "query"), EXPECTED[:3, ::-1])
        assert changed.fingerprint() != before.fingerprint()
        assert "computes otherwise than before" in caplog.text
        other = retrokit.encoder(spec(server, ",revision=2"))
        assert other.fingerprint() != changed.fingerprint()


def test_the_key_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ChatServer(Plan(key="another")) as server, pytest.raises(ServiceError) as raised:
        retrokit.encoder(spec(server)).embed(["a"], "query")
    assert "does not take the key in OPENAI_API_KEY" in str(raised.value)
    assert KEY not in str(raised.value) + caplog.text
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("more", "problem"),
    [("url=nowhere", "not an address"), ("url=http://127.0.0.1:9/v1,batch=0", "batch"), ("", "needs a key")],
)
def test_what_does_not_fit(more: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match=problem):
        retrokit.encoder(f"api:model,{more}".rstrip(","))
    with ChatServer() as server, pytest.raises(UsageError, match="leave precision bf16 out"):
        retrokit.encoder(spec(server)).embed(["a"], "query", "bf16")
