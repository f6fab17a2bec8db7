"""The encoder ``api``: embeddings of a service, and a service that misbehaves."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.service import LARGEST_ANSWER, LARGEST_PER_TEXT
from retrokit.evaluation.comparison.names import short_names
from retrokit.extensions.services.embedding import LONG_PROBE, PROBE
from tests.evaluation.fakes import write_folder
from tests.llm.hostile import KEY, skip_waits
from tests.llm.server import PASSING, ChatServer, Plan, error, letters, message
from tests.models import sentences

TEXTS = sentences(150)
EXPECTED = np.array([letters(text) for text in TEXTS], dtype=np.float32)


@pytest.fixture(autouse=True)
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return skip_waits(monkeypatch)


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
        assert sorted(asked[2:]) == sorted(TEXTS), "two probe texts, and each text"
        assert 1 < server.log.most_at_once <= 4
        assert {body["model"] for body in server.log.bodies} == {"model"}
        again = retrokit.encoder(spec(server))
        np.testing.assert_array_equal(again.embed(TEXTS[::-1], "document"), EXPECTED[::-1])
        assert len(inputs(server)) == len(asked) + 2, "the probe texts only"
        assert again.fingerprint() == made.fingerprint()


def test_prompts_dimensions_and_empty_texts_are_sent() -> None:
    with ChatServer() as server:
        made = retrokit.encoder(spec(server, ',dimensions=8,query_prompt="ask: "'))
        found = made.embed(["cat", ""], "query")
        np.testing.assert_array_equal(found, np.array([letters("ask: cat"), letters("ask: ")], dtype=np.float32))
        np.testing.assert_array_equal(made.embed([""], "document")[0], letters(" "))
        assert {body["dimensions"] for body in server.log.bodies} == {8}


FITTING = [fault for fault in PASSING if fault not in ("null", "empty", "no-choices", "slow")]
"""Faults that are not of chats only."""


@pytest.mark.parametrize("fault", FITTING)
def test_a_fault_that_passes_changes_nothing(fault: str) -> None:
    with ChatServer(Plan(faults=[fault])) as server:
        np.testing.assert_array_equal(retrokit.encoder(spec(server)).embed(TEXTS, "query"), EXPECTED)


def data(*rows: object) -> bytes:
    return json.dumps({"data": rows}).encode()


def row(index: int, embedding: object) -> dict[str, object]:
    return {"index": index, "embedding": embedding}


EXPECTED_ROW = "; expected {index: number, embedding: list of numbers, or base64 of float32} for each"


BAD = {
    "too few": (data(), "0 answers for 2 texts; expected one for each"),
    "too many": (data(row(0, [1]), row(1, [1]), row(2, [1])), "3 answers for 2 texts"),
    "twice the same": (data(row(0, [1]), row(0, [1])), "the index 0 in answer 1; expected each of 0 to 1 once"),
    "negative": (data(row(0, [1]), row(-1, [1])), "the index -1 in answer 1"),
    "an index of text": (data(row(0, [1]), {"index": "1", "embedding": [1]}), "the index '1' in answer 1"),
    "ragged": (data(row(0, [1, 2]), row(1, [1])), "embeddings of [1, 2] dimensions in one answer"),
    "words": (data(row(0, ["x"]), row(1, ["y"])), f"unexpected answer {row(0, ['x'])}{EXPECTED_ROW}"),
    "no base64": (data(row(0, "?"), row(1, "?")), f"unexpected answer {row(0, '?')}{EXPECTED_ROW}"),
    "true": (data(row(0, [1, True]), row(1, [1, 1])), f"unexpected answer {row(0, [1, True])}{EXPECTED_ROW}"),
    "null": (data(row(0, [1, None]), row(1, [1, 1])), f"unexpected answer {row(0, [1, None])}{EXPECTED_ROW}"),
    "numbers of text": (data(row(0, ["1"]), row(1, ["1"])), f"unexpected answer {row(0, ['1'])}{EXPECTED_ROW}"),
    "an index of true": (data(row(0, [1]), {"index": True, "embedding": [1]}), "the index True in answer 1"),
    "a fraction": (data(row(0, [1]), {"index": 0.5, "embedding": [1]}), "the index 0.5 in answer 1"),
    "no vectors": (data(row(0, 3), row(1, 4)), f"unexpected answer {row(0, 3)}{EXPECTED_ROW}"),
    "of tokens": (data(row(0, [[1, 2], [3, 4]]), row(1, [[1, 2]])), EXPECTED_ROW),
    "a number": (b'{"data": 7}', "unexpected answer {'data': 7}; expected data: list of 2 of {index: number, embedd"),
    "nothing": (b"null", "unexpected answer None; expected data: list of 2 of"),
    "other fields": (b'{"embeddings": [[1], [2]]}', "unexpected answer {'embeddings': [[1], [2]]}; exp"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_answer_is_described_at_once(name: str) -> None:
    body, problem = BAD[name]
    with ChatServer(Plan(reply=lambda asked: message(200, body) if PROBE not in asked["input"] else None)) as server:
        with pytest.raises(ServiceError, match=re.escape(problem)):
            retrokit.encoder(spec(server)).embed(TEXTS[:2], "query")
        assert len(server.log.bodies) == 2, "the probe, and one call"


DIALECTS = {
    "base64": lambda vectors: data(*(row(i, b64(vector)) for i, vector in enumerate(vectors))),
    "nested": lambda vectors: data(*(row(i, [vector]) for i, vector in enumerate(vectors))),
    "no index": lambda vectors: data(*({"embedding": vector} for vector in vectors)),
    "bare objects": lambda vectors: json.dumps([row(i, vector) for i, vector in enumerate(vectors)][::-1]).encode(),
    "bare vectors": lambda vectors: json.dumps(vectors).encode(),
}


def b64(vector: list[float]) -> str:
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode()


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_are_read(name: str) -> None:
    def reply(body: dict[str, list[str]]) -> bytes:
        return message(200, DIALECTS[name]([letters(text) for text in body["input"]]))

    with ChatServer(Plan(reply=reply)) as server:
        np.testing.assert_array_equal(retrokit.encoder(spec(server)).embed(TEXTS, "query"), EXPECTED)


def test_a_text_that_the_server_fails_on_is_named(waits: list[float]) -> None:
    def reply(body: dict[str, list[str]]) -> bytes | None:
        return message(500, error("unsupported value: NaN")) if "a sofa" in body["input"] else None

    with ChatServer(Plan(reply=reply)) as server:
        with pytest.raises(ServiceError, match=r"unsupported value: NaN \(500\); the text begins 'a sofa'"):
            retrokit.encoder(spec(server)).embed([*TEXTS[:9], "a sofa", *TEXTS[10:16]], "query")
        asked = [body["input"] for body in server.log.bodies]
        assert sum("a sofa" in texts for texts in asked) == 6 * 5, "16, 8, 4, 2 and 1 text before and after a probe"
        assert sum(waits) < 16


@pytest.mark.parametrize(
    ("given", "field", "query", "document"),
    [
        ("cohere", "input_type", "search_query", "search_document"),
        ("jina", "task", "retrieval.query", "retrieval.passage"),
        ("nvidia", "input_type", "query", "passage"),
        ("voyage", "input_type", "query", "document"),
        ("task_type:RETRIEVAL_QUERY:RETRIEVAL_DOCUMENT", "task_type", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
    ],
)
def test_the_role_is_sent(given: str, field: str, query: str, document: str) -> None:
    with ChatServer() as server:
        made = retrokit.encoder(spec(server, f",input_type={given}"))
        made.embed(["cat"], "query")
        made.embed(["cat"], "document")
        assert [body[field] for body in server.log.bodies][2:] == [query, document]
        assert sorted(body[field] for body in server.log.bodies[:2]) == sorted([document, query]), "the probe texts"
        assert made.fingerprint() != retrokit.encoder(spec(server)).fingerprint()
        assert field not in server.log.bodies[-1]


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
        assert "the service has changed (cosine" in caplog.text
        other = retrokit.encoder(spec(server, ",revision=2"))
        assert other.fingerprint() != changed.fingerprint()


CHANGES = {
    "truncates to 24 words": (lambda text: letters(" ".join(text.split()[:24])), ""),
    "truncates to 512 words": (lambda text: letters(" ".join(text.split()[:512])), ""),
    "another query prompt": (lambda text: letters(text)[::-1] if text.startswith("ask: ") else letters(text), ""),
    "fewer dimensions": (lambda text: letters(text)[:4], "8 → 4 dimensions"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_a_short_document_does_not_show_is_found(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    changed, notice = CHANGES[name]
    plan = Plan()
    with ChatServer(plan) as server:
        before = retrokit.encoder(spec(server, ',query_prompt="ask: "')).fingerprint()
        plan.embed = changed
        assert retrokit.encoder(spec(server, ',query_prompt="ask: "')).fingerprint() != before
    assert notice in caplog.text


def test_a_service_may_refuse_the_long_probe() -> None:
    def reply(body: dict[str, list[str]]) -> bytes | None:
        return message(413, error("too long")) if LONG_PROBE in body["input"] else None

    with ChatServer(Plan(reply=reply)) as server:
        np.testing.assert_array_equal(retrokit.encoder(spec(server)).embed(TEXTS, "document"), EXPECTED)


def test_the_key_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ChatServer(Plan(key="another")) as server, pytest.raises(ServiceError) as raised:
        retrokit.encoder(spec(server)).embed(["a"], "query")
    assert "does not take the key in OPENAI_API_KEY" in str(raised.value)
    assert KEY not in str(raised.value) + caplog.text
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("url=nowhere", "not an address"),
        ("url=http://127.0.0.1:9/v1,batch=0", "batch"),
        ("url=https://api.openai.com/v1", "needs a key"),
    ],
)
def test_what_does_not_fit(more: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match=problem):
        retrokit.encoder(f"api:model,{more}")
    with ChatServer() as server, pytest.raises(UsageError, match="leave precision bf16 out"):
        retrokit.encoder(spec(server)).embed(["a"], "query", "bf16")


@pytest.mark.parametrize("template", ["Do {instruction}: ", "{text} is it", "{text}{text}"])
def test_a_template_has_its_place_for_the_text_at_the_end(template: str) -> None:
    with pytest.raises(UsageError, match="a template ends with"):
        retrokit.encoder(f'api:m,url=http://127.0.0.1:9/v1,query_prompt="{template}"')


def test_an_answer_that_does_not_end_is_given_up() -> None:
    endless = message(200, b" " * (LARGEST_ANSWER + 2 * LARGEST_PER_TEXT + 1))
    for plan, options, problem, calls in (
        (Plan(pace=0.05), ",timeout=0.2", r"no complete answer in 0\.2 s$", 3),
        (Plan(reply=lambda body: endless), "", r": the answer is larger than 1[67] MiB, the limit; check the url$", 1),
    ):
        with ChatServer(plan) as server:
            with pytest.raises(ServiceError, match=problem):
                retrokit.encoder(spec(server, options)).embed(["Who purrs?"], "query")
            assert len(server.log.bodies) == calls


def test_names_of_systems_are_those_of_models() -> None:
    one, other = "api:m,url=http://host/v1", "api:m,url=http://other/v1"
    assert short_names([one]) == {one: "m"}
    assert short_names([one, other]) == {one: "m at http://host/v1", other: "m at http://other/v1"}


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "api:model", "--on", "beir:data"],
        ["finetune", "static:4", "--data", "absent.jsonl", "--loss", "infonce:guide=api:model", "-o", "run"],
        ["build-sure", "data", "--llm", "openai:model", "-o", "testbed"],
        ["rerank", "static:4", "--on", "beir:data", "--with", "llm:openai:model"],
    ],
)
def test_no_text_goes_to_an_address_that_nobody_gave(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "data", {"d": "a long text about cats"}, {"q": "cats"}, {"q": {"d": 1}})
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert cli.run(words) == 2
    problem = "url= is missing; add url=ADDRESS of the service up to /v1, or set OPENAI_BASE_URL"
    assert f":model: {problem}" in capsys.readouterr().err
