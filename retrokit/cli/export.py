"""``retrokit export``."""

from __future__ import annotations

import typer

from retrokit.cli.common import DeviceOption, JsonOption, PrecisionOption, app, show, with_names


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
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the export in the output folder."),
    as_json: JsonOption = False,
) -> None:
    """Write prepared embeddings, with which any vector database that has an inner product ranks as the similarity does.

    retrokit export runs/qnorm --on beir:data/scifact -o exported
    """
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
        device=device,
        overwrite=overwrite,
    )
    show(to_json({"folder": str(made.folder), **made.note}) if as_json else export_table(made))
