"""``retrokit push``."""

from retrokit.cli.api import common, notice, show_result
from retrokit.extensions.publishing.settings import PushSettings


def push(settings: PushSettings, as_json: bool = common("as_json")) -> None:
    """Upload a model or data to the Hugging Face Hub in one commit, with a card.

    retrokit push runs/qnorm me/qnorm --license apache-2.0 --results results

    retrokit push mined.jsonl me/mined --license cc-by-4.0 --dry-run upload
    """
    from retrokit.extensions.publishing.upload import push

    result = push(settings)
    if as_json:
        return show_result(True, "push", vars(result))
    notice(f"{result.url or settings.dry_run}: {', '.join(result.files)}")
