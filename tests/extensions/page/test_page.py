"""The page of a report: what it is made from, that it is whole, and that nothing on it is anyone's markup."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.core.errors import DataError, UsageError
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import of_kind, to_json
from retrokit.data.overlap import Overlap
from retrokit.data.records import PrintedRecord
from retrokit.data.runs import Run, write_run
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result
from retrokit.evaluation.two_stage import Reranking
from retrokit.extensions.page.html import to_figure, to_html
from retrokit.extensions.page.page import page_of, write_page
from retrokit.extensions.page.sources import read_sources
from retrokit.probing import ProbeEntry
from retrokit.probing import registry as probe_entries
from retrokit.probing.base import Findings
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.records import RecordEntry, RecordSource
from retrokit.report.reranking import near_miss_sheets
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
    (name,) = (entry.name for entry in entries if isinstance(found, entry.load_findings()))
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
    probes = [gallery.layers([HOSTILE, f"x{HOSTILE}"]), gallery.near_miss([HOSTILE], [HOSTILE])]
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


def test_a_price_of_nothing_is_refused(tmp_path):
    with pytest.raises(UsageError, match="price_per_hour"):
        page_from(tmp_path, evaluated(evaluation("a", "b")), price=1.0)


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
        ('{"kind": "probe-layers", "layers": 3, "conclusion": ""}', "is not whole"),
        ('{"kind": "probe-layers", "task": "t", "metric": "m", "layers": [], "conclusion": ""}', "is not whole"),
        ({**of_probe(gallery.labelled_map(["a", "b"])), "labels": [0]}, "a label of the classes and two coordinates"),
        ({**of_probe(gallery.labelled_map(["a", "b"])), "classes": ["a"]}, "a label of the classes"),
        ('{"kind": "build-sure", "testbeds": {}, "kinds": {}, "calls": 3, "conclusion": ""}', "is not whole"),
        ({**of_probe(gallery.labelled_map(["a", "b"])), "conclusion": {}}, "'conclusion' should be a string"),
        ({**of_probe(gallery.labelled_map(["a", "b"])), "data": 10**400}, "'data' should be a string"),
        (
            {**of_probe(gallery.labelled_map(["a", "b"])), "maps": [{"encoder": 3}]},
            "'maps.0.encoder' should be a string",
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


def test_an_evaluation_is_the_same_from_its_json(tmp_path):
    results = [result(f"runs/q-{seed}", values(1 + seed)) for seed in range(2)]
    results += [result("first", values(0)), result("first", values(0), similarity="dot")]
    trainings = {f"runs/q-{seed}": Training("qnorm", "g", str(seed)) for seed in range(2)}
    found = evaluation_of(results[::-1], {"beir:data/set": ["ndcg@10"]}, trainings)
    found = replace(found, digests={"beir:data/set": lambda: "sha256:abc"})
    (tmp_path / "x.json").write_text(to_json(evaluated(found, True)))
    (source,) = read_sources([str(tmp_path / "x.json")]).of(Evaluation)
    assert evaluation_sheets(source.record) == evaluation_sheets(found)
    assert list(sentences(source.record)) == list(sentences(found))
    assert [one.trained_with for one in source.record.systems] == [None, None, "qnorm"]
    assert source.record.digests["beir:data/set"]() == "sha256:abc"


PROBES = {
    "magnitude": lambda: gallery.magnitude(["a", "b"]),
    "fisher": lambda: gallery.fisher(["a", "b"]),
    "fragment": lambda: gallery.fragments(["a", "b"]),
    "contrast": lambda: gallery.contrast(["a", "b"]),
    "near_miss": lambda: gallery.near_miss(["a", "b"], ["swap", "negation"]),
    "layer": lambda: gallery.layers(["a", "b"]),
    "geometry": lambda: gallery.geometry(["a", "b"], 2),
    "map": lambda: gallery.labelled_map(["a", "b"]),
}


@pytest.mark.parametrize("kind", PROBES)
def test_a_probe_is_the_same_from_its_json(tmp_path, kind):
    found = PROBES[kind]()
    page = page_from(tmp_path, of_probe(found))
    for sheet in found.sheets():
        assert to_html(sheet) in page
    assert page.count("<svg") == {"map": 2, "near_miss": 1, "layer": 2, "geometry": 1}.get(
        kind, page.count("<svg") or -1
    )
    assert found.conclusion in unescape(page)


def test_a_reranking_is_shown_from_its_json(tmp_path):
    found = gallery.reranking(["a", "b"], ["swap"])
    page = page_from(tmp_path, to_json(found.to_json(True), kind="reranking"))
    for sheet in near_miss_sheets(found.near_miss_rows()):
        assert to_html(sheet) in page
    assert re.findall("<h2>(.*?)</h2>", page)[0] == "Reranking"
    assert page.count("<svg") >= 2  # rankings, near-misses


def test_what_cannot_be_drawn_is_one_line_with_the_file(tmp_path):
    probe = of_probe(gallery.fisher(["a"]))
    probe["results"][0]["information"].append(probe["results"][0]["information"][0])
    reranked = json.loads(to_json(gallery.reranking(["a", "b"], ["swap"]).to_json(True), kind="reranking"))
    reranked["shown"] = {task: ["nothing"] for task in reranked["shown"]}
    for number, content in enumerate((probe, reranked)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(DataError, match=r"found-0\.json: looks like a result, but is not whole"):
            page_from(folder, content)


@pytest.mark.parametrize("reranked", [False, True])
def test_the_table_of_tests_has_the_interval_of_every_metric_that_is_shown(tmp_path, reranked):
    metrics = ["rdc", "precision_roc"]
    results = [gallery.result(name, "sure:a", metrics, shift=0.1 * place) for place, name in enumerate("abc")]
    found = evaluation_of(results, {"sure:a": metrics}, {})
    printed = of_kind("reranking", Reranking(found).to_json(True)) if reranked else evaluated(found, True)
    page = unescape(page_from(tmp_path, printed))
    (table,) = (part for part in page.split("</table>") if "<caption>tests</caption>" in part)
    rows = table[table.index("<caption>tests") :]
    assert [rows.count(f">{metric}<") for metric in metrics] == [2, 2]
    for one in found.comparisons:
        assert f"{one.test.low:+.4f} … {one.test.high:+.4f}" in rows
    (tests,) = (sheet for sheet in evaluation_sheets(found) if sheet.title == "tests")
    assert {row[2] for row in tests.rows} == {("rdc",)}  # a terminal has less room


def test_a_build_is_shown_from_its_json(tmp_path):
    calls = {"calls": 7, "from_store": 2, "prompt_tokens": 1000, "completion_tokens": 234}
    kinds = {"summary": {"tried": 4, "at_once": 3, "after_retries": 0, "dropped": 1, "rejections": {"too long": 1}}}
    built = {
        "kind": "build-sure",
        "version": 1,
        "testbeds": {"precision": {"kept": 3, "dropped": {"summary": 1}}},
        "kinds": kinds,
        "calls": calls,
    }
    page = page_from(tmp_path, built)
    assert re.findall("<h2>(.*?)</h2>", page) == ["Other results"]
    assert "7 calls (1,234 tokens), 2 answers from the store" in page
    assert "too long" in page


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
    assert re.search(r"runs/q-\* \(2 seeds\)", page)
    assert "runs/open: its training is not finished" in page
    cells = re.search(r"<tr><th scope=.row.>[^<]*q-1</th>(.*?)</tr>", page)[1]
    told = ["ndcg@10", "0.3200", "0.4200", "10", "+0.1000", "2", "1"]
    assert re.findall(">([^<>]+)</td>", cells) == told
    assert "torch 2.0" in page
    assert "abcdef" in page
    write_page(runs, tmp_path / "again.html")
    both = [(tmp_path / name).read_text().partition("<footer>")[0] for name in ("page.html", "again.html")]
    assert both[0] == both[1]


def test_several_scores_of_a_run_make_a_cross(tmp_path):
    trainings = {name: Training(name, name, "0") for name in ("qnorm", "dnorm")}
    results = [
        result(name, values(place), task, similarity)
        for task in ("t", "u")
        for place, name in enumerate(trainings)
        for similarity in trainings
    ]
    found = evaluation_of(results, {task: ["ndcg@10"] for task in "tu"}, trainings)
    page = page_from(tmp_path, evaluated(found))
    assert re.findall("<h2>(.*?)</h2>", page) == ["Results", "Cross-evaluation", "Provenance"]
    assert re.findall("<caption>(.*?)</caption>", page.partition("Cross-evaluation</h2>")[2])[:2] == ["t", "u"]
    assert page.count("<svg ") == 2 + 2


def test_the_command_says_what_is_wrong_in_one_line(tmp_path, capsys):
    assert cli.run(["report", str(tmp_path / "none.json"), "-o", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"retrokit: {tmp_path}/none.json: does not exist\n")
    assert said.count("\n") == 1
    (tmp_path / "found.json").write_text(to_json(evaluated(evaluation("a", "b"))))
    assert cli.run(["report", str(tmp_path / "found.json"), "-o", "-", "--title", "<T>"]) == 0
    assert "<title>&lt;T&gt;</title>" in capsys.readouterr().out
    assert cli.run(["report", str(tmp_path / "found.json"), "-o", str(tmp_path)]) == 2
    assert [one.name for one in tmp_path.iterdir()] == ["found.json"]


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


def test_texts_seen_in_training_have_a_sentence():
    seen = Overlap("beir:data/set", {"queries": 20, "queries_seen": 3, "queries_near": 0, "pairs": 20, "pairs_seen": 1})
    assert [*sentences(replace(evaluation("a", "b", "c"), overlaps=[seen]))][1:] == [f"{seen.warning()}."]


def test_many_tasks_are_told_together():
    tasks = tuple(f"t{i}" for i in range(6))
    found = evaluation("a", "b", tasks=tasks)
    first, over, *rest = sentences(found)
    assert (
        first == "b cosine is best on 6 of 6 tasks, on 6 of them above the first row by more than chance (corrected "
        "p < 0.05)."
    )
    assert over.startswith("Over 6 tasks, b cosine has the highest mean ndcg@10 (0.3100), above a cosine (0.2095)")
    assert rest == []
    kept = [one for one in found.results if (one.encoder, one.task) != ("b", "t3")]
    told = list(sentences(evaluation_of(kept, {task: ["ndcg@10"] for task in tasks}, {})))
    assert told[-1] == "b cosine has no result on t3."


def on_tasks(**systems: tuple[int, Sequence[int]]) -> Evaluation:
    """Systems by name, each with the place that decides its values, and the numbers of its tasks."""
    results = [
        result(name, values(place), f"t{number}") for name, (place, numbers) in systems.items() for number in numbers
    ]
    return evaluation_of(results, {one.task: ["ndcg@10"] for one in results}, {})


def test_up_to_four_tasks_have_a_sentence_each():
    starts = [text.partition(",")[0] for text in sentences(on_tasks(a=(0, range(4)), b=(1, range(4))))]
    assert starts == ["On t0", "On t1", "On t2", "On t3", "Over 4 tasks"]
    starts = [text.partition(",")[0] for text in sentences(on_tasks(a=(0, range(5)), b=(1, range(5))))]
    assert starts == ["b cosine is best on 5 of 5 tasks", "Over 5 tasks"]


def test_the_first_row_that_is_best_is_above_no_first_row():
    first, *_ = sentences(on_tasks(a=(1, range(5)), b=(0, range(5))))
    assert first == "a cosine is best on 5 of 5 tasks."


def test_up_to_five_missing_tasks_are_named_and_a_mean_of_fewer_is_not_compared():
    for count, told in ((7, "t2, t3, t4, t5, t6."), (8, "t2, t3, t4, t5, t6 and 1 more.")):
        *_, over, hole = sentences(on_tasks(a=(0, range(count)), b=(1, range(count)), c=(2, range(2))))
        assert over.startswith(f"Over {count} tasks, b cosine has the highest mean ndcg@10")
        assert hole == f"c cosine has no result on {told}"


# --- tables and pictures


def test_numbers_sort_by_what_they_begin_with():
    rows = [["a", ("0.7000 ± 0.01", "+0.1*")], ["b", "1,204"], ["c", "–"], ["d", "-0.5%"], ["e", "12.3 ←"]]
    html = to_html(Sheet("t", ["name", "value"], 1, rows, ""))
    assert re.findall('data-sort="(.*?)"', html) == ["0.7", "1204.0", "-0.5", "12.3"]
    assert html.count("<button") == 2
    assert "0.7000 ± 0.01<br>+0.1*" in html
    continued = to_html(Sheet("t", ["name", "value"], 1, [["a", "1"], ["", "2"]], ""))
    assert "<button" not in continued


def test_a_picture_has_ids_of_its_own_and_the_colours_of_the_page():
    svg = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="460.8pt"
      height="300pt" viewBox="0 0 460.8 300"><metadata>x</metadata><defs><style>* {fill: red}</style>
      <path id="m1" style="stroke: #000000"/><clipPath id="c1"><rect/></clipPath></defs>
      <g id="fixed"><text style="fill: #ffffff">cell</text></g><g id="text_1" clip-path="url(#c1)">
      <use xlink:href="#m1" style="fill: #ffffff"/><text>&lt;script&gt;]]&gt; id="m1" #000000</text></g></svg>"""
    first, second = to_figure(svg, HOSTILE), to_figure(svg, "t")
    for gone in ("metadata", "style>", "fill: red"):
        assert gone not in second
    assert "stroke: currentColor" in second
    assert "fill: var(--paper)" in second
    assert re.search('<g class="fixed"><text style="fill: #ffffff">cell', second)
    assert '&lt;script&gt;]]&gt; id="m1" #000000' in second
    ids = re.findall(' id="(.*?)"', (first + second).replace(' id="m1" #', ""))
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', second)) <= set(ids)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"step": 1, "loss": "x"}, "'loss' should be a number"),
        ({"step": 1, "evaluation": {"m": 10**400}}, "'evaluation.m' is no finite number"),
        ({"step": 1, "evaluation": {"m": [None]}}, "'evaluation.m' should be a number"),
    ],
)
def test_wrong_metrics_of_a_run_are_one_line(tmp_path, line, problem):
    write_run(Run("training", "cosine"), tmp_path)
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 0}) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(DataError, match=rf"metrics\.jsonl:2: is not metrics of a step: field {problem}"):
        read_sources([str(tmp_path)])
