"""``retrokit probe``: analyses of an encoder, a command for each registered probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, replace
from typing import Any

from retrokit.cli.commands import ENCODERS, TASK, CommandEntry, LeftOut
from retrokit.cli.common import show_record
from retrokit.core.settings import FOLDER, common, params_of, setting
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
            prints="json",
            probe=probe,
            left_out=left_out_of(probe),
        )
        for probe in registry.entries()
        if isinstance(probe, ProbeEntry)
    ]


def left_out_of(probe: ProbeEntry) -> tuple[LeftOut, ...]:
    """What its command takes for encoders and, if it needs one, for a task that are left out."""
    left_out = []
    if any(param.name == "encoders" and param.required for param in params_of(probe.settings)):
        left_out.append(ENCODERS)
    if probe.settings.on_retrieval:
        left_out.append(replace(TASK, unless=("data",), next="finetune --sim auto"))
    return tuple(left_out)


def function_of(probe: ProbeEntry) -> Callable[..., Any]:
    """What the command of a probe does."""
    settings_type: Any = probe.settings
    default = MISSING if settings_type.needs_folder else None
    folder = setting(default, "Folder for figures (PNG, SVG) and their data (CSV).", writes=FOLDER)

    def run(settings: Any, plot: str | None = folder, as_json: bool = common("as_json")) -> None:
        from retrokit.core.frames import write_csv
        from retrokit.evaluation.comparison.gates import check_gates
        from retrokit.evaluation.comparison.names import for_people

        findings = probe.load()(settings)
        if plot is not None:
            write_csv(findings.rows(), plot)
            for_people(findings).plot(plot)
        show_record(as_json, f"probe-{probe.name}", findings, for_people(findings).conclusion)
        check_gates(findings.verdicts)

    run.__annotations__ = {"settings": settings_type, "plot": str | None, "as_json": bool}
    run.__name__ = probe.name
    run.__doc__ = settings_type.__doc__
    return run
