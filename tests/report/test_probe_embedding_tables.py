"""Tables of the probes of embeddings: what is shown of many fragments, and empty cells."""

from typing import Any

from rich.console import Console

from retrokit.probing.fragments import FragmentProbe, FragmentScore, PrefixScore, RandomSlice, WholeScore
from retrokit.report.sheets import TerminalTable


def text(*tables: Any) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(*map(TerminalTable, tables))
    return captured.get()


def test_prefixes_have_a_row_per_number_of_dimensions() -> None:
    wholes = [WholeScore("e", "cosine", 0.5), WholeScore("e", "sfs:2", 0.51), WholeScore("e", "sfs:4", 0.52)]
    fragments = [
        FragmentScore("e", 2, 2, 1, 1, 2, 0.7, 0.2, 0.01),
        FragmentScore("e", 2, 2, 2, 3, 4, 0.3, -0.2, 0.5),
        FragmentScore("e", 4, 1, 1, 1, 4, 0.5, 0.0, 1.0),
    ]
    prefixes = [
        PrefixScore("e", 2, 2, 0.61, 0.62),
        PrefixScore("e", 2, 4, 0.63, 0.64),
        PrefixScore("e", 4, 4, 0.65, 0.64),
    ]
    slices = [RandomSlice("e", 2, 1, 0.4), RandomSlice("e", 2, 2, 0.6), RandomSlice("e", 4, 1, 0.5)]
    shown = text(*FragmentProbe("t", "m", wholes, fragments, prefixes, slices).sheets())
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line.startswith("│")
    ]
    assert rows == [
        ["e", "2", "2", "0.5000", "0.5100", "0.7000*", "1", "0.3000", "0.3000", "0.4000 to 0.6000", "1"],
        ["e", "4", "1", "0.5000", "0.5200", "0.5000", "1", "0.5000", "0.5000", "0.5000 to 0.5000", "0"],
        ["e", "2", "0.6200", "0.6100", ""],
        ["e", "4", "0.6400", "0.6300", "0.6500"],
    ]
