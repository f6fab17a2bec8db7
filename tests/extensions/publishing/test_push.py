"""What is uploaded of a run, against a stand-in for the hub's client."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.utils import filter_repo_objects

from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.publishing import push
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import write_folder
from tests.models import sentences


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory) -> Path:
    """A folder with a run, an adapter, and results of the run."""
    folder = tmp_path_factory.mktemp("push")
    texts = sentences(48)
    write_jsonl(folder / "pairs.jsonl", [{"anchor": texts[i], "positive": texts[16 + i]} for i in range(16)])
    judged = {f"q{i}": {f"d{i}": 1} for i in range(12)}
    documents = {f"d{i}": text for i, text in enumerate(texts[:20])}
    write_folder(folder / "beir", documents, {f"q{i}": text for i, text in enumerate(texts[20:32])}, judged)
    given = {"steps": 2, "batch_size": 8, "device": "cpu"}
    task = f"beir:{folder / 'beir'}"
    for name, more in (("run", {"sim": "qnorm", "eval": task}), ("adapter", {"lora": 2})):
        finetune(FinetuneConfig(str(tiny_bert), [str(folder / "pairs.jsonl")], str(folder / name), **given, **more))
    on = ["--on", task, "--on", f"mteb:SciFact,data={folder / 'beir'},cache={folder / 'mteb'}"]
    run = str(folder / "run")
    assert cli.run(["eval", run, str(tiny_bert), *on, "--results", str(folder / "results"), "--device", "cpu"]) == 0
    return folder


class Hub:
    """A stand-in for the hub's client: keeps what is uploaded; ``fails`` is the call that answers with an error."""

    def __init__(self) -> None:
        self.endpoint, self.fails = "https://hub.test", ""
        self.calls: list[tuple[str, dict]] = []
        self.uploads: list[dict[str, bytes]] = []

    def _called(self, name: str, options: dict) -> None:
        self.calls.append((name, options))
        if name == self.fails:
            raise OSError(f"507 Insufficient Storage for url: {self.endpoint}\nthe disk is full")

    def create_repo(self, repo: str, **options) -> None:
        self._called("create_repo", {"repo": repo, **options})

    def upload_folder(self, folder_path: Path, **options) -> SimpleNamespace:
        self._called("upload_folder", options)
        self.uploads.append(files_in(folder_path))
        return SimpleNamespace(oid="c" * 40)

    def files(self) -> dict[str, bytes]:
        """Names and contents of the files of the one commit."""
        (files,) = self.uploads
        return files


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def service(monkeypatch):
    hub = Hub()
    monkeypatch.setattr("retrokit.extensions.publishing.upload.HfApi", lambda: hub)
    return hub


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
    assert created == {"repo": "me/qnorm", "private": True, "exist_ok": True}
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


def test_results_are_written_as_mteb_takes_them(folder, service, tmp_path):
    given = {"results": [str(folder / "results")], "mteb": str(tmp_path / "submission")}
    push(str(folder / "run"), "me/qnorm", license="mit", **given)
    place = tmp_path / "submission" / "results" / "me__qnorm" / ("c" * 40)
    result, meta = (json.loads((place / name).read_text()) for name in ("SciFact.json", "model_meta.json"))
    assert result["task_name"] == "SciFact"
    assert (meta["name"], meta["revision"], meta["embed_dim"], meta["license"]) == ("me/qnorm", "c" * 40, 16, "mit")
    from mteb import ResultCache

    loaded = ResultCache(tmp_path / "submission").load_results()
    assert [one.model_name for one in loaded.model_results] == ["me/qnorm"]


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repo": "qnorm"}, "`repo` qnorm: expected OWNER/NAME"),
        ({"repo": "me/a/b"}, "`repo` me/a/b: "),
        ({"folder": "beir"}, "is not a retrokit run"),
        ({"mteb": "out"}, "`mteb=` needs `results=`"),
        ({"folder": "adapter", "results": ["results"]}, "`results=`: none of .*adapter in its present state"),
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
