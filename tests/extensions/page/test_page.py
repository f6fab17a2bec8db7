"""The page of a report: what it is made from, that it is whole, and that nothing on it is anyone's markup."""

import json
import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.core.registry import imported
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import of_kind, to_json
from retrokit.data.records import PrintedRecord
from retrokit.data.runs import Run, write_run
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.result import Result
from retrokit.extensions.page.html import to_html
from retrokit.extensions.page.page import page_of, write_page
from retrokit.extensions.page.sources import read_sources
from retrokit.probing import ProbeEntry
from retrokit.probing import registry as probe_entries
from retrokit.probing.base import Findings
from retrokit.report.records import RecordEntry, RecordSource
from retrokit.report.words import sentences
from tests.report import gallery

HOSTILE = "</title><script>alert(1)</script>\"'&]]>--><img src=x onerror=alert(2)>"


def result(name: str, values: list[float], task: str = "beir:data/set", similarity: str = "cosine") -> Result:
    items = {f"q{i}": value for i, value in enumerate(values)}
    mean = {"ndcg@10": sum(values) / len(values)}
    about = {"precision": "float32", "fingerprint": "0123456789abcdef"}
    return Result(
        name, similarity, task, "ndcg@10", mean, {"ndcg@10": items}, {"queries": len(items), "documents": 30}, {}, about
    )


def values(place: int, queries: int = 20) -> list[float]:
    return [0.2 + 0.1 * place + 0.01 * ((i * (place + 1)) % 3) for i in range(queries)]


def evaluation(*names: str, tasks: tuple[str, ...] = ("beir:data/set",)) -> Evaluation:
    """Systems each of which is better than the one before it by 0.1, and a little differently on every query."""
    results = [result(name, values(place), task) for task in tasks for place, name in enumerate(names)]
    return evaluation_of(results, {task: ["ndcg@10"] for task in tasks}, {})


def evaluated(found: Evaluation, with_queries: bool = False) -> dict[str, Any]:
    """An evaluation as the command prints it."""
    return of_kind("evaluation", found.to_json(with_queries))


def of_probe(found: Findings) -> dict[str, Any]:
    """The findings of a probe as the command prints them."""
    entries = [entry for entry in probe_entries.entries() if isinstance(entry, ProbeEntry)]
    (name,) = (entry.name for entry in entries if isinstance(found, imported(entry.findings)))
    return of_kind(f"probe-{name}", found.to_json())


@dataclass(frozen=True)
class Work(PrintedRecord):
    """A record with all that one may have."""

    text: str
    hours: float | None = None

    @property
    def conclusion(self) -> str:
        return f"So: {self.text}"

    @property
    def seconds(self) -> float | None:
        return None if self.hours is None else 3600 * self.hours

    def sheets(self) -> list[Sheet]:
        return [Sheet(f"did {self.text}", [self.text], 1, [[self.text]], self.text)]

    def missing(self) -> list[Sheet]:
        return [Sheet(f"lacks {self.text}", [self.text], 1, [[self.text]])] if self.text else []


