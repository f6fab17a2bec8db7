"""Agreement of annotators, against published examples and the paper's own table."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from retrokit.core.errors import DataError
from retrokit.data.jsonl import to_json
from retrokit.extensions.sure_judging.annotators import agreement, fleiss_kappa, read_verdicts
from retrokit.extensions.sure_judging.records import AGREEMENT
from retrokit.extensions.sure_judging.sheets import agreement_sheets
from retrokit.report.sheets import TerminalTable
from tests.report.test_records import cells

# the example of Wikipedia's article on Fleiss' kappa: 14 raters, 10 subjects, 5 categories, κ = 0.210
FOURTEEN_RATERS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def test_fleiss_kappa_of_a_published_example():
    assert fleiss_kappa(FOURTEEN_RATERS) == pytest.approx(0.210, abs=5e-4)


def test_fleiss_kappa_of_two_raters_is_scotts_pi():
    # 4 of 5 agree; shares 5/10 and 5/10: (0.8 - 0.5) / 0.5
    assert fleiss_kappa([[2, 0], [2, 0], [0, 2], [0, 2], [1, 1]]) == pytest.approx(0.6)


def verdicts_of(**unqualified: set[int]) -> dict[str, dict[tuple[str, str], bool]]:
    return {name: {(str(i), "summary"): i not in bad for i in range(250)} for name, bad in unqualified.items()}


def test_the_papers_table():
    """Verdicts with the counts of SURE's Table 2, which leave one way for each set to overlap in number."""
    # H1 ∩ H2: 6 + 4 − 8 = 2; H1 ∩ M: 6 + 9 − 11 = 4; H2 ∩ M: 4 + 9 − 11 = 2; all: 13 − 19 + 8 = 2
    found = agreement(verdicts_of(H1=set(range(6)), H2={0, 1, 20, 21}, M={0, 1, 2, 3, 30, 31, 32, 33, 34}))
    assert [(" & ".join(one.annotators), one.qualified, one.unqualified) for one in found.joint] == [
        ("H1", 244, 6),
        ("H2", 246, 4),
        ("M", 241, 9),
        ("H1 & H2", 242, 8),
        ("H1 & M", 239, 11),
        ("H2 & M", 239, 11),
        ("H1 & H2 & M", 237, 13),
    ]
    assert found.same == (237 + 2) / 250
    # by hand: 244 agree; chance is (244·246 + 6·4) / 250²
    chance = (244 * 246 + 6 * 4) / 250**2
    assert found.cohen["H1", "H2"] == pytest.approx((244 / 250 - chance) / (1 - chance))


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (2, 3), (4, 15), (5, 6), (16, 17)])
def test_many_annotators_print_little(count, groups):
    """With all groups, 16 annotators would print 65,535 rows."""
    bad = {f"a{i}": {i % 40, (i * 7) % 40, (i * i) % 40} for i in range(count)}
    found = agreement({name: {(str(n), "summary"): n not in rows for n in range(40)} for name, rows in bad.items()})
    assert len(found.joint) == groups
    assert found.joint[-1].unqualified == len(set().union(*bad.values()))
    assert len(found.cohen) == count * (count - 1) // 2
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    for table in agreement_sheets(found):
        console.print(TerminalTable(table))
    assert printed.getvalue().count("\n") < 40 + count
    assert ("median" in printed.getvalue()) == (count > 4)


ROW = {"query": "q1", "kind": "summary", "qualified": True, "annotator": "a", "sample": "s"}


def write_rows(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_verdicts_are_read(tmp_path):
    one = write_rows(tmp_path / "a.jsonl", ROW, ROW | {"kind": "expansion", "qualified": False})
    other = write_rows(tmp_path / "b.jsonl", ROW | {"annotator": "b"}, ROW)
    assert read_verdicts([one, other]) == {
        "a": {("q1", "summary"): True, ("q1", "expansion"): False},
        "b": {("q1", "summary"): True},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qualified": "yes"}, r"b\.jsonl:1: is not a verdict: field 'qualified' should be true or false, found"),
        ({"kind": "sumary"}, r"b\.jsonl:1: is not a verdict: field 'kind' is 'sumary'; expected key-sentences or"),
        ({"qualified": False}, r"b\.jsonl:1: annotator 'a' has another verdict on summary of query 'q1'"),
        ({"sample": "t"}, r"b\.jsonl:1: is on the sample 't', and .*a\.jsonl on 's'"),
        ({"annotator": 3}, r"b\.jsonl:1: is not a verdict: field 'annotator' should be a string"),
    ],
)
def test_wrong_verdicts_are_named(tmp_path, change, message):
    one, other = write_rows(tmp_path / "a.jsonl", ROW), write_rows(tmp_path / "b.jsonl", ROW | change)
    with pytest.raises(DataError, match=message):
        read_verdicts([one, other])


# --- the record

TWO = agreement(
    {
        "anna": {("q1", "summary"): True, ("q2", "summary"): False},
        "ben": {("q1", "summary"): True, ("q2", "summary"): True},
    }
)


def test_a_record_is_the_same_from_its_json():
    plain = json.loads(to_json(TWO.to_json()))
    again = AGREEMENT.read(plain)
    assert json.loads(to_json(again.to_json())) == plain
    assert cells(AGREEMENT.sheets_of(again)) == cells(AGREEMENT.sheets_of(TWO)) != []
    with pytest.raises(TypeError, match="joint"):
        AGREEMENT.read({**plain, "joint": 1})


def test_a_record_as_a_data_frame():
    rows = TWO.to_frame()
    assert list(rows.columns) == ["annotators", "qualified", "unqualified"]
    assert list(rows.iloc[0]) == ["anna", 1, 1]
