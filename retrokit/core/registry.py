"""The one grammar of names, and the registries that it names things in.

``name``, ``name:value``, ``name:key=value,key=value``: the same for similarities (``sfs:16``), encoders
(``static:dim=768``), tasks (``beir:PATH,split=dev``) and training data. A comma may take the colon's place.

:class:`Spec` is a parsed name with validated parameters, and ``registry.parse(str(spec)) == spec``. A
:class:`Registry` has lazy entries: listing them, or parsing a spec, imports nothing but the standard library.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from retrokit.core.errors import UsageError, check_extra, did_you_mean, first_line
from retrokit.core.settings import Param as Param
from retrokit.core.settings import Value, fetchers, text_of

if TYPE_CHECKING:  # its import is a fifth of the start
    from importlib.metadata import EntryPoint

LONGEST_LIST = 60
"""Characters of all names, up to which a message lists them next to the nearest ones."""
_HEAD = re.compile(r"([^:,]*)([:,]?)(.*)", re.DOTALL)
"""A name, and what follows it after a colon or a comma."""
LABEL = "name"


class Label(str):
    """A name that a user gave: it is shown as it is."""


_NEEDS_QUOTES = re.compile(r'[,="\\]|^\s|\s$|^$')


# At its import, wherever a processor has AVX512-BF16, it warns that a hub has a kernel which is not used here.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


_is_estimate: ContextVar[bool] = ContextVar("is_estimate", default=False)


@contextmanager
def estimating() -> Iterator[None]:
    """Within the block, or the function that it decorates, no text is sent, and no notice says so."""
    token = _is_estimate.set(True)
    try:
        yield
    finally:
        _is_estimate.reset(token)


@contextmanager
def importing() -> Iterator[None]:
    """Import large libraries here, without garbage collection: they make a million objects and drop next to none, and
    to look for garbage among these again and again is a fifth of the start. What one of them prints goes to standard
    error."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class Entry:
    """A named thing of a registry. ``target`` is ``"module:attribute"``, imported only to create the thing. ``extra``
    is the optional dependency that it needs, and ``modules`` what that installs."""

    name: str
    summary: str
    target: str
    params: tuple[Param, ...] = ()
    positional: str | None = None
    extra: str | None = None
    modules: tuple[str, ...] = ()

    def param(self, name: str) -> Param | None:
        """The parameter of that name, or ``None``."""
        return next((param for param in self.params if param.name == name), None)

    def load(self) -> Callable[..., Any]:
        """Import the target; a missing optional package becomes the command that installs it."""
        self.check_extra()
        module = self.target.partition(":")[0]
        try:
            return imported(self.target)
        except (ImportError, AttributeError) as error:
            if plugin_of(module) is None:
                raise
            problem = f"{self.target} does not load: {first_line(error)}"
            raise UsageError(f"{self.name}: {problem}{fault_of(module)}") from error

    def check_extra(self) -> None:
        """Raise :class:`MissingExtra` if the optional package is not installed; imports nothing."""
        if self.extra is not None:
            check_extra(self.name, self.extra, self.modules)


def imported(target: str) -> Any:
    """What ``"module:attribute"`` names, imported now."""
    module, _, attribute = target.partition(":")
    with importing():
        return getattr(importlib.import_module(module), attribute)


EXTENSIONS = "retrokit.extensions"
"""The group of entry points that are extensions."""


