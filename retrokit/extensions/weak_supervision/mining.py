"""Hard negatives for pairs: texts that a similarity ranks high for an anchor and that are not its positive.

De Souza P. Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative mining", 2024.
The defaults are the recipe of SFS, B.2: the top 7 of the whole corpus, at least 0.04 below the positive. In order:

1. search: rank all candidates for each anchor, without its own text, known positives and given negatives;
2. ranks: the candidates at ``first_rank`` to ``last_rank`` are the pool;
3. judge: a reranker's scores replace those of the similarity, in the pool and for the positives;
4. margins: a candidate stays if ``score + absolute_margin ≤ positive``,
   ``score ≤ positive − relative_margin·|positive|`` and ``min_score ≤ score ≤ max_score``, for the row's own positive;
5. sampling: the best of them (``top``), or any (``random``).

The margins are those of ``sentence_transformers.util.mine_hard_negatives``, which differs for anchors with several
positives (it takes the lowest of their scores for all rows) and counts ranks after the margins.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from retrokit import similarities
from retrokit.augmentation.draws import distinct
from retrokit.core.errors import DataError
from retrokit.core.notices import Advance, progress
from retrokit.core.outputs import check_file, check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.data import pairs as training_data
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_pairs
from retrokit.data.training_rows import Pair
from retrokit.extensions.weak_supervision.settings import MinedFiles, MiningSettings
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.kept import KeptReranker, folder_beside, scores_in
from retrokit.ranking.retrieval.base import Index, Searcher, TextList

COUNTS = (
    *("rows", "anchors", "candidates", "candidates_repeated", "candidates_without_text", "positives_not_candidates"),
    *("excluded", "within_absolute_margin", "within_relative_margin", "above_max_score", "below_min_score"),
    *("negatives", "rows_complete", "rows_short", "rows_without", "rows_dropped"),
)
"""``candidates`` are distinct texts; ``positives_not_candidates``, known positives that the corpus lacks; ``excluded``,
anchors, known positives and given negatives among the best candidates; the four bounds, what each took out of the rest;
``rows_complete`` have all wanted negatives, ``rows_short`` some, ``rows_without`` none."""


@dataclass(frozen=True)
class Mined:
    """The ``counts`` by the names in :data:`COUNTS`, and mean scores over rows and over mined negatives, ``None`` where
    there are none."""

    encoder: str
    similarity: str
    judge: str | None
    settings: MiningSettings
    counts: dict[str, int]
    mean_positive_score: float | None
    mean_negative_score: float | None

    def summary(self) -> str:
        """A summary in a line."""
        counts = self.counts
        line = f"{counts['negatives']:,} negatives for {counts['rows']:,} rows from {counts['candidates']:,} candidates"
        if counts["rows_short"]:
            line += f"; {counts['rows_short']:,} rows got fewer than {self.settings.negatives}"
        if counts["rows_without"]:
            fate = "dropped" if counts["rows_dropped"] else "retained"
            line += f"; {counts['rows_without']:,} rows got none ({fate})"
        if self.mean_positive_score is not None and self.mean_negative_score is not None:
            line += f"; mean score {self.mean_negative_score:.3f}, of positives {self.mean_positive_score:.3f}"
        return line


class TextSet:
    """Distinct texts, each known by its position; those that differ in white space only are the same."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._position: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, text: str) -> int:
        position = self._position.setdefault(_key(text), len(self.texts))
        if position == len(self.texts):
            self.texts.append(text)
        return position

    def find(self, text: str) -> int | None:
        return self._position.get(_key(text))


def _key(text: str) -> bytes:
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest()


