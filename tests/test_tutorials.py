"""Each page of docs/tutorials, run from top to bottom as a reader would, and the notebook of the first.

What a page shows is compared with what its commands print, by these rules:

- A block ``text`` shows output of the commands before it (``bash`` or ``python``). A block ``sh`` is not run.
- Each of its lines is a line of the output, in that order. Others may be left out between them.
- ``…`` is any text, or any lines. White space and the borders of tables do not count.
- A number without decimals is exact, and may be any before a unit of time or size.
- One with decimals may differ by 0.03, or by a tenth. A p-value may differ by 0.1, but not cross 0.05.
"""

import difflib
import importlib.util
import json
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "tutorials"
PORT = "8765"  # of the service that a page starts
COLUMNS = "80"  # of the terminal whose output the pages show
PYTHON = "3.11.7"  # whose docstrings they show
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)")
UNIT = re.compile(r" ?(?:ms|s|seconds|min|minutes|kB|MB|GB)\b")
P_VALUE = re.compile(r"\bp ?=? ?$")
BORDERS = re.compile(r"[\u2500-\u257f]+")
PLAN = re.compile(r"\d+ trainings of \d+ steps")  # which depends on how fast the machine is
END = "--- end of a block of commands ---"
NEEDS = {
    "fine-tune": "bm25s",
    "which-similarity": "snakemake",
    "without-labels": "bm25s",
    "is-it-worth-it": "bm25s",
    "negation": "snakemake",
    "vector-database": "duckdb",
}


