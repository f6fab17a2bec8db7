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
from collections.abc import Iterator, Mapping, Sequence
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
        decisive = [self.name, self.template, self.system or ""]
        decisive += [f"{key}={self.words[key]}" for key in sorted(self.words)]
        if not self.tags:
            decisive.append("tags=false")
        if self.stop or self.answer_tokens:
            decisive += [f"stop={self.stop}", f"answer-tokens={self.answer_tokens}"]
        return f"sha256:{hashlib.sha256(chr(0).join(decisive).encode()).hexdigest()}"

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
            if not self.tags or name in _NO_DATA:
                return fields[name]
            return f"<{name}-{mark}>\n{fields[name]}\n</{name}-{mark}>"

        return _FIELD.sub(filled, self.template)

    def sampling(self, base: Sampling, attempt: int = 0) -> Sampling:
        """``base`` with the end of this prompt's answers. A base model reads no reason, so it draws a further one."""
        sampling = base
        if self.answer_tokens is not None:
            sampling = replace(sampling, max_tokens=min(base.max_tokens, self.answer_tokens))
        if self.stop:
            sampling = replace(sampling, stop=(*base.stop, self.stop))
            if attempt and not base.temperature:
                sampling = replace(sampling, temperature=_RETRY_TEMPERATURE, seed=base.seed or 0)
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
    prompts = _of_wording(OURS, shapes, package)
    if named in wordings:
        return prompts | _of_wording(str(named), shapes, package)
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


def _of_wording(wording: str, shapes: Mapping[str, PromptShape], package: str) -> dict[str, PromptTemplate]:
    """The prompts that the ``package`` has in a wording."""
    prompts = {}
    for name, shape in shapes.items():
        file = resources.files(package) / "prompts" / wording / f"{name}{_ENDING}"
        if file.is_file():
            prompts[name] = _parsed(name, tomllib.loads(file.read_text("utf-8")), name, wording, shape)
    return prompts


def wording_for(llm: LLM | None) -> str:
    """The wording that suits a model (``None``: any) if none is given; a notice if it is another than ours."""
    # a class of a plugin need not inherit the protocol's default
    if llm is None or not getattr(llm, "continues", False):
        return OURS
    notice(f"{llm.spec} has no chat template: a base model continues texts, so `prompts=` is {FEW_SHOT}")
    return FEW_SHOT


def _parsed(name: str, content: dict[str, Any], source: object, wording: str, shape: PromptShape) -> PromptTemplate:
    problems = [*_key_problems(content, shape), *_option_problems(content), *_field_problems(content, shape)]
    if problems:
        keys = ", ".join(sorted(["prompt", *shape.words]))
        fields = ", ".join(f"{{{field}}}" for field in (*shape.fields, *shape.words))
        expected = f"a prompt {name} has {keys} with the fields {fields}, and may have system, tags, stop and"
        raise DataError(source, f"{'; '.join(problems)}; {expected} answer-tokens")
    return PromptTemplate(
        name,
        template=content["prompt"].strip(),
        system=content["system"].strip() if "system" in content else None,
        words={key: content[key].strip() for key in shape.words},
        wording=wording,
        tags=content.get("tags", True),
        stop=content.get("stop", ""),
        answer_tokens=content.get("answer-tokens"),
    )


def _key_problems(content: dict[str, Any], shape: PromptShape) -> Iterator[str]:
    """Missing and unknown keys, and keys of texts that have none."""
    required = {"prompt", *shape.words}
    texts = {key: value for key, value in content.items() if key not in ("tags", "stop", "answer-tokens")}
    for key in sorted(required - content.keys()):
        yield f"no {key}"
    for key in texts:
        if key not in required and key != "system":
            yield f"unknown {key}"
    for key, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            yield f"{key} is not a text"


def _option_problems(content: dict[str, Any]) -> Iterator[str]:
    """Wrong values of tags, stop and answer-tokens."""
    if not isinstance(content.get("tags", True), bool):
        yield "tags is neither true nor false"
    if "stop" in content and not (isinstance(content["stop"], str) and content["stop"]):
        yield "stop is no text"
    tokens = content.get("answer-tokens", 1)
    if type(tokens) is not int or tokens < 1:
        yield "answer-tokens is no number from 1"


def _field_problems(content: dict[str, Any], shape: PromptShape) -> Iterator[str]:
    """Missing and unknown fields of the prompt."""
    used = set(_FIELD.findall(str(content.get("prompt", ""))))
    for field in shape.fields:
        if field not in used:
            yield f"no field {{{field}}}"
    for field in sorted(used - {*shape.fields, *shape.words}):
        yield f"unknown field {{{field}}}"