class MiningWork:
    """Anchors, documents and which belong together, as positions; the first ``candidates`` documents are searched."""

    def __init__(self, pairs: Sequence[Pair], candidates: Sequence[str] | None, settings: MiningSettings) -> None:
        self.pairs = pairs
        self.anchors, self.documents = TextSet(), TextSet()
        self.counts: Counter[str] = Counter(rows=len(pairs))
        self._add_candidates(_documents_of(pairs) if candidates is None else candidates)
        self.anchor_of = [self.anchors.add(pair.anchor) for pair in pairs]
        self.positive_of = [self.documents.add(pair.positive) for pair in pairs]
        self.excluded: list[set[int]] = [set() for _ in self.anchors.texts]
        self.scored: list[dict[int, None]] = [{} for _ in self.anchors.texts]
        for row in range(len(pairs)):
            self._assign(row, settings)
        outside = {position for position in self.positive_of if position >= self.candidates}
        self.counts.update(anchors=len(self.anchors), candidates=self.candidates, positives_not_candidates=len(outside))

    def _add_candidates(self, candidates: Iterable[str]) -> None:
        for text in candidates:
            before = len(self.documents)
            if not text.strip():
                self.counts["candidates_without_text"] += 1
            elif self.documents.add(text) < before:
                self.counts["candidates_repeated"] += 1
        self.candidates = len(self.documents)
        if not self.candidates:
            raise DataError("mining", "no candidates: the corpus contains no text")

    def _assign(self, row: int, settings: MiningSettings) -> None:
        """Note which documents of a row are scored with its anchor, and which are not mined for it."""
        pair, anchor, positive = self.pairs[row], self.anchor_of[row], self.positive_of[row]
        excluded = [positive, self.documents.find(pair.anchor)]
        self.scored[anchor][positive] = None
        if settings.keep_negatives:
            if settings.scores:
                for text in pair.negatives:
                    self.scored[anchor][self.documents.add(text)] = None
            excluded += [self.documents.find(text) for text in pair.negatives]
        for position in excluded:
            if position is not None and position < self.candidates:
                self.excluded[anchor].add(position)


