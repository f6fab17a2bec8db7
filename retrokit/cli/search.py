"""``retrokit search``."""

import itertools
import sys

from retrokit.cli.common import show
from retrokit.cli.streams import readers_may_leave
from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, common, setting
from retrokit.ranking.settings import SearchSettings

FORMS = ("table", "trec", "jsonl")


def search(
    settings: SearchSettings,
    interactive: bool = setting(False, "Read queries line by line; an empty line ends.", flags=("--interactive", "-i")),
    output: str | None = common("output", default=None, help="File to write; - is standard output.", writes=FILE),
    form: str | None = setting(
        None, "table, trec or jsonl. Default: table; for a file, by its name.", flags=("--format",)
    ),
) -> None:
    """Search documents, or the embeddings that retrokit export wrote.

    retrokit search minilm --corpus data/scifact --query "aspirin and cancer"

    retrokit search --index-folder exported/documents --queries data/scifact -k 100 -o run.trec

    retrokit search 'hybrid:a=bm25,b=minilm' --corpus data/scifact --interactive
    """
    if form is None:
        named = output or ""
        form = "table" if output is None else "jsonl" if named.removesuffix(".gz").endswith(".jsonl") else "trec"
    if form not in FORMS:
        raise UsageError(f"--format {form!r} is none of {', '.join(FORMS)}")
    if form == "table" and output not in (None, "-"):
        raise UsageError("--output takes --format trec or jsonl, not a table")
    if interactive:
        if (
            settings.queries is not None
            or settings.query
            or output is not None
            or settings.corpus == "-"
            or form == "trec"
        ):
            raise UsageError("--interactive reads queries only from standard input, and prints a table or jsonl")
        _answer(settings, form)
        return
    from retrokit.ranking.retrieval.files import search_files

    hits = search_files(settings)
    if form == "table":
        from retrokit.report.tables import hits_sheets

        show(*hits_sheets(hits))
    else:
        with readers_may_leave():
            hits.write(output or "-", form)


def _answer(settings: SearchSettings, form: str) -> None:
    """Answer queries, a line each, until a line is empty or the input ends."""
    from retrokit.core.files import LONGEST_LINE, check_standard_input, line_too_long, typed_text
    from retrokit.data.jsonl import json_line
    from retrokit.encoders import showing_inputs
    from retrokit.ranking.retrieval.base import TextList
    from retrokit.ranking.retrieval.files import Opened
    from retrokit.report.tables import hits_sheets

    check_standard_input()
    asks = sys.stdin.isatty()
    if asks:
        import readline  # noqa: F401  # arrows and history
    with showing_inputs(settings.show_inputs):
        opened = Opened(settings)
    opened.make_ready()
    for number in itertools.count(1):
        try:
            line = input("query> ") if asks else sys.stdin.readline(LONGEST_LINE + 1)
        except EOFError:
            return
        if len(line) > LONGEST_LINE:
            raise line_too_long("-", number, "a query")
        text = line.strip()
        if not text:
            return
        text = typed_text(text, "standard input", number)
        with showing_inputs(settings.show_inputs):
            hits = opened.search(TextList([text], [f"query-{number}"]), settings.k)
        show(*(hits_sheets(hits) if form == "table" else [json_line(row).rstrip("\n") for row in hits.rows()]))
