"""Text files: plain, compressed, standard streams; whole or not at all."""

import fcntl
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.core.files import digest, read_lines, writing
from tests.forked_python import light_python


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


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"), encoding="latin-1"))
    assert lines("-") == [(1, "one"), (2, "two")]
    with pytest.raises(DataError, match=r"^standard input: is empty; expected lines$"):
        lines("-")


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
        ("a.txt", "good\n".encode("utf-16"), "1: is not UTF-8 text (byte 0xff at position 1 of the line)"),
        ("a.gz", gzip.compress(b"text " * 100, mtime=0)[:-9], "the gzip data ends too early (a truncated file?)"),
        ("a.gz", b"plain text", "is not a sound gzip file (Not a gzipped file (b'pl'))"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        lines(path)
    separator = ":" if message[0].isdigit() else ": "
    assert str(caught.value) == f"{path}{separator}{message}"


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


def test_the_same_text_gives_the_same_compressed_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with writing(tmp_path / name) as stream:
            stream.write("text\n")
    packed = (tmp_path / "a.gz").read_bytes()
    assert packed == (tmp_path / "b.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # RFC 1952: MTIME


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


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_behind_standard_output(size: int) -> None:
    program = f"""
from retrokit.core.files import writing
from retrokit.core.errors import DataError
try:
    with writing("-") as stream:
        stream.write("x" * {size})
except DataError as error:
    import os, sys
    print(error, file=sys.stderr)
    os._exit(2)
"""
    with open("/dev/full", "w") as full:
        command = [light_python(), "-c", program]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "standard output: could not be written: No space left on device\n")


def test_missing_folders_are_made_and_go_again_if_nothing_is_written(tmp_path: Path) -> None:
    with writing(tmp_path / "some" / "where" / "a.txt") as stream:
        stream.write("new")
    assert (tmp_path / "some" / "where" / "a.txt").read_text() == "new"
    with pytest.raises(RuntimeError), writing(tmp_path / "else" / "where" / "a.txt"):
        raise RuntimeError
    assert os.listdir(tmp_path) == ["some"]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = r"could not be written: Not a directory$"
    with pytest.raises(DataError, match=message), writing(tmp_path / "file" / "none" / "a.txt"):
        pass
    with pytest.raises(DataError, match=r"could not be written: it is a folder$"), writing(tmp_path):
        pass
    with pytest.raises(DataError, match=r"could not be written: File name too long$"), writing(tmp_path / ("x" * 300)):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_two_processes_of_one_number_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in containers
    path = tmp_path / "a.txt"
    with writing(path) as first, writing(path) as second:
        first.write("first")
        second.write("second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


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


def test_importing_the_readers_imports_nothing_heavy() -> None:
    program = (
        "import sys, retrokit.data.pairs, retrokit.data.trec\n"
        "print([m for m in ('torch', 'pandas', 'datasets', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([light_python(), "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
