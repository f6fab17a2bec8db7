"""Text files: plain, compressed, standard streams; whole or not at all."""

import bz2
import codecs
import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from retrokit import encoders
from retrokit.core import outputs
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import digest, opened, read_lines, read_text, replaced, writing
from retrokit.core.outputs import (
    check_file,
    check_folder,
    check_outputs,
    check_replaceable,
    folder_in_the_making,
    locked,
    paths_in,
)
from retrokit.core.settings import EITHER, FILE


def lines(path: Path | str) -> list[tuple[int, str]]:
    return list(read_lines(path, "lines"))


def test_lines_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\n  \ntwo ä\nthree".encode())
    assert lines(path) == [(1, "one"), (4, "two ä"), (5, "three")]


def test_a_gz_file_reads_as_the_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("one\nzwei ß\n".encode()))
    assert lines(path) == [(1, "one"), (2, "zwei ß")]


TEXT = "one\nzwei ß\n".encode()
ZSTANDARD = pyarrow.compress(TEXT, codec="zstd", asbytes=True)
PACKED = {
    "gzip": gzip.compress(TEXT),
    "gzip of two members": gzip.compress(TEXT[:6]) + gzip.compress(TEXT[6:]),
    "bzip2": bz2.compress(TEXT),
    "bzip2 of two streams": bz2.compress(TEXT[:6]) + bz2.compress(TEXT[6:]),
    "Zstandard": ZSTANDARD,
    "UTF-16": TEXT.decode().encode("utf-16"),
    "UTF-16, big end first": codecs.BOM_UTF16_BE + TEXT.decode().encode("utf-16-be"),
    "UTF-16 in gzip": gzip.compress(TEXT.decode().encode("utf-16")),
    "plain": TEXT,
    "old Mac": TEXT.replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("content", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.bz2"])
def test_content_decides_how_a_file_is_unpacked(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert lines(tmp_path / name) == [(1, "one"), (2, "zwei ß")]
    assert read_text(tmp_path / name, 100).splitlines() == ["one", "zwei ß"]


def test_text_that_only_begins_like_compressed_data(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BZh9 is the first word\n")
    assert lines(tmp_path / "a.txt") == [(1, "BZh9 is the first word")]


def test_a_carriage_return_within_a_line_stays(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\nthree\r\n")
    assert lines(tmp_path / "a.txt") == [(1, "one\rtwo"), (2, "three")]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"), encoding="latin-1"))
    assert lines("-") == [(1, "one"), (2, "two")]
    with pytest.raises(DataError, match=r"^standard input: is empty; expected lines$"):
        lines("-")


@pytest.mark.parametrize("content", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("kind", [io.BytesIO, lambda content: io.BufferedReader(io.BytesIO(content))])
def test_standard_input_stays_open(monkeypatch: pytest.MonkeyPatch, kind: Any, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(kind(content)))
    assert lines("-") == [(1, "one"), (2, "zwei ß")]
    assert not sys.stdin.closed
    assert sys.stdin.read() == ""


def test_only_the_bytes_of_a_file_are_a_fault_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    with pytest.raises(UnicodeDecodeError), opened(tmp_path / "a.txt"):
        b"\xff".decode("utf-8")


def test_feed_gets_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n\ntwo")
    seen = hashlib.sha256()
    list(read_lines(path, "lines", seen.update))
    assert f"sha256:{seen.hexdigest()}" == digest(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "is empty; expected lines"),
        ("a.txt", b"\n \n", "is empty; expected lines"),
        ("a.txt", b"good\nb\xffd\n", "2: is not UTF-8 text (byte 0xff at position 2 of the line)"),
        ("a.txt", "good\n".encode("utf-16")[:-1], "is not UTF-16 text: 'utf-16-le' codec can't decode byte 0x0a in"),
        ("a.gz", gzip.compress(b"text " * 100, mtime=0)[:-9], "the compressed data ends too early (a truncated file?)"),
        ("a.gz", gzip.compress(b"text " * 100, mtime=0)[:-8] + bytes(8), "is not a sound gzip file (CRC check failed"),
        ("a.bz2", bz2.compress(b"text " * 100)[:-9], "the compressed data ends too early (a truncated file?)"),
        ("a.zst", ZSTANDARD[:-4], "could not be read: Truncated compressed stream"),
        ("a.csv", b"PK\x03\x04\x14\x00", "is a zip archive or an Excel workbook; unpack it, or save it as CSV"),
        ("a.txt", b"\xfd7zXZ\x00\x00", "is compressed by xz; unpack it first with xz -d"),
        ("a.txt", b"PAR1\x15\x04\x15", "is Parquet; its name should end in .parquet"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        lines(path)
    separator = ":" if message[0].isdigit() else ": "
    assert str(caught.value).startswith(f"{path}{separator}{message}")


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: does not exist$"):
        lines(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"is a folder; expected a file$"):
        lines(tmp_path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_what_is_written_is_read_and_nothing_is_left_beside_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with writing(path) as stream:
        stream.write("one ä\ntwo\n")
    assert lines(path) == [(1, "one ä"), (2, "two")]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, ConnectionResetError])
def test_a_failure_keeps_the_old_file(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")

    def fail() -> None:
        with writing(path) as stream:
            stream.write("new " * 100_000)
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [name]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with writing(tmp_path / "link.txt") as stream:
        stream.write("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, name: str, mode: int) -> None:
    path = tmp_path / name
    path.touch()
    path.chmod(mode)
    with writing(path) as file:
        (hidden,) = tmp_path.glob(".*")
        assert hidden.stat().st_mode & 0o777 == mode
        file.write("new")
    assert path.stat().st_mode & 0o777 == mode
    umask = os.umask(0o027)
    try:
        with writing(tmp_path / "new.txt") as file:
            file.write("new")
    finally:
        os.umask(umask)
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o640


def test_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with writing("-") as stream:
        stream.write("zwei ß\n")
    assert capsysbinary.readouterr().out == "zwei ß\n".encode()


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_is_one_clear_line(size: int) -> None:
    message = r"^/dev/full: could not be written: No space left on device$"
    with pytest.raises(DataError, match=message), writing("/dev/full") as stream:
        stream.write("x" * size)


def test_a_reader_that_has_seen_enough_is_no_error_of_the_file() -> None:
    with pytest.raises(BrokenPipeError), writing("-"):
        raise BrokenPipeError


def test_missing_folders_are_made_and_go_again_if_nothing_is_written(tmp_path: Path) -> None:
    with writing(tmp_path / "some" / "where" / "a.txt") as stream:
        stream.write("new")
    assert (tmp_path / "some" / "where" / "a.txt").read_text() == "new"
    with pytest.raises(RuntimeError), writing(tmp_path / "else" / "where" / "a.txt"):
        raise RuntimeError
    assert os.listdir(tmp_path) == ["some"]


def test_a_path_that_is_not_utf_8_is_written_as_its_json_escape(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jsonl")
    with writing(tmp_path / name) as stream:
        json.dump({"path": name}, stream, ensure_ascii=False)
    found = (tmp_path / name).read_bytes()
    assert found == b'{"path": "caf\\udce9.jsonl"}'
    assert json.loads(found)["path"] == name


def test_digest_of_a_file_is_sha256_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert digest(tmp_path / "a") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(DataError, match=r"none: does not exist$"):
        digest(tmp_path / "none")


def test_digest_of_a_folder_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("1")
    (tmp_path / "sub" / "b").write_text("2")
    first = digest(tmp_path)
    assert digest(tmp_path, ["sub/b", "a"]) == first
    assert digest(tmp_path, ["a"]) != first
    (tmp_path / "sub" / "b").rename(tmp_path / "sub" / "c")
    renamed = digest(tmp_path)
    (tmp_path / "sub" / "c").write_text("3")
    assert len({first, renamed, digest(tmp_path)}) == 3


def test_what_killed_writers_have_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    left, living, others = (tmp_path / f".{name}.retrokit-tmp" for name in ("a.txt.1", "a.txt.2", "b.txt.1"))
    for path in (left, living, others):
        path.write_text("half")
        os.utime(path, (0, 0))
    with open(living) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with writing(tmp_path / "a.txt") as outer:
            outer.write("first")
            (mine,) = set(tmp_path.iterdir()) - {living, others}
            os.utime(mine, (0, 0))
            with writing(tmp_path / "a.txt") as inner:
                inner.write("second")
            outer.write(" and whole")
        assert set(tmp_path.iterdir()) == {living, others, tmp_path / "a.txt"}
    assert (tmp_path / "a.txt").read_text() == "first and whole"


def everything_in(folder: Path) -> dict[str, str | None]:
    """What lies in a folder, hidden names too: the content of files, ``None`` for folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None for path in folder.rglob("*")
    }


# --- found out before the work


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("new.jsonl", None),
        ("file", None),
        ("some/where/new.jsonl", None),
        ("gone", None),  # a link to nothing
        ("-", None),
        ("/dev/null", None),
        ("folder", "it is a folder"),
        ("new/", "it is a folder"),
        ("file/new.jsonl", "Not a directory"),
        ("circle", "Too many levels of symbolic links"),
        ("circle/new.jsonl", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("x" * 300 + "/new.jsonl", "File name too long"),
        ("x/" * 2500 + "new.jsonl", "File name too long"),
        ("/proc/new.jsonl", "No such file or directory"),
        ("", "not a name of a file"),
        ("a\0b", "not a name of a file"),
    ],
)
def test_what_cannot_be_written_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("content")
    Path("folder").mkdir()
    Path("gone").symlink_to("nowhere")
    Path("circle").symlink_to("circle")
    before = everything_in(tmp_path)
    if problem is None:
        check_file(name)
    else:
        with pytest.raises(DataError, match=f"could not be written: .*{problem}$"):
            check_file(name)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("name", ["file", "gone", "circle", "file/in", "x" * 300])
def test_a_folder_that_cannot_be_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("content")
    Path("gone").symlink_to("nowhere")
    Path("circle").symlink_to("circle")
    with pytest.raises(DataError, match="could not be written: "):
        check_folder(name)
    check_folder(".")
    check_folder("new/in/here")
    assert sorted(os.listdir()) == ["circle", "file", "gone"]


@pytest.mark.parametrize("output", ["input.jsonl", "./sub/../input.jsonl", "link", "hard"])
def test_an_input_is_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input.jsonl").write_text("content")
    Path("sub").mkdir()
    Path("link").symlink_to("input.jsonl")
    os.link("input.jsonl", "hard")
    for given in (["-", "none", "input.jsonl"], ['pairs:"input.jsonl",a=b'], [("x", "input.jsonl,weight=2")]):
        with pytest.raises(UsageError) as caught:
            check_outputs([("other", FILE), (output, FILE)], given)
        message = str(caught.value)
        assert message.startswith(f"{output}: is an input too (")
        assert message.endswith("); write to another file")
    check_outputs([("other", FILE), ("-", FILE)], ["input.jsonl", "-"])
    check_outputs([("/dev/null", FILE), ("/dev/null", FILE)], ["/dev/null"])
    assert Path("input.jsonl").read_text() == "content"
    assert sorted(os.listdir()) == ["hard", "input.jsonl", "link", "sub"]


@pytest.mark.parametrize("names", [("out", "./out"), ("-", "-"), ("out", "link")])
def test_two_outputs_have_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("out")
    with pytest.raises(UsageError, match=f"^{names[1]}: is the name of two outputs \\({names[0]}\\)"):
        check_outputs([(names[0], FILE), (names[1], EITHER)], [])


def test_the_paths_in_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data", "data/set", "test", "verifier", "a,b"):
        Path(name).mkdir()
    Path("minilm").mkdir()
    specs = ["beir:data/set,split=test", 'sure:path=gone,reference="cnn:verifier,threshold=1"', 'model:"a,b",bits=8']
    given = [specs, "-", "minilm", None, 7, "data", "x" * 5000, "a prompt: " + "word, " * 2000, "NUL\0"]
    assert encoders.registry.parse("minilm").name == "minilm"
    assert paths_in(given) == ["data/set", "verifier", "a,b", "data"]


# --- what may be replaced


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "made"
    (folder / "sub").mkdir(parents=True)
    (folder / "ours.json").write_text("{}")
    return folder


@pytest.mark.parametrize("given", ["made", "link", "./made/../made"])
def test_a_folder_that_holds_anything_else_is_not_replaced(made: Path, given: str) -> None:
    Path("link").symlink_to("made")
    check_replaceable(given, ["*.json", "sub"])
    (made / ".ours.0123.retrokit-tmp").touch()  # a kill left it
    check_replaceable(given, ["*.json", "sub"])
    (made / "thesis.txt").touch()
    with pytest.raises(UsageError, match=rf"^{given} contains files that it did not create \(thesis.txt\)"):
        check_replaceable(given, ["*.json", "sub"])


@pytest.mark.parametrize("given", ["made", "made/sub", "made/sub/data.jsonl", "link/sub", "into", "made/out"])
def test_a_folder_that_holds_an_input_is_not_replaced(made: Path, given: str) -> None:
    (made / "sub" / "data.jsonl").touch()
    Path("outside").touch()
    Path("link").symlink_to("made")
    Path("into").symlink_to("made/sub/data.jsonl")
    (made / "out").symlink_to(Path("outside").absolute())
    with pytest.raises(UsageError, match=f"^made contains an input, {given}: "):
        check_replaceable("made", ["*"], ["outside", given])
    check_replaceable("made", ["*"], ["outside", "made-too"])


@pytest.mark.parametrize("inside", ["made", "made/sub"])
def test_the_folder_one_is_in_is_not_replaced(made: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    monkeypatch.chdir(inside)
    with pytest.raises(UsageError, match="while you are in it"):
        check_replaceable(made, ["*"])


# --- locks


HOLDER = """
import time
from retrokit.core.outputs import locked
with locked(PATH):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which writes the folder ``out``."""
    program = HOLDER.replace("PATH", repr(str(tmp_path / "out")))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_refused(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    (tmp_path / "link").symlink_to("out")
    for path in (tmp_path / "out", tmp_path / "x" / ".." / "out", tmp_path / "link"):
        for use in (
            lambda path: locked(path).__enter__(),
            outputs.check_free,
            lambda p: folder_in_the_making(p).__enter__(),
        ):
            with pytest.raises(UsageError) as caught:
                use(path)
            assert str(caught.value) == f"{path} is being written by another command; wait for it, or name another"
    with locked(tmp_path / "other"):
        pass


def test_a_kill_frees_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    outputs.check_free(tmp_path / "out")
    with locked(tmp_path / "out"):
        assert os.listdir(tmp_path) == [".out.retrokit-lock"]
    assert os.listdir(tmp_path) == []


# --- folders written whole


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with folder_in_the_making(tmp_path / "some" / "out") as folder:
        (folder / "file").write_text("new")
        (folder / "file").chmod(0o600)  # as safetensors leaves it
        assert not (tmp_path / "some" / "out").exists()
    assert everything_in(tmp_path) == {"some": None, "some/out": None, "some/out/file": "new"}
    made = tmp_path / "some" / "out"
    assert (made / "file").stat().st_mode & 0o777 == made.stat().st_mode & 0o666


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with folder_in_the_making(tmp_path / "some" / "out") as folder:
            (folder / "file").write_text("new")
            raise error

    with pytest.raises(error):
        fail()
    assert everything_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (lambda path: DataError(path / "a.txt", "is wrong", 3), "out/a.txt:3: is wrong"),
        (lambda path: DataError(path, "first\n second"), "out: first second"),
        (lambda path: OSError(errno.EFBIG, "File too large"), "out: could not be written: File too large"),
        (lambda path: OSError("10 requested and 3 written"), "out: could not be written: 10 requested and 3 written"),
        (
            lambda path: RuntimeError("PytorchStreamWriter failed\nat x"),
            "out: could not be written: PytorchStreamWriter",
        ),
    ],
)
@pytest.mark.parametrize("manager", [folder_in_the_making, replaced])
def test_errors_call_what_is_in_the_making_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: Any, error: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as raised, manager("out") as unfinished:
        raise error(unfinished)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert os.listdir() == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_appears_meanwhile_stays(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"

    def appear() -> None:
        if kind == "folder":
            out.mkdir()
            (out / "thesis").write_text("years of work")
        elif kind == "file":
            out.write_text("years of work")
        else:
            out.symlink_to("nowhere")

    def make() -> None:
        with folder_in_the_making(out) as folder:
            (folder / "file").write_text("new")
            appear()

    with pytest.raises(UsageError, match="exists already"):
        make()
    assert os.listdir(tmp_path) == ["out"]
    assert kind == "link" or (out if kind == "file" else out / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("killed", ["while writing", "between the renames", "after the renames"])
def test_what_a_kill_leaves_is_no_hindrance(tmp_path: Path, killed: str) -> None:
    out = tmp_path / "out"
    old, unfinished = outputs.beside(out, "retrokit-old"), outputs.beside(out, "retrokit-tmp")
    for folder in {"while writing": [out, unfinished], "between the renames": [old, unfinished]}.get(
        killed, [out, old]
    ):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    with folder_in_the_making(out, lambda: None) as folder:
        (folder / "file").write_text("new")
        assert (out / "file").read_text() in ("out", ".out.retrokit-old")
    assert everything_in(tmp_path) == {"out": None, "out/file": "new"}


def test_a_failed_rename_puts_back_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("old")
    with pytest.raises(FileNotFoundError):
        outputs.take_place(tmp_path / "gone", tmp_path / "out")
    assert everything_in(tmp_path) == {"out": None, "out/file": "old"}


# --- links that somebody has planted, and permissions


@pytest.mark.parametrize("ending", ["retrokit-tmp", "retrokit-old", "retrokit-lock"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_planted_link_is_refused(tmp_path: Path, ending: str, goes_on: bool) -> None:
    """What it leads to keeps its content, its name and its permissions."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    (precious / "thesis").chmod(0o604)
    link = outputs.beside(tmp_path / "out", ending)
    link.symlink_to(precious / "thesis" if ending == "retrokit-lock" else precious)
    with (
        pytest.raises(DataError, match=rf"^{link}: could not be written: it is a link; remove it"),
        folder_in_the_making(tmp_path / "out", lambda: None, lambda unfinished: goes_on) as folder,
    ):
        (folder / "thesis").write_text("new")
    assert everything_in(precious) == {"thesis": "years of work"}
    assert (precious / "thesis").stat().st_mode & 0o777 == 0o604
    assert sorted(os.listdir(tmp_path)) == sorted(["precious", link.name])