@dataclass(frozen=True)
class Extension:
    """What a package adds as one entry point of the group ``retrokit.extensions``. Importing it imports no library.

    Attributes:
        name: the name of its entry point.
        summary: what it does, in one line.
        commands: its commands, :class:`retrokit.cli.commands.CommandEntry`, groups of them included.
        entries: what it adds to registries: group of entry points → name → ``"module:attribute"`` of an
            :class:`Entry`, as the metadata of a package has it.
        python: its functions and classes: name → ``"module:attribute"``.
    """

    name: str
    summary: str
    commands: tuple[Entry, ...] = ()
    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    python: Mapping[str, str] = field(default_factory=dict)

    def attribute(self, name: str) -> Any:
        """What ``python`` names; the ``__getattr__`` of the extension's package."""
        if name not in self.python:
            raise AttributeError(f"extension {self.name} has no attribute {name!r}")
        return imported(self.python[name])

    def points(self, group: str) -> list[EntryPoint]:
        """What it adds to the registry of that group."""
        from importlib.metadata import EntryPoint

        return [EntryPoint(name, target, group) for name, target in self.entries.get(group, {}).items()]


@cache
def declared() -> Any:
    """The entry points of all packages, to select from. Reading them takes a tenth of a second, so it is done once."""
    from importlib.metadata import entry_points

    return entry_points()


@dataclass(frozen=True)
class Extensions:
    """The extensions that load, and why each of the others does not."""

    loaded: list[Extension]
    broken: dict[str, str]


@cache
def extensions() -> Extensions:
    """The extensions of this environment, in order of their names."""
    found = Extensions([], {})
    for point in sorted(declared().select(group=EXTENSIONS), key=lambda point: (point.name, point.value)):
        try:
            extension = point.load()
        except Exception as error:  # whatever a third party's import may raise
            if isinstance(error, ModuleNotFoundError) and f"{point.module}.".startswith(f"{error.name}."):
                problem = "is not installed"
            else:
                problem = f"({point.value}) does not load: {type(error).__name__}: {first_line(error)}"
            found.broken[point.name] = f"extension {point.name!r} {problem}"
            continue
        if isinstance(extension, Extension):
            found.loaded.append(extension)
        else:
            found.broken[point.name] = f"extension {point.name!r} ({point.value}) is not an {Extension.__name__}"
    return found


def missing_extensions() -> str:
    """What a message about an unknown name adds: which extensions are declared, but do not load.

    >>> missing_extensions()
    ''
    """
    return "".join(f"; {problem}" for problem in extensions().broken.values())


@dataclass(frozen=True)
class Spec:
    """A name and the parameters given for it. Parameters left at their default are dropped, so specs that mean the
    same are equal and print the same, but for the ``label`` that tables show in place of a spec (``name=LABEL``)."""

    name: str
    params: Mapping[str, Value] = field(default_factory=dict)
    positional: str | None = None
    bare: bool = False
    label: str = ""

    def __str__(self) -> str:
        items = []
        if self.positional is not None and self.positional in self.params:
            items.append(quoted(text_of(self.params[self.positional])))
        items += [f"{k}={quoted(text_of(v))}" for k, v in sorted(self.params.items()) if k != self.positional]
        if self.label:
            items.append(f"{LABEL}={quoted(self.label)}")
        if self.bare:
            return ",".join(items)
        return f"{self.name}:{','.join(items)}" if items else self.name

    @property
    def path(self) -> str:
        """Its parameter ``path``, or the empty text."""
        return str(self.params.get("path", ""))

    def changed(self, **params: Value) -> Spec:
        """The same with these parameters in place of its own."""
        return replace(self, params={**self.params, **params})

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.params.items()))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and (self.name, dict(self.params)) == (other.name, dict(other.params))


def quoted(text: str) -> str:
    """The text as a value in a spec."""
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ITEM = re.compile(r'(?>(?:([a-z][a-z0-9_]*)=)?)(?:"((?:\\.|[^"\\])*)"|([^",][^,]*|(?=,|\Z)))', re.DOTALL)


def split_items(text: str, of: str) -> list[tuple[str | None, str]]:
    """Split ``value,key=value,key="quoted, value"`` into ``(key or None, value)`` pairs."""
    items: list[tuple[str | None, str]] = []
    position = 0
    while match := _ITEM.match(text, position):
        key, quoted, plain = match.groups()
        items.append((key, plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)))
        position = match.end()
        if position == len(text):
            return items
        if text[position] != ",":
            raise UsageError(f"{of}: expected a comma after the quoted value, found {text[position]!r}")
        position += 1
    raise UsageError(f"{of}: the quoted value has no closing quote")


