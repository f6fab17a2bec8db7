"""``vectors bridge``: a new encoder with the stored vectors of an old one, by a map learned from texts that both embed.

``into`` old: queries of the new encoder go into the old space, and a model folder has them next to the old documents.
``into`` new: the stored vectors go into the new space, as an export that the new encoder searches. No labels are used.
What is held out is measured by known-item search: a few words in a row of a text, as a query, look for the text."""

import copy
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules import Normalize, Router

from retrokit import encoders
from retrokit.core.errors import UsageError, disk_errors
from retrokit.core.notices import notice
from retrokit.core.outputs import check_name_of_model, check_settings, folder_in_the_making
from retrokit.core.registry import Spec
from retrokit.core.settings import taking
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_queries
from retrokit.data.exports import CHUNK, Export, ExportWriter, Quantization, open_export, step_of
from retrokit.data.jsonl import of_kind
from retrokit.data.pairs import texts_file
from retrokit.data.records import PrintedRecord, plain
from retrokit.data.runs import FINISHED, Run, write_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.towers import tower_of, with_modules
from retrokit.encoders.views import EncoderView
from retrokit.evaluation.comparison.comparison import Comparison, Evaluation
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.task import check_measured
from retrokit.evaluation.tasks.base import SearchTask
from retrokit.extensions.vectors.checks import check_documents, check_whole, search_tasks
from retrokit.extensions.vectors.maps import VectorMap, check_rank, fit
from retrokit.extensions.vectors.settings import BridgeSettings
from retrokit.ranking.export import Prepared
from retrokit.ranking.retrieval.files import exported_texts, texts_by_id
from retrokit.ranking.settings import ExportSettings
from retrokit.similarities.base import Role, Similarity
from retrokit.training.card import FRONT, similarity_section, use_section
from retrokit.training.model import build, export
from retrokit.training.run import provenance

HELD_OUT, TIMED, WORDS, BLOCK = 0.2, 64, (5, 20), 256
"""Share of the sample that no map is fitted to; texts whose embedding is timed; words of a known-item query; queries
that search together."""
ENOUGH, FEW = 0.98, 1 / 3
"""The share of the best that is enough; the share of what the space's own queries find below which the answer is no."""
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
"""Texts of the curve."""
AUTO = ("orthogonal", "affine")
"""Maps among which ``auto`` chooses."""


@dataclass(frozen=True)
class Bridged(PrintedRecord):
    """What a bridge is worth.

    Attributes:
        folder: the model folder (into old), or the export (into new).
        map: the one that was learned, of ``auto`` the one that finds most.
        texts: of the sample, a fifth of which is held out until the map is chosen.
        mrr: mean reciprocal rank of known-item search for held-out texts in the sample, by a map without them.
        mrr_unmapped: the same by the queries and documents of the encoder whose space it is.
        curve: ``texts`` and ``mrr`` of maps fitted to fewer texts.
        enough: the fewest texts with 98% of the best ``mrr``.
        bytes_saved: of vectors that need not be written; null (into new): as many are written.
        minutes_saved: of embedding, by the speed that was measured here.
        gained: share of what embedding again would gain, by task; ``None``: no gain is shown.
        verdict: what to do, in a sentence.
    """

    export: str
    encoder: str
    into: str
    map: str
    folder: str
    texts: int
    mrr: float
    mrr_unmapped: float
    curve: list[dict[str, float]]
    enough: int
    bytes_saved: int | None
    minutes_saved: float
    gained: dict[str, float | None]
    verdict: str
    evaluation: Evaluation | None = None

    @property
    def conclusion(self) -> str:
        return self.verdict

    def to_json(self) -> dict[str, Any]:
        evaluation = None if self.evaluation is None else self.evaluation.to_json()
        return {**plain(replace(self, evaluation=None)), "evaluation": evaluation}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Bridged":
        evaluation = plain.get("evaluation")
        bridged = super().from_json({**plain, "evaluation": None})
        return bridged if evaluation is None else replace(bridged, evaluation=Evaluation.from_json(evaluation))


