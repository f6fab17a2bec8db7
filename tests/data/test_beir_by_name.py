"""BEIR's published sets by name, and the answers that a folder may hold."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, MissingExtra, ServiceError
from retrokit.data.beir import digest_beir, located, read_answers, read_beir, write_beir
from retrokit.data.corpus import Document

DOCUMENTS = [Document("d1", "Cats", "They purr."), Document("d2", "", "Dogs bark.")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and a folder for downloads."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "beir"


class Network:
    """Stands in for ``requests``: serves one archive, whole or not at all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, content: bytes | Exception) -> None:
        self.content = content
        self.asked: list[str] = []
        monkeypatch.setattr("requests.head", self.head)
        monkeypatch.setattr("requests.get", self.get)

    def head(self, address: str, timeout: float) -> Network:
        if isinstance(self.content, Exception):
            raise self.content
        return self

    def raise_for_status(self) -> None: ...

    headers: dict[str, str] = {}  # noqa: RUF012

    def get(self, address: str, **options: Any) -> Network:
        self.asked.append(address)
        return self

    def iter_content(self, chunk_size: int) -> list[bytes]:
        assert isinstance(self.content, bytes)
        return [self.content]


def archive(tmp_path: Path, name: str) -> bytes:
    write_beir(tmp_path / name, DOCUMENTS, [("q", "who purrs?")], {"test": {"q": {"d1": 1}}})
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as packed:
        for path in (tmp_path / name).rglob("*"):
            packed.write(path, path.relative_to(tmp_path))
    return (tmp_path / "made.zip").read_bytes()


def test_a_name_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> None:
    pytest.importorskip("beir", reason="the extra beir is not installed")
    network = Network(monkeypatch, archive(tmp_path, "scifact"))
    for _ in range(2):
        assert read_beir("scifact").qrels == {"q": {"d1": 1}}
    assert digest_beir("scifact", "test") == digest_beir(tmp_path / "scifact", "test")
    assert network.asked == ["https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/scifact.zip"]
    assert [path.name for path in elsewhere.iterdir()] == ["scifact"]  # nothing is left of the download


@pytest.mark.parametrize("content", [ConnectionError("no network\nand more"), b"<html>not found</html>"])
def test_a_failed_download(monkeypatch: pytest.MonkeyPatch, elsewhere: Path, content: bytes | Exception) -> None:
    pytest.importorskip("beir", reason="the extra beir is not installed")
    Network(monkeypatch, content)
    with pytest.raises(ServiceError) as failure:
        read_beir("cqadupstack/android")
    message = str(failure.value)
    assert failure.value.exit_code == 4
    assert "\n" not in message
    assert f"/datasets/cqadupstack.zip as {elsewhere / 'cqadupstack'}, or give the unpacked folder" in message
    assert list(elsewhere.iterdir()) == []


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "beir", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrokit-ir\[beir\]'"):
        read_beir("scifact")


def test_a_folder_comes_before_a_name(tmp_path: Path) -> None:
    write_beir(Path("scifact"), DOCUMENTS, [("q", "who barks?")], {"test": {"q": {"d2": 1}}})
    assert read_beir("scifact").queries == ["who barks?"]
    assert located(tmp_path / "scifact") == tmp_path / "scifact"
    with pytest.raises(DataError, match="scifakt: does not exist"):
        read_beir("scifakt")


def test_a_name_that_is_nearly_one_of_beirs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^scifakt: does not exist \(did you mean scifact\?\); expected a BEIR folder"):
        read_beir("scifakt")
    with pytest.raises(DataError, match=r"work: holds no queries.jsonl; it holds none$"):
        read_answers(tmp_path / "work")


def test_answers(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    queries = [("q1", "who purrs?"), ("q2", "who barks?"), ("q3", "who?")]
    write_beir(folder, DOCUMENTS, queries, {"test": {"q1": {"d1": 1}}}, {"q1": ["cats", "a cat"], "q2": []})
    assert read_answers(folder) == {"q1": ["cats", "a cat"]}
    (folder / "queries.jsonl").write_text(
        '{"_id": "a", "text": "x", "answer": "one"}\n{"_id": "b", "text": "x", "metadata": {"answers": ["two"]}}\n'
        '{"_id": "c", "text": "x", "metadata": {}}\n{"_id": "d", "text": "x", "answers": null}\n'
    )
    assert read_answers(folder) == {"a": ["one"], "b": ["two"]}
    (folder / "queries.jsonl").write_text('{"_id": "a", "text": "x", "answers": [1]}\n')
    with pytest.raises(DataError, match=r"queries.jsonl:1: the answers should be a string or a list of strings"):
        read_answers(folder)
    with pytest.raises(DataError, match=r"holds no queries.jsonl"):
        read_answers(tmp_path)
