"""The options of training, checked as far as that needs no model and no data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from retrokit import augmentation, encoders, evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.registry import Registry, Spec, Value, parse_all
from retrokit.core.settings import (
    FOLDER,
    PRECISIONS,
    Settings,
    common,
    duration,
    number_or,
    numbers,
    param_of,
    setting,
)
from retrokit.metrics.names import metric_names
from retrokit.training import lora, losses

if TYPE_CHECKING:
    from retrokit.data.training_rows import Kind
    from retrokit.training.model import LowRank

TAUGHT = {"kl", "margin-mse"}
"""Losses against a teacher's scores."""
TRACKERS = ("tensorboard", "trackio", "wandb", "mlflow")
SCHEDULES = ("linear", "cosine", "constant")
NO_DATA = "no training data: give `data=` at least once"
INFONCE = ("loss=infonce",)
EVALUATES = ("eval", "holdout")
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

    adapts_weights: ClassVar[bool] = False
    """Whether ``load`` and ``merge`` of ``lora`` are for it."""

    encoder: str = setting(help="Encoder to start from.", argument=True, names="encoders")
    data: Sequence[str] = setting(
        help="Train on FILE.jsonl, -, beir:PATH or hf:NAME. Repeatable.", names="data", missing=NO_DATA
    )
    output: str | None = setting(
        None, "Model folder to write.", OUTPUT, flags=("--output", "-o"), result=False, writes=FOLDER
    )
    _: KW_ONLY
    epochs: float | None = setting(None, "Pass N times over the data. Default: 1.", BATCHES, above=0, maximum=1e6)
    steps: int | None = setting(None, "Take N optimizer steps, instead of `epochs=`.", BATCHES, excludes=("epochs",))
    time_budget: float | None = setting(
        None, "Train for this time: 90s, 4m, 1.5h.", BATCHES, above=0, read=duration, excludes=("epochs", "steps")
    )
    accumulate: int = setting(1, "Accumulate gradients over N batches.", BATCHES)
    mix: bool = setting(False, "Mix sources within batches. Default: one source each.", BATCHES)
    weight_decay: float = setting(
        0.01, "Set AdamW's weight decay (not of biases, norms, γ).", OPTIMIZER, minimum=0, maximum=100
    )
    warmup: float = setting(0.1, "Warm up over N steps, or a share of them below 1.", OPTIMIZER, minimum=0)
    schedule: str = setting("linear", "Decay the learning rate after the warm-up.", OPTIMIZER, choices=SCHEDULES)
    max_grad_norm: float = setting(1.0, "Clip gradients to this norm.", OPTIMIZER, above=0)
    adam_betas: tuple[float, float] = setting(
        "0.9,0.999", "Set Adam's β1,β2.", OPTIMIZER, minimum=0, below=1, read=numbers(float, 2)
    )
    precision: str = setting("auto", "Compute in this type; auto: bf16 if faster.", OPTIMIZER, choices=PRECISIONS)
    tf32: bool = setting(False, "Allow TF32 matrix products on a GPU.", OPTIMIZER)
    deterministic: bool = setting(False, "Use deterministic kernels, which can be slower.", OPTIMIZER)
    seed: int = common("seed", help="Seed batches, dropout and new weights.", panel=OPTIMIZER)
    eval_every: int | None = setting(None, "Evaluate every N steps.", EVALUATION, needs=EVALUATES)
    best_metric: str | None = setting(
        None,
        "Select weights by TASK:METRIC. Default: first task's main.",
        EVALUATION,
        canonical=metric_names,
        needs=EVALUATES,
    )
    patience: int | None = setting(
        None, "Stop after N evaluations without improvement.", EVALUATION, needs=("eval_every",)
    )
    log_every: int = setting(10, "Log every N steps to metrics.jsonl.", OUTPUT, result=False)
    save_every: int | None = setting(None, "Save every N steps. Default: `eval_every=`, else a tenth.", CHECKPOINTS)
    keep_checkpoints: int = setting(1, "Keep the last N checkpoints, and the best.", CHECKPOINTS, result=False)
    track: Sequence[str] = setting(
        (), "Log metrics to this tracker. Repeatable.", OUTPUT, choices=TRACKERS, result=False, extra="{}"
    )
    device: str | None = common("device")
    overwrite: bool = common("overwrite", help="Replace the model folder.", panel=OUTPUT)
    resume: bool = setting(
        False, "Resume from the last checkpoint.", CHECKPOINTS, result=False, excludes=("overwrite",)
    )

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
    def lora_options(self) -> Mapping[str, Value]:
        """The parameters that ``lora`` gives."""
        return lora.parse(str(self.lora)).params if self.lora is not None else {}

    @property
    def low_rank(self) -> LowRank | None:
        """The updates that ``lora`` names."""
        adapter: LowRank | None = lora.create(str(self.lora)) if self.lora is not None else None
        return adapter

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.adapts_weights and not self.lora_options.keys().isdisjoint(("load", "merge")):
            yield f"`lora=` {self.lora}: load and merge are for retrokit finetune"
        if self.warmup > 1 and self.warmup % 1:
            yield f"`warmup=` {self.warmup:g}: expected whole steps, or a share of them below 1"

    def inputs(self) -> list[str]:
        """The paths of inputs."""
        from retrokit.core.outputs import paths_in

        return paths_in(getattr(self, field.name) for field in fields(self) if not param_of(field).writes)