@taking(BridgeSettings)
def bridge(settings: BridgeSettings) -> Bridged:
    """Learn the map, write the folder, and measure it.

    Raises:
        UsageError: an export of queries, chunks or fewer dimensions; texts that are not there; a similarity that is no
            inner product; or encoders that do not fit.
        DataError: files that cannot be read or written.
    """
    check_name_of_model(settings.output)
    check_settings(settings)
    with folder_in_the_making(settings.output) as staged:
        stored, new = open_export(settings.export), encoders.registry.create(settings.encoder, device=settings.device)
        queries = _queries(settings)
        _check(settings, stored, new, queries)
        old = _old(settings, stored, new) if settings.into == "old" else None
        rows, texts = _sample(stored, settings)
        sample = _learned_from(settings, stored.take(rows), texts, queries, new, old, stored)
        kind = max(AUTO if settings.map == "auto" else [settings.map], key=lambda name: sample.mrr(sample.fit(name)))
        curve = _curve(sample, kind)
        settings, fitted = replace(settings, map=kind), fit(kind, sample.source, sample.target, settings.seed)
        with disk_errors(settings.output):
            if old is None:
                _write_export(settings, stored, new, fitted, staged)
            else:
                _write_model(settings, stored, (old, new), fitted, staged)
    evaluation = _evaluated(settings, stored, new) if settings.on else None
    count, dtype = stored.note["count"], stored.note["dtype"]
    mrr, gained = curve[-1]["mrr"], _gained(evaluation)
    unmapped = sample.mrr(None)
    return Bridged(
        export=settings.export,
        encoder=settings.encoder,
        into=settings.into,
        map=kind,
        folder=settings.output,
        texts=len(rows),
        mrr=mrr,
        mrr_unmapped=unmapped,
        curve=curve,
        enough=_enough(curve),
        bytes_saved=Quantization(dtype, new.dimension).row_bytes * count if old is not None else None,
        minutes_saved=_seconds_per_text(new, texts[:TIMED], settings.precision) * count / 60,
        gained=gained,
        verdict=_verdict(mrr / unmapped, evaluation, gained),
        evaluation=evaluation,
    )


@dataclass(frozen=True)
class BridgeSample:
    """What a map is learned from and measured by.

    Attributes:
        source, target: rows of the texts in the two spaces, then those of queries.
        held: bool ``[texts]``, those that are held out.
        queries, prepared: of the held-out texts, by the new encoder, and prepared by that whose space it is.
        similarity: of the space.
        maps_queries: whether the map is of queries; else it is of documents.
    """

    source: np.ndarray
    target: np.ndarray
    held: np.ndarray
    queries: np.ndarray
    prepared: np.ndarray
    similarity: Similarity
    maps_queries: bool = True
    seed: int = 0

    def fit(self, kind: str, size: int | None = None) -> VectorMap:
        """A map of that kind from queries, and the first ``size`` texts that are not held out; ``None``: all."""
        rows = np.concatenate([np.flatnonzero(~self.held)[:size], np.arange(len(self.held), len(self.source))])
        return fit(kind, self.source[rows], self.target[rows], self.seed)

    def mrr(self, fitted: VectorMap | None) -> float:
        """Mean reciprocal rank of the held-out texts among all; without a map in a space of one encoder. An equal score
        counts as a better one."""
        documents, queries, texts = self.target[: len(self.held)], self.prepared, np.flatnonzero(self.held)
        if not self.maps_queries:
            mapped = documents if fitted is None else fitted(self.source)
            documents = _prepared(self.similarity, mapped, "document")
        elif fitted is not None:
            queries = _prepared(self.similarity, fitted(self.queries), "query")
        ranks = []
        for start in range(0, len(texts), BLOCK):
            scores, rows = queries[start : start + BLOCK] @ documents.T, texts[start : start + BLOCK]
            ranks.append((scores >= scores[np.arange(len(rows)), rows][:, None]).sum(axis=1))
        return float((1 / np.concatenate(ranks)).mean())