def blocks_of(text: str) -> list[tuple[str, str]]:
    """The blocks of shell, Python and output of a page, with their languages, without those that install."""
    blocks = re.findall(r"^```(bash|python|text)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for block in blocks if not block[1].startswith("python -m pip install")]


def commands(text: str) -> str:
    """The blocks of shell and of Python of a page, one after another. Each ends with printing ``END``."""
    script = ""
    for language, block in blocks_of(text):
        if language == "python":
            block = f"python - <<'END OF BLOCK'\n{block}END OF BLOCK\n"
        if language != "text":
            script += f"{block}echo '{END}'\n"
    return script


def differences(text: str, printed: str) -> list[str]:
    """The lines that a page shows and its commands did not print, each with the most similar line of theirs."""
    outputs = printed.split(END)
    problems = []
    ran = 0
    for language, block in blocks_of(text):
        if language != "text":
            ran += 1
            continue
        assert ran, f"no command comes before this block of output:\n{block}"
        rest = lines_of(outputs[ran - 1])
        for line in lines_of(block):
            matching = [index for index, candidate in enumerate(rest) if is_printed(line, candidate)]
            if matching:
                rest = rest[matching[0] + 1 :]
            elif line != "…":
                similar = difflib.get_close_matches(line, lines_of(outputs[ran - 1]), n=1, cutoff=0)
                problems.append("\n".join([f"shown:   {line}", *(f"printed: {other}" for other in similar)]))
    return problems


def lines_of(text: str) -> list[str]:
    """The lines of an output without borders, with single spaces, but for empty ones."""
    lines = [" ".join(BORDERS.sub(" ", line).split()) for line in text.splitlines()]
    return [line for line in lines if line]


def is_printed(shown: str, printed: str) -> bool:
    """Whether the printed line is the shown one, but for what ``…`` leaves out and the noise of its figures."""
    words = [re.escape(words).replace("…", ".*?") for words in NUMBER.split(shown)]
    match = re.fullmatch(f"({NUMBER.pattern})".join(words), printed)
    if match is None:
        return False
    return all(is_near(number, other) for number, other in zip(NUMBER.finditer(shown), match.groups(), strict=True))


def is_near(shown: re.Match[str], printed: str) -> bool:
    """Whether a printed number is the shown one, which is a match in its line, but for noise."""
    before, after = shown.string[: shown.start()], shown.string[shown.end() :]
    if UNIT.match(after):
        return True
    if "." not in shown[0] and "e" not in shown[0]:
        return shown[0] == printed
    value, other = (float(text.replace(",", "")) for text in (shown[0], printed))
    if P_VALUE.search(before):
        return abs(value - other) <= 0.1 and (value < 0.05) == (other < 0.05)
    return abs(value - other) <= max(0.03, 0.1 * abs(value))


def reader_in(folder: Path) -> dict[str, str]:
    """The environment of a reader in ``folder``, where it puts `examples`; `python` and `retrokit` are the test's."""
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = folder / "programs"
    programs.mkdir()
    for name, words in (("python", ""), ("retrokit", " -m retrokit")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    cache = str(folder / "cache")
    own = {"PYTHONPATH": str(ROOT), "RETROKIT_CACHE": cache, "HF_HUB_OFFLINE": "1", "COLUMNS": COLUMNS}
    return {**os.environ, **own, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", sorted(FOLDER.glob("[a-z]*.md")), ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem], reason="the page installs it")
    text = page.read_text(encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        text = text.replace(PORT, str(free.getsockname()[1]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands(text)],
        cwd=tmp_path,
        env=reader_in(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert not re.search(r"\]\(\.\./pictures/", text) or list(tmp_path.rglob("*.png")), "no command makes a picture"
    if platform.python_version() != PYTHON:
        pytest.skip(f"the pages show docstrings of Python {PYTHON}")
    if PLAN.findall(text) != PLAN.findall(done.stdout):
        pytest.skip("the pages show what a time budget allows on another machine")
    problems = differences(text, done.stdout)
    assert not problems, "\n\n".join(problems)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_notebook_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("snakemake", reason="the notebook installs it")
    nbformat = pytest.importorskip("nbformat", reason="comes with Jupyter")
    nbclient = pytest.importorskip("nbclient", reason="comes with Jupyter")
    for name, value in reader_in(tmp_path).items():
        monkeypatch.setenv(name, value)
    book = nbformat.read(FOLDER / "which_similarity.ipynb", as_version=4)
    book.cells = [cell for cell in book.cells if "pip install" not in cell.source]
    folder = tmp_path / "docs" / "tutorials"  # where Jupyter starts it
    folder.mkdir(parents=True)
    client = nbclient.NotebookClient(book, timeout=3600, resources={"metadata": {"path": str(folder)}})
    client.execute()
    printed = [
        "".join(output.get("text", "") for output in cell.outputs) for cell in book.cells if cell.cell_type == "code"
    ]
    assert "train with " in "".join(printed)
    assert re.search(r"^cosine +0\.\d", printed[-1], flags=re.MULTILINE), printed[-1]
    assert list(tmp_path.rglob("*.png"))


PRINTED = """
┏━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━━━┓
┃ system ┃  ndcg@10 ┃ recall@100 ┃
│ now    │   0.3223 │     0.7605 │
│ new    │ +0.0523* │    -0.0042 │
│        │  p=0.031 │    p=0.045 │
└────────┴──────────┴────────────┘
476 queries, 1,500 documents; done in 32 s, 39 kB
loss 4.143 → 0.0003369, x^0.5094
"""


@pytest.mark.parametrize(
    "shown",
    [
        "┃ system ┃  ndcg@10 ┃ recall@100 ┃\n│ new │ +0.0523* │ -0.0042 │",
        "now 0.3501 0.7000",
        "… 0.7605\n…\n476 queries, … documents; done in …",
        "476 queries, 1,500 documents; done in 7 s, 390 kB",
        "new +0.0300* +0.0100\np=0.01 p=0.0004",
        "loss 4.5 → 1.296e-05, x^0.53",
    ],
)
def test_what_differs_by_noise_is_as_shown(shown: str) -> None:
    assert differences(f"```bash\nrun\n```\nProse.\n```text\n{shown}\n```\n", PRINTED) == []


@pytest.mark.parametrize(
    "shown",
    [
        "now 0.3223",
        "old 0.3223 0.7605",
        "now 0.3600 0.7605",
        "new +0.0523 -0.0042",
        "p=0.06 p=0.045",
        "475 queries, 1,500 documents; done in 32 s, 39 kB",
        "476 queries, 1,501 documents; done in 32 s, 39 kB",
        "476 queries, 1,500 documents; done in 32 seconds, 39 kB",
        "loss 3.6 → 0.0003369, x^0.5094",
        "476 queries, … documents, …",
    ],
)
def test_another_word_or_figure_is_not_as_shown(shown: str) -> None:
    (problem,) = differences(f"```bash\nrun\n```\n```text\n{shown}\n```\n", PRINTED)
    assert problem.startswith(f"shown:   {shown}\nprinted: ")


def test_lines_are_those_of_the_commands_before_and_in_their_order() -> None:
    page = "```bash\na\n```\n```text\none\ntwo\n```\n```sh\nno\n```\n```python\nb\n```\n```text\nthree\n```\n"
    assert differences(page, f"one\ntwo\n{END}\nthree\n") == []
    for printed in (f"two\none\n{END}\nthree\n", f"one\ntwo\nthree\n{END}\n"):
        assert len(differences(page, printed)) == 1
    with pytest.raises(AssertionError, match="no command comes before"):
        differences("```bash\npython -m pip install x\n```\n```text\nwords\n```\n", "words")
    done = subprocess.run(
        ["bash", "-c", commands("```bash\necho 1\n```\n```bash\necho 2\n```\n")], stdout=-1, text=True
    )
    assert done.stdout.split() == ["1", *END.split(), "2", *END.split()]


def test_the_table_of_the_readme_is_that_of_its_tutorial() -> None:
    (table,) = [block for language, block in blocks_of((ROOT / "README.md").read_text("utf-8")) if language == "text"]
    shown = [block for language, block in blocks_of((FOLDER / "fine-tune.md").read_text("utf-8")) if language == "text"]
    assert any(table in block for block in shown)


def test_the_notebook_is_its_page() -> None:
    """The cells are the blocks that the page's own test runs, one after another."""
    spec = importlib.util.spec_from_file_location("make_notebook", ROOT / "docs" / "make_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    written, page = made.TARGET.read_text(encoding="utf-8"), made.PAGE.read_text(encoding="utf-8")
    assert written == made.notebook(page), "run: python docs/make_notebook.py"
    first, *cells = ["".join(cell["source"]) for cell in json.loads(written)["cells"] if cell["cell_type"] == "code"]
    assert first == made.TO_ROOT
    ran = [f"```bash\n{cell[7:]}\n```" if cell.startswith("%%bash") else f"```python\n{cell}\n```" for cell in cells]
    assert commands("\n".join(ran)) == commands(page)
