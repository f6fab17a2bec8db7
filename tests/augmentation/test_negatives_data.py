"""The data files of the near-misses: that every section is of use, and how a bad line is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import retrokit.augmentation.negatives.data as data
from retrokit.augmentation.negatives import registry
from retrokit.core.errors import DataError

ROOM = Path(data.__file__).parent


@pytest.mark.parametrize("family", registry.names())
def test_every_section_is_used(family: str) -> None:
    """A section that no rule asks for is dead; a name that no section has would fail at a rare sentence only."""
    package = f"{data.__package__}.{family}"
    files = [path.name for path in (ROOM / family).glob("*.txt") if path.name not in ("prompt.txt", "relations.txt")]
    there = {name for file in files for sections in data.lexicon(package, file) for name in sections}
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOM / family).glob("*.py"))
    asked = set(re.findall(r'(?:WORDS|PAIRS|TABLES|GROUPS|TERMS)\[["\']([a-z-]+)["\']\]', code))
    taken_in = {name for file in files for name in re.findall(r"@([a-z-]+)", data.text(package, file))}
    if (ROOM / family / "relations.txt").exists():
        taken_in |= set(re.findall(r"\$([a-z-]+)", data.text(package, "relations.txt")))
    assert there == asked | taken_in


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("some words", "w.txt:1: no section has begun"),
        ("# Why.\n[Upper]\na", "w.txt:2: [Upper] is none of [name], [name pairs], [name table] and [name groups]"),
        ("# Why.\n[a lists]\na", "w.txt:2: [a lists] is none of [name], [name pairs], [name table] and [name groups]"),
        ("[a]\nb", "w.txt:1: no comment says what the section a is for"),
        ("# Why.\n[a]\nb\n# Why.\n[a pairs]\nb>c", "w.txt:5: the section a is there twice"),
        ("# Why.\n[a]\nb c\nd b", "w.txt:4: b is there twice"),
        ("# Why.\n[a]\nb c b", "w.txt:3: b is there twice"),
        ("# Why.\n[a]\n@other b", "w.txt:3: no section of words other stands above"),
        ("# Why.\n[a pairs]\nb>c d", "w.txt:3: d is neither a>b nor a/b"),
        ("# Why.\n[a pairs]\nb/c>d", "w.txt:3: b/c>d is neither a>b nor a/b"),
        ("# Why.\n[a pairs]\nb/c c>d", "w.txt:3: c is there twice"),
        ("# Why.\n[a table]\nb c", "w.txt:3: b is not a key: expected key: words"),
        ("# Why.\n[a table]\nb: c\nb: d", "w.txt:4: b is there twice"),
    ],
)
def test_a_bad_line_is_named(content: str, told: str) -> None:
    with pytest.raises(DataError) as error:
        data.read_lexicon(content, "w.txt")
    assert str(error.value) == told


def test_the_kinds_of_sections() -> None:
    content = """# Why.
[a]
b c_d
# Why.
[e]
@a f
# Why.
[g groups]
h i
j
# Why.
[k table]
l_m: n @a
"""
    made = data.read_lexicon(content, "w.txt")
    assert made.words == {"a": {"b", "c d"}, "e": {"b", "c d", "f"}}
    assert made.groups == {"g": [{"h", "i"}, {"j"}]}
    assert made.tables == {"k": {"l m": {"n", "b", "c d"}}}


def test_a_file_is_read_once() -> None:
    package = f"{data.__package__}.negation"
    assert data.lexicon(package) is data.lexicon(package)
