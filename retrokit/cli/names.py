"""``retrokit names``."""

from collections.abc import Sequence

from retrokit.cli.common import named, show
from retrokit.cli.completion import CORE_KINDS
from retrokit.core.errors import UsageError
from retrokit.core.settings import setting
from retrokit.kinds import KINDS, kinds_of_names

_SHOWN = ", ".join(kind.name for kind in CORE_KINDS)


def names(
    kinds: Sequence[str] = setting(
        (), f"{_SHOWN}. Default: all. Repeatable.", argument=True, metavar="KIND", names=KINDS
    ),
) -> None:
    """List registered names with descriptions and parameters, including those of plugins.

    retrokit names

    retrokit names similarities encoders
    """
    known = kinds_of_names.names()
    wrong = [kind for kind in kinds if kind not in known]
    if wrong:
        raise UsageError("\n".join(kinds_of_names.unknown(kind) for kind in wrong))
    show(*(named(kind).describe() for kind in kinds or known))
