"""What a language model is asked of passages and queries, and what of its answers can be used."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from retrokit.llm.answers import Rejected, after, read_text
from retrokit.llm.base import Completion
from retrokit.llm.dialogue import ask_until
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session
from retrokit.llm.words import holds_run, words_of

LONGEST = 100
"""Words of a query at most."""
TELLING = 8
"""A run of fewer words that passage and query share, such as a name, is no copy."""
_REFERS = re.compile(
    r"\b(?:the|this|that|above|given|provided) (?:passage|text|article|excerpt|paragraph|abstract|document)\b", re.I
)
_GRADE = re.compile(r"(?<![\d.])([0-3])(?!\d|[.,]\d)")

Read = TypeVar("Read")


class Asker:
    """Asks one model for queries and grades, and counts the answers that it rejects in ``rejections``."""

    def __init__(
        self, session: Session, prompts: Mapping[str, PromptTemplate], retries: int, rejections: Counter[str]
    ) -> None:
        self._session, self._prompts, self._retries, self._rejections = session, prompts, retries, rejections

    async def query(self, passage: str, type: str) -> str:
        """A query of that type (one of :data:`~retrokit.augmentation.queries.settings.TYPES`) for ``passage``.

        Raises:
            Rejected: there is none.
            ServiceError, BudgetSpent: of the session.
        """
        words = self._prompts[type].words

        def read(answer: str) -> str:
            """The query, on one line; nothing where the answer says that there is none."""
            query = " ".join(read_text(answer, words["marker"]).split())
            of_query = words_of(query)
            if of_query == words_of(words["none"]):
                return ""
            if len(of_query) > LONGEST:
                raise Rejected("too_long", f"{len(of_query)} words are too long; use at most {LONGEST}")
            if _REFERS.search(query):
                raise Rejected("refers", "it speaks of the passage, which nobody who asks has seen")
            if len(of_query) >= TELLING and holds_run(words_of(passage), of_query):
                raise Rejected("copied", "it stands in the passage word for word; use other words")
            return query

        text = await self._ask(type, read, passage=passage)
        if not text:
            raise Rejected("none", "there is none")
        return text

    async def grade(self, query: str, passage: str) -> int:
        """How well ``passage`` answers ``query``: from 0, not at all, to 3, just that. Raises as :meth:`query`."""
        marker = self._prompts["judge"].words["marker"]
        return await self._ask("judge", lambda text: read_grade(text, marker), query=query, passage=passage)

    async def _ask(self, name: str, read: Callable[[str], Read], **fields: str) -> Read:
        def whole(completion: Completion) -> Read:
            try:
                if completion.finish == "length":
                    raise Rejected("cut_off", "the answer was too long and is cut off")
                return read(completion.text)
            except Rejected as rejected:
                self._rejections[rejected.cause] += 1
                raise

        prompt, retry = self._prompts[name], self._prompts["retry"]
        return await ask_until(self._session, prompt, retry, self._retries, whole, **fields)


def read_grade(answer: str, marker: str) -> int:
    """The grade in an answer: the first number after the marker, or the only one where there is no marker. Raises
    :class:`Rejected` if it is none from 0 to 3.

    >>> read_grade("**Grade:** 3/3, it is all there", "grade:"), read_grade("2", "grade:")
    (3, 2)
    """
    try:
        numbers = _GRADE.findall(after(answer, marker))[:1]
    except Rejected:
        numbers = re.findall(r"\d+", answer)
    if len(numbers) != 1 or numbers[0] not in "0123":
        raise Rejected("off_format", "the answer is no grade from 0 to 3")
    return int(numbers[0])
