"""Results as the Hub and MTEB read them, by their own code."""

import importlib.util
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import mteb
import pytest
from huggingface_hub import ModelCard, parse_eval_result_entries
from mteb import ResultCache, TaskResult
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.model_meta import ScoringFunction
from yaml import safe_load

import retrokit
from retrokit.core.errors import UsageError
from retrokit.evaluation.comparison.results_folder import ResultsFolder
from retrokit.extensions.publishing import push
from retrokit.extensions.publishing.measured import card_results, hub_results
from retrokit.extensions.publishing.models import stage_model
from retrokit.extensions.publishing.submission import _sizes, _training_tasks


@pytest.fixture
def of_the_hub(folder, tmp_path):
    """The records of the run as if the Hub had their data: of a BEIR set, and of MTEB with the Hub's revision."""
    task = mteb.get_task("SciFact")
    records = [record for record in ResultsFolder(str(folder / "results")).read() if "run" in record.result.encoder]
    changed = []
    for record in records:
        name, configuration = "beir:hf:org/science,split=dev", record.result.configuration
        if record.result.task.startswith("mteb:"):
            name = "mteb:SciFact"
            (file,) = configuration["mteb_results"]
            result = TaskResult.from_disk(Path(configuration["mteb_cache"], file))
            result = result.model_copy(update={"dataset_revision": task.metadata.revision})
            result.to_disk(tmp_path / "SciFact.json")
            configuration = {**configuration, "mteb_cache": str(tmp_path), "mteb_results": ["SciFact.json"]}
        changed.append(replace(record, result=replace(record.result, task=name, configuration=configuration)))
    return changed


def test_entries_are_those_that_mteb_writes(of_the_hub, tmp_path):
    theirs = TaskResult.from_disk(tmp_path / "SciFact.json")._to_hf_benchmark_result()
    ours = hub_results(of_the_hub)["SciFact"]
    assert [(entry.dataset_id, entry.task_id, entry.dataset_revision, entry.value) for entry in ours] == [
        (row.dataset.id, row.dataset.task_id, row.dataset.revision, row.value) for row in theirs.root
    ]
    assert {entry.notes for entry in ours} == {"similarity qnorm"}


def test_the_hub_reads_the_files(folder, of_the_hub, tmp_path):
    from retrokit.data.runs import read_run
    from retrokit.extensions.publishing.settings import PushSettings

    staged = tmp_path / "staged"
    staged.mkdir()
    stage_model(PushSettings(str(folder / "run"), "me/qnorm"), read_run(folder / "run"), of_the_hub, staged)
    files = {path.name: safe_load(path.read_text()) for path in (staged / ".eval_results").iterdir()}
    assert set(files) == {"SciFact.yaml", "beir-hf-org-science-split-dev.yaml"}
    (entry,) = parse_eval_result_entries(files["beir-hf-org-science-split-dev.yaml"])
    assert (entry.dataset_id, entry.task_id, entry.notes) == ("org/science", "default", "ndcg@10, similarity qnorm")
    (record,) = (record for record in of_the_hub if record.result.task.startswith("beir:"))
    assert entry.value == pytest.approx(100 * record.result.metrics["ndcg@10"], abs=1e-4)
    assert {entry.dataset_id for entry in parse_eval_result_entries(files["SciFact.yaml"])} == {"mteb/scifact"}
    card = ModelCard((staged / "README.md").read_text())
    assert {result.dataset_type for result in card.data.eval_results} == {"beir", "mteb/scifact", "org/science"}
    names = {result.dataset_name for result in card_results(read_run(folder / "run"), of_the_hub)}
    assert names == {"beir", "mteb:SciFact", "beir:hf:org/science,split=dev"}


def submission(folder, tmp_path, **options):
    options = {"license": "mit", "languages": ["eng-Latn"], "base_model": "intfloat/e5-small", **options}
    results = [str(folder / "results")]
    push(str(folder / "run"), "me/qnorm", results=results, mteb=str(tmp_path / "submission"), **options)
    return tmp_path / "submission"


