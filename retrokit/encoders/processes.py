"""Encoding in several processes, as ``torchrun`` and ``accelerate launch`` start them.

The first process runs the command. The others wait for texts and encode them for it. So any command has one result,
one process that prints, and one that writes the embedding cache. Texts travel through gloo, also when GPUs compute.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

from retrokit.core.errors import RetrokitError
from retrokit.core.notices import notice, progress
from retrokit.encoders import engine, registry
from retrokit.encoders.base import Batch, Encoder, gathered, read_characters
from retrokit.similarities.base import Role

WORTH_SHARING = 16  # texts; fewer are encoded before the others have heard of them
PATIENCE = timedelta(days=30)  # the others wait while the first one searches, measures or prints


@dataclass(frozen=True)
class _Model:
    """Asks for an encoder."""

    spec: str
    fingerprint: str
    device: str


@dataclass(frozen=True)
class _Work:
    """Requests the embeddings of texts from the encoder that was requested last."""

    role: Role
    precision: str


class _Helpers:
    """The other processes, as the first one sees them."""

    def __init__(self) -> None:
        self.count = dist.get_world_size() - 1
        self.is_talking = False
        self._has: tuple[_Model, bool] | None = None

    def have(self, model: _Model) -> bool:
        """Whether all of them have the encoder; a notice reports it once if not. They keep the last one."""
        if self._has is None or self._has[0] != model:
            with self.talking():
                _broadcast(model)
                reasons: list[Any] = [None] * (self.count + 1)
                dist.gather_object("", reasons)
            reason = next((reason for reason in reasons if reason), "")
            if reason:
                notice(f"{model.spec}: only one process encodes, because another one cannot help: {reason}")
            self._has = model, not reason
        return self._has[1]

    def encode(self, encoder: Encoder, shares: list[list[str]], work: _Work) -> list[np.ndarray]:
        """Embeddings of each share, the first of which is this process's own."""
        with self.talking():
            _broadcast(work)
            box: list[Any] = [None]
            dist.scatter_object_list(box, shares, src=0)
            embeddings: list[Any] = [None] * len(shares)
            dist.gather_object(_encode(encoder, box[0], work), embeddings)
        return embeddings

    @contextmanager
    def talking(self) -> Iterator[None]:
        """Know, should this block end early, that the others wait for the rest of it and would not hear a farewell."""
        self.is_talking = True
        yield
        self.is_talking = False


_helpers: _Helpers | None = None


@contextmanager
def helped() -> Iterator[None]:
    """In the first process: the others encode with it for the duration of the block. They call :func:`help_first`."""
    global _helpers
    _join()
    _helpers = helpers = _Helpers()
    try:
        yield
    finally:
        _helpers = None
        if not helpers.is_talking:
            _broadcast(None)
            dist.destroy_process_group()


def help_first() -> None:
    """In the other processes: encode what the first one sends, until it is done."""
    from retrokit.encoders.store import PLACE

    _join()
    os.environ[PLACE] = "off"  # the first process keeps the embeddings
    encoder: Any = None
    while True:
        try:
            request: _Model | _Work | None = _broadcast(None)
        except RuntimeError:  # the connection is lost: the first process has ended early, and said why
            break
        if request is None:
            break
        if isinstance(request, _Model):
            encoder, reason = _loaded(request)
            dist.gather_object(reason)
        else:
            texts: list[Any] = [None]
            dist.scatter_object_list(texts, src=0)
            dist.gather_object(_encode(encoder, texts[0], request))
    dist.destroy_process_group()


def can_help(encoder: Encoder, texts: int) -> bool:
    """Whether this number of ``texts`` is worth sharing, and other processes exist and all have the same encoder."""
    if _helpers is None or _helpers.is_talking or texts < WORTH_SHARING:
        return False
    return _helpers.have(_Model(encoder.spec, encoder.fingerprint(), encoder.device.type))


def batches(encoder: Encoder, texts: Sequence[str], role: Role, precision: str) -> Iterator[Batch]:
    """As :meth:`~retrokit.encoders.base.Encoder.batches`, in all processes: a chunk for each, the longest texts first.
    ``precision`` is one that every process understands alike, so not ``auto``. Only where :func:`can_help` says so."""
    assert _helpers is not None
    order = engine.longest_first(texts)
    count = _helpers.count + 1
    work = read_characters(texts, encoder.max_length(role))
    with progress(f"encoding {role} texts in {count} processes", work.sum(), "characters") as advance:
        share = count * engine.CHUNK
        for start in range(0, len(texts), share):
            rows = order[start : start + share]
            shares = [rows[number::count] for number in range(count)]
            text_shares = [[texts[row] for row in share] for share in shares]
            embeddings = _helpers.encode(encoder, text_shares, _Work(role, precision))
            yield np.concatenate(shares), np.concatenate(embeddings)
            advance(work[rows].sum())


def _encode(encoder: Encoder, texts: Sequence[str], work: _Work) -> np.ndarray:
    """The embeddings of a process's own share. The process that requested them checks whether they are finite."""
    return gathered(encoder.batches(texts, work.role, work.precision), len(texts), encoder.dimension)


def _loaded(request: _Model) -> tuple[Encoder | None, str]:
    """The encoder, or why it cannot be had."""
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if request.device == "cuda" else request.device
    try:
        encoder: Encoder = registry.create(request.spec, device=device)
    except RetrokitError as error:
        return None, str(error)
    return encoder, "" if encoder.fingerprint() == request.fingerprint else "its weights or settings are others there"


def _join() -> None:
    dist.init_process_group("gloo", timeout=PATIENCE)


def _broadcast(message: Any) -> Any:
    """The first process's message, in all of them."""
    box = [message]
    dist.broadcast_object_list(box, src=0)
    return box[0]
