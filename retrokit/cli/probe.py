"""``retrokit probe``: looks inside an encoder that tell what to do next."""

from __future__ import annotations

from collections.abc import Sequence
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

SeedOption = Annotated[int, typer.Option(min=0, help="Seed of what is drawn at random: samples, bootstrap.")]


@dataclass(frozen=True)
class Look(Settings):
    """What every probe is asked for: of what, where it computes, and what is done with its findings."""

    encoders: Sequence[str] = setting(help="Encoders to look into.", argument=True)
    plot: str | None = setting(
        None, "Folder for the data as CSV and the pictures as PNG and SVG; made if it is not there."
    )
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


takes_look = takes(Look, plot=writable_folder)


@probe.command(cls=with_names("encoders", "tasks"))
@takes_look
def magnitude(
    on: list[str] = typer.Option(..., "--on", help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable."),
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
    if checkpoints and (len(look.encoders) > 1 or baseline is not None or cv_baseline is not None):
        raise UsageError("--checkpoints is about one run: give one encoder, no --baseline and no --cv-baseline")
    options = MagnitudeOptions(
        irrelevant, (proxies or 10) if without_labels else None, look.precision, look.device, seed
    )
    if checkpoints:
        found = probe_training(look.encoders[0], on, options)
    else:
        found = probe_magnitude(look.encoders, on, options, baseline, cv_baseline)
    look.show("probe", "magnitude", found)


@probe.command(cls=with_names("encoders", "tasks", "data"))
@takes(FisherLook, plot=writable_folder)
def fisher(
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

    found = probe_fisher(look.encoders, on or (), data or (), pairs, look.precision, look.device, seed)
    look.show("probe", "fisher", found)


@probe.command(cls=with_names("encoders", "tasks"))
@takes_look
def fragments(
    on: str = typer.Option(
        ..., "--on", help="Task, e.g. classify:FILE or beir:PATH; knn:FILE only with metric=similarity."
    ),
    size: list[int] = typer.Option(..., help="Dimensions of a fragment. Repeatable."),
    prefix: list[int] | None = typer.Option(
        None, help="First dimensions to measure alone. Repeatable. Default: up to eight, evenly spaced."
    ),
    metric: str | None = typer.Option(
        None, help="Metric to measure by; default: knn_accuracy where there is one, else the task's main one."
    ),
    *,
    look: Look,
) -> None:
    """What each fragment holds by itself, and how few are enough (SFS 6).

    retrokit probe fragments minilm runs/sfs16 --on classify:labelled.jsonl --size 64 --size 16 --plot pictures
    """
    from retrokit.probing.fragments import probe_fragments

    look.show(
        "probe_embedding",
        "fragment",
        probe_fragments(look.encoders, on, size, prefix or (), metric, look.precision, look.device),
    )


@probe.command(cls=with_names("encoders", "contrasts"))
@takes_look
def contrast(
    on: str = typer.Option(
        ..., "--on", help="pairs:FILE,a=FIELD,b=FIELD, e.g. pairs:paradetox.jsonl,a=toxic,b=neutral."
    ),
    size: int = typer.Option(..., help="Dimensions of a fragment."),
    *,
    look: Look,
) -> None:
    """Which fragments and dimensions respond to what the texts of a pair differ in (SFS Figure 3).

    retrokit probe contrast minilm --on pairs:paradetox.jsonl,a=toxic,b=neutral --size 32
    """
    from retrokit.probing.contrast import probe_contrast

    look.show("probe_embedding", "contrast", probe_contrast(look.encoders, on, size, look.precision, look.device))


@probe.command("near-miss", cls=with_names("encoders", "similarities", "data"))
@takes_look
def near_miss(
    on: str = typer.Option(
        ..., "--on", help="pairs:FILE of near-misses: from augment negatives, or text, near_miss, family."
    ),
    reference: str | None = typer.Option(
        None, help="Pairs that do mean the same, e.g. beir:PATH,split=train. Default: the file's own positives."
    ),
    reference_pairs: int = typer.Option(10_000, min=2, help="At most so many of them, at random."),
    sim: str = typer.Option("cosine", help="Similarity that scores."),
    *,
    look: Look,
) -> None:
    """Does the score fall when the meaning changes and the words hardly do? (COMP Figure 1)

    retrokit probe near-miss minilm runs/a --on pairs:near-misses.jsonl --reference beir:data/scifact,split=train
    """
    from retrokit.probing.near_miss import probe_near_misses

    look.show(
        "probe_embedding",
        "near_miss",
        probe_near_misses(look.encoders, on, sim, reference, reference_pairs, look.precision, look.device),
    )


@probe.command(cls=with_names("encoders", "similarities", "tasks"))
@takes_look
def layers(
    on: str = typer.Option(..., "--on", help="Task, e.g. knn:FILE or beir:PATH."),
    metric: str | None = typer.Option(None, help="Metric to measure by; default: the task's main one."),
    sim: str | None = typer.Option(None, help="Similarity to score with; default: the encoder's own."),
    start: str | None = typer.Option(
        None, help="Encoder that training started from, to compare weights with. Default: what a run says."
    ),
    *,
    look: Look,
) -> None:
    """How good is an encoder after each layer, and how far did training move it? (CROP 4)

    retrokit probe layers minilm runs/crops --on knn:labelled.jsonl --plot pictures
    """
    from retrokit.probing.layers import probe_layers

    look.show(
        "probe_embedding", "layer", probe_layers(look.encoders, on, metric, sim, start, look.precision, look.device)
    )


@probe.command(cls=with_names("encoders", "corpora"))
@takes_look
def geometry(
    on: str = typer.Option(..., "--on", help="Texts: beir:PATH, or JSON lines with a field text."),
    size: int | None = typer.Option(None, help="Dimensions of a fragment; default: the whole alone."),
    neighbours: int = typer.Option(10, min=1, help="Neighbours that count for hubness."),
    *,
    look: Look,
) -> None:
    """How embeddings lie in their space: anisotropy, effective rank, hubness (SFS 5.4).

    retrokit probe geometry minilm runs/sfs16 --on beir:data/scifact --size 16
    """
    from retrokit.probing.geometry import probe_geometry

    look.show(
        "probe_embedding", "geometry", probe_geometry(look.encoders, on, size, neighbours, look.precision, look.device)
    )


@dataclass(frozen=True)
class MapLook(Look):
    """A look that is a picture."""

    plot: str = setting(help="Folder for the picture as PNG and SVG and its data as CSV.")


@probe.command("map", cls=with_names("encoders", "tasks"))
@takes(MapLook, plot=writable_folder)
def text_map(
    on: str = typer.Option(..., "--on", help="knn:FILE, labelled texts; knn:FILE,sample=5000 draws some."),
    seed: SeedOption = 42,
    *,
    look: MapLook,
) -> None:
    """A picture of labelled texts in two dimensions (CROP Figure 2).

    retrokit probe map minilm runs/crops --on knn:labelled.jsonl,sample=5000 --plot pictures
    """
    from retrokit.probing.map import probe_map

    look.show("probe_embedding", "map", probe_map(look.encoders, on, seed, look.precision, look.device))
