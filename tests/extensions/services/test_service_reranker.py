"""The reranker ``rerank-api``: scores of a service, in the pairs' order, and a service that misbehaves."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrokit.core.errors import MissingExtra, ServiceError
from retrokit.core.service import LARGEST_ANSWER, LARGEST_PER_TEXT
from retrokit.ranking.reranking import registry
from tests.llm.hostile import KEY, skip_waits
from tests.llm.server import ChatServer, Plan, error, message, shared_words
from tests.models import sentences

QUERIES = sentences(6, seed=3)
LISTS = [sentences(25, seed=place) for place in range(6)]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_waits(monkeypatch)
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RERANK_API_KEY", KEY)


def spec(server: ChatServer, more: str = "") -> str:
    return f"rerank-api:model,url={server.url},batch=10,concurrency=4{more}"


def test_scores_come_in_the_order_of_the_documents() -> None:
    with ChatServer(Plan(key=KEY, delay=0.05)) as server:
        made = registry.create(spec(server)).rank_lists(QUERIES, LISTS)
    for query, documents, scores in zip(QUERIES, LISTS, made, strict=True):
        np.testing.assert_array_equal(scores, [shared_words(query, document) for document in documents])
    assert sorted(len(body["documents"]) for body in server.log.bodies) == [5] * 6 + [10] * 12
    assert server.log.most_at_once > 1


def dialect(body: dict[str, Any], form: str) -> bytes:
    """The reply of a service to a request, in its own form."""
    texts = body["texts" if form == "tei" else "documents"]
    scores = [shared_words(body["query"], text) for text in texts]
    rows = [{"index": i, "relevance_score" if form == "voyage" else "score": score} for i, score in enumerate(scores)]
    return message(200, json.dumps({"data": rows} if form in ("voyage", "data") else rows).encode())


@pytest.mark.parametrize("form", ["tei", "voyage", "data", "bare"])
def test_dialects_are_read(form: str) -> None:
    def reply(body: dict[str, Any]) -> bytes:
        if form == "tei" and "texts" not in body:
            return message(422, error("missing field `texts` at line 1 column 100"))
        if form == "voyage" and "top_n" in body:
            return message(400, b'{"detail": "Argument \'top_n\' is not supported"}')
        if len(body.get("texts", ())) > 4:
            return message(413, error("batch size 10 > maximum allowed batch size 4"))
        return dialect(body, form)

    with ChatServer(Plan(reply=reply)) as server:
        made = registry.create(spec(server))
        for query, documents in zip(QUERIES, LISTS, strict=True):
            expected = [shared_words(query, document) for document in documents]
            np.testing.assert_array_equal(made.rank(query, documents), expected)


def test_a_document_that_the_server_fails_on_is_named() -> None:
    def reply(body: dict[str, Any]) -> bytes | None:
        return message(424, error("inference failed")) if "a sofa" in body["documents"] else None

    with ChatServer(Plan(reply=reply)) as server:
        told = r"inference failed \(424\); the query begins 'a query', the document 'a sofa'"
        with pytest.raises(ServiceError, match=told):
            registry.create(spec(server)).rank("a query", [*LISTS[0][:7], "a sofa"])


EXPECTED = "expected {index: number, relevance_score or score: number} for each text"


def always(status: int, body: bytes) -> Callable[[object], bytes]:
    return lambda asked: message(status, body)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (always(200, b'{"results": []}'), "0 answers for 1 texts"),
        (always(200, b"[1"), "the answer is not JSON and begins"),
        (
            always(200, b'{"results": [{"relevance_score": 1}]}'),
            f"unexpected answer {{'relevance_score': 1}}; {EXPECTED}",
        ),
        (
            always(200, b'{"results": [{"index": 0, "relevance_score": null}]}'),
            f"unexpected answer {{'index': 0, 'relevance_score': None}}; {EXPECTED}",
        ),
        *(
            (always(200, b'{"results": [{"index": 0, "relevance_score": %s}]}' % score), problem)
            for score, problem in (
                (b"NaN", "1 of 1 scores are not finite; the query begins 'a query', the document 'a document'"),
                (b"1e400", "1 of 1 scores are not finite"),
                (b"1e39", "1 of 1 scores are not finite"),
                (b"true", f"unexpected answer .*; {EXPECTED}"),
                (b'"0.5"', f"unexpected answer .*; {EXPECTED}"),
            )
        ),
        (always(400, error("too long")), "the query begins 'a query'"),
        (always(404, b"{}"), "has no model 'model', or is no such service"),
    ],
)
def test_what_is_no_answer_ends_in_one_line(reply: Callable[[object], bytes], problem: str) -> None:
    with ChatServer(Plan(reply=reply)) as server, pytest.raises(ServiceError, match=problem):
        registry.create(spec(server)).rank("a query", ["a document"])


def test_an_answer_that_does_not_end_is_given_up() -> None:
    endless = message(200, b" " * (LARGEST_ANSWER + 2 * LARGEST_PER_TEXT + 1))
    for plan, options, problem, calls in (
        (Plan(pace=0.05), ",timeout=0.2", r"no complete answer in 0\.2 s$", 3),
        (Plan(reply=lambda body: endless), "", r": the answer is larger than 1[67] MiB, the limit; check the url$", 1),
    ):
        with ChatServer(plan) as server:
            with pytest.raises(ServiceError, match=problem):
                registry.create(spec(server, options)).rank("Who purrs?", ["A cat."])
            assert len(server.log.bodies) == calls


def test_the_package_for_services_is_needed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"'retrokit-ir\[llm\]'"):
        registry.create("rerank-api:m,url=http://127.0.0.1:9")


def test_a_change_of_the_service_changes_the_fingerprint() -> None:
    plan = Plan(score=lambda query, document: float(len(document)))
    with ChatServer(plan) as server:
        before = registry.create(spec(server)).fingerprint()
        assert registry.create(spec(server)).fingerprint() == before
        assert registry.create(spec(server, ",revision=2")).fingerprint() != before
        plan.score = lambda query, document: 100.0 - len(document) ** 2
        assert registry.create(spec(server)).fingerprint() != before
