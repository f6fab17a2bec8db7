"""The variants of one query's passage, written and verified by a language model (SURE, 3.2 and A).

Each kind is a short chain of prompts. Each answer is parsed, checked without a model and, if the paper does so,
verified by the model. If a step fails, the prompt to blame is sent again with the reason. Once the retries are used up,
the query leaves the testbed.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from retrokit.augmentation.crops import Multilingual
from retrokit.augmentation.draws import below
from retrokit.core.calls import PromptRefused
from retrokit.llm.answers import (
    LIST_MARK,
    Rejected,
    after,
    bare,
    place_of,
    read_sentences,
    read_text,
    read_verdict,
    words_of,
)
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session
from retrokit.sure import checks
from retrokit.sure.items import Item
from retrokit.sure.statistics import sentences_of

_INLINE_MARK = re.compile(r"(?:^|(?<=[.!?\"”])\s+)\(?[12][.)]\s+(?=\S)")


def read_two_sentences(answer: str, marker: str, language: str) -> list[str]:
    """The two sentences after ``marker``: two lines, or one line of two sentences.

    Raises:
        Rejected: there are not two, or there is no marker.
    """
    sentences = read_sentences(answer, marker)
    if len(sentences) == 1:
        marked = [bare(text) for text in _INLINE_MARK.split(sentences[0])]
        marked = [sentence for sentence in marked if words_of(sentence)]
        sentences = marked if len(marked) == 2 else sentences_of(sentences[0], language)
    if len(sentences) != 2:
        raise Rejected("off_format", f"two sentences were asked for, here are {len(sentences)}")
    return sentences


def read_paraphrase(answer: str, keywords_marker: str, marker: str) -> tuple[list[str], str]:
    """The keywords that the model names, and the passage after ``marker``.

    Raises:
        Rejected: one of the two parts is missing.
    """
    passage = read_text(answer, marker)
    before = after(answer[: place_of(answer, marker)[0]], keywords_marker)
    keywords: dict[str, None] = {}
    for line in before.splitlines():
        entries = LIST_MARK.sub("", line.strip().strip("[]"))
        for entry in re.split(r"[,;、，；]|\s/\s|\s->\s.*|\s→\s.*", entries):
            keyword = bare(re.sub(r"\([^)]*\)\s*$", "", entry.strip()).strip().rstrip(".:"))
            if words_of(keyword):
                keywords[keyword] = None
    if not keywords:
        raise Rejected("off_format", f"no keyword stands after {keywords_marker!r}")
    return list(keywords), passage


POSITIONS = ("start", "middle", "end")
"""Where the key sentences stand among the two that do not answer (Eq. 3)."""

STEPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "precision": (("key-sentences", "pronouns", "verify-key-sentences"), ("noise",)),
    "abstraction": (("summary", "verify-summary"), ("expansion",)),
    "equivalence": (("paraphrase", "verify-paraphrase"),),
}
"""The prompts of each testbed in the order they are sent, one chain per variant."""

_VERDICTS = {
    "verify-key-sentences": (True, "the sentences do not answer the query"),
    "verify-summary": (True, "the summary does not answer the query"),
    "verify-paraphrase": (False, "the paraphrased passage still contains keywords of the query"),
}
"""What a verdict should be, and what is wrong where it is not."""

Made = TypeVar("Made")


@dataclass(frozen=True)
class Call:
    """One answer that was used.

    Attributes:
        step: the prompt's name.
        attempt: from 0, of this prompt.
        prompt: ``sha256:<hex>`` of the prompt, including the system message.
        rejected: why it was rejected (a key of :data:`retrokit.sure.checks.CAUSES`), or ``None``.
    """

    step: str
    attempt: int
    prompt: str
    answer: str
    rejected: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry in the manifest."""
        return {name: value for name, value in asdict(self).items() if name != "rejected" or value}


@dataclass
class Variants:
    """The variants of one item, and their calls.

    Attributes:
        texts: kind → text, of the testbeds that the query stays in.
        position: where the key sentences stand in their noise, one of :data:`POSITIONS`.
        keywords: of the query, as the model named them.
        dropped: testbed → (kind, cause of the last rejection), of those that the query leaves.
        calls: in the order of the testbeds, and within each in the order of the calls.
    """

    item: Item
    texts: dict[str, str] = field(default_factory=dict)
    position: str | None = None
    keywords: list[str] = field(default_factory=list)
    dropped: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)


