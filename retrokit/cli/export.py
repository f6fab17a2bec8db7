"""``retrokit export``."""

from __future__ import annotations

from typing import Annotated

import typer

from retrokit.cli.common import DeviceOption, JsonOption, PrecisionOption, app, show, with_names


@app.command(cls=with_names("encoders", "similarities"))
def export(
    encoder: Annotated[str, typer.Argument(help="Encoder whose embeddings are written.")],
    on: Annotated[
        str,
        typer.Option("--on", help="Texts: JSON lines of id and text, - is standard input; or a BEIR folder."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder to write.")],
    sim: Annotated[str | None, typer.Option(help="Similarity that prepares them; default: the encoder's own.")] = None,
    role: Annotated[str, typer.Option(help="What the texts are: document or query.")] = "document",
    dims: Annotated[int | None, typer.Option(help="Use the first N dimensions of the encoder's only.")] = None,
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the export in the output folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write prepared embeddings, with which any vector database that has an inner product ranks as the similarity does.

    retrokit export runs/qnorm --on beir:data/scifact -o exported
    """
    from retrokit.export import export
    from retrokit.report.export import export_table
    from retrokit.report.tables import to_json

    made = export(
        encoder,
        on,
        output,
        role=role,
        sim=sim,
        precision=precision,
        dims=dims,
        device=device,
        overwrite=overwrite,
    )
    show(to_json({"folder": str(made.folder), **made.note}) if as_json else export_table(made))