def _documents_of(pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        yield pair.positive
        yield from pair.negatives


@dataclass
class Pool:
    """For one anchor: the pool (positions of documents) and its scores, and the scores of the documents in its rows."""

    pool: np.ndarray
    scores: np.ndarray
    row_scores: dict[int, np.float32]


class MinedRows:
    """Makes the rows of the output, and counts."""

    def __init__(self, work: MiningWork, settings: MiningSettings) -> None:
        self.work, self.settings = work, settings
        self._sums = {"positive": 0.0, "negative": 0.0}

    @property
    def means(self) -> dict[str, float | None]:
        """The mean scores of the positives, over rows, and of the mined negatives; ``None`` of nothing."""
        counts = {"positive": len(self.work.pairs), "negative": self.work.counts["negatives"]}
        means: dict[str, float | None] = {}
        for name, count in counts.items():
            means[f"mean_{name}_score"] = self._sums[name] / count if count else None
        return means

    def all(self, pools: Iterator[Pool], advance: Advance) -> Iterator[dict[str, Any]]:
        """The rows in order; an anchor's pool is held until its last row."""
        pool_of: dict[int, Pool] = {}
        remaining = Counter(self.work.anchor_of)
        for row, anchor in enumerate(self.work.anchor_of):
            if anchor not in pool_of:  # anchors are numbered in the order in which rows first name them
                pool_of[anchor] = next(pools)
            mined = self._row(row, pool_of[anchor])
            remaining[anchor] -= 1
            if not remaining[anchor]:
                del pool_of[anchor]
            advance(1)
            if mined is not None:
                yield mined

    def _row(self, row: int, pool: Pool) -> dict[str, Any] | None:
        pair, settings, counts = self.work.pairs[row], self.settings, self.work.counts
        positive = pool.row_scores[self.work.positive_of[row]]
        chosen = self._chosen(row, pool, positive)
        negatives = [self.work.documents.texts[document] for document in pool.pool[chosen]]
        scores = [_rounded(score) for score in pool.scores[chosen]]
        if len(chosen) == settings.negatives:
            counts["rows_complete"] += 1
        elif len(chosen):
            counts["rows_short"] += 1
        else:
            counts["rows_without"] += 1
        counts["negatives"] += len(chosen)
        self._sums["positive"] += float(positive)
        self._sums["negative"] += sum(scores)
        if settings.keep_negatives:
            negatives = [*pair.negatives, *negatives]
        if not negatives and settings.drop_rows_without:
            counts["rows_dropped"] += 1
            return None
        mined: dict[str, Any] = {"anchor": pair.anchor, "positive": pair.positive, "negatives": negatives}
        if settings.scores:
            if settings.keep_negatives:
                positions = [self.work.documents.add(text) for text in pair.negatives]
                scores = [*(_rounded(pool.row_scores[position]) for position in positions), *scores]
            mined |= {"positive_score": _rounded(positive), "negative_scores": scores}
        return mined

    def _chosen(self, row: int, pool: Pool, positive: np.float32) -> np.ndarray:
        """The negatives of a row, as positions in its pool: best score first, of equal scores the better rank first."""
        settings = self.settings
        allowed = self._allowed(pool.scores, positive)
        if settings.sampling == "random" and len(allowed) > settings.negatives:
            allowed = allowed[sorted(distinct(len(allowed), settings.negatives, settings.seed, row))]
        return allowed[np.argsort(-pool.scores[allowed], kind="stable")][: settings.negatives]

    def _allowed(self, scores: np.ndarray, positive: np.float32) -> np.ndarray:
        """Which scores are within all bounds, as positions."""
        settings = self.settings
        allowed = np.ones(len(scores), dtype=bool)
        outside: dict[str, Any] = {}
        if settings.absolute_margin is not None:
            outside["within_absolute_margin"] = scores + settings.absolute_margin > positive
        if settings.relative_margin is not None:
            highest = positive - abs(positive) * np.float32(settings.relative_margin)
            outside["within_relative_margin"] = scores > highest
        if settings.max_score is not None:
            outside["above_max_score"] = scores > settings.max_score
        if settings.min_score is not None:
            outside["below_min_score"] = scores < settings.min_score
        for name, is_out in outside.items():
            self.work.counts[name] += int(np.count_nonzero(allowed & is_out))
            allowed &= ~is_out
        return np.flatnonzero(allowed)


def _rounded(score: np.float32) -> float:
    """Six decimals: a float32 between 1 and 16 has no more."""
    return round(float(score), 6)


SEARCHED = 1024  # anchors searched at once
JUDGED = 16  # anchors judged, and their scores cached, at once


def mine(searcher: str, data: Sequence[str], output: str, settings: MiningSettings | None = None, **more: Any) -> Mined:
    """Mine negatives for the pairs of ``data`` and write ``{"anchor", "positive", "negatives"}`` rows to ``output``.

    Args:
        settings: default: SFS's recipe.
        more: further fields of :class:`MinedFiles`.

    Raises:
        UsageError: wrong names (all of them in one message), or a similarity or an index that does not fit.
        DataError: data, a corpus or an output that cannot be used.
        Interrupted: see :func:`mine_pairs`.
    """
    files = MinedFiles(searcher, data, output, **more)
    requests: list[tuple[Registry, str]] = [(retrieval.registry_of(searcher), searcher)]
    requests += [(training_data.registry, spec) for spec in data]
    if files.sim:
        requests.append((similarities.registry, files.sim))
    if files.judge:
        requests.append((reranking.registry_of(files.judge), files.judge))
    parse_all(requests)
    check_settings(files)
    pairs, candidates = read_pairs(data), None
    if files.corpus is not None:
        path = training_data.texts_file(files.corpus, corpus_file)
        candidates = [document.full_text for document in read_corpus(path)]
    options = {"sim": files.sim, "index": files.index, "precision": files.precision}
    loaded = retrieval.create(searcher, files.device, **options)
    judge = None if files.judge is None else reranking.create(files.judge, files.device)
    return mine_pairs(pairs, loaded, output, settings, candidates, judge)


def mine_pairs(
    pairs: Sequence[Pair],
    searcher: Searcher,
    output: str,
    settings: MiningSettings | None = None,
    candidates: Sequence[str] | None = None,
    judge: Reranker | None = None,
) -> Mined:
    """Mine negatives for ``pairs`` and write them to ``output``, whole or not at all, in the order of ``pairs``.

    A judge's scores are cached in the folder ``OUTPUT.work`` until the output is written: the same call after a break
    resumes from there, to the same bytes. Standard output, pipes and devices have no such folder.

    Raises:
        UsageError: a searcher that needs more than texts.
        DataError: no candidates, an output that cannot be written, or embeddings or scores that are not finite.
        Interrupted: Ctrl-C; the judge's scores are cached.
    """
    settings = settings or MiningSettings()
    check_file(output)
    work = MiningWork(pairs, candidates, settings)
    folder = None if judge is None else folder_beside(output)
    with scores_in(folder, "mining", "the judge's scores") as store:
        index = searcher.index(TextList(work.documents.texts[: work.candidates]))
        pools = _search(work, index, settings)
        if judge is not None:
            pools = _judged(pools, work, KeptReranker(judge, store, within=True))
        rows = MinedRows(work, settings)
        with progress("mining", len(work.pairs), "rows") as advance:
            write_jsonl(output, rows.all(pools, advance))
    return Mined(
        encoder=searcher.spec,
        similarity=searcher.similarity,
        judge=None if judge is None else judge.spec,
        settings=settings,
        counts={name: work.counts[name] for name in COUNTS},
        **rows.means,
    )


def _search(work: MiningWork, index: Index, settings: MiningSettings) -> Iterator[Pool]:
    """The pool of each anchor, in the order of the anchors."""
    documents = work.documents.texts
    for start in range(0, len(work.anchors), SEARCHED):
        anchors = range(start, min(start + SEARCHED, len(work.anchors)))
        depth = settings.last_rank + max(len(work.excluded[anchor]) for anchor in anchors)
        results = index.search(TextList(work.anchors.texts[start : anchors.stop]), depth)
        row_pairs = [(anchor, document) for anchor in anchors for document in work.scored[anchor]]
        queries = TextList(work.anchors.texts[anchor] for anchor, _ in row_pairs)
        pair_scores = index.score_pairs(queries, TextList(documents[document] for _, document in row_pairs))
        row_scores: dict[int, dict[int, np.float32]] = {anchor: {} for anchor in anchors}
        for (anchor, document), score in zip(row_pairs, pair_scores, strict=True):
            row_scores[anchor][document] = score
        for anchor, (scores, positions) in zip(anchors, results, strict=True):
            is_candidate = ~np.isin(positions, list(work.excluded[anchor]))
            ranked = np.flatnonzero(is_candidate)
            end = ranked[settings.last_rank] if len(ranked) > settings.last_rank else len(is_candidate)
            work.counts["excluded"] += int(np.count_nonzero(~is_candidate[:end]))
            pool = ranked[settings.first_rank - 1 : settings.last_rank]
            yield Pool(positions[pool], scores[pool], row_scores[anchor])


def _judged(pools: Iterator[Pool], work: MiningWork, judge: KeptReranker) -> Iterator[Pool]:
    """The same pools with the judge's scores. Each anchor's pool and the documents of its rows are a list, best
    first."""
    anchor = 0
    while batch := list(islice(pools, JUDGED)):
        queries = work.anchors.texts[anchor : anchor + len(batch)]
        orders, lists = [], []
        for pool in batch:
            order = np.argsort(-np.array([*pool.scores, *pool.row_scores.values()]), kind="stable")
            positions = np.array([*pool.pool, *pool.row_scores])[order]
            orders.append(order)
            lists.append([work.documents.texts[position] for position in positions])
        for pool, order, judged in zip(batch, orders, judge.rank_lists(queries, lists), strict=True):
            scores, row_scores = np.split(judged[np.argsort(order)], [len(pool.pool)])
            yield Pool(pool.pool, scores, dict(zip(pool.row_scores, row_scores, strict=True)))
        anchor += len(batch)
