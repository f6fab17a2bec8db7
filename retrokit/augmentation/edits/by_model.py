"""Near-misses that a language model writes, one family a prompt (COMP 3.1), checked by rules that need no model.

A family's prompt is ``prompt.txt`` in its folder. Texts are read ahead, their sentences are requested in a thread, and
a family waits for the answer to its sentence. The output does not depend on which answer arrives first.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import NamedTuple

from retrokit.augmentation.edits.family import Family, Rewriting, load_families
from retrokit.augmentation.edits.generator import Text, anchors_of
from retrokit.augmentation.edits.patterns import text as text_of_file
from retrokit.augmentation.edits.running_text import reasons, why_not
from retrokit.augmentation.edits.subject import Subject
from retrokit.core.calls import PromptRefused
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.notices import notice, progress
from retrokit.llm import registry as llms
from retrokit.llm.base import LLM, Completion, estimated_tokens
from retrokit.llm.prompts import OURS, WORDINGS, PromptShape, PromptTemplate, load_prompts, wording_for
from retrokit.llm.session import Session
from retrokit.llm.store import ResponseStore

CAUSES: dict[str, str] = {
    "none": "the model reports none",
    "empty": "empty answer",
    "refused": "prompt refused by the model",
    "cut": "answer cut off",
    "unchanged": "unchanged apart from case and marks",
    "overlap": "too few shared words",
    "interchanged": "only coordinates swapped",
    "text": "no running text",
}
"""Why an answer is no near-miss: what is counted as ``rejected:CAUSE``, and what it means."""
SYSTEM = text_of_file(__package__, "system.txt")
"""The system prompt of every family."""
CALLS = 16
"""Concurrent calls, unless another number is given."""
ENOUGH = 100
"""Rejected answers, with none accepted, after which the model is given up."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_SHARED = 2
_TAGS = re.compile(r"</?sentence>", re.IGNORECASE)
_LABEL = re.compile(
    r"^(?:(?:near-?miss|(?:edited |new )?sentence|answer|output|result|edit)\s*:|[-*•]|\d+[.)])\s*", re.I
)
_QUOTES = ('""', "''", "“”", "‘’", "«»", "**", "``", "__")


def rejections(counts: Mapping[str, int]) -> str:
    """How many answers were rejected for each cause, the most frequent first, of ``rejected:CAUSE`` in ``counts``."""
    return reasons(counts, CAUSES, "rejected:")


def answered(text: str) -> str:
    r"""The sentence in a model's answer: its first line of text, without labels, tags and marks around it.

    >>> answered('Edited sentence: **"The cat sleeps."**'), answered("Here it is:\nThe cat sleeps.")
    ('The cat sleeps.', 'The cat sleeps.')
    """
    for line in _TAGS.sub("", text).splitlines():
        line = _bare(_LABEL.sub("", _bare(line)))
        if any(letter.isalpha() for letter in line) and not line.startswith("```") and not line.endswith(":"):
            return " ".join(line.split())
    return ""


def _bare(line: str) -> str:
    """``line`` without white space and pairs of marks around all of it; marks that belong to the text stay."""
    line = line.strip()
    while len(line) > 1 and line[0] + line[-1] in _QUOTES and not {line[0], line[-1]} & set(line[1:-1].strip("*_`")):
        line = line[1:-1].strip()
    return line


def why_rejected(anchor: str, answer: str, least_overlap: float) -> str | None:
    """The first cause (a key of :data:`CAUSES`) for which ``answer`` is no near-miss of ``anchor``, of which it
    must share ``least_overlap`` (:func:`overlap`); ``None``: it is one.

    >>> why_rejected("The cat sees a dog and a bird.", "The cat sees a bird and a dog.", 0.7)
    'interchanged'
    >>> why_rejected("The cat sees a dog and a bird.", "A dog sees the cat and a bird.", 0.7)
    """
    if not answer:
        return "empty"
    if answer.strip(" .").upper() == "NONE":
        return "none"
    old, new = _words(anchor), _words(answer)
    if old == new:
        return "unchanged"
    if overlap(anchor, answer) < least_overlap:
        return "overlap"
    if _coordinates_changed_places(old, new):
        return "interchanged"
    return None if why_not(answer) is None else "text"


