"""Canaries of an export: another encoder agrees with it or not, and only a change that mends it explains why."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.extensions.vectors.canaries import verify
from retrokit.ranking.export import export
from retrokit.report.records import read_record
from tests.evaluation.fakes import write_lines
from tests.models import sentences

TEXTS = [" ".join(sentences(count, seed=count)) for count in range(1, 9) for _ in range(3)]
TEXTS += sentences(30, seed=4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]
    return write_lines(tmp_path_factory.mktemp("data") / "corpus.jsonl", lines)


@pytest.fixture
def exported(corpus: Path, tmp_path: Path, tiny_bert: Path) -> Callable[..., str]:
    def make(more: str = "", **options: object) -> str:
        options = {"precision": "fp32", **options}
        return str(export(f"{tiny_bert}{more}", str(corpus), str(tmp_path / "out"), **options).folder)

    return make


def test_the_same_model_agrees(exported, tiny_bert, capsys):
    folder = exported()
    assert cli.run(["vectors", "verify", folder, str(tiny_bert), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agrees"], found["explanations"], len(found["trials"])) == (True, [], 1)
    assert found["trials"][0]["cosine"] == pytest.approx(1, abs=1e-6)
    assert found["trials"][0]["order"] == 1


def test_the_report_is_read_again(exported, tiny_bert, capsys, tmp_path):
    words = ["vectors", "verify", exported(), str(tiny_bert)]
    assert cli.run(words) == 0
    (sheet,) = [line for line in capsys.readouterr().out.splitlines() if "least cosine" in line]
    assert cli.run([*words, "--json"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "report.json").write_text(printed)
    source = read_record(str(tmp_path / "report.json"), "a report")
    assert source is not None
    assert source.record.to_json().items() <= json.loads(printed).items()
    assert source.conclusion == source.record.verdict.replace(str(tiny_bert), tiny_bert.name)
    assert all(column in sheet for column in source.sheets[0].columns)


SPOILED = [
    (",pooling=cls", "pooling", "pooling=mean"),
    (",document_prompt=passage: ", "prompt", "document_prompt=''"),
    (",max_length=8", "length", "max_length=64"),
    (",dtype=bf16", "precision", "dtype=fp32"),
]


@pytest.mark.parametrize(
    ("spoiled", "cause", "change", "spoil_export"),
    # precision that the export has lost cannot be mended in the other
    [(*row, False) for row in SPOILED] + [(*row, True) for row in SPOILED if row[1] != "precision"],
)
def test_each_cause_is_named_alone(exported, tiny_bert, spoiled, cause, change, spoil_export):
    folder = exported(spoiled if spoil_export else "")
    report = verify(folder, f"{tiny_bert}{'' if spoil_export else spoiled}")
    if spoil_export:
        change = spoiled[1:].replace("document_prompt=passage: ", "document_prompt='passage: '")
    assert report.explanations == [f"{cause} ({change})"]
    assert report.agrees == (cause == "precision")  # cosines of bf16 are above 0.999
    explained = [trial for trial in report.trials if f"{trial.cause} ({trial.change})" in report.explanations]
    assert [trial.cosine for trial in explained] == [pytest.approx(1, abs=1e-5)]
    assert report.trials[0].cosine < explained[0].cosine
