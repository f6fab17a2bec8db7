"""Folders that are made once, as a package of a third party uses them: made again only once they are cleared."""

from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.encoders.kept import Note, kept, kept_in

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
