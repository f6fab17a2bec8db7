"""The first of two stages: a ranking of candidates for every query of a task, from a search or from a TREC run."""

from __future__ import annotations

from pathlib import Path

from retrokit.data.files import named
from retrokit.data.trec import read_run_lines
from retrokit.errors import DataError
from retrokit.evaluation.result import Result
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.notices import notice
from retrokit.retrieval.base import OWN_SIMILARITY


def ranking_of_run(path: str | Path, task: Retrieval, metrics: list[str]) -> Result:
    """The ranking in the TREC run ``path`` (``-`` is standard input) as a result of ``task``.

    A document that the task leaves out of a query's ranking is left out here, and the lines of queries that the task
    does not judge are not used; both are counted, and a notice names the first line.

    Raises:
        DataError: a wrong line, a document that the task does not have (the line is named), or no query that it has.
    """
    queries, documents = set(task.data.query_ids), set(task.data.document_ids)
    run: dict[str, dict[str, float]] = {}
    unknown: dict[str, int] = {}  # query → its first line
    excluded = 0
    for line, query, document, score in read_run_lines(path):
        if query not in queries:
            unknown.setdefault(query, line)
        elif document not in documents:
            problem = f"document {document!r} is not in {task.spec}, so there is no text of it to score"
            raise DataError(named(path), problem, line)
        elif document in task.left_out(query):
            excluded += 1
        else:
            run.setdefault(query, {})[document] = score
    first = next(iter(unknown), None)
    if not run:
        raise DataError(named(path), f"holds no query that {task.spec} judges (the first is {first!r})")
    if first is not None:
        notice(
            f"{named(path)}:{unknown[first]}: {task.spec} judges no query {first!r}; {len(unknown):,} such queries of "
            "the run are left out"
        )
    counts = {"run_queries_without_judgements": len(unknown), "run_documents_left_out": excluded}
    result = task.evaluate_ranking(f"run:{path}", OWN_SIMILARITY, run, metrics)
    result.counts.update(counts)
    return result
