"""Pictures of an evaluation: what is drawn, and that files are pictures of a legible size."""

import struct
from pathlib import Path

import numpy as np
import pytest

from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Resampled, Result
from retrokit.report import plots

RNG = np.random.default_rng(0)
VALUES = RNG.uniform(0, 1, 50)


def result(encoder: str, shift: float = 0.0, similarity: str = "cosine", task: str = "beir:data/x,split=dev") -> Result:
    values = VALUES + shift
    return Result(
        encoder=encoder,
        similarity=similarity,
        task=task,
        main_metric="ndcg@10",
        metrics={"ndcg@10": float(values.mean()), "area": float(np.median(values)), "bare": 0.5},
        per_query={"ndcg@10": {f"q{i}": float(value) for i, value in enumerate(values)}},
        counts={},
        norms={},
        configuration={},
        resampled={"area": Resampled(50, lambda rows: float(np.median(values[rows])))},
    )


def evaluation(*results: Result, is_cross: bool = False) -> Evaluation:
    trainings = {
        **{f"runs/q-{i}": Training("qnorm", "q", str(i)) for i in (0, 1)},
        "runs/c": Training("cosine", "c", "0"),
    }
    return evaluation_of(results, {one.task: ["ndcg@10"] for one in results}, trainings, is_cross)


def test_an_interval_of_a_mean_of_another_metric_and_of_none() -> None:
    system = System((result("a"),))
    low, high = plots.interval_of(system, "ndcg@10")
    error = 1.96 * VALUES.std(ddof=1) / np.sqrt(50)
    assert (low, high) == pytest.approx((VALUES.mean() - error, VALUES.mean() + error), abs=0.01)
    low, high = plots.interval_of(system, "area")
    assert low < np.median(VALUES) < high
    assert plots.interval_of(system, "bare") is None


def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: Evaluation) -> list[plots.plt.Figure]:
    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, folder, name: figures.append(figure) or [])
    plots.evaluation_plots(found, tmp_path)
    return figures


def test_bars_have_names_values_and_intervals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = evaluation(result("base"), result("runs/q-0", 0.1), result("runs/q-1", 0.2))
    (figure,) = drawn(monkeypatch, tmp_path, found)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["base cosine", "runs/q-* (2 seeds) cosine"]
    assert axes.get_xlabel() == "ndcg@10"
    assert figure.get_supxlabel() == "whiskers: 95% interval of the paired difference from the first (dashed line)"
    assert axes.get_title(loc="left") == "beir:data/x,split=dev"
    bars = axes.patches
    assert [bar.get_width() for bar in bars] == pytest.approx([VALUES.mean(), VALUES.mean() + 0.15])
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    assert [text.get_text() for text in axes.texts] == [f"{bar.get_width():.4f}" for bar in bars]
    (whiskers,) = axes.collections[0].get_segments()  # the first has none: it is what the other differs from
    test = found.comparisons[0].test
    assert whiskers[:, 0] == pytest.approx([VALUES.mean() + test.low, VALUES.mean() + test.high])
    assert whiskers[:, 0] != pytest.approx(plots.interval_of(found.systems[1], "ndcg@10"), abs=0.01)
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [VALUES.mean()]
    dots = axes.collections[1].get_offsets()
    assert dots[:, 0].tolist() == pytest.approx([VALUES.mean() + 0.1, VALUES.mean() + 0.2])
    plots.plt.close(figure)


def test_a_system_alone_has_its_own_interval(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (figure,) = drawn(monkeypatch, tmp_path, evaluation(result("base")))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "ndcg@10 with 95% bootstrap interval over items"
    (whiskers,) = axes.collections[0].get_segments()
    assert whiskers[:, 0] == pytest.approx(plots.interval_of(System((result("base"),)), "ndcg@10"))
    plots.plt.close(figure)


def test_a_heat_map_of_training_against_evaluation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cells = [
        *(result("runs/c"), result("runs/c", 0.1, "qnorm"), result("runs/q-0", 0.2), result("runs/q-0", 0.3, "qnorm")),
        result("minilm", 0.4),
    ]
    _, figure = drawn(monkeypatch, tmp_path, evaluation(*cells, is_cross=True))
    axes, colours = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cosine", "qnorm"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cosine", "qnorm", "minilm (not a run)"]
    assert (axes.get_ylabel(), colours.get_ylabel()) == ("trained with", "ndcg@10")
    mean = VALUES.mean()
    expected = [f"{mean + shift:.4f}" for shift in (0, 0.1, 0.2, 0.3, 0.4)]
    assert [text.get_text() for text in axes.texts] == [*expected, "–"]
    frames = [(round(frame.get_x() + 0.47), round(frame.get_y() + 0.45)) for frame in axes.patches]
    assert frames == [(0, 0), (1, 1)]
    plots.plt.close(figure)


def test_files_are_pictures_wide_enough_to_read(tmp_path: Path) -> None:
    found = evaluation(result("base"), result("other", 0.1, "dot"), result("base", task="sts:y"), is_cross=True)
    written = plots.evaluation_plots(found, tmp_path / "new" / "plots")
    names = [f"01-beir-data-x-split-dev{end}" for end in ("", "-cross")] + [f"02-sts-y{end}" for end in ("", "-cross")]
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    )
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".png":
            width, height = struct.unpack(">II", content[16:24])
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            assert (width, height > 150) == (800, True)
        else:
            assert b"<svg" in content
