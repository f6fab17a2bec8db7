"""What is uploaded of a run, against a stand-in for the hub's client."""

import json
import shutil

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.utils import filter_repo_objects

from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.data.runs import Run
from retrokit.extensions.publishing import push
from retrokit.extensions.publishing.measured import card_results
from retrokit.extensions.publishing.models import _tags


def test_a_run_becomes_one_commit(folder, service, capsys):
    words = ["push", str(folder / "run"), "me/qnorm", "--license", "mit", "--private", "--json"]
    assert cli.run([*words, "--results", str(folder / "results"), "--base-model", "org/bert"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["url"], told["commit"]) == ("https://hub.test/me/qnorm", "c" * 40)
    files = service.files()
    assert sorted(files) == told["files"]
    assert {"README.md", "retrokit.json", "model.safetensors", "modules.json", "1_Pooling/config.json"} <= set(files)
    assert not {"metrics.jsonl", "config.toml"} & set(files)
    assert not any(name.startswith(("checkpoints", "plots")) for name in files)
    assert files["model.safetensors"] == (folder / "run" / "model.safetensors").read_bytes()
    (_, created), (_, uploaded) = service.calls
    assert created == {"repo": "me/qnorm", "repo_type": "model", "private": True, "exist_ok": True}
    there = ["README.md", "notes.txt", "pytorch_model.bin", "2_Prepare/config.json"]
    assert list(filter_repo_objects(there, allow_patterns=uploaded["delete_patterns"])) == there[2:], "notes stay"
    for name in ("README.md", "retrokit.json"):
        assert str(folder) not in files[name].decode(), "no path of this machine"
    card = ModelCard(files["README.md"].decode())
    assert (card.data.license, card.data.base_model) == ("mit", "org/bert")
    assert "\n# qnorm\n" in card.text
    assert 'retrokit.encoder("me/qnorm")' in card.text
    assert 'SentenceTransformer("me/qnorm")' in card.text
    found = {(one.dataset_name, one.metric_type): one.metric_value for one in card.data.eval_results}
    best = json.loads((folder / "run" / "retrokit.json").read_text())["outcome"]["evaluations"][-1]["evaluation"]
    (ndcg,) = {value for name, value in best.items() if name.endswith("ndcg@10")}
    assert found["beir", "ndcg@10"] == pytest.approx(ndcg, abs=1e-4)
    assert any(task.startswith("mteb:SciFact") for task, _ in found)
    tags = {"generated_from_trainer", "dataset_size:16", "loss:MultipleNegativesRankingLoss"}
    assert {"sentence-transformers", "retrokit"} | tags <= set(card.data.tags)
    texts = [text for line in (folder / "pairs.jsonl").open() for text in json.loads(line).values()]
    assert not [text for text in texts if text in str(card)]
    assert not any(name.startswith(".eval_results") for name in files), "the Hub has none of these data"


def test_no_password_of_the_hub_is_shown(folder, service, capsys):
    service.endpoint = "https://me:hunter2@hub.test"
    assert cli.run(["push", str(folder / "run"), "me/qnorm", "--json"]) == 0
    service.fails = "upload_folder"
    assert cli.run(["push", str(folder / "run"), "me/qnorm"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["url"] == "https://…@hub.test/me/qnorm"
    assert "…@" in err
    assert "hunter2" not in out + err


def test_files_outside_the_run_are_not_uploaded(folder, service, tmp_path, capsys):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "secret.txt").write_text("secret")
    about = json.loads((run / "retrokit.json").read_text())
    (run / "retrokit.json").write_text(json.dumps({**about, "files": [*about["files"], "../secret.txt"]}))
    assert cli.run(["push", str(run), "me/qnorm", "--dry-run", str(tmp_path / "upload")]) == 2
    said = f"field 'files.{len(about['files'])}' is '../secret.txt'; expected the name of a file in the folder"
    whole = f"retrokit: {run / 'retrokit.json'}: is not the description of a run: {said}\n"
    assert capsys.readouterr().err == whole
    assert not (tmp_path / "upload").exists()


@pytest.mark.parametrize("at", ["create_repo", "upload_folder"])
def test_a_hub_that_fails_is_one_line_and_leaves_nothing(folder, service, tmp_path, capsys, at):
    service.fails = at
    words = ["push", str(folder / "run"), "me/qnorm", "--results", str(folder / "results")]
    assert cli.run([*words, "--mteb", str(tmp_path / "submission")]) == 4
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("retrokit: me/qnorm was not uploaded: ")
    assert service.uploads == []
    assert not list(tmp_path.iterdir())


def test_the_base_model_and_an_edited_card(folder, service, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    description = tmp_path / "run" / "retrokit.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "encoder": "minilm"}))
    card = tmp_path / "run" / "README.md"
    card.write_text(card.read_text().replace("## Use", "## Mine\n\nWritten by hand.\n\n## Use"))
    push(str(tmp_path / "run"), "me/run")
    pushed = ModelCard(service.files()["README.md"].decode())
    assert "Written by hand." in pushed.text
    assert pushed.data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    push(str(tmp_path / "run"), "me/run", base_model="org/mine", dry_run=str(tmp_path / "upload"))
    assert ModelCard((tmp_path / "upload" / "README.md").read_text()).data.base_model == "org/mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repo": "qnorm"}, "`repo` qnorm: expected OWNER/NAME"),
        ({"repo": "me/a/b"}, "`repo` me/a/b: "),
        ({"folder": "mteb"}, "mteb is no data set; expected a model folder, a SURE or BEIR folder"),
        ({"folder": "beir", "results": ["results"]}, "`results=` is for models, and .*beir has no retrokit.json"),
        ({"mteb": "out"}, "`mteb=` needs `results=`"),
        ({"folder": "adapter", "results": ["results"]}, "none of .*adapter in its present state; they are of .+, .+$"),
    ],
)
def test_wrong_settings_are_one_line(folder, service, tmp_path, options, message):
    inside = {"folder": "run", "repo": "me/qnorm", **options}
    inside["folder"] = str(folder / inside["folder"])
    inside |= {"results": [str(folder / name) for name in inside.get("results", [])]}
    inside |= {"mteb": str(tmp_path / "out")} if "mteb" in options else {}
    with pytest.raises(UsageError, match=message) as caught:
        push(**inside)
    assert "\n" not in str(caught.value)
    assert service.calls == []


def test_the_losses_of_a_sum_are_tags():
    run = Run("finished", "dot", identity={"loss": "infonce+kl:0.5"}, notes={"data": [{"records": 3}, {"records": 4}]})
    losses = ["loss:MultipleNegativesRankingLoss", "loss:DistillKLDivLoss"]
    assert [*_tags(run)] == ["generated_from_trainer", "dataset_size:7", *losses]


def test_the_evaluation_of_the_saved_weights_is_on_the_card():
    evaluations = [{"step": step, "evaluation": {"mine:ndcg@10": step / 10, "spearman": 0.5}} for step in (1, 2, 3)]
    run = Run("finished", "dot", outcome={"best_step": 2, "evaluations": evaluations})
    results = [(result.task_type, result.dataset_name, result.metric_value) for result in card_results(run, [])]
    assert results == [("information-retrieval", "mine", 0.2), ("sentence-similarity", "evaluation", 0.5)]
