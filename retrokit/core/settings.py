"""Settings of a piece of work: a dataclass whose fields say what they are, once for Python and for the command line."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, overload

from retrokit.core.errors import SMALLEST, UsageError, check_extra, out_of_range

OVERLAP_EXAMPLES = "Show N texts of a test that are in training data too."
SHOW_INPUTS = "Show the first N queries and documents as the model reads them."
STRICT = "Stop at data faults: absent documents, repeated lines."
PRECISION = "Precision of the encoding; auto: bf16 where that is faster here."
FILE, FOLDER, EITHER = "a file", "a folder", "a file or a folder"  # no setting is named so
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values that a parameter may have, of a registered entry or of :class:`Settings`. A number without bounds has
    those of :func:`~core.errors.out_of_range`. Each of ``words`` stands for itself, regardless of the type. A value
    needs the optional package ``extra``, in which ``{}`` is the value."""

    choices: tuple[str, ...] = ()
    above: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    summary: str = ""
    words: tuple[str, ...] = ()
    extra: str | None = None

    def check_extra(self, what: str, given: Any) -> None:
        """Raise :class:`MissingExtra` if a value, or one of several, needs a package that is not installed."""
        for value in given if isinstance(given, (list, tuple)) else [given]:
            if self.extra is not None and value is not None:
                check_extra(f"{what}{value}", self.extra.format(value))

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value of the right type, to stand behind its name; ``None`` if nothing is."""
        if value is None or value in self.words:
            return None
        if self.choices and value not in self.choices:
            return f"is none of {', '.join(self.choices)}"
        if self.pattern and not re.fullmatch(self.pattern, str(value)):
            return f"is not {self.summary}"
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if self.above is not None and value <= self.above:
            return f"must be above {self.above}"
        if self.above == 0 and value < SMALLEST:
            return f"must be at least {SMALLEST:g}"
        expected = out_of_range(value, self.minimum, self.maximum)
        return expected and f"is out of range ({expected})"


METRIC_NAMES, RUNS = "metrics", "runs"
"""Kinds of names that have no registry: metrics, and the model folders that are here."""


@dataclass(frozen=True)
class Content:
    """What the value of a setting stands for, or each of several.

    Attributes:
        names: kinds of registered names (``retrokit names``), :data:`METRIC_NAMES` or :data:`RUNS`.
        reads: ``FILE``, ``FOLDER`` or ``EITHER``: the path of what is read, which must exist.
        writes: the same of what is written; see :func:`setting`.
    """

    names: tuple[str, ...] = ()
    reads: str | None = None
    writes: str | None = None


def setting(
    default: Any = MISSING,
    help: str = "",
    panel: str | None = None,
    *,
    flags: tuple[str, ...] = (),
    argument: bool = False,
    metavar: str | None = None,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    read: Callable[[str], Any] | None = None,
    canonical: Callable[[Any], Any] | None = None,
    choices: Iterable[str] = (),
    result: bool = True,
    names: str = "",
    reads: str | None = None,
    writes: str | None = None,
    extra: str | None = None,
) -> Any:
    """A field of :class:`Settings`.

    Args:
        help: what it is; ```name=``` is a parameter, shown as its option on the command line.
        panel: heading of the help page that it is listed under.
        flags: names of its option, where they are not the field's.
        argument: it is an argument of the command, and no option; ``metavar`` is how its help calls it.
        above, minimum, maximum: bounds of its numbers.
        read: its value from what is typed; the default is then given as it would be typed.
        canonical: the usual form of its value, however it is given; not called for ``None``.
        choices: the values that it may have, of a text or of each of several.
        result: whether it decides what comes out.
        names: kinds of names that it takes, such as ``encoders,searchers``: of ``retrokit names``, ``metrics`` or
            ``runs``. The command line completes them.
        reads: for a path that is read: ``FILE``, ``FOLDER`` or ``EITHER``.
        writes: for a path that is written: ``FILE``, ``FOLDER``, or ``EITHER``, as the path is or says; or the name of
            the setting whose file it may update.
        extra: optional package that a value needs; ``{}`` in it is the value.
    """
    values = Values(choices=tuple(choices), above=above, minimum=minimum, maximum=maximum, extra=extra)
    about: dict[str, Any] = {
        "help": help,
        "panel": panel,
        "flags": flags,
        "argument": argument,
        "metavar": metavar,
        "read": read,
        "canonical": canonical,
    }
    about |= {
        "content": Content(listed(names) if names else (), reads, writes),
        "values": values,
        "result": result,
        "typed": default,
    }
    return field(default=read(default) if read is not None and isinstance(default, str) else default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """The settings of a piece of work. :func:`setting` creates its fields."""

    panels: ClassVar[tuple[str | None, ...]] = ()
    """Headings of the help page, in order; ``None``: what has none."""
    first: ClassVar[tuple[str, ...]] = ()
    """Options of a command that its first help page shows, at most twelve, in order; empty: all."""

    @classmethod
    def ordered(cls) -> list[Field[Any]]:
        """The fields as a reader is to meet them: by panel, there those given by position, the class's own, and what
        it inherits, from the nearest class first."""
        panels = {panel: place for place, panel in enumerate(cls.panels)}
        declared = [vars(kind).get("__annotations__", {}) for kind in cls.__mro__]

        def order(setting: Field[Any]) -> tuple[int, int]:
            panel = panels.get(setting.metadata["panel"], len(panels))
            if not setting.kw_only:
                return panel, -1
            return panel, next(depth for depth, names in enumerate(declared) if setting.name in names)

        return sorted(fields(cls), key=order)

    def __post_init__(self) -> None:
        """Bring values into their usual form. Raise :class:`UsageError` for all that is wrong, or
        :class:`MissingExtra`, before anything is done."""
        for setting in fields(self):
            canonical, value = setting.metadata["canonical"], getattr(self, setting.name)
            if canonical is not None and value is not None:
                object.__setattr__(self, setting.name, canonical(value))
        if problems := list(self.problems()):
            raise UsageError("\n".join(problems))
        for setting in fields(self):
            setting.metadata["values"].check_extra(f"`{setting.name}=` ", getattr(self, setting.name))

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings, each as a line; here, with their numbers."""
        return self.number_problems()

    def number_problems(self) -> Iterator[str]:
        """What is wrong with numbers and choices, each as a line."""
        for setting in fields(self):
            given, allowed = getattr(self, setting.name), setting.metadata["values"]
            for value in given if isinstance(given, (list, tuple)) else [given]:
                if problem := allowed.problem(value):
                    yield f"`{setting.name}=` {value} {problem}"

    def identity(self) -> dict[str, Any]:
        """The settings that decide the result: a resumed run must have the same."""
        decisive = {setting.name for setting in fields(self) if setting.metadata["result"]}
        return {key: value for key, value in self.to_json().items() if key in decisive}

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        values = {setting.name: getattr(self, setting.name) for setting in self.ordered()}
        return {name: list(value) if isinstance(value, (list, tuple)) else value for name, value in values.items()}

    def to_toml(self, leave_out: Iterable[str] = ()) -> str:
        """What differs from the defaults, for ``--config`` of the command: a line an option, under its name there."""
        lines = []
        for setting in self.ordered():
            value = getattr(self, setting.name)
            if setting.name in leave_out or value is None or value == setting.default:
                continue
            name = max(
                (*setting.metadata["flags"], setting.name.replace("_", "-")), key=lambda flag: flag.startswith("--")
            )
            lines.append(f"{name.lstrip('-')} = {_toml(value)}\n")
        return "".join(lines)


