"""Every option of a run: those of any training, and those of a fine-tuning. They are checked as far as that needs no
model and no data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from retrokit import augmentation, encoders, evaluation, similarities
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import (
    FOLDER,
    OVERLAP_EXAMPLES,
    PRECISIONS,
    STRICT,
    Settings,
    duration,
    number_or,
    numbers,
    setting,
)
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
DEFAULT_SCALE = {"infonce": 20.0, "kl": 20.0, "margin-mse": 1.0, "mse": 1.0}
AUTO = "auto"
"""In place of a similarity: the one that a probe of the encoder chooses; of a size: the largest that fits."""

LOSS, BATCHES, OPTIMIZER, EVALUATION = "Loss", "Batches", "Optimizer", "Evaluation"
TRAINED, CHECKPOINTS, OUTPUT = "Adapters", "Checkpoints", "Output"


def rank_or_spec(text: str) -> int | str:
    """A rank alone as a number, as it was when there was nothing else to say."""
    spec = lora.parse(text)
    return spec.params["rank"] if len(spec.params) == 1 else str(spec)  # type: ignore[return-value] # it is one


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """What any run is asked for.

    Raises:
        UsageError: whatever is wrong with it, all at once.
    """

    encoder: str = setting(help="Encoder to start from.", argument=True)
    data: Sequence[str] = setting(
        help="Training data: FILE.jsonl, -, beir:PATH, hf:NAME; with ,weight=2 to mix. Repeatable."
    )
    output: str | None = setting(
        None, "Model folder to write.", OUTPUT, flags=("--output", "-o"), result=False, writes=FOLDER
    )
    _: KW_ONLY
    epochs: float | None = setting(None, "Passes over the data. Default: 1.", BATCHES, above=0, maximum=1e6)
    steps: int | None = setting(None, "Optimizer steps, instead of `epochs=`.", BATCHES, above=0)
    time_budget: float | None = setting(
        None, "Time to train, e.g. 90s, 4m, 1.5h: as many steps as fit.", BATCHES, above=0, read=duration
    )
    accumulate: int = setting(
        1,
        "Batches of an optimizer step: their gradients are averaged. Unlike `mini_batch=`, it adds no negatives.",
        BATCHES,
        above=0,
    )
    weight_decay: float = setting(0.01, "AdamW's; never on γ, biases and norms.", OPTIMIZER, minimum=0, maximum=100)
    warmup: float = setting(0.1, "Steps of linear warm-up; below 1: a share of all steps.", OPTIMIZER, minimum=0)
    schedule: str = setting("linear", "After the warm-up.", OPTIMIZER, choices=SCHEDULES)
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm.", OPTIMIZER, above=0)
    adam_betas: tuple[float, float] = setting(
        "0.9,0.999", "Adam's β1,β2.", OPTIMIZER, minimum=0, maximum=1, read=numbers("adam_betas", float, 2)
    )
    precision: str = setting("auto", "auto is bf16 where the machine is faster with it.", OPTIMIZER, choices=PRECISIONS)
    tf32: bool = setting(False, "Let a GPU multiply float32 with 10 bits of mantissa (TensorFloat-32).", OPTIMIZER)
    deterministic: bool = setting(
        False, "Compute by what gives the same bits every time, where it is slower.", OPTIMIZER
    )
    seed: int = setting(0, "Seed of batches, dropout and fresh weights.", OPTIMIZER, minimum=0)
    eval_every: int | None = setting(None, "Evaluate every N steps too.", EVALUATION, above=0)
    best_metric: str | None = setting(
        None, "Metric that decides: TASK:METRIC, e.g. scifact:mrr@10. Default: the main one of the first.", EVALUATION
    )
    patience: int | None = setting(None, "Stop after N evaluations without a better one.", EVALUATION, above=0)
    log_every: int = setting(10, "Log every N steps.", OUTPUT, above=0, result=False)
    save_every: int | None = setting(
        None,
        "Steps between checkpoints. Default: `eval_every=`, else a tenth of the run, at least 50.",
        CHECKPOINTS,
        above=0,
    )
    keep_checkpoints: int = setting(1, "Checkpoints to keep, besides the best.", CHECKPOINTS, above=0, result=False)
    track: Sequence[str] = setting(
        (), "Log metrics to this tracker. Repeatable.", OUTPUT, choices=TRACKERS, result=False
    )
    device: str | None = setting(None, "cpu, cuda, cuda:1, mps; default: the best there is.", result=False)
    overwrite: bool = setting(False, "Replace the output folder.", OUTPUT, result=False)
    resume: bool = setting(False, "Resume from the last checkpoint.", CHECKPOINTS, result=False)

    def __post_init__(self) -> None:
        parse_all(self.specs())
        super().__post_init__()

    def read_specs(self) -> list[tuple[Registry, str]]:
        """The specs of what is read, each with the registry that it is of."""
        from retrokit.data.pairs import registry as sources  # here, for a help page needs no reader of data

        return [(encoders.registry, self.encoder), *((sources, spec) for spec in self.data)]

    def specs(self) -> list[tuple[Registry, str]]:
        """All specs."""
        return self.read_specs()

    lora: int | str | None = None

    @property
    def low_rank(self) -> LowRank | None:
        """What ``lora`` says."""
        adapter: LowRank | None = lora.create(str(self.lora)) if self.lora is not None else None
        return adapter

    def lora_specs(self) -> list[tuple[Registry, str]]:
        """The spec of ``lora``, where it says more than a rank."""
        return [(lora, self.lora)] if isinstance(self.lora, str) else []

    def combination_problems(self) -> list[str | None]:
        """What is wrong with the options of this kind of run beside each other."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        lengths = [f"`{name}=`" for name in ("epochs", "steps", "time_budget") if getattr(self, name) is not None]
        messages = [
            None if self.data else "no training data: give `data=` at least once",
            f"give one of {', '.join(lengths)}, not {len(lengths)}" if len(lengths) > 1 else None,
            "`overwrite=` and `resume=` exclude each other" if self.overwrite and self.resume else None,
            *self.combination_problems(),
            *self.number_problems(),
            *(f"`adam_betas=` {beta} must be from 0 to below 1" for beta in self.adam_betas if beta == 1),
        ]
        return (problem for problem in messages if problem)

    def inputs(self) -> list[str]:
        """The paths that are read."""
        from retrokit.core.outputs import paths_in

        return paths_in(getattr(self, field.name) for field in fields(self) if not field.metadata["writes"])


