"""The options of a reranker's training: of a verifier on token maps, or of a cross-encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from retrokit.core.registry import Registry
from retrokit.core.settings import FOLDER, PRECISIONS, Settings, setting
from retrokit.metrics.names import metric_names
from retrokit.ranking import reranking
from retrokit.training.config import (
    BATCHES,
    CHECKPOINTS,
    EVALUATION,
    LOSS,
    NO_DATA,
    OPTIMIZER,
    OUTPUT,
    TrainingConfig,
    rank_or_spec,
)

if TYPE_CHECKING:
    from retrokit.data.training_rows import Kind

BATCH_SIZE = {"cnn": 32, "transformer": 32}
"""COMP, D.3, by the verifier's name; :data:`OTHER_BATCH_SIZE` for the others."""
OTHER_BATCH_SIZE, PAIRS_BATCH_SIZE = 128, 16
METRICS = ("ndcg@10", "accuracy", "roc_auc")
LOSSES = ("binary", "lambda", "ranknet", "kl", "margin-mse", "mse")
"""Of a cross-encoder: the first three label positives 1 and negatives 0, the others have a teacher's scores."""
TAUGHT = LOSSES[3:]

DATA = "Data"
_PAIRS = ("verifier=pairs",)
"""Any reranker that reads both texts at once, and not a map of their tokens."""


@dataclass(frozen=True)
class _What(Settings):
    """The first argument."""

    verifier: str = setting(
        help="Reranker to train: cnn, soft, cross-encoder, generative …", argument=True, names="verifiers"
    )


