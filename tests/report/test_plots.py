"""Pictures of a run: those for which its log has numbers."""

import io
import json
import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from retrokit.core.figures import plt
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Resampled, Result
from retrokit.metrics import significance
from retrokit.report import plots
from retrokit.report.plots import training_plots
from tests.report import gallery
from tests.report.gallery import MODULES, pictures

ROWS = [
    {"step": 0, "evaluation": {"ndcg@10": 0.3}, "norms": {"query_norm_mean": 5.0, "query_norm_cv": 0.1}},
    {"step": 10, "loss": 2.5, "gamma_query": 0.5, "gamma_document": 0.5},
    {"step": 20, "loss": 1.5, "gamma_query": 0.52, "gamma_document": 0.47},
    {"step": 20, "evaluation": {"ndcg@10": 0.4}, "norms": {"query_norm_mean": 5.5, "query_norm_cv": 0.2}},
]


def log(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def without(*keys: str) -> list[dict]:
    return [{key: value for key, value in row.items() if key not in keys} for row in ROWS]


@pytest.mark.parametrize(
    ("left_out", "pictures"),
    [
        ((), {"loss", "evaluation", "norms", "gamma"}),
        (("gamma_query", "gamma_document"), {"loss", "evaluation", "norms"}),
        (("evaluation", "norms", "gamma_query", "gamma_document"), {"loss"}),
        (("loss", "gamma_query"), {"evaluation", "norms", "gamma"}),
        (("loss", "evaluation", "norms", "gamma_query", "gamma_document"), set()),
    ],
)
def test_pictures_for_which_there_are_numbers(tmp_path: Path, left_out: tuple[str, ...], pictures: set[str]) -> None:
    run = log(tmp_path / "run", without(*left_out))
    written = training_plots(run)
    names = {f"{name}{ending}" for name in pictures for ending in (".png", ".svg")}
    assert {path.name for path in written} == {path.name for path in (run / "plots").iterdir()} == names
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            assert content.endswith(b"IEND\xaeB`\x82")
        else:
            assert b"<svg" in content
            assert content.rstrip().endswith(b"</svg>")
        assert len(content) > 2000


GAMMA = "γ (0: the norm counts in full, 1: not at all)"


def test_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    monkeypatch.setattr(plots, "_draw", lambda series, label, folder, name: drawn.update({name: (series, label)}) or [])
    training_plots(log(tmp_path, ROWS))
    assert drawn == {
        "loss": (
            {"loss": [(10, 2.5), (20, 1.5)]},
            "loss, mean of 10 steps or more\n2.5 → 1.5 (mean of steps 1–10 → 11–20)",
        ),
        "evaluation": ({"ndcg@10": [(0, 0.3), (20, 0.4)]}, "metric"),
        "norms": ({"query norm mean": [(0, 5.0), (20, 5.5)]}, "mean norm of raw embeddings"),
        "gamma": ({"gamma_query": [(10, 0.5), (20, 0.52)], "gamma_document": [(10, 0.5), (20, 0.47)]}, GAMMA),
    }
    drawn.clear()
    evaluation = {"a b:ndcg@10": 0.3, "holdout:loss": 2.0, "holdout:ndcg@10": 0.5}
    row = {"step": 9, "loss": 1.0, "evaluation": evaluation, "norms": {"a b:query_norm_mean": 5.0}}
    training_plots(log(tmp_path, [row]))
    assert drawn == {
        "loss": (
            {"loss": [(9, 1.0)], "holdout:loss": [(9, 2.0)]},
            "loss, mean of 9 steps or more\n1 (mean of steps 1–9)",
        ),
        "evaluation-a-b": ({"ndcg@10": [(9, 0.3)]}, "metric"),
        "evaluation-holdout": ({"ndcg@10": [(9, 0.5)]}, "metric"),
        "norms": ({"query norm mean": [(9, 5.0)]}, "mean norm of raw embeddings"),
    }


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


HOSTILE = [
    "$\\frac{",
    "a $b$ \\c^_",
    "_hidden",
    "\x1b[31m\x00",
    "two\nlines",
    "表情😀",
    "<b>&--\u202e",
    "x" * 300,
    "{}%s",
]


@pytest.fixture
def picture_drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures, by name, in place of files."""
    monkeypatch.setattr(significance, "RESAMPLES", 20)
    figures: dict[str, Figure] = {}
    for module in MODULES:
        monkeypatch.setattr(module, "save", lambda figure, folder, name: figures.update({name: figure}) or [])
    return figures


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize("name", pictures(HOSTILE))
def test_any_name_can_be_drawn(name: str, picture_drawn: dict[str, Figure], tmp_path: Path) -> None:
    pictures(HOSTILE)[name](tmp_path)
    assert picture_drawn
    for figure in picture_drawn.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a layout that does not fit is a warning
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            stream = io.StringIO()
            figure.savefig(stream, format="svg")
        ElementTree.fromstring(stream.getvalue())
        assert not any(text.get_parse_math() for text in figure.findobj(Text))
        assert "\x1b" not in words(figure)
        labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        if any("a $b$" in label for label in labels) and "near-miss" not in name:
            assert any("_hidden" in label for label in labels)  # which matplotlib would leave out
        plt.close(figure)


def test_near_misses_without_an_interval_are_drawn(tmp_path):
    drawn = gallery.reranking(["a", "b"], ["swap"])
    results = [replace(result, resampled={}) for result in drawn.results]
    written = plots.reranking_plots(evaluation_of(results, drawn.shown, {}), tmp_path)
    assert tmp_path / "near-misses-01-pairs-x.svg" in written
