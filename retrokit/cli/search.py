"""``retrokit search``."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import typer

from retrokit.cli.common import DeviceOption, PrecisionOption, app, show, with_names, writable
from retrokit.cli.streams import readers_may_leave
from retrokit.data.jsonl import json_line
from retrokit.errors import UsageError

FORMS = ("table", "trec", "jsonl")


@app.command(cls=with_names("encoders", "searchers", "similarities"))
def search(
    system: str | None = typer.Argument(
        None, help="Encoder, bm25 or another searcher; with --index-folder by default the encoder that made it."
    ),
    corpus: str | None = typer.Option(
        None, help="Texts to search in: JSON lines of id and text, - is standard input; or a BEIR folder."
    ),
    index_folder: str | None = typer.Option(
        None, help="Folder of retrokit export, whole or in shards, whose documents are not embedded again."
    ),
    queries: str | None = typer.Option(None, help="Queries: JSON lines of id and text, or a BEIR folder."),
    query: list[str] | None = typer.Option(None, help="A query. Repeatable."),
    interactive: bool = typer.Option(
        False, "--interactive", "-i", help="Ask for queries, a line each, and answer at once; an empty line ends."
    ),
    k: int = typer.Option(10, "-k", help="Documents of a query."),
    output: str | None = typer.Option(
        None, "--output", "-o", callback=writable, help="File to write; - is standard output."
    ),
    form: str | None = typer.Option(
        None, "--format", help="table, trec (a run) or jsonl. Default: table, in a file jsonl or trec by its name."
    ),
    sim: str | None = typer.Option(None, help="Similarity; default: the encoder's own, or the folder's."),
    dims: int | None = typer.Option(None, help="Use the first N dimensions of the encoder's only."),
    index: str | None = typer.Option(
        None, help="Search through an index of faiss, e.g. HNSW32 or IVF4096,PQ32:nprobe=64; default: exactly."
    ),
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
) -> None:
    """Find the best documents of queries, in texts or in what retrokit export wrote.

    retrokit search minilm --corpus data/scifact --query "Does aspirin prevent cancer?"

    retrokit search --index-folder exported/documents --queries data/scifact -k 100 -o run.trec

    retrokit search 'hybrid:a=bm25,b=minilm' --corpus data/scifact --interactive
    """
    if form is None:
        named = output or ""
        form = "table" if output is None else "jsonl" if named.removesuffix(".gz").endswith(".jsonl") else "trec"
    if form not in FORMS:
        raise UsageError(f"--format {form!r} is none of {', '.join(FORMS)}")
    if form == "table" and output not in (None, "-"):
        raise UsageError("a table goes to standard output; --output takes trec or jsonl")
    options = {"sim": sim, "dims": dims, "precision": precision, "index": index}
    if interactive:
        if queries is not None or query or output is not None or form == "trec" or corpus == "-":
            raise UsageError("--interactive takes queries from standard input alone, and answers in a table or jsonl")
        _answer(k, form, (system, corpus, index_folder, device), options)
        return
    from retrokit.retrieval.files import search_files

    found = search_files(system, corpus, index_folder, queries, query or (), k, device, **options)
    if form == "table":
        from retrokit.report.tables import hits_tables

        show(*hits_tables(found))
    else:
        with readers_may_leave():
            found.write(output or "-", form)


def _answer(k: int, form: str, where: tuple[str | None, ...], options: dict[str, Any]) -> None:
    """Answer queries, a line each, until a line is empty or the input ends."""
    from retrokit.report.tables import hits_tables
    from retrokit.retrieval.base import TextList, check_k
    from retrokit.retrieval.files import Opened

    check_k(k)
    asks = sys.stdin.isatty()
    if asks:
        import readline  # noqa: F401  # arrows and history
    opened = Opened(*where, **options)
    opened.search(TextList(["ready"], ["0"]), 1)  # documents are embedded before the first question
    for number in itertools.count(1):
        try:
            text = (input("query> ") if asks else sys.stdin.readline()).strip()
        except EOFError:
            return
        if not text:
            return
        found = opened.search(TextList([text], [f"query-{number}"]), k)
        show(*(hits_tables(found) if form == "table" else [json_line(row).rstrip("\n") for row in found.rows()]))
