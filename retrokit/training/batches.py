"""From sources to batches: which examples are together, and their tokens.

A batch contains examples of one pool: one source, or all sources as one mixture. An epoch is a function of the seed
and the epoch's number only, so that a resumed run has the same batches. Across processes the batch of a step is divided
into equal parts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.packed_records import distinct
from retrokit.data.pairs import Source
from retrokit.data.training_rows import Pair, ScoredPair, Unlabelled, same_kinds, text_id, texts_of_record
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from retrokit.augmentation.online import Augmentation, Masking
    from retrokit.training.loss import Guide

_T = TypeVar("_T")


class Example(NamedTuple):
    """One record, with ids of its texts: equal texts have equal ids."""

    source: int
    record: Pair | ScoredPair
    anchor_id: int
    document_ids: tuple[int, ...]
    epoch: int = 0


class TrainingSet(Dataset):
    """All records of all sources with ids of their texts; unlabelled texts become new pairs in every ``epoch``.

    ``positives`` are the known (anchor, document) pairs of all sources, as sorted codes int64 ``[n]``, so that none is
    taken for a negative.
    """

    def __init__(self, sources: Sequence[Source], augmentation: Augmentation | None = None, seed: int = 0) -> None:
        self.sources = list(sources)
        self.augmentation, self.seed, self.epoch = augmentation, seed, 0
        self.starts = [0, *accumulate(len(source.records) for source in sources)]
        self.positives = torch.from_numpy(distinct(np.concatenate([source.positives for source in sources])))

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, index: int) -> Example:
        source = bisect_right(self.starts, index) - 1
        records, position = self.sources[source].records, index - self.starts[source]
        record = records[position]
        anchor, documents = texts_of_record(record)
        if isinstance(record, Unlabelled):
            assert self.augmentation is not None
            # by its line in the file, as `retrokit augment` draws
            line = self.sources[source].places[position]
            record = Pair(*self.augmentation.pair(record.text, self.seed, self.epoch, line))
        return Example(source, record, text_id(anchor), tuple(map(text_id, documents)), self.epoch)


@dataclass(frozen=True)
class SourcePool:
    """Sources whose examples share batches; ``starts`` are the numbers of their first records."""

    sources: Sequence[Source]
    starts: Sequence[int]

    @property
    def name(self) -> str:
        """The names of its sources."""
        return " + ".join(source.name for source in self.sources)

    @property
    def records(self) -> int:
        """Records of its sources."""
        return sum(len(source.records) for source in self.sources)

    @property
    def taken(self) -> int:
        """Examples of an epoch: each source's records times its weight."""
        return sum(int(len(source.records) * source.weight) for source in self.sources)

    def order(self, random: np.random.Generator, count: int) -> np.ndarray:
        """``count`` numbers of records in random order, each as often as its source's weight asks for."""
        if len(self.sources) == 1:
            return _rounds(random, len(self.sources[0].records), count) + self.starts[0]
        orders = [
            start + _rounds(random, len(source.records), int(len(source.records) * source.weight))
            for source, start in zip(self.sources, self.starts, strict=True)
        ]
        return random.permutation(np.concatenate(orders))[:count]


def pools_of(data: TrainingSet, mix: bool) -> list[SourcePool]:
    """One pool of all sources (``mix``; COMP, D.1), or one for each.

    Raises:
        UsageError: one source to mix, or sources that differ in their prompts, or of texts and of images.
    """
    starts = data.starts[:-1]
    if mix and len(data.sources) == 1:
        raise UsageError("`mix=` is of several sources; give `data=` once more")
    if not mix:
        return [SourcePool([source], [start]) for source, start in zip(data.sources, starts, strict=True)]
    prompts = {(source.query_prompt, source.document_prompt) for source in data.sources}
    kinds = {same_kinds(source.records[0], None) for source in data.sources}
    for name, count in (("prompts", len(prompts)), ("kinds of items", len(kinds))):
        if count > 1:
            raise UsageError(f"`mix=`: the sources differ in their {name}; a batch has one")
    return [SourcePool(data.sources, starts)]


