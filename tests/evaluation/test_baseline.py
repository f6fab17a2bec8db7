"""``eval --save-baseline`` and ``--baseline``: gates that recompute nothing of the past."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from retrokit import cli
from retrokit.evaluation.comparison.comparison import T_TEST, BaselineChange, Comparison
from retrokit.metrics.significance import PairedTest, paired_t_test
from tests.evaluation.fakes import write_folder
from tests.models import sentences

COUNT = 40


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = {f"d{place}": text for place, text in enumerate(sentences(COUNT, seed=2))}
    queries = {f"q{place}": text for place, text in enumerate(texts.values())}
    return write_folder(tmp_path / "data", texts, queries, {f"q{place}": {f"d{place}": 1} for place in range(COUNT)})


def run_with(path: Path, wrong: int) -> str:
    """A run that finds the document of each query first, but in ``wrong`` of them second."""
    lines = []
    for place in range(COUNT):
        found = [f"d{place}", f"d{(place + 1) % COUNT}"]
        for rank, document in enumerate(found[::-1] if place < wrong else found, start=1):
            lines.append(f"q{place} Q0 {document} {rank} {3 - rank} x\n")
    path.write_text("".join(lines))
    return f"run:{path}"


def evaluate(data: Path, *words: object) -> int:
    return cli.run(["eval", "--on", f"beir:{data}", "--metrics", "mrr@10", *map(str, words)])


@pytest.fixture
def baseline(data: Path, tmp_path: Path) -> Path:
    assert evaluate(data, run_with(tmp_path / "then", 0), "--save-baseline", tmp_path / "kept" / "base.json") == 0
    return tmp_path / "kept" / "base.json"


@pytest.mark.parametrize(
    ("wrong", "most", "code", "told"),
    [
        (0, 0, 0, ""),
        (2, 0.01, 0, "mrr@10 is 0.0250 lower than the baseline, which may be chance"),
        (2, 0.05, 0, ""),
        (16, 0.3, 0, ""),
        (16, 0.1, 1, "mrr@10 fell from 1.0000 to 0.8000; allowed drop 0.1"),
    ],
)
def test_a_drop_fails_where_it_is_large_and_no_chance(wrong, most, code, told, data, baseline, tmp_path, capsys):
    now = run_with(tmp_path / "now", wrong)
    assert evaluate(data, now, "--baseline", baseline, "--max-drop", most, "--json") == code
    out, err = capsys.readouterr()
    assert told in err
    (change,) = json.loads(out)["changes"]
    assert (change["before"], change["after"]) == (1.0, pytest.approx(1 - wrong / 2 / COUNT))
    expected = paired_t_test(dict.fromkeys(range(COUNT), 1.0), {q: 0.5 if q < wrong else 1.0 for q in range(COUNT)})
    assert change["comparison"]["test"] == pytest.approx(vars(expected))
    assert evaluate(data, now, "--baseline", baseline) == 0, "without --max-drop it is shown alone"
    assert "since the baseline" in capsys.readouterr().out


def test_too_few_queries_are_said(data, baseline, tmp_path, capsys):
    evaluate(data, run_with(tmp_path / "now", 5), "--baseline", baseline, "--max-drop", 0.001)
    assert "more than 0.001; add queries" in capsys.readouterr().err


@pytest.mark.parametrize("count", [30, 300])
def test_the_smallest_drop_that_is_seen_is_seen_four_times_in_five(count):
    """By the power of the t-test, which follows a noncentral t distribution."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=count)
    spread = 0.1 * (spread - spread.mean()) / spread.std(ddof=1)
    before, after = (dict(enumerate(values)) for values in (np.zeros(count), spread))
    test = paired_t_test(before, after)
    visible = BaselineChange("t", "m", "a", "b", 0, 0, Comparison("t", "m", "a", "b", T_TEST, test)).visible
    assert visible is not None
    shift, critical = visible / 0.1 * math.sqrt(count), stats.t.isf(0.025, count - 1)
    power = stats.nct.sf(critical, count - 1, shift) + stats.nct.cdf(-critical, count - 1, shift)
    assert power == pytest.approx(0.8, abs=0.01)


def test_a_drop_without_a_test_fails_where_it_is_large():
    def fails(before, after, p=None):
        test = None if p is None else Comparison("t", "m", "a", "b", T_TEST, PairedTest(9, -0.25, -1, 1, p), None, p)
        return BaselineChange("t", "m", "a", "b", before, after, test).fails(0.25)

    assert fails(1.0, 0.5)
    assert not fails(1.0, 0.75), "not more than allowed"
    assert not fails(0.5, 1.0)
    assert [fails(1.0, 0.5, p) for p in (0.04, 0.05)] == [True, False]
    assert fails(math.nan, 0.5)
    assert fails(0.5, math.nan)


def test_data_are_known_by_their_digest(data, baseline, tmp_path, capsys):
    moved = tmp_path / "elsewhere"
    shutil.copytree(data, moved)
    assert evaluate(moved, run_with(tmp_path / "now", 0), "--baseline", baseline) == 0
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    capsys.readouterr()
    assert evaluate(data, run_with(tmp_path / "now", 0), "--baseline", baseline) == 2
    assert "was measured on other data" in capsys.readouterr().err


def test_systems_are_met_by_name_or_where_there_is_one(data, tmp_path, capsys):
    one, two = run_with(tmp_path / "one", 4), run_with(tmp_path / "two", 8)
    kept = tmp_path / "both.json"
    assert evaluate(data, one, two, "--save-baseline", kept) == 0
    capsys.readouterr()
    assert evaluate(data, two, "--baseline", kept, "--max-drop", 0, "--json") == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["comparison"]["test"]["difference"] == 0
    assert evaluate(data, run_with(tmp_path / "third", 0), "--baseline", kept) == 2
    assert "contains several systems" in capsys.readouterr().err


def test_a_gate_that_fails_keeps_the_old_baseline(data, baseline, tmp_path, capsys):
    before = baseline.read_bytes()
    now = run_with(tmp_path / "now", 20)
    gate = ["--baseline", baseline, "--max-drop", 0.01, "--save-baseline", baseline]
    capsys.readouterr()
    assert evaluate(data, now, *gate) == 1
    assert f"{baseline}: not changed, because a gate failed" in capsys.readouterr().err
    assert baseline.read_bytes() == before
    assert evaluate(data, now, "--save-baseline", baseline) == 0
    assert baseline.read_bytes() != before


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 2, "systems": []}', '{"format": 1, "systems": [{}]}', "\0"]
)
def test_what_is_no_baseline_is_one_line(content, data, tmp_path, capsys):
    (tmp_path / "base.json").write_text(content)
    assert evaluate(data, "run:nowhere", "--baseline", tmp_path / "base.json") == 2
    message = capsys.readouterr().err
    assert re.search(r"base\.json:.*(expected|is not) a baseline that", message)
    assert evaluate(data, "run:nowhere", "--max-drop", 0.1) == 2
    assert "--max-drop needs --baseline" in capsys.readouterr().err
