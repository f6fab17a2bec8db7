"""Each page of docs/tutorials, run from top to bottom as a reader would, and the notebook of the first."""

import importlib.util
import json
import os
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
NEEDS = {
    "fine-tune": "bm25s",
    "which-similarity": "snakemake",
    "without-labels": "bm25s",
    "is-it-worth-it": "bm25s",
    "negation": "snakemake",
    "vector-database": "duckdb",
}


def commands(text: str) -> str:
    """The blocks of shell and of Python of a page, one after another, without those that install."""
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        block if language == "bash" else f"python - <<'END OF BLOCK'\n{block}END OF BLOCK\n"
        for language, block in blocks
        if not block.startswith("python -m pip install")
    )


def reader_in(folder: Path) -> dict[str, str]:
    """The environment of a reader in ``folder``, where it puts `examples`; `python` and `retrokit` are the test's."""
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = folder / "programs"
    programs.mkdir()
    for name, words in (("python", ""), ("retrokit", " -m retrokit")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    own = {
        "PYTHONPATH": str(ROOT),
        "RETROKIT_CACHE": str(folder / "cache"),
        "RETROKIT_DATA": str(folder / "data"),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": COLUMNS,
    }
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
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\]\(\.\./pictures/", text) or list(tmp_path.rglob("*.png")), "no command makes a picture"


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
