"""Data and exports at addresses: in the memory of fsspec, and on a local server of the protocol of S3."""

import errno
import json
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError, UsageError
from retrokit.data.pairs import read_source
from retrokit.encoders.kept import kept_in
from retrokit.evaluation import registry as tasks
from retrokit.extensions.addresses import files
from retrokit.extensions.addresses.files import Files
from retrokit.ranking.export import export, open_export
from tests.models import sentences
from tests.runs import assert_same_weights
from tests.sure_folders import small_folder

DOCUMENTS = {f"d{number}": text for number, text in enumerate(sentences(12, seed=3))}
CORPUS = "".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in DOCUMENTS.items())
QUERIES = '{"id": "q1", "text": "a question"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td3\t1\n"
SET = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
BUCKET = "memory://bucket"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MemoryFileSystem]:
    """A file system in memory, which is empty before and after."""
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path / "retrokit-data"))
    system = MemoryFileSystem()
    system.store.clear()
    system.pipe("/bucket/corpus.jsonl", CORPUS.encode())
    for name, text in SET.items():
        system.pipe(f"/bucket/set/{name}", text.encode())
    yield system
    system.store.clear()


def names_at(system: Any, folder: str) -> set[str]:
    return {name.removeprefix(f"{folder}/") for name in system.find(folder)}


def test_a_corpus_is_read_from_an_address_and_its_export_written_to_one(memory, tiny_bert, tmp_path):
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    expected = export(str(tiny_bert), str(tmp_path / "corpus.jsonl"), str(tmp_path / "out"))
    uploaded = export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out")
    assert names_at(memory, "/bucket/out") == {path.name for path in (tmp_path / "out").iterdir()}
    fetched = open_export(Files().fetch(f"{BUCKET}/out"))
    assert fetched.ids() == list(DOCUMENTS)
    assert np.array_equal(fetched.embeddings(), expected.embeddings())
    assert np.array_equal(uploaded.embeddings(), expected.embeddings())
    assert fetched.note["source"] == {**expected.note["source"], "spec": f"{BUCKET}/corpus.jsonl"}


@pytest.mark.parametrize(
    "words",
    [
        ["search", "{model}", "--corpus", "{b}/corpus.jsonl", "--queries", "{b}/set"],
        ["search", "--index-folder", "{b}/out", "--query", "a question"],
        ["eval", "{model}", "--on", "beir:{b}/set", "--metrics", "ndcg@10"],
        ["eval", "dense:{model},export={b}/out", "--on", "beir:{b}/set", "--metrics", "ndcg@10"],
        ["check", "beir:{b}/set"],
        ["augment", "crops", "{b}/long.jsonl", "-o", "{o}/crops.jsonl"],
        ["export", "{model}", "--on", "{b}/set/corpus*.jsonl", "-o", "{o}/exported"],
    ],
    ids=" ".join,
)
def test_commands_read_addresses(words, memory, tiny_bert, tmp_path, capsys):
    if f"{BUCKET}/out" in " ".join(words).format(model=tiny_bert, b=BUCKET, o=tmp_path):
        export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out")
    text = " ".join(f"Sentence {number} is long {'enough ' * 15}here." for number in range(6))
    memory.pipe("/bucket/long.jsonl", json.dumps({"id": "long", "text": text}).encode())
    assert cli.run([word.format(model=tiny_bert, b=BUCKET, o=tmp_path) for word in words]) == 0
    printed = capsys.readouterr()
    assert f"{BUCKET}/" in printed.err
    assert "copying" in printed.err


def test_results_name_the_address(memory, tiny_bert):
    result = retrokit.evaluate([str(tiny_bert)], on=[f"beir:{BUCKET}/set"])
    assert result.results[0].task == f"beir:{BUCKET}/set"
    assert str(tasks.parse(f"beir:{BUCKET}/set")) == f"beir:{BUCKET}/set"
    assert tasks.parse(f"beir:{BUCKET}/set,split=dev") == tasks.parse(f"beir:{BUCKET}/set,split=dev")


