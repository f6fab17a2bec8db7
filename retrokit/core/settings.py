"""Settings of a piece of work: a dataclass whose fields say what they are, once for Python and for the command line."""

import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, overload

from retrokit.core.errors import SMALLEST, UsageError, addressed, check_extra, first_line, out_of_range

FILE, FOLDER, EITHER = "a file", "a folder", "a file or a folder"  # no setting is named so
FOLDER_OR_ADDRESS = "a folder or an address"
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
METRIC_NAMES, RUNS = "metrics", "runs"
"""Kinds of names that have no registry: metrics, and the model folders that are here."""

Value = str | int | float | bool
ValueType = type[str] | type[int] | type[float] | type[bool]
_PLACEHOLDERS = {str: "TEXT", int: "N", float: "X", bool: "true|false"}


def text_of(value: Value) -> str:
    """How a spec spells a value."""
    return str(value).lower() if isinstance(value, bool) else addressed(str(value))


fetchers: list[Callable[[str], str]] = []
"""What copies the files at an address and returns the path of the copy. The registry of file systems adds it."""


def is_address(path: object) -> bool:
    """Whether a path is an address such as ``s3://bucket/corpus.jsonl``."""
    return re.match("[a-z][a-z0-9+.-]+://.", str(path)) is not None


def local(path: Any) -> Any:
    """The path of a local copy of what an address names; any other path itself; of several, each."""
    if isinstance(path, (list, tuple)):
        return tuple(map(local, path))
    if not is_address(path):
        return path
    return fetchers[0](path)


