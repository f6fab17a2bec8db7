"""``retrokit export``."""

from __future__ import annotations

import os

import typer

from retrokit.cli.common import DeviceOption, JsonOption, PrecisionOption, app, is_first_process, show, with_names


@app.command(cls=with_names("encoders", "similarities"))
def export(
    encoder: str = typer.Argument(..., help="Encoder whose embeddings are written."),
    on: str = typer.Option(
        ..., "--on", help="Texts: JSON lines of id and text, - is standard input; or a BEIR folder."
    ),
    output: str = typer.Option(..., "--output", "-o", help="Folder to write."),
    sim: str | None = typer.Option(None, help="Similarity that prepares them; default: the encoder's own."),
    role: str = typer.Option("document", help="What the texts are: document or query."),
    dims: int | None = typer.Option(None, help="Use the first N dimensions of the encoder's only."),
    dtype: str = typer.Option("float32", help="What is stored: float32, float16 (half of it) or int8 (a quarter)."),
    shard: str | None = typer.Option(
        None, help="i/n: the i-th of n parts of the texts; under torchrun each process makes one by itself."
    ),
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the export in the output folder."),
    as_json: JsonOption = False,
) -> None:
    """Write prepared embeddings, with which any vector database that has an inner product ranks as the similarity does.

    retrokit export runs/qnorm --on beir:data/scifact -o exported

    An export that was broken off goes on with the same command.
    """
    if "RANK" in os.environ and shard is None:
        from retrokit.training.processes import own_device, place

        rank, world = place()
        shard, device = f"{rank + 1}/{world}" if world > 1 else None, own_device(device)
    from retrokit.export import export
    from retrokit.report.tables import export_table, to_json

    made = export(
        encoder,
        on,
        output,
        role=role,
        sim=sim,
        precision=precision,
        dims=dims,
        dtype=dtype,
        shard=shard,
        device=device,
        overwrite=overwrite,
    )
    if not is_first_process():
        return
    show(to_json({"folder": str(made.folder), **made.note}) if as_json else export_table(made))
