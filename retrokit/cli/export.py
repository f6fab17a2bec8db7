"""``retrokit export``."""

import os
from dataclasses import replace

from retrokit.cli.common import show_result
from retrokit.cli.streams import is_first_process
from retrokit.core.settings import common
from retrokit.ranking.settings import ExportSettings


def export(settings: ExportSettings, as_json: bool = common("as_json")) -> None:
    """Export embeddings whose inner product reproduces the ranking of the similarity.

    retrokit export runs/qnorm --on beir:data/scifact -o exported

    Rerun the command to resume an interrupted export.
    """
    if "RANK" in os.environ and settings.shard is None:
        from retrokit.training.processes import own_device, process_count, process_rank

        rank, world = process_rank(), process_count()
        shard = f"{rank + 1}/{world}" if world > 1 else None
        settings = replace(settings, shard=shard, device=own_device(settings.device))
    from retrokit.ranking.export import export
    from retrokit.report.tables import export_sheet

    result = export(settings)
    if is_first_process():
        show_result(as_json, "export", {"folder": str(result.folder), **result.note}, export_sheet(result))
