"""Services that answer with a list: an answer to each of several items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from retrokit.core.errors import ServiceError
from retrokit.core.service import Service

Answer = TypeVar("Answer")


class ListService(Service):
    """One model of one service, which answers each of several items in a call."""

    async def each(
        self,
        body: Mapping[str, Any],
        names: tuple[str, ...],
        count: int,
        read: Callable[[Any, int], tuple[int, Answer]],
        expected: str,
        patient: bool = True,
    ) -> list[Answer]:
        """The answers to ``count`` items, in the items' order.

        Args:
            names: fields that may hold the list of answers; a bare list is read too.
            read: an answer and its position in the list to the item's index and the value; what it raises of
                LookupError, TypeError, ValueError means that the answer has another shape.
            expected: the shape of an answer, for messages.

        Raises:
            ServiceError: answers of another shape or number; and as :meth:`post`.
        """
        answer = await self.post(body, patient, texts=count)
        rows = _list_in(answer, names)
        if rows is None:
            raise self.unexpected(answer, f"{names[0]}: list of {count} of {expected}")
        if len(rows) != count:
            raise ServiceError(f"{self.where}: {len(rows):,} answers for {count:,} texts; expected one for each")
        values: dict[int, Answer] = {}
        for position, row in enumerate(rows):
            try:
                index, value = read(row, position)
                is_wrong = isinstance(index, bool) or index in values or index not in range(count)
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                raise self.unexpected(row, f"{expected} for each text") from error
            if is_wrong:
                wrong = f"the index {self.brief(repr(index))} in answer {position}"
                raise ServiceError(f"{self.where}: {wrong}; expected each of 0 to {count - 1} once")
            values[index] = value
        return [values[index] for index in range(count)]

    def check_finite(self, values: np.ndarray, what: str, named: Callable[[int], str]) -> None:
        """Raise :class:`ServiceError` unless all ``values`` (``[n]`` or ``[n, d]``) are finite; ``what`` is what they
        are called, and ``named`` is the name of the item of an index."""
        are_finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        bad = np.flatnonzero(~are_finite)
        if len(bad):
            problem = f"{len(bad)} of {len(values)} {what} are not finite"
            raise ServiceError(f"{self.where}: {problem}; {named(int(bad[0]))}")


def float32(numbers: Sequence[object]) -> np.ndarray:
    """Numbers of an answer as float32 ``[n]``; those that are too large for it are infinite. Raises :class:`TypeError`
    for what JSON does not call a number: ``true``, ``null``, ``"1"``."""
    if any(type(number) not in (int, float) for number in numbers):
        raise TypeError
    with np.errstate(over="ignore"):
        return np.array(numbers, dtype=np.float32)


def _list_in(answer: Any, names: Sequence[str]) -> list[Any] | None:
    """The list that an answer is, or has in the first field of these names that it has."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in names if name in answer), None)
    return answer if isinstance(answer, list) else None
