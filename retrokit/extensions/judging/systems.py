"""A test set as systems see it: how much of what they rank first is judged, and what the rest could change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.beir import RetrievalData
from retrokit.data.check import copies_of
from retrokit.data.jsonl import gathering
from retrokit.data.records import PrintedRecord
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.evaluate import evaluate_systems
from retrokit.evaluation.settings import EvaluationSettings
from retrokit.extensions.judging.estimate import Estimates, Predictor, draw_pairs, estimate
from retrokit.extensions.judging.judged_splits import BEIR, JudgedSplit, completed, is_test_set
from retrokit.extensions.judging.plain_queries import rank, read_without_judgements
from retrokit.extensions.judging.prediction_powered import FEWEST, PoweredEstimate
from retrokit.extensions.judging.settings import EstimateSettings, PooledSettings, PoolSettings
from retrokit.extensions.judging.unjudged import JudgingPool, Runs, bounds, fraction_of, pool_of
from retrokit.extensions.judging.verdicts import (
    PairToJudge,
    RelevanceVerdict,
    Verdicts,
    check_empty,
    check_zeros,
    digest_of,
    read_relevance,
    write_pairs,
)
from retrokit.extensions.judging.worth import Effort, Worth, decide, over_queries
from retrokit.metrics.ranking import evaluate_run, mean
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.kept import KeptReranker, folder_beside, scores_in

if TYPE_CHECKING:
    from retrokit.core.shards import Shards

WANTED = 0.02
"""Half the width of an interval that is worth having, for the number of verdicts that is recommended."""


@dataclass(frozen=True)
class CorrectedMetric:
    """A metric of a system, or the difference from the first one.

    Attributes:
        against: the first system, of a difference.
        judged: share of its documents down to the metric's cut-off that is judged; ``None`` of a difference.
        value: as judged.
        lowest, highest: whichever unjudged documents are relevant.
        copies: if exact copies of relevant documents count as relevant too; ``None`` without any.
        estimate: by the verdicts, with its 95% interval; ``None`` without, or with too few.
    """

    metric: str
    system: str
    against: str | None
    judged: float | None
    value: float
    lowest: float
    highest: float
    copies: float | None = None
    estimate: PoweredEstimate | None = None


@dataclass(frozen=True)
class Unjudged(PrintedRecord):
    """What the judgements of a test set do not know.

    Attributes:
        depth: documents of each query and system that are looked at.
        pairs: of these, those that nobody judged.
        verdicts, relevant: verdicts, and how many of them are positive (annotators' mean).
        false_negatives: the share of ``pairs`` that is relevant.
        recommended: verdicts for intervals of ±0.02 in the first metric; ``None`` without an estimate.
        note: why there is no estimate, or that it or the bounds say little; may be empty.
        queries: how many queries without judgements the estimates are for; ``None`` of a test set.
        worth: a verdict on each system but the first, for queries without judgements.
    """

    name: str
    depth: int
    pairs: int
    metrics: list[CorrectedMetric]
    verdicts: int = 0
    relevant: float = 0.0
    false_negatives: PoweredEstimate | None = None
    recommended: int | None = None
    note: str = ""
    queries: int | None = None
    worth: list[Worth] = field(default_factory=list)

    def sheets(self) -> list[Sheet]:
        """A row for each metric and system."""
        if self.queries is not None:
            return [self._sheet_of_estimates()]
        has = {name: any(getattr(row, name) is not None for row in self.metrics) for name in ("copies", "estimate")}
        columns = ["metric", "system", "judged", "as judged", "bounds"]
        columns += ["copies count"] * has["copies"] + ["estimate", "95% interval"] * has["estimate"]
        rows = []
        for row in self.metrics:
            sign = "+" if row.against else ""
            cells = [f"{row.judged:.1%}" if row.judged is not None else "", f"{row.value:{sign}.4f}"]
            cells.append(f"{row.lowest:{sign}.4f} … {row.highest:{sign}.4f}")
            cells += [f"{row.copies:{sign}.4f}" if row.copies is not None else ""] * has["copies"]
            if has["estimate"]:
                estimate = row.estimate
                cells += (
                    ["", ""]
                    if estimate is None
                    else [f"{estimate.value:{sign}.4f}", f"{estimate.low:{sign}.4f} … {estimate.high:{sign}.4f}"]
                )
            rows.append([row.metric, row.system if not row.against else f"{row.system} − {row.against}", *cells])
        return [Sheet(f"{self.name}: what the judgements do not know", columns, 2, rows, self._notes())]

    def _sheet_of_estimates(self) -> Sheet:
        """Estimates only: nothing was judged before."""
        rows = []
        for row in self.metrics:
            assert row.estimate is not None
            sign = "+" if row.against else ""
            system = f"{row.system} − {row.against}" if row.against else row.system
            interval = f"{row.estimate.low:{sign}.4f} … {row.estimate.high:{sign}.4f}"
            rows.append([row.metric, system, f"{row.estimate.value:{sign}.4f}", interval])
        notes = [f"{self.verdicts:,} verdicts on {self.pairs:,} pairs, {self.relevant:g} relevant"]
        notes.append("intervals cover the choice of queries, and pairs without a verdict")
        if len(self.worth) > 1:
            notes.append("those of the differences hold together (Bonferroni)")
        notes += [worth.sentence for worth in self.worth]
        columns = ["metric", "system", "estimate", "95% interval"]
        question = "is it worth it?" if self.worth else "what the verdicts say"
        return Sheet(f"{self.name}: {question}", columns, 2, rows, notes)

    def _notes(self) -> list[str]:
        notes = [f"{self.pairs:,} pairs among the first {self.depth} of each query are not judged"]
        notes.append("bounds: whichever of those are relevant")
        if self.false_negatives is not None:
            share, count = self.false_negatives, f"{self.verdicts:,} verdicts, {self.relevant:g} relevant"
            notes.append(f"{count}: {share.value:.1%} of the pairs are relevant ({share.low:.1%} … {share.high:.1%})")
        if self.recommended is not None:
            notes.append(f"about {self.recommended:,} verdicts give ±{WANTED:g} in {self.metrics[0].metric}")
        return [*notes, *([self.note] if self.note else [])]


@taking(PoolSettings)
def draw_pairs_to_judge(settings: PoolSettings) -> list[PairToJudge]:
    """Draw pairs that the systems rank first and nobody judged, and write them to a file for people to judge.

    Raises:
        UsageError: a wrong name, no test set, all pairs judged, or an output that would replace an input or verdicts.
        DataError: a file that cannot be read, or an output that cannot be written.
    """
    check_settings(settings)
    check_empty(settings.pairs)
    pooled = _pooled(settings)
    pool = pooled.pool
    with scores_in(folder_beside(settings.pairs), "judge pool") as store:
        predictor = _predictor(pooled, settings, store)
    if settings.sample > len(pool.open):
        notice(f"`sample=` {settings.sample}: only {len(pool.open):,} pairs are not judged")
    drawn, probabilities = draw_pairs(predictor, min(settings.sample, len(pool.open)), settings.seed)
    chosen = pool.open[drawn]
    pairs = [
        PairToJudge(pool.queries[pool.query[pair]], pool.documents[pair], query, text, probability, len(drawn))
        for pair, query, text, probability in zip(
            chosen.tolist(), *pool_texts(pooled.data, pool, chosen), probabilities.tolist(), strict=True
        )
    ]
    write_pairs(settings.pairs, pooled.data.name, pooled.digest, pairs)
    drawn_of_all = f"{len(pairs):,} of {len(pool.open):,} pairs"
    notice(f"{settings.pairs}: {drawn_of_all} to judge; then give the verdicts to `retrokit judge estimate`")
    return pairs


@taking(EstimateSettings)
def estimate_metrics(settings: EstimateSettings) -> Unjudged:
    """Bound the metrics of systems, whichever unjudged documents are relevant; or estimate them from verdicts.

    Raises:
        UsageError: a wrong name, no test set, or all pairs judged.
        DataError: a file that cannot be read, or verdicts on other pairs.
    """
    verdicts = read_relevance(settings.verdicts) if settings.verdicts else {}
    check_zeros(settings.verdicts)
    pooled = _pooled(settings)
    data, pool = pooled.data, pooled.pool
    rows = _rows(data, pooled.runs, pool, settings.measured)
    result = Unjudged(pooled.spec, pooled.depth, len(pool.open), rows)
    if pool.is_graded and any(_is_ndcg(name) for name in settings.measured):
        result = replace(result, note=f"in nDCG an unjudged document counts with grade {pool.level}")
    if not verdicts:
        return result
    with scores_in(None, "judge estimate") as store:
        predictor = _predictor(pooled, settings, store)
    return _estimated(result, pooled, predictor, verdicts, settings)


@dataclass(frozen=True)
class PooledRuns:
    """A test set and the first ``depth`` documents of each system on it; ``spec`` is that of the task."""

    spec: str
    data: RetrievalData
    depth: int
    runs: Runs
    pool: JudgingPool

    @property
    def digest(self) -> str:
        """Of the pairs that nobody judged, by the text of the query and the document's id."""
        texts = self.data.queries_by_id
        pool = self.pool
        ids = ((pool.queries[pool.query[pair]], pool.documents[pair]) for pair in pool.open.tolist())
        return digest_of(sorted((query, texts[query], document) for query, document in ids))


def _pooled(settings: PooledSettings) -> PooledRuns:
    """The test set, ranked by the systems.

    Raises:
        UsageError: no test set, a wrong name, or too small a depth.
        DataError: a file that cannot be read.
    """
    spec = completed(settings.task)
    if settings.queries is None and not is_test_set(spec):
        raise UsageError(f"{settings.task}: expected a BEIR folder, or {BEIR}:PATH; or a corpus with `queries=`")
    names: list[tuple[Registry, str]] = []
    if settings.queries is None:
        names.append((tasks, spec))
    names += [(retrieval.registry_of(system), system) for system in settings.systems]
    names += [(reranking.registry_of(reranker), reranker) for reranker in settings.with_]
    parse_all(names)
    deepest = max(int(name.partition("@")[2]) for name in settings.measured)
    depth = settings.depth or deepest
    if depth < deepest:
        raise UsageError(f"`depth=` {depth}: {', '.join(settings.measured)} need {deepest}")
    if settings.queries is not None:
        data = read_without_judgements(settings.task, settings.queries)
        runs = rank(data, settings.systems, depth, settings.device)
        return PooledRuns(settings.task, data, depth, runs, pool_of(data, runs, depth))
    with gathering() as faults:
        data = JudgedSplit.of_spec(spec).read()
    if faults:
        notice(f"{spec}: {len(faults):,} faults of the files (see retrokit check)")
    with gathering():  # the same faults again
        runs = _rankings(spec, settings, depth)
    return PooledRuns(spec, data, depth, runs, pool_of(data, runs, depth))


def _rankings(spec: str, settings: PooledSettings, depth: int) -> Runs:
    """The first ``depth`` documents of each system, by its name in tables."""
    options = EvaluationSettings(settings.systems, [spec], metrics=[f"recall@{depth}"], device=settings.device)
    results = evaluate_systems(replace(options, keep_runs=True)).results
    runs = {result.encoder: result.run for result in results}
    if len(runs) < len(results) or any("reranker" in result.configuration for result in results):
        runs = {result.name: result.run for result in results}
    return runs


def _rows(data: RetrievalData, runs: Runs, pool: JudgingPool, names: Sequence[str]) -> list[CorrectedMetric]:
    copied = _with_copies(data)
    rows = []
    for name in names:
        values = {
            system: {} if copied is None else evaluate_run(copied, run, [name], data.level)[name]
            for system, run in runs.items()
        }
        fraction = fraction_of(name, pool, int(np.bincount(pool.query[pool.open], minlength=1).max()))
        for number, system in enumerate(pool.systems):
            copies = mean(values[system]) if copied is not None else None
            judged = pool.judged_share(number, int(name.partition("@")[2]))
            rows.append(CorrectedMetric(name, system, None, judged, *bounds(pool, fraction, number), copies))
        for number, system in enumerate(pool.systems[1:], start=1):
            first = pool.systems[0]
            copies = mean(values[system]) - mean(values[first]) if copied is not None else None
            rows.append(CorrectedMetric(name, system, first, None, *bounds(pool, fraction, number, 0), copies))
    return rows


def _with_copies(data: RetrievalData) -> dict[str, dict[str, int]] | None:
    """The judgements with those of exact copies of relevant documents; ``None`` if that changes none."""
    exact = copies_of(data.document_ids, data.documents)
    result = {query: dict(grades) for query, grades in data.qrels.items()}
    for grades in result.values():
        for document, grade in [*grades.items()]:
            if grade <= 0:
                continue
            for copy in exact.get(document, ()):
                grades[copy] = max(grade, grades.get(copy, 0))
    return None if result == data.qrels else result


def _predictor(pooled: PooledRuns, settings: PooledSettings, store: Shards) -> Predictor:
    """Predicts the open pairs, from ranks and the scores of each reranker; raises :class:`UsageError` if all pairs are
    judged."""
    data, pool = pooled.data, pooled.pool
    if not len(pool.open):
        raise UsageError(f"{pooled.spec}: all documents that these systems rank first are judged")
    queries, texts = pool_texts(data, pool, np.arange(len(pool.query)))
    rows = []
    for spec in settings.with_:
        reranker = KeptReranker(reranking.create(spec, settings.device), store)
        rows.append(reranker.score_pairs(queries, texts))
    return Predictor(pool, settings.measured, np.array(rows).reshape(len(rows), len(queries)))


def pool_texts(data: RetrievalData, pool: JudgingPool, pairs: np.ndarray) -> tuple[list[str], list[str]]:
    """The query and the document of each of the ``pairs`` of a pool."""
    texts = data.documents_by_id
    queries = [data.queries[pool.query[pair]] for pair in pairs.tolist()]
    return queries, [texts[pool.documents[pair]] for pair in pairs.tolist()]


def _estimated(
    result: Unjudged, pooled: PooledRuns, predictor: Predictor, verdicts: Verdicts, settings: EstimateSettings
) -> Unjudged:
    pool, source = pooled.pool, ", ".join(settings.verdicts)
    indices = {
        (pool.queries[pool.query[pair]], pool.documents[pair]): index for index, pair in enumerate(pool.open.tolist())
    }
    if next(iter(verdicts.values())).pool != pooled.digest:
        problem = "is drawn from other unjudged pairs; give the data, `systems=`, `metrics=` and `depth=` of the draw"
        raise DataError(source, problem)
    for query, document in verdicts:
        if (query, document) not in indices:
            problem = f"query {query!r} and document {document!r} are no unjudged pair of these data and systems"
            raise DataError(source, problem)
    drawn = np.array([indices[pair] for pair in verdicts])
    judged = [*verdicts.values()]
    result = replace(result, verdicts=len(judged), relevant=sum(verdict.relevant for verdict in judged))
    size = judged[0].of
    # those that were judged are a random part of a sample, whose order is random
    probabilities = np.array([verdict.probability for verdict in judged]) * min(1.0, len(judged) / size)
    if (uncertain := int((probabilities < 1).sum())) < min(FEWEST, len(pool.open) - len(judged)):
        expected = f"{FEWEST} or more of pairs that were not certain to be drawn"
        if settings.queries is not None:
            raise DataError(source, f"too few verdicts for an estimate: {uncertain}; judge {expected}")
        return _noted(result, f"too few verdicts for an estimate: {uncertain}; give {expected}")
    estimates = estimate(predictor, drawn, _values(judged), probabilities, size)
    if settings.queries is not None:
        return _with_worth(result, pool, estimates, settings.worth)
    return _with_estimates(result, pool, estimates, len(judged))


def _noted(result: Unjudged, note: str) -> Unjudged:
    return replace(result, note="; ".join(filter(None, (result.note, note))))


def _is_ndcg(name: str) -> bool:
    return name.startswith("ndcg@")


def _values(verdicts: Sequence[RelevanceVerdict]) -> np.ndarray:
    return np.array([verdict.relevant for verdict in verdicts])


def _with_estimates(result: Unjudged, pool: JudgingPool, estimates: Estimates, count: int) -> Unjudged:
    """With the estimates, each within the bounds; those of nDCG with higher grades than an open pair's are none."""
    rows = []
    for row in result.metrics:
        system = pool.systems.index(row.system)
        estimate = (estimates.differences if row.against else estimates.metrics)[row.metric, system]
        is_bounded = not (pool.is_graded and _is_ndcg(row.metric))
        rows.append(replace(row, estimate=_within(estimate, row.lowest, row.highest) if is_bounded else estimate))
    main = estimates.metrics[rows[0].metric, 0]
    recommended = round(count * ((main.high - main.low) / 2 / WANTED) ** 2)
    names = ", ".join(dict.fromkeys(row.metric for row in rows if row.estimate and _is_vague(row, row.estimate)))
    note = f"too few verdicts: intervals of {names} are as wide as the bounds" if names else ""
    return replace(
        _noted(result, note),
        metrics=rows,
        false_negatives=_within(estimates.relevant, 0.0, 1.0),
        recommended=min(recommended, result.pairs) if recommended > count else None,
    )


def _with_worth(result: Unjudged, pool: JudgingPool, estimates: Estimates, least: float) -> Unjudged:
    """With intervals over the queries that people ask, and a verdict on each system but the first."""
    effort = Effort(result.verdicts, result.pairs, len(pool.queries))
    comparisons = sum(row.against is not None for row in result.metrics)
    rows, worth = [], []
    for row in result.metrics:
        system = pool.systems.index(row.system)
        per_query = estimates.per_query[row.metric, system]
        if row.against is None:
            interval = over_queries(per_query, estimates.metrics[row.metric, system])
            estimate = _within(interval.estimate, 0.0, 1.0)
        else:
            per_query = per_query - estimates.per_query[row.metric, 0]
            judging = estimates.differences[row.metric, system]
            variance = estimates.variances[row.metric, system]
            interval = over_queries(per_query, judging, comparisons, variance)
            estimate = _within(interval.estimate, -1.0, 1.0)
        rows.append(replace(row, estimate=estimate))
        if row.against is not None:
            verdict, more = decide(interval, least, effort)
            worth.append(Worth(row.system, row.against, row.metric, verdict, estimate, least, more))
    return replace(
        result,
        metrics=rows,
        queries=len(pool.queries),
        worth=worth,
        false_negatives=_within(estimates.relevant, 0.0, 1.0),
    )


def _is_vague(row: CorrectedMetric, estimate: PoweredEstimate) -> bool:
    """Whether an interval is hardly narrower than the bounds."""
    return row.lowest < row.highest and estimate.high - estimate.low > 0.9 * (row.highest - row.lowest)


def _within(estimate: PoweredEstimate, lowest: float, highest: float) -> PoweredEstimate:
    def clip(value: float) -> float:
        return min(max(value, lowest), highest)

    return PoweredEstimate(clip(estimate.value), clip(estimate.low), clip(estimate.high))
