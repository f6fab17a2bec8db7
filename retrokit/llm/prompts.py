"""Prompts of a language model: data files that a user can replace, and how they are filled.

A prompt is a TOML file: ``prompt`` (with fields in braces), ``system`` (optional), and the words that its answer is
recognised by, such as ``marker = "summary:"``. The words may stand in the prompt as fields, too.

A prompt with ``stop`` is for a base language model, which continues a text: a few examples come before the user's text
(Bonifacio et al., "InPars", 2022; Dai et al., "Promptagator", 2022), and the answer ends where ``stop`` would follow,
at most ``answer-tokens`` later. If it ends with a word of its own, such as ``{marker}``, the answer begins after that.

Texts of the user's data are put between tags that no such text can hold, so that what a passage says, "ignore the
above" included, stays what the task is about and is not taken for the task. With ``tags = false`` they stand as they
are.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, did_you_mean
from retrokit.core.files import read_toml
from retrokit.core.notices import notice
from retrokit.llm.base import LLM, Sampling

_FIELD = re.compile(r"\{([a-z-]+)\}")
_ENDING = ".toml"
OURS, FEW_SHOT, _OWN = "ours", "few-shot", "own"
WORDINGS = (OURS, FEW_SHOT)
_RETRY_TEMPERATURE = 0.7  # that of Promptagator

_NO_DATA = {"reason", "requirement"}
"""Fields that hold no text of the user's data: they stand in the prompt without tags."""


@dataclass(frozen=True)
class PromptShape:
    """What a prompt has to contain: its fields, and the words that its answer is recognised by."""

    fields: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptTemplate:
    """One prompt.

    Attributes:
        name: of its file.
        template: its text, with fields such as ``{query}``.
        system: the system message, or ``None``.
        words: what its answer is recognised by: ``marker``, ``keywords``, ``yes``, ``no``, or a requirement a kind.
        wording: one of those that come with the package, or ``own``: of a user's folder.
        tags: whether texts of the data stand between tags.
        stop: text that ends the answer; ``""``: the model's own end.
        answer_tokens: longest answer, if it has a limit of its own.
    """

    name: str
    template: str
    system: str | None
    words: Mapping[str, str]
    wording: str
    tags: bool = True
    stop: str = ""
    answer_tokens: int | None = None

    @cached_property
    def digest(self) -> str:
        """``sha256:<hex>`` over all that decides the request and how its answer is read."""
        words = (f"{key}={self.words[key]}" for key in sorted(self.words))
        parts = [self.name, self.template, self.system or "", *words, *([] if self.tags else ["tags=false"])]
        parts += [f"stop={self.stop}", f"answer-tokens={self.answer_tokens}"] if self.stop or self.answer_tokens else []
        return f"sha256:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}"

    def fill(self, **fields: str) -> str:
        """The prompt with its fields filled. Tags, if used, enclose the data texts, none of which contains them."""
        texts = [text for name, text in fields.items() if name not in _NO_DATA]
        digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8)
        while any((mark := digest.hexdigest()[:8]) in text.lower() for text in texts):
            digest.update(b"another")
        mark = digest.hexdigest()[:8]

        def filled(match: re.Match[str]) -> str:
            name = match[1]
            if name in self.words:
                return self.words[name]
            if name not in fields:  # of a prompt that is no file of ours
                return match[0]
            bare = not self.tags or name in _NO_DATA
            return fields[name] if bare else f"<{name}-{mark}>\n{fields[name]}\n</{name}-{mark}>"

        return _FIELD.sub(filled, self.template)

    def sampling(self, base: Sampling, attempt: int = 0) -> Sampling:
        """``base`` with the end of this prompt's answers. A base model reads no reason, so it draws a further one."""
        limit = base.max_tokens if self.answer_tokens is None else min(base.max_tokens, self.answer_tokens)
        sampling = replace(base, max_tokens=limit, stop=(*base.stop, self.stop) if self.stop else base.stop)
        if self.stop and attempt and not base.temperature:
            return replace(sampling, temperature=_RETRY_TEMPERATURE, seed=base.seed or 0)
        return sampling

    def again(self, filled: str, retry: "PromptTemplate", reason: str) -> str:
        """The filled prompt after an answer to it was rejected."""
        return filled if self.stop else f"{filled}\n\n{retry.fill(reason=reason)}"

    def answer(self, text: str) -> str:
        """The answer in full: ``text`` behind the word that the prompt ends with, unless it repeats it."""
        end = _FIELD.findall(self.template)[-1]
        if not self.stop or not self.template.endswith(f"{{{end}}}") or end not in self.words:
            return text
        word = self.words[end]
        return text if text.lower().startswith(word.lower()) else f"{word} {text}"


