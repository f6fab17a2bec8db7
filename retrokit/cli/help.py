"""``retrokit help``."""

from collections.abc import Sequence

from retrokit.core.settings import setting


def show_help(
    words: Sequence[str] = setting((), "Command, e.g. finetune or augment crops.", argument=True, metavar="COMMAND"),
) -> None:
    """Show the help of a command.

    retrokit help finetune
    """
    from retrokit.cli.root import application

    application().main([*words, "--help"], prog_name="retrokit", standalone_mode=False)
