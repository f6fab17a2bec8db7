"""``retrokit finetune``."""

from retrokit.cli.training import DRY_RUN, TIME, train_encoder
from retrokit.core.settings import common
from retrokit.training.config import FinetuneConfig


def finetune(
    config: FinetuneConfig,
    dry_run: bool = DRY_RUN,
    time: bool = TIME,
    as_json: bool = common("as_json"),
) -> None:
    """Fine-tune an encoder with any similarity.

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 -o runs/mine

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 --sim qnorm --scale auto -o runs/qnorm

    retrokit finetune static --data texts.jsonl --augment crops --time-budget 4m -o runs/crops
    """
    train_encoder("retrokit.training.finetune:plan", config, dry_run, time, as_json)