@dataclass(frozen=True)
class FinetuneConfig(TrainingConfig):
    """What to fine-tune, and how."""

    panels = (None, EVALUATION, LOSS, BATCHES, OPTIMIZER, TRAINED, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "eval", "holdout", "sim", "epochs", "batch_size", "max_length", "lr", "seed"),
        *("dry_run", "resume"),
    )

    _: KW_ONLY
    sim: str = setting(
        "cosine", "Similarity to train with; auto: qnorm or dnorm as a probe predicts (MAG 4.5), else learn.", LOSS
    )
    loss: str = setting(
        "infonce",
        "infonce; mse on scored pairs; kl or margin-mse against a teacher's scores; sums: infonce+kl=0.5.",
        LOSS,
    )
    teacher_temperature: float = setting(1.0, "With kl: what the teacher's scores are divided by.", LOSS, above=0)
    guide: str | None = setting(
        None,
        "Encoder that masks false negatives: those that it finds nearer than the positive, "
        "e.g. minilm,margin=0.05,type=relative.",
        LOSS,
    )
    scale: float | str | None = setting(
        None,
        "Multiplier of the scores (infonce, kl: 20; else 1); auto: by their typical size, to start as cosine does.",
        LOSS,
        above=0,
        read=number_or("auto", "scale"),
    )
    temperature: float | None = setting(None, "The inverse of `scale=`.", LOSS, above=0)
    max_score: float | None = setting(
        None, "With mse: the score that counts as 1. Default: the highest in the data.", LOSS, above=0
    )
    augment: Sequence[str] = setting(
        (), "Make pairs of the data's texts, fresh ones every epoch: crops, dropout, mask. Repeatable."
    )
    directions: str = setting("query-to-document", "What ranks what.", LOSS, choices=DIRECTIONS)
    batch_size: int | str = setting(
        "64",
        "Examples of a batch, for each process; auto: as many as fit into memory.",
        BATCHES,
        above=0,
        read=number_or("auto", "batch_size", int),
    )
    mini_batch: int | str | None = setting(
        None,
        "Texts whose activations are held at once (gradient caching); auto: as many as fit into memory.",
        BATCHES,
        above=0,
        read=number_or("auto", "mini_batch", int),
    )
    no_duplicates: bool = setting(False, "No text in two examples of a batch, of all processes together.", BATCHES)
    gradient_checkpointing: bool = setting(
        False, "Compute each layer a second time for its gradients, and keep its input alone.", BATCHES, result=False
    )
    lr: float | None = setting(
        None, "Highest learning rate. Default: 2e-5, of a static encoder 0.05.", OPTIMIZER, above=0, maximum=100
    )
    sim_lr: float | None = setting(
        None, "Learning rate of what the similarity learns (γ).", OPTIMIZER, above=0, maximum=100
    )
    max_length: int | None = setting(
        None, "Tokens of a text while training; the saved encoder keeps its own limit.", BATCHES, above=0
    )
    freeze: str | None = setting(None, "embeddings, first:N (and embeddings), all-but:K (the last K layers).", TRAINED)
    matryoshka: Sequence[int] = setting(
        (), "Also train these prefixes of the embedding: 64,128.", LOSS, minimum=1, read=numbers("matryoshka", int)
    )
    lora: int | str | None = setting(
        None,
        "Train low-rank updates, saved as an adapter of the encoder: 16, or rank=16,alpha=32,dropout=0.05,"
        "targets=q_proj+v_proj.",
        TRAINED,
        above=0,
        read=rank_or_spec,
    )
    load: str | None = setting(
        None,
        "Load the encoder's weights in so many bits, to train `lora=` beside them (QLoRA).",
        TRAINED,
        choices=("4bit", "8bit"),
    )
    merge_lora: bool = setting(False, "Save a whole model, with the updates of `lora=` in its weights.", TRAINED)
    dropout: float | None = setting(
        None, "Dropout probability, instead of the encoder's own.", TRAINED, minimum=0, maximum=1
    )
    holdout: float | None = setting(
        None,
        "Train without these anchors and evaluate on them: 0.1 is a tenth, 500 about so many.",
        EVALUATION,
        above=0,
    )
    eval: Sequence[str] = setting(
        (), "Task to evaluate on, before and after; the best trained weights are kept. Repeatable.", EVALUATION
    )
    overlap_examples: int = setting(0, OVERLAP_EXAMPLES, EVALUATION, minimum=0, result=False)
    strict: bool = setting(False, STRICT, EVALUATION, result=False)

    def __post_init__(self) -> None:
        if isinstance(self.eval, str):  # one task, from Python
            object.__setattr__(self, "eval", (self.eval,))
        super().__post_init__()

    def read_specs(self) -> list[tuple[Registry, str]]:
        return [*super().read_specs(), *self._tasks_and_guide()]

    def specs(self) -> list[tuple[Registry, str]]:
        sims = [(similarities.registry, self.sim)] if self.sim != AUTO else []
        augmentations = [(augmentation.registry, spec) for spec in self.augment]
        return [*super().read_specs(), *sims, *augmentations, *self._tasks_and_guide(), *self.lora_specs()]

    def _tasks_and_guide(self) -> list[tuple[Registry, str]]:
        specs: list[tuple[Registry, str]] = [(evaluation.registry, spec) for spec in self.eval]
        if self.guide is not None:
            encoder = str(guides.parse(self.guide).params["encoder"])
            specs += [(guides, self.guide), (encoders.registry, encoder)]
        return specs

    def combination_problems(self) -> list[str | None]:
        losses, spec = self.losses, encoders.registry.parse(self.encoder)
        has_bits = encoders.registry.entry(spec.name).param("bits") is not None
        names = LOSSES[:-1] if "+" in self.loss else LOSSES
        known = all(name in names and 0 < weight < math.inf for name, weight in losses.items())
        is_loss = known and len(losses) == len(self.loss.split("+"))
        scored, ranks = self.loss == "mse", not {"infonce", "kl"}.isdisjoint(losses)
        no_number = isinstance(self.scale, str) and self.scale != AUTO
        evaluates = bool(self.eval) or self.holdout is not None
        sizes = {name: getattr(self, name) for name in ("batch_size", "mini_batch")}
        no_size = {name: value for name, value in sizes.items() if isinstance(value, str) and value != AUTO}
        no_freeze = self.freeze is not None and not re.fullmatch(r"embeddings|(first|all-but):\d{1,5}", self.freeze)
        wrong: dict[str, Any] = {
            "`scale=` and `temperature=` say the same thing: give one": None not in (self.scale, self.temperature),
            f"`scale=` {self.scale}: expected a number or auto": no_number,
            **{f"`{name}=` {value}: expected a whole number or auto": True for name, value in no_size.items()},
            "`batch_size=` and `mini_batch=` are both auto: give one as a number": set(sizes.values()) == {AUTO},
            f"`loss=` {self.loss}: expected one of {', '.join(LOSSES)}, or a sum of the first three such as "
            "infonce+kl=0.5": not is_loss,
            "`teacher_temperature=` is for `loss=` kl": "kl" not in losses and self.teacher_temperature != 1,
            "`scale=` auto is for `loss=` infonce, kl or mse": not ranks and not scored and self.scale == AUTO,
            "`sim=` auto is for `loss=` infonce: scored pairs have no roles to tell apart": scored and self.sim == AUTO,
            "`augment=` is for `loss=` infonce": self.loss != "infonce" and self.augment,
            "`temperature=` is for `loss=` infonce or kl": not ranks and self.temperature is not None,
            "`max_score=` is for `loss=` mse": not scored and self.max_score is not None,
            "`directions=` is for `loss=` infonce": "infonce" not in losses and self.directions != "query-to-document",
            "`no_duplicates=` is for `loss=` infonce": "infonce" not in losses and self.no_duplicates,
            "`guide=` is for `loss=` infonce": "infonce" not in losses and self.guide,
            "`guide=` and `augment=` exclude each other: a guide's embeddings are kept": self.guide and self.augment,
            f"`freeze=` {self.freeze}: expected embeddings, first:N or all-but:K": no_freeze,
            "`eval_every=` needs `eval=` or `holdout=`": self.eval_every and not evaluates,
            "`patience=` needs `eval=` or `holdout=`, and `eval_every=`": self.patience
            and not (evaluates and self.eval_every),
            "`eval=` names a task twice": len(set(map(evaluation.registry.parse, self.eval))) < len(self.eval),
            "`best_metric=` needs `eval=` or `holdout=`": self.best_metric and not evaluates,
            "`freeze=` and `lora=` exclude each other: LoRA freezes all else": self.freeze and self.lora,
            "`load=` needs `lora=`: weights of few bits are not trained": self.load and not self.lora,
            f"`load=`: {self.encoder} is not loaded in bits; it takes a folder or a hub id": self.load and not has_bits,
            f"`load=` and {self.encoder} both say bits: give one": self.load and "bits" in spec.params,
            "`merge_lora=` and `load=` exclude each other: an adapter is merged with whole weights, as it is opened": (
                self.merge_lora and self.load
            ),
            "`merge_lora=` needs `lora=`": self.merge_lora and not self.lora,
            f"`dropout=` {self.dropout} must be from 0 to below 1": self.dropout == 1,
        }
        return [problem for problem, is_there in wrong.items() if is_there]

    @property
    def losses(self) -> dict[str, float]:
        """Each loss with its weight in the sum; NaN for a weight that is not a number."""
        parts = (part.partition("=") for part in self.loss.split("+"))
        return {name: _weight(text) if is_weighted else 1.0 for name, is_weighted, text in parts}

    @property
    def kind(self) -> Kind:
        """What it trains on."""
        return "texts" if self.augment else "scored" if self.loss == "mse" else "taught" if self.is_taught else "pairs"

    @property
    def start(self) -> str:
        """The spec of the encoder as it is loaded: in the bits that ``load`` says."""
        if self.load is None:
            return self.encoder
        spec = encoders.registry.parse(self.encoder)
        return str(replace(spec, params={**spec.params, "bits": self.load.removesuffix("bit")}))

    @property
    def is_taught(self) -> bool:
        """Whether it needs a teacher's scores."""
        return not TAUGHT.isdisjoint(self.losses)

    @property
    def fixed_scale(self) -> float:
        """The multiplier of the scores, before ``auto`` divides it."""
        if isinstance(self.scale, float):
            return self.scale
        if self.temperature is not None:
            return 1 / self.temperature
        return max(DEFAULT_SCALE[name] for name in self.losses)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def one_of(name: str, value: str, allowed: Sequence[str]) -> str | None:
    """What is wrong with the value of a parameter, if it is none of those that are allowed."""
    return None if value in allowed else f"`{name}=` {value} is none of {', '.join(allowed)}"


