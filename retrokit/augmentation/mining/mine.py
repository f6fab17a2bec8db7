"""Search, judge and choose: the whole of mining, from specs or from what they name."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from retrokit import similarities
from retrokit.augmentation.mining.choice import MinedRows, Pool
from retrokit.augmentation.mining.settings import COUNTS, Mined, MinedFiles, MiningSettings
from retrokit.augmentation.mining.work import MiningWork
from retrokit.core.errors import UsageError
from retrokit.core.notices import progress
from retrokit.core.outputs import check_file, check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.data import pairs as training_data
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_pairs
from retrokit.data.training_rows import Pair
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.kept import KeptReranker, folder_beside, scores_in
from retrokit.ranking.retrieval.base import Index, Searcher, TextList

SEARCHED = 1024  # anchors searched at once
JUDGED = 16  # anchors judged, and their scores kept on disk, at once


def mine(searcher: str, data: Sequence[str], output: str, settings: MiningSettings | None = None, **more: Any) -> Mined:
    """Mine negatives for the pairs of ``data`` and write ``{"anchor", "positive", "negatives"}`` rows to ``output``.

    Args:
        searcher: spec of an encoder, or of another searcher.
        data: specs of training data (pairs, with or without negatives); repeated pairs are left out.
        output: a JSONL file, ``.gz`` too, or ``-``.
        settings: default: SFS's recipe.
        more: fields of :class:`MinedFiles`: ``sim``, ``index``, ``corpus``, ``judge``, ``precision``, ``device``.

    Raises:
        UsageError: wrong names (all of them in one message), or a similarity or an index that does not fit.
        DataError: data, a corpus or an output that cannot be used.
        Interrupted: see :func:`mine_pairs`.
    """
    files = MinedFiles(searcher, data, output, **more)
    requests: list[tuple[Registry, str]] = [(retrieval.registry_of(searcher), searcher)]
    requests += [(training_data.registry, spec) for spec in data]
    requests += [(similarities.registry, files.sim)] if files.sim else []
    requests += [(reranking.registry_of(files.judge), files.judge)] if files.judge else []
    parse_all(requests)
    check_settings(files)
    if [*data, files.corpus].count("-") > 1:
        raise UsageError("standard input can be read once only")
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

    A judge's scores are kept in the folder ``OUTPUT.work`` until the output is written, and embeddings in the embedding
    cache: the same call after a break resumes from there, to the same bytes. With ``output`` standard output, a pipe or
    a device no scores are kept.

    Raises:
        UsageError: a searcher that needs more than texts.
        DataError: no candidates, an output that cannot be written, or embeddings or scores that are not finite.
        Interrupted: Ctrl-C; what is done is kept.
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
        numbers = range(start, min(start + SEARCHED, len(work.anchors)))
        depth = settings.last_rank + max(len(work.excluded[anchor]) for anchor in numbers)
        results = index.search(TextList(work.anchors.texts[start : numbers.stop]), depth)
        wanted = [(anchor, document) for anchor in numbers for document in work.own[anchor]]
        queries = TextList(work.anchors.texts[anchor] for anchor, _ in wanted)
        scores_of_own = index.score_pairs(queries, TextList(documents[document] for _, document in wanted))
        own: dict[int, dict[int, np.float32]] = {anchor: {} for anchor in numbers}
        for (anchor, document), score in zip(wanted, scores_of_own, strict=True):
            own[anchor][document] = score
        for anchor, (scores, positions) in zip(numbers, results, strict=True):
            is_left = ~np.isin(positions, list(work.excluded[anchor]))
            ranked = np.flatnonzero(is_left)
            end = ranked[settings.last_rank] if len(ranked) > settings.last_rank else len(is_left)
            work.counts["excluded"] += int(np.count_nonzero(~is_left[:end]))
            pool = ranked[settings.first_rank - 1 : settings.last_rank]
            yield Pool(positions[pool], scores[pool], own[anchor])


def _judged(pools: Iterator[Pool], work: MiningWork, judge: KeptReranker) -> Iterator[Pool]:
    """The same pools with the judge's scores. Each anchor's pool and own documents are a list, best first."""
    anchor = 0
    while batch := list(islice(pools, JUDGED)):
        queries = work.anchors.texts[anchor : anchor + len(batch)]
        orders = [np.argsort(-np.array([*item.scores, *item.own.values()]), kind="stable") for item in batch]
        lists = [
            [work.documents.texts[place] for place in np.array([*item.pool, *item.own])[order]]
            for item, order in zip(batch, orders, strict=True)
        ]
        for item, order, judged in zip(batch, orders, judge.rank_lists(queries, lists), strict=True):
            pool, own = np.split(judged[np.argsort(order)], [len(item.pool)])
            yield Pool(item.pool, pool, dict(zip(item.own, own, strict=True)))
        anchor += len(batch)