def _learned_from(
    settings: BridgeSettings,
    stored: np.ndarray,
    texts: Sequence[str],
    more: Sequence[str],
    new: Encoder,
    old: Encoder | None,
    like: Export,
) -> BridgeSample:
    """The sample: the ``stored`` rows of ``texts``, and ``more`` queries that ``old`` embeds too."""
    seed, unit = settings.seed, new.similarity.unit_length

    def embedded(encoder: Encoder, items: Sequence[str], role: Role, to_unit: bool) -> np.ndarray:
        raw = encoder.embed(items, role, settings.precision)
        return raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12) if to_unit else raw

    held = np.random.default_rng(seed).permutation(len(texts)) < max(2, int(HELD_OUT * len(texts)))
    parts = _parts([texts[row] for row in np.flatnonzero(held).tolist()], seed)
    queries = embedded(new, parts, "query", unit)
    if old is None:
        prepared = _prepared(new.similarity, queries, "query")
        rows = embedded(new, texts, "document", unit)
        return BridgeSample(stored, rows, held, queries, prepared, new.similarity, False, seed)
    similarity = old.similarity_of(like.note["similarity"]["spec"])
    source_rows = embedded(new, [*texts, *more], "query", unit)
    if more:
        rows = embedded(old, more, "query", similarity.unit_length)
        lengths = (np.linalg.norm(side, axis=1).mean() for side in (stored, rows))
        rows *= np.divide(*lengths)  # stored documents are prepared, or signs; so a query weighs as much as a text
        stored = np.concatenate([stored, rows])
    prepared = _prepared(similarity, old.embed(parts, "query", settings.precision), "query")
    return BridgeSample(source_rows, stored, held, queries, prepared, similarity, True, seed)


def _queries(settings: BridgeSettings) -> list[str]:
    """The queries that are learned from too."""
    if settings.queries is None:
        return []
    return [text for _, text in read_queries(texts_file(settings.queries, queries_file))]


def _parts(texts: Sequence[str], seed: int) -> list[str]:
    """:data:`WORDS` words in a row of each text."""
    random, parts = np.random.default_rng(seed), []
    for words in map(str.split, texts):
        count = min(len(words), int(random.integers(WORDS[0], WORDS[1], endpoint=True)))
        first = int(random.integers(0, len(words) - count, endpoint=True))
        parts.append(" ".join(words[first : first + count]))
    return parts


@torch.no_grad()
def _prepared(similarity: Similarity, rows: np.ndarray, role: Role) -> np.ndarray:
    prepared: np.ndarray = copy.deepcopy(similarity).cpu().prepare(torch.from_numpy(rows).float(), role).numpy()
    return prepared


def _curve(sample: "BridgeSample", kind: str) -> list[dict[str, float]]:
    """What maps fitted to fewer texts are worth."""
    count_to_learn = int((~sample.held).sum())
    sizes = [*(size for size in SIZES if size < count_to_learn), count_to_learn]
    return [{"texts": size, "mrr": sample.mrr(sample.fit(kind, size))} for size in sizes]


def _enough(curve: Sequence[Mapping[str, float]]) -> int:
    """The fewest texts whose map is nearly as good as the best."""
    best = max(point["mrr"] for point in curve)
    return next(int(point["texts"]) for point in curve if point["mrr"] >= ENOUGH * best)


def _check(settings: BridgeSettings, stored: Export, new: Encoder, queries: Sequence[str]) -> None:
    _check_export(stored)
    check_rank("map", settings.map, min(new.dimension, stored.note["encoder"]["dimension"]))
    if not new.similarity.factorable:
        raise UsageError(f"{new.spec}: {new.similarity.spec} is not an inner product of prepared embeddings")
    if settings.on and settings.into == "new":
        old, advice = stored.note["encoder"]["spec"], "put it back, or leave out `on=`, which measures it"
        encoders.create_for(stored.folder, old, settings.device, advice)
    tasks = search_tasks(settings.on, stored, "on", settings.device)
    if tasks:
        for metric in settings.metrics:
            check_measured(tasks, metric)
    for task in tasks:
        _warn_of_shared(task, {*queries})


def _warn_of_shared(task: SearchTask, learned: Set[str]) -> None:
    shared = sum(query in learned for query in task.queries)
    if shared:
        count = f"{shared:,} of {len(task.queries):,} queries"
        notice(f"{task.spec}: the bridge learns from {count} that measure it; give other `queries=`")


