"""Every option of a fine-tuning run, checked as far as that needs no model and no data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from retrokit import augmentation, encoders, evaluation, similarities
from retrokit.data.outputs import paths_in
from retrokit.data.pairs import registry as sources
from retrokit.errors import UsageError, out_of_range
from retrokit.registry import parse_all

_Number = TypeVar("_Number", int, float)

DIRECTIONS = ("query-to-document", "document-to-query", "both")
LOSSES = ("infonce", "mse")
SCHEDULES = ("linear", "cosine", "constant")
DEFAULT_SCALE = {"infonce": 20.0, "mse": 1.0}
AUTO = "auto"
"""In place of a similarity: the one that a probe of the encoder chooses."""

_NOT_PART_OF_THE_RESULT = ("output", "overwrite", "resume", "device", "log_every", "keep_checkpoints")


@dataclass(frozen=True)
class FinetuneConfig:
    """What ``retrokit finetune`` was asked for; see its help for the meaning of each option."""

    encoder: str
    data: Sequence[str]
    output: str | None = None
    sim: str = "cosine"
    loss: str = "infonce"
    scale: float | str | None = None
    temperature: float | None = None
    max_score: float | None = None
    augment: Sequence[str] = ()
    directions: str = "query-to-document"
    batch_size: int = 64
    mini_batch: int | None = None
    epochs: float | None = None
    steps: int | None = None
    time_budget: float | None = None
    lr: float | None = None
    sim_lr: float | None = None
    weight_decay: float = 0.01
    warmup: float = 0.1
    schedule: str = "linear"
    max_grad_norm: float = 1.0
    adam_betas: tuple[float, float] = (0.9, 0.999)
    precision: str = "auto"
    seed: int = 0
    max_length: int | None = None
    freeze: str | None = None
    matryoshka: Sequence[int] = ()
    lora: int | None = None
    dropout: float | None = None
    eval: str | None = None
    eval_every: int | None = None
    best_metric: str | None = None
    patience: int | None = None
    log_every: int = 10
    save_every: int | None = None
    keep_checkpoints: int = 1
    device: str | None = None
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        parse_all(
            [
                (encoders.registry, self.encoder),
                *((sources, spec) for spec in self.data),
                *([(similarities.registry, self.sim)] if self.sim != AUTO else []),
                *((augmentation.registry, spec) for spec in self.augment),
                *([(evaluation.registry, self.eval)] if self.eval else []),
            ]
        )
        problems = [problem for problem in self._problems() if problem]
        if problems:
            raise UsageError("\n".join(problems))

    def _problems(self) -> list[str | None]:
        lengths = [name for name in ("epochs", "steps", "time_budget") if getattr(self, name) is not None]
        return [
            None if self.data else "no training data: give --data at least once",
            _one_of("--loss", self.loss, LOSSES),
            _one_of("--directions", self.directions, DIRECTIONS),
            _one_of("--schedule", self.schedule, SCHEDULES),
            _one_of("--precision", self.precision, ("auto", "fp32", "bf16", "fp16")),
            f"give one of --{', --'.join(lengths).replace('_', '-')}, not {len(lengths)}" if len(lengths) > 1 else None,
            "--scale and --temperature say the same thing: give one"
            if self.scale is not None and self.temperature is not None
            else None,
            f"--scale {self.scale}: expected a number or auto"
            if isinstance(self.scale, str) and self.scale != "auto"
            else None,
            "--scale auto is for --loss infonce" if self.scale == "auto" and self.loss == "mse" else None,
            "--sim auto is for --loss infonce: scored pairs have no roles to tell apart"
            if self.sim == AUTO and self.loss == "mse"
            else None,
            "--augment is for --loss infonce" if self.augment and self.loss != "infonce" else None,
            "--temperature is for --loss infonce" if self.temperature is not None and self.loss == "mse" else None,
            "--max-score is for --loss mse" if self.max_score is not None and self.loss != "mse" else None,
            "--directions is for --loss infonce"
            if self.loss == "mse" and self.directions != "query-to-document"
            else None,
            _freeze_problem(self.freeze),
            "--eval-every needs --eval" if self.eval_every and not self.eval else None,
            "--patience needs --eval and --eval-every"
            if self.patience and not (self.eval and self.eval_every)
            else None,
            "--best-metric needs --eval" if self.best_metric and not self.eval else None,
            "--freeze and --lora exclude each other: LoRA freezes all else" if self.freeze and self.lora else None,
            "--overwrite and --resume exclude each other" if self.overwrite and self.resume else None,
            *number_problems(self, _POSITIVE),
            *(f"--dropout {share} must be from 0 to below 1" for share in [self.dropout] if share == 1),
            *(f"--adam-betas {beta} must be from 0 to below 1" for beta in self.adam_betas if beta == 1),
        ]

    @property
    def fixed_scale(self) -> float:
        """The multiplier of the scores, before ``auto`` divides it."""
        if isinstance(self.scale, float):
            return self.scale
        return 1 / self.temperature if self.temperature is not None else DEFAULT_SCALE[self.loss]

    def inputs(self) -> list[str]:
        """The paths that are read."""
        read = [(encoders.registry, self.encoder), *((sources, spec) for spec in self.data)]
        read += [(evaluation.registry, self.eval)] if self.eval else []
        return paths_in(registry.parse(spec) for registry, spec in read)

    def identity(self) -> dict[str, Any]:
        """The options that decide the result: a resumed run must have the same."""
        return {key: value for key, value in self.to_json().items() if key not in _NOT_PART_OF_THE_RESULT}

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


_POSITIVE = (
    *("scale", "temperature", "max_score", "batch_size", "mini_batch", "epochs", "steps", "time_budget"),
    *("lr", "sim_lr", "max_grad_norm", "max_length", "lora"),
    *("eval_every", "patience", "log_every", "save_every", "keep_checkpoints"),
)


BOUNDS: Mapping[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(("lr", "sim_lr", "encoder_lr", "weight_decay"), (0, 100)),
    **dict.fromkeys(("adam_betas", "dropout"), (0, 1)),
    **dict.fromkeys(("seed", "warmup"), (0, None)),
    "matryoshka": (1, None),
    "epochs": (0, 1e6),
}
"""The least and highest values of numbers; of others those of :func:`~retrokit.errors.out_of_range`."""


def number_problems(config: Any, positive: Sequence[str]) -> Iterator[str]:
    """What is wrong with the numbers of a configuration: those of the fields ``positive`` must be above 0, all others
    within :data:`BOUNDS`."""
    for name in (field.name for field in fields(config)):
        given = getattr(config, name)
        for value in given if isinstance(given, (list, tuple)) else [given]:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            option = f"--{name.replace('_', '-')} {value}"
            if name in positive and value <= 0:
                yield f"{option} must be above 0"
            elif expected := out_of_range(value, *BOUNDS.get(name, (None, None))):
                yield f"{option} is out of range ({expected})"


def _one_of(option: str, value: str, allowed: Sequence[str]) -> str | None:
    return None if value in allowed else f"{option} {value} is none of {', '.join(allowed)}"


def _freeze_problem(freeze: str | None) -> str | None:
    if freeze is None or re.fullmatch(r"embeddings|(first|all-but):\d{1,5}", freeze):
        return None
    return f"--freeze {freeze}: expected embeddings, first:N or all-but:K"


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``4m``, ``1.5h``.

    Raises:
        UsageError: another form.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(s|m|h|)", text.strip())
    if not match:
        raise UsageError(f"{text!r} is no duration; expected one such as 90s, 4m or 1.5h")
    return float(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[match.group(2)]


def parse_numbers(option: str, text: str, kind: type[_Number], count: int | None = None) -> list[_Number]:
    """The comma-separated numbers of ``text``.

    Raises:
        UsageError: a part is no number, or out of range, or there are not ``count`` of them.
    """
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or (count is not None and len(numbers) != count):
        what = "whole numbers" if kind is int else "numbers"
        expected = f"{count} {what}" if count and count > 1 else "a number" if count else f"{what} with commas between"
        raise UsageError(f"{option} {text}: expected {expected}")
    for number in numbers:
        if allowed := out_of_range(number):
            raise UsageError(f"{option} {text} is out of range ({allowed})")
    return numbers


def differences(before: dict[str, Any], now: dict[str, Any], here: str = "was", there: str = "now") -> list[str]:
    """What differs between two identities, each as ``option was X, now Y``."""
    names = [field.name for field in fields(FinetuneConfig)]
    keys = sorted(set(before) | set(now), key=lambda key: names.index(key) if key in names else -1)
    return [
        f"{key.replace('_', '-')} {here} {before.get(key)}, {there} {now.get(key)}"
        for key in keys
        if before.get(key) != now.get(key)
    ]
