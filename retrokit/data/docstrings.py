"""A data set that every Python has: the docstrings of its standard library, a first sentence as the query and the rest
as its document. It is the same for one version of Python, and needs no network.

Files are parsed and never imported. A file is in one split, and near-duplicates are left out, so no text is in two
splits. Names of functions and modules are in the ids only.
"""

import ast
import os
import platform
import re
import shutil
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from retrokit.core.errors import DataError, disk_errors
from retrokit.core.version import __version__
from retrokit.data import DOCSTRINGS, DOCSTRINGS_TEXTS, FEWEST
from retrokit.data.beir import data_folder, write_beir
from retrokit.data.corpus import Document
from retrokit.data.jsonl import write_jsonl
from retrokit.data.training_rows import digest64, normal_form
from retrokit.data.words import units

_ORDER = ("train", "test", "train", "dev", "train", "test", "train", "train", "test", "train")
"""The splits of ten files."""
_LARGEST_FILE = 250_000  # bytes; larger ones are mostly generated
_SKIPPED = frozenset("test tests site-packages dist-packages encodings ensurepip idlelib lib2to3 turtledemo".split())
_QUERY_WORDS = range(4, 41)
_QUERY_CHARACTERS = 25
_DOCUMENT_WORDS = 10
_LONGEST_DOCUMENT = 120  # words
_FUNCTION_WORDS = frozenset(
    "a an and are as at be by can each for from has have if in into is it its may not of on one only or other so such "
    "that the their then there these they this to used using was when where which will with you your".split()
)


class Docstring(NamedTuple):
    """A docstring in two parts, and the name of what it describes."""

    name: str
    query: str
    document: str


def docstrings_folder(documents: int) -> Path:
    """The BEIR folder of the set with at most N ``documents``, which is written once for each version of Python.

    Raises:
        DataError: this Python's standard library has too few docstrings, or the folder cannot be written.
    """
    folder = data_folder() / f"python-{platform.python_version()}-{__version__}-{documents}" / DOCSTRINGS
    if not os.path.isdir(folder):
        _write(folder, documents)
    return folder


def _write(folder: Path, documents: int) -> None:
    files = _files(documents)
    count = sum(map(len, files))
    if count < FEWEST:
        problem = f"has {count} usable docstrings, and {DOCSTRINGS} needs {FEWEST}"
        problem += "; this Python lacks sources of its standard library"
        raise DataError(sysconfig.get_path("stdlib"), problem)
    splits = _splits(files)
    rows = sorted(chain.from_iterable(files))
    corpus = (Document(id=name, title="", text=document) for name, _, document in rows)
    queries = ((f"q:{name}", query) for name, query, _ in rows)
    qrels = {split: {f"q:{name}": {name: 1} for name, _, _ in docstrings} for split, docstrings in splits.items()}
    texts = ({"id": name, "text": document} for name, _, document in splits["train"])
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished.", dir=folder.parent))
        try:
            write_beir(unfinished / DOCSTRINGS, corpus, queries, qrels)
            write_jsonl(unfinished / DOCSTRINGS / DOCSTRINGS_TEXTS, texts)
            os.rename(unfinished / DOCSTRINGS, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another command was faster
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _files(documents: int) -> list[list[Docstring]]:
    """The docstrings of each file that has some, in a fixed order that mixes the packages, without near-duplicates."""
    root = Path(sysconfig.get_path("stdlib"))
    names = sorted(_python_files(root), key=lambda name: digest64(name.encode()))
    files = [_docstrings_of_file(root / name, name) for name in names]
    repeated = _repeated([docstring for file in files for docstring in file])
    distinct = []
    for file in files:
        file = [docstring for docstring in file if docstring.name not in repeated][:documents]
        if file:
            distinct.append(file)
        documents -= len(file)
    return distinct


def _python_files(root: Path) -> Iterator[str]:
    """The source files, without tests and private packages, by their paths below ``root``."""
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(("_", "."))]
        for name in files:
            if name.endswith(".py"):
                yield Path(parent, name).relative_to(root).as_posix()


