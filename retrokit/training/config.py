"""The options of training, checked as far as that needs no model and no data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any

from retrokit import augmentation, encoders, evaluation, similarities
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import (
    FOLDER,
    OVERLAP_EXAMPLES,
    PRECISIONS,
    SHOW_INPUTS,
    STRICT,
    Settings,
    duration,
    number_or,
    numbers,
    setting,
)
from retrokit.metrics.names import metric_names
from retrokit.training import guides, lora

if TYPE_CHECKING:
    from retrokit.data.training_rows import Kind
    from retrokit.training.model import LowRank

DIRECTIONS = ("query-to-document", "document-to-query", "both")
LOSSES = ("infonce", "kl", "margin-mse", "mse")
TAUGHT = {"kl", "margin-mse"}
"""Losses against a teacher's scores."""
TRACKERS = ("tensorboard", "trackio", "wandb", "mlflow")
SCHEDULES = ("linear", "cosine", "constant")
FOR_LOSSES = {
    "teacher_temperature": ("kl",),
    "temperature": ("infonce", "kl"),
    "max_score": ("mse",),
    **dict.fromkeys(("directions", "no_duplicates", "guide", "unmasked"), ("infonce",)),
}
"""Options of some losses only."""
DEFAULT_SCALE = {"infonce": 20.0, "kl": 20.0, "margin-mse": 1.0, "mse": 1.0}
AUTO = "auto"
"""As a similarity: chosen by a probe of the encoder; as a scale: as sharp as cosine's."""

LOSS, BATCHES, OPTIMIZER, EVALUATION = "Loss", "Batches", "Optimizer", "Evaluation"
TRAINED, CHECKPOINTS, OUTPUT = "Adapters", "Checkpoints", "Output"