class _Dropped(Exception):
    """All retries of a kind are used up."""

    def __init__(self, kind: str, cause: str) -> None:
        super().__init__(kind, cause)
        self.kind, self.cause = kind, cause


class _Dialogue:
    """The prompts about one item in one testbed, and their answers."""

    def __init__(self, session: Session, prompts: Mapping[str, PromptTemplate], retries: int) -> None:
        self.calls: list[Call] = []
        self._session, self._prompts, self._retries = session, prompts, retries
        self._attempts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._known: dict[tuple[str, int], str] = {}
        self._step = ""

    async def ask(self, step: str, **fields: str) -> str:
        """The answer to the prompt ``step``. An earlier answer to the same prompt and attempt is reused."""
        template, attempt = self._prompts[step], self._attempts.get(step, 0)
        self._step = step
        prompt = template.fill(**fields)
        if step in self._reasons:
            prompt = template.again(prompt, self._prompts["retry"], self._reasons[step])
        if (prompt, attempt) not in self._known:
            content = f"{template.system or ''}\0{prompt}".encode("utf-8", "surrogatepass")
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            self.calls.append(Call(step, attempt, digest, ""))
            try:
                sampling = template.sampling(self._session.sampling, attempt)
                completion = await self._session.ask(prompt, system=template.system, attempt=attempt, sampling=sampling)
            except PromptRefused as refusal:
                raise Rejected("refused", str(refusal)) from refusal
            self.calls[-1] = Call(step, attempt, digest, completion.text)
            self._known[prompt, attempt] = template.answer(self._session.whole(completion))
        return self._known[prompt, attempt]

    async def verify(self, step: str, **fields: str) -> None:
        """Ask for a verdict; one that is not as it should be is the fault of the prompt that is verified."""
        words = self._prompts[step].words
        expected, reason = _VERDICTS[step]
        if read_verdict(await self.ask(step, **fields), words["yes"], words["no"]) != expected:
            raise Rejected("verdict", reason, blamed=step.removeprefix("verify-"))

    async def make(self, kind: str, steps: Sequence[str], chain: Callable[[], Awaitable[Made]]) -> Made:
        """What ``chain`` makes, tried again from the prompt that is to blame for as long as there are retries."""
        retries = 0
        while True:
            try:
                return await chain()
            except Rejected as rejected:
                self._mark(rejected.cause)
                if retries == self._retries or rejected.cause == "refused":
                    raise _Dropped(kind, rejected.cause) from rejected
                retries += 1
                blamed = rejected.blamed or self._step
                self._attempts[blamed] = self._attempts.get(blamed, 0) + 1
                self._reasons[blamed] = rejected.reason
                for later in steps[steps.index(blamed) + 1 :]:
                    self._attempts.pop(later, None)
                    self._reasons.pop(later, None)

    def _mark(self, cause: str) -> None:
        """Note at the last answer that was looked at why it was rejected."""
        index = max(index for index, call in enumerate(self.calls) if call.step == self._step)
        self.calls[index] = replace(self.calls[index], rejected=cause)


