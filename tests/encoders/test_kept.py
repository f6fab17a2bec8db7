"""Folders that are made once, as a package of a third party uses them: made again only once they are cleared."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.encoders.kept import Note, clear_kept, kept, kept_in
from retrokit.report import doctor

AREA = "letter-tables"


class Tables:
    """A third party's tables of letters, which take long to make."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def table(self, text: str) -> str:
        def write(folder: Path) -> Note:
            self.made.append(text)
            (folder / "parts").mkdir()
            (folder / "parts" / "letters.txt").write_text("".join(sorted(text)))
            return Note(f"table:{text}", f"{len(text)} letters")

        with kept(AREA, f"letters of {text}", write) as folder:
            return (folder / "parts" / "letters.txt").read_text()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_made_once(cache: Path) -> None:
    tables = Tables()
    assert [tables.table(text) for text in ("cab", "deed", "cab")] == ["abc", "ddee", "abc"]
    assert tables.made == ["cab", "deed"]
    assert Tables().table("cab") == "abc"
    assert sorted((folder.area, folder.name, folder.said) for folder in kept_in(cache)) == [
        (AREA, "table:cab", "3 letters"),
        (AREA, "table:deed", "4 letters"),
    ]


def test_commands_list_count_and_clear_it(cache: Path, typed: Callable[..., tuple[int, str, str]]) -> None:
    tables = Tables()
    tables.table("cab")
    code, out, _ = typed("cache", "--json")
    (entry,) = json.loads(out)["folders"]
    size = entry.pop("size")
    assert (code, entry) == (0, {"area": AREA, "name": "table:cab", "said": "3 letters"})
    assert size == sum(file.stat().st_size for file in cache.rglob("*") if file.is_file() and file.suffix != ".lock")
    assert f"table:cab: {size} bytes; 3 letters" in typed("cache")[1]
    (counted,) = [finding for finding in doctor.examine([]) if finding.name == "embedding cache"]
    assert counted.status.startswith(f"{size} bytes of at most")

    assert typed("cache", "--limit", "1KB")[0] == 0
    assert len(kept_in(cache)) == 1, "a limit is for embeddings"
    assert typed("cache", "--clear")[0] == 0
    assert kept_in(cache) == []
    assert not (cache / AREA).exists()
    tables.table("cab")
    assert tables.made == ["cab", "cab"]


def test_without_a_cache_it_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    places = []

    def write(folder: Path) -> Note:
        places.append(folder)
        return Note("table:a", "")

    with kept(AREA, "a", write) as folder:
        assert folder == places[0]
    assert not folder.exists()


def test_a_folder_that_could_not_be_made_leaves_nothing(cache: Path) -> None:
    def write(folder: Path) -> Note:
        (folder / "half").write_text("half")
        raise DataError("table:a", "has no letters")

    with pytest.raises(DataError, match="has no letters"), kept(AREA, "a", write):
        pass
    assert kept_in(cache) == []
    assert [path for path in cache.rglob("*") if path.name == "half"] == []


def test_nothing_else_is_removed(cache: Path) -> None:
    Tables().table("cab")
    (made,) = (path for path in (cache / AREA).iterdir() if path.is_dir())
    for folder in (cache / AREA / "mine", cache / AREA / ("0" * 32), cache / "notes"):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("years of work")
    (cache / AREA / "mine" / "kept.json").write_text('{"of": "a user"}')
    os.symlink(cache / AREA / "mine", cache / AREA / ("1" * 32))
    assert [folder.name for folder in kept_in(cache)] == ["table:cab"]
    clear_kept(cache)
    assert not made.exists()
    assert sorted(path.name for path in (cache / AREA).iterdir()) == ["0" * 32, "1" * 32, "mine"]
    assert (cache / "notes" / "notes.txt").read_text() == "years of work"