def put_folder(system: MemoryFileSystem, folder: Path, remote: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            system.pipe(f"{remote}/{file.relative_to(folder).as_posix()}", file.read_bytes())


def test_folders_of_models_runs_and_variants_are_read_from_addresses(memory, tiny_bert, tmp_path):
    put_folder(memory, tiny_bert, "/bucket/bert")
    texts = sentences(80, seed=1)
    pairs = [{"anchor": one, "positive": other} for one, other in zip(texts[::2], texts[1::2], strict=True)]
    memory.pipe("/bucket/pairs.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs).encode())
    options = {"sim": "learn", "steps": 3, "batch_size": 8}
    for encoder, folder in ((str(tiny_bert), "run"), (f"{BUCKET}/bert", "from-address")):
        retrokit.finetune(encoder, data=[f"{BUCKET}/pairs.jsonl"], output=str(tmp_path / folder), **options)
    assert_same_weights(tmp_path / "run", tmp_path / "from-address")
    put_folder(memory, tmp_path / "run", "/bucket/run")
    sure = small_folder(tmp_path / "sure")
    put_folder(memory, sure, "/bucket/sure")
    local, remote = [
        retrokit.evaluate([f"{place}/run", f"{tiny_bert},pooling=cls"], on=[f"sure:{place}/sure,reference=maxsim"])
        for place in (tmp_path, BUCKET)
    ]
    assert [result.metrics for result in remote.results] == [result.metrics for result in local.results]
    assert str(remote.results[0].encoder) == f"model:{BUCKET}/run"


def test_training_data_are_read_from_addresses(memory):
    memory.pipe("/bucket/pairs.jsonl", b'{"anchor": "a", "positive": "b"}\n{"anchor": "c", "positive": "d"}\n')
    source = read_source(f"{BUCKET}/pairs.jsonl", "pairs")
    assert (source.spec, source.counts["records"]) == (f"jsonl:{BUCKET}/pairs.jsonl", 2)
    assert read_source(f"beir:{BUCKET}/set,split=test", "pairs").counts["records"] == 1


def test_a_file_that_has_changed_is_copied_again(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    first = Files().fetch(f"{BUCKET}/corpus.jsonl")
    assert Files().fetch(f"{BUCKET}/corpus.jsonl") == first
    assert Path(first).read_text() == CORPUS
    assert Path(first).is_relative_to(tmp_path / "cache")
    memory.pipe("/bucket/corpus.jsonl", b'{"id": "new", "text": "other"}\n')
    assert Path(Files().fetch(f"{BUCKET}/corpus.jsonl")).read_text() == '{"id": "new", "text": "other"}\n'


def test_an_error_names_the_address_and_the_line(memory, tiny_bert, tmp_path):
    memory.pipe("/bucket/bad.jsonl", (CORPUS + '{"id": "x"}\n').encode())
    with pytest.raises(DataError, match=rf"^{BUCKET}/bad.jsonl:13: no field 'text'"):
        export(str(tiny_bert), f"{BUCKET}/bad.jsonl", str(tmp_path / "out"))
    memory.pipe("/bucket/set/queries.jsonl", b"nonsense\n")
    with pytest.raises(DataError, match=rf"^{BUCKET}/set/queries.jsonl:1: "):
        retrokit.evaluate([str(tiny_bert)], on=[f"beir:{BUCKET}/set"])


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (f"{BUCKET}/none.jsonl", "does not exist"),
        ("unheard://of/it.jsonl", "is of no file system that fsspec knows"),
        ("https://huggingface.co/org/name", "is a page of the hub; give ORG/NAME"),
        ("dropbox://of/it.jsonl", "python -m pip install dropboxdrivefs"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(address, message, memory, tmp_path, capsys):
    assert cli.run(["export", "no-such-model", "--on", "x", "-o", address]) == 2
    capsys.readouterr()
    assert cli.run(["search", "bm25", "--corpus", address, "--query", "a"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"retrokit: {address}: ")
    assert message in line
    assert line.count("\n") == 1


def test_an_address_with_a_password_is_shown_without(memory, capsys):
    assert cli.run(["search", "bm25", "--corpus", "unheard://me:secret@host/a.jsonl?sig=abc", "--query", "a"]) == 2
    line = capsys.readouterr().err
    assert "unheard://…@host/a.jsonl?sig=…" in line
    assert "secret" not in line
    assert "abc" not in line


def test_a_name_cannot_leave_the_folder_of_the_copy(memory):
    memory.store["/bucket/odd/../../x.jsonl"] = memory.store["/bucket/corpus.jsonl"]
    with pytest.raises(DataError, match=r"has '\.\.' in it, and is not copied"):
        Files().fetch(f"{BUCKET}/odd")


def test_only_export_writes_to_addresses(memory, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["augment", "crops", f"{BUCKET}/corpus.jsonl", "-o", f"{BUCKET}/crops.jsonl"]) == 2
    assert "is an address; expected a path to write" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_export_at_an_address_is_replaced_only_if_asked(memory, tiny_bert):
    other = sentences(3, seed=8)
    memory.pipe(
        "/bucket/other.jsonl", "".join(f'{{"id": "{n}", "text": "{t}"}}\n' for n, t in enumerate(other)).encode()
    )
    write = partial(export, str(tiny_bert), output=f"{BUCKET}/out")
    write(source=f"{BUCKET}/corpus.jsonl")
    memory.pipe("/bucket/out/index-0.faiss", b"of the former vectors")
    with pytest.raises(UsageError, match=rf"^{BUCKET}/out: exists already"):
        write(source=f"{BUCKET}/other.jsonl")
    write(source=f"{BUCKET}/other.jsonl", overwrite=True)
    assert "index-0.faiss" not in names_at(memory, "/bucket/out")
    assert open_export(Files().fetch(f"{BUCKET}/out")).ids() == ["0", "1", "2"]
    memory.pipe("/bucket/out/notes.txt", b"mine")
    with pytest.raises(UsageError, match=r"contains files that are not replaced \('notes.txt'\)"):
        write(source=f"{BUCKET}/corpus.jsonl", overwrite=True)
    assert open_export(Files().fetch(f"{BUCKET}/out")).ids() == ["0", "1", "2"]


def test_an_interrupted_upload_is_no_export(memory, tiny_bert, monkeypatch):
    export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out")
    put = MemoryFileSystem.put_file

    def breaking(self: Any, local: str, remote: str, **options: Any) -> None:
        if remote.endswith("ids.jsonl"):
            raise ConnectionResetError("the line is down")
        put(self, local, remote, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", breaking)
    with pytest.raises(DataError, match="could not be written: the line is down; the whole export is in ") as caught:
        export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out", overwrite=True)
    assert "export.json" not in names_at(memory, "/bucket/out")
    assert open_export(str(caught.value).rpartition(" in ")[2]).ids() == list(DOCUMENTS)


def test_what_cannot_be_written_is_refused_before_a_model_loads(memory, monkeypatch, tmp_path):
    def refusing(self: Any, local: str, remote: str, **options: Any) -> None:
        raise PermissionError("not for you")

    monkeypatch.setattr(MemoryFileSystem, "put_file", refusing)
    monkeypatch.setattr("retrokit.ranking.export.Prepared", None)  # what loads the model
    with pytest.raises(DataError, match=rf"^{BUCKET}/out: could not be written: not for you"):
        export(str(tmp_path), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out")


def test_shards_are_uploaded_one_by_one(memory, tiny_bert):
    for number in (1, 2):
        export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out", shard=f"{number}/2")
    assert {name.partition("/")[0] for name in names_at(memory, "/bucket/out")} == {
        "shard-00001-of-00002",
        "shard-00002-of-00002",
    }
    assert open_export(Files().fetch(f"{BUCKET}/out")).ids() == list(DOCUMENTS)


def test_no_shard_is_uploaded_into_a_whole_export(memory, tiny_bert):
    export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out")
    before = names_at(memory, "/bucket/out")
    with pytest.raises(UsageError, match=rf"^{BUCKET}/out: contains a whole export; name another folder"):
        export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out", shard="1/2")
    assert names_at(memory, "/bucket/out") == before


def test_the_last_file_is_removed_first_and_uploaded_last(memory, monkeypatch, tmp_path, caplog):
    caplog.set_level("INFO", "retrokit")
    for name in ("b.json", "old.npy"):
        memory.pipe(f"/bucket/out/{name}", b"of an earlier upload")
    for name in ("b.json", "a.npy", "c/d.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    calls = []
    put, remove = MemoryFileSystem.put_file, MemoryFileSystem.rm_file
    monkeypatch.setattr(
        MemoryFileSystem, "put_file", lambda self, local, remote: calls.append(remote) or put(self, local, remote)
    )
    monkeypatch.setattr(MemoryFileSystem, "rm_file", lambda self, path: calls.append(f"-{path}") or remove(self, path))
    Files().upload(tmp_path, f"{BUCKET}/out", last="b.json")
    expected = ["-/bucket/out/b.json", "-/bucket/out/old.npy"]
    assert calls == [*expected, "/bucket/out/a.npy", "/bucket/out/c/d.npy", "/bucket/out/b.json"]
    assert caplog.messages == [f"{BUCKET}/out: uploaded 3 files of {tmp_path}"]


def test_a_copy_is_announced_with_its_size(memory, caplog):
    caplog.set_level("INFO", "retrokit")
    for number in range(2):
        memory.pipe(f"/bucket/large/{number}.jsonl", b" " * 1_250_000)
    Files().fetch(f"{BUCKET}/large")
    assert caplog.messages == [f"{BUCKET}/large: copying 2 files of 2.5 MB"]


def test_a_signed_address_gives_a_file_and_a_note_without_its_signature(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    memory.pipe("/bucket/corpus.jsonl?sig=abc", CORPUS.encode())
    path = Path(Files().fetch(f"{BUCKET}/corpus.jsonl?sig=abc"))
    assert (path.name, path.read_text()) == ("corpus.jsonl", CORPUS)
    (note,) = kept_in(tmp_path / "cache")
    assert (note.name, note.said) == (f"{BUCKET}/corpus.jsonl?sig=…", "1 files")


def test_a_changed_file_of_a_folder_is_copied_again_though_the_system_remembers_its_listing(memory, monkeypatch):
    listed: dict[str, Any] = {}
    find = MemoryFileSystem.find
    monkeypatch.setattr(
        MemoryFileSystem, "find", lambda self, path, **more: listed.setdefault(path, find(self, path, **more))
    )
    monkeypatch.setattr(MemoryFileSystem, "invalidate_cache", lambda self: listed.clear())
    Files().fetch(f"{BUCKET}/set")
    memory.pipe("/bucket/set/queries.jsonl", b'{"id": "q1", "text": "another question"}\n')
    folder = Path(Files().fetch(f"{BUCKET}/set"))
    assert folder.joinpath("queries.jsonl").read_text() == '{"id": "q1", "text": "another question"}\n'


@pytest.mark.parametrize("name", ["none-*.jsonl", "empty"])
def test_an_address_without_files_is_refused(memory, name):
    memory.pseudo_dirs[:] = ["", "/bucket", "/bucket/empty"]
    with pytest.raises(DataError, match=rf"^{BUCKET}/{name.replace('*', '.')}: contains no files$"):
        Files().fetch(f"{BUCKET}/{name}")


def test_a_target_has_a_folder_of_its_own_and_nothing_is_left_at_the_address(memory, tmp_path):
    target = Files().target(f"{BUCKET}/out", None)
    assert (target.name, Files().target(f"{BUCKET}/out", None)) == ("out", target)
    assert not memory.exists("/bucket/out/.retrokit-check")
    (tmp_path / "out").mkdir()
    assert Files().target(f"file://{tmp_path}/out", None) != Files().target(f"local://{tmp_path}/out", None)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (FileNotFoundError("bucket"), f"^{BUCKET}/out: could not be written: its bucket or folder does not exist$"),
        (OSError(errno.EIO, "Throttled"), f"^{BUCKET}/out: could not be written: .*Throttled$"),
    ],
)
def test_what_cannot_be_written_says_why(memory, monkeypatch, error, problem):
    def failing(self: Any, local: str, remote: str) -> None:
        raise error

    monkeypatch.setattr(MemoryFileSystem, "put_file", failing)
    with pytest.raises(DataError, match=problem):
        Files().target(f"{BUCKET}/out", None)


def test_a_full_disk_is_none_of_the_addresss_errors(memory, monkeypatch, tmp_path):
    def full(self: Any, remote: str, local: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(MemoryFileSystem, "get_file", full)
    with pytest.raises(DataError, match=rf"^{tmp_path}/cache/addresses/\w+: could not be written: No space left"):
        Files().fetch(f"{BUCKET}/corpus.jsonl")


@pytest.mark.parametrize(
    ("address", "package"),
    [("https://host/a", "'fsspec[http]'"), ("sftp://host/a", "'fsspec[sftp]'"), ("s3://bucket/a", "s3fs")],
)
def test_the_package_of_a_file_system_is_named(address, package):
    assert files._installation(address) == f"python -m pip install {package}"


def test_a_file_of_the_hub_is_an_address_and_a_page_is_none():
    page = "https://huggingface.co/datasets/org/name"
    assert files._PAGE.match(page)
    assert files._PAGE.match(f"{page}/blob/main/a.jsonl")
    assert not files._PAGE.match(f"{page}/resolve/main/a.jsonl")
    assert not files._PAGE.match(f"{page}/raw/main/a.jsonl")


def test_no_shard_of_another_count_is_uploaded_next_to_the_first(memory, tiny_bert):
    export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out", shard="1/3")
    before = names_at(memory, "/bucket/out")
    with pytest.raises(UsageError, match=rf"^{BUCKET}/out: contains shards of 3; name another folder for shards of 2"):
        export(str(tiny_bert), f"{BUCKET}/corpus.jsonl", f"{BUCKET}/out", shard="1/2")
    assert names_at(memory, "/bucket/out") == before


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A local server of the protocol of S3, with a bucket."""
    pytest.importorskip("s3fs", reason="needs: python -m pip install s3fs 'moto[server]'")
    server = pytest.importorskip("moto.server", reason="needs: python -m pip install s3fs 'moto[server]'")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path / "retrokit-data"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    system.mkdir("bucket")
    for name, text in SET.items():
        system.pipe(f"bucket/set/{name}", text.encode())
    yield system
    running.stop()


@pytest.mark.slow
def test_on_a_local_server_of_the_protocol_of_s3(s3, tiny_bert, capsys):
    export(str(tiny_bert), "s3://bucket/set/corpus.jsonl", "s3://bucket/out")
    assert open_export(Files().fetch("s3://bucket/out")).ids() == list(DOCUMENTS)
    assert cli.run(["eval", str(tiny_bert), "--on", "beir:s3://bucket/set", "--metrics", "ndcg@10"]) == 0
    s3.pipe("bucket/set/corpus.jsonl", (CORPUS + '{"id": "new", "text": "more"}\n').encode())
    export(str(tiny_bert), "s3://bucket/set/corpus.jsonl", "s3://bucket/out", overwrite=True)
    assert open_export(Files().fetch("s3://bucket/out")).ids() == [*DOCUMENTS, "new"]
    for words in (
        ["-o", "s3://no-such-bucket/out", "--on", "s3://bucket/set"],
        ["-o", "x", "--on", "s3://no-such-bucket/a"],
    ):
        capsys.readouterr()
        assert cli.run(["export", str(tiny_bert), *words]) == 2
        assert "retrokit: s3://no-such-bucket/" in capsys.readouterr().err
    assert s3.ls("") == ["bucket"], "no bucket was created"


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and logs nothing."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.slow
def test_on_a_local_web_server(tmp_path, tiny_bert):
    pytest.importorskip("aiohttp", reason="needs: python -m pip install 'fsspec[http]'")
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    serve: Callable[..., Any] = partial(Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/corpus.jsonl"
        exported = export(str(tiny_bert), f"{address}?sig=1", str(tmp_path / "out"))
        assert exported.ids() == list(DOCUMENTS)
        with pytest.raises(DataError, match=rf"^{address}x: does not exist"):
            export(str(tiny_bert), f"{address}x", str(tmp_path / "other"))
        server.shutdown()