@dataclass(frozen=True)
class VerifierConfig(TrainingConfig, _What):
    """The options of training a verifier or a cross-encoder."""

    panels = (None, DATA, EVALUATION, LOSS, BATCHES, OPTIMIZER, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "dev", "loss", "epochs", "batch_size", "max_length", "lr", "end_to_end", "seed"),
        *("dry_run", "resume"),
    )

    encoder: str = setting(help="Encoder of the token maps, or model to start from.", argument=True, names="encoders")
    data: Sequence[str] = setting(
        help="Train on FILE.jsonl, -, beir:PATH or hf:NAME. Repeatable.", panel=DATA, names="data", missing=NO_DATA
    )
    _: KW_ONLY
    dev: Sequence[str] = setting((), "Measure on these. Default: a tenth, at most 500 anchors.", DATA, names="data")
    start: str | None = setting(
        None,
        "Start from this verifier of the same spec, or default.",
        DATA,
        result=False,
        names="runs",
        excludes=_PAIRS,
    )
    loss: str | None = setting(
        None,
        "Minimise binary, lambda, ranknet, kl, margin-mse or mse. Default: binary.",
        LOSS,
        choices=LOSSES,
        metavar="TEXT",
        needs=_PAIRS,
    )
    teacher_temperature: float | None = setting(
        None, "Divide the teacher's scores by this (kl). Default: 1.", LOSS, above=0, needs=("loss=kl",)
    )
    end_to_end: bool = setting(False, "Train the encoder too, and save it.", OPTIMIZER, excludes=_PAIRS)
    lora: int | str | None = setting(
        None,
        "Train low-rank updates: 16, or rank=16,alpha=32.",
        OPTIMIZER,
        above=0,
        read=rank_or_spec,
        extra="lora",
        excludes=(f"verifier={reranking.CROSS_ENCODER}",),
    )
    encoder_dropout: float | None = setting(
        None,
        "Set the encoder's dropout probability. Default: its own.",
        OPTIMIZER,
        minimum=0,
        below=1,
        needs=("end_to_end",),
        excludes=_PAIRS,
    )
    in_batch: int | None = setting(
        None,
        "Compare with N other documents. Default: 8 (cross: 2).",
        BATCHES,
        above=0,
        excludes=tuple(f"loss={name}" for name in TAUGHT),
    )
    batch_size: int | None = setting(None, "Batch N examples. Default: by kind, 16 to 128.", BATCHES)
    max_length: int | None = setting(
        None, "Truncate pairs to N tokens (cross-encoder); saved with it.", BATCHES, needs=_PAIRS
    )
    lr: float | None = setting(
        None, "Set the peak learning rate. Default: 1e-4 (cross: 2e-5).", OPTIMIZER, above=0, maximum=100
    )
    encoder_lr: float | None = setting(
        None,
        "Set the encoder's peak rate. Default: 1e-5 (`lora=`: 1e-4).",
        OPTIMIZER,
        above=0,
        maximum=100,
        needs=("end_to_end",),
        excludes=_PAIRS,
    )
    precision: str = setting(
        "auto", "Compute in fp32, bf16 or fp16; auto: bf16 if faster.", OPTIMIZER, choices=PRECISIONS, metavar="TEXT"
    )
    eval_every: int | None = setting(None, "Evaluate every N steps. Default: a tenth.", EVALUATION)
    patience: int | None = setting(None, "Stop after N evaluations without improvement.", EVALUATION)
    best_metric: str | None = setting(
        None,
        "Select weights by ndcg@10, accuracy or roc_auc (default).",
        EVALUATION,
        canonical=metric_names,
        choices=METRICS,
        metavar="TEXT",
    )
    cache: str | None = setting(
        None,
        "Cache token embeddings here. Default: embedding cache.",
        OUTPUT,
        result=False,
        writes=FOLDER,
        excludes=("end_to_end", *_PAIRS),
    )

    @property
    def reads_pairs(self) -> bool:
        """Whether a cross-encoder is trained, or a decoder that answers yes or no."""
        return reranking.verifiers.parse(self.verifier).name in reranking.pair_readers()

    @property
    def is_taught(self) -> bool:
        """Whether it needs a teacher's scores."""
        return self.loss in TAUGHT

    @property
    def kind(self) -> Kind:
        """The records that it trains on."""
        return "taught" if self.is_taught else "pairs"

    @property
    def examples(self) -> int:
        """Examples of a batch."""
        if self.batch_size is not None:
            return self.batch_size
        if self.reads_pairs:
            return PAIRS_BATCH_SIZE
        return BATCH_SIZE.get(reranking.verifiers.parse(self.verifier).name, OTHER_BATCH_SIZE)

    def resolved(self) -> VerifierConfig:
        """With the defaults that depend on other options."""
        defaults: dict[str, Any] = {"lr": 1e-4}
        if self.reads_pairs:
            defaults["loss"] = LOSSES[0]
            if not self.lora:
                defaults["lr"] = 2e-5
        if not self.is_taught:
            defaults["in_batch"] = 2 if self.reads_pairs else 8
        if self.end_to_end:
            defaults["encoder_lr"] = 1e-4 if self.lora else 1e-5
        if self.loss == "kl":
            defaults["teacher_temperature"] = 1.0
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})

    def inputs(self) -> list[str]:
        return [*super().inputs(), *([] if self.cache is None else [self.cache])]

    def specs(self) -> list[tuple[Registry, str]]:
        from retrokit.data.pairs import registry as sources

        return [(reranking.verifiers, self.verifier), *super().specs(), *((sources, spec) for spec in self.dev)]

    def values_of(self, name: str) -> Sequence[Any]:
        """As the base class; for ``verifier``, its registered name."""
        return [reranking.verifiers.parse(self.verifier).name] if name == "verifier" else super().values_of(name)

    def conditions(self, declared: Sequence[str]) -> list[str]:
        """As the base class; ``verifier=pairs`` is a condition for each reranker that reads both texts at once."""
        conditions = super().conditions(declared)
        if _PAIRS[0] not in conditions:
            return conditions
        others = [condition for condition in conditions if condition != _PAIRS[0]]
        return others + [f"verifier={name}" for name in reranking.pair_readers()]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.lora is not None and not self.reads_pairs and not self.end_to_end:
            yield "`lora=` needs `end_to_end=`"
        if self.precision == "fp16" and not self.reads_pairs:
            yield f"`precision=` fp16 and `verifier=` {self.verifier} exclude each other"
