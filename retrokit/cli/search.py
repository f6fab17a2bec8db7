"""``retrokit search``."""

import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from retrokit.cli.common import show
from retrokit.cli.streams import readers_may_leave
from retrokit.core.settings import FILE, common, setting
from retrokit.ranking.settings import SearchSettings

FORMS = ("table", "trec", "jsonl")


@dataclass(frozen=True)
class SearchCommand(SearchSettings):
    """A search, and how its results are shown."""

    interactive: bool = setting(
        False,
        "Read queries line by line; an empty line ends.",
        flags=("--interactive", "-i"),
        excludes=("queries", "query", "output", "corpus=-", "format=trec"),
    )
    output: str | None = common("output", default=None, help="File to write; - is standard output.", writes=FILE)
    format: str | None = setting(None, "Form of the results. Default: table; for a file, by its name.", choices=FORMS)

    @property
    def form(self) -> str:
        """The form of the results."""
        if self.format is not None:
            return self.format
        if self.output is None:
            return "table"
        return "jsonl" if self.output.removesuffix(".gz").endswith(".jsonl") else "trec"

    @property
    def shows_texts(self) -> bool:
        """Whether hits are shown with their texts: a TREC run has none."""
        return self.form != "trec"

    def check_ids(self, what: str, ids: Iterable[str]) -> None:
        if self.form == "trec":
            from retrokit.data.trec import check_words

            check_words(self.output or "-", what, ids)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.format == "table" and self.output not in (None, "-"):
            yield "`output=` takes `format=` trec or jsonl, not a table"


def search(settings: SearchCommand) -> None:
    """Search documents, or the embeddings that retrokit export wrote.

    retrokit search minilm --corpus data/scifact --query "aspirin and cancer"

    retrokit search --index-folder exported/documents --queries data/scifact -k 100 -o run.trec

    retrokit search 'hybrid:a=bm25,b=minilm' --corpus data/scifact --interactive
    """
    if settings.interactive:
        return _answer(settings, settings.form)
    from retrokit.ranking.retrieval.files import search_files

    hits = search_files(settings)
    if settings.form == "table":
        from retrokit.report.tables import hits_sheets

        show(*hits_sheets(hits))
    else:
        with readers_may_leave():
            hits.write(settings.output or "-", settings.form)


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
