"""``retrokit finetune``."""

from retrokit.cli.common import JsonOption
from retrokit.cli.settings import takes
from retrokit.cli.training import DryRunOption, TimeOption, train_encoder
from retrokit.training.config import FinetuneConfig


@takes(FinetuneConfig)
def finetune(
    config: FinetuneConfig,
    dry_run: DryRunOption = False,
    time: TimeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune an encoder with any similarity.

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 -o runs/mine

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 --sim qnorm --scale auto -o runs/qnorm

    retrokit finetune static --data texts.jsonl --augment crops --time-budget 4m -o runs/crops
    """
    train_encoder("retrokit.training.finetune:plan", config, dry_run, time, as_json)
