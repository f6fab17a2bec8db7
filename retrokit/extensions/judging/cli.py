"""``retrokit judge``."""

from retrokit.cli.api import common, show_record
from retrokit.core.errors import GateFailed
from retrokit.extensions.judging.settings import EstimateSettings, NegativesSettings, PoolSettings, RepairSettings


def pool(settings: PoolSettings) -> None:
    """Draw unjudged pairs that systems rank first, for people to judge.

    retrokit judge pool beir:data/scifact --systems minilm --systems bm25 --pairs pairs.html

    retrokit judge pool corpus.jsonl --queries queries.txt --systems minilm --systems bm25 --pairs pairs.html
    """
    from retrokit.extensions.judging.systems import draw_pairs_to_judge

    draw_pairs_to_judge(settings)


def estimate(settings: EstimateSettings, as_json: bool = common("as_json")) -> None:
    """Bound the metrics of systems, or estimate them from verdicts on a few pairs.

    retrokit judge estimate beir:data/scifact --systems minilm --systems bm25

    retrokit judge estimate beir:data/scifact --systems minilm --systems bm25 --verdicts verdicts.jsonl

    retrokit judge estimate corpus.jsonl --queries queries.txt --systems minilm --systems bm25 --verdicts verdicts.jsonl
    """
    from retrokit.extensions.judging.systems import estimate_metrics

    result = estimate_metrics(settings)
    show_record(as_json, "judge-estimate", result)


def repair(settings: RepairSettings, as_json: bool = common("as_json")) -> None:
    """Write repaired copies of test sets and training data, and a list of every change.

    retrokit judge repair beir:data/scifact --verdicts verdicts.jsonl -o repaired

    retrokit judge repair pairs.jsonl --with maxsim:minilm --relabel -o repaired
    """
    from retrokit.extensions.judging.repair import repair_data

    result = repair_data(settings)
    show_record(as_json, "judge-repair", result)


def negatives(settings: NegativesSettings, as_json: bool = common("as_json")) -> None:
    """Count negatives of training data that rerankers score above the positive.

    retrokit judge negatives pairs.jsonl --with maxsim:minilm --examples 3
    """
    from retrokit.extensions.judging.false_negatives import find_false_negatives

    result = find_false_negatives(settings)
    show_record(as_json, "judge-negatives", result)
    if settings.fail and result.count:
        raise GateFailed(f"{result.count:,} negatives that rerankers score above the positive")
