"""``retrokit push``."""

from retrokit.cli.common import JsonOption, show_result
from retrokit.cli.settings import takes
from retrokit.core.notices import notice
from retrokit.training.config import PushSettings


@takes(PushSettings)
def push(settings: PushSettings, as_json: JsonOption = False) -> None:
    """Upload a model folder to the Hugging Face Hub in one commit, with a model card.

    retrokit push runs/qnorm me/qnorm --license apache-2.0 --results results

    retrokit push runs/qnorm me/qnorm --dry-run upload
    """
    from retrokit.training.push import push

    result = push(settings)
    if as_json:
        return show_result(True, "push", vars(result))
    notice(f"{result.url or settings.dry_run}: {', '.join(result.files)}")