def overlap(text: str, other: str) -> float:
    """The words that two sentences share, repetitions counted, as a share of the longer one's."""
    old, new = Counter(_words(text)), Counter(_words(other))
    return (old & new).total() / max(old.total(), new.total(), 1)


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def _coordinates_changed_places(old: list[str], new: list[str]) -> bool:
    """Whether what differs is "A and B" in one and "B and A" in the other."""
    if sorted(old) != sorted(new):
        return False
    differ = [index for index, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    # an article that both coordinates have is outside of what differs
    for start in range(max(0, differ[0] - _SHARED), differ[0] + 1):
        for end in range(differ[-1] + 1, min(len(old), differ[-1] + 1 + _SHARED) + 1):
            for middle in range(start + 1, end - 1):
                turned = [*old[middle + 1 : end], old[middle], *old[start:middle]]
                if old[middle] in ("and", "or") and turned == new[start:end]:
                    return True
    return False


def prompts_of(families: Iterable[Family], wording: str) -> list[PromptTemplate]:
    """The prompt of each family: its own, but for those that the ``wording``, or a folder of that name, has.

    Raises:
        UsageError: families without a prompt.
        DataError: as :func:`retrokit.llm.prompts.load_prompts`.
    """
    shapes = {family.name: PromptShape(("sentence",)) for family in families}
    prompts = load_prompts(wording, shapes, __package__, WORDINGS)
    for family in families:
        if family.prompt:
            prompts.setdefault(family.name, PromptTemplate(family.name, family.prompt, SYSTEM, {}, OURS, tags=False))
    if silent := [name for name in shapes if name not in prompts]:
        raise UsageError(f"no prompt for a language model comes with the families {', '.join(silent)}")
    return [prompts[name] for name in shapes]


def estimate(texts: Iterable[Text], prompts: Sequence[PromptTemplate]) -> str:
    """The calls of a model for ``texts``, one for each sentence and prompt, and about their tokens, if an answer is as
    long as its sentence.

    >>> families = load_families(["negation", "spatial"])
    >>> estimate(["The cat sleeps in the box. Hello."], prompts_of(families, "ours")).partition(", about")[0]
    '1 texts: 1 sentences, at most 2 calls'
    """
    count = sentences = tokens = 0
    for text in texts:
        count += 1
        lengths = [estimated_tokens(anchor) for anchor in _anchors(text)]
        sentences += len(lengths)
        tokens += sum(lengths) * len(prompts)
    frames = sentences * sum(estimated_tokens(prompt.system, prompt.template) for prompt in prompts)
    return (
        f"{count:,} texts: {sentences:,} sentences, at most {sentences * len(prompts):,} calls, about "
        f"{tokens + frames:,} tokens of prompts and {tokens:,} of answers"
    )


def _anchors(text: Text) -> list[str]:
    return [anchor for anchor, _ in anchors_of(text) if why_not(anchor) is None]


class Writer:
    """Requests near-misses from a model; use it as ``with Writer(...) as writer``.

    Args:
        prompts: of the families, in their order (:func:`prompts_of`).
        store: the answer cache, if any.
        max_tokens: budget of all calls.
        concurrency: calls at once.
        counts: counts ``rejected:CAUSE`` (:data:`CAUSES`).

    Attributes:
        families: with edits by the model. They raise what :meth:`retrokit.llm.session.Session.ask` raises, except for
            a refused prompt, and :class:`ServiceError` if all of the first answers are rejected.
        session: counts the calls.
    """

    def __init__(
        self,
        llm: LLM,
        families: Sequence[Family],
        prompts: Sequence[PromptTemplate],
        store: ResponseStore | None,
        max_tokens: int | None,
        concurrency: int,
        counts: Counter[str],
    ) -> None:
        self.session = Session(llm, store, concurrency=concurrency, max_tokens=max_tokens)
        self._prompts = {prompt.name: prompt for prompt in prompts}
        self.families = tuple(replace(family, rule=partial(self._rewritings, family)) for family in families)
        self._counts, self._taken = counts, 0
        self._ahead = 2 * concurrency
        self._futures: dict[tuple[str, str], Future[Completion]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_cached = self.session.store is not None
        if kind is None and is_cached:
            wait(self._futures.values())  # what was read ahead is kept, so that a second run makes no call
        at_once = not is_cached or (kind is not None and not issubclass(kind, Exception))
        asyncio.run_coroutine_threadsafe(self.session.close(at_once), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ahead(self, texts: Iterable[Text]) -> Iterator[Text]:
        """``texts``, read ahead so that the model has enough concurrent requests."""
        waiting: deque[tuple[Text, list[tuple[str, str]]]] = deque()
        with progress("asking the model", None, "texts") as advance:
            for text in chain(texts, [None]):
                if text is not None:
                    waiting.append((text, self._requested(text)))
                while waiting and (text is None or len(self._futures) >= self._ahead):
                    first, keys = waiting.popleft()
                    yield first
                    for key in keys:
                        del self._futures[key]
                    advance(1)

    def _requested(self, text: Text) -> list[tuple[str, str]]:
        """What a text requests that is not yet requested: prompts with their sentences."""
        keys = dict.fromkeys((name, anchor) for anchor, name in product(_anchors(text), self._prompts))
        new = [key for key in keys if key not in self._futures]
        for key in new:
            self._future(*key)
        return new

    def _future(self, family: str, anchor: str) -> Future[Completion]:
        key = (family, anchor)
        if key not in self._futures:
            prompt = self._prompts[family]
            sampling = prompt.sampling(self.session.sampling)
            future = self.session.ask(prompt.fill(sentence=anchor), system=prompt.system, sampling=sampling)
            self._futures[key] = asyncio.run_coroutine_threadsafe(future, self._loop)
        return self._futures[key]

    def _rewritings(self, family: Family, subject: Subject) -> list[Rewriting]:
        sentence = subject.passage.sentence
        key = family.name, sentence
        was_ahead = key in self._futures
        try:
            completion = self._future(*key).result()
        except PromptRefused:
            cause, answer = "refused", ""
        else:
            answer, is_cut = answered(completion.text), completion.finish == "length"
            cause = "cut" if is_cut else why_rejected(sentence, answer, family.least_overlap) or ""
        if not was_ahead:
            del self._futures[key]  # only what is read ahead counts in its window
        if not cause:
            self._taken += 1
            return [Rewriting("llm", answer)]
        self._counts[f"rejected:{cause}"] += 1
        rejected = sum(self._counts[f"rejected:{cause}"] for cause in CAUSES if cause != "none")
        if rejected >= ENOUGH and not self._taken:
            raise ServiceError(f"the model wrote no near-miss: rejected were {rejections(self._counts)}")
        return []

    def check(self) -> None:
        """Raise :class:`ServiceError` if the model refused everything, or nothing that it wrote was taken."""
        self.session.check()
        if not self._taken and (outcome := rejections(self._counts)):
            raise ServiceError(f"the model wrote no near-miss: rejected were {outcome}")


@contextmanager
def open_writer(
    llm: LLM,
    families: Sequence[Family],
    prompts: Sequence[PromptTemplate],
    store: str | None,
    max_tokens: int,
    concurrency: int,
    counts: Counter[str],
) -> Iterator[Writer]:
    """A writer with the answer cache at the path ``store``, if there is one."""
    with ExitStack() as stack:
        responses = None
        if store is not None:
            responses = stack.enter_context(ResponseStore(store))
            stack.enter_context(responses.going_on())
        yield stack.enter_context(Writer(llm, families, prompts, responses, max_tokens, concurrency, counts))


@contextmanager
def with_model(families: Sequence[Family], spec: str, store: str | None, max_tokens: int) -> Iterator[ModelFamilies]:
    """The families, those with a prompt with a model's edits too.

    Raises:
        UsageError: none of the families has a prompt.
        ServiceError: the model failed, or it wrote much and all of it is rejected.
    """
    prompted = [family for family in families if family.prompt]
    if not prompted:
        names = [family.name for family in load_families() if family.prompt]
        raise UsageError(f"`llm=` edits by {', '.join(names)}; name one in `capabilities=`")
    model, counts = llms.create(spec), Counter[str]()
    prompts = prompts_of(prompted, wording_for(model))
    with open_writer(model, prompted, prompts, store, max_tokens, CALLS, counts) as writer:
        both = {
            rules.name: _by_both(rules, by_model) for rules, by_model in zip(prompted, writer.families, strict=True)
        }
        yield ModelFamilies([both.get(family.name, family) for family in families], writer.ahead)
        writer.session.check()
    rejected = rejections(counts)
    notice(f"{model.spec}: {writer.session.summary()}{f'; rejected: {rejected}' if rejected else ''}")


class ModelFamilies(NamedTuple):
    """Families with a model's edits, and what reads texts ahead for it."""

    families: list[Family]
    ahead: Callable[[Iterable[Text]], Iterator[Text]]


def _by_both(by_rules: Family, by_model: Family) -> Family:
    """The family with the edits of rules; or with the model's and one kind of the rules', so that both are drawn."""

    def rewritings(subject: Subject) -> list[Rewriting]:
        of_rules = list(by_rules.rule(subject))
        texts = {rewriting.text for rewriting in of_rules}
        of_model = [rewriting for rewriting in by_model.rule(subject) if rewriting.text not in texts]
        if of_model and of_rules:
            drawn = of_rules[subject.draw(len(of_rules), by_rules.name, "kind")].name
            of_rules = [rewriting for rewriting in of_rules if rewriting.name == drawn]
        return [*of_rules, *of_model]

    return replace(by_rules, rule=rewritings)
