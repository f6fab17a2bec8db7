"""``retrokit probe``: analyses of an encoder, a command for each registered probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from retrokit.cli.commands import CommandEntry
from retrokit.cli.common import JsonOption, show_result, writes
from retrokit.cli.settings import takes
from retrokit.core.settings import FOLDER
from retrokit.probing import ProbeEntry, registry


@dataclass(frozen=True)
class ProbeCommand(CommandEntry):
    """The command of a probe."""

    probe: ProbeEntry | None = None

    def load(self) -> Callable[..., Any]:
        """The function of the command: it prints tables and the conclusion, or JSON, and writes data and figures."""
        assert self.probe is not None
        return function_of(self.probe)


def commands() -> list[ProbeCommand]:
    """The commands of all probes, third parties' included."""
    return [
        ProbeCommand(
            f"probe {probe.name}",
            probe.summary,
            probe.target,
            kinds=tuple(probe.settings.names),
            prints="json",
            probe=probe,
        )
        for probe in registry.entries()
        if isinstance(probe, ProbeEntry)
    ]


def function_of(probe: ProbeEntry) -> Callable[..., Any]:
    """What the command of a probe does."""
    settings_type: Any = probe.settings
    about = "Folder for figures (PNG, SVG) and their data (CSV)."
    folder_type: Any = Annotated[str | None, typer.Option(callback=writes(FOLDER), help=about)]
    default: Any = None
    if settings_type.needs_folder:
        folder_type, default = str, typer.Option(..., callback=writes(FOLDER), help=about)

    def run(settings: Any, plot: Any = default, as_json: JsonOption = False) -> None:
        from retrokit.core.frames import write_csv
        from retrokit.evaluation.comparison.gates import check_gates

        findings = probe.load()(settings)
        if plot is not None:
            write_csv(findings.rows(), plot)
            findings.plot(plot)
        show_result(as_json, f"probe-{probe.name}", findings.to_json(), *findings.sheets(), findings.conclusion)
        check_gates(findings.verdicts)

    run.__annotations__ = {"settings": settings_type, "plot": folder_type, "as_json": JsonOption}
    run.__name__ = probe.name
    run.__doc__ = settings_type.__doc__
    return takes(settings_type)(run)
