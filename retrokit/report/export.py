"""What an export holds and how it is searched, as a table."""

from __future__ import annotations

from retrokit.export import Export
from retrokit.report.sheets import Table


def export_table(export: Export) -> Table:
    """What was written, and what the other side must be put through."""
    note = export.note
    table = Table(show_header=False)
    table.add_column()
    table.add_column()
    table.add_row("folder", str(export.folder))
    table.add_row("embeddings", f"{note['count']:,} of {note['dimension']:,} dimensions, role {note['role']}")
    table.add_row("similarity", note["similarity"]["spec"])
    table.add_row("metric", note["metric"])
    for role, words in note["transform"].items():
        table.add_row(f"a {role} x becomes", words)
    table.add_row("queries from a file", note["prepare_queries"]["command"])
    return table
