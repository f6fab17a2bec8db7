"""What no reader takes: identifiers with a NUL, lines without end, tables in place of JSON lines, odd names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit.core import files
from retrokit.core.errors import DataError
from retrokit.core.files import read_lines
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.trec import read_run
from tests.trec import read_qrels


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b'{"id": "a\\u0000b", "text": "t"}\n', lambda path: list(read_corpus(path))),
        (b'{"_id": "a\\u0000", "text": "t"}\n', lambda path: list(read_queries(path))),
        (b"q\0\td\t1\n", read_qrels),
        (b"q\t0\td\0d\t1\n", read_qrels),
        (b"q Q0 d\0 1 0.5 tag\n", read_run),
    ],
)
def test_a_nul_in_an_identifier_is_refused(tmp_path: Path, content: bytes, read: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"file:1: an identifier holds a NUL character$"):
        read(path)


@pytest.mark.parametrize("name", ["file", "/dev/zero"])
def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 2 << 20)
    (tmp_path / "file").write_bytes(b"x" * (2 << 20) + b"\n")
    seen: list[bytes] = []
    with pytest.raises(DataError, match=r"1: the line is longer than 2 MiB; expected texts$"):
        list(read_lines(tmp_path / name, "texts", seen.append))
    assert seen == []
    (tmp_path / "file").write_bytes(b"x" * ((2 << 20) - 1) + b"\n")
    assert len(list(read_lines(tmp_path / "file", "texts"))) == 1


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/in"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"could not be read|does not exist|null byte"):
        list(read_lines(tmp_path / name, "texts"))
