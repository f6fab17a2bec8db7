"""``retrokit probe fragments``, ``contrast``, ``near-miss``, ``layers``, ``geometry`` and ``map``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from retrokit.cli.common import with_names, writable_folder
from retrokit.cli.probe import EncodersArgument, Look, SeedOption, probe, takes_look
from retrokit.cli.settings import takes
from retrokit.settings import setting

MetricOption = Annotated[str | None, typer.Option(help="Metric to measure by; default: the task's main one.")]


@probe.command(cls=with_names("encoders", "tasks"))
@takes_look
def fragments(
    encoders: EncodersArgument,
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
        probe_fragments(encoders, on, size, prefix or (), metric, look.precision, look.device),
    )


@probe.command(cls=with_names("encoders", "contrasts"))
@takes_look
def contrast(
    encoders: EncodersArgument,
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

    look.show("probe_embedding", "contrast", probe_contrast(encoders, on, size, look.precision, look.device))


@probe.command("near-miss", cls=with_names("encoders", "similarities", "data"))
@takes_look
def near_miss(
    encoders: EncodersArgument,
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
        probe_near_misses(encoders, on, sim, reference, reference_pairs, look.precision, look.device),
    )


@probe.command(cls=with_names("encoders", "similarities", "tasks"))
@takes_look
def layers(
    encoders: EncodersArgument,
    on: str = typer.Option(..., "--on", help="Task, e.g. knn:FILE or beir:PATH."),
    metric: MetricOption = None,
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

    look.show("probe_embedding", "layer", probe_layers(encoders, on, metric, sim, start, look.precision, look.device))


@probe.command(cls=with_names("encoders", "corpora"))
@takes_look
def geometry(
    encoders: EncodersArgument,
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
        "probe_embedding", "geometry", probe_geometry(encoders, on, size, neighbours, look.precision, look.device)
    )


@dataclass(frozen=True)
class MapLook(Look):
    """A look that is a picture."""

    plot: str = setting()


MapOption = Annotated[
    str, typer.Option(callback=writable_folder, help="Folder for the picture as PNG and SVG and its data as CSV.")
]


@probe.command("map", cls=with_names("encoders", "tasks"))
@takes(MapLook, plot=MapOption)
def text_map(
    encoders: EncodersArgument,
    on: str = typer.Option(..., "--on", help="knn:FILE, labelled texts; knn:FILE,sample=5000 draws some."),
    seed: SeedOption = 42,
    *,
    look: MapLook,
) -> None:
    """A picture of labelled texts in two dimensions (CROP Figure 2).

    retrokit probe map minilm runs/crops --on knn:labelled.jsonl,sample=5000 --plot pictures
    """
    from retrokit.probing.map import probe_map

    look.show("probe_embedding", "map", probe_map(encoders, on, seed, look.precision, look.device))
