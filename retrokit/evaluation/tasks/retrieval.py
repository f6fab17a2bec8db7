"""Retrieval by search over all documents, exact unless an index is requested, measured with trec_eval's code.

On BRIGHT each query leaves its excluded documents out of its ranking before the cut-off, as its reference does.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from retrokit.core.notices import notice
from retrokit.data.beir import (
    RetrievalData,
    digest_beir,
    located,
    read_beir,
    read_other_split,
    retrieval_data,
    sets_in,
)
from retrokit.data.bright import BrightData, bright_folder, digest_bright, instruction, read_bright
from retrokit.data.images import with_images
from retrokit.data.packed_records import TextsById
from retrokit.data.pairs import docstrings_of
from retrokit.data.trec import check_words, write_run
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Task
from retrokit.evaluation.tasks.base import Measured, SearchTask, left_out, run_of
from retrokit.evaluation.tasks.sets import RetrievalSets
from retrokit.metrics.ranking import DEFAULT_METRICS, check_metric, evaluate_run, mean
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList, TuningQueries


class Retrieval(SearchTask):
    """A retrieval task over documents, queries and judgements."""

    main_metric = "ndcg@10"
    shown_metrics: tuple[str, ...] = ("ndcg@10", "recall@100", "mrr@10", "map@100", "precision@10", "accuracy@1")
    default_metrics: tuple[str, ...] = DEFAULT_METRICS
    digest_files: Callable[[], str] | None = None
    """How to get the digest of the files that all data are from; none: there is no telling if they changed."""
    other_split: Callable[[], RetrievalData | None] | None = None
    """How to read queries of another split, to tune on; none: there is no other."""

    def __init__(
        self,
        data: RetrievalData,
        ignore_identical_ids: bool = False,
        excluded: Mapping[str, Set[str]] | None = None,
    ) -> None:
        self.data = data
        self.ignore_identical_ids = ignore_identical_ids
        order = sorted(range(len(data.document_ids)), key=lambda i: data.document_ids[i], reverse=True)
        self.queries = TextList(data.queries, data.query_ids)
        self.documents = TextList(data.documents, data.document_ids).at(order)
        position_of = {identifier: position for position, identifier in enumerate(self.documents.ids)}
        identical_ids = 0
        self._same_texts = 0
        for id, query in zip(data.query_ids, data.queries, strict=True):
            if id in position_of:
                identical_ids += 1
                self._same_texts += _is_text_of(query, self.documents[position_of[id]])
        self.counts = dict(data.counts)
        if ignore_identical_ids:
            self.counts["identical_ids_left_out"] = identical_ids
        self._out = excluded or {query: {query} if ignore_identical_ids else set() for query in data.query_ids}
        self.left_out, self.relevant = self.places(lambda ids: position_of)

    def places(
        self, positions_of: Callable[[Set[str]], Mapping[str, int]]
    ) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
        """The positions of the documents that are left out of the ranking of each query, and of those relevant to it,
        given a function from ids to positions."""
        relevant = {
            query: {id for id, grade in self.data.qrels.get(query, {}).items() if grade >= self.data.level}
            for query in self.data.query_ids
        }
        ids: set[str] = set()
        position_of = positions_of(ids.union(*self._out.values(), *relevant.values()))
        left_out = []
        judged = []
        for query in self.data.query_ids:
            left_out.append(frozenset(position_of[id] for id in self._out[query] if id in position_of))
            judged.append(frozenset(position_of[id] for id in relevant[query] if id in position_of))
        return left_out, judged

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that is no ranking metric."""
        for name in names:
            check_metric(name)

    def digest(self) -> str | None:
        items = (*self.data.documents, *self.data.queries)
        return None if self.digest_files is None else with_images(self.digest_files(), items)

    def judged(self) -> RetrievalData:
        return self.data

    def tuning(self, metric: str) -> TuningQueries | None:
        data = self.other_split() if self.other_split is not None else None
        if data is None:
            return None
        other = Retrieval(data, self.ignore_identical_ids)
        other.documents = self.documents  # in the same order: what is indexed for them serves both

        def measure(lists: Sequence[Ranking]) -> float:
            run = run_of(lists, data.query_ids, self.documents.ids)
            return mean(evaluate_run(data.qrels, run, [metric], data.level)[metric])

        about = {"split": data.split, "queries": len(data.queries), "metric": metric}
        return TuningQueries(self.documents, other.queries, other.left_out, self.depth([metric]), measure, about)

    def restricted(self, queries: Set[str], documents: Set[str]) -> Retrieval:
        data = self.data
        restricted = retrieval_data(
            data.name,
            data.split,
            documents={id: data.documents_by_id[id] for id in data.document_ids if id in documents},
            queries={id: data.queries_by_id[id] for id in data.query_ids if id in queries},
            qrels={id: grades for id, grades in data.qrels.items() if id in queries},
            level=data.level,
        )
        return Retrieval(restricted, self.ignore_identical_ids, self._out)

    def describe(self) -> str:
        counts, level = self.counts, self.data.level
        lacking = "with no relevant document" if level == 1 else f"without a grade of {level} or above"
        unusual = {
            "queries_without_judgements": "queries without judgements, left out",
            "queries_without_relevant": f"queries {lacking}, counted as 0" + (" but in nDCG" if level > 1 else ""),
            "queries_without_text": "queries without text, kept as empty",
            "documents_without_text": "documents without text, kept as empty",
            "identical_ids_left_out": "documents left out of the ranking of the query with their id",
        }
        line = (
            f"{self.data.name} ({self.data.split}): {counts['queries']:,} queries, {counts['documents']:,} documents, "
        )
        line += f"{counts['judgements']:,} judgements" + left_out(counts, unusual)
        if self._same_texts and not self.ignore_identical_ids:
            line += f"; {self._same_texts:,} queries are documents too (ignore_identical_ids=true leaves them out)"
        return line

    def depth(self, names: Sequence[str]) -> int:
        """As many documents as the deepest metric takes."""
        return max(int(name.partition("@")[2]) for name in names)

    def measure_index(self, index: Index, names: Sequence[str], depth: int, searcher: Searcher) -> Measured:
        """The metrics of the best documents of each query that are not taken out of its ranking before the cut-off.
        Whole rankings are not cut."""
        if searcher.has_whole_rankings:
            depth = len(self.documents)
        run = run_of(index.search_without(self.queries, depth, self.left_out), self.data.query_ids, self.documents.ids)
        for query, scores in index.unlisted.items():
            run[query] |= {id: score for id, score in scores.items() if id not in self._out[query]}
        per_query = evaluate_run(self.data.qrels, run, names, self.data.level)
        return Measured({name: mean(scores) for name, scores in per_query.items()}, per_query, run=run)


