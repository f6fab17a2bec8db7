"""The scripts that prepare what the studies in examples/studies read: on small inputs, interrupted, on wrong ones."""

import importlib.util
import json
import os
import shutil
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.sure_folders import small_folder

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DATA = EXAMPLES.parent / "docs" / "results" / "data.toml"
WRITTEN = {"titles", "few", "rest.jsonl", "msmarco", "fiqa", "small"}


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


studies_data, masked, leaks = map(script, ("studies_data", "masked_language_model", "scifact_without_leaks"))


@pytest.fixture
def inputs(tmp_path, tiny_bert, monkeypatch):
    """ABSTRACTS and SURE."""
    monkeypatch.setattr(studies_data, "minilm_path", lambda: str(tiny_bert))
    monkeypatch.setattr(studies_data, "DOCUMENTS", 3)
    monkeypatch.setattr(studies_data, "TRAIN", 1)
    monkeypatch.setattr(studies_data, "TEST", 1)
    rows = [json.dumps({"title": f"title {i}", "text": f"text {i}\u2028"}, ensure_ascii=False) for i in range(5)]
    (tmp_path / "abstracts.jsonl").write_text("\n".join(rows), encoding="utf-8")
    for name in ("msmarco", "fiqa"):
        small_folder(tmp_path / "sure" / name)
    return tmp_path, tmp_path / "sure"


def test_a_folder_or_a_file_of_abstracts_gives_the_same(inputs, tmp_path):
    abstracts, sure = inputs
    for given, out in ((abstracts, "a"), (abstracts / "abstracts.jsonl", "b")):
        assert studies_data.main([str(given), str(sure), str(tmp_path / out)]) == 0
    assert {path.name for path in (tmp_path / "a").iterdir()} == WRITTEN
    paths = tomllib.loads(DATA.read_text("utf-8"))["studies"]["path"].split()
    assert {*paths} == {f"data/{name}" for name in WRITTEN | {"scifact", "cisi"}}
    for name in ("titles/qrels/train.tsv", "titles/corpus.jsonl", "few/qrels/test.tsv", "rest.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len((tmp_path / "a" / "rest.jsonl").read_text().rstrip("\n").split("\n")) == 2


def test_an_interrupted_run_continues(inputs, tmp_path, monkeypatch, capsys):
    words = [str(path) for path in (*inputs, tmp_path / "out")]
    lines = studies_data.write_lines

    def interrupted(path, rows):
        if "few" in str(path) and path.name == "corpus.jsonl":
            raise KeyboardInterrupt
        lines(path, rows)

    monkeypatch.setattr(studies_data, "write_lines", interrupted)
    with pytest.raises(KeyboardInterrupt):
        studies_data.main(words)
    assert (tmp_path / "out" / "titles").is_dir()
    assert not (tmp_path / "out" / "few").exists()
    monkeypatch.setattr(studies_data, "write_lines", lines)
    assert studies_data.main(words) == 0
    assert f"{tmp_path / 'out' / 'titles'} is there already" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == WRITTEN


def test_wrong_inputs_are_one_line_and_nothing_is_written(inputs, tmp_path, capsys, monkeypatch):
    abstracts, sure = inputs
    for words, message in (
        ([tmp_path / "nowhere", sure], "nowhere: does not exist"),
        ([abstracts, tmp_path], f"{tmp_path / 'msmarco'}: does not exist; expected a SURE folder"),
    ):
        assert studies_data.main([*map(str, words), str(tmp_path / "out")]) == 2
        assert message in (said := capsys.readouterr().err)
        assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").touch()
    assert studies_data.main([str(abstracts), str(sure), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'out'}: is a file; expected a folder\n"
    monkeypatch.setattr(studies_data, "minilm_path", lambda: str(tmp_path / "no" / "model"))
    assert studies_data.main([str(abstracts), str(sure), str(tmp_path / "new")]) == 3
    assert "retrokit-ir[minilm]" in capsys.readouterr().err


@pytest.mark.parametrize("module", [studies_data, masked])
def test_help_and_missing_arguments(module, capsys):
    with pytest.raises(SystemExit, match="0"):
        module.main(["--help"])
    assert f"\n    python examples/{module.__name__}.py " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        module.main([])


def test_a_language_model_of_wrong_inputs(tiny_bert, tmp_path, capsys):
    texts, out = tmp_path / "texts.jsonl", tmp_path / "out"
    texts.write_text('{"text": "a few words"}\n')
    (tmp_path / "shape").mkdir()
    shutil.copy(tiny_bert / "config.json", tmp_path / "shape")
    (tmp_path / "shape" / "tokenizer.json").write_text("{")
    for shape, paths, message in (
        (tmp_path / "nowhere", [texts], "nowhere: expected a folder with config.json and a tokenizer"),
        (tmp_path / "shape", [texts], "expected a folder with config.json and a tokenizer"),
        (tiny_bert, [texts], "tokens; expected at least 128"),
        (tiny_bert, [tmp_path / "no.jsonl"], "no.jsonl: does not exist"),
    ):
        assert masked.main([str(shape), str(out), *map(str, paths)]) == 2
        assert message in (said := capsys.readouterr().err)
        assert said.count("\n") == 1
    assert not out.exists()


def test_scifact_without_leaks_is_whole_or_absent(tmp_path, monkeypatch, capsys):
    source = tmp_path / "scifact"
    (source / "qrels").mkdir(parents=True)
    claims = {str(number): f"claim{number} says{number}" for number in range(20)}
    for name in ("queries", "corpus"):
        rows = [json.dumps({"_id": number, "text": text}) for number, text in claims.items()]
        (source / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split, ids in (("train", list(claims)[:15]), ("test", list(claims)[15:])):
        rows = ["query-id\tcorpus-id\tscore", *(f"{number}\t{number}\t1" for number in ids)]
        (source / "qrels" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    rename = os.rename

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        leaks.main(source, tmp_path / "clean")
    assert not (tmp_path / "clean").exists()
    monkeypatch.setattr(os, "rename", rename)
    leaks.main(source, tmp_path / "clean")
    parts = {path.stem for path in (tmp_path / "clean" / "qrels").iterdir()}
    assert parts == {"train", "dev", "test", "shared", "unshared"}
    capsys.readouterr()
    leaks.main(source, tmp_path / "clean")
    assert capsys.readouterr().out == f"{tmp_path / 'clean'} is there already\n"


def test_a_link_in_the_folder_of_data_comes_after_the_folder():
    headers = [path.read_text("utf-8") for path in (EXAMPLES / "studies").glob("*.toml")]
    commands = [header for header in headers if "ln -s" in header]
    assert len(commands) == 2
    commands.append(tomllib.loads(DATA.read_text("utf-8"))["labelled"]["make"])
    assert all("mkdir -p data" in text.partition("ln -s")[0] for text in commands)