@dataclass(frozen=True)
class EncoderTrainingConfig(TrainingConfig):
    """The options of any training of an encoder: its scores, what of it learns, and the evaluations."""

    _: KW_ONLY
    scale: float | str | None = setting(
        None,
        "Multiply scores; auto: as sharp as cosine. Default: 20 or 1.",
        LOSS,
        above=0,
        read=number_or("auto"),
    )
    temperature: float | None = setting(
        None,
        "Divide scores by this, instead of `scale=`.",
        LOSS,
        above=0,
        needs=("loss=infonce", "loss=kl"),
        excludes=("scale",),
    )
    batch_size: int = setting(64, "Batch N examples per process.", BATCHES)
    no_duplicates: bool = setting(False, "Avoid duplicate texts within a global batch.", BATCHES, needs=INFONCE)
    lr: float | None = setting(
        None, "Set the peak learning rate. Default: 2e-5 (static: 0.05).", OPTIMIZER, above=0, maximum=100
    )
    max_length: int | None = setting(None, "Truncate texts to N tokens while training.", BATCHES)
    freeze: str | None = setting(
        None,
        "Freeze embeddings, first:N layers or all-but:K layers.",
        TRAINED,
        pattern=r"embeddings|(first|all-but):\d{1,5}",
        form="embeddings, first:N or all-but:K",
        excludes=("lora",),
    )
    lora: int | str | None = setting(
        None,
        "Train low-rank updates: 16, or rank=16,alpha=32.",
        TRAINED,
        above=0,
        read=rank_or_spec,
        extra="lora",
    )
    dropout: float | None = setting(
        None, "Set the dropout probability. Default: the encoder's.", TRAINED, minimum=0, below=1
    )
    holdout: float | None = setting(
        None, "Hold out a fraction or N anchors, and evaluate on them.", EVALUATION, above=0
    )
    eval: Sequence[str] = setting((), "Evaluate on this task before and after. Repeatable.", EVALUATION, names="tasks")
    strict: bool = common("strict", panel=EVALUATION)

    def __post_init__(self) -> None:
        if isinstance(self.eval, str):  # one task, from Python
            object.__setattr__(self, "eval", (self.eval,))
        super().__post_init__()

    def specs(self) -> list[tuple[Registry, str]]:
        return [*super().specs(), *((evaluation.registry, spec) for spec in self.eval)]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if isinstance(self.scale, str) and self.scale != AUTO:
            yield f"`scale=` {self.scale}: expected a number or auto"
        if len(set(map(evaluation.registry.parse, self.eval))) < len(self.eval):
            yield "`eval=` names a task twice"

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

    adapts_weights = True
    panels = (None, EVALUATION, LOSS, BATCHES, OPTIMIZER, TRAINED, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "eval", "holdout", "sim", "epochs", "batch_size", "max_length", "lr", "seed"),
        *("dry_run", "resume"),
    )

    _: KW_ONLY
    sim: str = setting("cosine", "Train with this similarity, or auto (by a probe).", LOSS, names="similarities")
    loss: str = setting("infonce", "Minimise infonce, mse, kl, margin-mse; sum: infonce+kl:0.5.", LOSS, names="losses")
    augment: Sequence[str] = setting(
        (),
        "Make pairs of texts: crops, dropout, mask. Repeatable.",
        excludes=("loss=kl", "loss=mse", "loss=margin-mse"),
        names="augmentations",
    )
    mini_batch: int | None = setting(None, "Hold activations of N texts (gradient caching).", BATCHES)
    gradient_checkpointing: bool = setting(False, "Recompute activations to save memory.", BATCHES, result=False)
    sim_lr: float | None = setting(
        None, "Set the learning rate of a learned similarity (γ).", OPTIMIZER, above=0, maximum=100
    )
    show_inputs: int = common("show_inputs", panel=OUTPUT)
    matryoshka: Sequence[int] = setting(
        (), "Train these prefixes of the embedding too: 64,128.", LOSS, minimum=1, read=numbers(int)
    )

    def specs(self) -> list[tuple[Registry, str]]:
        specs: list[tuple[Registry, str]] = [(similarities.registry, self.sim)] if self.sim != AUTO else []
        specs += [(augmentation.registry, spec) for spec in self.augment]
        specs += [(losses, text) for text in self._summands]
        with suppress(UsageError):  # which parsing the losses raises too
            specs += [(encoders.registry, self.guide)] if self.guide is not None else []
        return [*super().specs(), *specs]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from self._sum_problems()
        if self.scale == AUTO and self.weights.keys() == {"margin-mse"}:
            yield "`scale=` auto is for `loss=` infonce, kl or mse"
        if self.sim == AUTO and "mse" in self.weights:
            yield "`sim=` auto is for `loss=` infonce, not for scored pairs"
        if self.guide is not None and self.augment:
            yield "`loss=` with a guide and `augment=` exclude each other"
        if self.merges and self.load is not None:
            yield f"`lora=` {self.lora}: load and merge exclude each other"
        if self.load is not None:
            yield from self._load_problems()

    def _sum_problems(self) -> Iterator[str]:
        if len(self.weights) < len(self._summands):
            yield f"`loss=` {self.loss} names a loss twice"
        if "mse" in self.weights and len(self.weights) > 1:
            yield f"`loss=` {self.loss}: mse is for scored pairs, and no part of a sum"
        has_margin = self.of_loss("margin") != 0 or self.of_loss("margin_type") != "absolute"
        if has_margin and self.guide is None:
            yield f"`loss=` {self.loss}: margin and margin_type need guide=SPEC"

    def _load_problems(self) -> Iterator[str]:
        spec = encoders.registry.parse(self.encoder)
        if encoders.registry.entry(spec.name).param("bits") is None:
            yield f"`lora=` {self.lora}: {self.encoder} cannot be loaded in bits; give a folder or a hub id"
        elif "bits" in spec.params:
            yield f"`lora=` {self.lora} and {self.encoder} both name bits; give one"

    def values_of(self, name: str) -> Sequence[Any]:
        """As the base class; for ``loss``, the losses of the sum."""
        return list(self.weights) if name == "loss" else super().values_of(name)

    @property
    def _summands(self) -> list[str]:
        return re.split(r"\+(?=[a-z-]+(?:[:+]|$))", self.loss)  # not within the path of a guide

    @property
    def weights(self) -> dict[str, float]:
        """Each loss with its weight in the sum."""
        parsed = [losses.parse(text) for text in self._summands]
        return {spec.name: losses.options(spec).get("weight", 1.0) for spec in parsed}

    def of_loss(self, name: str) -> Any:
        """The parameter of that name, of the loss that has it; its default if that is no part of the sum."""
        entry = next(entry for entry in losses.entries() if entry.param(name) is not None)
        parsed = [losses.parse(text) for text in self._summands]
        spec = next((spec for spec in parsed if spec.name == entry.name), Spec(entry.name))
        return losses.options(spec)[name]

    @property
    def guide(self) -> str | None:
        """The spec of the encoder that masks false negatives."""
        guide: str | None = self.of_loss("guide")
        return guide

    @property
    def kind(self) -> Kind:
        """The records that it trains on."""
        if self.augment:
            return "texts"
        if "mse" in self.weights:
            return "scored"
        return "taught" if self.is_taught else "pairs"

    @property
    def load(self) -> str | None:
        """The bits that weights are loaded in."""
        bits: Any = self.lora_options.get("load")
        return bits

    @property
    def merges(self) -> bool:
        """Whether low-rank updates are merged into the model that is saved."""
        return bool(self.lora_options.get("merge"))

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
        return not TAUGHT.isdisjoint(self.weights)

    @property
    def default_scale(self) -> float:
        return max(DEFAULT_SCALE[name] for name in self.weights)


_DIGESTS = "_digests"  # how the fields of files' digests end


def differences(
    before: dict[str, Any], now: dict[str, Any], before_label: str = "was", now_label: str = "now"
) -> list[str]:
    """Differences of two identities, each as ``option was X, now Y``, or as the files whose content differs."""
    keys = [*now, *(key for key in before if key not in now)]
    problems = []
    for key in keys:
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        changed = _changed_files(now, key, old, new) if key.endswith(_DIGESTS) else []
        if changed:
            problems.append(f"the content of {', '.join(changed)} differs")
        else:
            problems.append(f"{key.replace('_', '-')} {before_label} {old}, {now_label} {new}")
    return problems


def _changed_files(identity: dict[str, Any], key: str, old: list[str] | None, new: list[str] | None) -> list[str]:
    """The files of an ``identity`` whose digests, those of ``key``, differ."""
    names = identity.get(key.removesuffix(_DIGESTS)) or []
    return [name for name, before, now in zip(names, old or [], new or [], strict=False) if before != now]
