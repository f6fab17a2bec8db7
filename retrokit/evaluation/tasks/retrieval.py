"""Retrieval by search over all documents, exact unless an index is asked for, measured with trec_eval's code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.data.beir import RetrievalData, digest_beir, read_beir
from retrokit.data.trec import write_run
from retrokit.encoders.encoder import Encoder
from retrokit.errors import disk_errors
from retrokit.evaluation.encoding import encode_sides, norm_statistics
from retrokit.evaluation.result import Result
from retrokit.evaluation.tasks.asymmetric import AsymmetricTask
from retrokit.metrics.ranking import DEFAULT_METRICS, check_metric, evaluate_run, mean
from retrokit.notices import notice
from retrokit.retrieval.approximate import approximate_top_k, check_index
from retrokit.retrieval.base import OWN_SIMILARITY, Retriever
from retrokit.retrieval.exact import top_k
from retrokit.similarities.base import Role, Similarity


class Retrieval(AsymmetricTask):
    """A retrieval task over documents, queries and judgements.

    Documents are searched in descending order of their ids, so that equal scores rank as trec_eval ranks them.
    """

    main_metric = "ndcg@10"
    shown_metrics: tuple[str, ...] = ("ndcg@10", "recall@100", "mrr@10", "map@100", "precision@10", "accuracy@1")
    default_metrics: tuple[str, ...] = DEFAULT_METRICS
    digest_files: Callable[[], str] | None = None
    """How to get the digest of the files that all data are from; none: there is no telling if they changed."""
    index: str | None = None
    """The faiss index of an encoder's documents (:mod:`retrokit.retrieval.approximate`); none: exact search."""

    def __init__(self, data: RetrievalData, ignore_identical_ids: bool = False) -> None:
        self.data = data
        self.ignore_identical_ids = ignore_identical_ids
        order = sorted(range(len(data.document_ids)), key=lambda i: data.document_ids[i], reverse=True)
        self._ids = [data.document_ids[i] for i in order]
        self._documents = [data.documents[i] for i in order]
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
        )
        left_out = {
            "queries without judgements, left out": counts["queries_without_judgements"],
            "queries with no relevant document, counted as 0": counts["queries_without_relevant"],
            "documents without text, kept as empty": counts["documents_without_text"],
        }
        line += "".join(f"; {count:,} {what}" for what, count in left_out.items() if count)
        if self._identical and not self.ignore_identical_ids:
            line += f"; {self._identical:,} queries share their id with a document (ignore_identical_ids=true drops it)"
        return line

    def evaluate(
        self,
        encoder: Encoder,
        similarities: list[Similarity],
        metrics: list[str] | None = None,
        precision: str = "auto",
        dims: int | None = None,
    ) -> list[Result]:
        """One result per similarity; the texts are encoded once.

        Args:
            encoder: yields raw embeddings.
            similarities: what to score with.
            metrics: names such as ``ndcg@10``; default: all metrics at the usual cutoffs.
            precision: of the encoding; scores are always float32.
            dims: use the first dims dimensions of the embeddings only.

        Raises:
            UsageError: dims or a similarity does not fit the encoder, or the index does not fit either.
        """
        names = self._names(metrics)
        if self.index is not None:
            for similarity in similarities:
                check_index(self.index, similarity, dims or encoder.dimension)
        sides: list[tuple[Sequence[str], Role]] = [(self.data.queries, "query"), (self._documents, "document")]
        (queries, documents), configuration = encode_sides(encoder, similarities, sides, precision, dims)
        norms = {**norm_statistics(queries, "query"), **norm_statistics(documents, "document")}
        results = []
        for similarity in similarities:
            lists, search = self._searched(similarity, queries, documents, self._depth(names), encoder)
            about = {**configuration, **similarity.statistics(), **search}
            results.append(self._result(encoder.spec, similarity.spec, lists, names, norms, about))
        return results

    def evaluate_retriever(self, retriever: Retriever, metrics: list[str] | None = None) -> Result:
        """The result of a retriever without embeddings, such as BM25."""
        names = self._names(metrics)
        lists = retriever.index(self._documents).search(self.data.queries, self._depth(names))
        about = {"fingerprint": retriever.fingerprint()}
        return self._result(retriever.spec, OWN_SIMILARITY, lists, names, {}, about)

    def evaluate_ranking(
        self,
        encoder: str,
        similarity: str,
        run: dict[str, dict[str, float]],
        metrics: list[str] | None = None,
        configuration: dict[str, Any] | None = None,
    ) -> Result:
        """The result of a ranking that is there already, ``{query: {document: score}}``, under the names ``encoder``
        and ``similarity``. A query that it lacks counts as 0."""
        per_query = evaluate_run(self.data.qrels, run, self._names(metrics))
        return Result(
            encoder=encoder,
            similarity=similarity,
            task=self.spec,
            main_metric=self.main_metric,
            metrics={name: mean(scores) for name, scores in per_query.items()},
            per_query=per_query,
            counts=dict(self.data.counts),
            norms={},
            configuration=dict(configuration or {}),
            run=run,
        )

    def left_out(self, query: str) -> Set[str]:
        """The documents that are taken out of the ranking of ``query`` before the cut-off."""
        return {query} if self.ignore_identical_ids else frozenset()

    def most_left_out(self) -> int:
        """How many documents at most are taken out of a ranking."""
        return 1 if self.ignore_identical_ids else 0

    def _searched(
        self, similarity: Similarity, queries: np.ndarray, documents: np.ndarray, depth: int, encoder: Encoder
    ) -> tuple[Iterable[tuple[np.ndarray, np.ndarray]], dict[str, Any]]:
        """Scores and positions found for each query, best first; and what the configuration says of the search."""
        if self.index is None:
            return zip(*top_k(similarity, queries, documents, depth, encoder.device), strict=True), {}
        found = approximate_top_k(similarity, queries, documents, depth, self.index, encoder.device)
        pairs = zip(found.scores, found.indices, strict=True)
        lists = [(scores[places >= 0], places[places >= 0]) for scores, places in pairs]
        recall = {f"recall@{k}": round(share, 6) for k, share in found.recall.items()}
        return lists, {"index": self.index, "index_recall": {**recall, "queries": found.queries_checked}}

    def _names(self, metrics: list[str] | None) -> list[str]:
        names = list(metrics or self.default_metrics)
        return names if self.main_metric in names else [self.main_metric, *names]

    def _depth(self, names: Sequence[str]) -> int:
        """How many documents must be searched for the metrics ``names``."""
        return _deepest(names) + self.most_left_out()

    def _result(
        self,
        name: str,
        similarity: str,
        lists: Iterable[tuple[np.ndarray, np.ndarray]],
        names: list[str],
        norms: dict[str, float],
        configuration: dict[str, Any],
    ) -> Result:
        found = self.evaluate_ranking(name, similarity, self._run(lists, _deepest(names)), names, configuration)
        return replace(found, norms=norms)

    def _run(self, lists: Iterable[tuple[np.ndarray, np.ndarray]], depth: int) -> dict[str, dict[str, float]]:
        """The best ``depth`` documents of each query, of lists of (scores, positions), best first."""
        run: dict[str, dict[str, float]] = {}
        for query, (scores, positions) in zip(self.data.query_ids, lists, strict=True):
            left_out = self.left_out(query)
            ranked = ((self._ids[i], score) for i, score in zip(positions.tolist(), scores.tolist(), strict=True))
            run[query] = dict(islice(((id, score) for id, score in ranked if id not in left_out), depth))
        return run


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
