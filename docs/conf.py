"""How the pages become a site: `sphinx-build -W -b html docs site` (extra `docs`); `.ci/docs` checks what comes out.

Sphinx, MyST and furo are all kept up: when Sphinx 9 came at the end of November 2025, furo took it within three weeks,
and MyST-Parser in its version 5. Material for MkDocs had fixes until 5 November 2026 alone
(squidfunk/mkdocs-material#8523), MkDocs has had no release since August 2024, and Zensical, by Material's makers, is
at 0.1.
"""

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

NAVIGATION = {
    "Tutorials": [
        f"tutorials/{name}"
        for name in "fine-tune which-similarity without-labels negation gate sure vector-database".split()
    ],
    "How-to": [
        f"how-to/{name}"
        for name in (
            "training-data check-data choose-similarity stress-test compare ci-gate rerank reject-near-misses abstain "
            "export-vectors fine-tune-queries bridge several-gpus language-models studies reproduce publish "
            "serve python"
        ).split()
    ],
    "GPUs": ["gpu"],
    "Reference": [
        f"reference/{page}"
        for page in "cli names python schemas formats metrics similarities encoders prompts".split()
        + "grammar caches plugins".split()
    ],
    "Explanation": [
        f"explanation/{page}" for page in "scale-and-temperature statistics near-misses sure design".split()
    ],
    "Results": [f"results/{name}" for name in "index learned mag sfs crop comp sure retrokit benchmarks".split()],
}
"""The pages of the sidebar. The build fails if a page is missing here, or if a page here does not exist."""


def setup(app: Any) -> None:
    """Let the front page name all others; in Markdown they would be lines that only Sphinx understands."""

    def read(_app: Any, page: str, text: list[str]) -> None:
        if page == "index":
            for caption, pages in NAVIGATION.items():
                text[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"

    app.connect("source-read", read)
