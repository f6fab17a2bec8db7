"""The reranker ``rerank-api``: scores of a service, in the pairs' order, and a service that misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from retrokit import cli
from retrokit.errors import RetrokitError, ServiceError, UsageError
from retrokit.llm import retries
from retrokit.reranking import registry
from tests.evaluation.fakes import write_folder
from tests.llm.hostile import KEY
from tests.llm.server import FAULTS, ChatServer, Plan, error, message, shared_words
from tests.llm.test_hostile_service import QuickClock
from tests.models import sentences

QUERIES = sentences(6, seed=3)
LISTS = [sentences(25, seed=place) for place in range(6)]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "clock", QuickClock())
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


def test_it_reranks_and_is_a_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = {f"d{place}": text for place, text in enumerate(sentences(20))}
    data = write_folder(tmp_path / "data", documents, {"q": documents["d4"]}, {"q": {"d4": 1}})
    with ChatServer() as server:
        words = ["rerank", "static:4", "--on", f"beir:{data}", "--with", spec(server), "--depth", "20", "--json"]
        assert cli.run(words) == 0
    assert "rerank-api:model" in json.dumps(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("null", "empty", "no-choices", "slow")])
def test_a_fault_that_passes_changes_nothing(fault: str) -> None:
    with ChatServer(Plan(faults=[fault])) as server:
        scores = registry.create(spec(server)).rank(QUERIES[0], LISTS[0])
    np.testing.assert_array_equal(scores, [shared_words(QUERIES[0], document) for document in LISTS[0]])


def always(status: int, body: bytes) -> Callable[[object], bytes]:
    return lambda asked: message(status, body)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (always(200, b'{"results": []}'), "cut off or no ranking"),
        (always(200, b"[1"), "cut off or no ranking"),
        (always(200, b'{"results": [{"index": 0, "relevance_score": null}]}'), "cut off or no ranking"),
        (always(200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'), "1 of 1 scores are not finite"),
        (always(400, error("too long")), "the query begins 'a query'"),
        (always(404, b"{}"), "has no model 'model', or is no such service"),
    ],
)
def test_what_is_no_answer_ends_in_one_line(reply: Callable[[object], bytes], problem: str) -> None:
    with ChatServer(Plan(reply=reply)) as server, pytest.raises((ServiceError, RetrokitError), match=problem):
        registry.create(spec(server)).rank("a query", ["a document"])


def test_a_change_of_the_service_changes_the_fingerprint() -> None:
    plan = Plan(score=lambda query, document: float(len(document)))
    with ChatServer(plan) as server:
        before = registry.create(spec(server)).fingerprint()
        assert registry.create(spec(server)).fingerprint() == before
        assert registry.create(spec(server, ",revision=2")).fingerprint() != before
        plan.score = lambda query, document: 100.0 - len(document) ** 2
        assert registry.create(spec(server)).fingerprint() != before


def test_the_address_is_asked_for() -> None:
    with pytest.raises(UsageError, match="url"):
        registry.create("rerank-api:model")
