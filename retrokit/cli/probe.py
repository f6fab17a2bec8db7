"""``retrokit probe``: looks inside an encoder that tell what to do next."""

from typing import Annotated, Any

import typer

from retrokit.cli.common import Commands, Group, JsonOption, app, show, with_names, writes
from retrokit.cli.settings import takes
from retrokit.core.settings import FOLDER
from retrokit.probing import PROBES, ProbeEntry, registry


class ProbeGroup(Group):
    """The probes. Those of third parties are looked for when all are listed, or another is named."""

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
    help="Look inside an encoder and learn what to do next: what its embeddings hold, and where it is blind.",
)
app.add_typer(probe, name="probe")


def _add(group: Commands, entry: Any) -> None:
    """Give the probe its command: tables and the conclusion, or JSON; with a folder, the data and pictures there."""
    assert isinstance(entry, ProbeEntry)
    settings_type: Any = entry.settings
    help = "Folder for the data as CSV and the pictures as PNG and SVG; made if it is not there."
    folder_type: Any = Annotated[str | None, typer.Option(callback=writes(FOLDER), help=help)]
    default: Any = None
    if settings_type.needs_folder:
        help = "Folder for the picture as PNG and SVG and its data as CSV."
        folder_type, default = str, typer.Option(..., callback=writes(FOLDER), help=help)

    def run(settings: settings_type, plot: folder_type = default, as_json: JsonOption = False) -> None:
        from retrokit.core.frames import write_csv
        from retrokit.data.jsonl import to_json

        findings = entry.load()(**vars(settings))
        if plot is not None:
            write_csv(findings.rows(), plot)
            findings.plot(plot)
        if as_json:
            show(to_json(findings.to_json(), kind=f"probe-{entry.name}"))
        else:
            show(*findings.sheets(), findings.conclusion)

    run.__name__, run.__doc__ = entry.name, settings_type.__doc__
    group.command(entry.name, cls=with_names(*settings_type.names))(takes(settings_type)(run))


for _entry in PROBES:
    _add(probe, _entry)
