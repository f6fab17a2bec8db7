"""The data files of the near-misses: that every section is of use, and no entry is there twice."""

import re
from pathlib import Path

import pytest

import retrokit.augmentation.near_misses.patterns as data
from retrokit.augmentation.near_misses import registry

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


def faults(content: str) -> list[str]:
    """Sections without a comment or of no kind, and names and entries that are there twice."""
    wrong, names, entries, before = [], [], [], ""
    for line in content.splitlines():
        if line.startswith("["):
            names.append(line.strip("[]").split()[0])
            entries = []
            if not before.startswith("#") or not re.fullmatch(r"\[[a-z][a-z-]*( pairs| table| groups)?\]", line):
                wrong.append(line)
            has_keys, is_of_pairs, is_of_groups = "table]" in line, "pairs]" in line, "groups]" in line
        elif line and not line.startswith("#"):
            words = line.split()
            wrong += words[:1] if has_keys and not words[0].endswith(":") else []
            wrong += [word for word in words if is_of_pairs and not re.fullmatch("[^/>]+[/>][^/>]+", word)]
            first = entries if not is_of_groups else []
            entries = first + words[:1] * has_keys + [w for word in words if not has_keys for w in sides(word)]
            wrong += [word for word in {*entries} if entries.count(word) > 1]
        before = line
    return wrong + [name for name in {*names} if names.count(name) > 1]


def sides(word: str) -> list[str]:
    return word.split(">")[:1] if ">" in word else word.split("/")


@pytest.mark.parametrize("path", sorted(ROOM.glob("*/*s.txt")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_of_words_is_well_formed(path: Path) -> None:
    if path.name != "relations.txt":
        assert faults(path.read_text(encoding="utf-8")) == []


def test_faults_are_found() -> None:
    for content in (
        *("[a]\nb", "# Why.\n[a lists]\nb", "# Why.\n[a]\nb\n# Why.\n[a pairs]\nb>c", "# Why.\n[a]\nb c\nd b"),
        *("# Why.\n[a pairs]\nb>c d", "# Why.\n[a pairs]\nb/c c>d", "# Why.\n[a table]\nb c"),
        *("# Why.\n[a table]\nb: c\nb: d", "# Why.\n[a groups]\nb c b"),
    ):
        assert faults(content), content


def test_the_kinds_of_sections() -> None:
    content = "# Why.\n[a]\nb c_d\n# Why.\n[e]\n@a f\n# Why.\n[g groups]\nh i\nj\n\n# Why.\n[k table]\nl_m: n @a\n"
    lexicon = data.read_lexicon(content)
    assert lexicon.words == {"a": {"b", "c d"}, "e": {"b", "c d", "f"}}
    assert lexicon.groups == {"g": [{"h", "i"}, {"j"}]}
    assert lexicon.tables == {"k": {"l m": {"n", "b", "c d"}}}
