"""``retrokit merge``."""

from retrokit.cli.common import JsonOption, show_result
from retrokit.cli.settings import takes
from retrokit.core.notices import notice
from retrokit.training.config import MergeSettings


@takes(MergeSettings)
def merge(settings: MergeSettings, as_json: JsonOption = False) -> None:
    """Average the weights of encoders of one architecture (model soup).

    retrokit merge runs/seed0 runs/seed1 runs/seed2 -o runs/soup

    retrokit merge minilm runs/tuned --weights 0.3,0.7 --sim cosine -o runs/between
    """
    from retrokit.training.merge import merge

    result = merge(**vars(settings))
    if as_json:
        return show_result(True, "merge", vars(result))
    counts = ", ".join(f"{share:g} × {encoder}" for encoder, share in result.shares)
    notice(f"{result.folder}: {counts}; similarity {result.similarity}")
