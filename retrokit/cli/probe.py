"""``retrokit probe``: looks inside an encoder that tell what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.cli.common import PRECISION, Commands, app, show, with_names, writable_folder
from retrokit.cli.settings import takes
from retrokit.errors import UsageError
from retrokit.settings import Settings, setting

if TYPE_CHECKING:  # help is shown without loading what probes
    from retrokit.probing.findings import Findings

probe = Commands(
    no_args_is_help=True,
    help="Look inside an encoder and learn what to do next: what its embeddings hold, and where it is blind.",
)
app.add_typer(probe, name="probe")

EncodersArgument = Annotated[list[str], typer.Argument(help="Encoders to look into.")]
TasksOption = Annotated[
    list[str], typer.Option("--on", help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable.")
]
PlotOption = Annotated[
    str | None,
    typer.Option(
        callback=writable_folder,
        help="Folder for the data as CSV and the pictures as PNG and SVG; made if it is not there.",
    ),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of what is drawn at random: samples, bootstrap.")]


@dataclass(frozen=True)
class Look(Settings):
    """What every probe is asked for: where it computes, and what is done with its findings."""

    plot: str | None = setting(None)
    precision: str = setting("auto", PRECISION)
    device: str | None = setting(None)
    as_json: bool = setting(False)

    def show(self, room: str, kind: str, found: Findings) -> None:
        """Print the tables and the conclusion, or JSON; with a folder, write the data and draw the pictures there.
        Tables and pictures of a ``kind`` are functions of that name in the ``room`` of :mod:`retrokit.report`."""
        from retrokit.report.probe_tables import write_csv
        from retrokit.report.tables import to_json

        if self.plot is not None:
            write_csv(found.rows(), self.plot)
            getattr(import_module(f"retrokit.report.{room}_plots"), f"{kind}_plots")(found, self.plot)
        if self.as_json:
            show(to_json(found.to_json()))
        else:
            tables = getattr(import_module(f"retrokit.report.{room}_tables"), f"{kind}_tables")(found)
            show(*tables, found.conclusion)


@dataclass(frozen=True)
class FisherLook(Look):
    """A look at what rounding hides."""

    precision: str = setting("fp32", "fp32, bf16, fp16, auto; rounding shows in the smallest eigenvalues.")


takes_look = takes(Look, plot=PlotOption)


@probe.command(cls=with_names("encoders", "tasks"))
@takes_look
def magnitude(
    encoders: EncodersArgument,
    on: TasksOption,
    irrelevant: str = typer.Option(
        "top", help="Documents not judged relevant: of a query's top 100 by angle (top), or all there are (all)."
    ),
    without_labels: bool = typer.Option(
        False, "--without-labels", help="Use no judgements: a query's best by angle count as relevant."
    ),
    proxies: int | None = typer.Option(None, help="Without labels: how many of the best. Default: 10."),
    baseline: str | None = typer.Option(
        None, help="Encoder over which gains are: both as trained. Default: qnorm over cosine, same embeddings."
    ),
    cv_baseline: str | None = typer.Option(
        None, help="Encoder over whose spread (CV) of query lengths each one's is; for MAG's ΔCV a dot run."
    ),
    checkpoints: bool = typer.Option(
        False, "--checkpoints", help="The encoder is a run: probe its start, checkpoints and end."
    ),
    *,
    look: Look,
    seed: SeedOption = 0,
) -> None:
    """Lengths of embeddings: do relevant documents have longer ones, and can qnorm use that? (MAG 4.3)

    retrokit probe magnitude minilm runs/qnorm --on beir:data/scifact --plot pictures
    """
    from retrokit.probing.magnitude import MagnitudeOptions, probe_magnitude, probe_training

    if proxies is not None and not without_labels:
        raise UsageError("--proxies is for --without-labels: give both")
    if checkpoints and (len(encoders) > 1 or baseline is not None or cv_baseline is not None):
        raise UsageError("--checkpoints is about one run: give one encoder, no --baseline and no --cv-baseline")
    options = MagnitudeOptions(
        irrelevant, (proxies or 10) if without_labels else None, look.precision, look.device, seed
    )
    if checkpoints:
        found = probe_training(encoders[0], on, options)
    else:
        found = probe_magnitude(encoders, on, options, baseline, cv_baseline)
    look.show("probe", "magnitude", found)


@probe.command(cls=with_names("encoders", "tasks", "data"))
@takes(FisherLook, plot=PlotOption)
def fisher(
    encoders: EncodersArgument,
    on: list[str] | None = typer.Option(
        None, "--on", help="Task whose queries and relevant documents to use. Repeatable."
    ),
    data: list[str] | None = typer.Option(
        None, help="Training data whose pairs to use, as finetune takes it. Repeatable."
    ),
    pairs: int = typer.Option(1000, min=10, help="Pairs to draw."),
    *,
    look: FisherLook,
    seed: SeedOption = 0,
) -> None:
    """What training can move, by similarity, and whether qnorm or dnorm will train better (MAG 4.1, 4.5).

    retrokit probe fisher minilm --on beir:data/scifact,split=train
    """
    from retrokit.probing.fisher import probe_fisher

    found = probe_fisher(encoders, on or (), data or (), pairs, look.precision, look.device, seed)
    look.show("probe", "fisher", found)
