"""The contract of what ranks: a searcher makes documents searchable, and an index finds the best of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.frames import frame

if TYPE_CHECKING:
    from pandas import DataFrame

    from retrokit.data.exports import Export

OWN_SIMILARITY = "own"
"""The similarity in results of what is no encoder."""

Ranking = tuple[np.ndarray, np.ndarray]
"""Scores ``[n]`` of a query, best first, and positions int64 ``[n]`` in the documents."""


class Rankings(list[Ranking]):
    """The rankings of several queries, in their order."""

    def to_frame(self) -> DataFrame:
        """A row per query and ranked document: ``query`` and ``document`` by position from 0, ``rank`` from 1,
        ``score``."""
        return frame(
            {"query": query, "rank": rank, "document": document, "score": score}
            for query, (scores, documents) in enumerate(self)
            for rank, (score, document) in enumerate(zip(scores.tolist(), documents.tolist(), strict=True), start=1)
        )


class TextList(list[str]):
    """Texts, queries or documents, and their ids in the same order; no ids: they have none."""

    def __init__(self, texts: Iterable[str] = (), ids: Sequence[str] = ()) -> None:
        super().__init__(texts)
        self.ids = ids

    def at(self, positions: Sequence[int]) -> TextList:
        """The texts at these positions, with their ids."""
        return TextList((self[position] for position in positions), [self.ids[position] for position in positions])


@dataclass(frozen=True)
class Account:
    """A search in results: its ``configuration``, statistics of embeddings' ``norms``, ``counts`` of texts used or
    left out, and ``notes``, sentences that are printed below a table."""

    configuration: dict[str, Any] = field(default_factory=dict)
    norms: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Index(Protocol):
    """Documents that can be searched. A subclass gives :meth:`search` and :meth:`score_pairs`. ``unlisted`` has the
    scores of documents of a TREC run that are not in the corpus, by the ids of query and document. ``empty`` has the
    reason for no document in the last search, by the text of the query."""

    unlisted: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    empty: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def search(self, queries: TextList, k: int) -> Sequence[Ranking]:
        """At most ``k`` documents of each query, higher scores first; of equal scores the lower position, at the cut as
        well. Raises :class:`UsageError` for k below 1."""

    @abstractmethod
    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """Scores ``[n]`` of query i with text i, which need not be a document, on the scale of :meth:`search`; NaN:
        there is none. Raises :class:`UsageError` for different counts, or if only whole lists are scored."""

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> Sequence[Ranking]:
        """As :meth:`search`, where query i does not find the documents at the positions ``left_out[i]``."""
        longest = max(map(len, left_out), default=0)
        rankings = self.search(queries, k + longest)
        if not longest:
            return rankings
        return [without(ranking, out, k) for ranking, out in zip(rankings, left_out, strict=True)]

    def ready(self) -> Index:
        """The same documents, prepared for many searches of a few queries each."""
        return self

    def account(self) -> Account:
        """A report of its work so far."""
        return Account()


class FilteredIndex(Index):
    """An index with its own filter of documents. A subclass gives :meth:`search_without`, and inherits the search."""

    def search(self, queries: TextList, k: int) -> Sequence[Ranking]:
        return self.search_without(queries, k, [frozenset()] * len(queries))

    @abstractmethod
    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> Sequence[Ranking]: ...


@dataclass(frozen=True)
class TuningQueries:
    """Judged queries to tune on, other than those that are evaluated. ``measure`` takes their rankings, ``depth`` deep
    and without the positions ``left_out``, and gives a number; higher is better. ``about`` is for results."""

    documents: TextList
    queries: TextList
    left_out: Sequence[Set[int]]
    depth: int
    measure: Callable[[Sequence[Ranking]], float]
    about: dict[str, Any]


class Searcher(Protocol):
    """Ranks documents. A subclass gives :meth:`index` and :meth:`fingerprint`. ``similarity`` is its name in results;
    ``by_ids``: it ranks by ids, not by texts; ``has_whole_rankings``: they are there already, and none is
    cut. Documents that ``export`` contains are not embedded again."""

    spec: str
    by_ids: bool = False
    has_whole_rankings: bool = False
    export: Export | None = None
    similarity: str = OWN_SIMILARITY

    @abstractmethod
    def index(self, documents: TextList) -> Index:
        """Make documents searchable; what is heavy may wait for the first search. Raises :class:`UsageError` if it
        needs ids and these documents have none."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of all that decides a score except the documents."""

    def portable_fingerprint(self) -> str:
        """The same without precision, device, libraries and an export, which change a score by rounding only."""
        return self.fingerprint()

    def check(self, documents: TextList, queries: TextList) -> None:
        """Raise :class:`DataError` before any work for what it cannot rank."""
        return

    def over(self, export: Export) -> Index:
        """Make the documents of an export searchable, without their texts. By default a searcher needs texts, and
        raises :class:`UsageError`, as for an export that does not fit."""
        raise UsageError(f"{export.folder}: is searched with the encoder that wrote it, not with {self.spec}")

    def tuned(self, on: TuningQueries) -> Searcher:
        """The searcher with what its spec leaves open tuned on the queries ``on``."""
        return self

    def within(self, set_name: str) -> Searcher:
        """The searcher for one of several sets that are searched: their ids may be the same."""
        return self


