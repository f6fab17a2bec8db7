"""Embeddings of a service that speaks OpenAI's protocol (``POST …/v1/embeddings``): hosted ones, vLLM, Ollama, TEI."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from retrokit import similarities
from retrokit.data.images import check_texts
from retrokit.encoders.base import Batch, Encoder, Item, check_finite, gathered
from retrokit.encoders.store import open_cache
from retrokit.errors import ServiceError, UsageError
from retrokit.llm.base import PromptRefused, encodable
from retrokit.llm.retries import Tries
from retrokit.llm.service import Service, service
from retrokit.llm.session import wait_for
from retrokit.notices import notice, progress
from retrokit.similarities.base import Role

PROBE = "What does a service make of this sentence today?"
SAME = 0.999  # cosine; services differ by less from one call to the next
CALLS = 4  # that each connection makes before embeddings are handed on
_MOST_BYTES = 256 << 20

Part = TypeVar("Part")


class ServiceEncoder(Encoder):
    """One model of one service. What it embeds is known by the service's name for it, the revision that the user gives,
    and the embedding of a probe sentence: a service that changes its model without a word is found."""

    def __init__(
        self,
        service: Service,
        revision: str | None,
        dimensions: int | None,
        prompts: Mapping[str, str | None],
        batch: int,
        concurrency: int,
    ) -> None:
        self.spec = f"api:{service.model}"
        self.similarity = similarities.registry.create("cosine")
        self._service = service
        self._revision = revision
        self._asked = {"model": service.model, **({"dimensions": dimensions} if dimensions else {})}
        self._prompts = prompts
        self._batch, self._concurrency = batch, concurrency
        self._tries = Tries(kept="; what was embedded is kept, and the same command goes on from there")

    @cached_property
    def _probe(self) -> np.ndarray:
        return wait_for(self._together([[PROBE]]))[0][0]

    @property
    def dimension(self) -> int:
        return len(self._probe)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def prompts(self) -> Mapping[str, str | None]:
        return self._prompts

    def computes_in(self, precision: str = "auto") -> str:
        if precision != "auto":
            raise UsageError(f"{self.spec} computes as its service does: leave precision {precision} out")
        return "unknown"

    def code(self) -> Mapping[str, str]:
        return {"protocol": "1"}  # no library here decides what the service computes

    @cached_property
    def _fingerprint(self) -> str:
        about = {**self._asked, "service": self._service.where, "revision": self._revision, "prompts": self._prompts}
        return fingerprint_of(self.spec, about, self._probe)

    def fingerprint(self) -> str:
        return self._fingerprint

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        embeddings = gathered(self.batches(items, role, precision), len(items), self.dimension)
        check_finite(embeddings, self.spec)
        return embeddings

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        """A few calls for each connection at a time. An empty text is sent as a space, which services take.

        Raises:
            ServiceError: the service failed for good, refuses a text, or answers otherwise than it should.
        """
        self.computes_in(precision)
        check_texts(items, self.spec)
        prompt = self._prompts[role] or ""
        texts = [encodable(prompt + item) or " " for item in items]
        with progress(f"embedding {role} texts", len(texts), "texts") as advance:
            for rows in _parts(len(texts), self._batch * self._concurrency * CALLS):
                now = texts[rows.start : rows.stop]
                parts = [now[part.start : part.stop] for part in _parts(len(now), self._batch)]
                made = np.concatenate(wait_for(self._together(parts)))
                if made.shape[1] != self.dimension:
                    problem = f"gives {made.shape[1]} dimensions, and gave {self.dimension} for the first text"
                    raise ServiceError(f"{self._service.where} {problem}")
                yield np.array(rows), made
                advance(len(rows))

    async def _together(self, parts: Sequence[list[str]]) -> list[np.ndarray]:
        return await together(self._service, self._embedded, parts, self._concurrency)

    async def _embedded(self, texts: list[str]) -> np.ndarray:
        """Embeddings float32 ``[n, d]``; of too many texts for the service in several calls."""
        try:
            return await self._tries.of(lambda: self._call(texts))
        except PromptRefused as refused:
            if len(texts) == 1:
                raise ServiceError(f"{refused}; the text begins {texts[0][:60]!r}") from refused
            half = len(texts) // 2
            return np.concatenate([await self._embedded(part) for part in (texts[:half], texts[half:])])

    async def _call(self, texts: list[str]) -> np.ndarray:
        asked = {**self._asked, "input": texts, "encoding_format": "float"}
        return await self._service.each(asked, "data", len(texts), _vectors, "embeddings")


def _vectors(answers: Sequence[Mapping[str, Any]]) -> np.ndarray:
    made = np.array([answer["embedding"] for answer in answers], dtype=np.float32)
    if made.ndim != 2 or not made.shape[1]:
        raise ValueError
    return made


async def together(
    service: Service, call: Callable[[Part], Awaitable[np.ndarray]], parts: Iterable[Part], concurrency: int
) -> list[np.ndarray]:
    """What ``call`` makes of each part, ``concurrency`` of them at once; the first failure ends all."""
    slots = asyncio.Semaphore(concurrency)

    async def one(part: Part) -> np.ndarray:
        async with slots:
            return await call(part)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(part)) for part in parts]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await service.close()
    return [task.result() for task in tasks]


def _parts(length: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, length)) for start in range(0, length, size))


def fingerprint_of(spec: str, about: Mapping[str, Any], probe: np.ndarray) -> str:
    """The digest of what a service is asked and of what it makes of a probe ``[d]``: as it was the first time, if that
    is kept and the service still computes so; else one line says that it has changed."""
    key, cache, known = f"probe of {json.dumps(about, sort_keys=True)}", open_cache(), probe
    if cache is not None:
        known = np.array(cache.agreed(key, probe.tolist), dtype=np.float32)
        lengths = float(np.linalg.norm(known) * np.linalg.norm(probe))
        likeness = float(known @ probe) / max(lengths, 1e-30) if known.shape == probe.shape else 0.0
        if likeness < SAME:
            notice(f"{spec}: the service computes otherwise than before (cosine {likeness:.3f}); all is asked for anew")
            known = probe
            cache.remember(key, known.tolist(), "")
    return hashlib.sha256(json.dumps([key, [round(float(value), 6) for value in known]]).encode()).hexdigest()


def api(
    model: str,
    url: str | None,
    key_env: str,
    timeout: float,
    revision: str | None,
    dimensions: int | None,
    batch: int,
    concurrency: int,
    query_prompt: str | None,
    document_prompt: str | None,
    device: str | None = None,
) -> ServiceEncoder:
    """The encoder ``api``; raises as :func:`retrokit.llm.service.service`."""
    made = service("api", model, url, "embeddings", key_env, timeout, _MOST_BYTES)
    prompts = {"query": query_prompt, "document": document_prompt}
    return ServiceEncoder(made, revision, dimensions, prompts, batch, concurrency)
