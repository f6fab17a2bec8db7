"""How many of the first texts that an encoder embeds are shown as its model reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

inputs_to_show: ContextVar[int] = ContextVar("inputs_to_show", default=0)


@contextmanager
def showing_inputs(count: int) -> Iterator[None]:
    """Within the block, encoders that were created in it report the first ``count`` items of each role."""
    before = inputs_to_show.set(count)
    try:
        yield
    finally:
        inputs_to_show.reset(before)
