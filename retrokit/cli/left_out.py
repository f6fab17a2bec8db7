"""What a command takes for parameters that are left out, and what follows."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from string import Formatter
from typing import Any

import typer

from retrokit.cli.commands import LeftOut, reranker_here, systems_here
from retrokit.cli.settings import Option
from retrokit.cli.streams import is_first_process
from retrokit.core.notices import notice
from retrokit.core.registry import quoted


class Substitutes:
    """The values that a call of a command takes for what is left out."""

    def __init__(
        self,
        left_out: Sequence[LeftOut],
        options: Mapping[str, Option],
        context: typer.Context,
        typed: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._context = context
        self._typed = typed
        self.values = dict(typed)
        self.taken = left_out_of(left_out, context)
        self._names: list[str] = []
        for default in self.taken:
            for name, value in {default.name: default.value, **default.more}.items():
                if _is_default(context, name):
                    self.values[name] = self._value(name, value() if callable(value) else value)
                    self._names.append(name)

    def announce(self) -> None:
        """Print what is taken, in one line, and remarks on it."""
        if self._names:
            notice(f"left out, so taken: {shlex.join(self._words(self.values, self._names))}")
        for default in self.taken:
            if default.remark:
                notice(default.remark)

    def _value(self, name: str, value: Any) -> Any:
        """The value as Typer would give it; of an output, a path that does not exist."""
        option = self._options[name]
        if option.param.writes:
            names = {other: _file_name(text) for other, text in self.values.items()}
            return unused(value.format(**names))
        return [value] if option.is_repeatable and isinstance(value, str) else value

    def _words(self, values: Mapping[str, Any], names: Iterable[str]) -> list[str]:
        """The words that give the parameters their values."""
        words: list[str] = []
        for name in names:
            option, value = self._options[name], values[name]
            if value is True:
                words.append(option.flag)
            elif option.param.argument:
                words += _texts(value)
            else:
                for text in _texts(value):
                    words += [option.flag, text]
        return words

    def line(self, values: Mapping[str, Any], config: str | None) -> list[str]:
        """The words of a command line that gives the command these values. The file of options is among them if they
        are what the user gave."""
        words = self._context.command_path.split()[1:]
        sources = {"DEFAULT"}
        if config is not None and values == self._typed:
            words += ["--config", config]
            sources.add("DEFAULT_MAP")
        names = []
        for name in self._options:
            if _source(self._context, name) not in sources or values[name] != self._typed[name]:
                names.append(name)
        return words + self._words(values, names)

    @property
    def follows(self) -> bool:
        """Whether something follows: not after a dry run, nor if one JSON object is printed, nor if the output is no
        file or folder that can be read again."""
        output = self.values.get("output")
        is_readable = output is None or (output != "-" and (os.path.isfile(output) or os.path.isdir(output)))
        return is_readable and not self.values.get("as_json") and not self.values.get("dry_run")

    def runs(self) -> Iterator[dict[str, Any]]:
        """The values of the command, and those of a second run to compare with."""
        yield self.values
        if not self.follows or os.environ.get("WORLD_SIZE", "1") != "1":  # processes that have parted cannot join again
            return
        for default in self.taken:
            if default.beside is not None and self.values[default.beside[0]] != default.beside[1]:
                name, value = default.beside
                output = unused(f"{self.values['output'].rstrip(os.sep)}-{value}")
                notice(f"the same with {self._options[name].flag} {value}, to compare: {output}")
                resets = {reset: self._options[reset].param.default for reset in default.resets}
                yield {**self.values, **resets, name: value, "output": output}
                self.values["beside"] = output

    def follow(self) -> None:
        """Run the commands that follow, and name the next one; only in the first of several processes."""
        if not self.follows or not is_first_process():
            return
        root: Any = self._context.find_root().command
        for default in self.taken:
            if words := self._filled(default.then_beside if "beside" in self.values else default.then):
                notice(f"then: retrokit {shlex.join(words)}")
                if code := root.main(words, prog_name="retrokit", standalone_mode=False):
                    raise typer.Exit(code)
        for default in self.taken:
            if words := self._filled(default.next):
                notice(f"next: retrokit {shlex.join(words)}")

    def _filled(self, template: str) -> list[str]:
        """The words of a command, with the values of this one, and the systems and the reranker that are here."""
        values = {**self.values, "systems": systems_here(), "reranker": reranker_here()}
        if any(values[name] is None for _, name, _, _ in Formatter().parse(template) if name):
            return []
        words: list[str] = []
        for word in shlex.split(template):
            value = values.get(word.strip("{}"))
            if word.startswith("{") and isinstance(value, list):
                flags = [words.pop()] if words[-1].startswith("--") else []
                words += chain.from_iterable([*flags, item] for item in value)
            elif ":" in word:  # a spec
                words.append(word.format(**{name: quoted(str(value)) for name, value in values.items()}))
            else:
                words.append(word.format(**values))
        return words


def left_out_of(left_out: Iterable[LeftOut], context: typer.Context) -> list[LeftOut]:
    """Those whose parameter has no value, unless another one makes it needless."""
    needed = []
    for default in left_out:
        is_needless = any(not _is_default(context, name) for name in default.unless)
        is_needless = is_needless or not default.is_needed(context.params)
        if _is_default(context, default.name) and not is_needless:
            needed.append(default)
    return needed


def _texts(value: Any) -> list[str]:
    """A value, or each of several, as it is typed; none for one that is left out."""
    if value is None or value is False:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _is_default(context: typer.Context, name: str) -> bool:
    """Whether nothing gives the parameter a value; of one that the command lacks, too."""
    return _source(context, name) == "DEFAULT"


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "DEFAULT" if source is None else source.name


def _file_name(value: Any) -> str:
    """A value as part of the name of a file; of a path, its end.

    >>> [_file_name(value) for value in ("data/mine/", "sfs:16,base=l2", None)]
    ['mine', 'sfs-16-base-l2', 'new']
    """
    if value is None:
        return "new"
    return re.sub(r"[^\w.-]+", "-", os.path.basename(str(value).rstrip(os.sep)))


def unused(path: str) -> str:
    """The path, with a number if it exists.

    >>> unused("no-such-folder/crops.jsonl")
    'no-such-folder/crops.jsonl'
    """
    stem, ending = os.path.splitext(path)
    if not ending[1:].isalpha():  # a number is no ending of a file
        stem, ending = path, ""
    numbered = (f"{stem}-{number}{ending}" for number in count(2))
    return next(name for name in chain([path], numbered) if not os.path.lexists(name))
