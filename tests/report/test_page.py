"""The page of a report: what it is made from, that it is whole, and that nothing on it is anyone's markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from retrokit.errors import DataError, UsageError
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.result import Result
from retrokit.report.evaluation import evaluation_json
from retrokit.report.page import ReportedStep, ReportedStudy, write_page
from retrokit.report.tables import to_json

HOSTILE = "</title><script>alert(1)</script>\"'&]]>--><img src=x onerror=alert(2)>"


def evaluation(*names: str, task: str = "beir:data/set", queries: int = 20) -> Evaluation:
    """Systems each of which is better than the one before it by 0.1, and a little differently on every query."""
    results = [
        Result(
            name,
            "cosine",
            task,
            "ndcg@10",
            {"ndcg@10": sum(own.values()) / queries},
            {"ndcg@10": own},
            {"queries": queries},
            {},
            {"precision": "float32"},
        )
        for place, name in enumerate(names)
        for own in [{f"q{i}": 0.2 + 0.1 * place + 0.01 * ((i * (place + 1)) % 3) for i in range(queries)}]
    ]
    return evaluation_of(results, {task: ["ndcg@10"]}, {})


def page_from(tmp_path: Path, content: object, **more: object) -> str:
    file = tmp_path / "found.json"
    file.write_text(to_json(content), encoding="utf-8")
    write_page([file], tmp_path / "page.html", **more)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_tells_who_is_best_and_loads_nothing(tmp_path):
    page = page_from(tmp_path, evaluation_json(evaluation("first", "second")))
    assert "second cosine is best in ndcg@10 (0.3100): above the first row, first cosine (0.2095), by +0.1005" in page
    assert page.count("<table>") == 2
    assert page.count("<svg") == 1
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(src|href)=.(?!#|data:)", page)
    assert re.findall(r"https?://[^\"'\s<]+", page) == ["http://www.w3.org/2000/svg"]


def test_every_text_is_escaped(tmp_path):
    study = ReportedStudy(HOSTILE, HOSTILE, [ReportedStep(HOSTILE, HOSTILE, [HOSTILE], "failed", 1.0, HOSTILE)])
    found = evaluation_json(evaluation(f"a{HOSTILE}", f"b{HOSTILE}", task=f"beir:{HOSTILE}"))
    page = page_from(tmp_path, found, study=study)
    assert page.count("<script") == page.count("</script") == 1
    assert "<img" not in page
    assert page.count("</title>") == 1 + page.count("<svg")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is JSON of something else"),
        ("3", "is JSON of something else"),
        ('{"results": [], "comparisons": []}', "is not whole"),
        ('{"layers": 3, "conclusion": ""}', "is not whole"),
    ],
)
def test_what_is_nothing_to_report_is_one_line(tmp_path, content, problem):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=problem) as caught:
        write_page([tmp_path / "x.json"], tmp_path / "page.html")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "x.json") in str(caught.value)
    assert not (tmp_path / "page.html").exists()


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(DataError, match="holds nothing to report"):
        write_page([tmp_path], tmp_path / "page.html")
    with pytest.raises(UsageError, match="give results"):
        write_page([], tmp_path / "page.html")


def test_a_study_goes_through_json(tmp_path):
    study = ReportedStudy("t", "text", [ReportedStep("s", "eval", ["retrokit", "eval"], "missing", None)])
    plain = json.loads(json.dumps({"title": "t", "text": "text", "steps": [vars(one) for one in study.steps]}))
    assert ReportedStudy.from_json(plain) == study
    with pytest.raises(UsageError, match="expected done, failed, missing"):
        ReportedStep("s", "eval", [], "lost")
