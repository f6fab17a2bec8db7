"""The BEIR folder layout, BEIR's published sets by name, and real public data with the counts of its publishers."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from huggingface_hub import HfApi
from huggingface_hub.hf_api import RepoFile
from pyarrow import parquet as pq

from retrokit.core import files
from retrokit.core.errors import DataError, MissingExtra, ServiceError, UsageError
from retrokit.core.notices import listening
from retrokit.data.beir import RetrievalData, digest_beir, located, read_answers, read_beir, write_beir
from retrokit.data.corpus import Document
from retrokit.data.jsonl import strictly
from retrokit.data.packed_records import TextsById
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import ScoredPair
from tests.evaluation.fakes import Notices

CORPUS = """{"_id": "d1", "title": "Cats", "text": "They purr."}
{"_id": "d2", "title": "", "text": "Dogs bark."}
{"_id": "d3", "title": "", "text": ""}
"""
QUERIES = """{"_id": "q1", "text": "who purrs?"}
{"_id": "q2", "text": "who barks?"}
{"_id": "q3", "text": "who reads this?"}
"""
TEST = "query-id\tcorpus-id\tscore\nq2\td2\t1\nq1\td1\t2\nq1\td2\t0\n"
TRAIN = "query-id\tcorpus-id\tscore\nq3\td1\t0\nq3\td3\t-1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(CORPUS)
    (folder / "queries.jsonl").write_text(QUERIES)
    (folder / "qrels" / "test.tsv").write_text(TEST)
    (folder / "qrels" / "train.tsv").write_text(TRAIN)
    return folder


def test_one_split(folder: Path) -> None:
    assert read_beir(folder) == RetrievalData(
        name="pets",
        split="test",
        documents_by_id=TextsById([("d1", "Cats They purr."), ("d2", "Dogs bark."), ("d3", "")]),
        queries_by_id=TextsById([("q1", "who purrs?"), ("q2", "who barks?")]),
        qrels={"q2": {"d2": 1}, "q1": {"d1": 2, "d2": 0}},
        counts={
            "documents": 3,
            "documents_without_text": 1,
            "queries": 2,
            "queries_without_judgements": 1,
            "judgements": 3,
            "queries_without_relevant": 0,
        },
    )
    (folder / "queries.jsonl").write_text(QUERIES.replace("who purrs?", " \\t"))
    assert read_beir(folder).counts["queries_without_text"] == 1
    train = read_beir(folder, "train")
    assert (train.query_ids, train.qrels) == (["q3"], {"q3": {"d1": 0, "d3": -1}})
    assert train.counts["queries_without_relevant"] == 1


def test_compressed_files_and_trec_judgements_give_the_same(folder: Path) -> None:
    plain = read_beir(folder)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    (folder / "qrels" / "test.tsv").write_text("q2 0 d2 1\nq1 0 d1 2\nq1 0 d2 0\n")
    assert read_beir(folder) == plain


def test_the_digest_covers_the_split_that_is_read(folder: Path) -> None:
    before = digest_beir(folder, "test")
    (folder / "qrels" / "train.tsv").write_text("q1\td1\t1\n")
    assert digest_beir(folder, "test") == before
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t1\n")
    assert digest_beir(folder, "test") != before


LAYOUT = r"expected a BEIR folder \(corpus\.jsonl, queries\.jsonl, qrels/\)$"


@pytest.mark.parametrize(
    ("changed", "content", "read", "split", "message"),
    [
        ("notes", "", "none", "test", rf"none: does not exist; {LAYOUT}"),
        ("notes", "", "corpus.jsonl", "test", rf"corpus\.jsonl: is a file; {LAYOUT}"),
        (
            "corpus.jsonl",
            None,
            "",
            "test",
            r"pets: is no BEIR folder: corpus\.jsonl missing; it contains 'qrels', 'quer",
        ),
        ("notes", "", "qrels", "test", r"corpus\.jsonl, queries\.jsonl, qrels/ missing; it contains 'notes\.md', "),
        ("qrels/dev.tsv.gz", "", "", "tset", r"pets: has no split 'tset'; its splits are 'dev', 'test', 'train'$"),
        ("qrels/test.tsv", "q9\td1\t1\n", "", "test", r"test\.tsv: none of its queries is in queries\.jsonl$"),
        ("queries.jsonl", "", "", "test", r"queries\.jsonl: is empty; expected queries"),
    ],
)
def test_what_is_no_beir_folder(folder, changed, content, read, split, message):
    (folder / "qrels" / "notes.md").touch()
    (folder / changed).unlink(missing_ok=True)
    if content is not None:
        (folder / changed).write_text(content)
    with pytest.raises(DataError, match=message):
        read_beir(folder / read, split)


@pytest.mark.parametrize(
    ("file", "added", "message"),
    [
        ("qrels/test.tsv", "q1\td1\n", "qrels/test.tsv:5: expected 3 columns as on the lines before, found 2"),
        ("qrels/test.tsv", "q1\td3\tx\n", "qrels/test.tsv:5: the grade 'x' is not a whole number"),
        (
            "qrels/test.tsv",
            "q1\td1\t1\n",
            "qrels/test.tsv:5: query 'q1' and document 'd1' have grade 2 on an earlier line, here 1",
        ),
        ("corpus.jsonl", '{"_id": "d1", "text": ""}', "corpus.jsonl:4: the id 'd1' is already on line 1"),
        ("queries.jsonl", '{"_id": "q1", "text": ""}', "queries.jsonl:4: the id 'q1' is already on line 1"),
        ("queries.jsonl", '{"_id": "q4"}', "queries.jsonl:4: no field 'text'; the fields are '_id'"),
    ],
)
def test_a_wrong_line_is_named(folder: Path, file: str, added: str, message: str) -> None:
    with (folder / file).open("a") as stream:
        stream.write(added)
    with pytest.raises(DataError) as caught:
        read_beir(folder)
    assert str(caught.value).removesuffix(", with another text") == f"{folder}/{message}"


def test_judgements_of_what_is_absent_are_counted_and_reported(folder: Path) -> None:
    with (folder / "qrels" / "test.tsv").open("a") as stream:
        stream.write("q9\td1\t1\nq1\td9\t1\nq8\td1\t1\nq2\td8\t0\n")
    notices = Notices()
    with listening(notices):
        data = read_beir(folder)
        read_beir(folder)
    assert data.qrels == {"q2": {"d2": 1, "d8": 0}, "q1": {"d1": 2, "d2": 0, "d9": 1}}
    assert data.counts["judgements_of_absent_documents"] == 2
    assert data.counts["highest_recall"] == 0.75
    assert list(data.pairs()) == [("q1", "d1"), ("q2", "d2")]
    qrels = folder / "qrels" / "test.tsv"
    assert notices.messages == [
        f"{qrels}:5: query 'q9' is not in queries.jsonl; 2 judgements of 2 absent queries are left out",
        f"{qrels}:6: document 'd9' is not in corpus.jsonl; 2 judgements are of absent documents, which cannot be "
        "retrieved: recall can reach 0.7500",
    ]
    with strictly(True), pytest.raises(DataError, match=r"test\.tsv:5: query 'q9' is not in queries\.jsonl$"):
        read_beir(folder)


def test_a_line_repeated_word_for_word(folder: Path) -> None:
    plain = read_beir(folder)
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join([*lines, lines[0], lines[1]]) + "\n")
    notices = Notices()
    with listening(notices):
        assert read_beir(folder) == plain
    assert notices.messages == [
        f"{folder / name}:4: the line repeats line 1; 2 repeated lines are left out"
        for name in ("corpus.jsonl", "queries.jsonl")
    ]
    with strictly(True), pytest.raises(DataError, match=r"corpus\.jsonl:4: the line repeats line 1$"):
        read_beir(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qrels/test.txt", "q2 0 d2 1\nq1 0 d1 2\nq1 0 d2 0\n"),
        (
            "qrels/test.jsonl",
            '{"query-id": "q2", "corpus-id": "d2", "score": 1}\n'
            '{"query-id": "q1", "corpus-id": "d1", "score": 2}\n{"query-id": "q1", "corpus-id": "d2", "score": 0}\n',
        ),
        ("qrels/test.json", '{"q2": {"d2": 1},\n "q1": {"d1": 2, "d2": 0}}'),
        ("queries.tsv", "q1\twho purrs?\nq2\twho barks?\nq3\twho reads this?\n"),
        (
            "queries.xml",
            "<topics>\n"
            + "".join(
                f'<topic number="q{n}"><query>{text}</query></topic>\n'
                for n, text in ((1, "who purrs?"), (2, "who barks?"), (3, "who reads this?"))
            )
            + "</topics>\n",
        ),
        ("corpus.tsv", "id\ttext\ttitle\nd1\tThey purr.\tCats\nd2\tDogs bark.\t\nd3\t\t\n"),
        ("corpus.csv", 'docid,title,contents\nd1,Cats,"They purr."\nd2,,Dogs bark.\nd3,,\n'),
        ("qrels/test.csv", "query-id,corpus-id,score\nq2,d2,1\nq1,d1,2\nq1,d2,0\n"),
    ],
)
def test_other_formats_of_a_folder_give_the_same(folder: Path, name: str, text: str) -> None:
    plain = read_beir(folder)
    path = folder / name
    next(path.parent.glob(f"{path.stem}.*")).unlink()
    path.write_text(text)
    assert read_beir(folder) == plain
    assert read_beir(folder, "train").split == "train"
    assert digest_beir(folder, "test")


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def test_the_layout_of_miracl(tmp_path: Path, folder: Path) -> None:
    plain = read_beir(folder)
    miracl = tmp_path / "there" / "pets"
    (miracl / "corpus").mkdir(parents=True)
    lines = CORPUS.replace("_id", "docid").splitlines(keepends=True)
    for number, of_file in enumerate((lines[:2], lines[2:])):
        (miracl / "corpus" / f"docs-{number}.jsonl.gz").write_bytes(gzip.compress("".join(of_file).encode()))
    (miracl / "topics").mkdir()
    topics = "q1\twho purrs?\nq2\twho barks?\nq3\twho reads this?\n"
    (miracl / "topics" / "topics.miracl-v1.0-sw-test.tsv").write_text(topics)
    (miracl / "qrels").mkdir()
    (miracl / "qrels" / "qrels.miracl-v1.0-sw-test.tsv").write_text("q2 Q0 d2 1\nq1 Q0 d1 2\nq1 Q0 d2 0\n")
    assert read_beir(miracl) == plain
    before = digest_beir(miracl, "test")
    (miracl / "corpus" / "docs-1.jsonl.gz").write_bytes(gzip.compress(b'{"docid": "d3", "text": "!"}\n'))
    assert digest_beir(miracl, "test") != before


@pytest.mark.parametrize("names", [("id", "text"), ("docno", "contents"), ("pid", "passage")])
def test_the_layout_of_flagembedding(tmp_path: Path, folder: Path, names: tuple[str, str]) -> None:
    plain = read_beir(folder)
    flag = tmp_path / "there" / "pets"
    flag.mkdir(parents=True)
    corpus = CORPUS.replace('"_id"', f'"{names[0]}"').replace('"text"', f'"{names[1]}"')
    (flag / "corpus.jsonl").write_text(corpus)
    (flag / "test_queries.jsonl").write_text(QUERIES.replace("_id", "qid").replace("text", "query"))
    (flag / "dev_queries.jsonl").write_text('{"qid": "q9", "query": "?"}\n')
    (flag / "test_qrels.jsonl").write_text(
        "".join(f'{{"qid": "{q}", "docid": "{d}", "relevance": {g}}}\n' for q, d, g in JUDGED)
    )
    (flag / "dev_qrels.jsonl").write_text('{"qid": "q9", "docid": "d1", "relevance": 1}\n')
    assert read_beir(flag) == plain
    assert read_beir(flag, "dev").queries == ["?"]
    with pytest.raises(DataError, match=r"has no split 'train'; its splits are 'dev', 'test'$"):
        read_beir(flag, "train")
    (flag / "train_qrels.jsonl").write_text('{"qid": "q8", "docid": "d1", "relevance": 1}\n')
    with pytest.raises(DataError, match=r"contains judgements of the split 'train', but no queries for it$"):
        read_beir(flag, "train")


JUDGED = [("q2", "d2", 1), ("q1", "d1", 2), ("q1", "d2", 0)]


@pytest.mark.parametrize("ending", ["", "-0123456789abcdef"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_folders_of_the_hub(tmp_path: Path, folder: Path, split: str, ending: str) -> None:
    plain = read_beir(folder)
    hub = tmp_path / "there" / "pets"
    parquet(hub / "corpus" / f"{split}-00000-of-00002{ending}.parquet", rows(CORPUS)[:1])
    parquet(hub / "corpus" / f"{split}-00001-of-00002{ending}.parquet", rows(CORPUS)[1:])
    parquet(hub / "queries" / f"{split}-00000-of-00001{ending}.parquet", rows(QUERIES))
    judged = [{"query-id": q, "corpus-id": d, "score": g} for q, d, g in JUDGED]
    parquet(hub / "qrels" / f"{split}-00000-of-00001{ending}.parquet", judged)
    assert read_beir(hub) == plain
    assert len(read_source(f"beir:{hub},split={split}", "pairs").records) == 2
    assert [record.text for record in read_source(f"beir:{hub}", "texts").records] == ["They purr.", "Dogs bark.", ""]
    parquet(hub / "qrels" / f"{split}-00000-of-00001{ending}.parquet", [{"query-id": "q1", "corpus-id": "d1"}])
    assert read_beir(hub).qrels == {"q1": {"d1": 1}}


def test_a_split_of_the_hub_has_its_own_corpus(tmp_path: Path) -> None:
    for name in ("cats", "dogs"):
        parquet(tmp_path / "corpus" / f"{name}-00000-of-00001.parquet", [{"_id": "d", "text": name}])
        parquet(tmp_path / "queries" / f"{name}-00000-of-00001.parquet", [{"_id": "q", "text": f"{name}?"}])
        parquet(tmp_path / "qrels" / f"{name}-00000-of-00001.parquet", [{"query-id": "q", "corpus-id": "d"}])
    dogs = read_beir(tmp_path, "dogs")
    assert (dogs.documents, dogs.queries) == (["dogs"], ["dogs?"])
    with pytest.raises(DataError, match=r"has no split 'test'; its splits are 'cats', 'dogs'$"):
        read_beir(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.tsv", "query-id\tcorpus-id\nq2\td2\nq1\td 1\n"),
        ("test.jsonl", '{"query-id": "q2", "corpus-id": "d2"}\n{"query-id": "q1", "corpus-id": "d 1"}\n'),
        ("test.csv", "query-id,corpus-id\nq2,d2\nq1,d 1\n"),
    ],
)
def test_judgements_without_a_grade_are_relevant(folder: Path, name: str, text: str) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels" / name).write_text(text)
    assert read_beir(folder).qrels == {"q2": {"d2": 1}, "q1": {"d 1": 1}}


@pytest.mark.parametrize("text", ["q2\td2\n", "query-id\tcorpus-id\tremark\nq2\td2\tgood\n"])
def test_other_columns_are_no_judgements_without_a_grade(folder: Path, text: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(text)
    with pytest.raises(DataError, match=r"test\.tsv:[12]: (expected 3 columns|the grade 'good' is not)"):
        read_beir(folder)


def test_a_folder_of_sets_names_them(folder: Path) -> None:
    with pytest.raises(DataError, match=r"contains several BEIR folders: 'pets'; name one of them: beir:.*/pets$"):
        read_beir(folder.parent)


def test_a_set_of_the_hub(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads: list[tuple[str, str]] = []

    def download(hub: HfApi, name: str, repo_type: str, **_: Any) -> str:
        downloads.append((name, repo_type))
        return str(folder)

    monkeypatch.setattr(HfApi, "snapshot_download", download)
    monkeypatch.chdir(tmp_path)
    assert read_beir("hf:org/pets") == read_beir(folder)
    assert digest_beir("hf:org/pets", "test") == digest_beir(folder, "test")
    assert set(downloads) == {("org/pets", "dataset")}
    assert read_beir(f"hf:{folder}") == read_beir(folder)


def test_a_hub_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise ConnectionError("Max retries\nexceeded")

    monkeypatch.setattr(HfApi, "snapshot_download", fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ServiceError, match=r"failed \(Max retries\); .*/datasets/org/pets and give the folder$"):
        read_beir("hf:org/pets")


DOCUMENTS = [Document("d 1", "T", "x"), Document("d2", "", "ß")]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    qrels = {"test": {"q1": {"d 1": 1, "d2": 0}}, "dev": {"q2": {"d2": 3}}}
    write_beir(folder, iter(DOCUMENTS), iter([("q1", "who?"), ("q2", "what?")]), qrels)
    test, dev = read_beir(folder), read_beir(folder, "dev")
    assert (test.qrels, dev.qrels) == (qrels["test"], qrels["dev"])
    assert (test.document_ids, test.documents) == (["d 1", "d2"], ["T x", "ß"])
    assert (dev.query_ids, dev.queries) == (["q2"], ["what?"])
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_existing_folder_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"exists already; name a new folder$"):
        write_beir(tmp_path, [], [], {})


@pytest.mark.parametrize(
    ("qrels", "problem"),
    [
        ({"test": {"q9": {"d2": 1}}}, "query 'q9' is judged, but is not there"),
        ({"test": {"q1": {"d9": 1}}}, "document 'd9' is judged, but is not there"),
        ({"test": {"q1": {"d\t3": 1}}}, "a TSV cannot hold the document id 'd\\t3'"),
    ],
)
def test_wrong_judgements_leave_no_folder(tmp_path, qrels, problem):
    folder = tmp_path / "new"
    with pytest.raises(DataError) as caught:
        write_beir(folder, [*DOCUMENTS, Document("d\t3", "", "")], [("q1", "who?")], qrels)
    assert str(caught.value) == f"{folder}: could not be written: {problem}"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"could not be written: File exists$"):
        write_beir(tmp_path / "file" / "new", [], [], {})


PUBLISHED_DOCUMENTS = [Document("d1", "Cats", "They purr."), Document("d2", "", "Dogs bark.")]


@pytest.fixture
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
    write_beir(tmp_path / name, PUBLISHED_DOCUMENTS, [("q", "who purrs?")], {"test": {"q": {"d1": 1}}})
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as packed:
        for path in (tmp_path / name).rglob("*"):
            packed.write(path, path.relative_to(tmp_path))
    return (tmp_path / "made.zip").read_bytes()


class Mirror:
    """Stands in for the hub: it has ``files`` by repository, whose checksums it lists; ``damaged`` ones arrive
    otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: dict[str, Path], damaged: str = "") -> None:
        self.files, self.damaged = files, damaged
        monkeypatch.setattr(HfApi, "snapshot_download", self.download)
        monkeypatch.setattr(HfApi, "list_repo_tree", self.tree)

    def download(self, name: str, local_dir: str, **_: Any) -> str:
        if name not in self.files:
            raise ConnectionError(f"404: no {name}")
        shutil.copytree(self.files[name], local_dir, dirs_exist_ok=True)
        for path in Path(local_dir).rglob(self.damaged or "nothing"):
            path.write_text(path.read_text().replace("1", "2"))
        return local_dir

    def tree(self, repo_id: str, **_: Any) -> list[RepoFile]:
        files = []
        for path in self.files[repo_id].rglob("*.*"):
            content = path.read_bytes()
            oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
            files.append(RepoFile(path=path.relative_to(self.files[repo_id]).as_posix(), size=len(content), oid=oid))
        return files