def test_mteb_loads_results_and_model_metadata(folder, service, tmp_path):
    written = submission(folder, tmp_path)
    place = written / "results" / "me__qnorm" / ("c" * 40)
    assert json.loads((place / "SciFact.json").read_text())["task_name"] == "SciFact"
    loaded = ResultCache(written).load_results()
    assert [one.model_name for one in loaded.model_results] == ["me/qnorm"]
    spec = importlib.util.spec_from_file_location("model_meta", written / "model_meta.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    meta = module.me__qnorm
    assert (meta.name, meta.revision, meta.license, meta.languages) == ("me/qnorm", "c" * 40, "mit", ["eng-Latn"])
    assert (meta.embed_dim, meta.adapted_from) == (16, "intfloat/e5-small")
    assert meta.similarity_fn_name == ScoringFunction.DOT_PRODUCT
    assert meta.loader is SentenceTransformerEncoderWrapper
    assert meta.n_parameters > meta.n_embedding_parameters > 0
    assert len(meta.release_date) == len("2026-01-01")
    assert meta.training_datasets is None, "the pairs may be of any task"
    assert meta == ResultCache(written)._load_model_meta_from_cache("me/qnorm", "c" * 40)


def test_mteb_submits_the_results(folder, service, tmp_path, monkeypatch):
    cache = ResultCache(submission(folder, tmp_path))
    repository = cache.remote_repo_path
    (repository / "results").mkdir(parents=True)
    (repository / "README.md").write_text("results")
    identity = ["-c", "user.name=me", "-c", "user.email=me@test"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Start"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "me")
        monkeypatch.setenv(f"{name}_EMAIL", "me@test")
    monkeypatch.setattr(ResultCache, "download_from_remote", lambda self: repository)
    response = cache.submit_results()
    assert response["status"] == "ready_for_submission"
    assert response["models_submitted"] == [("me/qnorm", "c" * 40)]
    assert (repository / "results" / "me__qnorm" / ("c" * 40) / "SciFact.json").is_file()


def test_training_tasks_are_named_as_mteb_names_them(folder):
    from retrokit.data.runs import read_run
    from retrokit.extensions.publishing.submission import _public_data, _training_tasks

    run = read_run(folder / "run")
    for data, tasks, public in (
        (["beir:scifact,split=train", "hf:mteb/nfcorpus"], {"SciFact", "NFCorpus"}, None),
        (["hf:mteb/nfcorpus"], {"NFCorpus"}, "https://huggingface.co/datasets/mteb/nfcorpus"),
        (["hf:org/a", "hf:org/b"], None, True),
    ):
        changed = replace(run, identity={**run.identity, "data": data})
        found = _training_tasks(changed)
        assert found == tasks if tasks is None else tasks <= found
        assert _public_data(changed) == public


@pytest.mark.parametrize("options", [{"license": "my own"}, {"languages": ["english"]}])
def test_what_mteb_does_not_take_is_one_line(folder, service, tmp_path, options):
    with pytest.raises(UsageError, match="`mteb=`: MTEB does not take this model: ") as caught:
        submission(folder, tmp_path, **options)
    assert "\n" not in str(caught.value)
    assert service.uploads == []


def test_a_metric_without_a_value_is_not_published(folder, of_the_hub):
    from retrokit.data.runs import read_run

    (record,) = (record for record in of_the_hub if record.result.task.startswith("beir:"))
    metrics = {**record.result.metrics, "ndcg@10": float("nan")}
    undefined = replace(record, result=replace(record.result, metrics=metrics))
    assert hub_results([undefined]) == {}
    of_training = card_results(read_run(folder / "run"), [])
    published = card_results(read_run(folder / "run"), [undefined])[len(of_training) :]
    assert {result.metric_type for result in published} == {*record.shown} - {"ndcg@10"}


def test_sizes_are_those_of_the_model():
    sizes = _sizes(retrokit.encoder("static:64"))
    assert sizes == {"n_parameters": 30522 * 64, "memory_usage_mb": 7}


def test_other_training_data_are_named_in_a_notice(folder, caplog):
    from retrokit.data.runs import read_run

    caplog.set_level("INFO", "retrokit")
    run = read_run(folder / "run")
    _training_tasks(replace(run, identity={**run.identity, "data": ["data/a.jsonl", "hf:org/b", "hf:mteb/nfcorpus"]}))
    (notice,) = caplog.messages
    assert "complete it if a.jsonl, hf:org/b have data of MTEB's tasks" in notice
