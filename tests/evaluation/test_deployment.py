"""The sheet of a deployment: its lines are evaluations, and what they cost is what is there."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrokit import cli
from retrokit.evaluation import evaluate as evaluation
from retrokit.evaluation.deployment import Deployment, DeploymentRow, deployment
from retrokit.evaluation.result import Result
from retrokit.metrics.significance import holm
from retrokit.report.deployment import deployment_json, deployment_plot, deployment_sheet
from retrokit.report.sheets import to_markdown
from tests.evaluation.fakes import write_folder
from tests.models import sentences

pytest.importorskip("faiss", reason="of the extra faiss")

TEXTS = sentences(140, seed=4)
DOCUMENTS = {f"d{number:03}": text for number, text in enumerate(TEXTS[:120])}
QUERIES = {f"q{number:02}": text for number, text in enumerate(TEXTS[120:])}
METRICS = ("ndcg@10", "recall@20")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    drawn = np.random.default_rng(0)
    judged = {query: dict.fromkeys(drawn.choice(list(DOCUMENTS), 3, replace=False).tolist(), 1) for query in QUERIES}
    return f"beir:{write_folder(tmp_path_factory.mktemp('data') / 'toy', DOCUMENTS, QUERIES, judged)}"


@pytest.fixture(scope="module")
def sheet(tiny_bert: Path, folder: str) -> Deployment:
    (made,) = deployment([str(tiny_bert)], [folder], sim=["qnorm"], metrics=METRICS, precision="fp32")
    return made


def test_the_grid_that_nobody_has_asked_for(sheet):
    first = ["16 float32 exact", "16 float32 HNSW32", "16 float32 IVF8,Flat:nprobe=1", "16 int8 exact"]
    assert [row.name for row in sheet.rows[:4]] == first
    assert (len(sheet.rows), {row.dims for row in sheet.rows}) == (3 * 4 * 3, {16, 8, 4})
    assert (sheet.metric, sheet.depth, sheet.rows[0].recall) == ("ndcg@10", 20, 1)


@pytest.mark.parametrize("quantize", [None, "int8", "binary", "binary+rescore"])
@pytest.mark.parametrize(("dims", "index"), [(16, None), (8, None), (16, "IVF8,Flat:nprobe=1")])
def test_a_line_is_an_evaluation(tiny_bert, folder, sheet, quantize, dims, index):
    asked = {"metrics": METRICS, "precision": "fp32", "dims": dims, "index": index, "quantize": quantize}
    (expected,) = evaluation.evaluate([str(tiny_bert)], [folder], sim=["qnorm"], **asked).results
    (row,) = [row for row in sheet.rows if row.name == f"{dims} {quantize or 'float32'} {index or 'exact'}"]
    assert row.result.metrics == expected.metrics
    assert row.result.per_query == expected.per_query
    first = sheet.rows[0].result.run
    shares = [len(first[query].keys() & expected_run.keys()) / 20 for query, expected_run in row.result.run.items()]
    assert row.recall == pytest.approx(np.mean(shares))


def test_bytes_are_those_of_the_numbers_and_of_what_finds_them(sheet):
    sizes = {row.name: row.row_bytes for row in sheet.rows}
    for dims in (16, 8):
        assert sizes[f"{dims} float32 exact"] == pytest.approx(4 * dims, abs=3)  # and the header of the whole
        assert sizes[f"{dims} int8 exact"] == pytest.approx(dims, abs=3)
        assert sizes[f"{dims} binary exact"] == pytest.approx(dims / 8, abs=3)
    links = 2 * 32 * 4  # of a document in the lowest layer of the graph
    assert links < sizes["16 int8 HNSW32"] - sizes["16 int8 exact"] < 1.5 * links
    assert (
        8 < sizes["16 binary IVF8,Flat:nprobe=1"] - sizes["16 binary exact"] < 24
    )  # the place of a document, and more
    assert all(row.milliseconds > 0 for row in sheet.rows)


def test_the_tests_are_corrected_over_the_sheet(sheet):
    compared = [row.comparison for row in sheet.rows[1:]]
    assert sheet.rows[0].comparison is None
    assert [one.corrected_p for one in compared] == holm([one.p for one in compared])
    baseline = sheet.rows[0].result.metrics["ndcg@10"]
    for row in sheet.rows[1:]:
        assert row.comparison.test.difference == pytest.approx(row.result.metrics["ndcg@10"] - baseline)


def row(quality: float, size: float, time: float) -> DeploymentRow:
    result = Result("e", "s", "t", "ndcg@10", {"ndcg@10": quality}, {}, {"queries": 3, "documents": 4}, {}, {})
    return DeploymentRow(8, f"{size}", f"{time}", result, 1.0, size, time)


def test_the_front_is_what_none_beats_at_its_cost():
    best, equal, worse, cheap, slow = (
        *(row(0.5, 400, 2), row(0.5, 500, 3), row(0.3, 100, 4), row(0.4, 100, 5), row(0.6, 600, 9)),
    )
    made = Deployment("e", "s", "t", "ndcg@10", 10, (best, equal, worse, cheap, slow))
    assert made.front("row_bytes") == [cheap, best, slow]
    assert made.front("milliseconds") == [best, slow]


def test_what_is_shown(sheet, tmp_path):
    text = to_markdown(deployment_sheet(sheet))
    lines = [line for line in text.splitlines() if line.startswith("| 16") or line.startswith("| 8")]
    assert len(lines) == 24
    assert "| recall@20 | ndcg@10 | difference |" in text
    assert text.count("←") == len(sheet.front("row_bytes")) + len(sheet.front("milliseconds")) + 1  # and the caption
    told = json.loads(json.dumps(deployment_json([sheet]), allow_nan=False))[0]
    assert [one["name"] for one in told["rows"]] == [row.name for row in sheet.rows]
    assert told["rows"][5]["configuration"]["quantize"] == "int8"
    assert told["fronts"]["row_bytes"] == [row.name for row in sheet.front("row_bytes")]
    files = deployment_plot(sheet, tmp_path, "sheet")
    assert [file.name for file in files] == ["sheet.png", "sheet.svg"]
    assert "$" not in files[1].read_text(encoding="utf-8")
    hostile = replace(sheet, encoder="a$b_{", task="\x1b[31m" + "long " * 60)
    assert deployment_plot(hostile, tmp_path, "hostile")[0].stat().st_size > 10_000


def test_the_command(tiny_bert, folder, tmp_path, capsys):
    words = ["eval", str(tiny_bert), "--on", folder, "--deployment", "--plot", str(tmp_path / "plots")]
    words += ["--dims", "16,8", "--quantize", "int8", "--index", "exact HNSW8"]
    assert cli.run([*words, "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in made["rows"]] == [
        *("16 float32 exact", "16 int8 exact", "16 int8 HNSW8", "8 int8 exact", "8 int8 HNSW8"),
    ]
    assert {path.suffix for path in (tmp_path / "plots").iterdir()} == {".png", ".svg"}
    assert cli.run(words) == 0
    assert "Holm p" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--deployment", "--dims", "16,17"], "--dims 17: {encoder} has 16 dimensions"),
        (["--deployment", "--sim", "l2"], "--deployment: a storage dtype needs an inner product, and l2 is none"),
        (["--deployment", "--index", "exact Nope"], "index Nope: faiss: could not parse index string Nope"),
        (["--deployment", "--explain", "3"], "--deployment is a sheet of its own, without --explain"),
        (["--deployment", "--format", "csv"], "--deployment is a sheet of its own, without --format csv"),
        (["--deployment", "bm25"], "--deployment is about embeddings, and bm25 is no encoder"),
        (["--deployment", "--metrics", "ndgc@10"], "unknown metric 'ndgc@10'"),
        (["--dims", "16,8"], "--dims 16 8: several are for --deployment; give one"),
        (["--dims", "x"], "--dims x: expected whole numbers with commas between"),
        (["--dims", "0"], "--dims 0 is out of range (at least 1)"),
    ],
)
def test_what_does_not_fit(tiny_bert, folder, capsys, words, problem):
    assert cli.run(["eval", str(tiny_bert), "--on", folder, *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith(f"retrokit: {problem.format(encoder=tiny_bert)}")