@pytest.fixture
def beirs_repositories(tmp_path: Path) -> dict[str, Path]:
    """BEIR's two repositories of scifact on the hub."""
    write_beir(tmp_path / "made", PUBLISHED_DOCUMENTS, [("q", "who purrs?")], {"test": {"q": {"d1": 1}}})
    shutil.move(tmp_path / "made" / "qrels", tmp_path / "qrels")
    return {"BeIR/scifact": tmp_path / "made", "BeIR/scifact-qrels": tmp_path / "qrels"}


def test_a_name_comes_from_the_hub(
    monkeypatch: pytest.MonkeyPatch, elsewhere: Path, beirs_repositories: dict[str, Path]
) -> None:
    Mirror(monkeypatch, beirs_repositories)
    assert read_beir("scifact").qrels == {"q": {"d1": 1}}
    monkeypatch.setattr(HfApi, "snapshot_download", None)
    assert read_beir("scifact").queries == ["who purrs?"]
    assert [path.name for path in elsewhere.iterdir()] == ["scifact"]  # nothing is left of the download


@pytest.mark.parametrize("damaged", ["corpus.jsonl", "test.tsv"])
def test_a_damaged_file_of_the_hub_is_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Path,
    beirs_repositories: dict[str, Path],
    damaged: str,
) -> None:
    pytest.importorskip("beir", reason="the extra beir is not installed")
    Mirror(monkeypatch, beirs_repositories, damaged)
    network = Network(monkeypatch, archive(tmp_path, "scifact"))
    notices = Notices()
    with listening(notices):
        assert read_beir("scifact").qrels == {"q": {"d1": 1}}
    assert any("the download failed (checksums differ); " in text for text in notices.messages)
    assert len(network.asked) == 1
    assert [path.name for path in elsewhere.iterdir()] == ["scifact"]


