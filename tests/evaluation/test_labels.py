"""What tables call a system."""

import json

import pytest

from retrokit import cli, encoders
from retrokit.core.errors import UsageError
from retrokit.evaluation.comparison.labels import labels_of
from retrokit.ranking import retrieval
from tests.evaluation.fakes import write_folder
from tests.models import sentences


@pytest.mark.parametrize(
    ("registry", "text"),
    [
        (encoders.registry, "static:dim=8,name=small table"),
        (encoders.registry, 'runs/mine,name="a, b"'),
        (retrieval.registry, "hybrid:a=bm25,b=static,name=both"),
    ],
)
def test_a_label_is_no_parameter(registry, text):
    spec = registry.parse(text)
    assert registry.parse(str(spec)).label == spec.label != ""
    assert registry.parse(text.rpartition(",name=")[0]) == spec
    assert "name" not in registry.options(spec)


@pytest.mark.parametrize("text", ["static:name=a,name=b", "static:name="])
def test_a_label_is_given_once_with_a_value(text):
    with pytest.raises(UsageError, match="give name once, with a value"):
        encoders.registry.parse(text)


def test_only_systems_have_labels():
    from retrokit import similarities

    with pytest.raises(UsageError, match="no parameter 'name'"):
        similarities.registry.parse("sfs:16,name=a")


def test_folders_services_and_the_rest():
    specs = ["minilm", "/home/ann/runs/q", "/home/ann/old/q", "/home/ann/other", "runs/q"]
    services = ["api:large,url=http://a/v1", "api:small,url=http://a/v1", "api:small,url=http://b/v1"]
    labels = labels_of([*specs, *services, "no-such-searcher:x=1"])
    assert list(labels.values()) == [
        *("minilm", "/home/ann/runs/q", "old/q", "other", "runs/q"),
        *("large", services[1], services[2]),
        "no-such-searcher:x=1",
    ]


def test_tables_gates_and_baselines_have_the_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    texts = sentences(12)
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": text.split(".")[0] for i, text in enumerate(texts)}
    write_folder(tmp_path / "beir", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(12)})
    on = ["--on", "beir:beir", "--precision", "fp32"]
    small, large = "static:dim=8,name=small", "static:dim=16,name=large"
    assert cli.run(["eval", small, large, *on, "--save-baseline", "baseline.json"]) == 0
    shown = capsys.readouterr().out
    assert "│ small " in shown
    assert "│ large " in shown
    assert "dim=8" not in shown
    gates = ["--baseline", "baseline.json", "--fail-under", "ndcg@10=2", "--junit", "junit.xml"]
    assert cli.run(["eval", "static:dim=8,name=large", small, *on, *gates]) == 1
    assert "retrokit: small cosine on beir:beir: ndcg@10" in capsys.readouterr().err
    assert "large cosine" in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert cli.run(["eval", small, large, *on, "--baseline-system", "large", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["comparisons"][0]["baseline"] == "large cosine"
    assert [result["encoder"] for result in printed["results"]] == ["static:16,name=large", "static:8,name=small"]
