"""Hard negatives for pairs: texts that a similarity ranks high for an anchor and that are not its positive.

De Souza P. Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative mining", 2024;
the defaults are the recipe of SFS, B.2: the top 7 of a search over the whole corpus, at least 0.04 below the positive.
Any encoder and any similarity of the registry, and a reranker as judge if wanted, in this order:

1. search: all candidates are ranked for every anchor; the anchor's text, all its known positives and its given
   negatives are taken out, compared without regard to white space;
2. rank range: of what is left, the candidates at ranks ``first_rank`` to ``last_rank`` (from 1) are the pool;
3. judge: if there is one, its scores take the place of the similarity's, in the pool and for the positives;
4. margins: a candidate stays if ``score + absolute_margin ≤ positive``,
   ``score ≤ positive − relative_margin·|positive|`` and ``min_score ≤ score ≤ max_score``, where ``positive`` is the
   score of the row's own positive;
5. sampling: the best of them (``top``), or any (``random``).

A margin is on the scale of the scores: 0.04 fits cosine, and is next to nothing for inner products in the hundreds. The
relative margin is a share of the positive's size, so it also asks for lower scores where scores are negative (minus a
distance). Both are computed as ``sentence_transformers.util.mine_hard_negatives`` does. It differs where an anchor has
several positives (it takes the lowest of their scores for all rows), and in counting ranks after the margins.
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retrokit import encoders, reranking, similarities
from retrokit.augmentation.draws import distinct
from retrokit.data import pairs as training_data
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.jsonl import write_jsonl
from retrokit.data.outputs import check_file, locked, paths_in
from retrokit.data.pairs import Pair, read_source
from retrokit.data.shards import Shards
from retrokit.encoders.base import Encoder
from retrokit.errors import DataError, Interrupted, UsageError
from retrokit.notices import Advance, notice, progress
from retrokit.registry import Registry, parse_all
from retrokit.reranking.base import Reranker
from retrokit.reranking.kept import KeptReranker
from retrokit.retrieval.exact import top_k
from retrokit.similarities.base import Role, Similarity

SHARD = 1024  # texts encoded, and kept on disk, at once
SEARCHED = 1024  # anchors searched at once
JUDGED = 16  # anchors judged, and their scores kept on disk, at once

SAMPLINGS = ("top", "random")

COUNTS = (
    *("rows", "anchors", "candidates", "candidates_repeated", "candidates_without_text", "positives_not_candidates"),
    *("excluded", "within_absolute_margin", "within_relative_margin", "above_max_score", "below_min_score"),
    *("negatives", "rows_complete", "rows_short", "rows_without", "rows_dropped"),
)


@dataclass(frozen=True)
class MiningSettings:
    """Which candidates become negatives; the defaults are those of SFS, B.2. ``None`` turns a bound off.

    ``keep_negatives`` puts the mined negatives after those that a row has (which do not count as any of the wanted),
    else they replace them. ``drop_rows_without`` leaves rows for which nothing was found out. ``scores`` adds
    ``positive_score`` and ``negative_scores`` to each row.

    Raises:
        UsageError: a value out of its range.
    """

    negatives: int = 7
    sampling: str = "top"
    first_rank: int = 1
    last_rank: int = 100
    absolute_margin: float | None = 0.04
    relative_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    keep_negatives: bool = True
    drop_rows_without: bool = False
    scores: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise UsageError(f"negatives must be at least 1, not {self.negatives}")
        if self.sampling not in SAMPLINGS:
            raise UsageError(f"sampling {self.sampling!r} is none of {', '.join(SAMPLINGS)}")
        if not 1 <= self.first_rank <= self.last_rank:
            raise UsageError(f"ranks {self.first_rank} to {self.last_rank} are no range from 1 upwards")
        window = self.last_rank - self.first_rank + 1
        if self.negatives > window:
            raise UsageError(f"{self.negatives} negatives cannot come from {window} ranks; widen the range of ranks")
        for name in ("absolute_margin", "relative_margin"):
            margin = getattr(self, name)
            if margin is not None and not 0 <= margin < math.inf:
                raise UsageError(f"{name} must be 0 or more, not {margin}")
        for name in ("max_score", "min_score"):
            bound = getattr(self, name)
            if bound is not None and not math.isfinite(bound):
                raise UsageError(f"{name} must be a finite number, not {bound}")
        if self.max_score is not None and self.min_score is not None and self.min_score > self.max_score:
            raise UsageError(f"min_score {self.min_score} is above max_score {self.max_score}")
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True)
class Mined:
    """What was mined. ``counts`` has the keys

    rows, anchors, candidates (distinct texts searched), candidates_repeated, candidates_without_text,
    positives_not_candidates (known positives that the corpus does not hold; their scores count all the same),
    excluded (anchors, known positives and given negatives met among the best candidates),
    within_absolute_margin, within_relative_margin, above_max_score, below_min_score (candidates of rows that each bound
    took out, in this order), negatives (mined), rows_complete (all wanted negatives), rows_short (some), rows_without
    (none) and rows_dropped.

    The means are over rows and over mined negatives; ``None`` where there are none.
    """

    encoder: str
    similarity: str
    judge: str | None
    settings: MiningSettings
    counts: dict[str, int]
    mean_positive_score: float | None
    mean_negative_score: float | None

    def summary(self) -> str:
        """What came of it, in a line."""
        counts, wanted = self.counts, self.settings.negatives
        line = f"{counts['negatives']:,} negatives for {counts['rows']:,} rows from {counts['candidates']:,} candidates"
        if counts["rows_short"]:
            line += f"; {counts['rows_short']:,} rows got fewer than {wanted}"
        if counts["rows_without"]:
            fate = "left out" if counts["rows_dropped"] else "kept without"
            line += f"; {counts['rows_without']:,} rows got none ({fate})"
        if self.mean_positive_score is not None and self.mean_negative_score is not None:
            line += f"; mean score {self.mean_negative_score:.3f}, of positives {self.mean_positive_score:.3f}"
        return line

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return asdict(self)


def mine(
    encoder: str,
    data: Sequence[str],
    output: str,
    *,
    sim: str | None = None,
    corpus: str | None = None,
    judge: str | None = None,
    settings: MiningSettings | None = None,
    precision: str = "auto",
    device: str | None = None,
) -> Mined:
    """Mine negatives for the pairs of ``data`` and write ``{"anchor", "positive", "negatives"}`` rows to ``output``.

    Args:
        encoder: spec of the encoder.
        data: specs of training data (pairs, with or without negatives); repeated pairs are left out.
        output: a JSONL file, ``.gz`` too, or ``-``.
        sim: spec of the similarity; default: the encoder's own.
        corpus: the candidates: a JSONL corpus or a BEIR folder; default: all positives and negatives of ``data``.
        judge: spec of a reranker, whose scores then decide within the range of ranks.
        settings: default: SFS's recipe.
        precision: of the encoding.
        device: default: the best there is.

    Raises:
        UsageError: wrong names (all of them in one message), or a similarity that does not fit the encoder.
        DataError: data, a corpus or an output that cannot be used.
        Interrupted: see :func:`mine_pairs`.
    """
    settings = settings or MiningSettings()
    requests: list[tuple[Registry, str]] = [(encoders.registry, encoder)]
    requests += [(training_data.registry, spec) for spec in data]
    requests += [
        (registry, spec) for registry, spec in ((similarities.registry, sim), (reranking.registry, judge)) if spec
    ]
    check_file(output, paths_in(parse_all(requests)) + ([] if corpus is None else [corpus]))
    if [*data, corpus].count("-") > 1:
        raise UsageError("standard input can be read once only")
    pairs = _read_pairs(data)
    candidates = None if corpus is None else read_candidates(corpus)
    loaded: Encoder = encoders.registry.create(encoder, device=device)
    similarity = loaded.similarity_of(sim)
    reranker: Reranker | None = None if judge is None else reranking.registry.create(judge, device=device)
    return mine_pairs(pairs, loaded, similarity, output, settings, candidates, reranker, precision)


def _read_pairs(data: Sequence[str]) -> list[Pair]:
    pairs: dict[Pair, None] = {}
    for spec in data:
        source = read_source(spec, "pairs")
        if source.weight != 1 or source.query_prompt is not None or source.document_prompt is not None:
            raise UsageError(
                f"{spec}: mining takes every row once, as it is; weights are for mixing and training, "
                "and prompts are given to the encoder (ENCODER,query_prompt=…,document_prompt=…)"
            )
        pairs.update(dict.fromkeys(pair for pair in source.records if isinstance(pair, Pair)))
    return list(pairs)


def read_candidates(corpus: str) -> list[str]:
    """The texts of a JSONL corpus or of a BEIR folder's, each with its title before it, as retrieval reads them.

    Raises:
        DataError: no such corpus, or a wrong line.
    """
    return [document.full_text for document in read_corpus(training_data.texts_file(corpus, corpus_file))]


def mine_pairs(
    pairs: Sequence[Pair],
    encoder: Encoder,
    similarity: Similarity,
    output: str,
    settings: MiningSettings | None = None,
    candidates: Sequence[str] | None = None,
    judge: Reranker | None = None,
    precision: str = "auto",
) -> Mined:
    """Mine negatives for ``pairs`` and write them to ``output``, whole or not at all, in the order of ``pairs``.

    Texts that differ in white space only are one. Embeddings and the judge's scores are kept in the folder
    ``OUTPUT.work`` until the output is written: the same call after a break goes on from there, to the same bytes. With
    ``output`` standard output, a pipe or a device nothing is kept. In memory: the texts, and the embeddings in float32.

    Raises:
        UsageError: the similarity does not fit the encoder.
        DataError: no candidates, an output that cannot be written, or embeddings or scores that are not finite.
        Interrupted: Ctrl-C; what is done is kept.
    """
    settings = settings or MiningSettings()
    check_file(output)
    encoder.use_with(similarity)
    work = _Work(pairs, candidates, settings)
    folder = None if _is_stream(output) else Path(f"{output}.work")
    with locked(folder) if folder is not None else nullcontext():
        store = Shards(folder)
        if store.goes_on:
            notice(f"going on with what is kept in {folder}")
        try:
            mined = _mine(work, encoder, similarity, output, settings, judge, precision, store)
        except KeyboardInterrupt:
            kept = "nothing is kept" if folder is None else f"what is done is kept in {folder}"
            raise Interrupted(f"mining stopped; {kept}") from None
        store.remove()
    return mined


def _is_stream(output: str) -> bool:
    return output == "-" or (os.path.exists(output) and not os.path.isfile(output))


# --- what has to be done


def _key(text: str) -> bytes:
    """Equal for texts that differ in white space only."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest()


