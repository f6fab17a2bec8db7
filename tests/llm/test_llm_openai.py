"""The client of OpenAI's protocol, against a real server on loopback that behaves, and one that does not."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.calls import PromptRefused
from retrokit.core.errors import MissingExtra, RetrokitError, ServiceError, UsageError
from retrokit.llm import registry
from retrokit.llm.base import Completion, Sampling, without_thinking
from retrokit.llm.session import Session, run_all
from retrokit.llm.store import ResponseStore
from tests.llm.hostile import skip_waits
from tests.llm.server import PASSING, ChatServer, Log, Plan, error, message

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return skip_waits(monkeypatch)


def ask(spec: str, *prompts: str, store: ResponseStore | None = None, **options: Any) -> list[Completion]:
    """The answers of a model to prompts."""

    async def asked() -> list[Completion]:
        async with Session(registry.create(spec), store, **options) as session:
            return [found async for found in run_all(session.ask, prompts, 8)]

    return asyncio.run(asked())


def served(plan: Plan, **options: Any) -> tuple[Completion, Log]:
    """The answer to one prompt, and what the server saw."""
    with ChatServer(plan) as server:
        return ask(f"openai:gpt-x,url={server.url}", "Who purrs?", **options)[0], server.log


def test_what_is_sent_and_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found, log = served(Plan(lambda body: " Cats do. "), sampling=Sampling(0.5, 0.9, 77, 3))
    assert found == Completion("Cats do.", prompt_tokens=2, completion_tokens=2, finish="stop")
    assert log.bodies == [
        {
            "model": "gpt-x",
            "messages": [{"role": "user", "content": "Who purrs?"}],
            "max_tokens": 77,
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
        }
    ]
    assert log.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_urls(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(Plan(lambda body: "yes")) as server:
        base = server.url.removesuffix("/v1")
        assert ask(f"openai:m,url={base}{ending}", "p")[0].text == "yes"
        monkeypatch.setenv("OPENAI_BASE_URL", base + ending)
        assert ask("openai:m", "p")[0].text == "yes"


# --- a server that misbehaves


@pytest.mark.parametrize("fault", PASSING)
def test_each_fault_passes(fault: str, waits: list[float]) -> None:
    with ChatServer(Plan(lambda body: "yes", faults=[fault])) as server:
        assert ask(f"openai:m,url={server.url},timeout=1", "p")[0].text == "yes"
        assert len(server.log.bodies) == 2
        assert not waits or waits[0] == (0.05 if fault in ("429", "503") else pytest.approx(0.45, abs=0.56))


@pytest.mark.parametrize(
    ("fault", "problem", "calls"),
    [
        ("500", r"Oops \(500\)", 9),
        ("503", r"loading \(503\)", 9),
        ("drop", "without sending a response", 3),  # it has never answered
        ("truncated", r"the answer is not JSON and begins '{.*; check the url", 1),
        ("error-in-200", r"upstream failed \(502\)", 1),
    ],
)
def test_a_fault_that_stays_is_reported(fault: str, problem: str, calls: int) -> None:
    with ChatServer(Plan(faults=[fault], each=99)) as server:
        with pytest.raises(ServiceError, match=rf"^http://127.0.0.1:\d+/v1/chat/completions: .*{problem}"):
            ask(f"openai:m,url={server.url}", "p")
        assert len(server.log.bodies) == calls


@pytest.mark.parametrize("fault", ["null", "no-choices"])
def test_an_empty_answer_that_stays_is_an_answer(fault: str) -> None:
    found, log = served(Plan(faults=[fault], each=99))
    assert (found.text, len(log.bodies)) == ("", 4)


def chat(message: object, finish: str = "stop") -> bytes:
    """A reply with that message."""
    return reply_of({"choices": [{"message": message, "finish_reason": finish}]})


def reply_of(body: object) -> bytes:
    return message(200, json.dumps(body).encode())


EXPECTED = "expected choices: list of {message: {content: text}}"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (reply_of({"choices": None}), f"unexpected answer {{'choices': None}}; {EXPECTED}"),
        (reply_of({"response": "Cats."}), f"unexpected answer {{'response': 'Cats.'}}; {EXPECTED}"),
        (reply_of([1, 2]), f"unexpected answer [1, 2]; {EXPECTED}"),
        (
            message(200, b"<!doctype html><p>Hello"),
            "the answer is not JSON and begins '<!doctype html><p>Hello'; check the url",
        ),
        (message(200, b"data: {}"), "the answer is not JSON and begins 'data: {}'; check the url"),
        (reply_of({"error": {"message": "no credit", "code": 402}}), "no credit (402)"),
        (reply_of({"error": "Unexpected endpoint"}), "Unexpected endpoint (200)"),
    ],
)
def test_an_answer_of_another_shape_is_described_at_once(reply: bytes, told: str) -> None:
    assert refused(reply) == (ServiceError, f"URL: {told}", 1)


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
def test_an_answer_that_was_cut_has_one_name(finish: str) -> None:
    assert served(Plan(reply=lambda _: chat({"content": "Cats"}, finish)))[0].finish == "length"


def test_nobody_there(waits: list[float]) -> None:
    with ChatServer() as server:
        url = server.url
    with pytest.raises(ServiceError, match=rf"^{url}/chat/completions: .*connect"):
        ask(f"openai:m,url={url}", "p")
    assert sum(waits) < 5


# --- failures for good: one call, one line


def refused(reply: bytes, spec: str = "openai:gpt-x") -> tuple[type[Exception], str, int]:
    """The error that a server's reply becomes, without the address, and how many calls were made."""
    with ChatServer(Plan(reply=lambda body: reply)) as server, pytest.raises(RetrokitError) as caught:
        ask(f"{spec},url={server.url}", "p")
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    return caught.type, str(caught.value).replace(f"{server.url}/chat/completions", "URL"), len(server.log.bodies)


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (message(400, error("too long\nby far")), PromptRefused, "URL refuses the request: too long by far (400)"),
        (message(413, b"<html>"), PromptRefused, "URL refuses the request: Oops (413)"),
        (message(422, b'{"detail": "x"}'), PromptRefused, "URL refuses the request: x (422)"),
        (message(401, error("no")), ServiceError, "URL wants a key; set OPENAI_API_KEY: no (401)"),
        (
            message(404, b'{"error": "model \'gpt-x\' not found"}'),
            ServiceError,
            "URL has no model 'gpt-x', or is no such service: model 'gpt-x' not found (404)",
        ),
        (
            message(429, error("You exceeded your quota", code="insufficient_quota")),
            ServiceError,
            "URL: You exceeded your quota (429)",
        ),
        (message(418, b"[1, 2]"), ServiceError, "URL: [1, 2] (418)"),
        (message(418, b"x"), ServiceError, "URL: x (418)"),
    ],
)
def test_other_failures_are_not_tried_again(reply: bytes, kind: type[Exception], told: str) -> None:
    assert refused(reply) == (kind, told, 3 if "quota" in told else 1)