def _old(settings: BridgeSettings, stored: Export, new: Encoder) -> Encoder:
    """The encoder of the stored documents, if a model folder can have it."""
    advice = "put it back, or give `into=` new"
    old = encoders.create_for(stored.folder, stored.note["encoder"]["spec"], settings.device, advice)
    if stored.note["encoder"]["fingerprint"] not in (old.document_fingerprint(), old.fingerprint()):
        raise UsageError(f"{stored.folder}: was written by {old.spec}, whose weights or settings have changed")
    if (old.prompts["query"] or "") != (new.prompts["query"] or ""):
        raise UsageError(f"{new.spec}: puts another prompt before queries than {old.spec}; give `into=` new")
    check_documents(old)
    check_whole(old)
    check_whole(new)
    return old


def _check_export(stored: Export) -> None:
    if stored.note["role"] != "document":
        raise UsageError(f"{stored.folder}: contains embeddings of the role query; export documents")
    if stored.owners is not None:
        raise UsageError(f"{stored.folder}: contains chunks; export documents without chunks")
    if stored.note["encoder"]["dims"] != stored.note["encoder"]["dimension"] or stored.note["one_length"]:
        raise UsageError(f"{stored.folder}: was written with `dims=` or `one_length=`; export without them")


def _sample(stored: Export, settings: BridgeSettings) -> tuple[np.ndarray, list[str]]:
    """Rows of an even random sample, and their texts."""
    source = settings.texts or stored.note["source"]["spec"]
    count = stored.note["count"]
    rows = np.random.default_rng(settings.seed).choice(count, min(count, settings.sample), replace=False)
    ids = stored.ids_at(rows.tolist())
    if settings.texts is not None:
        texts = texts_by_id(texts_file(settings.texts, corpus_file), {*ids.values()})
    else:
        try:
            texts = exported_texts(stored, {*ids.values()})
        except UsageError as error:
            raise UsageError(f"{error}; give the texts of {stored.folder} as `texts=`") from error
    if missing := [id for id in ids.values() if id not in texts]:
        raise UsageError(f"{source}: lacks {len(missing):,} documents of {stored.folder}; give `texts=`")
    if len(rows) < 10:
        raise UsageError(f"{stored.folder}: {len(rows)} texts are too few to learn a map from; give more")
    return rows, [texts[ids[row]] for row in rows.tolist()]


def _write_model(
    settings: BridgeSettings, stored: Export, pair: tuple[Encoder, Encoder], fitted: VectorMap, staged: Path
) -> None:
    """A model folder: queries by the new encoder and the map, documents by the old encoder."""
    old, new = pair
    notes = {"bridged": _about(settings, stored, new), **provenance()}
    similarity = old.similarity_of(stored.note["similarity"]["spec"])
    start = old.to_train().model
    queries = [module.float() for module in tower_of(new.to_train().model, "query")]  # as the map is
    if new.similarity.unit_length:
        queries.append(Normalize())
    documents = [*tower_of(start, "document")]
    router = Router({"query": [*queries, *fitted.layers()], "document": documents}, default_route="document")
    last = list(build(old, similarity.spec)[0])[-1]
    export(with_modules(start, [router, last]), staged)
    card = _card(Path(settings.output).name, similarity, new.spec, old.spec, settings.map)
    (staged / "README.md").write_text(card, encoding="utf-8")
    files = sorted(path.name for path in staged.iterdir())
    write_run(Run(FINISHED, similarity.spec, new.spec, files=files, notes=notes), staged)


def _card(name: str, similarity: Similarity, new: str, old: str, kind: str) -> str:
    """The model card, as Markdown."""
    return f"""{FRONT}
# {name}

A dense text retriever: queries by `{new}`, mapped into the space of `{old}` by a map ({kind}) that retrokit learned.
Documents are embedded as by `{old}`, whose stored vectors it searches.

{similarity_section(similarity, "Scores with")}

{use_section(name, similarity)}
"""


def _about(settings: BridgeSettings, stored: Export, new: Encoder) -> dict[str, Any]:
    made_by = stored.note["encoder"]
    return {
        "map": settings.map,
        "from": {"spec": made_by["spec"], "fingerprint": made_by["fingerprint"]},
        "to": {"spec": new.spec, "fingerprint": new.fingerprint()},
        "sample": settings.sample,
        "seed": settings.seed,
    }


