"""How the pages become a site: `sphinx-build -W -b html docs site` (extra `docs`); `.ci/docs` checks what comes out.

Sphinx, MyST and furo are all kept up: when Sphinx 9 came at the end of November 2025, furo took it within three weeks,
and MyST-Parser in its version 5. Material for MkDocs had fixes until 5 November 2026 alone
(squidfunk/mkdocs-material#8523), MkDocs has had no release since August 2024, and Zensical, by Material's makers, is
at 0.1.
"""

import re
from pathlib import Path
from typing import Any

project = "retrokit"
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # JSON with an ellipsis in it
html_theme = "furo"
html_title = "retrokit"
html_copy_source = False
html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]

DOCS = Path(__file__).resolve().parent
EXTENSIONS = {page.parent.name: page for page in sorted(DOCS.parent.glob("retrokit/extensions/*/page.md"))}
"""The page of each extension, which is in its folder. The site has a copy below ``extensions``."""

NAVIGATION = {
    "Tutorials": [
        f"tutorials/{name}"
        for name in (
            "fine-tune which-similarity without-labels is-it-worth-it negation gate sure vector-database"
        ).split()
    ],
    "How-to": [
        f"how-to/{name}"
        for name in ("base-model training-data rerank export-vectors language-models reproduce contribute").split()
    ],
    "GPUs": ["gpu"],
    "Reference": [
        f"reference/{page}"
        for page in "cli names python schemas formats docstrings metrics similarities encoders".split()
        + "caches plugins extensions".split()
    ],
    "Extensions": [f"extensions/{name}" for name in EXTENSIONS],
    "Explanation": [f"explanation/{page}" for page in "statistics near-misses sure design".split()],
    "Reproduction": [
        f"reproduction/{name}" for name in "index learned tables mag sfs crop comp sure retrokit benchmarks".split()
    ],
}
"""The pages of the sidebar. The build fails if a page is missing here, or if a page here does not exist."""


def in_the_site(text: str, folder: str = "") -> str:
    """A page whose links to pages of extensions lead to their copies; ``folder`` is the way to the site's root.

    >>> in_the_site("[a](../../retrokit/extensions/own/page.md#x)", "../")
    '[a](../extensions/own.md#x)'
    """
    return re.sub(r"\]\((?:\.\./)+retrokit/extensions/(\w+)/page\.md", rf"]({folder}extensions/\1.md", text)


def copy_pages() -> None:
    """Write the pages of extensions into ``docs/extensions``, which git ignores; their links lead to where they do."""
    folder = DOCS / "extensions"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.stem not in EXTENSIONS:
            old.unlink()
    for name, page in EXTENSIONS.items():
        text = page.read_text(encoding="utf-8").replace("](../../../docs/", "](../")
        text = re.sub(r"\]\(\.\./(\w+)/page\.md", r"](\1.md", text)
        (folder / f"{name}.md").write_text(text.replace("](../../../", "](../../"), encoding="utf-8")


def setup(app: Any) -> None:
    """Let the front page name all others; in Markdown they would be lines that only Sphinx understands."""
    copy_pages()

    def read(_app: Any, page: str, text: list[str]) -> None:
        text[0] = in_the_site(text[0], page.count("/") * "../")
        if page == "index":
            for caption, pages in NAVIGATION.items():
                text[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"

    app.connect("source-read", read)
