"""Pictures of a run: those for which its log has numbers."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from retrokit.report import plots
from retrokit.report.plots import training_plots

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


GAMMA = "γ (0: length counts in full, 1: not at all)"


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


@pytest.mark.parametrize(
    ("points", "joined"),
    [
        ([], ([], 1)),
        ([(10, 4.0), (20, 2.0)], ([(10, 4.0), (20, 2.0)], 10)),
        ([(10, 4.0), (20, 2.0), (23, 9.0)], ([(10, 4.0), (23, (20.0 + 27.0) / 13)], 10)),  # the end
        ([(10, 4.0), (12, 8.0), (20, 3.0)], ([(10, 4.0), (20, (16.0 + 24.0) / 10)], 10)),  # a checkpoint
        ([(4, 1.0), (14, 2.0)], ([(14, (4.0 + 20.0) / 14)], 10)),
        ([(3, 5.0)], ([(3, 5.0)], 3)),
    ],
)
def test_no_loss_is_a_mean_of_fewer_steps_than_the_others(points: list, joined: tuple[list, int]) -> None:
    found, window = plots.full_windows(points)
    assert window == joined[1]
    assert [step for step, _ in found] == [step for step, _ in joined[0]]
    assert [value for _, value in found] == pytest.approx([value for _, value in joined[0]])


def test_axes_are_plain_and_legends_cover_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {}
    monkeypatch.setattr(plots, "save", lambda figure, folder, name: figures.update({name: figure}) or [])
    rows = [{"step": 2 * i, "gamma_query": 0.5 + 1e-6 * i, "gamma_document": 0.5 - 1e-6 * i} for i in range(1, 12)]
    training_plots(log(tmp_path, [*rows, *ROWS]))
    for name, figure in figures.items():
        figure.draw_without_rendering()
        (axes,) = figure.axes
        assert axes.yaxis.get_offset_text().get_text() == axes.xaxis.get_offset_text().get_text() == ""
        assert all(tick == int(tick) for tick in axes.get_xticks())
        assert axes.get_legend() is None
        for legend in figure.legends:
            assert not legend.get_window_extent().overlaps(axes.get_window_extent()), name
        plt.close(figure)
    assert len(figures["gamma"].legends) == 1
    low, high = figures["gamma"].axes[0].get_ylim()
    assert high - low >= 0.02
