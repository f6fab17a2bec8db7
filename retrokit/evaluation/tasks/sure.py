"""SURE: does a retriever rank a passage's variants as close together, and in the order, as a reference does?

Kong et al., "SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models" (SURE, 3.3, 4.2 and B). The
variants of each testbed are inserted into the retriever's own list of the best ``depth`` passages, by the retriever's
own scores; the reference orders that list and the variants, each once. Compared are the ranks of variants and original:
how far they spread (RDC) and how they are ordered (ROC). A query whose original is not in the list, or that the
reference has no scores for, is dropped from the testbed and counted, never imputed.

A reference is a reranker (SURE, B), an encoder, BM25, or a TREC run, which has passages by their ids and variants by
``PASSAGE#KIND`` (:func:`variant_id`). One that orders whole lists (SURE, 4.3) gets the list of each retriever with a
testbed's variants in it, in that retriever's order. Ranks of two lists are never compared.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from retrokit.core.errors import DataError
from retrokit.core.notices import notice
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.sure import (
    COUNTED,
    LEFT_OUT,
    ORIGINAL,
    TESTBEDS,
    SureData,
    digest_sure,
    missing_testbeds,
    read_sure,
    variant_id,
)
from retrokit.evaluation.comparison.correlations import MEASURES
from retrokit.evaluation.result import Resampled
from retrokit.evaluation.tasks.base import Measured, SearchTask
from retrokit.metrics.ranking import mean
from retrokit.metrics.sure import (
    deviation_consistency,
    order_consistency,
    rank_range,
    ranks_after_insertion,
    ranks_counted_twice,
)
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.retrieval.base import Index, Searcher, TextList
from retrokit.ranking.retrieval.embeddings import DistinctTexts


@dataclass(frozen=True)
class SureCandidates:
    """All queries, and all that can be ranked for them ("entries"): first the ``passages``, of which that is the
    number, then variants. ``texts`` are the distinct ones, and ``text_of`` is the position of each entry's text in
    them, int64 ``[entries]``."""

    queries: TextList
    ids: list[str]
    texts: list[str]
    text_of: np.ndarray
    passages: int

    def of(self, entries: np.ndarray) -> TextList:
        """The texts and ids of entries, int64 ``[n]``."""
        texts = map(self.texts.__getitem__, self.text_of[entries].tolist())
        return TextList(texts, [self.ids[entry] for entry in entries.tolist()])


class RerankerReference:
    """Scores pairs by a reranker. A pair of texts is scored once, however many entries, encoders and similarities ask.

    Attributes:
        spec: of the reranker.
        listwise: whether it orders lists: the entries of :meth:`scores` are lists then, best first.
    """

    listwise = False

    def __init__(self, by: Any) -> None:
        self.spec: str = by.spec
        self._by = by
        self._known: dict[Any, Any] = {}  # query → sorted texts, their scores

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""
        return str(self._by.fingerprint())

    def scores(self, candidates: SureCandidates, requests: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each query (its position) and its entries, scores ``[n]``; NaN if there is none. Those of a listwise
        reference order these entries, and cannot be compared with others. Always of the same ``candidates``."""
        nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        new_texts = []
        for query, entries in requests:
            known_texts, _ = self._known.get(query, nothing)
            new_texts.append(np.setdiff1d(candidates.text_of[entries], known_texts))
        rows = [query for (query, _), texts in zip(requests, new_texts, strict=True) for _ in texts]
        texts = TextList(candidates.texts[text] for texts_of_query in new_texts for text in texts_of_query)
        new_scores = _split(self._score(candidates, candidates.queries.at(rows), texts), new_texts)
        for (query, _), added_texts, added_scores in zip(requests, new_texts, new_scores, strict=True):
            known_texts, known_scores = self._known.get(query, nothing)
            all_texts = np.concatenate([known_texts, added_texts])
            all_scores = np.concatenate([known_scores, added_scores])
            order = np.argsort(all_texts)
            self._known[query] = all_texts[order], all_scores[order]
        scores = []
        for query, entries in requests:
            known_texts, known_scores = self._known[query]
            scores.append(known_scores[np.searchsorted(known_texts, candidates.text_of[entries])])
        return scores

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        """Scores ``[n]`` of query i with text i."""
        scores: np.ndarray = self._by.score_pairs(queries, texts)
        return scores