def account_of(searcher: Searcher, index: Index) -> Account:
    """The account of ``index``, with the fingerprint of its ``searcher`` if it has no configuration. A configuration
    contains the notes, so that systems of several searchers keep those of each."""
    account = index.account()
    configuration = account.configuration or {"fingerprint": searcher.fingerprint()}
    if account.notes:
        configuration = {**configuration, "notes": [*account.notes]}
    return replace(account, configuration=configuration)


class Shared(Searcher):
    """A searcher over one task's documents that keeps its last search, for the first stage of several systems."""

    def __init__(self, searcher: Searcher) -> None:
        self.spec, self.similarity, self.by_ids = searcher.spec, searcher.similarity, searcher.by_ids
        self.has_whole_rankings = searcher.has_whole_rankings
        self._searcher, self.export = searcher, searcher.export
        self._index: _SharedIndex | None = None

    def index(self, documents: TextList) -> Index:
        if self._index is None:
            self._index = _SharedIndex(self._searcher, self._searcher.index(documents))
        return self._index

    def check(self, documents: TextList, queries: TextList) -> None:
        self._searcher.check(documents, queries)

    def within(self, set_name: str) -> Searcher:
        return Shared(self._searcher.within(set_name))

    def fingerprint(self) -> str:
        return self._searcher.fingerprint()

    def portable_fingerprint(self) -> str:
        return self._searcher.portable_fingerprint()


class _LastSearch(NamedTuple):
    """A search and its rankings."""

    queries: TextList
    k: int
    left_out: Sequence[Set[int]]
    rankings: Sequence[Ranking]


class _SharedIndex(FilteredIndex):
    """Keeps the last rankings and their account."""

    def __init__(self, searcher: Searcher, index: Index) -> None:
        self._searcher, self._index = searcher, index
        self._last: _LastSearch | None = None
        self._account = Account()

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> Sequence[Ranking]:
        last = self._last
        if last is None or last.queries is not queries or last.k < k or last.left_out != left_out:
            last = _LastSearch(queries, k, left_out, self._index.search_without(queries, k, left_out))
            self._last = last
            self._account = account_of(self._searcher, self._index)
            self.unlisted, self.empty = self._index.unlisted, self._index.empty
        return [(scores[:k], positions[:k]) for scores, positions in last.rankings]

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        return self._index.score_pairs(queries, texts)

    def account(self) -> Account:
        return self._account


def best_first(scores: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The order of documents by descending score ``[n]`` in single precision, as trec_eval compares; equal ones by
    ascending position.

    >>> best_first(np.array([1.0, 2.0, 1 + 1e-9]), np.array([3, 4, 5])).tolist()
    [1, 0, 2]
    """
    with np.errstate(over="ignore"):
        order: np.ndarray = np.lexsort([positions, -scores.astype(np.float32)])
    return order


def without(ranking: Ranking, left_out: Set[int], k: int) -> Ranking:
    """The ``k`` best of a ranking that are not among the positions ``left_out``."""
    scores, positions = ranking
    if left_out:
        is_kept = ~np.isin(positions, list(left_out))
        scores, positions = scores[is_kept], positions[is_kept]
    return scores[:k], positions[:k]


def check_k(k: int) -> None:
    """Raise :class:`UsageError` unless ``k`` is at least 1."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
