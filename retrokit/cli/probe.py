"""``retrokit probe``: analyses of an encoder."""

from typing import Annotated, Any

import typer

from retrokit.cli.common import Commands, Group, JsonOption, app, show_result, with_names, writes
from retrokit.cli.settings import takes
from retrokit.core.settings import FOLDER
from retrokit.probing import PROBES, ProbeEntry, registry


class ProbeGroup(Group):
    """The probes. Plugins are loaded when all are listed, or when the name is not one of ours."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all probes."""
        return registry.names()

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command of a probe; ``None`` if there is none of that name."""
        if name not in self.commands and name in registry.names():
            _add(alone := Commands(), registry.entry(name))
            self.commands[name] = typer.main.get_command(alone)
        return super().get_command(ctx, name)


probe = Commands(
    cls=ProbeGroup,
    help="Analyse a system: stress tests, norms, fragments, layers, geometry, near-misses.",
)
app.add_typer(probe, name="probe")


def _add(group: Commands, entry: Any) -> None:
    """Add the command of a probe: it prints tables and the conclusion, or JSON, and writes data and figures."""
    assert isinstance(entry, ProbeEntry)
    settings_type: Any = entry.settings
    help = "Folder for figures (PNG, SVG) and their data (CSV)."
    folder_type: Any = Annotated[str | None, typer.Option(callback=writes(FOLDER), help=help)]
    default: Any = None
    if settings_type.needs_folder:
        folder_type, default = str, typer.Option(..., callback=writes(FOLDER), help=help)

    def run(settings: settings_type, plot: folder_type = default, as_json: JsonOption = False) -> None:
        from retrokit.core.frames import write_csv

        findings = entry.load()(**vars(settings))
        if plot is not None:
            write_csv(findings.rows(), plot)
            findings.plot(plot)
        show_result(as_json, f"probe-{entry.name}", findings.to_json(), *findings.sheets(), findings.conclusion)
        if findings.verdicts:
            from retrokit.evaluation.comparison.gates import check_gates
            from retrokit.report.evaluation import write_junit

            if settings.junit is not None:
                write_junit(findings.verdicts, settings.junit)
            check_gates(findings.verdicts)

    run.__name__, run.__doc__ = entry.name, settings_type.__doc__
    group.command(entry.name, cls=with_names(*settings_type.names))(takes(settings_type)(run))


for _entry in PROBES:
    _add(probe, _entry)