def _quoted_path(entry: Entry, text: str, item: str) -> str:
    """How to write the path in ``text`` that a comma or an equals sign in ``item`` cuts, if there is one."""
    path = text.removeprefix(f"{entry.name}:") if entry.positional is not None else ""
    while path and item in path:
        if os.path.exists(path):
            return f'; for the path: {entry.name}:"{path}"'
        path = path.rpartition(",")[0]
    return ""


class BrokenEntry(NamedTuple):
    """Why an entry point has no entry. If its name ``is_taken``, nobody can say which entry is meant by it."""

    problem: str
    is_taken: bool


def head_of(spec: str) -> str:
    """The name that a spec begins with.

    >>> head_of("beir:data/scifact"), head_of("minilm,name=small"), head_of("bm25")
    ('beir', 'minilm', 'bm25')
    """
    head: str = _HEAD.match(spec)[1]  # type: ignore[index] # always matches
    return head


class Registry:
    """Entries of one kind (``kind`` is the singular noun used in messages).

    Extensions and third parties add entries through the entry-point group ``group``: each loads an :class:`Entry`. One
    that does not load is refused where its name is used, and is no obstacle elsewhere. Without a group, nobody does.
    ``fallback`` names the entry that takes a text whose head is no registered name (a path, a hub id).
    ``has_labels``: a spec may end with ``name=LABEL``.
    """

    every: ClassVar[WeakSet[Registry]] = WeakSet()
    form: ClassVar[re.Pattern[str]] = re.compile(r"[a-z][a-z0-9_-]*")
    """What a name looks like."""
    grammar: ClassVar[str] = " (NAME, NAME:VALUE or NAME:KEY=VALUE,KEY=VALUE)"
    """How a name is used in a spec."""

    def __init__(
        self,
        kind: str,
        group: str | None,
        entries: Iterable[Entry],
        fallback: str | None = None,
        has_labels: bool = False,
    ) -> None:
        self.has_labels = has_labels
        self.kind = kind
        self.group = group
        self.fallback = fallback
        self._entries: dict[str, Entry] = {}
        self._broken: dict[str, BrokenEntry] = {}
        self._scanned = False
        self.every.add(self)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Register ``entry``; a duplicate name is an error."""
        if not self.form.fullmatch(entry.name):
            raise UsageError(f"{self.kind} name {entry.name!r} must be lower-case letters, digits, - and _")
        if entry.name in self._entries:
            both = f"{self._entries[entry.name].target} and {entry.target}"
            raise UsageError(f"{self.kind} {entry.name!r} is registered twice ({both})")
        self._entries[entry.name] = entry

    def entries(self) -> list[Entry]:
        """All entries, third parties' included, in order of registration."""
        self._scan()
        return list(self._entries.values())

    def names(self) -> list[str]:
        """All registered names."""
        return [entry.name for entry in self.entries()]

    @classmethod
    def has(cls, name: str) -> bool:
        """Whether a registry that is loaded has the name, for use in specs."""
        return any(name in registry._entries for registry in cls.every if registry.grammar)

    def _scan(self) -> None:
        if self._scanned or self.group is None:
            return
        self._scanned = True
        points = sorted(declared().select(group=self.group), key=lambda point: (point.name, point.value))
        for point in [point for extension in extensions().loaded for point in extension.points(self.group)] + points:
            try:
                entry = point.load()
            except Exception as error:  # whatever a third party's import may raise
                problem = f"{type(error).__name__}: {first_line(error)}"
                problem = f"entry point {point.name!r} ({point.value}) does not load: {problem}"
                self._refuse(point.name, problem)
                continue
            if not isinstance(entry, Entry):
                problem = f"entry point {point.name!r} of {self.group} is not a retrokit.core.registry.Entry"
                self._refuse(point.name, problem)
                continue
            self._add_or_refuse(entry)

    def _refuse(self, name: str, problem: str) -> None:
        """Refuse a name whose entry point does not load."""
        self._broken[name] = BrokenEntry(f"{self.kind} {name!r}: {problem}", is_taken=False)

    def _add_or_refuse(self, entry: Entry) -> None:
        """Register the entry of an entry point. What is wrong with it is refused where its name is used."""
        try:
            self.add(entry)
        except UsageError as error:
            self._broken[entry.name] = BrokenEntry(str(error), is_taken=True)

    def broken(self) -> list[str]:
        """What is wrong with each entry point that adds no entry."""
        self._scan()
        return [broken.problem for broken in self._broken.values()]

    def check_loaded(self, name: str) -> None:
        """Raise :class:`UsageError` if the name is that of an entry point that does not load, or is taken twice."""
        self._scan()
        broken = self._broken.get(name)
        if broken is not None and (broken.is_taken or name not in self._entries):
            raise UsageError(broken.problem)

    def entry(self, name: str) -> Entry:
        """The entry of that name; an unknown name raises :class:`UsageError` with the nearest names and the list."""
        if name not in self._entries:
            self.check_loaded(name)
        if name not in self._entries:
            raise UsageError(self.unknown(name))
        return self._entries[name]

    def unknown(self, name: str) -> str:
        """The message for an unknown name: nearest names, and all if they are few or none is near."""
        hint = did_you_mean(name, self.names(), limit=3)
        names = ", ".join(self.names())
        listing = f"; known: {names}" if not hint or len(names) <= LONGEST_LIST else ""
        return f"unknown {self.kind} {name!r}{hint}{listing}{missing_extensions()}"

    def parse(self, text: str | Spec) -> Spec:
        """Parse and validate ``text``; ``parse(str(spec)) == spec``. Raises :class:`UsageError` for an unknown name
        (with the nearest ones), or a parameter of a wrong name, type or range."""
        if isinstance(text, Spec):
            return text
        head, mark, rest = _HEAD.match(text).groups()  # type: ignore[union-attr] # always matches
        self.check_loaded(head)
        if head not in self._entries:
            if self.fallback is None or not text:
                raise UsageError(self.unknown(text.partition(":")[0]))
            self._check_bare(text)
            head, mark, rest = self.fallback, "", text
        items = split_items(rest, text) if rest else []
        if mark and not rest:
            raise UsageError(f"{text!r}: nothing after the {'colon' if mark == ':' else 'comma'}")
        if not self.has_labels:
            return self._validated(self._entries[head], items, text)
        labels = [value for key, value in items if key == LABEL]
        if len(labels) > 1 or "" in labels:
            raise UsageError(f"{text}: give {LABEL} once, with a value")
        items = [(key, value) for key, value in items if key != LABEL]
        return replace(self._validated(self._entries[head], items, text), label=Label("".join(labels)))

    def _check_bare(self, text: str) -> None:
        """Raise :class:`UsageError` for a text that is meant as a path or hub id, but more likely is a slip."""
        name, mark, rest = _HEAD.match(text).groups()  # type: ignore[union-attr] # always matches
        if os.path.exists(text):
            return
        if mark == ":" and os.path.exists(name):
            raise UsageError(f"{text!r}: parameters follow a path after a comma: {name},{rest}")
        if mark == ":" and extensions().broken:  # which may have the name
            raise UsageError(self.unknown(name))
        if self._resembles_a_name(name) and not os.path.exists(name):
            way_out = f"for a path or hub id of that name: {self.fallback}:{text}"
            raise UsageError(f"{self.unknown(name)} ({way_out})")

    def _validated(self, entry: Entry, items: list[tuple[str | None, str]], text: str) -> Spec:
        params: dict[str, Value] = {}
        problems = []
        for index, (key, value) in enumerate(items):
            if key is None and index == 0:
                key = entry.positional
            try:
                name, converted = self._parameter(entry, key, value, text, params)
            except UsageError as error:
                problems.append(str(error))
            else:
                params[name] = converted
        problems = problems or list(self._missing(entry, params, text))
        if problems:
            raise UsageError("\n".join(problems))
        defaults = {param.name: param.default for param in entry.params}
        changed = {name: value for name, value in params.items() if value != defaults[name]}
        return Spec(entry.name, changed, entry.positional, self._may_be_bare(entry, changed))

    def _missing(self, entry: Entry, params: Mapping[str, Value], text: str) -> Iterator[str]:
        path = f"; for the path: ./{text}" if os.path.exists(text) else ""
        for param in entry.params:
            if param.required and param.name not in params:
                yield f"{text}: {entry.name} needs {param.name} ({entry.name}:{param.describe()}){path}"

    def _parameter(
        self, entry: Entry, key: str | None, value: str, text: str, earlier: Mapping[str, Value]
    ) -> tuple[str, Value]:
        """The name and the value of a parameter, of which ``text`` gives ``earlier`` ones."""
        if key is None:
            expected = ", ".join(param.describe() for param in entry.params) or "no parameters"
            hint = _quoted_path(entry, text, value)
            raise UsageError(f"{text}: {value!r} has no name; {entry.name} takes {expected}{hint}")
        param = entry.param(key)
        if param is None:
            names = [param.name for param in entry.params]
            problem = f"{text}: {entry.name} has no parameter {key!r}{did_you_mean(key, names)}"
            problem += f"; it takes {', '.join(names)}{_quoted_path(entry, text, f'{key}={value}')}"
            inner = str(earlier.get(entry.positional or "", ""))
            if ":" in inner:
                problem += f'; options of {inner} need quotes: {entry.name}:"{inner},{key}={value}"'
            raise UsageError(problem)
        if key in earlier:
            raise UsageError(f"{text}: {key} is given twice")
        return key, param.value_from(value, text)

    def _may_be_bare(self, entry: Entry, given: Mapping[str, Value]) -> bool:
        """Whether the entry's name may be left out in print: the fallback's, before a value that reads as no name."""
        if entry.name != self.fallback or entry.positional is None or entry.positional not in given:
            return False
        value = text_of(given[entry.positional])
        return not (
            _NEEDS_QUOTES.search(value) or ":" in value or value in self._entries or self._resembles_a_name(value)
        )

    def _resembles_a_name(self, text: str) -> bool:
        is_word = re.fullmatch(r"[A-Za-z0-9_-]+", text) is not None
        return is_word and bool(difflib.get_close_matches(text, self._entries, 1, 0.8))

    def options(self, spec: Spec) -> dict[str, Any]:
        """All parameters of ``spec``, defaults filled in."""
        entry = self.entry(spec.name)
        return {param.name: param.value_of(spec) for param in entry.params}

    def check_needs(self, spec: Spec) -> None:
        """Raise :class:`MissingExtra` if ``spec`` needs an optional package that is not installed, and
        :class:`UsageError` if neither it nor the environment gives a value that it needs; imports nothing."""
        entry = self.entry(spec.name)
        entry.check_extra()
        for param in entry.params:
            param.check_extra(f"{param.name}=", spec.params.get(param.name))
            if param.env is not None and param.value_of(spec) is None:
                raise UsageError(f"{spec}: {param.name}= is missing; add {param.help}, or set {param.env}")
            if param.receives_texts:
                _name_host(spec, str(param.value_of(spec)))

    def create(self, spec: str | Spec, **context: Any) -> Any:
        """Make what ``spec`` names: calls the entry's target with its parameters and ``context`` as keywords."""
        spec = self.parse(spec)
        self.check_needs(spec)
        return self.entry(spec.name).load()(**{**self.options(spec), **context})

    def create_on(self, spec: str | Spec, device: str | None) -> Any:
        """Make what ``spec`` names, on ``device`` if its target has such a parameter: it loads models then. A device
        that ``spec`` itself names goes before."""
        spec = self.parse(spec)
        if "device" not in inspect.signature(self.entry(spec.name).load()).parameters:
            return self.create(spec)
        return self.create(spec, device=spec.params.get("device") or device)

    def describe(self) -> str:
        """The registered names, what they are and what they take, as text for a help page."""
        import shutil
        import textwrap

        width = max(60, min(100, shutil.get_terminal_size().columns))
        lines = [f" Names: {self.kind}{self.grammar}"]
        longest = max([10, *(len(entry.name) for entry in self.entries())])
        indent = " " * (longest + 4)
        for entry in self.entries():
            name = f"   {entry.name:<{longest}} "
            lines += textwrap.wrap(entry.summary, width, initial_indent=name, subsequent_indent=indent)
            params = " ".join(param.describe() for param in entry.params)
            lines += textwrap.wrap(
                params, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
            )
        lines += [f"   {problem}" for problem in self.broken()]
        return "\n".join(lines) + "\n"