class SearcherReference(RerankerReference):
    """Scores by a searcher, with the statistics of the passages. One that uses ids scores entries, not texts."""

    _index: Index | None = None

    def scores(self, candidates: SureCandidates, requests: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        if not self._by.by_ids:
            return super().scores(candidates, requests)
        entries = [entries_of_query for _, entries_of_query in requests]
        queries = candidates.queries.at([query for query, entries_of_query in requests for _ in entries_of_query])
        return _split(self._score(candidates, queries, candidates.of(np.concatenate(entries))), entries)

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        index = self._index = self._index or self._by.index(candidates.of(np.arange(candidates.passages)))
        return index.score_pairs(queries, texts)


class ListReference(RerankerReference):
    """Places by a reranker that orders lists. A list is ordered once, however many similarities rank alike."""

    listwise = True

    def scores(self, candidates: SureCandidates, requests: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each list, scores float32 ``[n]``. A text that comes twice is ordered once, at its first place."""
        keys: list[tuple[str, ...]] = []
        rows = []
        for query, entries in requests:
            distinct = DistinctTexts()
            rows.append(distinct.add(candidates.of(entries)))
            keys.append((candidates.queries[query], *distinct.texts))
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            new_scores = self._by.rank_lists([key[0] for key in new], [key[1:] for key in new])
            self._known.update(zip(new, new_scores, strict=True))
            if line := self._by.describe():
                notice(line)
        return [self._known[key][positions] for key, positions in zip(keys, rows, strict=True)]


def _split(flat: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    return np.split(flat, np.cumsum([len(array) for array in like])[:-1])


def make_reference(spec: str, device: str | None = None) -> RerankerReference:
    """The reference that ``spec`` names: a reranker, a searcher, or an encoder with its own similarity.

    Raises:
        UsageError: an unknown name, or wrong parameters.
        DataError: a run that cannot be read, or a folder without a model.
        ServiceError: a hub id that cannot be had.
    """
    if retrieval.registry_of(spec) is retrieval.registry or reranking.registry_of(spec) is not reranking.registry:
        return SearcherReference(retrieval.create(spec, device=device))
    reranker = reranking.create(spec, device)
    return ListReference(reranker) if reranker.listwise else RerankerReference(reranker)


ONCE, TWICE = "once", "published-script"
"""Each variant once, as the paper says; or twice, as the published script does unless its list has no variants."""
_ALONE = ""  # the list without variants
_NOT_LISTED, _NOT_REFERENCED = "original_not_listed", "without_reference"
_REASONS = {
    "without_judgement": "queries without a judgement, left out",
    "without_variants": "queries without all variants, left out",
    "identical_variant": "queries with a variant that equals its passage word for word, left out",
    _NOT_LISTED: "without their original in the list",
    _NOT_REFERENCED: "without scores of the reference for all that they rank",
}


class VariantRanking(NamedTuple):
    """A retriever's result for one query: its list, best first, and its scores of the query's variants.

    Attributes:
        scores: of the list, ``[n]``.
        passages: the list: positions in the task's passages, int64 ``[n]``.
        variant_scores: ``[v]``, on the same scale.
    """

    scores: np.ndarray
    passages: np.ndarray
    variant_scores: np.ndarray

    def order(self, chosen: np.ndarray) -> np.ndarray:
        """Positions in the list with the variants ``chosen`` after it, best first, int64 ``[n + v]``."""
        return np.argsort(-np.concatenate([self.scores, self.variant_scores[chosen]]), kind="stable")


class RankedTestbed(NamedTuple):
    """Ranks of one testbed's passages, in the order of :data:`TESTBEDS`, from 1, int64 ``[q, n]``: by the retriever and
    by the ``reference``; the positions of the ``queries`` that have both, and the number of those dropped."""

    queries: list[int]
    ranks: np.ndarray
    reference: np.ndarray
    dropped: dict[str, int]


class Sure(SearchTask):
    """RDC and ROC against a reference ranking: by testbed (``precision_rdc``, …) and averaged over testbeds (``rdc``,
    ``roc``), as in SURE's Table 4; the range of the reference's ranks (``precision_range``, Table 7); the reciprocal
    rank of the original in the list and after the reference has reordered it (``mrr@2000``, ``reranked_mrr@2000``,
    Table 6), over all judged queries.

    ``corpus`` has (id, text) of all passages that can be found, by default those of ``data``; they are searched in
    descending order of their ids. ``depth`` is of the retriever's list, ``counting`` says how often the reference
    counts a variant, and ``identical`` how ``data`` were read (:func:`retrokit.data.sure.read_sure`).
    """

    main_metric = "rdc"

    def __init__(
        self,
        data: SureData,
        reference: RerankerReference,
        corpus: Sequence[tuple[str, str]] | None = None,
        depth: int = 2000,
        data_digest: str | None = None,
        counting: str = ONCE,
        identical: str = COUNTED,
    ) -> None:
        self.data, self.reference, self.counting, self.identical = data, reference, counting, identical
        self._depth = depth
        self.data_digest = data_digest
        passages = sorted(data.passages.items() if corpus is None else corpus, reverse=True)
        self._passages = len(passages)
        self._queries = [query for query in data.queries if query in data.originals]
        self._originals = self._positions_of_originals([identifier for identifier, _ in passages])
        self._members = {testbed: set(queries) for testbed, queries in data.testbeds.items()}
        self._kinds = [self._kinds_of(query) for query in self._queries]
        variants, self._variant_entries = self._number_variants()
        entries = [*passages, *variants]
        distinct = DistinctTexts()
        text_of = distinct.add(text for _, text in entries)
        ids = [identifier for identifier, _ in entries]
        self.queries = TextList((data.queries[query] for query in self._queries), self._queries)
        self._candidates = SureCandidates(self.queries, ids, distinct.texts, text_of, self._passages)
        self.documents = self._candidates.of(np.arange(self._passages))
        self.counts = {"queries": len(self._queries), "documents": self._passages}
        self._name_metrics()

    def _positions_of_originals(self, ids: Sequence[str]) -> list[int]:
        """The position of each query's passage in the corpus, whose documents have these ids; −1: it is not there.
        Raises :class:`DataError` if none is."""
        position_of = {identifier: position for position, identifier in enumerate(ids)}
        positions = [position_of.get(self.data.originals[query], -1) for query in self._queries]
        if max(positions) < 0:
            first = self.data.originals[self._queries[0]]
            problem = f"none of its passages is in the corpus by its id (the first is {first!r})"
            raise DataError(self.data.name, problem)
        return positions

    def _kinds_of(self, query: str) -> list[str]:
        """The kinds of variants that a query has, in the testbeds that it is in."""
        kinds = []
        for testbed, queries in self._members.items():
            if query in queries:
                kinds += [kind for kind in TESTBEDS[testbed] if kind != ORIGINAL]
        return kinds

    def _number_variants(self) -> tuple[list[tuple[str, str]], list[np.ndarray]]:
        """Each variant once, as id and text, and the entries of each query's variants, which follow the passages."""
        variants: list[tuple[str, str]] = []
        entry_of: dict[tuple[str, str], int] = {}
        entries_by_query = []
        for query, kinds in zip(self._queries, self._kinds, strict=True):
            passage = self.data.originals[query]
            for kind in kinds:
                if (passage, kind) not in entry_of:
                    entry_of[passage, kind] = self._passages + len(variants)
                    variants.append((variant_id(passage, kind), self.data.variants[kind][passage]))
            entries_by_query.append(np.array([entry_of[passage, kind] for kind in kinds], dtype=np.int64))
        return variants, entries_by_query

    def _name_metrics(self) -> None:
        by_testbed = tuple(f"{testbed}_{measure}" for testbed in self.data.testbeds for measure in MEASURES)
        ranges = (f"{testbed}_range" for testbed in self.data.testbeds)
        self._before, self._reranked = f"mrr@{self._depth}", f"reranked_mrr@{self._depth}"
        self.shown_metrics: tuple[str, ...] = (*MEASURES, *by_testbed)
        self.known_metrics = (*self.shown_metrics, self._before, self._reranked, *ranges)
        # a listwise reference would have to order one more list for the reranked metric
        left_out = {self._reranked} if self.reference.listwise else set()
        self.default_metrics: tuple[str, ...] = tuple(name for name in self.known_metrics if name not in left_out)

    def describe(self) -> str:
        sizes = ", ".join(f"{len(queries):,} of {testbed}" for testbed, queries in self.data.testbeds.items())
        line = f"{self.data.name}: {len(self._queries):,} queries ({sizes}), {self._passages:,} passages"
        line += f", reference {self.reference.spec}"
        if self.counting == TWICE:
            line += ", which counts every variant twice, as the published script does by default"
        return "; ".join([line, *self._unusual()])

    def _unusual(self) -> Iterator[str]:
        """What is left out, missing or repeated in the data."""
        for testbed, dropped in self.data.dropped.items():
            for reason, count in dropped.items():
                if count:
                    yield f"{testbed}: {count:,} {_REASONS[reason]}"
        for testbed, count in self.data.identical.items():
            if count and self.identical == COUNTED:
                problem = f"{count:,} queries with a variant that equals its passage word for word"
                effect = "whose ROC is 1 by the tie rule for every system"
                yield f"{testbed}: {problem}, {effect}; identical={LEFT_OUT} leaves them out"
        absent = missing_testbeds(self.data)
        if len(self.data.testbeds) > 1 and absent:
            yield f"no files for {', '.join(absent)}"
        if self.data.repeated:
            yield f"{self.data.repeated:,} repeated id with another text, of which the last counts"

    def digest(self) -> str | None:
        """A digest of the folder, the corpus and the reference; ``None`` for data that come from no file."""
        return None if self.data_digest is None else f"{self.data_digest} {self.reference.fingerprint()}"

    def depth(self, names: Sequence[str]) -> int:
        return self._depth

    def measure_index(self, index: Index, names: Sequence[str], depth: int, searcher: Searcher) -> Measured:
        """The searcher's ranks against the reference's. Raises :class:`DataError` if no query of a testbed has its
        original in its list, or has the reference's scores."""
        rankings = self.search(index)
        lists = list(self.data.testbeds)
        if self._reranked in names:
            lists.append(_ALONE)
        reference = self._reference_scores(rankings, lists)
        counts: dict[str, int | float] = {}
        per_query: dict[str, dict[str, float]] = {}
        columns: dict[str, list[np.ndarray]] = {measure: [] for measure in MEASURES}
        for testbed in self.data.testbeds:
            ranked = self._ranks(testbed, rankings, reference[testbed])
            values = {
                "rdc": deviation_consistency(ranked.ranks, ranked.reference),
                "roc": order_consistency(ranked.ranks, ranked.reference),
                "range": rank_range(ranked.reference).astype(np.float64),
            }
            for measure, scores in values.items():
                per_query[f"{testbed}_{measure}"] = self._defined(ranked.queries, scores)
            for measure in MEASURES:
                column = np.full(len(self._queries), np.nan)
                column[ranked.queries] = values[measure]
                columns[measure].append(column)
            counts |= self._counts_of(testbed, ranked)
            lost = _lost(ranked.dropped)
            if lost:
                queries = f"of {len(self.data.testbeds[testbed]):,} queries dropped"
                notice(f"{searcher.spec} {searcher.similarity}, {testbed}: {queries}: {lost}")
        per_query |= self._reciprocal_ranks(rankings, reference.get(_ALONE))
        return Measured(
            {metric: mean(scores) for metric, scores in per_query.items()},
            per_query,
            {measure: Resampled(len(self._queries), MeanOfMeans(parts)) for measure, parts in columns.items()},
            configuration={
                "reference": self.reference.spec,
                "depth": self._depth,
                "counting": self.counting,
                "identical": self.identical,
            },
            counts=counts,
            run=SureRun(self._candidates, rankings, self._variant_entries),
        )

    def _defined(self, queries: Sequence[int], scores: np.ndarray) -> dict[str, float]:
        """The ``scores`` ``[q]`` that are not NaN, by the ids of the ``queries``."""
        by_query = {}
        for query, score in zip(queries, scores.tolist(), strict=True):
            if not math.isnan(score):
                by_query[self._queries[query]] = score
        return by_query

    def _reciprocal_ranks(
        self, rankings: Sequence[VariantRanking], reference: Sequence[np.ndarray] | None
    ) -> dict[str, dict[str, float]]:
        """The reciprocal rank of each query's original: in its list, and after the ``reference``, if there is one, has
        reordered the list."""
        before: dict[str, float] = {}
        after: dict[str, float] = {}
        for query, (name, ranking) in enumerate(zip(self._queries, rankings, strict=True)):
            ranks = np.flatnonzero(ranking.passages == self._originals[query])
            before[name] = float(1 / (ranks[0] + 1)) if len(ranks) else 0.0
            if reference is None or np.isnan(reference[query]).any():
                continue
            after[name] = 0.0
            if len(ranks):
                after[name] = 1 / ranks_after_insertion(reference[query], ranks[0], np.empty(0))[0]
        if reference is None:
            return {self._before: before}
        return {self._before: before, self._reranked: after}

    def _counts_of(self, testbed: str, ranked: RankedTestbed) -> dict[str, int]:
        """The queries of a testbed that are used, and those that are left out, by reason."""
        reasons = {**self.data.dropped[testbed], **ranked.dropped}
        counts = {f"{testbed}_queries": len(ranked.queries)}
        counts |= {f"{testbed}_{reason}": count for reason, count in reasons.items()}
        counts[f"{testbed}_identical_variant"] = self.data.identical[testbed]
        return counts

    def search(self, index: Index) -> list[VariantRanking]:
        """The rankings of all queries in ``index``, which is of :attr:`documents`."""
        lists, variant_scores = index.search(self.queries, self._depth), index.score_pairs(*self._variant_pairs)
        bounds = np.cumsum([len(kinds) for kinds in self._kinds])[:-1]
        text_of, rankings = self._candidates.text_of, []
        scores_by_query = np.split(variant_scores, bounds)
        for query, ((scores, passages), scores_of_variants) in enumerate(zip(lists, scores_by_query, strict=True)):
            # a variant with the very text of a listed passage ties with it, however sums were rounded
            score_of_text = dict(zip(text_of[passages].tolist(), scores.tolist(), strict=True))
            texts = text_of[self._variant_entries[query]].tolist()
            own_scores = zip(texts, scores_of_variants.tolist(), strict=True)
            tied = np.array([score_of_text.get(text, score) for text, score in own_scores])
            rankings.append(VariantRanking(scores, passages, tied.astype(scores_of_variants.dtype)))
        return rankings

    @cached_property
    def _variant_pairs(self) -> tuple[TextList, TextList]:
        """All queries with all of their variants."""
        rows = [row for row, kinds in enumerate(self._kinds) for _ in kinds]
        return self.queries.at(rows), self._candidates.of(np.concatenate(self._variant_entries))

    def _reference_scores(
        self, rankings: Sequence[VariantRanking], testbeds: Sequence[str]
    ) -> dict[str, list[np.ndarray]]:
        """For each testbed, or the list :data:`_ALONE`, the reference's scores of each query's list and, after them, of
        its variants, ``[n + v]``; NaN if unknown. None of the queries that are not in the testbed."""
        pairs = []
        for testbed in testbeds:
            pairs += [(testbed, query) for query in range(len(rankings)) if self._is_in(testbed, query)]
        if self.reference.listwise:
            scored = self._scores_of_lists(rankings, pairs)
        else:
            scored = self._scores_of_entries(rankings, pairs)
        scores_by_testbed = {testbed: [np.empty(0)] * len(rankings) for testbed in testbeds}
        for testbed, query, scores in scored:
            scores_by_testbed[testbed][query] = scores
        return scores_by_testbed

    def _scores_of_lists(
        self, rankings: Sequence[VariantRanking], pairs: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[str, int, np.ndarray]]:
        """Each testbed and query of ``pairs`` with the scores of a reference that orders lists."""
        requested = []
        orders = []
        lists = []
        for testbed, query in pairs:
            ranking = rankings[query]
            if self._originals[query] not in ranking.passages:  # without its original a list has no use
                continue
            chosen = self._chosen(testbed, query)
            order = ranking.order(chosen)
            requested.append((testbed, query))
            orders.append(order)
            lists.append((query, self._entries(rankings, query, chosen)[order]))
        scores_of_lists = self.reference.scores(self._candidates, lists)
        for (testbed, query), order, scores in zip(requested, orders, scores_of_lists, strict=True):
            yield testbed, query, scores[np.argsort(order)]

    def _scores_of_entries(
        self, rankings: Sequence[VariantRanking], pairs: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[str, int, np.ndarray]]:
        """The same of a reference that scores each entry for itself."""
        requests = []
        for query, kinds in enumerate(self._kinds):
            requests.append((query, self._entries(rankings, query, np.arange(len(kinds)))))
        scores_by_query = self.reference.scores(self._candidates, requests)
        for testbed, query in pairs:
            listed, variants = np.split(scores_by_query[query], [len(rankings[query].passages)])
            yield testbed, query, np.concatenate([listed, variants[self._chosen(testbed, query)]])

    def _is_in(self, testbed: str, query: int) -> bool:
        return testbed == _ALONE or self._queries[query] in self._members[testbed]

    def _chosen(self, testbed: str, query: int) -> np.ndarray:
        """Which of the query's variants the testbed has, int64 ``[v]``."""
        kinds = [kind for kind in TESTBEDS.get(testbed, ()) if kind != ORIGINAL]
        return np.array([self._kinds[query].index(kind) for kind in kinds], dtype=np.int64)

    def _entries(self, rankings: Sequence[VariantRanking], query: int, chosen: np.ndarray) -> np.ndarray:
        return np.concatenate([rankings[query].passages, self._variant_entries[query][chosen]])

    def _ranks(
        self, testbed: str, rankings: Sequence[VariantRanking], reference: Sequence[np.ndarray]
    ) -> RankedTestbed:
        place_of_original = TESTBEDS[testbed].index(ORIGINAL)
        queries: list[int] = []
        ranks: list[np.ndarray] = []
        referred: list[np.ndarray] = []
        dropped = {_NOT_LISTED: 0, _NOT_REFERENCED: 0}
        for query, (ranking, scores) in enumerate(zip(rankings, reference, strict=True)):
            if not self._is_in(testbed, query):
                continue
            rank_of_original = np.flatnonzero(ranking.passages == self._originals[query])
            chosen = self._chosen(testbed, query)
            if not len(rank_of_original):
                dropped[_NOT_LISTED] += 1
            elif np.isnan(scores).any():
                dropped[_NOT_REFERENCED] += 1
            else:
                variant_scores = ranking.variant_scores[chosen]
                retriever_ranks = ranks_after_insertion(ranking.scores, rank_of_original[0], variant_scores)
                listed, after = np.split(scores, [len(ranking.passages)])
                if self.counting == ONCE:
                    reference_ranks = ranks_after_insertion(listed, rank_of_original[0], after)
                else:
                    order = ranking.order(chosen)
                    same_id = np.flatnonzero((order == rank_of_original[0]) | (order >= len(listed)))
                    reference_ranks = ranks_counted_twice(scores[order], same_id, after)
                queries.append(query)
                for side, (original, variants) in ((ranks, retriever_ranks), (referred, reference_ranks)):
                    side.append(np.insert(variants, place_of_original, original))
        if not queries:
            raise DataError(self.spec or self.data.name, f"no query of {testbed} can be used: {_lost(dropped)}")
        return RankedTestbed(queries, np.stack(ranks), np.stack(referred), dropped)


def _lost(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_REASONS[reason]}" for reason, count in dropped.items() if count)


class MeanOfMeans:
    """The mean over testbeds of the mean over those of the queries at ``rows`` that a testbed has (not NaN); NaN if
    it has none of them."""

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._columns = columns

    def __call__(self, rows: np.ndarray) -> float:
        present = [values[~np.isnan(values)] for values in (column[rows] for column in self._columns)]
        return float(np.mean([values.mean() if len(values) else np.nan for values in present]))


class SureRun(Mapping[str, dict[str, float]]):
    """The lists and the variants of all queries as ``{query: {id: score}}``, built for one query at a time to save
    memory."""

    def __init__(
        self, candidates: SureCandidates, rankings: Sequence[VariantRanking], variants: Sequence[np.ndarray]
    ) -> None:
        self._candidates = candidates
        rows = zip(rankings, variants, strict=True)
        self._place = dict(zip(candidates.queries.ids, rows, strict=True))

    def __getitem__(self, query: str) -> dict[str, float]:
        ranking, variants = self._place[query]
        entries = np.concatenate([ranking.passages, variants]).tolist()
        scores = np.concatenate([ranking.scores, ranking.variant_scores]).tolist()
        return {self._candidates.ids[entry]: score for entry, score in zip(entries, scores, strict=True)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


def sure(
    path: str,
    reference: str,
    testbed: str | None,
    corpus: str | None,
    depth: int,
    counting: str,
    identical: str = COUNTED,
    device: str | None = None,
) -> Sure:
    """The task of a SURE folder.

    Raises:
        UsageError: an unknown reference.
        DataError: a folder of another layout (what is missing is named), or a corpus that has none of its passages.
    """
    data = read_sure(path, testbed, identical)
    passages, digests = None, [digest_sure(path, testbed)]
    if corpus is not None:
        seen = hashlib.sha256()
        file = corpus_file(corpus) if Path(corpus).is_dir() else corpus
        passages = [(document.id, document.full_text) for document in read_corpus(file, seen.update)]
        digests.append(f"sha256:{seen.hexdigest()}")
    return Sure(data, make_reference(reference, device), passages, depth, " ".join(digests), counting, identical)