def page_from(tmp_path: Path, *contents: object, work: Work | None = None, price: float | None = None) -> str:
    files = [tmp_path / f"found-{number}.json" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(content if isinstance(content, str) else to_json(content), encoding="utf-8")
    sources = read_sources([str(file) for file in files])
    if work is not None:
        sources.records.append(RecordSource("work.json", RecordEntry("work", "Work.", ""), work, work.sheets()))
    return page_of(sources, price_per_hour=price)


# --- the page


def test_a_page_tells_who_is_best_and_loads_nothing(tmp_path):
    page = page_from(tmp_path, evaluated(evaluation("first", "second"), True))
    assert "second cosine is best in ndcg@10 (0.3100): above the first row, first cosine (0.2095), by +0.1005" in page
    assert re.findall("<h[1-6]>(.*?)</h", page)[:2] == ["retrokit report", "Results"]
    assert re.findall("<h2>(.*?)</h2>", page) == ["Results", "Wins and losses by query", "Provenance"]
    captions = re.findall("<caption>(.*?)</caption>", page)
    assert captions == ["beir:data/set", "tests", "ndcg@10 by query: beir:data/set", "data", "systems"]
    assert (
        page.count('<svg xmlns="http://www.w3.org/2000/svg"') == page.count("<svg") == page.count("<figcaption>") == 1
    )
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"(src|href)=.(?!#|data:)", page)
    assert set(re.findall(r"https?://[^\"'\s<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_every_text_is_escaped(tmp_path):
    found = evaluation(f"a{HOSTILE}", f"b{HOSTILE}", tasks=(f"beir:{HOSTILE}", f"beir:2{HOSTILE}"))
    probes = [gallery.fragments([HOSTILE, f"x{HOSTILE}"]), gallery.near_miss([HOSTILE], [HOSTILE])]
    page = page_from(tmp_path, evaluated(found, True), *map(of_probe, probes), work=Work(HOSTILE))
    assert page.count("<script") == page.count("</script") == 1
    assert "<img" not in page
    assert page.count("</title>") == 1 + page.count("<svg")
    assert HOSTILE in unescape(page)


def test_what_a_record_lacks_is_said(tmp_path):
    page = page_from(tmp_path, evaluated(evaluation("a", "b")), work=Work("x.jsonl"))
    assert "<p>So: x.jsonl</p>" in page
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[-3:] == ["Other results", "Missing or failed", "Provenance"]
    for heading, table in (("Other results", "did x.jsonl"), ("Missing or failed", "lacks x.jsonl")):
        (part,) = (part for part in page.split("<h2>") if part.startswith(heading))
        assert re.findall("<caption>(.*?)</caption>", part) == [table]
    assert "Missing or failed" not in page_from(tmp_path, evaluated(evaluation("a", "b")), work=Work(""))


@pytest.mark.parametrize(
    ("price", "told"), [(None, "0.50 hours, added up."), (3.0, "0.50 hours, added up; at 3 an hour, 1.50.")]
)
def test_hours_and_what_they_cost_are_told(tmp_path, price, told):
    assert told in page_from(tmp_path, work=Work("x", 0.5), price=price)
    run = write_training(tmp_path / "run", "cosine", 0)  # of 3 seconds
    write_page([run], tmp_path / "of-run.html", price_per_hour=price and 1200)
    assert ("at 1,200 an hour, 1.00" if price else "0.00 hours, added up.") in (tmp_path / "of-run.html").read_text()
    assert "torch 2.0; A processor" in (tmp_path / "of-run.html").read_text()


# --- what it is made from


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "1: malformed JSON: .*; expected a results folder"),
        ("[]", "is JSON of something else"),
        ("3", "is JSON of something else"),
        ('{"conclusion": ""}', "is JSON of something else"),
        ('{"kind": "evaluation", "version": 2}', "has version 2 of its format; expected version 1; update retrokit"),
        ('{"kind": "evaluation", "results": [], "comparisons": []}', "is not whole"),
        (evaluated(evaluation_of([], {}, {})), "there is no result"),
        ({**evaluated(evaluation("a", "b")), "results": [vars(result("a", [0.1], "other"))]}, "is not whole"),
        (
            json.dumps(evaluated(evaluation("a", "b"))).replace('"main_metric": "', '"main_metric": "other '),
            "has no other .*, its main metric",
        ),
        ('{"kind": "probe-fisher", "results": 3, "conclusion": ""}', "is not whole"),
        ('{"kind": "probe-fisher", "results": [], "conclusion": ""}', "is not whole"),
        ('{"kind": "build-sure", "testbeds": {}, "kinds": {}, "calls": 3, "conclusion": ""}', "is not whole"),
        ({**of_probe(gallery.fisher(["a", "b"])), "conclusion": {}}, "'conclusion' should be a string"),
        ({**of_probe(gallery.near_miss(["a", "b"], ["swap"])), "data": 10**400}, "'data' should be a string"),
        (
            {**of_probe(gallery.near_miss(["a"], ["swap"])), "families": [{"encoder": 3}]},
            "'families.0.encoder' should be a string",
        ),
    ],
)
def test_what_is_nothing_to_report_is_one_line(tmp_path, content, problem):
    with pytest.raises(DataError, match=problem) as caught:
        page_from(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "found-0.json") in str(caught.value)
    assert not (tmp_path / "page.html").exists()


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(DataError, match="contains nothing to report"):
        write_page([tmp_path], tmp_path / "page.html")
    with pytest.raises(UsageError, match="give results"):
        write_page([], tmp_path / "page.html")


PROBES = {
    "magnitude": lambda: gallery.magnitude(["a", "b"]),
    "fisher": lambda: gallery.fisher(["a", "b"]),
    "fragment": lambda: gallery.fragments(["a", "b"]),
    "near_miss": lambda: gallery.near_miss(["a", "b"], ["swap", "negation"]),
}