def test_a_name_that_the_hub_lacks_is_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path
) -> None:
    pytest.importorskip("beir", reason="the extra beir is not installed")
    Mirror(monkeypatch, {})
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
    assert "and more" not in message
    assert not elsewhere.exists() or list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("elsewhere")
def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "beir", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrokit-ir\[beir\]'"):
        read_beir("scifact")


@pytest.mark.usefixtures("elsewhere")
def test_a_folder_comes_before_a_name(tmp_path: Path) -> None:
    write_beir(Path("scifact"), PUBLISHED_DOCUMENTS, [("q", "who barks?")], {"test": {"q": {"d2": 1}}})
    assert read_beir("scifact").queries == ["who barks?"]
    assert located(tmp_path / "scifact") == tmp_path / "scifact"
    with pytest.raises(DataError, match="scifakt: does not exist"):
        read_beir("scifakt")


@pytest.mark.usefixtures("elsewhere")
def test_a_name_that_is_nearly_one_of_beirs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^scifakt: does not exist \(did you mean scifact\?\); expected a BEIR folder"):
        read_beir("scifakt")
    with pytest.raises(DataError, match=r"work: contains no queries.jsonl; it contains none$"):
        read_answers(tmp_path / "work")


@pytest.mark.usefixtures("elsewhere")
def test_answers(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    queries = [("q1", "who purrs?"), ("q2", "who barks?"), ("q3", "who?")]
    write_beir(folder, PUBLISHED_DOCUMENTS, queries, {"test": {"q1": {"d1": 1}}}, {"q1": ["cats", "a cat"], "q2": []})
    assert read_answers(folder) == {"q1": ["cats", "a cat"]}
    (folder / "queries.jsonl").write_text(
        '{"_id": "a", "text": "x", "answer": "one"}\n{"_id": "b", "text": "x", "metadata": {"answers": ["two"]}}\n'
        '{"_id": "c", "text": "x", "metadata": {}}\n{"_id": "d", "text": "x", "answers": null}\n'
    )
    assert read_answers(folder) == {"a": ["one"], "b": ["two"]}
    (folder / "queries.jsonl").write_text('{"_id": "a", "text": "x", "answers": [1]}\n')
    with pytest.raises(DataError, match=r"queries.jsonl:1: the answers should be a string or a list of strings"):
        read_answers(folder)
    with pytest.raises(DataError, match=r"contains no queries.jsonl"):
        read_answers(tmp_path)


@pytest.mark.shared_data
def test_scifact(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Mock(wraps=open)
    monkeypatch.setattr(files, "open", opening, raising=False)
    data = read_beir(shared_data / "scifact")
    opened = [Path(call.args[0]).name for call in opening.call_args_list]
    assert sorted(opened) == ["corpus.jsonl", "queries.jsonl", "test.tsv"], "each is read once"
    assert data.counts == {
        "documents": 5183,
        "documents_without_text": 0,
        "queries": 300,
        "queries_without_judgements": 809,
        "judgements": 339,
        "queries_without_relevant": 0,
    }
    assert (data.name, data.split, data.query_ids[:2], data.document_ids[0]) == ("scifact", "test", ["1", "3"], "4983")
    assert data.queries[0] == "0-dimensional biomaterials show inductive properties."
    assert data.documents[0].startswith("Microstructural development of human newborn cerebral white matter assessed")
    assert data.qrels["1"] == {"31715818": 1}


@pytest.mark.shared_data
def test_scifact_training_pairs(shared_data: Path) -> None:
    source = read_source(f"beir:{shared_data / 'scifact'}", "pairs")
    # 919 judgements; three of them repeat a claim and its document under another query id
    assert source.counts["records"] + source.counts["duplicates"] == 919
    assert source.counts["duplicates"] == 3
    assert source.counts["pairs_without_text"] == 0


@pytest.mark.shared_data
def test_cisi(shared_data: Path) -> None:
    counts = read_beir(shared_data / "cisi").counts
    assert (counts["documents"], counts["queries"], counts["queries_without_judgements"]) == (1460, 76, 36)


@pytest.mark.shared_data
@pytest.mark.parametrize(("split", "size"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_stsb(shared_data: Path, split: str, size: int) -> None:
    source = read_source(str(shared_data / "stsb" / f"{split}.jsonl"), "scored")
    assert source.counts["records"] == size
    scores = [record.score for record in source.records if isinstance(record, ScoredPair)]
    assert (min(scores), max(scores)) == (0.0, 5.0)
