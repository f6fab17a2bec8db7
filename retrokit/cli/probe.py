"""``retrokit probe``: looks inside an encoder that tell what to do next."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.cli.common import Commands, JsonOption, app, show, with_names, writes
from retrokit.cli.settings import takes
from retrokit.core.errors import UsageError
from retrokit.core.settings import FOLDER
from retrokit.probing.settings import (
    ContrastSettings,
    FisherSettings,
    FragmentSettings,
    GeometrySettings,
    LayerSettings,
    MagnitudeOptions,
    MapSettings,
    NearMissProbeSettings,
)

if TYPE_CHECKING:  # help is shown without loading what probes
    from retrokit.probing.findings import Findings

probe = Commands(
    help="Look inside an encoder and learn what to do next: what its embeddings hold, and where it is blind.",
)
app.add_typer(probe, name="probe")

PlotOption = Annotated[
    str | None,
    typer.Option(
        callback=writes(FOLDER),
        help="Folder for the data as CSV and the pictures as PNG and SVG; made if it is not there.",
    ),
]


def _show(room: str, kind: str, findings: Findings, plot: str | None, as_json: bool) -> None:
    """Print the tables and the conclusion, or JSON; with a folder, write the data and draw the pictures there.
    Tables and pictures of a ``kind`` are functions of that name in the ``room`` of :mod:`retrokit.report`."""
    from retrokit.data.jsonl import to_json
    from retrokit.report.probe_tables import write_csv

    if plot is not None:
        write_csv(findings.rows(), plot)
        getattr(import_module(f"retrokit.report.{room}_plots"), f"{kind}_plots")(findings, plot)
    if as_json:
        show(to_json(findings.to_json()))
    else:
        tables = getattr(import_module(f"retrokit.report.{room}_tables"), f"{kind}_sheets")(findings)
        show(*tables, findings.conclusion)


@probe.command(cls=with_names("encoders", "tasks"))
@takes(MagnitudeOptions, proxies=None)
def magnitude(
    encoders: list[str] = typer.Argument(..., help="Encoders to look into."),
    on: list[str] = typer.Option(..., "--on", help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable."),
    *,
    options: MagnitudeOptions,
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
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lengths of embeddings: do relevant documents have longer ones, and can qnorm use that? (MAG 4.3)

    retrokit probe magnitude minilm runs/qnorm --on beir:data/scifact --plot pictures
    """
    from retrokit.probing.magnitude import probe_magnitude, probe_training

    if proxies is not None and not without_labels:
        raise UsageError("--proxies is for --without-labels: give both")
    if checkpoints and (len(encoders) > 1 or baseline is not None or cv_baseline is not None):
        raise UsageError("--checkpoints is about one run: give one encoder, no --baseline and no --cv-baseline")
    if without_labels:
        options = replace(options, proxies=proxies or 10)
    if checkpoints:
        findings = probe_training(encoders[0], on, options)
    else:
        findings = probe_magnitude(encoders, on, options, baseline, cv_baseline)
    _show("probe", "magnitude", findings, plot, as_json)


@probe.command(cls=with_names("encoders", "tasks", "data"))
@takes(FisherSettings)
def fisher(settings: FisherSettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """What training can move, by similarity, and whether qnorm or dnorm will train better (MAG 4.1, 4.5).

    retrokit probe fisher minilm --on beir:data/scifact,split=train
    """
    from retrokit.probing.fisher import probe_fisher

    _show("probe", "fisher", probe_fisher(**vars(settings)), plot, as_json)


@probe.command(cls=with_names("encoders", "tasks"))
@takes(FragmentSettings)
def fragments(settings: FragmentSettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """What each fragment holds by itself, and how few are enough (SFS 6).

    retrokit probe fragments minilm runs/sfs16 --on classify:labelled.jsonl --size 64 --size 16 --plot pictures
    """
    from retrokit.probing.fragments import probe_fragments

    _show("probe_embedding", "fragment", probe_fragments(**vars(settings)), plot, as_json)


@probe.command(cls=with_names("encoders", "contrasts"))
@takes(ContrastSettings)
def contrast(settings: ContrastSettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """Which fragments and dimensions respond to what the texts of a pair differ in (SFS Figure 3).

    retrokit probe contrast minilm --on pairs:paradetox.jsonl,a=toxic,b=neutral --size 32
    """
    from retrokit.probing.contrast import probe_contrast

    _show("probe_embedding", "contrast", probe_contrast(**vars(settings)), plot, as_json)


@probe.command("near-miss", cls=with_names("encoders", "similarities", "data"))
@takes(NearMissProbeSettings)
def near_miss(settings: NearMissProbeSettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """Does the score fall when the meaning changes and the words hardly do? (COMP Figure 1)

    retrokit probe near-miss minilm runs/a --on pairs:near-misses.jsonl --reference beir:data/scifact,split=train
    """
    from retrokit.probing.near_miss import probe_near_misses

    _show("probe_embedding", "near_miss", probe_near_misses(**vars(settings)), plot, as_json)


@probe.command(cls=with_names("encoders", "similarities", "tasks"))
@takes(LayerSettings)
def layers(settings: LayerSettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """How good is an encoder after each layer, and how far did training move it? (CROP 4)

    retrokit probe layers minilm runs/crops --on knn:labelled.jsonl --plot pictures
    """
    from retrokit.probing.layers import probe_layers

    _show("probe_embedding", "layer", probe_layers(**vars(settings)), plot, as_json)


@probe.command(cls=with_names("encoders", "corpora"))
@takes(GeometrySettings)
def geometry(settings: GeometrySettings, plot: PlotOption = None, as_json: JsonOption = False) -> None:
    """How embeddings lie in their space: anisotropy, effective rank, hubness (SFS 5.4).

    retrokit probe geometry minilm runs/sfs16 --on beir:data/scifact --size 16
    """
    from retrokit.probing.geometry import probe_geometry

    _show("probe_embedding", "geometry", probe_geometry(**vars(settings)), plot, as_json)


@probe.command("map", cls=with_names("encoders", "tasks"))
@takes(MapSettings)
def text_map(
    settings: MapSettings,
    plot: str = typer.Option(
        ..., callback=writes(FOLDER), help="Folder for the picture as PNG and SVG and its data as CSV."
    ),
    as_json: JsonOption = False,
) -> None:
    """A picture of labelled texts in two dimensions (CROP Figure 2).

    retrokit probe map minilm runs/crops --on knn:labelled.jsonl,sample=5000 --plot pictures
    """
    from retrokit.probing.map import probe_map

    _show("probe_embedding", "map", probe_map(**vars(settings)), plot, as_json)