@pytest.mark.parametrize("kind", PROBES)
def test_a_probe_is_the_same_from_its_json(tmp_path, kind):
    found = PROBES[kind]()
    page = page_from(tmp_path, of_probe(found))
    for sheet in found.sheets():
        assert to_html(sheet) in page
    assert page.count("<svg") == 1 if kind == "near_miss" else "<svg" in page
    assert found.conclusion in unescape(page)


def test_what_cannot_be_drawn_is_one_line_with_the_file(tmp_path):
    probe = of_probe(gallery.fisher(["a"]))
    probe["results"][0]["information"].append(probe["results"][0]["information"][0])
    with pytest.raises(DataError, match=r"found-0\.json: looks like a result, but is not whole"):
        page_from(tmp_path, probe)


def write_training(folder: Path, similarity: str, seed: int, status: str = "finished") -> Path:
    """A run's folder, but for the model."""
    folder.mkdir(parents=True)
    evaluations = [
        {"step": step, "evaluation": {"ndcg@10": 0.3 + 0.01 * step + 0.02 * seed}, "seconds": 0.3 * step}
        for step in (0, 5, 10)
    ]
    losses = [{"step": 5, "loss": 2.0, "seconds": 1.5}, {"step": 10, "loss": 1.0, "seconds": 3.0}]
    lines = [evaluations[0], losses[0], *evaluations[1:], losses[1]]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = {"folder": str(folder), "steps": 10, "stopped_because": None, "best_step": 10, "converged_at": None}
    outcome |= {"evaluations": evaluations, "losses": []}
    identity = {"encoder": "static", "seed": seed, "sim": similarity}
    told = {"outcome": {**outcome, "gain": 0.1, "metric": "ndcg@10"} if status == "finished" else None}
    notes = {
        "versions": {"torch": "2.0"},
        "processor": "A processor",
        "retrokit": "0.1.0",
        "git": {"commit": "abcdef"},
        "data": [],
    }
    write_run(Run(status, similarity, "static", identity, 10, notes=notes, **told), folder)
    return folder


def test_runs_are_told_and_drawn_with_their_seeds_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [write_training(Path("runs", f"q-{seed}"), "qnorm", seed) for seed in (0, 1)]
    runs += [write_training(Path("runs", "c"), "cosine", 0), write_training(Path("runs/open"), "dnorm", 0, "training")]
    write_page(runs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", page) == ["Training", "Missing or failed", "Provenance"]
    assert re.findall("<figcaption>(.*?)</figcaption>", page) == ["Through training: loss", "Through training: ndcg@10"]
    assert re.search(r"q-\* \(2 seeds\)", page)
    assert "runs/open: its training is not finished" in page
    cells = re.search(r"<tr><th scope=.row.>[^<]*q-1</th>(.*?)</tr>", page)[1]
    told = ["ndcg@10", "0.3200", "0.4200", "10", "+0.1000", "2", "1"]
    assert re.findall(">([^<>]+)</td>", cells) == told
    assert "torch 2.0" in page
    assert "abcdef" in page
    write_page(runs, tmp_path / "again.html")
    both = [(tmp_path / name).read_text().partition("<footer>")[0] for name in ("page.html", "again.html")]
    assert both[0] == both[1]


# --- in words


@pytest.mark.parametrize(
    ("systems", "told"),
    [
        ([[0.2, 0.3, 0.4]], "On t, s0 cosine reaches ndcg@10 0.3000; nothing is compared with it."),
        (
            [[0.2, 0.3, 0.4], [0.3, 0.2, 0.43]],
            "On t, s1 cosine is best in ndcg@10 (0.3100): above the first row, s0 cosine (0.3000), by +0.0100 (95% "
            "interval -0.2421 to +0.2621, corrected p = 1: no difference that this data can show).",
        ),
        (
            [[0.3, 0.2, 0.43], [0.2, 0.3, 0.4]],
            "On t, s0 cosine is best in ndcg@10 (0.3100): above the next, s1 cosine (0.3000), by +0.0100 (95% interval "
            "-0.2421 to +0.2621, corrected p = 1: no difference that this data can show).",
        ),
    ],
)
def test_a_sentence_says_whether_it_can_be_told(systems, told):
    results = [result(f"s{place}", own, "t") for place, own in enumerate(systems)]
    assert list(sentences(evaluation_of(results, {"t": ["ndcg@10"]}, {}))) == [told]


# --- tables and pictures