# --- what some services spell differently


ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.", "Yes."),
        ("<think>no</think>Yes.", "Yes."),
        ("<think>\nno\n</think>\n\nYes.\n", "Yes."),
        ("<THINK>no</THINK> Yes.", "Yes."),
        ("<thinking>no</thinking>Yes.", "Yes."),
        ("no</think>Yes.", "Yes."),
        ("<think>no", ""),
        ("Yes. <think>or no", "Yes."),
        ("<think>a</think>Yes, <think>b</think>it is.", "Yes, it is."),
        ("<think>a <think>b</think> c</think>Yes.", "Yes."),
        ("<think></think>", ""),
        ("I think <b>so</b>.", "I think <b>so</b>."),
        ("<thinking effort='low'>no</thinking>Yes.", "Yes."),
        ("<reasoning>no</reasoning>Yes.", "Yes."),
        ("<thought>no</thought>Yes.", "Yes."),
        ("<seed:think>no</seed:think>Yes.", "Yes."),
        ("<think>no</think><answer>Yes.</answer>", "Yes."),
        ("no</reasoning>Yes.", "Yes."),
        ("<|think|>no<|/think|>Yes.", "Yes."),
        ("<|START_THINKING|>no<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Yes."),
        ("<|begin_of_thought|>no<|end_of_thought|><|begin_of_solution|>Yes.<|end_of_solution|>", "Yes."),
        ("◁think▷no◁/think▷Yes.", "Yes."),
        ("no◁/think▷Yes.", "Yes."),
        ("◁think▷no", ""),
        ("[THINK]no[/THINK]\nYes.", "Yes."),
        ("no[/THINK]Yes.", "Yes."),
        ("[THINK]no", ""),
        ("<|channel>thought\nno<channel|>Yes.", "Yes."),
        (f"{ANALYSIS}no<|end|><|start|>assistant{FINAL}Yes.<|return|>", "Yes."),
        (f"<|start|>assistant{ANALYSIS}no<|end|><|start|>assistant{FINAL}Yes.", "Yes."),
        (f"{ANALYSIS}no<|end|><|start|>assistant<|channel|>commentary to=f<|message|>{{}}<|call|>{FINAL}Yes.", "Yes."),
        (f"{FINAL}Yes.<|end|><|start|>assistant{ANALYSIS}no", "Yes."),
        (f"{ANALYSIS}no<|end|>", ""),
        ("analysisThey ask. No.assistantfinalYes.", "Yes."),
        ("Yes.<|im_end|>\n", "Yes."),
        ("Yes.</s>", "Yes."),
        # unknown marks that are not in pairs
        ("no</ponder>Yes.", ""),
        ("<ponder>no. Yes.", ""),
        ("no[/PONDER]Yes.", ""),
        ("◁ponder▷no. Yes.", ""),
        ("<|ponder|>no. Yes.", ""),
        # no reasoning
        ("[YES]", "[YES]"),
        ("[2] > [1]", "[2] > [1]"),
        ("Use a List<String> here.", "Use a List<String> here."),
        ("<p>Yes.", "<p>Yes."),
        ("<http://a.example> says so.", "<http://a.example> says so."),
        ("Yes.</passage-0123abcd>", "Yes.</passage-0123abcd>"),
        ("analysis of bees", "analysis of bees"),
    ],
)
def test_think_blocks_go(text: str, expected: str) -> None:
    assert without_thinking(text) == expected


