"""What a command takes for parameters that are left out, and what follows."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import typer

from retrokit.cli.commands import LeftOut, reranker_here, systems_here
from retrokit.core.notices import notice

if TYPE_CHECKING:
    from retrokit.cli.settings import Option


class Substitutes:
    """The values that a call of a command takes for what is left out."""

    def __init__(
        self,
        left_out: Sequence[LeftOut],
        options: Mapping[str, "Option"],
        context: typer.Context,
        typed: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._root: Any = context.find_root().command
        self.values = dict(typed)
        self.taken = [default for default in left_out if self._is_left_out(context, default)]
        names = []
        for default in self.taken:
            for name, value in {default.name: default.value, **default.more}.items():
                if _is_default(context, name):
                    self.values[name] = self._value(name, value() if callable(value) else value)
                    names.append(name)
        if names:
            notice(f"left out, so taken: {shlex.join(chain.from_iterable(map(self._words, names)))}")
        for default in self.taken:
            if default.remark:
                notice(default.remark)

    def _is_left_out(self, context: typer.Context, default: LeftOut) -> bool:
        is_needless = any(not _is_default(context, name) for name in default.unless)
        return _is_default(context, default.name) and not is_needless

    def _value(self, name: str, value: Any) -> Any:
        """The value as Typer would give it; of an output, a path that does not exist."""
        option = self._options[name]
        if option.param.writes:
            names = {other: re.sub(r"[^\w.-]+", "-", str(text)) for other, text in self.values.items()}
            return unused(value.format(**names))
        return [value] if option.is_repeatable and isinstance(value, str) else value

    def _words(self, name: str) -> list[str]:
        """The words that give the parameter its value."""
        param, value = self._options[name].param, self.values[name]
        values = [str(item) for item in value] if isinstance(value, list) else [str(value)]
        if param.argument:
            return values
        return list(chain.from_iterable((self._options[name].flag, item) for item in values))

    @property
    def follows(self) -> bool:
        """Whether something follows: not after a dry run, nor where one JSON object is printed."""
        return not self.values.get("as_json") and not self.values.get("dry_run")

    def runs(self) -> Iterator[dict[str, Any]]:
        """The values of the command, and those of a second run to compare with."""
        yield self.values
        for default in self.taken:
            if self.follows and default.beside is not None and self.values[default.beside[0]] != default.beside[1]:
                name, value = default.beside
                output = unused(f"{self.values['output']}-{value}")
                notice(f"the same with {self._options[name].flag} {value}, to compare: {output}")
                yield {**self.values, name: value, "output": output}
                self.values["beside"] = output

    def follow(self) -> None:
        """Run the commands that follow, and name the next one."""
        if not self.follows:
            return
        for default in self.taken:
            if words := self._filled(default.then_beside if "beside" in self.values else default.then):
                notice(f"then: retrokit {shlex.join(words)}")
                self._root.main(words, prog_name="retrokit", standalone_mode=False)
        for default in self.taken:
            if words := self._filled(default.next):
                notice(f"next: retrokit {shlex.join(words)}")

    def _filled(self, template: str) -> list[str]:
        """The words of a command, with the values of this one, and the systems and the reranker that are here."""
        values = {**self.values, "systems": systems_here(), "reranker": reranker_here()}
        values = {name: shlex.join(value) if isinstance(value, list) else value for name, value in values.items()}
        return shlex.split(template.format(**values))


def _is_default(context: typer.Context, name: str) -> bool:
    """Whether nothing gives the parameter a value; of one that the command lacks, too."""
    source = context.get_parameter_source(name)
    return source is None or source.name == "DEFAULT"


def unused(path: str) -> str:
    """The path, with a number if it exists.

    >>> unused("no-such-folder/crops.jsonl")
    'no-such-folder/crops.jsonl'
    """
    stem, ending = os.path.splitext(path)
    numbered = (f"{stem}-{number}{ending}" for number in count(2))
    return next(name for name in chain([path], numbered) if not os.path.lexists(name))