def rank_or_spec(text: str) -> int | str:
    """A number if only a rank is given."""
    spec = lora.parse(text)
    return spec.params["rank"] if len(spec.params) == 1 else str(spec)  # type: ignore[return-value] # it is one


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """The options of any training.

    Raises:
        UsageError: all problems at once.
    """

    encoder: str = setting(help="Encoder to start from.", argument=True, names="encoders")
    data: Sequence[str] = setting(help="Train on FILE.jsonl, -, beir:PATH or hf:NAME. Repeatable.", names="data")
    output: str | None = setting(
        None, "Model folder to write.", OUTPUT, flags=("--output", "-o"), result=False, writes=FOLDER
    )
    _: KW_ONLY
    epochs: float | None = setting(None, "Pass N times over the data. Default: 1.", BATCHES, above=0, maximum=1e6)
    steps: int | None = setting(None, "Take N optimizer steps, instead of `epochs=`.", BATCHES, above=0)
    time_budget: float | None = setting(None, "Train for this time: 90s, 4m, 1.5h.", BATCHES, above=0, read=duration)
    accumulate: int = setting(1, "Accumulate gradients over N batches.", BATCHES, above=0)
    mix: bool = setting(False, "Mix sources within batches. Default: one source each.", BATCHES)
    weight_decay: float = setting(
        0.01, "Set AdamW's weight decay (not of biases, norms, γ).", OPTIMIZER, minimum=0, maximum=100
    )
    warmup: float = setting(0.1, "Warm up over N steps, or a share of them below 1.", OPTIMIZER, minimum=0)
    schedule: str = setting("linear", "Decay the learning rate after the warm-up.", OPTIMIZER, choices=SCHEDULES)
    max_grad_norm: float = setting(1.0, "Clip gradients to this norm.", OPTIMIZER, above=0)
    adam_betas: tuple[float, float] = setting(
        "0.9,0.999", "Set Adam's β1,β2.", OPTIMIZER, minimum=0, maximum=1, read=numbers("adam_betas", float, 2)
    )
    precision: str = setting("auto", "Compute in this type; auto: bf16 if faster.", OPTIMIZER, choices=PRECISIONS)
    tf32: bool = setting(False, "Allow TF32 matrix products on a GPU.", OPTIMIZER)
    deterministic: bool = setting(False, "Use deterministic kernels, which can be slower.", OPTIMIZER)
    seed: int = setting(0, "Seed batches, dropout and new weights.", OPTIMIZER, minimum=0)
    eval_every: int | None = setting(None, "Evaluate every N steps.", EVALUATION, above=0)
    best_metric: str | None = setting(
        None, "Select weights by TASK:METRIC. Default: first task's main.", EVALUATION, canonical=metric_names
    )
    patience: int | None = setting(None, "Stop after N evaluations without improvement.", EVALUATION, above=0)
    log_every: int = setting(10, "Log every N steps to metrics.jsonl.", OUTPUT, above=0, result=False)
    save_every: int | None = setting(
        None, "Save every N steps. Default: `eval_every=`, else a tenth.", CHECKPOINTS, above=0
    )
    keep_checkpoints: int = setting(1, "Keep the last N checkpoints, and the best.", CHECKPOINTS, above=0, result=False)
    track: Sequence[str] = setting(
        (), "Log metrics to this tracker. Repeatable.", OUTPUT, choices=TRACKERS, result=False, extra="{}"
    )
    device: str | None = setting(None, "Compute on cpu, cuda, cuda:1 or mps. Default: detected.", result=False)
    overwrite: bool = setting(False, "Replace the model folder.", OUTPUT, result=False)
    resume: bool = setting(False, "Resume from the last checkpoint.", CHECKPOINTS, result=False)

    def __post_init__(self) -> None:
        parse_all(self.specs())
        super().__post_init__()

    def specs(self) -> list[tuple[Registry, str]]:
        """All specs, each with its registry."""
        from retrokit.data.pairs import registry as sources  # a help page needs no reader of data

        updates = [(lora, self.lora)] if isinstance(self.lora, str) else []
        return [(encoders.registry, self.encoder), *((sources, spec) for spec in self.data), *updates]

    lora: int | str | None = None

    @property
    def low_rank(self) -> LowRank | None:
        """The updates that ``lora`` names."""
        adapter: LowRank | None = lora.create(str(self.lora)) if self.lora is not None else None
        return adapter

    def combination_problems(self) -> list[str | None]:
        """Problems of options that do not fit together."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        lengths = [f"`{name}=`" for name in ("epochs", "steps", "time_budget") if getattr(self, name) is not None]
        messages = [
            None if self.data else "no training data: give `data=` at least once",
            f"give one of {', '.join(lengths)}, not {len(lengths)}" if len(lengths) > 1 else None,
            "`overwrite=` and `resume=` exclude each other" if self.overwrite and self.resume else None,
            *self.combination_problems(),
            f"`warmup=` {self.warmup:g}: expected whole steps, or a share of them below 1"
            if self.warmup > 1 and self.warmup % 1
            else None,
            *self.number_problems(),
            *(f"`adam_betas=` {beta} must be from 0 to below 1" for beta in self.adam_betas if beta == 1),
        ]
        return (problem for problem in messages if problem)

    def inputs(self) -> list[str]:
        """The paths of inputs."""
        from retrokit.core.outputs import paths_in

        return paths_in(getattr(self, field.name) for field in fields(self) if not field.metadata["content"].writes)


@dataclass(frozen=True)
class EncoderTrainingConfig(TrainingConfig):
    """The options of any training of an encoder: its scores, what of it learns, and the evaluations."""

    _: KW_ONLY
    scale: float | str | None = setting(
        None,
        "Multiply scores; auto: as sharp as cosine. Default: 20 or 1.",
        LOSS,
        above=0,
        read=number_or("auto", "scale"),
    )
    temperature: float | None = setting(None, "Divide scores by this, instead of `scale=`.", LOSS, above=0)
    directions: str = setting("query-to-document", "Rank in this direction.", LOSS, choices=DIRECTIONS)
    batch_size: int = setting(64, "Batch N examples per process.", BATCHES, above=0)
    no_duplicates: bool = setting(False, "Avoid duplicate texts within a global batch.", BATCHES)
    lr: float | None = setting(
        None, "Set the peak learning rate. Default: 2e-5 (static: 0.05).", OPTIMIZER, above=0, maximum=100
    )
    max_length: int | None = setting(None, "Truncate texts to N tokens while training.", BATCHES, above=0)
    freeze: str | None = setting(None, "Freeze embeddings, first:N layers or all-but:K layers.", TRAINED)
    lora: int | str | None = setting(
        None,
        "Train low-rank updates: 16, or rank=16,alpha=32.",
        TRAINED,
        above=0,
        read=rank_or_spec,
        extra="lora",
    )
    dropout: float | None = setting(
        None, "Set the dropout probability. Default: the encoder's.", TRAINED, minimum=0, maximum=1
    )
    holdout: float | None = setting(
        None, "Hold out a fraction or N anchors, and evaluate on them.", EVALUATION, above=0
    )
    eval: Sequence[str] = setting((), "Evaluate on this task before and after. Repeatable.", EVALUATION, names="tasks")
    overlap_examples: int = setting(0, OVERLAP_EXAMPLES, EVALUATION, minimum=0, result=False)
    strict: bool = setting(False, STRICT, EVALUATION, result=False)

    def __post_init__(self) -> None:
        if isinstance(self.eval, str):  # one task, from Python
            object.__setattr__(self, "eval", (self.eval,))
        super().__post_init__()

    def specs(self) -> list[tuple[Registry, str]]:
        return [*super().specs(), *((evaluation.registry, spec) for spec in self.eval)]

    def combination_problems(self) -> list[str | None]:
        evaluates = bool(self.eval) or self.holdout is not None
        no_freeze = self.freeze is not None and not re.fullmatch(r"embeddings|(first|all-but):\d{1,5}", self.freeze)
        wrong: dict[str, Any] = {
            "`scale=` and `temperature=` exclude each other": None not in (self.scale, self.temperature),
            f"`scale=` {self.scale}: expected a number or auto": isinstance(self.scale, str) and self.scale != AUTO,
            f"`freeze=` {self.freeze}: expected embeddings, first:N or all-but:K": no_freeze,
            "`eval_every=` needs `eval=` or `holdout=`": self.eval_every and not evaluates,
            "`patience=` needs `eval=` or `holdout=`, and `eval_every=`": self.patience
            and not (evaluates and self.eval_every),
            "`eval=` names a task twice": len(set(map(evaluation.registry.parse, self.eval))) < len(self.eval),
            "`best_metric=` needs `eval=` or `holdout=`": self.best_metric and not evaluates,
            "`freeze=` and `lora=` exclude each other": self.freeze and self.lora,
            f"`dropout=` {self.dropout} must be from 0 to below 1": self.dropout == 1,
        }
        return [problem for problem, is_there in wrong.items() if is_there]

    @property
    def fixed_scale(self) -> float:
        """The multiplier of the scores, before ``auto`` divides it."""
        if isinstance(self.scale, float):
            return self.scale
        if self.temperature is not None:
            return 1 / self.temperature
        return self.default_scale

    @property
    def default_scale(self) -> float:
        """The multiplier if neither a scale nor a temperature is given."""
        return DEFAULT_SCALE["infonce"]


@dataclass(frozen=True)
class FinetuneConfig(EncoderTrainingConfig):
    """The options of fine-tuning an encoder."""

    panels = (None, EVALUATION, LOSS, BATCHES, OPTIMIZER, TRAINED, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "eval", "holdout", "sim", "epochs", "batch_size", "max_length", "lr", "seed"),
        *("dry_run", "resume"),
    )

    _: KW_ONLY
    sim: str = setting("cosine", "Train with this similarity, or auto (by a probe).", LOSS, names="similarities")
    loss: str = setting("infonce", "Minimise infonce, mse, kl, margin-mse; sum: infonce+kl=0.5.", LOSS)
    teacher_temperature: float = setting(1.0, "Divide the teacher's scores by this (kl).", LOSS, above=0)
    guide: str | None = setting(None, "Mask false negatives by an encoder: minilm,margin=0.05.", LOSS, names="encoders")
    max_score: float | None = setting(None, "Count this score as 1 (mse). Default: the highest.", LOSS, above=0)
    augment: Sequence[str] = setting((), "Make pairs of texts: crops, dropout, mask. Repeatable.")
    unmasked: bool = setting(False, "Count an anchor's other positives as negatives (MAG, Eq. 2).", LOSS)
    mini_batch: int | None = setting(None, "Hold activations of N texts (gradient caching).", BATCHES, above=0)
    gradient_checkpointing: bool = setting(False, "Recompute activations to save memory.", BATCHES, result=False)
    sim_lr: float | None = setting(
        None, "Set the learning rate of a learned similarity (γ).", OPTIMIZER, above=0, maximum=100
    )
    show_inputs: int = setting(0, SHOW_INPUTS, OUTPUT, minimum=0, result=False)
    matryoshka: Sequence[int] = setting(
        (), "Train these prefixes of the embedding too: 64,128.", LOSS, minimum=1, read=numbers("matryoshka", int)
    )
    load: str | None = setting(
        None, "Load weights in this many bits, for `lora=` (QLoRA).", TRAINED, choices=("4bit", "8bit"), extra="bits"
    )
    merge_lora: bool = setting(False, "Save a whole model, the updates of `lora=` merged.", TRAINED)

    def specs(self) -> list[tuple[Registry, str]]:
        specs: list[tuple[Registry, str]] = [(similarities.registry, self.sim)] if self.sim != AUTO else []
        specs += [(augmentation.registry, spec) for spec in self.augment]
        if self.guide is not None:
            specs += [(guides, self.guide), (encoders.registry, str(guides.parse(self.guide).params["encoder"]))]
        return [*super().specs(), *specs]

    def combination_problems(self) -> list[str | None]:
        losses, spec = self.losses, encoders.registry.parse(self.encoder)
        has_bits = encoders.registry.entry(spec.name).param("bits") is not None
        names = LOSSES[:-1] if "+" in self.loss else LOSSES
        known = all(name in names and 0 < weight < math.inf for name, weight in losses.items())
        scored = self.loss == "mse"
        default = {field.name: field.default for field in fields(self)}
        wrong: dict[str, Any] = {
            f"`loss=` {self.loss}: expected one of {', '.join(LOSSES)}, or a sum of the first three such as "
            "infonce+kl=0.5": not known or len(losses) < len(self.loss.split("+")),
            **{
                f"`{name}=` is for `loss=` {' or '.join(needed)}": losses.keys().isdisjoint(needed)
                for name, needed in FOR_LOSSES.items()
                if getattr(self, name) != default[name]
            },
            "`scale=` auto is for `loss=` infonce, kl or mse": self.scale == AUTO and losses.keys() == {"margin-mse"},
            "`sim=` auto is for `loss=` infonce, not for scored pairs": scored and self.sim == AUTO,
            "`augment=` is for `loss=` infonce": self.loss != "infonce" and self.augment,
            "`guide=` and `augment=` exclude each other": self.guide and self.augment,
            "`load=` needs `lora=`": self.load and not self.lora,
            f"`load=`: {self.encoder} cannot be loaded in bits; give a folder or a hub id": self.load and not has_bits,
            f"`load=` and {self.encoder} both name bits; give one": self.load and "bits" in spec.params,
            "`merge_lora=` and `load=` exclude each other": self.merge_lora and self.load,
            "`merge_lora=` needs `lora=`": self.merge_lora and not self.lora,
        }
        return [*super().combination_problems(), *(problem for problem, is_there in wrong.items() if is_there)]

    @property
    def losses(self) -> dict[str, float]:
        """Each loss with its weight in the sum; NaN for a weight that is not a number."""
        parts = (part.partition("=") for part in self.loss.split("+"))
        return {name: _weight(text) if is_weighted else 1.0 for name, is_weighted, text in parts}

    @property
    def kind(self) -> Kind:
        """The records that it trains on."""
        return "texts" if self.augment else "scored" if self.loss == "mse" else "taught" if self.is_taught else "pairs"

    @property
    def start(self) -> str:
        """The spec of the encoder, with the bits of ``load``."""
        if self.load is None:
            return self.encoder
        spec = encoders.registry.parse(self.encoder)
        return str(spec.changed(bits=self.load.removesuffix("bit")))

    @property
    def is_taught(self) -> bool:
        """Whether it needs a teacher's scores."""
        return not TAUGHT.isdisjoint(self.losses)

    @property
    def default_scale(self) -> float:
        return max(DEFAULT_SCALE[name] for name in self.losses)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def one_of(name: str, value: str, allowed: Sequence[str]) -> str | None:
    """The problem of a value that is not allowed."""
    return None if value in allowed else f"`{name}=` {value} is none of {', '.join(allowed)}"


def differences(
    before: dict[str, Any], now: dict[str, Any], before_label: str = "was", now_label: str = "now"
) -> list[str]:
    """Differences of two identities, each as ``option was X, now Y``."""
    keys = [*now, *(key for key in before if key not in now)]
    return [
        f"{key.replace('_', '-')} {before_label} {before.get(key)}, {now_label} {now.get(key)}"
        for key in keys
        if before.get(key) != now.get(key)
    ]