class _Texts:
    """Distinct texts, each known by its position."""

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


class _Work:
    """Anchors, documents and which belong together, as positions; the first ``candidates`` documents are searched."""

    def __init__(self, pairs: Sequence[Pair], candidates: Sequence[str] | None, settings: MiningSettings) -> None:
        self.pairs = pairs
        self.anchors, self.documents = _Texts(), _Texts()
        self.counts: Counter[str] = Counter(rows=len(pairs))
        self._add_candidates(candidates if candidates is not None else _texts_of(pairs))
        self.candidates = len(self.documents)
        if not self.candidates:
            raise DataError("mining", "there are no candidates: the corpus holds no text")
        self.anchor_of = [self.anchors.add(pair.anchor) for pair in pairs]
        self.positive_of = [self.documents.add(pair.positive) for pair in pairs]
        self.excluded: list[set[int]] = [set() for _ in range(len(self.anchors))]
        self.own: list[dict[int, None]] = [{} for _ in range(len(self.anchors))]
        for row, pair in enumerate(pairs):
            self._add_row(pair, self.anchor_of[row], self.positive_of[row], settings)
        outside = {position for position in self.positive_of if position >= self.candidates}
        self.counts.update(anchors=len(self.anchors), candidates=self.candidates, positives_not_candidates=len(outside))

    def _add_candidates(self, texts: Iterable[str]) -> None:
        for text in texts:
            before = len(self.documents)
            if not text.strip():
                self.counts["candidates_without_text"] += 1
            elif self.documents.add(text) < before:
                self.counts["candidates_repeated"] += 1

    def _add_row(self, pair: Pair, anchor: int, positive: int, settings: MiningSettings) -> None:
        excluded = [positive, self.documents.find(pair.anchor)]
        self.own[anchor][positive] = None
        if settings.keep_negatives:
            if settings.scores:
                self.own[anchor].update(dict.fromkeys(self.documents.add(text) for text in pair.negatives))
            excluded += [self.documents.find(text) for text in pair.negatives]
        self.excluded[anchor].update(found for found in excluded if found is not None and found < self.candidates)