def _is_text_of(query: str, document: str) -> bool:
    """Whether a query is a document's text, below a title or none, apart from white space."""
    text = " ".join(query.split())
    return text != "" and f" {' '.join(document.split())}".endswith(f" {text}")


# BEIR's folders whose tasks have ignore_identical_ids in mteb 2.26.24, by BEIR's names and by mteb's
_IDENTICAL_IDS = {"arguana", "fever", "fiqa", "fiqa2018", "msmarco", "quora", "quoraretrieval"}


def beir(
    path: str, split: str, ignore_identical_ids: bool | None = None, level: int = 1, titles: bool = True
) -> Retrieval | RetrievalSets:
    """The retrieval task of a BEIR folder, or of a folder that contains several."""
    folders = sets_in(located(path))
    if not folders:
        return _beir(path, split, ignore_identical_ids, level, titles)
    sets = {}
    for folder in folders:
        task = _beir(str(folder), split, ignore_identical_ids, level, titles)
        task.spec = f"beir:{folder}"
        sets[folder.name] = task
    return RetrievalSets(Path(path).name, sets)


def _beir(path: str, split: str, ignore_identical_ids: bool | None, level: int, titles: bool) -> Retrieval:
    data = read_beir(path, split, images=True, level=level, titles=titles)
    if ignore_identical_ids is None:
        ignore_identical_ids = not _IDENTICAL_IDS.isdisjoint({data.name.lower(), Path(path).name.lower()})
    task = Retrieval(data, ignore_identical_ids)
    task.digest_files = partial(digest_beir, path, split)
    task.other_split = partial(read_other_split, path, task.data)
    return task


def docstrings(documents: int, split: str) -> Retrieval:
    """The retrieval task of the built-in docstrings."""
    task = _beir(str(docstrings_of(documents)), split, None, level=1, titles=True)
    task.counts = {**task.counts, "queries_without_judgements": 0}  # each is judged in another split
    return task


def save_runs(results: Sequence[Result], path: str) -> None:
    """Write one TREC run to ``path``, or a file per result into the folder ``path``, as ``/`` at its end says too.

    Results of tasks that do not rank documents have none; a notice says so where there is no other.
    """
    target = Path(path)
    results = [result for result in results if result.run]
    if not results:
        notice(f"{path} is not written: no task here ranks documents")
        return
    if len(results) == 1 and not target.is_dir() and not path.endswith(os.sep):
        write_run(target, results[0].run, tag="retrokit")
        return
    times: Counter[str] = Counter()
    for result in results:
        name = re.sub(r"[^A-Za-z0-9.=_-]+", "_", f"{result.encoder}-{result.similarity}-{result.task}")
        times[name] += 1
        number = f"-{times[name]}" if times[name] > 1 else ""
        write_run(target / f"{name}{number}.trec", result.run, tag="retrokit")


def check_run_ids(tasks: Iterable[Task], path: str) -> None:
    """Raise :class:`DataError` for an id of a query or document that :func:`save_runs` could not write to ``path``."""
    for task in tasks:
        sets = task.sets if isinstance(task, RetrievalSets) else {"": task}
        for name, task_of_set in sets.items():
            if isinstance(task_of_set, SearchTask):
                prefix = f"{name}/" if name else ""
                check_words(path, "query id", (prefix + id for id in task_of_set.queries.ids))
                check_words(path, "document id", task_of_set.documents.ids)


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
            "repeated_documents": "documents whose id came before; the last counts",
            "queries_without_text": "queries without text, kept as empty",
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
        queries = TextsById((id, prefix + query) for id, query in data.retrieval.queries_by_id.items())
        data = replace(data, retrieval=replace(data.retrieval, queries_by_id=queries))
    task = Bright(data)
    task.digest_files = partial(digest_bright, folder, domain or named, long)
    return task