class Batches(Sampler[list[int]]):
    """Batches of one process: ``size`` examples of one pool, in an order that the seed and the epoch decide.

    An epoch contains every source's records ``weight`` times (a fraction: a random part of them), without the last,
    incomplete batch of a pool. With ``no_duplicates`` no text is in two examples of a batch of all processes; the
    remainder is left out.
    """

    def __init__(
        self,
        data: TrainingSet,
        size: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        no_duplicates: bool = False,
        mix: bool = False,
    ) -> None:
        self.data, self.size, self.seed, self.rank, self.world = data, size, seed, rank, world
        self.epoch, self.pools = 0, pools_of(data, mix)
        self._counts = [pool.taken // (size * world) for pool in self.pools]
        for pool, count in zip(self.pools, self._counts, strict=True):
            if count == 0:
                raise _too_large(pool, size, world)
        self._apart = [Apart(pool, size * world, seed) for pool in self.pools] if no_duplicates else []
        if no_duplicates:
            self._counts = [len(apart.first) for apart in self._apart]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, and of the texts' pairs."""
        self.epoch = self.data.epoch = epoch

    def __len__(self) -> int:
        return sum(self._counts)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        joint = self.size * self.world
        orders = [self._order(random, i, count * joint) for i, count in enumerate(self._counts)]
        turns = random.permutation(np.repeat(np.arange(len(orders)), self._counts))
        used = [0] * len(orders)
        for pool in turns:
            start = used[pool] + self.rank * self.size
            yield orders[pool][start : start + self.size].tolist()
            used[pool] += joint

    def _order(self, random: np.random.Generator, pool: int, count: int) -> np.ndarray:
        return self._apart[pool].order(random) if self._apart else self.pools[pool].order(random, count)


def _too_large(pool: SourcePool, size: int, world: int) -> UsageError:
    joint = f"{size} × {world} processes" if world > 1 else str(size)
    problem = f"a batch of {joint} is larger than its {pool.records} records"
    weights = [source.weight for source in pool.sources]
    if {*weights} != {1}:
        problem += f" at weight {', '.join(f'{weight:g}' for weight in weights)}"
    return UsageError(f"{pool.name}: {problem}; give a smaller `batch_size=`")


def _rounds(random: np.random.Generator, records: int, count: int) -> np.ndarray:
    """``count`` numbers of ``records``: all in random order, as often as needed."""
    return np.concatenate([random.permutation(records) for _ in range(max(1, -(-count // records)))])[:count]


class Apart:
    """Batches of a pool in which no text is in two examples.

    Every epoch has the same number: ``first [batches, size]`` are those of one order, and complete an epoch with fewer.
    """

    def __init__(self, pool: SourcePool, size: int, seed: int) -> None:
        self.size, self.pool = size, pool
        self.shared = _shared_texts(pool)
        self.first = self._fitted(np.random.default_rng(seed))
        if not len(self.first):
            few = f"its {pool.records} records fill no batch of {size} without duplicates"
            raise UsageError(f"{pool.name}: {few}; give a smaller `batch_size=`, or leave out `no_duplicates=`")
        if (remaining := pool.taken - self.first.size) >= size:
            notice(
                f"{pool.name}: {remaining} of {pool.taken} examples fit into no batch of an epoch without duplicates"
            )

    def order(self, random: np.random.Generator) -> np.ndarray:
        """Numbers of an epoch's records, batch after batch."""
        batches = self._fitted(random)
        if (missing := len(self.first) - len(batches)) > 0:
            batches = np.concatenate([batches, random.permutation(self.first)[:missing]])
        return batches[: len(self.first)].ravel()

    def _fitted(self, random: np.random.Generator) -> np.ndarray:
        """Full batches ``[n, size]`` of records in a random order, each in the first that has room and none of its
        texts."""
        batches: list[list[int]] = [[]]
        front = 0  # the first that has room
        used: dict[int, set[int]] = defaultdict(set)  # batches of a text
        lowest: dict[int, int] = defaultdict(int)  # the first of them that may take it still

        def takes(index: int, texts: tuple[int, ...]) -> bool:
            if len(batches[index]) == self.size:
                return False
            return not any(index in used[text] for text in texts)

        for record in self.pool.order(random, self.pool.taken).tolist():
            texts = self.shared.get(record, ())
            index = max([front, *(lowest[text] for text in texts)])
            while index < len(batches) and not takes(index, texts):
                index += 1
            if index == len(batches):
                batches.append([])
            batches[index].append(record)
            for text in texts:
                used[text].add(index)
                lowest[text] = max(front, lowest[text])
                while lowest[text] in used[text]:
                    lowest[text] += 1
            while front < len(batches) and len(batches[front]) == self.size:
                front += 1
        full = [batch for batch in batches if len(batch) == self.size]
        return np.array(full, dtype=np.int64).reshape(-1, self.size)


def _shared_texts(pool: SourcePool) -> dict[int, tuple[int, ...]]:
    """By the number of a record: the ids of its texts that other records have too; of all its texts if its source is
    repeated."""
    ids, owners, repeated = array("q"), array("q"), array("b")
    for source, start in zip(pool.sources, pool.starts, strict=True):
        records: Sequence[Any] = source.records
        for number, record in enumerate(records, start):
            anchor, documents = texts_of_record(record)
            record_ids = set(map(text_id, (anchor, *documents)))
            ids.extend(record_ids)
            owners.extend([number] * len(record_ids))
            repeated.extend([source.weight > 1] * len(record_ids))
    _, inverse, counts = np.unique(np.frombuffer(ids, dtype=np.int64), return_inverse=True, return_counts=True)
    shared: dict[int, tuple[int, ...]] = {}
    for index in np.flatnonzero(np.frombuffer(repeated, dtype=bool) | (counts[inverse] > 1)).tolist():
        shared[owners[index]] = (*shared.get(owners[index], ()), ids[index])
    return shared


@dataclass
class Collator:
    """Examples to features: ``{"query": {...}, "document": {...}}``, tokenised under their source's prompts.

    The documents are the examples' positives in order, then all their negatives. Equal texts have equal ``text_ids``.
    Scored pairs also have ``label`` ``[b]``; pairs that a teacher has scored, its scores ``[b, 1 + most negatives]``,
    the positive's first, padded with NaN.
    """

    preprocess: Callable[..., dict[str, Any]]
    sources: Sequence[Source]
    prompts: Mapping[str, str | None]
    max_length: int | None
    masking: Masking | None = None
    guide: Guide | None = None

    def __call__(self, examples: list[Example]) -> dict[str, Any]:
        source = self.sources[examples[0].source]
        records = [example.record for example in examples]
        batch: dict[str, Any] = {}
        labels = _labels(records)
        if labels is not None:
            batch["label"] = labels
        queries, documents = zip(*map(texts_of_record, records), strict=True)
        ids = [example.anchor_id for example in examples]
        query_prompt, document_prompt = self.prompts_of(source)
        batch["query"] = self._features(list(queries), "query", query_prompt, ids)
        ids = _positives_first([example.document_ids for example in examples])
        batch["document"] = self._features(_positives_first(documents), "document", document_prompt, ids)
        if self.masking is not None:
            # the mask depends on epoch, role and texts only
            for role in ("query", "document"):
                key = (examples[0].epoch, role, *batch["query"]["text_ids"].tolist())
                batch[role]["input_ids"] = self.masking(batch[role], key)
        return batch

    def prompts_of(self, source: Source) -> list[str | None]:
        """The prompts of a source's queries and of its documents: its own, else the encoder's."""
        by_role = {"query": source.query_prompt, "document": source.document_prompt}
        return [self.prompts[role] if prompt is None else prompt for role, prompt in by_role.items()]

    def _features(self, texts: list[str], role: Role, prompt: str | None, ids: list[int]) -> dict[str, Any]:
        limit = {"max_length": self.max_length} if self.max_length is not None else {}
        features = self.preprocess(texts, prompt=prompt, task=role, **limit)
        guided = {} if self.guide is None else {"guide": self.guide.prepared(texts, role)}
        return {**features, **guided, "task": role, "text_ids": torch.tensor(ids, dtype=torch.int64)}


def _labels(records: Sequence[Pair | ScoredPair]) -> torch.Tensor | None:
    """The scores of pairs ``[b]``, or a teacher's of each anchor's documents ``[b, 1 + most negatives]``."""
    scores = [record.score for record in records if isinstance(record, ScoredPair)]
    if scores:
        return torch.tensor(scores)
    taught = [torch.tensor(record.scores) for record in records if isinstance(record, Pair) and record.scores]
    return pad_sequence(taught, batch_first=True, padding_value=torch.nan) if taught else None


def _positives_first(lists: Sequence[Sequence[_T]]) -> list[_T]:
    """Each example's first document, then all others."""
    first = [documents[0] for documents in lists]
    return first + list(chain.from_iterable(documents[1:] for documents in lists))


class Loader(DataLoader):
    """A data loader of this process's part of every batch, with an epoch that can be set."""

    def __init__(
        self, data: TrainingSet, batches: Batches, collator: Callable[[list[Example]], dict[str, Any]]
    ) -> None:
        super().__init__(data, batch_sampler=batches, collate_fn=collator, pin_memory=torch.cuda.is_available())
        self.data = data

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


class Prefetcher:
    """The items of an iterator, each prepared in the background while the one before it is in use."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.batches = batches
        self._background = ThreadPoolExecutor(1, "batches")
        self._coming = self._background.submit(next, batches)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._coming.result()
        self._coming = self._background.submit(next, self.batches)
        return batch

    def wait(self) -> None:
        """Wait until the background is idle."""
        wait([self._coming])
