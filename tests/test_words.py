"""``.ci/words``: what it refuses in help, messages, docstrings and pages, and what it lets pass."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOADER = importlib.machinery.SourceFileLoader("words", str(ROOT / ".ci" / "words"))
SPEC = importlib.util.spec_from_loader("words", LOADER)
assert SPEC is not None
words = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(words)

LONG = "word " * 31


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("The file is not found.", 0),
        ("Results found by the search stand for it.", 1),
        ("`kept` and ``made`` are code.", 0),
        ("It goes on anew, so many times, by itself.", 4),
        ("A stand-alone page.", 0),
    ],
)
def test_banned_words(text, problems):
    assert len(list(words.banned(text))) == problems


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (f"{LONG}. {LONG}. Short.", "2 of 3 sentences have more than 30 words"),
        ("A; b. C; d.", "2 semicolons in 4 words"),
        ("word " * 81, "a paragraph of 81 words"),
        ("See [it](gone.md).", "the link leads nowhere: gone.md"),
        ("See [it](#gone).", "the page has no such heading: #gone"),
        ("A Xeon.", "'Xeon': in docs/reproduction only"),
        ("## Here and there\n\n```text\nkept; told; " + LONG + "\n```\n\n[it](#here-and-there)", None),
    ],
)
def test_pages(tmp_path, monkeypatch, page, problem):
    monkeypatch.setattr(words, "ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(page)
    shown = [text for _, _, text in (*words.page_problems(path), *words.link_problems(path))]
    assert any(problem in text for text in shown) if problem else shown == []
