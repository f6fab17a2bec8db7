"""Findings of every probe and comparison with names of the caller's choice, so that every picture can be made."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core import figures
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.result import Resampled, Result
from retrokit.metrics.effect_size import EffectSize
from retrokit.probing.fisher import Fisher, FisherProbe, Information, Prediction
from retrokit.probing.fragments import FragmentProbe, FragmentScore, PrefixScore, RandomSlice, WholeScore
from retrokit.probing.magnitude import Gain, LengthFinding, Lengths, MagnitudeProbe, correlate
from retrokit.probing.near_miss import ALL, POSITIVES, RANDOM, Blindness, Distribution, NearMissProbe
from retrokit.report import plots
from tests.samples import all_samples

MODULES = (plots, figures)
RNG = np.random.default_rng(0)
Names = Sequence[str]
Draw = Callable[[Path], Any]


def magnitude(names: Names, steps: Sequence[int | None] = (None,)) -> MagnitudeProbe:
    found = []
    for i, name in enumerate(names):
        for step in steps:
            d = 0.1 * (i % 9) + 0.01 * (step or 0) - 0.2
            lengths = Lengths(10, 2.0 + 0.1 * i, 0.2)
            gain = Gain("qnorm", "cosine", 0.5 + 0.02 * d, 0.5)
            effect = EffectSize(d, d - 0.15, d + 0.2)
            found.append(
                LengthFinding(
                    encoder=names[0] if step is not None else name,
                    task=name,
                    step=step,
                    queries=lengths,
                    cv_ratio=None,
                    relevant=lengths,
                    irrelevant=lengths,
                    effect=effect,
                    gain=gain,
                )
            )
    curve = [{"step": s, "gamma_query": 0.5 - 0.001 * s, "gamma_document": 0.5} for s in steps if s is not None]
    points = [(0.1, 3.0), (0.2, 4.0), (0.3, 9.0)]
    lines = [correlate(name, points) for name in names] if steps == (None,) else []
    return MagnitudeProbe(found, lines, [], curve)


def fisher(names: Names) -> FisherProbe:
    family = ("cosine", "dot", "qnorm", "dnorm", "learn")
    information = [Information(name, 0.0 if name == "cosine" else 0.5, 0.1, 2.0 + i) for i, name in enumerate(family)]
    choice = Prediction({"qnorm": 6.5, "dnorm": 6.6}, {"qnorm": 9, "dnorm": 9}, -0.1, -1.0, 0.8, "qnorm", "learn")
    return FisherProbe([Fisher(name, "data", 100, 8, information, choice) for name in names])


def fragments(names: Names, size: int = 16, count: int = 6) -> FragmentProbe:
    scores = [
        FragmentScore(name, size, count, i + 1, i * size + 1, (i + 1) * size, 0.7, 0.1 * np.sin(i), None)
        for name in names
        for i in range(count)
    ]
    wholes = [WholeScore(name, sim, 0.8) for name in names for sim in ("cosine", f"sfs:{size}")]
    prefixes = [PrefixScore(name, size, size * i, 0.5 + 0.02 * i, 0.5 + 0.03 * i) for name in names for i in (1, 2, 3)]
    slices = [RandomSlice(name, size, i + 1, 0.6 + 0.01 * i) for name in names for i in range(count)]
    return FragmentProbe(names[0], names[-1], wholes, scores, prefixes, slices)


def near_miss(names: Names, families: Names, equal: bool = False) -> NearMissProbe:
    groups = [(family, 0.9) for family in families] + [(POSITIVES, 0.6), (RANDOM, 0.1)]
    distributions = [
        Distribution(name, "cosine", group, np.full(40, 0.5) if equal else RNG.normal(mean, 0.1, 40))
        for name in names
        for group, mean in groups
    ]
    rows = [Blindness(name, "cosine", family, 40, 0.9, 0.1, 0.1, None, 0.9) for name in names for family in families]
    return NearMissProbe(names[0], None, rows, distributions)


def result(encoder: str, task: str, metrics: Sequence[str], similarity: str = "cosine", shift: float = 0.0) -> Result:
    values = np.linspace(0.2, 0.8, 20) + shift + RNG.normal(0, 0.05, 20)
    items = {f"q{i}": float(value) for i, value in enumerate(values)}
    area = Resampled(20, lambda rows: float(np.median(values[rows])))
    areas = [metric for metric in metrics if metric.startswith(("roc_auc", "false"))]
    return Result(
        encoder=encoder,
        similarity=similarity,
        task=task,
        main_metric=metrics[0],
        metrics={metric: float(values.mean()) for metric in metrics},
        per_query={metric: items for metric in metrics if metric not in areas},
        counts={},
        norms={},
        configuration={"dims": 8},
        resampled=dict.fromkeys(areas, area),
    )


def reranking(names: Names, families: Names) -> Evaluation:
    shifts = enumerate(names)
    ranked = [result("first", names[0], ["ndcg@10", "mrr@10"], name, 0.03 * i) for i, name in shifts]
    endings = ["", *(f"/{family}" for family in families)]
    kinds = ("near_miss", "roc_auc", "false_accept@95")
    metrics = [f"{kind}{ending}" for kind in kinds for ending in endings]
    near = [result(name, "pairs:x", metrics, "own") for name in names[:10]]
    shown = {names[0]: ["ndcg@10", "mrr@10"], "pairs:x": ["near_miss"]}
    return evaluation_of([*ranked, *near], shown, {})


def pictures(names: Names) -> dict[str, Draw]:
    """How to draw each picture with these names wherever a name of the user's can stand."""
    shown = {names[0]: ["ndcg@10"]}
    cells = [result(name, names[0], ["ndcg@10"], shift=0.02) for name in names]
    cells.append(result(names[0], names[0], ["ndcg@10"], "dot"))
    return {
        "magnitude": magnitude(names).plot,
        "training": magnitude(names, (0, 5, 10)).plot,
        "fisher": fisher(names).plot,
        "fragments": fragments(names).plot,
        "near-miss": near_miss(names[:2], names).plot,
        "near-miss-rows": near_miss(names[:14], [ALL, *names[:20]]).plot,
        "near-miss-equal": near_miss(names[:1], [ALL], True).plot,
        "eval": lambda folder: plots.evaluation_plots(evaluation_of(cells, shown, {}, True), folder),
        "rerank": lambda folder: plots.reranking_plots(reranking(names[:26], names[:14]), folder),
        **{name: draw(names) for name, draw in all_samples().pictures.items()},
    }
