"""Every option of ``retrokit rerank train``, checked as far as that needs no model and no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retrokit import encoders, reranking
from retrokit.data.outputs import paths_in
from retrokit.data.pairs import registry as sources
from retrokit.errors import UsageError
from retrokit.registry import parse_all
from retrokit.training.config import number_problems

BATCH_SIZE = {"cnn": 32, "transformer": 32}
"""COMP, D.3, by the verifier's name; :data:`OTHER_BATCH_SIZE` for the others."""
OTHER_BATCH_SIZE = 128
METRICS = ("ndcg@10", "accuracy", "roc_auc")

_NOT_PART_OF_THE_RESULT = ("output", "start", "cache", "overwrite", "resume", "device", "log_every", "keep_checkpoints")
_POSITIVE = (
    *("batch_size", "in_batch", "epochs", "steps", "lr", "encoder_lr", "max_grad_norm", "eval_every", "patience"),
    *("log_every", "keep_checkpoints"),
)


@dataclass(frozen=True)
class VerifierConfig:
    """What ``retrokit rerank train`` was asked for; see its help for the meaning of each option."""

    verifier: str
    encoder: str
    data: Sequence[str]
    output: str | None = None
    dev: Sequence[str] = ()
    start: str | None = None
    end_to_end: bool = False
    in_batch: int = 8
    batch_size: int | None = None
    epochs: float | None = None
    steps: int | None = None
    lr: float = 1e-4
    encoder_lr: float = 1e-5
    weight_decay: float = 0.01
    warmup: float = 0.1
    max_grad_norm: float = 1.0
    precision: str = "auto"
    seed: int = 0
    eval_every: int | None = None
    best_metric: str | None = None
    patience: int | None = None
    log_every: int = 10
    keep_checkpoints: int = 1
    cache: str | None = None
    device: str | None = None
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        parse_all(
            [
                (reranking.verifiers, self.verifier),
                (encoders.registry, self.encoder),
                *((sources, spec) for spec in (*self.data, *self.dev)),
            ]
        )
        problems = [problem for problem in self._problems() if problem]
        if problems:
            raise UsageError("\n".join(problems))

    def _problems(self) -> list[str | None]:
        return [
            None if self.data else "no training data: give --data at least once",
            "give --epochs or --steps, not both" if self.epochs is not None and self.steps is not None else None,
            None
            if self.best_metric in (None, *METRICS)
            else f"--best-metric {self.best_metric} is none of {', '.join(METRICS)}",
            None
            if self.precision in ("auto", "fp32", "bf16")
            else f"--precision {self.precision} is none of auto, fp32, bf16",
            "--overwrite and --resume exclude each other" if self.overwrite and self.resume else None,
            "--cache is for a frozen encoder: one in training makes new embeddings at every step"
            if self.cache is not None and self.end_to_end
            else None,
            *number_problems(self, _POSITIVE),
        ]

    @property
    def examples(self) -> int:
        """Examples of a batch."""
        if self.batch_size is not None:
            return self.batch_size
        return BATCH_SIZE.get(reranking.verifiers.parse(self.verifier).name, OTHER_BATCH_SIZE)

    def inputs(self) -> list[str]:
        """The paths that are read, and the folder of embeddings that are kept."""
        read = [(encoders.registry, self.encoder), *((sources, spec) for spec in (*self.data, *self.dev))]
        kept = [path for path in (self.start, self.cache) if path is not None]
        return [*paths_in(registry.parse(spec) for registry, spec in read), *kept]

    def identity(self) -> dict[str, Any]:
        """The options that decide the result: a resumed run must have the same."""
        return {key: value for key, value in self.to_json().items() if key not in _NOT_PART_OF_THE_RESULT}

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
