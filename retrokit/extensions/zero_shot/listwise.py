"""The reranker ``llm``: a language model orders lists of passages, a window at a time, from a list's end to its top.

Sun et al., "Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents", 2023; with windows of
40 passages and a step of 20 it is the reference of SURE, 4.3. The first window has the last passages; each next one
begins a step further up. Unlike in the paper's code, a last window always reaches the top.

An answer should name every passage of its window once. Repeated and unknown ones are dropped, and missing ones come
last, in their old order; such an answer counts as repaired. A refused prompt leaves the order of its window.
"""

import asyncio
import hashlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from retrokit import llm as language_models
from retrokit.core.calls import PromptRefused
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.notices import notice, progress
from retrokit.llm.base import LLM, Sampling
from retrokit.llm.session import IN_VAIN, Session, run_all
from retrokit.llm.store import ResponseStore
from retrokit.ranking.reranking.base import Reranker, check_counts

STORE = "responses.sqlite"
COUNTS = ("answers", "repaired", "left_out", "repeated", "unknown", "refused")
_TAG = re.compile(r"<(?=/?\s*(?:passage|query)\b)", re.IGNORECASE)
_IN_BRACKETS, _NUMBER = re.compile(r"\[\s*(\d{1,9})\s*\]"), re.compile(r"\d{1,9}")


def windows(count: int, window: int, step: int) -> Iterator[slice]:
    """The windows over a list of ``count`` passages, from its end to its top.

    >>> [(part.start, part.stop) for part in windows(100, 40, 20)]
    [(60, 100), (40, 80), (20, 60), (0, 40)]
    >>> [(part.start, part.stop) for part in windows(50, 40, 20)]
    [(10, 50), (0, 30)]
    """
    end = count
    while end > 0:
        start = max(0, end - window)
        yield slice(start, end)
        end = end - step if start else 0


def permutation_of(answer: str, count: int) -> tuple[list[int], dict[str, int]]:
    """The order of ``count`` passages (from 0) that ``answer`` gives by their numbers (from 1), repaired; and how often
    it leaves out, repeats and invents a number. Numbers in brackets count, or all numbers where there are no brackets.

    >>> permutation_of("[3] > [1] > [3] > [7]", 3)
    ([2, 0, 1], {'left_out': 1, 'repeated': 1, 'unknown': 1})
    """
    numbers = [int(number) - 1 for number in _IN_BRACKETS.findall(answer) or _NUMBER.findall(answer)]
    valid = [number for number in numbers if 0 <= number < count]
    order = dict.fromkeys(valid)
    missing = [number for number in range(count) if number not in order]
    faults = {"left_out": len(missing), "repeated": len(valid) - len(order), "unknown": len(numbers) - len(valid)}
    return [*order, *missing], faults


