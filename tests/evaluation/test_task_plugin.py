"""The task on the page of plugins, in another package: ``eval`` has it, with results kept and gated."""

import re
from pathlib import Path

import pytest

import retrokit
from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.registry import Entry, Param
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.gates import check_gates, gates_of
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.settings import GateSettings
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import hashed
from tests.plugins import install, look_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plugins.md"


@pytest.fixture(autouse=True)
def spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wheel of the third party leaves in site-packages, and registries that have not looked there yet."""
    entry_points = "[retrokit.tasks]\nspread = spread_of_texts:SPREAD\n"
    section = PAGE.read_text(encoding="utf-8").partition("## A task\n")[2]
    module = re.search("```python\n(.*?)```", section, re.DOTALL)[1].replace(
        "retrokit_example.spread", "spread_of_texts"
    )
    install(tmp_path / "site", "spread", {"spread_of_texts": module}, entry_points)
    look_in(tmp_path / "site", tasks, monkeypatch)
    entry = Entry("hashed", "random embeddings", "tests.evaluation.fakes:hashed", (Param("number", int),), "number")
    monkeypatch.setitem(encoders.registry._entries, "hashed", entry)


def test_a_task_from_elsewhere(tmp_path: Path) -> None:
    results = str(tmp_path / "results")
    found = evaluate(["hashed:1", "hashed:2"], ["spread:cat,b=dog"], ["cosine", "dot"], results=results)
    assert [result.task for result in found.results] == ["spread:cat,b=dog"] * 4
    assert list(found.results[0].metrics) == ["apart", "together"]
    assert found.results[0].counts == {"texts": 2, "texts_cut": 0}
    assert found.results[0].metrics["apart"] == pytest.approx(1 - found.results[0].metrics["together"])
    check_gates(gates_of(found, GateSettings(fail_under=["apart=-1e9"])))
    again = evaluate(["hashed:1"], ["spread:cat,b=dog"], ["cosine"], results=results)
    assert again.results[0].metrics == found.results[0].metrics
    with pytest.raises(UsageError, match=r"unknown metric 'aprt' \(did you mean apart\?\); spread:cat,b=dog has"):
        evaluate(["hashed:1"], ["spread:cat,b=dog"], metrics=["aprt"])


def test_what_a_task_lacks_is_said_in_one_line() -> None:
    task = tasks.create("spread:cat,b=dog")
    cosine = retrokit.similarity("cosine")
    for request, told in (
        (Request(), "spread:cat,b=dog needs embeddings"),
        (Request(hashed(1), [cosine], dims=99), "dims.* 99: given has 8 dimensions"),
        (Request(hashed(1), [cosine], index="HNSW8"), "index.* HNSW8.*spread:cat,b=dog is not"),
        (Request(hashed(1), [retrokit.similarity("sfs:3")]), "3"),
    ):
        with pytest.raises(UsageError, match=told) as caught:
            task.evaluate(request)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="spread:cat,b=dog needs embeddings"):
        evaluate(["bm25"], ["spread:cat,b=dog"])
