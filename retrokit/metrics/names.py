"""Names of ranking metrics, and what other tools of the field call the same."""

import re
from collections.abc import Sequence
from typing import TypeVar

METRICS = ("ndcg", "map", "recall", "precision", "accuracy", "mrr")
"""The names before ``@`` and a cutoff."""
_OTHER_NAMES = {
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "ap": "map",
    "r": "recall",
    "p": "precision",
    **dict.fromkeys(("success", "acc", "hit", "hits"), "accuracy"),
    "rr": "mrr",
    "recip_rank": "mrr",
}
"""Names of trec_eval, ir_measures, MTEB and sentence-transformers, in small letters."""
_UNCUT = {"recip_rank": "mrr@1000", "rr": "mrr@1000"}
"""Names without a cutoff: trec_eval measures runs of 1,000 documents."""
_FORM = re.compile(r"([a-z_]+?)(?:@|_at_|[_.])([0-9]+)", re.IGNORECASE)

Names = TypeVar("Names", str, Sequence[str])


def metric_name(name: str) -> str:
    """The name of a ranking metric here; any other name as it is. ``TASK:`` before it stays.

    >>> metric_name("nDCG@10"), metric_name("map_cut_10"), metric_name("P.5"), metric_name("scifact:recall_at_100")
    ('ndcg@10', 'map@10', 'precision@5', 'scifact:recall@100')
    >>> metric_name("recip_rank"), metric_name("cosine_spearman")
    ('mrr@1000', 'cosine_spearman')
    """
    prefix, colon, own_name = name.strip().rpartition(":")
    small = own_name.lower()
    match = _FORM.fullmatch(small)
    if match is not None:
        metric = _OTHER_NAMES.get(match[1], match[1])
        if metric in METRICS:
            return f"{prefix}{colon}{metric}@{match[2]}"
    return f"{prefix}{colon}{_UNCUT.get(small, own_name)}"


def metric_names(names: Names) -> Names:
    """As :func:`metric_name`, of one name or of several."""
    return metric_name(names) if isinstance(names, str) else tuple(map(metric_name, names))


def leading_metric(main: str, shown: Sequence[str]) -> str:
    """The leading metric: ``main``, or the first of those ``shown``, where it is none of them."""
    return shown[0] if shown and main not in shown else main
