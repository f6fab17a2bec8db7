"""Write ``docs/tutorials/which_similarity.ipynb`` from the page of that name: its text, and its commands as cells.

python docs/make_notebook.py
"""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "tutorials"
PAGE, TARGET = FOLDER / "which-similarity.md", FOLDER / "which_similarity.ipynb"
TO_ROOT = """\
import os

if not os.path.isdir("examples"):
    os.chdir("../..")  # from the folder of the notebook to the root of the repository"""


def notebook(page: str) -> str:
    """The page as a notebook; what the commands print is left out, for it will be there once they are run."""
    parts = re.split(r"^```(\w+)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    cells = [{"cell_type": "code", "execution_count": None, "outputs": [], "source": TO_ROOT}]
    for text, language, code in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        if text.strip():
            cells.append({"cell_type": "markdown", "source": text.strip()})
        if language in ("bash", "python"):
            source = f"%%bash\n{code}" if language == "bash" else code
            cells.append({"cell_type": "code", "execution_count": None, "outputs": [], "source": source.strip()})
    for number, cell in enumerate(cells):
        cell |= {"id": f"cell-{number}", "metadata": {}, "source": cell["source"].splitlines(keepends=True)}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    TARGET.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
