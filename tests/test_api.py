"""The Python API does what the commands do, and loads nothing before it is used."""

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import retrokit
from retrokit import cli, similarities
from retrokit.data.jsonl import write_jsonl
from retrokit.evaluation.settings import EvaluationSettings
from tests.evaluation.fakes import write_folder
from tests.forked_python import light_python
from tests.models import sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    texts = sentences(40, seed=3)
    write_folder(
        folder / "beir",
        {f"d{i}": text for i, text in enumerate(texts)},
        {f"q{i}": text[:20] for i, text in enumerate(texts[:12])},
        {f"q{i}": {f"d{i}": 1} for i in range(12)},
    )
    write_jsonl(folder / "texts.jsonl", [{"text": ". ".join(texts[i : i + 6])} for i in range(0, 36, 6)])
    return folder


def test_every_name_is_there_and_documented():
    for name in retrokit.__all__:
        assert getattr(retrokit, name).__doc__, name
    for space in (retrokit.augment, retrokit.probe):
        assert all(getattr(space, name).__doc__ for name in space.__all__)
    assert set(retrokit.__all__) <= set(dir(retrokit))
    with pytest.raises(AttributeError, match="finetun"):
        retrokit.finetun  # noqa: B018


def test_importing_it_loads_nothing_heavy():
    code = "import sys, retrokit; print(sorted({'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([light_python(), "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_it_is_typed():
    from importlib.resources import files

    assert files("retrokit").joinpath("py.typed").is_file()


def test_train_evaluate_probe_and_rerank(folder, tmp_path, tiny_bert, capsys):
    on, run = f"beir:{folder / 'beir'}", str(tmp_path / "run")
    config = retrokit.FinetuneConfig(
        str(tiny_bert), [f"{on},split=test"], run, sim="qnorm", steps=2, batch_size=4, precision="fp32", device="cpu"
    )
    outcome = retrokit.finetune(config)
    assert outcome.folder == run
    found = retrokit.evaluate([str(tiny_bert), run], [on], precision="fp32", device="cpu")
    assert [result.similarity for result in found.results] == ["cosine", "qnorm"]
    words = ["eval", str(tiny_bert), run, "--on", on, "--precision", "fp32", "--device", "cpu", "--json"]
    assert cli.run(words) == 0
    printed = json.loads(capsys.readouterr().out)["results"]
    assert [result.metrics for result in found.results] == [result["metrics"] for result in printed]
    probed = retrokit.probe.magnitude([run], [on], precision="fp32", device="cpu")
    assert probed.to_json()
    ranked = retrokit.rerank(run, [on], ["maxsim"])
    assert [result.configuration.get("reranker") for result in ranked.results] == [None, "maxsim"]


def test_an_evaluation_is_asked_for_by_its_settings():
    asked = inspect.signature(retrokit.evaluate)
    assert asked.parameters.keys() == {one.name for one in fields(EvaluationSettings)}
    assert {name: one.default for name, one in asked.parameters.items()} == vars(EvaluationSettings())
    assert asked.return_annotation == "Evaluation"
    with pytest.raises(TypeError, match="encoder"):
        retrokit.evaluate(encoder="minilm")


def test_what_is_wrong_names_the_parameter_and_on_the_command_line_the_option(capsys):
    with pytest.raises(retrokit.RetrokitError, match="`batch_size=` 0 is out of range"):
        retrokit.FinetuneConfig("minilm", ["pairs.jsonl"], batch_size=0)
    assert cli.run(["finetune", "minilm", "--data", "pairs.jsonl", "--warmup=-1", "-o", "run"]) == 2
    assert "--warmup -1.0 is out of range (at least 0)" in capsys.readouterr().err
    with pytest.raises(retrokit.RetrokitError, match="name the folder to write: `output=`"):
        retrokit.build_sure(retrokit.SureConfig("data", "openai:m,url=http://127.0.0.1:9/v1"))


def test_the_examples_of_the_page_run(folder, tiny_bert, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    (tmp_path / "data").symlink_to(folder / "beir")
    long = ". ".join(60 * f"{letter} " + number for letter in "abcd" for number in "123")
    write_jsonl(tmp_path / "corpus.jsonl", [{"text": long}] * 8)
    monkeypatch.chdir(tmp_path)
    session = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", session)
    monkeypatch.setattr(similarities.registry, "_entries", dict(similarities.registry._entries))
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block.replace('"minilm"', repr(str(tiny_bert))).replace(":minilm", f":{tiny_bert}"), vars(session))
    assert "`batch_size=` 0 is out of range" in capsys.readouterr().out
