"""What other tools call ranking metrics is taken wherever metrics are named."""

import pytest

from retrokit.core.errors import UsageError
from retrokit.evaluation.settings import CheckSettings, EvaluationSettings, TwoStageOptions, parse_gate
from retrokit.metrics.names import metric_name
from retrokit.metrics.ranking import DEFAULT_METRICS


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ndcg_at_10 nDCG@10 NDCG@10 ndcg_cut_10 ndcg_cut.10 ndcg@10", "ndcg@10"),
        ("map_at_100 MAP@100 map_cut_100 map_cut.100 AP@100", "map@100"),
        ("recall_at_100 Recall@100 recall_100 recall.100 R@100", "recall@100"),
        ("precision_at_10 P_10 P.10 P@10 Precision@10", "precision@10"),
        ("accuracy_at_1 success_1 success.1 success@1 Success@1 acc@1 Hits@1", "accuracy@1"),
        ("mrr_at_10 MRR@10 RR@10 recip_rank@10", "mrr@10"),
        ("recip_rank RR", "mrr@1000"),
    ],
)
def test_names_of_the_field(names: str, expected: str) -> None:
    for name in names.split():
        assert metric_name(name) == expected
        assert metric_name(f"scifact:{name}") == f"scifact:{expected}"


@pytest.mark.parametrize("name", ["cosine_spearman", "knn_accuracy", "v_measure", "hit_rate@10", "ap", "f1", "ndcg"])
def test_other_names_stay(name: str) -> None:
    assert metric_name(name) == name


def test_own_names_stay() -> None:
    assert [metric_name(name) for name in DEFAULT_METRICS] == [*DEFAULT_METRICS]


def test_names_in_settings_and_gates() -> None:
    settings = EvaluationSettings(["bm25"], metrics=["ndcg_cut_10", "RR@10"], gate_metric="recall_at_100")
    assert (settings.metrics, settings.gate_metric) == (("ndcg@10", "mrr@10"), "recall@100")
    assert TwoStageOptions(metrics=["P_5"], gate_metric="nDCG@10").metrics == ("precision@5",)
    assert TwoStageOptions(metrics=["P_5"], gate_metric="nDCG@10").gate_metric == "ndcg@10"
    assert CheckSettings(["beir:x"], metrics=["success_1"]).metrics == ("accuracy@1",)
    assert parse_gate("cats:ndcg_at_10 = 0.5") == ("cats:ndcg@10", 0.5)
    with pytest.raises(UsageError, match=r"^`metrics=`: the cutoff of 'ndcg@0' is 0; expected 1 or more$"):
        CheckSettings(["beir:x"], metrics=["nDCG@0"])
