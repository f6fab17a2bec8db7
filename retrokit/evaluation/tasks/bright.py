"""Retrieval on BRIGHT: each query leaves its excluded documents out of its ranking before the cut-off.

Measured as its reference does: nDCG@10 by pytrec_eval over the ranking after exclusion; an example without gold ids
is no part of the mean.
"""

from dataclasses import replace
from functools import partial

from retrokit.data.bright import BrightData, bright_folder, digest_bright, instruction, read_bright
from retrokit.evaluation.tasks.base import left_out
from retrokit.evaluation.tasks.retrieval import Retrieval


class Bright(Retrieval):
    """A retrieval task whose queries exclude documents of their own."""

    def __init__(self, data: BrightData) -> None:
        super().__init__(data.retrieval, excluded=data.excluded)

    def describe(self) -> str:
        counts = self.data.counts
        words = {
            "queries_without_judgements": "examples without gold ids, left out",
            "queries_without_relevant": "examples with no relevant document, counted as 0",
            "queries_with_all_gold_excluded": "examples whose gold ids are all excluded, counted as 0",
            "gold_excluded": "gold ids that are excluded and cannot be found",
            "gold_not_in_documents": "gold ids that are not documents and cannot be found",
            "repeated_gold_ids": "gold ids that came twice, used once",
            "unknown_exclusions": "excluded ids that are not documents",
            "repeated_documents": "documents whose id came before; the last counts",
            "documents_without_text": "documents without text, kept as empty",
        }
        line = f"BRIGHT {self.data.name} ({self.data.split}): {counts['queries']:,} queries, {counts['documents']:,} "
        line += f"documents, {counts['judgements']:,} gold ids, {counts['exclusions']:,} exclusions"
        reachable = counts.get("highest_recall", 1)
        return line + left_out(counts, words) + (f"; recall can reach {reachable:.4f}" if reachable < 1 else "")


def bright(path: str, domain: str | None, long: bool, instructions: bool) -> Bright:
    """The task of one domain: of a folder, or of BRIGHT's own by its name.

    Raises:
        UsageError, DataError: as for :func:`retrokit.data.bright.read_bright`.
        ServiceError: a domain's name where the hub cannot be reached.
    """
    folder, named = bright_folder(path, long)
    data = read_bright(folder, domain or named, long)
    if instructions:
        prefix = instruction(data.retrieval.name, long)
        queries = [prefix + query for query in data.retrieval.queries]
        data = replace(data, retrieval=replace(data.retrieval, queries=queries))
    task = Bright(data)
    task.digest_files = partial(digest_bright, folder, domain or named, long)
    return task