@dataclass(frozen=True)
class Param:
    """The declaration of a parameter: of a registered entry, of :class:`Settings`, or of a command.

    Attributes:
        name: its name in the specs of an entry; a field of settings or a parameter of a function has its own.
        default: its value where none is given, as it would be typed if ``read`` is given; or a type, if it has none.
        type: that of ``default``, or given in its place.
        help: what it is; ```name=``` is a parameter, shown as its option on the command line.
        choices: the values that it may have, or each of several.
        above, below, minimum, maximum: bounds of its numbers. A whole number is at least 1 unless one of these says
            otherwise; any number has the bounds of :func:`~core.errors.out_of_range`.
        pattern: regular expression that its texts match; ``form`` describes such a text, else the help.
        words: values that stand for themselves, regardless of the type.
        extra: optional package that a value needs; ``{}`` in it is the value.
        env: environment variable that gives a value which a spec leaves out; one of the two is needed.
        receives_texts: it is the address of a service, whose host a notice names.
        names: kinds of names that it takes, such as ``encoders,searchers``: of ``retrokit names``, ``metrics`` or
            ``runs``. The command line completes them.
        reads: for a path that is read and must exist: ``FILE``, ``FOLDER`` or ``EITHER``; an address is copied.
        writes: for a path that is written: ``FILE``, ``FOLDER``, or ``EITHER``, as the path is or says;
            ``FOLDER_OR_ADDRESS``; or the name of the setting whose file it may update.
        read: its value from what is typed; raises :class:`UsageError`, or :class:`ValueError` with what is expected.
        canonical: the usual form of its value, however it is given; not called for ``None``.
        needs: settings of which one must be given with it, each as ``name`` or, if only this value counts,
            ``name=value``.
        excludes: settings that must not be given with it, in the same form.
        missing: what to say if a sequence is empty.
        result: whether it decides what comes out.
        is_option: whether commands have it.
        panel: heading of the help page that it is listed under.
        flags: names of its option, where they are not the field's.
        argument: it is an argument of the command, and no option.
        metavar: how the help calls its value.
    """

    name: str = ""
    default: Any = None
    _: KW_ONLY
    type: ValueType = str
    required: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    form: str = ""
    words: tuple[str, ...] = ()
    extra: str | None = None
    env: str | None = None
    receives_texts: bool = False
    names: str = ""
    reads: str | None = None
    writes: str | None = None
    read: Callable[[str], Any] | None = None
    canonical: Callable[[Any], Any] | None = None
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    missing: str = ""
    result: bool = True
    is_option: bool = True
    panel: str | None = None
    flags: tuple[str, ...] = ()
    argument: bool = False
    metavar: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.default, type):
            object.__setattr__(self, "type", self.default)
            object.__setattr__(self, "default", None)
        elif type(self.default) in _PLACEHOLDERS:
            object.__setattr__(self, "type", type(self.default))
        if self.reads:
            object.__setattr__(self, "canonical", local)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of names that it takes."""
        return listed(self.names) if self.names else ()

    def value_of(self, spec: Any) -> Value | None:
        """The value that ``spec`` gives, else that of the environment, else the default."""
        value: Value | None = spec.params.get(self.name)
        if value is None and self.env is not None:
            value = os.environ.get(self.env) or None
        return self.default if value is None else value

    def value_from(self, text: str, spec: str) -> Value:
        """The value that ``text`` in ``spec`` stands for; raises :class:`UsageError` with the expected type or
        range."""
        value = text if text in self.words else self._convert(text, spec)
        if problem := self.problem(value):
            raise UsageError(f"{spec}: {self.name}={text} {problem}")
        return value

    def _convert(self, text: str, spec: str) -> Value:
        if self.type is bool:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise UsageError(f"{spec}: {self.name}={text} is neither true nor false")
        try:
            return self.type(text if self.receives_texts else local(text))
        except ValueError:
            kind = {int: "a whole number", float: "a number"}[self.type]  # str never fails
            raise UsageError(f"{spec}: {self.name}={text} is not {kind}") from None

    def describe(self) -> str:
        """``name=default`` or ``name=TYPE``, for help texts."""
        if self.choices:
            return f"{self.name}={'|'.join(self.choices)}"
        if self.default is not None:
            return f"{self.name}={text_of(self.default)}"
        return f"{self.name}={_PLACEHOLDERS[self.type]}"

    def check_extra(self, subject: str, value: Any) -> None:
        """Raise :class:`MissingExtra` if a value, or one of several, needs a package that is not installed."""
        if self.extra is None:
            return
        for item in _items(value):
            if item is not None:
                check_extra(f"{subject}{item}", self.extra.format(item))

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value of the right type, to stand behind its name; ``None`` if nothing is."""
        if value is None or value in self.words:
            return None
        if self.choices and value not in self.choices:
            return f"is none of {', '.join(self.choices)}"
        if isinstance(value, str):
            return self._text_problem(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return self._number_problem(value) if is_number else None

    def _text_problem(self, text: str) -> str | None:
        if self.pattern and not re.fullmatch(self.pattern, text):
            return f"is not {self.form or self.help}"
        if self.writes and not text:
            return "is empty; expected a path to write"
        if self.writes and self.writes != FOLDER_OR_ADDRESS and is_address(text):
            return "is an address; expected a path to write (only `retrokit export` writes to addresses)"
        return None

    def _number_problem(self, value: float) -> str | None:
        if self.above is not None and value <= self.above:
            return f"must be above {self.above}"
        if self.above == 0 and value < SMALLEST:
            return f"must be at least {SMALLEST:g}"
        if self.below is not None and value >= self.below:
            return f"must be below {self.below}"
        minimum = self.minimum
        if isinstance(value, int) and minimum is self.above is None:
            minimum = 1
        expected = out_of_range(value, minimum, self.maximum)
        return expected and f"is out of range ({expected})"

    def problems(self, name: str, value: Any) -> Iterator[str]:
        """What is wrong with the value of the parameter ``name``, or with each of several; a line each."""
        if self.missing and not value:
            yield self.missing
        for item in _items(value):
            if problem := self.problem(item):
                yield f"{f'`{name}=` {item}'.rstrip()} {problem}"


def service_params(timeout: float) -> tuple[Param, ...]:
    """The parameters of a model at a service that speaks OpenAI's protocols; ``timeout`` in seconds, by default."""
    return (
        Param("model", required=True, help="model name at the service"),
        Param("url", env="OPENAI_BASE_URL", receives_texts=True, help="url=ADDRESS of the service up to /v1"),
        Param("key_env", "OPENAI_API_KEY", help="environment variable with the API key"),
        Param("timeout", timeout, minimum=0.1, maximum=86_400, help="seconds for a complete answer"),
    )


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def setting(default: Any = MISSING, help: str = "", panel: str | None = None, **about: Any) -> Any:
    """A field of :class:`Settings`, or a parameter of a command; ``about`` are further attributes of its
    :class:`Param`."""
    return _field(Param(default=default, required=default is MISSING, help=help, panel=panel, **about))


def common(name: str, **changes: Any) -> Any:
    """A field, or a parameter of a command, that is declared in :data:`COMMON`, with changes."""
    if "default" in changes:
        changes["required"] = changes["default"] is MISSING
    return _field(replace(COMMON[name], **changes))


def _field(param: Param) -> Any:
    default = param.default
    if param.read is not None and isinstance(default, str):
        default = param.read(default)
    return field(default=default, metadata={"param": param})


def param_of(field: Any) -> Param:
    """The declaration of a field that :func:`setting` or :func:`common` created."""
    param: Param = field.metadata["param"]
    return param


@dataclass(frozen=True)
class Settings:
    """The settings of a piece of work. :func:`setting` and :func:`common` create its fields."""

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
            panel = panels.get(param_of(setting).panel, len(panels))
            if not setting.kw_only:
                return panel, -1
            return panel, next(depth for depth, names in enumerate(declared) if setting.name in names)

        return sorted(fields(cls), key=order)

    def __post_init__(self) -> None:
        """Bring values into their usual form. Raise :class:`UsageError` for all that is wrong, or
        :class:`MissingExtra`, before anything is done."""
        for setting in fields(self):
            canonical, value = param_of(setting).canonical, getattr(self, setting.name)
            if canonical is not None and value is not None:
                object.__setattr__(self, setting.name, canonical(value))
        if problems := list(self.problems()):
            raise UsageError("\n".join(problems))
        for setting in fields(self):
            param_of(setting).check_extra(f"`{setting.name}=` ", getattr(self, setting.name))

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings, each as a line; here, with single values, and with settings that do not fit
        together."""
        for setting in fields(self):
            yield from param_of(setting).problems(setting.name, getattr(self, setting.name))
        for setting in fields(self):
            if self.has(setting.name):
                yield from self._combination_problems(setting.name, param_of(setting))

    def _combination_problems(self, name: str, param: Param) -> Iterator[str]:
        excluding = [condition for condition in self.conditions(param.excludes) if self.has(condition)]
        for condition in excluding:
            yield f"`{name}=` and {_condition(condition)} exclude each other"
        needs = self.conditions(param.needs)
        if needs and not excluding and not any(map(self.has, needs)):
            yield f"`{name}=` needs {either([_condition(condition) for condition in needs])}"

    def conditions(self, declared: Sequence[str]) -> list[str]:
        """Those of the ``declared`` conditions that are about settings of this class: others do not count."""
        names = {setting.name for setting in fields(self)}
        return [condition for condition in declared if condition.partition("=")[0] in names]

    def has(self, condition: str) -> bool:
        """Whether a setting ``name`` is given, and not its default; or, for ``name=value``, has or contains the
        value."""
        name, _, value = condition.partition("=")
        if value:
            return value in self.values_of(name)
        default = next(field.default for field in fields(self) if field.name == name)
        given = getattr(self, name)
        if given is None or given is False or given == default:
            return False
        return not isinstance(given, (list, tuple)) or bool(given)

    def values_of(self, name: str) -> Sequence[Any]:
        """The value of a setting, or the values, as conditions name them."""
        return _items(getattr(self, name))

    def identity(self) -> dict[str, Any]:
        """The settings that decide the result: a resumed run must have the same."""
        decisive = {setting.name for setting in fields(self) if param_of(setting).result}
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
            flags = (*param_of(setting).flags, setting.name.replace("_", "-"))
            name = max(flags, key=lambda flag: flag.startswith("--"))
            lines.append(f"{name.lstrip('-')} = {_toml(value)}\n")
        return "".join(lines)


def params_of(settings: type[Settings]) -> tuple[Param, ...]:
    """The fields of settings as parameters of a registered entry."""
    return tuple(replace(param_of(setting), name=setting.name) for setting in fields(settings))


def either(texts: Sequence[str]) -> str:
    """Texts of which one is meant.

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _condition(condition: str) -> str:
    """How a message names a condition.

    >>> _condition("loss=kl")
    '`loss=` kl'
    """
    name, _, value = condition.partition("=")
    return f"`{name}=` {value}".strip()


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


def numbers(kind: type, count: int | None = None) -> Callable[[str], tuple[Any, ...]]:
    """What reads numbers from a text, with commas between; ``count`` of them, where given. It raises
    :class:`ValueError`, which names what is expected."""
    what = "whole numbers" if kind is int else "numbers"
    expected = f"{what} with commas between" if count is None else f"{count} {what}"

    def read(text: str) -> tuple[Any, ...]:
        try:
            values = tuple(kind(number) for number in text.split(","))
        except ValueError:
            raise ValueError(expected) from None
        if count not in (None, len(values)):
            raise ValueError(expected)
        return values

    return read


def number_or(word: str) -> Callable[[str], Any]:
    """What reads a number from a text that may be ``word`` instead, which stands for itself; as :func:`numbers`."""

    def read(text: str) -> Any:
        if text == word:
            return text
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"a number or {word}") from None

    return read