class VariantMaker:
    """Writes the variants of items with one language model.

    Args:
        session: whom to ask.
        prompts: of :func:`retrokit.sure.prompts.load_prompts`.
        testbeds: keys of :data:`STEPS`.
        retries: how often a rejected variant is generated again.
        seed: of the position of key sentences.
        language: of the texts, for cutting them into sentences.
    """

    def __init__(
        self,
        session: Session,
        prompts: Mapping[str, PromptTemplate],
        testbeds: Sequence[str],
        retries: int = 2,
        seed: int = 0,
        language: str = "en",
    ) -> None:
        self._session, self._prompts, self._testbeds = session, prompts, testbeds
        self._retries, self._seed = retries, seed
        self._splitter = Multilingual(language)

    async def make(self, item: Item) -> Variants:
        """The item's variants in all testbeds, which are worked on at the same time.

        Raises:
            ServiceError, BudgetSpent: of the session.
        """
        by_testbed = {testbed: Variants(item) for testbed in self._testbeds}
        makers = {"precision": self._precision, "abstraction": self._abstraction, "equivalence": self._equivalence}

        async def make(testbed: str, variants: Variants) -> None:
            dialogue = _Dialogue(self._session, self._prompts, self._retries)
            try:
                await makers[testbed](dialogue, variants)
            except _Dropped as dropped:
                variants.texts, variants.position, variants.keywords = {}, None, []
                variants.dropped[testbed] = (dropped.kind, dropped.cause)
            variants.calls = dialogue.calls

        try:
            async with asyncio.TaskGroup() as group:
                for testbed, variants in by_testbed.items():
                    group.create_task(make(testbed, variants))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        joined = Variants(item)
        for variants in by_testbed.values():
            joined.texts |= variants.texts
            joined.dropped |= variants.dropped
            joined.calls += variants.calls
            joined.position = joined.position or variants.position
            joined.keywords = joined.keywords or variants.keywords
        return joined

    async def _precision(self, dialogue: _Dialogue, variants: Variants) -> None:
        chain, noisy = STEPS["precision"]
        keys = await dialogue.make("key-sentences", chain, lambda: self._key_sentences(dialogue, variants.item))
        noise = await dialogue.make(
            "key-sentences-with-noise", noisy, lambda: self._noise(dialogue, variants.item, keys)
        )
        rank = below(len(POSITIONS), self._seed, "position", variants.item.query_id)
        together = self._splitter.join(keys)
        variants.position = POSITIONS[rank]
        variants.texts["key-sentences"] = together
        variants.texts["key-sentences-with-noise"] = self._splitter.join([*noise[:rank], together, *noise[rank:]])

    async def _key_sentences(self, dialogue: _Dialogue, item: Item) -> list[str]:
        answer = await dialogue.ask("key-sentences", query=item.query, passage=item.passage)
        extracted = read_sentences(answer, self._marker("key-sentences"))
        checks.check_key_sentences(extracted, item.passage)
        sentences = self._splitter.join(extracted)
        answer = await dialogue.ask("pronouns", sentences=sentences, passage=item.passage)
        replaced = read_sentences(answer, self._marker("pronouns"))
        together = self._splitter.join(replaced)
        checks.check_pronouns(together, sentences, item.passage, item.query)
        await dialogue.verify("verify-key-sentences", query=item.query, sentences=together)
        return replaced

    async def _noise(self, dialogue: _Dialogue, item: Item, key_sentences: Sequence[str]) -> list[str]:
        answer = await dialogue.ask("noise", query=item.query)
        noise = read_two_sentences(answer, self._marker("noise"), self._splitter.language)
        checks.check_noise(noise, key_sentences)
        return noise

    async def _abstraction(self, dialogue: _Dialogue, variants: Variants) -> None:
        chain, expanding = STEPS["abstraction"]
        summary = await dialogue.make("summary", chain, lambda: self._summary(dialogue, variants.item))
        expansion = await dialogue.make("expansion", expanding, lambda: self._expansion(dialogue, variants.item))
        variants.texts |= {"summary": summary, "expansion": expansion}

    async def _summary(self, dialogue: _Dialogue, item: Item) -> str:
        answer = await dialogue.ask("summary", query=item.query, passage=item.passage)
        summary = read_text(answer, self._marker("summary"))
        checks.check_summary(summary, item.passage)
        await dialogue.verify("verify-summary", query=item.query, summary=summary)
        return summary

    async def _expansion(self, dialogue: _Dialogue, item: Item) -> str:
        answer = await dialogue.ask("expansion", passage=item.passage)
        expansion = read_text(answer, self._marker("expansion"))
        checks.check_expansion(expansion, item.passage)
        return expansion

    async def _equivalence(self, dialogue: _Dialogue, variants: Variants) -> None:
        (chain,) = STEPS["equivalence"]
        result = await dialogue.make("paraphrase", chain, lambda: self._paraphrase(dialogue, variants.item))
        variants.keywords, variants.texts["paraphrase"] = result

    async def _paraphrase(self, dialogue: _Dialogue, item: Item) -> tuple[list[str], str]:
        answer = await dialogue.ask("paraphrase", query=item.query, passage=item.passage)
        words = self._prompts["paraphrase"].words
        named, paraphrase = read_paraphrase(answer, words["keywords"], words["marker"])
        keywords = checks.keywords_in_query(named, item.query)
        checks.check_paraphrase(paraphrase, item.passage, keywords)
        await dialogue.verify("verify-paraphrase", query=item.query, passage=paraphrase)
        return keywords, paraphrase

    def _marker(self, step: str) -> str:
        return self._prompts[step].words["marker"]
