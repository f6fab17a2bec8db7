"""The options of a verifier's training, beside those of any run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit import reranking
from retrokit.registry import Registry
from retrokit.settings import Settings, setting
from retrokit.training.config import BATCHES, EVALUATION, OPTIMIZER, RUN, TrainingConfig, one_of

BATCH_SIZE = {"cnn": 32, "transformer": 32}
"""COMP, D.3, by the verifier's name; :data:`OTHER_BATCH_SIZE` for the others."""
OTHER_BATCH_SIZE = 128
METRICS = ("ndcg@10", "accuracy", "roc_auc")


DATA = "Data"


@dataclass(frozen=True)
class _What(Settings):
    """The first argument."""

    verifier: str = setting(help="Verifier to train: cnn, transformer, soft, or with options.", argument=True)


@dataclass(frozen=True)
class VerifierConfig(TrainingConfig, _What):
    """Which verifier to train, and how."""

    panels = (None, DATA, RUN, BATCHES, OPTIMIZER, EVALUATION)

    encoder: str = setting(help="Encoder whose token embeddings make the maps.", argument=True)
    data: Sequence[str] = setting(
        help="Anchor, positive, negatives: FILE.jsonl, -, beir:PATH, hf:NAME; ,weight=2 mixes.", panel=DATA
    )
    _: KW_ONLY
    dev: Sequence[str] = setting((), "Examples to measure on. Default: a tenth of the anchors, or about 500.", DATA)
    start: str | None = setting(
        None, "Finished verifier to start from, of the same spec, made for this encoder.", RUN, result=False
    )
    end_to_end: bool = setting(False, "Train the encoder too; it is saved with the verifier.", OPTIMIZER)
    in_batch: int = setting(8, "Documents of other examples that an anchor is compared with.", BATCHES, above=0)
    batch_size: int | None = setting(
        None, "Examples of a batch. Default: 32 for cnn and transformer, else 128 (COMP D.3).", BATCHES, above=0
    )
    lr: float = setting(1e-4, "Highest learning rate of the verifier.", OPTIMIZER, above=0, most=100)
    encoder_lr: float = setting(1e-5, "Highest learning rate of the encoder.", OPTIMIZER, above=0, most=100)
    precision: str = setting(
        "auto", "Precision of the encoder: fp32, bf16; auto is bf16 where the machine is faster with it.", OPTIMIZER
    )
    eval_every: int | None = setting(
        None, "Steps between evaluations, each with a checkpoint. Default: a tenth.", EVALUATION, above=0
    )
    best_metric: str | None = setting(
        None, "ndcg@10, accuracy or roc_auc: what the kept weights are best in. Default: roc_auc.", EVALUATION
    )
    cache: str | None = setting(
        None,
        "Folder of a cache for token embeddings. Default: the embedding cache; if that is off, in the run.",
        RUN,
        result=False,
    )

    @property
    def examples(self) -> int:
        """Examples of a batch."""
        if self.batch_size is not None:
            return self.batch_size
        return BATCH_SIZE.get(reranking.verifiers.parse(self.verifier).name, OTHER_BATCH_SIZE)

    def inputs(self) -> list[str]:
        return [*super().inputs(), *(path for path in (self.start, self.cache) if path is not None)]

    def read_specs(self) -> list[tuple[Registry, str]]:
        from retrokit.data.pairs import registry as sources

        return [*super().read_specs(), *((sources, spec) for spec in self.dev)]

    def specs(self) -> list[tuple[Registry, str]]:
        return [(reranking.verifiers, self.verifier), *self.read_specs()]

    def combination_problems(self) -> list[str | None]:
        return [
            one_of("best_metric", self.best_metric, METRICS) if self.best_metric is not None else None,
            one_of("precision", self.precision, ("auto", "fp32", "bf16")),
            "`cache` is for a frozen encoder: one in training makes new embeddings at every step"
            if self.cache is not None and self.end_to_end
            else None,
        ]
