"""``retrokit rerank train``, ``calibrate`` and ``verify``."""

from retrokit.cli.common import show, show_record
from retrokit.cli.training import DRY_RUN, check_files_of, train_as_planned
from retrokit.core.errors import GateFailed
from retrokit.core.notices import notice
from retrokit.core.settings import common, setting
from retrokit.ranking.settings import CalibrationSettings, ShrinkSettings, VerifySettings
from retrokit.training.rerankers.config import VerifierConfig


def train(
    config: VerifierConfig,
    dry_run: bool = DRY_RUN,
    as_json: bool = common("as_json"),
) -> None:
    """Train a verifier on token maps, a cross-encoder or a decoder that answers yes or no.

    retrokit rerank train transformer minilm --data triplets.jsonl -o runs/verifier

    retrokit rerank train cross-encoder minilm --data mined.jsonl --data near-misses.jsonl -o runs/cross

    retrokit rerank train cross-encoder minilm --data scored.jsonl --loss margin-mse -o runs/cross

    retrokit rerank train generative models/decoder --data mined.jsonl --lora 16 -o runs/generative
    """
    check_files_of(config, dry_run)
    from retrokit.report.tables import verifier_preflight_sheets
    from retrokit.training.rerankers.verifier import plan_verifier

    train_as_planned(plan_verifier(config), verifier_preflight_sheets, dry_run, as_json)


def calibrate(settings: CalibrationSettings, as_json: bool = common("as_json")) -> None:
    """Calibrate and store the acceptance threshold of a verifier or cross-encoder.

    retrokit rerank calibrate runs/verifier heldout.jsonl --false-accept-rate 0.05
    """
    from retrokit.ranking.reranking.verify import calibrate as find

    show_record(as_json, "calibration", find(settings))


def shrink(settings: ShrinkSettings) -> None:
    """Copy a verifier trained end to end, with a low-rank update in place of its encoder.

    retrokit rerank shrink runs/verifier -o runs/small
    """
    from retrokit.ranking.reranking.verifier import shrink as make

    share = make(settings)
    notice(f"{settings.output}: {share:.2%} of the change of the encoder's weights retained")


def verify(
    settings: VerifySettings,
    fail_on_reject: bool = setting(False, "Exit 1 if a pair is rejected."),
    card: bool = setting(False, "Print the verifier's card and exit."),
) -> None:
    """Accept or reject pairs of texts; adds a score and a verdict to each line.

    retrokit rerank verify default pairs.jsonl

    retrokit rerank verify runs/verifier pairs.jsonl --keep accepted -o same.jsonl
    """
    from retrokit.cli.streams import readers_may_leave

    if card:
        from retrokit.ranking.reranking.verifier import card_of

        return show(card_of(settings.folder))
    from retrokit.ranking.reranking.base import summary_of
    from retrokit.ranking.reranking.verify import verify as judge

    with readers_may_leave():
        verdicts = judge(settings)
        pairs = verdicts.accepted + verdicts.rejected
        notice(f"{verdicts.accepted:,} accepted, {verdicts.rejected:,} rejected at {verdicts.threshold:.6g}")
        if summary := summary_of(verdicts.remarks, pairs):
            notice(summary)
        if fail_on_reject and verdicts.rejected:
            raise GateFailed(f"{verdicts.rejected:,} of {pairs:,} pairs rejected")