def usable_device(device: str) -> str:
    """The device; raises :class:`UsageError` if torch does not have it."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"`device=` {device}: {first_line(error)}") from error
    return device


COMMON = {
    param.name: param
    for param in (
        Param("output", MISSING, required=True, help="Folder to write.", flags=("--output", "-o")),
        Param(
            "output_lines",
            "-",
            help="JSON lines to write; - is standard output.",
            flags=("--output", "-o"),
            writes=FILE,
        ),
        Param("seed", 0, help="Random seed.", minimum=0),
        Param(
            "device",
            canonical=usable_device,
            help="cpu, cuda, cuda:1, mps. Default: auto-detected.",
            metavar="DEVICE",
            result=False,
        ),
        Param(
            "precision",
            "auto",
            choices=PRECISIONS,
            help="Precision of the encoding; auto: bf16 where that is faster here.",
        ),
        Param("as_json", False, help="Print one JSON object instead of tables.", flags=("--json",)),
        Param("dry_run", False, help="Estimate calls and tokens, and exit."),
        Param("price_per_hour", float, minimum=0, help="Price of a machine hour, to show costs; any currency."),
        Param("overwrite", False, help="Replace the output.", result=False),
        Param("strict", False, help="Stop at data faults: absent documents, repeated lines.", result=False),
        Param(
            "show_inputs",
            0,
            help="Show the first N queries and documents as the model reads them.",
            minimum=0,
            result=False,
        ),
        Param("field", "text", help="Field that contains the text.", metavar="FIELD"),
        Param("prompts", help="ours, few-shot (base models), or a folder. Default: by model."),
        Param("concurrency", 16, help="Concurrent calls.", minimum=1, maximum=1024),
        Param("max_tokens", int, help="Budget of prompt and answer tokens. Default: none.", maximum=2**53),
        Param("metrics", (), help="Metrics to show. Default: the task's usual ones.", names="metrics", read=listed),
        Param("on", MISSING, required=True, help="Task, e.g. beir:data/scifact. Repeatable.", names="tasks"),
        Param("sim", help="Similarity. Default: the encoder's own.", names="similarities"),
        Param("dims", int, minimum=1, help="Use the first N dimensions of the encoder."),
        Param(
            "index",
            metavar="INDEX",
            extra="faiss",
            help="Index of faiss, such as HNSW32 or IVF4096,PQ32:nprobe=64. Default: exact search.",
        ),
    )
}
