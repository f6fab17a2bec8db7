"""SURE: does a retriever rank a passage's variants as close together, and in the order, as a reference does?

Kong et al., "SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models" (SURE, 3.3, 4.2 and B). The
variants of each testbed are inserted into the retriever's own list of the best ``depth`` passages, by the retriever's
own scores; the reference orders that list and the variants, each once (one that orders lists gets them in the
retriever's order). Compared are the ranks of the variants and of the original: how far they spread (RDC) and how they
are ordered (ROC).

A query whose original is not in the list, or that the reference has no scores for, is dropped from the testbed and
counted, never imputed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import DataError
from retrokit.core.notices import notice
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.sure import ORIGINAL, TESTBEDS, SureData, digest_sure, missing_testbeds, read_sure, variant_id
from retrokit.evaluation.comparison.correlations import MEASURES
from retrokit.evaluation.result import Resampled
from retrokit.evaluation.tasks.base import Measured, SearchTask
from retrokit.evaluation.tasks.sure_ranks import (
    Found,
    MeanOfMeans,
    RankedTestbed,
    ReferenceScores,
    SureRun,
    in_order,
    position_of,
    retrieved_order,
)
from retrokit.evaluation.tasks.sure_reference import Reference, SureCandidates, make_reference
from retrokit.metrics.ranking import mean
from retrokit.metrics.sure import (
    deviation_consistency,
    order_consistency,
    rank_range,
    ranks_after_insertion,
    ranks_counted_twice,
)
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList
from retrokit.ranking.retrieval.embeddings import DistinctTexts

ONCE, TWICE = "once", "published-script"
"""Each once, as the paper says; or twice, as the published script does unless it is given a list without variants."""
_ALONE = ""  # the list without variants
_NOTHING = np.empty(0)
_NOT_LISTED, _NOT_REFERENCED = "original_not_listed", "without_reference"


class Sure(SearchTask):
    """RDC and ROC against a reference ranking: by testbed (``precision_rdc``, …) and averaged over testbeds (``rdc``,
    ``roc``), as in SURE's Table 4; the range of the reference's ranks (``precision_range``, Table 7); the reciprocal
    rank of the original in the list and after the reference has reordered it (``mrr@2000``, ``reranked_mrr@2000``,
    Table 6), over all judged queries.

    ``corpus`` has (id, text) of all passages that can be found, by default those of ``data``; they are searched in
    descending order of their ids. ``depth`` is of the retriever's list, and ``counting`` says how often the reference
    counts a variant.
    """

    main_metric = "rdc"

    def __init__(
        self,
        data: SureData,
        reference: Reference[Any],
        corpus: Sequence[tuple[str, str]] | None = None,
        depth: int = 2000,
        data_digest: str | None = None,
        counting: str = ONCE,
    ) -> None:
        self.data = data
        self.reference = reference
        self._depth = depth
        self.counting = counting
        self.data_digest = data_digest
        passages = sorted(data.passages.items() if corpus is None else corpus, reverse=True)
        self._passages = len(passages)
        self._queries = [query for query in data.queries if query in data.originals]
        place = {identifier: position for position, (identifier, _) in enumerate(passages)}
        self._originals = [place.get(data.originals[query], -1) for query in self._queries]
        if max(self._originals) < 0:
            first = data.originals[self._queries[0]]
            raise DataError(data.name, f"none of its passages is in the corpus by its id (the first is {first!r})")
        self._members = {testbed: set(queries) for testbed, queries in data.testbeds.items()}
        self._kinds = [self._kinds_of(query) for query in self._queries]
        entries = list(passages)
        place_of_variant: dict[tuple[str, str], int] = {}
        self._variant_entries: list[np.ndarray] = []
        for query, kinds in zip(self._queries, self._kinds, strict=True):
            keys = [(data.originals[query], kind) for kind in kinds]
            for passage, kind in keys:
                if place_of_variant.setdefault((passage, kind), len(entries)) == len(entries):
                    entries.append((variant_id(passage, kind), data.variants[kind][passage]))
            self._variant_entries.append(np.array([place_of_variant[key] for key in keys], dtype=np.int64))
        distinct = DistinctTexts()
        text_of = distinct.add(text for _, text in entries)
        ids = [identifier for identifier, _ in entries]
        self.queries = TextList((data.queries[query] for query in self._queries), self._queries)
        self._candidates = SureCandidates(self.queries, ids, distinct.texts, text_of, len(passages))
        self.documents = self._candidates.of(np.arange(len(passages)))
        self.counts = {"queries": len(self._queries), "documents": self._passages}
        by_testbed = tuple(f"{testbed}_{measure}" for testbed in data.testbeds for measure in MEASURES)
        reciprocal = (f"mrr@{depth}", f"reranked_mrr@{depth}")
        self.shown_metrics: tuple[str, ...] = (*MEASURES, *by_testbed)
        ranges = (f"{testbed}_range" for testbed in data.testbeds)
        self.known_metrics = (*MEASURES, *by_testbed, *reciprocal, *ranges)
        # a reference that orders lists would have to order one more for what comes after it
        self._before, self._reranked = reciprocal
        self.default_metrics: tuple[str, ...] = tuple(
            metric for metric in self.known_metrics if metric != self._reranked or not reference.listwise
        )

    def describe(self) -> str:
        sizes = ", ".join(f"{len(queries):,} of {testbed}" for testbed, queries in self.data.testbeds.items())
        line = f"{self.data.name}: {len(self._queries):,} queries ({sizes}), {self._passages:,} passages"
        line += f", reference {self.reference.spec}"
        if self.counting == TWICE:
            line += ", which counts every variant twice, as the published script does by default"
        for testbed, reasons in self.data.dropped.items():
            line += "".join(f"; {testbed}: {n:,} {_in_words(reason)}" for reason, n in reasons.items() if n)
        if len(self.data.testbeds) > 1 and (absent := missing_testbeds(self.data)):
            line += f"; no files for {', '.join(absent)}"
        if self.data.repeated:
            line += f"; {self.data.repeated:,} repeated id with another text, of which the last counts"
        return line

    def digest(self) -> str | None:
        """A digest of the folder, the corpus and the reference; ``None`` for data that come from no file."""
        return None if self.data_digest is None else f"{self.data_digest} {self.reference.fingerprint()}"

    def depth(self, names: Sequence[str]) -> int:
        return self._depth

    def measure_index(self, index: Index, names: Sequence[str], depth: int, searcher: Searcher) -> Measured:
        """What ``searcher`` finds, beside the reference. Raises :class:`DataError` if no query of a testbed has its
        original in its list, or has the reference's scores."""
        return self._measured(f"{searcher.spec} {searcher.similarity}", self.search(index), names)

    def search(self, index: Index) -> list[Found]:
        """What is found in ``index``, which is of :attr:`documents`."""
        lists = index.search(self.queries, self._depth)
        return self._combined(lists, index.score_pairs(*self._variant_pairs))

    def _kinds_of(self, query: str) -> list[str]:
        """The kinds of variants that the query has, in the testbeds that it is in."""
        kinds = [kind for name, queries in self._members.items() if query in queries for kind in TESTBEDS[name]]
        return [kind for kind in kinds if kind != ORIGINAL]

    @cached_property
    def _variant_pairs(self) -> tuple[TextList, TextList]:
        """All queries with all of their variants."""
        counts = [len(kinds) for kinds in self._kinds]
        rows = np.repeat(np.arange(len(counts)), counts).tolist()
        queries = TextList((self.queries[row] for row in rows), [self._queries[row] for row in rows])
        return queries, self._candidates.of(np.concatenate(self._variant_entries))

    def _combined(self, lists: Sequence[Ranking], variant_scores: np.ndarray) -> list[Found]:
        bounds = np.cumsum([len(kinds) for kinds in self._kinds])[:-1]
        text_of = self._candidates.text_of
        rankings = []
        for query, ((scores, passages), own) in enumerate(zip(lists, np.split(variant_scores, bounds), strict=True)):
            # a variant with the very text of a listed passage ties with it, however sums were rounded
            known = dict(zip(text_of[passages].tolist(), scores.tolist(), strict=True))
            texts = text_of[self._variant_entries[query]].tolist()
            tied = np.array([known.get(text, score) for text, score in zip(texts, own.tolist(), strict=True)])
            rankings.append(Found(scores, passages, tied.astype(own.dtype)))
        return rankings

    def _reference_scores(self, rankings: Sequence[Found], parts: Sequence[str]) -> dict[str, list[ReferenceScores]]:
        """For each part, a testbed or the list :data:`_ALONE`, the reference's scores of each query; without scores
        are the queries that are not in the testbed."""
        pairs = [(part, query) for part in parts for query in range(len(rankings)) if self._is_in(part, query)]
        referred = {part: [ReferenceScores(_NOTHING, _NOTHING)] * len(rankings) for part in parts}
        if self.reference.listwise:
            # without its original a list has no use
            pairs = [(part, query) for part, query in pairs if self._originals[query] in rankings[query].passages]
            chosen = [self._chosen(part, query) for part, query in pairs]
            orders = [retrieved_order(rankings[query], own) for (_, query), own in zip(pairs, chosen, strict=True)]
            entries = [self._entries(rankings, query, own) for (_, query), own in zip(pairs, chosen, strict=True)]
            lists = [(query, own[order]) for (_, query), own, order in zip(pairs, entries, orders, strict=True)]
            ordered = self.reference.scores(self._candidates, lists)
            for (part, query), scores, order in zip(pairs, ordered, orders, strict=True):
                referred[part][query] = ReferenceScores.of(scores[np.argsort(order)], rankings[query])
            return referred
        wanted = [(query, self._entries(rankings, query, np.arange(len(own)))) for query, own in enumerate(self._kinds)]
        known = self.reference.scores(self._candidates, wanted)
        for part, query in pairs:
            own = ReferenceScores.of(known[query], rankings[query])
            referred[part][query] = ReferenceScores(own.listed, own.variants[self._chosen(part, query)])
        return referred

    def _is_in(self, part: str, query: int) -> bool:
        return part == _ALONE or self._queries[query] in self._members[part]

    def _chosen(self, part: str, query: int) -> np.ndarray:
        """Which of the query's variants the part has, int64 ``[v]``."""
        kinds = TESTBEDS.get(part, ())
        return np.array([self._kinds[query].index(kind) for kind in kinds if kind != ORIGINAL], dtype=np.int64)

    def _entries(self, rankings: Sequence[Found], query: int, chosen: np.ndarray) -> np.ndarray:
        return np.concatenate([rankings[query].passages, self._variant_entries[query][chosen]])

    def _ranks(self, testbed: str, rankings: Sequence[Found], reference: Sequence[ReferenceScores]) -> RankedTestbed:
        kinds = TESTBEDS[testbed]
        queries, ranks, referred = [], [], []
        dropped: Counter[str] = Counter({_NOT_LISTED: 0, _NOT_REFERENCED: 0})
        for query, ranking in enumerate(rankings):
            if not self._is_in(testbed, query):
                continue
            position = position_of(ranking.passages, self._originals[query])
            chosen = self._chosen(testbed, query)
            there, after = reference[query]
            if position is None:
                dropped[_NOT_LISTED] += 1
            elif np.isnan(there).any() or np.isnan(after).any():
                dropped[_NOT_REFERENCED] += 1
            else:
                queries.append(query)
                ranks.append(
                    in_order(kinds, *ranks_after_insertion(ranking.scores, position, ranking.variant_scores[chosen]))
                )
                referred.append(in_order(kinds, *self._referred(ranking, position, chosen, there, after)))
        if not queries:
            lost = ", ".join(f"{count:,} {_in_words(reason)}" for reason, count in dropped.items() if count)
            raise DataError(self.spec or self.data.name, f"no query of {testbed} can be used: {lost}")
        return RankedTestbed(np.array(queries), np.stack(ranks), np.stack(referred), dict(dropped))

    def _referred(
        self, ranking: Found, position: int, chosen: np.ndarray, there: np.ndarray, after: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """The ranks of the original at ``position`` of the list and of the variants ``chosen``, by the reference's
        scores of the list, ``there``, and of those variants, ``after``."""
        if self.counting == ONCE:
            return ranks_after_insertion(there, position, after)
        listed = len(there)
        order = retrieved_order(ranking, chosen)
        same_id = np.flatnonzero((order == position) | (order >= listed))
        return ranks_counted_twice(np.concatenate([there, after])[order], same_id, after)

    def _reciprocal_ranks(
        self, rankings: Sequence[Found], reference: Sequence[ReferenceScores] | None
    ) -> dict[str, dict[str, float]]:
        """By metric and query, of the original in the list and, given its scores alone, in the list as the reference
        orders it; 0 if it is not listed."""
        before: dict[str, float] = {}
        after: dict[str, float] = {}
        for query, ranking in enumerate(rankings):
            name = self._queries[query]
            position = position_of(ranking.passages, self._originals[query])
            before[name] = 0.0 if position is None else 1 / (position + 1)
            if reference is not None and not np.isnan(reference[query].listed).any():
                scores = reference[query].listed
                after[name] = 0.0 if position is None else 1 / ranks_after_insertion(scores, position, _NOTHING)[0]
        return {self._before: before} | ({} if reference is None else {self._reranked: after})

    def _measured(self, name: str, rankings: Sequence[Found], names: Sequence[str]) -> Measured:
        reference = self._reference_scores(rankings, [*self.data.testbeds, *[_ALONE][: self._reranked in names]])
        counts: dict[str, int | float] = {}
        per_query: dict[str, dict[str, float]] = {}
        columns: dict[str, list[np.ndarray]] = {measure: [] for measure in MEASURES}
        for testbed in self.data.testbeds:
            ranked = self._ranks(testbed, rankings, reference[testbed])
            ids = [self._queries[query] for query in ranked.queries]
            values = {
                "rdc": deviation_consistency(ranked.ranks, ranked.reference),
                "roc": order_consistency(ranked.ranks, ranked.reference),
                "range": rank_range(ranked.reference).astype(np.float64),
            }
            for measure, scores in values.items():
                scored = zip(ids, scores.tolist(), strict=True)
                per_query[f"{testbed}_{measure}"] = {id: score for id, score in scored if score == score}
            for measure in MEASURES:
                column = np.full(len(self._queries), np.nan)
                column[ranked.queries] = values[measure]
                columns[measure].append(column)
            counts[f"{testbed}_queries"] = len(ids)
            reasons = {**self.data.dropped[testbed], **ranked.dropped}
            counts.update({f"{testbed}_{reason}": count for reason, count in reasons.items()})
            self._say_dropped(name, testbed, ranked.dropped)
        per_query |= self._reciprocal_ranks(rankings, reference.get(_ALONE))
        averaged = {measure: Resampled(len(self._queries), MeanOfMeans(parts)) for measure, parts in columns.items()}
        return Measured(
            {metric: mean(scores) for metric, scores in per_query.items()},
            per_query,
            averaged,
            configuration={"reference": self.reference.spec, "depth": self._depth, "counting": self.counting},
            counts=counts,
            run=SureRun(self._candidates, rankings, self._variant_entries),
        )

    def _say_dropped(self, name: str, testbed: str, dropped: Mapping[str, int]) -> None:
        lost = ", ".join(f"{count:,} {_in_words(reason)}" for reason, count in dropped.items() if count)
        if lost:
            notice(f"{name}, {testbed}: of {len(self.data.testbeds[testbed]):,} queries dropped: {lost}")


def _in_words(reason: str) -> str:
    return {
        "without_judgement": "queries without a judgement, left out",
        "without_variants": "queries without all variants, left out",
        _NOT_LISTED: "without their original in the list",
        _NOT_REFERENCED: "without scores of the reference for all that they rank",
    }[reason]


def sure(
    path: str,
    reference: str,
    testbed: str | None,
    corpus: str | None,
    depth: int,
    counting: str,
    device: str | None = None,
) -> Sure:
    """The task of a SURE folder.

    Raises:
        UsageError: an unknown reference.
        DataError: a folder of another layout (what is missing is named), or a corpus that has none of its passages.
    """
    data = read_sure(path, testbed)
    passages, digests = None, [digest_sure(path, testbed)]
    if corpus is not None:
        seen = hashlib.sha256()
        file = corpus_file(corpus) if Path(corpus).is_dir() else corpus
        passages = [(document.id, document.full_text) for document in read_corpus(file, seen.update)]
        digests.append(f"sha256:{seen.hexdigest()}")
    return Sure(data, make_reference(reference, device), passages, depth, " ".join(digests), counting)