def _name_host(spec: Spec, url: str) -> None:
    """Report the host to which texts are sent. An address without one is refused when the service is opened."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return
    if host is not None:
        from retrokit.core.notices import notice

        address = host if port is None else f"{host}:{port}"
        verb = "would be" if _is_estimate.get() else "are"
        notice(f"{spec.name}:{spec.params[spec.positional or '']}: texts {verb} sent to {address}", once=True)


class WordRegistry(Registry):
    """A registry of words of the command line, which are in no spec: a path may be called as one."""

    grammar = ""


file_systems = WordRegistry("file system", "retrokit.file_systems", [])
"""What reads and writes addresses: one entry, ``any``."""


def file_system() -> Any:
    """What reads and writes addresses.

    ``fetch(address)`` returns the path of a local copy. ``names(address)`` returns what is in a folder.
    ``target(address, names)`` returns the local folder to write; ``names`` are patterns of what may be replaced at the
    address, or ``None``. ``upload(folder, address, last)`` uploads that folder, the file ``last`` at the end.
    """
    return file_systems.create("any")


fetchers.append(lambda address: file_system().fetch(address))


def plugin_of(module: str) -> str | None:
    """The plugin that a module belongs to: the package of the entry of a third party; ``None`` for others."""
    package = module.partition(".")[0]
    targets = (entry.target for registry in Registry.every for entry in registry._entries.values())
    packages = {target.partition(":")[0].partition(".")[0] for target in targets}
    return package if package in packages - {"", "__main__", "retrokit"} else None


def fault_of(module: str) -> str:
    """What a message about a fault in a module adds, if the module is that of a plugin."""
    plugin = plugin_of(module)
    return f". This is a bug of the plugin {plugin}" if plugin is not None else ""


class SpecRegistry(Registry):
    """A registry whose products carry the canonical spec that they were created from as ``spec``."""

    def create(self, spec: str | Spec, **context: Any) -> Any:
        """Make what ``spec`` names."""
        instance = super().create(spec, **context)
        instance.spec = str(replace(self.parse(spec), label=""))
        return instance


def parse_all(requests: Sequence[tuple[Registry, str]]) -> list[Spec]:
    """Parse specs of any kinds, reporting every wrong one at once. Raises :class:`UsageError` with all problems in
    one message, a line each, and as :meth:`Registry.check_needs`."""
    specs, problems = [], []
    for registry, text in requests:
        try:
            specs.append(registry.parse(text))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    for (registry, _), spec in zip(requests, specs, strict=True):
        registry.check_needs(spec)
    return specs