TAG = re.compile(r"</?[a-z-]+-[0-9a-f]{8}>")
"""The tags that :meth:`PromptTemplate.fill` makes, which some models repeat in their answer."""


def load_prompts(
    named: str | Path, shapes: Mapping[str, PromptShape], package: str, wordings: Sequence[str] = (OURS,)
) -> dict[str, PromptTemplate]:
    """The prompts ``shapes`` by name: of a wording, or ours except those that the folder ``named`` has as NAME.toml.

    Args:
        package: whose folder ``prompts`` contains those of each of the ``wordings``.

    Raises:
        DataError: no such folder, a file in it that is no prompt of ours (the nearest name is given), or one that is
            no TOML, lacks a field or a word, or has an unknown one.
    """
    prompts = {}
    for wording in dict.fromkeys((OURS, named)) if named in wordings else (OURS,):
        for name, shape in shapes.items():
            file = resources.files(package) / "prompts" / str(wording) / f"{name}{_ENDING}"
            if file.is_file():
                prompts[name] = _parsed(name, tomllib.loads(file.read_text("utf-8")), name, str(wording), shape)
    if named in wordings:
        return prompts
    folder = Path(named)
    if not folder.is_dir():
        problem = f"is neither {' nor '.join(wordings)} nor a folder of prompts, such as"
        raise DataError(folder, f"{problem} {', '.join(name + _ENDING for name in shapes)}")
    paths = sorted(folder.glob(f"*{_ENDING}"))
    if not paths:
        raise DataError(folder, f"contains no prompt; expected some of {', '.join(name + _ENDING for name in shapes)}")
    for path in paths:
        name = path.name.removesuffix(_ENDING)
        if name not in shapes:
            hint = did_you_mean(path.name, [other + _ENDING for other in shapes])
            raise DataError(path, f"is not a prompt of this protocol{hint}; the prompts are {', '.join(shapes)}")
        prompts[name] = _parsed(name, read_toml(path)[1], path, _OWN, shapes[name])
    return prompts


def wording_for(llm: LLM | None) -> str:
    """The wording that suits a model (``None``: any) if none is given; a notice if it is another than ours."""
    # a class of a plugin need not inherit the protocol's default
    if llm is None or not getattr(llm, "continues", False):
        return OURS
    notice(f"{llm.spec} has no chat template: a base model continues texts, so `prompts=` is {FEW_SHOT}")
    return FEW_SHOT


def _parsed(name: str, held: dict[str, Any], where: object, wording: str, shape: PromptShape) -> PromptTemplate:
    expected, fields = {"prompt", *shape.words}, (*shape.fields, *shape.words)
    used = set(_FIELD.findall(str(held.get("prompt", ""))))
    texts = {key: value for key, value in held.items() if key not in ("tags", "stop", "answer-tokens")}
    tags, stop, tokens = held.get("tags", True), held.get("stop", ""), held.get("answer-tokens")
    problems = [
        *(f"no {key}" for key in sorted(expected - held.keys())),
        *(f"unknown {key}" for key in texts if key not in expected | {"system"}),
        *(f"{key} is not a text" for key, value in texts.items() if not isinstance(value, str) or not value.strip()),
        *(["tags is neither true nor false"] if not isinstance(tags, bool) else []),
        *(["stop is no text"] if "stop" in held and not (isinstance(stop, str) and stop) else []),
        *(
            ["answer-tokens is no number from 1"]
            if tokens is not None and (type(tokens) is not int or tokens < 1)
            else []
        ),
        *(f"no field {{{field}}}" for field in shape.fields if field not in used),
        *(f"unknown field {{{field}}}" for field in sorted(used - set(fields))),
    ]
    if problems:
        takes = f"{', '.join(sorted(expected))} with the fields {', '.join(f'{{{field}}}' for field in fields)}"
        raise DataError(
            where,
            f"{'; '.join(problems)}; a prompt {name} has {takes}, and may have system, tags, stop and answer-tokens",
        )
    words = {key: held[key].strip() for key in shape.words}
    system = held["system"].strip() if "system" in held else None
    return PromptTemplate(name, held["prompt"].strip(), system, words, wording, tags, stop, tokens)
