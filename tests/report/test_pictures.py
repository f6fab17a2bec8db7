"""Every picture of a probe or a comparison: with names that are no plain words, and with too many of them."""

import io
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from retrokit.core.figures import plt, shown, wrapped
from retrokit.core.notices import listening
from retrokit.metrics import significance
from tests.evaluation.fakes import Notices
from tests.report.gallery import MODULES, pictures

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
MANY = [f"name {i}" for i in range(100)]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "RESAMPLES", 20)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures, by name, in place of files."""
    figures: dict[str, Figure] = {}
    for module in MODULES:
        monkeypatch.setattr(module, "save", lambda figure, folder, name: figures.update({name: figure}) or [])
    return figures


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize("name", pictures(HOSTILE))
def test_any_name_can_be_drawn(name: str, drawn: dict[str, Figure], tmp_path: Path) -> None:
    pictures(HOSTILE)[name](tmp_path)
    assert drawn
    for figure in drawn.values():
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


@pytest.mark.parametrize("name", [name for name in pictures(HOSTILE) if name not in ("contrast", "near-miss-equal")])
def test_many_are_cut_and_the_cut_is_said(name: str, drawn: dict[str, Figure], tmp_path: Path) -> None:
    listener = Notices()
    with listening(listener):
        pictures(MANY)[name](tmp_path)
    for file, figure in drawn.items():
        assert max(figure.get_size_inches()) * 125 < 6000  # pixels
        assert len(figure.axes) <= 50
        assert len(figure.findobj(Text)) < 3000
        if name != "map" and file not in ("gamma", "moved"):
            assert any(
                f"picture {file}: " in line and " are drawn; the data has all" in line for line in listener.messages
            )
        if name == "map":
            assert "76 other labels" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_names_are_harmless_short_and_never_hidden() -> None:
    assert shown("plain") == wrapped("plain") == "plain"
    assert shown("\x1b[31m\n") == "\\x1b[31m\\n"
    assert shown("_a") == wrapped("_a") == " _a"
    assert (shown("x" * 60 + "end")[0], len(shown("x" * 60 + "end")), shown("x" * 60 + "end")[-3:]) == ("…", 48, "end")
    assert wrapped("x" * 40) == "x" * 34 + "\n" + "x" * 6
    cut = wrapped("a" * 200 + "end")
    assert (cut[0], cut[-3:], cut.count("\n")) == ("…", "end", 2)


def test_one_score_for_all_has_a_histogram(drawn: dict[str, Figure], tmp_path: Path) -> None:
    pictures(["e"])["near-miss-equal"](tmp_path)
    low, high = drawn["near-miss"].axes[0].get_xlim()
    assert low < 0.5 < high
    assert high - low < 0.01
