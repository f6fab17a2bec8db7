"""What became of gates, for those who read it elsewhere: JUnit's XML for CI, Markdown for a pull request's comment."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from retrokit.core.files import writing
from retrokit.core.notices import harmless
from retrokit.core.sheet import Sheet, grouped
from retrokit.evaluation.comparison.comparison import FAILED, PASSED, UNTESTED, Gate
from retrokit.evaluation.comparison.gates import verdicts
from retrokit.report.sheets import in_markdown, to_markdown

_NO_XML = re.compile("[\ufffe\uffff]")


def gates_sheet(gates: Sequence[Gate]) -> Sheet:
    """A table with a line for each gate."""
    rows = []
    for gate in gates:
        value = "–" if gate.value is None else f"{gate.value:.4f}"
        rows.append([gate.task, gate.system, gate.metric, gate.asked, gate.verdict, value])
    columns = ["task", "system", "metric", "asked", "verdict", "value"]
    return Sheet("gates", columns, 5, rows, ", ".join(f"{count} {word}" for word, count in verdicts(gates).items()))


def write_junit(gates: Sequence[Gate], path: str) -> None:
    """Write ``path`` as JUnit's XML: a suite a task, a case a gate, whose class is the system. Raises
    :class:`DataError` if it cannot be written."""
    root = ElementTree.Element("testsuites", _counts(gates))
    for task, of_task in grouped(gates, "task").items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _in_xml(task), **_counts(of_task)})
        for gate in of_task:
            named = {"classname": _in_xml(gate.system), "name": _in_xml(f"{gate.metric} {gate.asked}")}
            case = ElementTree.SubElement(suite, "testcase", named)
            if gate.verdict != PASSED:
                tag = "failure" if gate.verdict == FAILED else "skipped"
                ElementTree.SubElement(case, tag, {"message": _in_xml(gate.message)})
    ElementTree.indent(root)
    with writing(path) as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
        stream.write(f"{ElementTree.tostring(root, encoding='unicode')}\n")


def write_summary(gates: Sequence[Gate], sheets: Sequence[Sheet], path: str) -> None:
    """Write ``path`` as GitHub's Markdown: how many gates hold, what the others say, and the tables. Raises
    :class:`DataError` if it cannot be written."""
    summary = ", ".join(f"{count} {verdict}" for verdict, count in verdicts(gates).items())
    said = [f"- {in_markdown(gate.message)}" for gate in gates if gate.verdict == FAILED]
    with writing(path) as stream:
        title = f"### retrokit: gates: {summary}" if gates else "### retrokit"
        stream.write("\n".join([title, "", *said, *([""] if said else []), *map(to_markdown, sheets)]))


def _counts(gates: Sequence[Gate]) -> dict[str, str]:
    counted = verdicts(gates)
    attributes = {"failures": counted.get(FAILED, 0), "errors": 0, "skipped": counted.get(UNTESTED, 0)}
    return {name: str(count) for name, count in {"tests": len(gates), **attributes}.items()}


def _in_xml(text: str) -> str:
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), harmless(text))
