"""Asking until an answer can be used: one that is rejected is asked for again, with the reason."""

from collections.abc import Callable
from typing import TypeVar

from retrokit.core.calls import PromptRefused
from retrokit.llm.answers import Rejected
from retrokit.llm.base import Completion
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session

Read = TypeVar("Read")


async def ask_until(
    session: Session,
    prompt: PromptTemplate,
    retry: PromptTemplate,
    retries: int,
    read: Callable[[Completion], Read],
    **fields: str,
) -> Read:
    """What ``read`` makes of an answer to ``prompt``, filled with ``fields``.

    Args:
        retry: what is put after the prompt, with the ``reason``, when ``read`` has rejected an answer.
        retries: how often it is asked again.

    Raises:
        Rejected: the last answer was rejected, or (``refused``) the model does not take the prompt.
        ServiceError, BudgetSpent: of the session.
    """
    first = text = prompt.fill(**fields)
    for attempt in range(retries + 1):
        try:
            return read(await session.ask(text, system=prompt.system, attempt=attempt))
        except PromptRefused as refusal:
            raise Rejected("refused", str(refusal)) from refusal
        except Rejected as rejected:
            if attempt == retries:
                raise
            text = f"{first}\n\n{retry.fill(reason=rejected.reason)}"
    raise AssertionError("the last attempt returns or raises")
