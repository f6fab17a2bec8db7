"""``retrokit augment``: training data without labels, as filters over JSONL."""

from retrokit.augmentation.crops import CropSettings
from retrokit.augmentation.settings import (
    SHARES,
    MaskSettings,
    MixSettings,
    NearMissSettings,
    PairSettings,
    SplitSettings,
)
from retrokit.cli.common import show, show_result, write_rows
from retrokit.core.notices import notice
from retrokit.core.settings import common


def crops(settings: PairSettings, crops: CropSettings) -> None:
    """Create pairs of two chunks of the same text (CROP 3.1).

    retrokit augment crops texts.jsonl -o pairs.jsonl
    """
    import retrokit.augment

    write_rows(lambda: retrokit.augment.crops(settings=crops, **vars(settings)))


def dropout(settings: PairSettings, crops: CropSettings) -> None:
    """Create pairs of a chunk with itself, which dropout makes differ (SimCSE, CROP 3.1).

    retrokit augment dropout texts.jsonl -o pairs.jsonl
    """
    import retrokit.augment

    write_rows(lambda: retrokit.augment.dropout(settings=crops, **vars(settings)))


def mask(settings: MaskSettings) -> None:
    """Mask tokens in both texts of a pair, or in two copies of a text (CROP A.1).

    retrokit augment mask pairs.jsonl --encoder minilm -o masked.jsonl
    """
    import retrokit.augment

    write_rows(lambda: retrokit.augment.mask(settings))


def split(settings: SplitSettings, as_json: bool = common("as_json")) -> None:
    """Split pairs into a BEIR folder of train, dev and test; pairs that share a text are in one split.

    retrokit augment split pairs.jsonl -o data/mine

    With --train and --test, write the 9:1 split of knn and classify as two files (CROP, Table S4).

    retrokit augment split abstracts.jsonl --train train.jsonl --test test.jsonl
    """
    import retrokit.augment

    if settings.output is not None:
        result = retrokit.augment.split_pairs(settings.data, settings.output, settings.shares or SHARES, settings.seed)
        counts = vars(result)
        notice(result.summary())
    else:
        parts = retrokit.augment.split(settings.data[0], str(settings.train), str(settings.test))
        counts = dict(zip(("train", "test"), parts, strict=True))
        notice(
            f"{parts[0]:,} rows for training, {parts[1]:,} for testing: --on knn:{settings.train},test={settings.test}"
        )
    if as_json:
        show_result(True, "split", counts)


def near_misses(
    settings: NearMissSettings,
    dry_run: bool = common("dry_run"),
) -> None:
    """Create near-misses: minimal edits of sentences that change their meaning (COMP D.1).

    retrokit augment near-misses corpus.jsonl --per-family 9940 --split 0.8 -o near-misses.jsonl
    """
    from retrokit.augmentation.edits.files import estimate_of, write_near_misses

    if dry_run:
        show(estimate_of(settings))
    else:
        write_rows(lambda: write_near_misses(settings))


def mix(settings: MixSettings) -> None:
    """Join data sets by weight or count, shuffled (COMP D.1).

    retrokit augment mix nq.jsonl,count=100000 near-misses.train.jsonl -o mixture.jsonl
    """
    from retrokit.augmentation.mixing import mix

    write_rows(lambda: mix(settings))
