"""`retrokit probe magnitude` and `retrokit probe fisher` as typed: tables, JSON, files, pictures, messages."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import write_folder
from tests.models import sentences

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run ``retrokit probe …`` in the test's folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # what a command sets ends with the test
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run(["probe", *map(str, words), "--device", "cpu"])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def write_set(tmp_path: Path, name: str, seed: int = 0) -> str:
    texts = sentences(60, seed)
    documents = {f"d{i}": text for i, text in enumerate(texts[:40])}
    queries = {f"q{i}": text for i, text in enumerate(texts[40:])}
    return f"beir:{write_folder(tmp_path / name, documents, queries, {f'q{i}': {f'd{i}': 1} for i in range(20)})}"


def pixels(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_magnitude_prints_writes_and_draws(probe, tiny_bert, tmp_path):
    specs = [write_set(tmp_path, f"set{seed}", seed) for seed in range(3)]
    on = [word for spec in specs for word in ("--on", spec)]
    code, out, err = probe("magnitude", tiny_bert, *on, "--plot", "out", "--precision", "fp32")
    assert code == 0, err
    assert "set0 (test): 20 queries, 40 documents, 20 judgements" in err
    assert "relevant: judged with a grade above 0" in out
    assert "d and the gain over data sets" in out
    assert out.rstrip().endswith(".")
    code, shown, _ = probe("magnitude", tiny_bert, *on, "--precision", "fp32", "--json")
    found = json.loads(shown, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert out.rstrip().endswith(found["conclusion"])
    assert [result["task"] for result in found["results"]] == specs
    effect = found["results"][0]["effect"]
    assert f"{effect['value']:+.2f} ({effect['low']:+.2f} to {effect['high']:+.2f})" in out
    pictures = {f"{name}.{end}" for name in ("effect", "lengths", "correlation") for end in ("png", "svg")}
    assert files(tmp_path / "out") == pictures | {"magnitude.csv", "correlation.csv"}
    rows = rows_of(tmp_path / "out" / "magnitude.csv")
    assert [float(row["d"]) for row in rows] == [result["effect"]["value"] for result in found["results"]]
    assert float(rows[1]["gain_percent"]) == found["results"][1]["gain"]["percent"]
    assert pixels(tmp_path / "out" / "correlation.png") == (800, 550)


def test_magnitude_with_a_baseline_shows_the_ratio(probe, tiny_bert, tmp_path):
    spec = write_set(tmp_path, "set")
    words = ("magnitude", tiny_bert, "--on", spec, "--baseline", "static:8", "--cv-baseline", "static:4")
    words = (*words, "--precision", "fp32")
    code, out, err = probe(*words)
    assert code == 0, err
    _, shown, _ = probe(*words, "--json")
    (result,) = json.loads(shown)["results"]
    assert f" {result['cv_ratio']['value']:.2f} " in out
    assert f"CV ratio: {tiny_bert} cosine over static:4 cosine" in out.replace("\n", "")
    assert "MAG's ΔCV (N.2) is the CV ratio of a dnorm run over a dot run" in out
    assert f"ndcg@10: static:8 cosine → {tiny_bert} cosine" in out.replace("\n", "")


def test_magnitude_without_labels_shows_no_gain(probe, tiny_bert, tmp_path):
    spec = write_set(tmp_path, "set")
    code, out, err = probe("magnitude", tiny_bert, "--on", spec, "--without-labels", "--proxies", 3)
    assert code == 0, err
    assert "relevant: a query's best 3 documents by angle, in place of labels" in out
    assert "ndcg" not in out


def test_magnitude_through_training(probe, tiny_bert, tmp_path):
    texts = sentences(32)
    write_jsonl(
        tmp_path / "pairs.jsonl", [{"anchor": a, "positive": b} for a, b in zip(texts[:16], texts[16:], strict=True)]
    )
    finetune(
        FinetuneConfig(
            str(tiny_bert), [str(tmp_path / "pairs.jsonl")], str(tmp_path / "run"), sim="learn", steps=4, batch_size=8,
            precision="fp32", device="cpu", log_every=1, save_every=2,
        )
    )  # fmt: skip
    spec = write_set(tmp_path, "set")
    code, out, err = probe("magnitude", "run", "--on", spec, "--checkpoints", "--plot", "out")
    assert code == 0, err
    assert "from step 0 to 4, d on" in out
    assert files(tmp_path / "out") == {
        *("training.png", "training.svg", "gamma.png", "gamma.svg", "magnitude.csv", "gamma.csv"),
        "change.csv",
    }
    assert [row["step"] for row in rows_of(tmp_path / "out" / "magnitude.csv")] == ["0", "2", "4"]
    assert [row["step"] for row in rows_of(tmp_path / "out" / "gamma.csv")] == ["1", "2", "3", "4"]


def test_fisher_prints_writes_and_draws(probe, tiny_bert, tmp_path):
    spec = write_set(tmp_path, "set")
    code, out, err = probe("fisher", tiny_bert, "static:8", "--on", spec, "--plot", "out")
    assert code == 0, err
    assert "20 pairs, not 1,000: all are used" in err
    code, shown, _ = probe("fisher", tiny_bert, "static:8", "--on", spec, "--json")
    found = json.loads(shown, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert out.rstrip().endswith(found["conclusion"])
    assert "fewer pairs than dimensions" in out.replace("\n", " ")
    first = found["results"][0]
    assert f" {first['prediction']['log_kappa']['qnorm']:.3f} " in out
    cosine = next(one for one in first["information"] if one["similarity"] == "cosine")
    assert (cosine["document"], cosine["query"], cosine["log10"]["query"]) == (0.0, 0.0, None)
    assert files(tmp_path / "out") == {
        *("fisher.png", "fisher.svg", "kappa.png", "kappa.svg", "fisher.csv", "kappa.csv")
    }
    zero = rows_of(tmp_path / "out" / "fisher.csv")[0]
    assert (zero["component"], zero["information"], zero["log10"]) == ("document", "0.0", "")
    kappas = rows_of(tmp_path / "out" / "kappa.csv")
    assert [row["pairs"] for row in kappas] == ["20"] * 4
    assert float(kappas[0]["log10_kappa"]) == first["prediction"]["log_kappa"]["qnorm"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["magnitude", "static:8", "--proxies", 3], "--proxies is for --without-labels: give both"),
        (["magnitude", "static:8", "static:4", "--checkpoints"], "--checkpoints is about one run"),
        (["magnitude", "static:8", "--irrelevant", "few"], "--irrelevant few is none of top, all"),
        (["magnitude", "static:8", "--checkpoints", "--cv-baseline", "static:4"], "no --baseline and no --cv-baseline"),
        (["magnitude", "static:8", "--without-labels", "--baseline", "static:4"], "--baseline is for the gain"),
    ],
)
def test_wrong_use_is_one_line(probe, tmp_path, words, told):
    code, out, err = probe(*words, "--on", write_set(tmp_path, "set"))
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_made(probe, tiny_bert, tmp_path):
    (tmp_path / "taken").write_text("")
    code, out, err = probe("magnitude", tiny_bert, "--on", write_set(tmp_path, "set"), "--plot", "taken")
    assert (code, out) == (2, "")
    assert "taken: could not be written" in err