# --- secrets


def test_the_key_is_sent_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    with ChatServer(Plan(faults=["429"], key=KEY)) as server, ResponseStore(tmp_path / "s.db") as store:
        spec = f"openai:m,url={server.url},key_env=MY_KEY"
        llm = registry.create(spec)
        assert ask(spec, "p", store=store)[0].text
        monkeypatch.setenv("MY_KEY", KEY + "-wrong")
        with pytest.raises(ServiceError) as caught:  # the server repeats the key that it was given
            ask(spec, "q", store=store)
    message = str(caught.value)
    assert "does not take the key in MY_KEY: Incorrect API key provided: Bearer … (401)" in message
    shown = [llm.spec, llm.identity, repr(llm), message, repr(caught.value), caplog.text]
    assert not [text for text in shown if KEY in text]
    files = list(tmp_path.iterdir())
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert "openai" in caplog.text  # the library's own log was read


@pytest.mark.parametrize(
    "url", ["http://me:hush@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=hush", "http://127.0.0.1:9/v1?token=hush"]
)
def test_no_secrets_in_addresses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(spec: str) -> None:
        with pytest.raises(
            UsageError, match=r"^the url of 127.0.0.1 contains a key or password; put it into"
        ) as caught:
            registry.create(spec)
        assert "hush" not in str(caught.value)

    refuse(f"openai:m,url={url}")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    refuse("openai:m")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://", "http://[::1", "nothing"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(
        UsageError, match=r"the service's url is not an address; expected one like http://localhost:8000/v1"
    ):
        registry.create(f"openai:m,url={url}")


def test_the_official_service_needs_a_key() -> None:
    with pytest.raises(UsageError, match=r"^openai:gpt-x needs a key: set OPENAI_API_KEY, or give the url of another"):
        registry.create("openai:gpt-x,url=https://api.openai.com/v1")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("llm.openai", "core.service"):
        monkeypatch.delitem(sys.modules, f"retrokit.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"^openai needs an optional package: .* 'retrokit-ir\[llm\]'$"):
        registry.create("openai:m,url=http://127.0.0.1:9")