def _docstrings_of_file(path: Path, name: str) -> list[Docstring]:
    """The usable docstrings of a file."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            return []
        with warnings.catch_warnings(action="ignore"):  # about escape sequences
            tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # a dangling link, a file for another version, or in another encoding
        return []
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    docstrings: dict[str, Docstring] = {}
    for described, text in _texts(tree, module):
        query, document = _query_and_document(text)
        if _is_usable(query, document):
            docstrings.setdefault(described, Docstring(described, query, document))
    return list(docstrings.values())


def _texts(node: ast.Module | ast.ClassDef, name: str) -> Iterator[tuple[str, str]]:
    """Qualified name and docstring of a module or class, and of everything public in it."""
    text = ast.get_docstring(node)
    if text:
        yield name, text
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
            continue
        if isinstance(child, ast.ClassDef):
            yield from _texts(child, f"{name}.{child.name}")
        elif text := ast.get_docstring(child):
            yield f"{name}.{child.name}", text


def _query_and_document(docstring: str) -> tuple[str, str]:
    """The first sentence, and the rest up to its longest length; both empty if the first sentence has no end."""
    first, _, rest = _without_code(docstring).strip().partition("\n\n")
    first = _plain(first)
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)[.!?](?=\s+[A-Z\"'(])", first)
    query = first[: end.end()] if end else first
    if not query.endswith((".", "!", "?")) and rest[:1].islower():
        return "", ""  # a formula or a blank line cuts the sentence in two
    words = f"{first[len(query) :]} {_plain(rest)}".split()
    return query, " ".join(words[:_LONGEST_DOCUMENT])


def _without_code(text: str) -> str:
    """The lines without doctests with their output, and without lines of marks only."""
    lines = []
    is_doctest = False
    for line in text.splitlines():
        line = line.strip()
        is_doctest = line.startswith(">>>") or (is_doctest and line != "")
        if not is_doctest and not re.fullmatch(r"[-=~^*#+|_\s]{3,}", line):
            lines.append(line)
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A line of text without the marks of reStructuredText and without links."""
    text = re.sub(r":[\w:+-]+:`~?\.?([^`<]+?)\s*(?:<[^`>]*>)?`", r"\1", text)
    text = re.sub(r"https?://\S+", "", text)
    return " ".join(re.sub(r"`+|\*\*", "", text).split())


def _is_usable(query: str, document: str) -> bool:
    """Whether both sides are English prose, the query has a topic, and the document does not repeat it."""
    words = units(query)
    return (
        len(query.split()) in _QUERY_WORDS
        and len(query) >= _QUERY_CHARACTERS
        and len(document.split()) >= _DOCUMENT_WORDS
        and len(set(words) - _FUNCTION_WORDS) >= 3
        and not re.search(r"[={}<>|\\]|\w\(|->|[:,]$|deprecated|copyright|licen[cs]e", query, re.IGNORECASE)
        and _is_prose(document)
        and normal_form(query) not in normal_form(document)
    )


def _is_prose(text: str) -> bool:
    words = units(text)
    function_words = sum(word in _FUNCTION_WORDS for word in words)
    marks = re.findall(r"[={}<>|\\()\[\]_@#$%]", text)
    return text.isascii() and function_words >= 0.22 * len(words) and len(marks) <= 0.04 * len(text)


def _repeated(docstrings: Sequence[Docstring]) -> set[str]:
    """The names of docstrings whose query or document is a near-duplicate of a text of an earlier one."""
    from retrokit.data.overlap import Bigrams, Shingles  # which reads training data, of which this is one

    texts = [text for _, query, document in docstrings for text in (query, document)]
    repeated = set()
    for first, second in Bigrams(texts, Shingles()).alike():
        earlier, later = sorted((first // 2, second // 2))
        if earlier != later:
            repeated.add(docstrings[later].name)
    return repeated


def _splits(files: Sequence[Sequence[Docstring]]) -> dict[str, list[Docstring]]:
    """The docstrings of each split, in whole files. A file has the same split however many documents there are."""
    splits: dict[str, list[Docstring]] = {"train": [], "dev": [], "test": []}
    for index, file in enumerate(files):
        splits[_ORDER[index % len(_ORDER)]] += file
    return splits
