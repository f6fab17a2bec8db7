"""``name=``: what results, tables, gates and baselines call a system."""

import json
from pathlib import Path

import pytest

from retrokit import cli, encoders
from retrokit.core.errors import UsageError
from retrokit.ranking import reranking, retrieval
from retrokit.similarities import registry as similarities
from tests.evaluation.fakes import write_folder
from tests.models import sentences


@pytest.mark.parametrize(
    ("registry", "text"),
    [
        (encoders.registry, "static:dim=8,name=small table"),
        (encoders.registry, 'runs/mine,name="a, b"'),
        (retrieval.registry, "hybrid:a=bm25,b=static,name=both"),
        (reranking.registry, "maxsim:static,name=late"),
    ],
)
def test_a_name_is_no_parameter(registry, text):
    spec = registry.parse(text)
    assert registry.parse(str(spec)).label == spec.label != ""
    assert registry.parse(text.rpartition(",name=")[0]) == spec
    assert "name" not in registry.options(spec)


@pytest.mark.parametrize("text", ["static:name=a,name=b", "static:name="])
def test_a_name_is_given_once_with_a_value(text):
    with pytest.raises(UsageError, match="give name once, with a value"):
        encoders.registry.parse(text)


def test_only_systems_have_names():
    with pytest.raises(UsageError, match="no parameter 'name'"):
        similarities.parse("sfs:16,name=a")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command on a task of twelve queries, and returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    texts = sentences(12)
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": text.split(".")[0] for i, text in enumerate(texts)}
    write_folder(tmp_path / "beir", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(12)})

    def run(*words):
        code = cli.run([*words, "--on", "beir:beir"])
        return code, *capsys.readouterr()

    return run


SMALL, LARGE = "static:dim=8,name=small", "static:dim=16,name=large"


def test_tables_gates_and_baselines_have_the_name(run, tmp_path):
    code, shown, _ = run("eval", SMALL, LARGE, "--save-baseline", "baseline.json")
    assert code == 0
    assert "│ small " in shown
    assert "│ large " in shown
    gates = ["--baseline", "baseline.json", "--fail-under", "ndcg@10=2", "--junit", "junit.xml"]
    code, _, said = run("eval", "static:dim=32,name=large", SMALL, *gates)
    assert code == 1
    assert "retrokit: small cosine on beir:beir: ndcg@10" in said
    assert "large cosine" in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    code, shown, _ = run("eval", SMALL, LARGE, "--baseline-system", "large", "--json")
    printed = json.loads(shown)
    assert code == 0
    assert [result["encoder"] for result in printed["results"]] == ["large", "small"]
    assert printed["comparisons"][0]["baseline"] == "large cosine"
    (tmp_path / "printed.json").write_text(shown, encoding="utf-8")
    assert cli.run(["report", "printed.json", "-o", "page.html"]) == 0
    assert "small" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_two_stages_and_searchers_have_names(run):
    systems = [SMALL, "two-stage:static:dim=8,reranker=maxsim:static,name=ours", "bm25:name=words"]
    code, shown, said = run("eval", *systems, "--baseline-system", "ours", "--json")
    assert code == 0, said
    assert [result["encoder"] for result in json.loads(shown)["results"]] == ["ours", "small", "words"]
    code, shown, said = run("rerank", SMALL, "--with", "maxsim:static", "--json")
    assert code == 0, said
    assert {result["encoder"] for result in json.loads(shown)["results"]} == {"small"}


def test_rerankers_have_names(run):
    rerankers = ("--with", "maxsim:static,name=late", "--with", "static:8,name=a/b")
    code, shown, said = run("rerank", SMALL, *rerankers)
    assert code == 0, said
    assert "│ cosine + late " in shown
    assert "│ cosine + a/b " in shown
    assert "maxsim" not in shown
    code, shown, said = run("rerank", SMALL, *rerankers, "--json")
    assert code == 0, said
    specs = [result["configuration"].get("reranker") for result in json.loads(shown)["results"]]
    assert specs == [None, "maxsim:static,name=late", "static:8,name=a/b"]


def test_a_name_with_slashes_is_not_shortened_as_a_folder_is(run, capsys):
    Path("a/b").mkdir(parents=True)
    systems = ("static:8,name=a/b", "static:dim=16,name=x/y/z")
    code, shown, said = run("eval", *systems, "--results", "results")
    assert code == 0, said
    assert cli.run(["eval", "--results", "results"]) == 0
    stored = capsys.readouterr().out
    code, of_probe, said = run("probe", "magnitude", *systems)
    assert code == 0, said
    for table in (shown, stored, of_probe):
        assert "│ a/b " in table
        assert "│ x/y/z " in table


def test_a_folder_of_results_knows_the_system_without_its_name(run):
    code, _, _ = run("eval", "static:8", "--results", "results")
    assert code == 0
    code, shown, said = run("eval", SMALL, "--results", "results")
    assert code == 0
    assert "│ small " in shown
    assert "1 result" in said


def test_a_folder_of_results_shows_the_last_name(run, capsys):
    two_stages = "two-stage:static:dim=8,reranker=maxsim:static,name=ours"

    def shown(*words):
        assert cli.run(["eval", "--results", "results", "--json", *words]) == 0
        return {result["encoder"]: result for result in json.loads(capsys.readouterr().out)["results"]}

    assert run("eval", SMALL, two_stages, "static:16", "--results", "results")[0] == 0
    results = shown("--baseline-system", "ours")
    assert list(results) == ["ours", "small", "static:16"]
    assert results["ours"]["configuration"]["spec"] == two_stages
    code, _, said = run("eval", "static:8,name=smaller", "--results", "results")
    assert (code, "1 results used again, 0 computed" in said) == (0, True)
    assert list(shown()) == ["smaller", "ours", "static:16"]
    assert run("eval", "static:8", "--results", "results")[0] == 0
    assert "static:8" in shown()


PROBES = {
    "magnitude": [],
    "fragments": ["--size", "4"],
    "geometry": [],
    "fisher": [],
}


@pytest.mark.parametrize("probe", PROBES)
def test_probes_have_the_name(run, probe):
    code, shown, said = run("probe", probe, SMALL, *PROBES[probe])
    assert code == 0, said
    assert "small" in shown
    assert "static:8" not in shown
    code, shown, said = run("probe", probe, SMALL, *PROBES[probe], "--json")
    assert code == 0, said
    assert '"encoder": "small"' in shown


def test_a_name_belongs_to_one_system(run):
    code, _, said = run("eval", SMALL, "static:dim=16,name=small")
    assert code == 2
    assert said.strip() == f"retrokit: static:dim=16,name=small and {SMALL}: two systems have the name small"


def test_a_name_is_no_other_systems_spec_and_no_seed(run):
    code, _, said = run("eval", "static:8", "static:dim=16,name=static:8")
    assert (code, "two systems have the name static:8" in said) == (2, True)
    code, shown, said = run("eval", "static:8,name=one", "static:8,seed=1,name=two", "--json")
    assert code == 0, said
    results = json.loads(shown)["results"]
    assert [result["encoder"] for result in results] == ["one", "two"]
    assert results[1]["configuration"]["spec"] == "static:8,seed=1,name=two"
    assert len(json.loads(shown)["comparisons"]) > 0