def _write_export(settings: BridgeSettings, stored: Export, new: Encoder, fitted: VectorMap, staged: Path) -> None:
    """An export of the mapped vectors, as the new encoder's, with the note of what they are."""
    prepared = Prepared(ExportSettings(settings.encoder, "", settings.output, device=settings.device), "document")

    def mapped(rows: np.ndarray) -> np.ndarray:
        return prepared.of_raw(fitted(stored.take(rows)).astype(np.float32))

    count, dtype = stored.note["count"], stored.note["dtype"]
    with ExportWriter(staged, Quantization(dtype, prepared.width), None) as writer:
        writer.calibrate(lambda: mapped(np.arange(0, count, step_of(count))))
        for start in range(0, count, CHUNK):
            rows = np.arange(start, min(start + CHUNK, count))
            writer.add([*stored.ids_at(rows.tolist()).values()], mapped(rows))
        about = {**prepared.describe(), "dtype": dtype, "shard": None, "source": stored.note["source"]}
        note = {
            "count": writer.count,
            "dimension": prepared.width,
            **about,
            "notes": {"bridged": _about(settings, stored, new)},
        }
        writer.finish(of_kind("export", note))


def _seconds_per_text(encoder: Encoder, texts: Sequence[str], precision: str) -> float:
    """Measured without the embedding cache."""
    computing = encoder.computing() if isinstance(encoder, EncoderView) else encoder
    computing.embed(texts[:1], "document", precision)
    start = time.perf_counter()
    computing.embed(texts, "document", precision)
    return (time.perf_counter() - start) / len(texts)


def _evaluated(settings: BridgeSettings, stored: Export, new: Encoder) -> Evaluation:
    """The old system, the bridged one, and the new encoder with documents embedded again."""

    def stored_by(encoder: str, folder: str) -> str:
        return str(Spec("dense", {"encoder": encoder, "export": folder}, positional="encoder"))

    old = stored_by(stored.note["encoder"]["spec"], settings.export)
    into_old = settings.into == "old"
    bridged = stored_by(settings.output, settings.export) if into_old else stored_by(settings.encoder, settings.output)
    systems = [old, bridged, settings.encoder]
    return evaluate(
        systems, settings.on, metrics=settings.metrics, precision=settings.precision, device=settings.device
    )


def _gained(evaluation: Evaluation | None) -> dict[str, float | None]:
    gained: dict[str, float | None] = {}
    if evaluation is None:
        return gained
    for task in evaluation.tasks:
        metric = evaluation.leading_metric(task)
        old, bridged, new = (system.metrics[metric] for system in evaluation.systems_on(task))
        gained[task] = (bridged - old) / (new - old) if _gains(_comparisons(evaluation, task)[1]) else None
    return gained


def _comparisons(evaluation: Evaluation, task: str) -> tuple[Comparison, Comparison]:
    """The bridged system and the new one against the old one."""
    metric = evaluation.leading_metric(task)
    bridged, new = (entry for entry in evaluation.part([task]).comparisons if entry.metric == metric)
    return bridged, new


def _gains(comparison: Comparison) -> bool:
    return comparison.significant and comparison.test.difference > 0


def _verdict(share: float, evaluation: Evaluation | None, gained: Mapping[str, float | None]) -> str:
    if evaluation is None:
        finds = f"known-item search finds {share:.0%} of what it finds without a bridge"
        return f"no: {finds}; embed again" if share < FEW else f"perhaps: {finds}; measure with `on=`"
    verdicts = []
    for task in evaluation.tasks:
        bridged, new = _comparisons(evaluation, task)
        if bridged.significant and bridged.test.difference < 0:
            verdict = "no: it is worse than the old system"
        elif not _gains(new):
            verdict = "no: not even embedding again is shown to be better than the old system"
        elif bridged.significant:
            verdict = f"yes: it has {gained[task] or 0:.0%} of what embedding again gains"
        else:
            verdict = "not shown: embedding again is better than the old system, and the bridge is not"
        verdicts.append(f"{task}: {verdict}")
    return "; ".join(verdicts)