def _texts_of(pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        yield pair.positive
        yield from pair.negatives


# --- search and judge


@dataclass
class _Found:
    """For one anchor: the pool (positions of documents) and its scores, and the scores of the documents that its own
    rows hold."""

    pool: np.ndarray
    scores: np.ndarray
    own: dict[int, np.float32]


def _mine(
    work: _Work,
    encoder: Encoder,
    similarity: Similarity,
    output: str,
    settings: MiningSettings,
    judge: Reranker | None,
    precision: str,
    store: Shards,
) -> Mined:
    documents = _embed(work.documents.texts, encoder, "document", precision, store)
    anchors = _embed(work.anchors.texts, encoder, "query", precision, store)
    found = _search(work, anchors, documents, similarity, settings, encoder.device)
    if judge is not None:
        found = _judged(found, work, judge, store)
    rows = _Rows(work, settings)
    with progress("mining", len(work.pairs), "rows") as advance:
        write_jsonl(output, rows.made(found, advance))
    return Mined(
        encoder=encoder.spec,
        similarity=similarity.spec,
        judge=None if judge is None else judge.spec,
        settings=settings,
        counts={name: work.counts[name] for name in COUNTS},
        mean_positive_score=rows.positives.mean,
        mean_negative_score=rows.negatives.mean,
    )


def _embed(texts: Sequence[str], encoder: Encoder, role: Role, precision: str, store: Shards) -> np.ndarray:
    """Embeddings float32 ``[n, d]``, made and kept shard by shard."""
    about = (encoder.key(precision), role)
    embeddings = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    with progress(f"encoding {role} texts", len(texts), "texts") as advance:
        for start in range(0, len(texts), SHARD):
            part = texts[start : start + SHARD]
            shape = (len(part), encoder.dimension)
            make = partial(encoder.embed, part, role, precision)
            embeddings[start : start + len(part)] = store.array((*about, *part), shape, make)
            advance(len(part))
    return embeddings


def _search(
    work: _Work,
    anchors: np.ndarray,
    documents: np.ndarray,
    similarity: Similarity,
    settings: MiningSettings,
    device: torch.device,
) -> Iterator[_Found]:
    """What each anchor finds, in the order of the anchors."""
    on_cpu = copy.deepcopy(similarity).cpu()  # the caller's stays where it is
    candidates = documents[: work.candidates]
    for start in range(0, len(anchors), SEARCHED):
        numbers = range(start, min(start + SEARCHED, len(anchors)))
        depth = settings.last_rank + max(len(work.excluded[anchor]) for anchor in numbers)
        scores, positions = top_k(similarity, anchors[numbers.start : numbers.stop], candidates, depth, device)
        own = _own_scores(work, anchors, documents, on_cpu, numbers)
        for row, anchor in enumerate(numbers):
            is_left = ~np.isin(positions[row], list(work.excluded[anchor]))
            ranked = np.flatnonzero(is_left)
            end = ranked[settings.last_rank] if len(ranked) > settings.last_rank else len(is_left)
            work.counts["excluded"] += int(np.count_nonzero(~is_left[:end]))
            pool = ranked[settings.first_rank - 1 : settings.last_rank]
            yield _Found(positions[row][pool], scores[row][pool], own[row])


@torch.inference_mode()
def _own_scores(
    work: _Work, anchors: np.ndarray, documents: np.ndarray, similarity: Similarity, numbers: range
) -> list[dict[int, np.float32]]:
    """Of each numbered anchor, the scores with the documents that its own rows hold."""
    wanted = [(anchor, document) for anchor in numbers for document in work.own[anchor]]
    made: list[dict[int, np.float32]] = [{} for _ in numbers]
    for start in range(0, len(wanted), SEARCHED):
        part = wanted[start : start + SEARCHED]
        of_anchors, of_documents = (list(side) for side in zip(*part, strict=True))
        scores = similarity.score_pairs(anchors[of_anchors], documents[of_documents]).numpy()
        for (anchor, document), score in zip(part, scores, strict=True):
            made[anchor - numbers.start][document] = score
    return made


def _judged(found: Iterator[_Found], work: _Work, judge: Reranker, store: Shards) -> Iterator[_Found]:
    """The same pools with the judge's scores. Each anchor's pool and own documents are a list, best first."""
    kept = KeptReranker(judge, store, within=True)
    anchor = 0
    while batch := list(islice(found, JUDGED)):
        queries = work.anchors.texts[anchor : anchor + len(batch)]
        orders = [np.argsort(-np.array([*item.scores, *item.own.values()]), kind="stable") for item in batch]
        lists = [
            [work.documents.texts[place] for place in np.array([*item.pool, *item.own])[order]]
            for item, order in zip(batch, orders, strict=True)
        ]
        for item, order, judged in zip(batch, orders, kept.rank_lists(queries, lists), strict=True):
            pool, own = np.split(judged[np.argsort(order)], [len(item.pool)])
            yield _Found(item.pool, pool, dict(zip(item.own, own, strict=True)))
        anchor += len(batch)


# --- choice


@dataclass
class _Mean:
    """The mean of what was added; ``None`` of nothing."""

    total: float = 0.0
    count: int = 0

    def add(self, values: Sequence[float]) -> None:
        self.total += sum(values)
        self.count += len(values)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class _Rows:
    """Makes the rows of the output, and counts."""

    def __init__(self, work: _Work, settings: MiningSettings) -> None:
        self.work, self.settings = work, settings
        self.positives, self.negatives = _Mean(), _Mean()

    def made(self, found: Iterator[_Found], advance: Advance) -> Iterator[dict[str, Any]]:
        """The rows in order; what an anchor found is held until its last row."""
        held: dict[int, _Found] = {}
        left = Counter(self.work.anchor_of)
        for row, anchor in enumerate(self.work.anchor_of):
            if anchor not in held:  # anchors are numbered in the order in which rows first name them
                held[anchor] = next(found)
            made = self._row(row, held[anchor])
            left[anchor] -= 1
            if not left[anchor]:
                del held[anchor]
            advance(1)
            if made is not None:
                yield made

    def _row(self, row: int, found: _Found) -> dict[str, Any] | None:
        pair = self.work.pairs[row]
        positive = found.own[self.work.positive_of[row]]
        chosen = self._sampled(row, found.scores, self._allowed(found.scores, positive))
        scores = [_rounded(score) for score in found.scores[chosen]]
        self._count(len(chosen))
        self.positives.add([float(positive)])
        self.negatives.add(scores)
        kept = pair.negatives if self.settings.keep_negatives else ()
        negatives = [*kept, *(self.work.documents.texts[document] for document in found.pool[chosen])]
        if not negatives and self.settings.drop_rows_without:
            self.work.counts["rows_dropped"] += 1
            return None
        made: dict[str, Any] = {"anchor": pair.anchor, "positive": pair.positive, "negatives": negatives}
        if self.settings.scores:
            of_kept = [_rounded(found.own[self.work.documents.add(text)]) for text in kept]
            made |= {"positive_score": _rounded(positive), "negative_scores": [*of_kept, *scores]}
        return made

    def _allowed(self, scores: np.ndarray, positive: np.float32) -> np.ndarray:
        """Which scores are within all bounds, as positions."""
        wanted = self.settings
        too_high_or_low = {
            "within_absolute_margin": wanted.absolute_margin is not None and scores + wanted.absolute_margin > positive,
            "within_relative_margin": wanted.relative_margin is not None
            and scores > positive - abs(positive) * np.float32(wanted.relative_margin),
            "above_max_score": wanted.max_score is not None and scores > wanted.max_score,
            "below_min_score": wanted.min_score is not None and scores < wanted.min_score,
        }
        allowed = np.ones(len(scores), dtype=bool)
        for name, is_out in too_high_or_low.items():
            self.work.counts[name] += int(np.count_nonzero(allowed & is_out))
            allowed &= ~np.asarray(is_out)
        return np.flatnonzero(allowed)

    def _sampled(self, row: int, scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """The wanted number of allowed positions, best score first; of equal scores the better rank first."""
        wanted = self.settings.negatives
        if self.settings.sampling == "random" and len(allowed) > wanted:
            allowed = allowed[sorted(distinct(len(allowed), wanted, self.settings.seed, row))]
        return allowed[np.argsort(-scores[allowed], kind="stable")][:wanted]

    def _count(self, chosen: int) -> None:
        wanted = self.settings.negatives
        outcome = "rows_complete" if chosen == wanted else "rows_short" if chosen else "rows_without"
        self.work.counts.update({"negatives": chosen, outcome: 1})


def _rounded(score: np.float32) -> float:
    """Six decimals: a float32 between 1 and 16 has no more."""
    return round(float(score), 6)
