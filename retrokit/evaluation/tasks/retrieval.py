"""Retrieval by search over all documents, exact unless an index is asked for, measured with trec_eval's code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import islice
from pathlib import Path

from retrokit.data.beir import RetrievalData, digest_beir, read_beir
from retrokit.data.trec import write_run
from retrokit.errors import disk_errors
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Lists, Measured, SearchTask, left_out
from retrokit.metrics.ranking import DEFAULT_METRICS, check_metric, evaluate_run, mean
from retrokit.notices import notice


class Retrieval(SearchTask):
    """A retrieval task over documents, queries and judgements."""

    main_metric = "ndcg@10"
    shown_metrics: tuple[str, ...] = ("ndcg@10", "recall@100", "mrr@10", "map@100", "precision@10", "accuracy@1")
    default_metrics: tuple[str, ...] = DEFAULT_METRICS
    digest_files: Callable[[], str] | None = None
    """How to get the digest of the files that all data are from; none: there is no telling if they changed."""

    def __init__(self, data: RetrievalData, ignore_identical_ids: bool = False) -> None:
        self.data = data
        self.counts = data.counts
        self.ignore_identical_ids = ignore_identical_ids
        order = sorted(range(len(data.document_ids)), key=lambda i: data.document_ids[i], reverse=True)
        self._ids = [data.document_ids[i] for i in order]
        self.queries, self.documents = data.queries, [data.documents[i] for i in order]
        known = set(self._ids)
        self._identical = sum(query in known for query in data.query_ids)

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that is no ranking metric."""
        for name in names:
            check_metric(name)

    def digest(self) -> str | None:
        """The digest of the files read."""
        return None if self.digest_files is None else self.digest_files()

    def describe(self) -> str:
        """What is used and what is left out, in a line."""
        counts = self.data.counts
        line = (
            f"{self.data.name} ({self.data.split}): {counts['queries']:,} queries, {counts['documents']:,} documents, "
            f"{counts['judgements']:,} judgements"
        ) + left_out(
            counts,
            {
                "queries_without_judgements": "queries without judgements, left out",
                "queries_without_relevant": "queries with no relevant document, counted as 0",
                "documents_without_text": "documents without text, kept as empty",
            },
        )
        if self._identical and not self.ignore_identical_ids:
            line += f"; {self._identical:,} queries share their id with a document (ignore_identical_ids=true drops it)"
        return line

    def evaluate_ranking(
        self, encoder: str, similarity: str, run: Mapping[str, Mapping[str, float]], metrics: Sequence[str] = ()
    ) -> Result:
        """The result of a ranking that is there already, ``{query: {document: score}}``, under the names ``encoder``
        and ``similarity``. A query that it lacks counts as 0."""
        return self.result(encoder, similarity, self._measured(run, Request(metrics=metrics).names(self)))

    def left_out(self, query: str) -> Set[str]:
        """The documents that are taken out of the ranking of ``query`` before the cut-off."""
        return {query} if self.ignore_identical_ids else frozenset()

    def most_left_out(self) -> int:
        """How many documents at most are taken out of a ranking."""
        return 1 if self.ignore_identical_ids else 0

    def depth(self, names: Sequence[str]) -> int:
        """As many documents as the deepest metric takes, and those that are taken out."""
        return _deepest(names) + self.most_left_out()

    def measure_lists(self, lists: Lists, names: Sequence[str]) -> Measured:
        """The metrics of the best documents of each query that are not taken out."""
        run: dict[str, dict[str, float]] = {}
        for query, (scores, positions) in zip(self.data.query_ids, lists, strict=True):
            out = self.left_out(query)
            ranked = ((self._ids[i], score) for i, score in zip(positions.tolist(), scores.tolist(), strict=True))
            run[query] = dict(islice(((id, score) for id, score in ranked if id not in out), _deepest(names)))
        return self._measured(run, names)

    def _measured(self, run: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> Measured:
        per_query = evaluate_run(self.data.qrels, run, names)
        return Measured({name: mean(scores) for name, scores in per_query.items()}, per_query, run=run)


def _deepest(names: Sequence[str]) -> int:
    return max(int(name.partition("@")[2]) for name in names)


def beir(path: str, split: str, ignore_identical_ids: bool) -> Retrieval:
    """The retrieval task of a BEIR folder."""
    task = Retrieval(read_beir(path, split), ignore_identical_ids)
    task.digest_files = partial(digest_beir, path, split)
    return task


def save_runs(results: Sequence[Result], path: str) -> None:
    """Write one TREC run to ``path``, or a file per result into the folder ``path``.

    Results of tasks that do not rank documents have none; a notice says so where there is no other.
    """
    target = Path(path)
    results = [result for result in results if result.run]
    if not results:
        notice(f"{path} is not written: no task here ranks documents")
        return
    if len(results) == 1 and not target.is_dir():
        write_run(target, results[0].run, tag="retrokit")
        return
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    taken: Counter[str] = Counter()
    for result in results:
        name = re.sub(r"[^A-Za-z0-9.=_-]+", "_", f"{result.encoder}-{result.similarity}-{result.task}")
        taken[name] += 1
        number = f"-{taken[name]}" if taken[name] > 1 else ""
        write_run(target / f"{name}{number}.trec", result.run, tag="retrokit")