class ListwiseReranker(Reranker):
    """Orders lists with a language model. A score is the number of documents from the document's place to the end.

    Attributes:
        store: file of the answer cache; ``None``: no cache.
    """

    keeps_itself = True
    _lack = "name no passage of those that were shown"

    def __init__(
        self,
        model: str,
        window: int,
        step: int,
        words: int,
        answer_tokens: int,
        concurrency: int,
        store: str | None,
        prompts: str = "listwise.toml",
    ) -> None:
        """``model`` is the spec of a language model, ``prompts`` the file of the form's prompts."""
        self.spec = f"llm:{model}"
        if step > window:
            raise UsageError(f"{self.spec}: a step of {step} skips passages between windows of {window}")
        self.store = store
        self._counts = dict.fromkeys(COUNTS, 0)
        self._llm_spec = model
        self._window, self._step, self._words = window, step, words
        self._concurrency = concurrency
        self._sampling = Sampling(max_tokens=answer_tokens)
        self._identity = language_models.registry.create(model).identity
        self._nameless: list[bool] = []  # of each answer, whether it names no passage
        self._in_a_row, self._has_refused = 0, False
        text = files("retrokit.extensions.zero_shot").joinpath(prompts).read_text(encoding="utf-8")
        self._templates = {name: prompt.strip() for name, prompt in tomllib.loads(text).items()}
        self._prompts = text

    @property
    def counts(self) -> dict[str, int]:
        """``answers``, those ``repaired``, what they ``left_out``, ``repeated`` and named though ``unknown``; the
        prompts ``refused``; and the counts of :class:`retrokit.llm.session.Session`."""
        return self._counts

    def keep_in(self, folder: Path) -> None:
        """Keep answers in ``folder``, unless a file for them was given."""
        self.store = self.store or str(folder / STORE)

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        return self.rank_lists([query], [documents])[0]

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores float32 ``[n]`` of each query's list, several lists ordered at once.

        Raises:
            UsageError: different counts.
            ServiceError: the model failed for good, refused every prompt, or named no passage in any of three and more
                answers; what it answered is stored.
        """
        check_counts(queries, lists)
        return asyncio.run(self._all_scores(list(zip(queries, lists, strict=True))))

    def fingerprint(self) -> str:
        settings = f"{self._identity} {self._window} {self._step} {self._words} {self._sampling} {self._prompts}"
        return hashlib.sha256(settings.encode()).hexdigest()

    def describe(self) -> str:
        counts = self._counts
        line = f"{self.spec}: {counts['answers']:,} answers ({counts['calls']:,} calls, {counts['from_store']:,} stored"
        line += f" before; {counts['prompt_tokens']:,} + {counts['completion_tokens']:,} tokens)"
        names = ("left_out", "repeated", "unknown")
        if faults := ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in names if counts[name]):
            line += f"; {counts['repaired']:,} were no permutation and are repaired (passages: {faults})"
        elif counts["repaired"]:
            line += f"; {counts['repaired']:,} named no passage and no grade"
        return line + (f"; {counts['refused']:,} prompts were refused" if counts["refused"] else "")

    async def _all_scores(self, lists: Sequence[tuple[str, Sequence[str]]]) -> list[np.ndarray]:
        with ExitStack() as stack:
            store = stack.enter_context(ResponseStore(self.store)) if self.store is not None else None
            advance = stack.enter_context(progress(f"ordering lists with {self._llm_spec}", len(lists), "lists"))
            # a model is used in one event loop, and closed with its session
            model: LLM = language_models.registry.create(self._llm_spec)
            session = Session(model, store, concurrency=self._concurrency, sampling=self._sampling)
            self._nameless, self._in_a_row, self._has_refused = [], 0, False
            try:
                async with session:
                    results = []
                    limit = 4 * self._concurrency
                    async for scores in run_all(lambda item: self._scores(session, *item), lists, limit=limit):
                        results.append(scores)
                        advance(1)
                    if len(self._nameless) > 2 and all(self._nameless):
                        raise self._useless(session)
            finally:
                for name, count in session.counts.items():
                    self._counts[name] = self._counts.get(name, 0) + count
        return results

    async def _scores(self, session: Session, query: str, documents: Sequence[str]) -> np.ndarray:
        scores = np.empty(len(documents), dtype=np.float32)
        scores[await self._order(session, query, documents)] = np.arange(len(documents), 0, -1)
        return scores

    async def _order(self, session: Session, query: str, documents: Sequence[str]) -> list[int]:
        order = list(range(len(documents)))
        for window in windows(len(order), self._window, self._step):
            inside = order[window]
            if len(inside) == 1:
                continue
            answer = await self._ask(session, "prompt", query, [documents[i] for i in inside])
            if answer is None:
                continue
            permutation, faults = permutation_of(answer, len(inside))
            for name, count in {**faults, "repaired": any(faults.values())}.items():
                self._counts[name] += count
            self._note(session, faults["left_out"] == len(inside))
            order[window] = [inside[number] for number in permutation]
        return order

    async def _ask(self, session: Session, prompt: str, query: str, passages: Sequence[str]) -> str | None:
        """The answer to the prompt of that name; ``None``: it was refused."""
        filled = self._prompt(prompt, query, passages)
        try:
            answer = await session.ask(filled, system=self._templates["system"])
        except PromptRefused as refusal:
            if not self._has_refused:
                notice(f"{self.spec}: {refusal}; such windows keep their order")
            self._has_refused = True
            self._counts["refused"] += 1
            return None
        self._counts["answers"] += 1
        return answer.text

    def _note(self, session: Session, is_nameless: bool) -> None:
        """Raise :class:`ServiceError` after too many answers in a row that name no passage."""
        self._nameless.append(is_nameless)
        self._in_a_row = self._in_a_row + 1 if is_nameless else 0
        if self._in_a_row >= IN_VAIN:
            raise self._useless(session)

    def _useless(self, session: Session) -> ServiceError:
        why = f" ({session.shortfall})" if session.shortfall else ""
        why += "" if self.store is None else f"; they are in {self.store}: delete it to ask again"
        problem = f"{self._in_a_row:,} answers in a row {self._lack}"
        return ServiceError(f"{self.spec}: {problem}{why}")

    def _prompt(self, name: str, query: str, passages: Sequence[str]) -> str:
        """The prompt, whose texts hold nothing that could be taken for one of its own tags."""
        tagged = "\n\n".join(
            f'<passage number="{number}">\n{_TAG.sub("&lt;", " ".join(text.split()[: self._words]))}\n</passage>'
            for number, text in enumerate(passages, start=1)
        )
        return Template(self._templates[name]).substitute(
            query=_TAG.sub("&lt;", query), passages=tagged, count=len(passages)
        )


class PointwiseReranker(ListwiseReranker):
    """Scores pairs by the model's grade, 0 to 4; an answer without one is 0 (Zhuang et al., "Beyond Yes and No:
    Improving Zero-Shot LLM Rankers via Scoring Fine-Grained Relevance Labels", 2024). One call a passage."""

    listwise = False
    _lack = "contain no grade from 0 to 4"

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        lists = self.rank_lists(queries, [[document] for document in documents])
        return np.concatenate([np.empty(0, np.float32), *lists])

    async def _scores(self, session: Session, query: str, documents: Sequence[str]) -> np.ndarray:
        return np.array(await asyncio.gather(*(self._grade(session, query, text) for text in documents)), np.float32)

    async def _grade(self, session: Session, query: str, document: str) -> float:
        answer = await self._ask(session, "pointwise", query, [document])
        if answer is None:
            return 0.0
        grade = re.search(r"\b[0-4]\b", answer)
        self._counts["repaired"] += grade is None
        self._note(session, grade is None)
        return float(grade[0]) if grade else 0.0