def differences(
    before: dict[str, Any], now: dict[str, Any], before_label: str = "was", now_label: str = "now"
) -> list[str]:
    """What differs between two identities, each as ``option was X, now Y``."""
    names = [field.name for field in fields(FinetuneConfig)]
    keys = sorted(set(before) | set(now), key=lambda key: names.index(key) if key in names else -1)
    return [
        f"{key.replace('_', '-')} {before_label} {before.get(key)}, {now_label} {now.get(key)}"
        for key in keys
        if before.get(key) != now.get(key)
    ]


@dataclass(frozen=True)
class DistilSettings(Settings):
    """Which encoder's tokens, and what is made of them."""

    encoder: str = setting(help="Encoder whose tokens are embedded.", argument=True)
    output: str = setting(help="Folder to write, a new one.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    dims: int | None = setting(256, "Dimensions to keep, the first principal components.", minimum=1)
    sif: float = setting(
        1e-4, "How much rare tokens count: a token's weight is this / (this + its frequency); 0: all alike.", minimum=0
    )
    corpus: str | None = setting(
        None, "Texts that frequencies are counted in: JSON lines or a BEIR folder. Default: by rank in the vocabulary."
    )
    device: str | None = setting(None)


@dataclass(frozen=True)
class MergeSettings(Settings):
    """Encoders of one architecture, and what each one counts.

    Raises:
        UsageError: whatever is wrong with it, all at once.
    """

    encoders: Sequence[str] = setting(help="Encoders to average, two or more.", argument=True)
    output: str = setting(help="Folder to write, a new one.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    weights: Sequence[float] | None = setting(
        None,
        "What each one counts: 0.7,0.3. Default: all alike.",
        minimum=-1e6,
        maximum=1e6,
        read=numbers("weights", float),
    )
    as_given: bool = setting(False, "Take `weights=` as they are; else they are divided by their sum.")
    sim: str | None = setting(None, "Similarity of the result. Default: the one that all have.")

    def __post_init__(self) -> None:
        sims = [(similarities.registry, self.sim)] if self.sim is not None else []
        parse_all([*((encoders.registry, spec) for spec in self.encoders), *sims])
        super().__post_init__()

    def problems(self) -> Iterator[str]:
        yield from self.number_problems()
        count, given = len(self.encoders), self.weights
        if count < 2:
            yield f"give two encoders or more, not {count}"
        if given is None:
            if self.as_given:
                yield "`as_given=` needs `weights=`"
        elif len(given) != count:
            yield f"`weights=`: {len(given)} for {count} encoders"
        elif not self.as_given and sum(given) <= 0:
            yield f"`weights=` add up to {sum(given):g}, by which none is divided; `as_given=` takes them as they are"

    @property
    def shares(self) -> list[float]:
        """What each encoder counts, by place."""
        given = self.weights or [1.0] * len(self.encoders)
        return [weight if self.as_given else weight / sum(given) for weight in given]


@dataclass(frozen=True)
class PushSettings(Settings):
    """A finished run, and the repository that it becomes."""

    folder: str = setting(help="Finished run, or what merge has made.", argument=True, metavar="RUN")
    repo: str = setting(help="Repository on the hub: OWNER/NAME.", argument=True)
    _: KW_ONLY
    private: bool = setting(False, "Make the repository a private one, if it is new.")
    license: str | None = setting(None, "Licence of the model, as the hub names it: apache-2.0.")
    base_model: str | None = setting(
        None, "Id of the model that it began with, for the card. Default: the run's encoder, if that is a hub id."
    )
    results: Sequence[str] = setting((), "Folder of results (of eval --results) for the card. Repeatable.")
    mteb: str | None = setting(
        None,
        "Write MTEB's results among `results=` into this new folder, as its submission takes them.",
        writes=FOLDER,
    )
    dry_run: str | None = setting(
        None, "Write what would be uploaded into this new folder, and upload nothing.", writes=FOLDER
    )
