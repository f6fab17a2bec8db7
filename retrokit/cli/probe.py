"""``retrokit probe``: looks inside an encoder that tell what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrokit.cli.common import (
    DATA,
    ENCODERS,
    TASKS,
    Commands,
    DeviceOption,
    JsonOption,
    PrecisionOption,
    app,
    show,
    with_names,
    writable_folder,
)
from retrokit.errors import UsageError

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


def render(
    found: Findings, tables: list[Any], pictures: Callable[[str], None], folder: str | None, as_json: bool
) -> None:
    """Print the tables and the conclusion, or JSON; with a folder, write the data and draw the pictures there."""
    from retrokit.report.tables import to_json

    if folder is not None:
        from retrokit.report.probe_tables import write_csv

        write_csv(found.rows(), folder)
        pictures(folder)
    show(*([to_json(found.to_json())] if as_json else [*tables, found.conclusion]))


@probe.command(cls=with_names(ENCODERS, TASKS))
def magnitude(
    encoders: EncodersArgument,
    on: TasksOption,
    irrelevant: Annotated[
        str,
        typer.Option(
            help="Documents not judged relevant: of a query's top 100 by angle (top), or all there are (all)."
        ),
    ] = "top",
    without_labels: Annotated[
        bool, typer.Option("--without-labels", help="Use no judgements: a query's best by angle count as relevant.")
    ] = False,
    proxies: Annotated[int | None, typer.Option(help="Without labels: how many of the best. Default: 10.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Encoder over which gains are: both as trained. Default: qnorm over cosine, same embeddings."
        ),
    ] = None,
    cv_baseline: Annotated[
        str | None,
        typer.Option(help="Encoder over whose spread (CV) of query lengths each one's is; for MAG's ΔCV a dot run."),
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="The encoder is a run: probe its start, checkpoints and end.")
    ] = False,
    plot: PlotOption = None,
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Lengths of embeddings: do relevant documents have longer ones, and can qnorm use that? (MAG 4.3)

    retrokit probe magnitude minilm runs/qnorm --on beir:data/scifact --plot pictures
    """
    from retrokit.probing.checkpoints import probe_training
    from retrokit.probing.magnitude import MagnitudeOptions, probe_magnitude

    if proxies is not None and not without_labels:
        raise UsageError("--proxies is for --without-labels: give both")
    if checkpoints and (len(encoders) > 1 or baseline is not None or cv_baseline is not None):
        raise UsageError("--checkpoints is about one run: give one encoder, no --baseline and no --cv-baseline")
    options = MagnitudeOptions(irrelevant, (proxies or 10) if without_labels else None, precision, device, seed)
    if checkpoints:
        found = probe_training(encoders[0], on, options)
    else:
        found = probe_magnitude(encoders, on, options, baseline, cv_baseline)
    from retrokit.report import probe_tables

    def pictures(folder: str) -> None:
        from retrokit.report.probe_plots import magnitude_plots

        magnitude_plots(found, folder)

    render(found, probe_tables.magnitude_tables(found), pictures, plot, as_json)


@probe.command(cls=with_names(ENCODERS, TASKS, DATA))
def fisher(
    encoders: EncodersArgument,
    on: Annotated[
        list[str] | None, typer.Option("--on", help="Task whose queries and relevant documents to use. Repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Training data whose pairs to use, as finetune takes it. Repeatable.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=10, help="Pairs to draw.")] = 1000,
    plot: PlotOption = None,
    precision: Annotated[
        str, typer.Option(help="fp32, bf16, fp16, auto; rounding shows in the smallest eigenvalues.")
    ] = "fp32",
    device: DeviceOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """What training can move, by similarity, and whether qnorm or dnorm will train better (MAG 4.1, 4.5).

    retrokit probe fisher minilm --on beir:data/scifact,split=train
    """
    from retrokit.probing.fisher import probe_fisher

    found = probe_fisher(encoders, on or (), data or (), pairs, precision, device, seed)
    from retrokit.report import probe_tables

    def pictures(folder: str) -> None:
        from retrokit.report.probe_plots import fisher_plots

        fisher_plots(found, folder)

    render(found, probe_tables.fisher_tables(found), pictures, plot, as_json)