class SetwiseReranker(ListwiseReranker):
    """Brings the best ``top`` passages up by bubble sort: of each window the model names the best, which moves to its
    top (Zhuang et al., "A Setwise Approach for Effective and Highly Efficient Zero-shot Ranking with LLMs", 2024).

    Windows of two are pairwise (Qin et al., "Large Language Models are Effective Text Rankers with Pairwise Ranking
    Prompting", 2024): each pair is shown in both orders, and stays as it is unless both name the lower passage.
    """

    def __init__(self, *of_any: Any, top: int, **options: Any) -> None:
        super().__init__(*of_any, **options)
        self._top = top

    def fingerprint(self) -> str:
        return f"{super().fingerprint()} {self._top}"

    async def _order(self, session: Session, query: str, documents: Sequence[str]) -> list[int]:
        order = list(range(len(documents)))
        for first in range(min(self._top, len(order) - 1)):
            for start in window_starts(len(order), first, self._window):
                window = order[start : start + self._window]
                window.insert(0, window.pop(await self._best(session, query, [documents[i] for i in window])))
                order[start : start + self._window] = window
        return order

    async def _best(self, session: Session, query: str, passages: Sequence[str]) -> int:
        best = await self._named(session, query, passages)
        if best and len(passages) == 2 and await self._named(session, query, passages[::-1]) != 0:
            return 0
        return best

    async def _named(self, session: Session, query: str, passages: Sequence[str]) -> int:
        answer = await self._ask(session, "choice", query, passages)
        if answer is None:
            return 0
        (best, *_), faults = permutation_of(answer, len(passages))
        is_nameless = faults["left_out"] == len(passages)
        self._counts["repaired"] += is_nameless
        self._note(session, is_nameless)
        return best


def window_starts(count: int, first: int, window: int) -> list[int]:
    """Where the windows of a pass begin that brings the best of the places from ``first`` to ``first``.

    >>> window_starts(10, 0, 4)
    [6, 3, 0]
    >>> window_starts(10, 1, 4)
    [6, 3, 1]
    """
    starts = list(range(count - window, first, 1 - window))
    return [*starts, first]


_OF_FORM = {"listwise": ("window", "step"), "pointwise": (), "pairwise": ("top",), "setwise": ("set", "top")}


def listwise(
    model: str,
    form: str,
    window: int,
    step: int,
    set: int | None,
    top: int | None,
    device: str | None = None,
    **of_any: Any,
) -> ListwiseReranker:
    """The reranker ``llm`` in one of its forms, with options ``of_any`` form; ``device`` is the service's matter.
    Raises :class:`UsageError` for an option of another form."""
    requested = {"window": window != 40, "step": step != 20, "set": set is not None, "top": top is not None}
    wrong = [name for name, is_requested in requested.items() if is_requested and name not in _OF_FORM[form]]
    if wrong:
        raise UsageError(f"llm:{model}: {', '.join(wrong)} is not for form={form}")
    reranker: ListwiseReranker
    if form == "listwise":
        return ListwiseReranker(model, window, step, **of_any)
    if form == "pointwise":
        reranker = PointwiseReranker(model, 1, 1, prompts="choices.toml", **of_any)
    else:
        several = 2 if form == "pairwise" else set or 4
        reranker = SetwiseReranker(model, several, 1, prompts="choices.toml", top=top or 10, **of_any)
    reranker.spec += f",form={form}"
    return reranker