def _toml(value: Any) -> str:
    """A text, a number, a switch or a list of them; TOML writes them as JSON does, but for one character."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


Given = ParamSpec("Given")
Asked = TypeVar("Asked", contravariant=True)
Made = TypeVar("Made", covariant=True)


class Verb(Protocol[Given, Asked, Made]):
    """A function that is called with settings, or with their arguments."""

    @overload
    def __call__(self, settings: Asked, /) -> Made: ...

    @overload
    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Made: ...


def taking(settings: Callable[Given, Asked]) -> Callable[[Callable[[Asked], Made]], Verb[Given, Asked, Made]]:
    """Let a function of settings be called as every verb is: with the arguments of the settings, or with settings."""

    def with_arguments(work: Callable[[Asked], Made]) -> Verb[Given, Asked, Made]:
        def called(*given: Given.args, **named: Given.kwargs) -> Made:
            is_made = len(given) == 1 and not named and isinstance(given[0], settings)  # type: ignore[arg-type] # a class
            return work(given[0] if is_made else settings(*given, **named))  # type: ignore[arg-type]

        called.__name__, called.__doc__, called.__module__ = work.__name__, work.__doc__, work.__module__
        returned = inspect.signature(work).return_annotation
        called.__signature__ = inspect.signature(settings).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return called  # type: ignore[return-value] # it takes both

    return with_arguments


def duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``4m``, ``1.5h``. Raises :class:`UsageError` for another form."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(s|m|h|)", text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a duration; expected one such as 90s, 4m or 1.5h")
    return float(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[match.group(2)]


def listed(text: str) -> tuple[str, ...]:
    """Names with commas between.

    >>> listed("ndcg@10, mrr@10")
    ('ndcg@10', 'mrr@10')
    """
    return tuple(name.strip() for name in text.split(","))


def numbers(name: str, kind: type, count: int | None = None) -> Callable[[str], tuple[Any, ...]]:
    """What reads the numbers of the setting ``name`` from a text, with commas between; ``count`` of them, where given.
    Raises :class:`UsageError` if (when it reads) a part is no number, or out of range, or there are not ``count`` of
    them."""
    return partial(_numbers, name, kind, count)


def _numbers(name: str, kind: type, count: int | None, text: str, otherwise: str = "") -> tuple[Any, ...]:
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        what = "whole numbers" if kind is int else "numbers"
        expected = f"{count} {what}" if count and count > 1 else "a number" if count else f"{what} with commas between"
        raise UsageError(f"`{name}=` {text}: expected {expected}{otherwise}")
    for number in numbers:
        if allowed := out_of_range(number):
            raise UsageError(f"`{name}=` {text} is out of range ({allowed})")
    return numbers


def number_or(word: str, name: str) -> Callable[[str], Any]:
    """What reads a number of the setting ``name`` from a text that may be ``word`` instead, which stands for itself."""
    return lambda text: text if text == word else _numbers(name, float, 1, text, f" or {word}")[0]
