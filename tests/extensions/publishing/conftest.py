"""A finished run with results, and a stand-in for the hub's client."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import write_folder
from tests.models import sentences


@pytest.fixture(scope="package")
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
