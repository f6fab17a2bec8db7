"""``retrokit help``."""

import typer


def show_help(
    words: list[str] | None = typer.Argument(None, metavar="COMMAND", help="Command, e.g. finetune or augment crops."),
) -> None:
    """Show the help of a command.

    retrokit help finetune
    """
    from retrokit.cli.root import application

    application().main([*(words or []), "--help"], prog_name="retrokit", standalone_mode=False)
