"""Embeddings of a service that speaks OpenAI's protocol (``POST …/v1/embeddings``): hosted ones, vLLM, Ollama, TEI."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from retrokit import similarities
from retrokit.core.calls import PromptRefused, ServerFailed, encodable, wait_for
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.notices import notice, progress
from retrokit.core.service import service
from retrokit.data.images import check_texts
from retrokit.data.jsonl import digest_of_json
from retrokit.data.prompted import given_prompt, texts_of
from retrokit.encoders.base import Batch, Encoder, Item, check_finite, gathered
from retrokit.encoders.store import open_cache
from retrokit.extensions.services.lists import ListService, float32
from retrokit.similarities.base import Role

PROBE = "What does a service make of this sentence today?"
_TOPICS = (
    "Bees keep the hive warm in winter and live on honey.",
    "The court of appeal set the contract aside last year.",
    "A pump moves cold water through the pipes of the engine.",
    "Insulin lowers the sugar in the blood after a meal.",
    "Many sailors feared the storms south of the cape.",
    "The function returns an empty list if no file exists.",
    "Prices of copper rose because two large mines closed.",
    "The orchestra played the slow movement far too fast.",
)
LONG_PROBE = " ".join(sentence for sentence in _TOPICS for _ in range(9))
"""About 700 words, more than 512 tokens. Its topics change on the way, so its embedding shows where it is truncated."""
SAME = 0.999  # cosine; services differ by less from one call to the next
CALLS = 4  # that each connection makes before embeddings are handed on

_Batch = TypeVar("_Batch")

INPUT_TYPES = {
    "cohere": "input_type:search_query:search_document",
    "jina": "task:retrieval.query:retrieval.passage",
    "nvidia": "input_type:query:passage",
    "voyage": "input_type:query:document",
}
"""How services distinguish queries from documents: the field of a request, and its value for either."""


class ServiceEncoder(Encoder):
    """One model of one service. What it embeds is known by the service's name for it, the revision that the user gives,
    and the embeddings of two probe texts in each role that requests distinguish: most changes of a service show there.
    """

    def __init__(
        self,
        service: ListService,
        revision: str | None,
        dimensions: int | None,
        prompts: Mapping[str, str | None],
        input_type: str | None,
        batch: int,
        concurrency: int,
    ) -> None:
        self.spec = f"api:{service.model}"
        self.similarity = similarities.registry.create("cosine")
        self._service = service
        self._revision = revision
        self._parameters: dict[str, Any] = {"model": service.model}
        if dimensions:
            self._parameters["dimensions"] = dimensions
        self._format = {"encoding_format": "float"}
        self._prompts = prompts
        self._input_types = _input_types(input_type)
        self._batch, self._concurrency = batch, concurrency

    @cached_property
    def _probe(self) -> np.ndarray:
        """Embeddings float32 ``[n, d]`` of the probe texts in each role that requests distinguish."""
        roles: list[Role] = ["document"]
        if self._input_types or any(self._prompts.values()):
            roles.append("query")
        return np.concatenate(wait_for(together(self._service, self._probed, roles, self._concurrency)))

    async def _probed(self, role: Role) -> np.ndarray:
        short, long = (encodable((self._prompts[role] or "") + text) for text in (PROBE, LONG_PROBE))
        try:
            return await self._call([short, long], role)
        except (PromptRefused, ServerFailed):  # a service that takes no long text truncates none
            return await self._call([short], role)

    @property
    def dimension(self) -> int:
        return int(self._probe.shape[1])

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
        about = {
            **self._parameters,
            "service": self._service.where,
            "revision": self._revision,
            "prompts": self._prompts,
        }
        if self._input_types:
            about["input_type"] = self._input_types
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
        prompt = self.prompt_of(items, role) or ""
        texts = [encodable(prompt + text) or " " for text in texts_of(items)]
        with progress(f"embedding {role} texts", sum(map(len, texts)), "characters") as advance:
            for rows in _ranges(len(texts), self._batch * self._concurrency * CALLS):
                chunk = texts[rows.start : rows.stop]
                calls = [chunk[call.start : call.stop] for call in _ranges(len(chunk), self._batch)]
                embeddings = np.concatenate(wait_for(self._together(calls, role)))
                if embeddings.shape[1] != self.dimension:
                    problem = f"gives {embeddings.shape[1]} dimensions, and gave {self.dimension} for the first text"
                    raise ServiceError(f"{self._service.where} {problem}")
                yield np.array(rows), embeddings
                advance(sum(map(len, chunk)))

    async def _together(self, batches: Sequence[list[str]], role: Role) -> list[np.ndarray]:
        async def embedded(texts: list[str]) -> np.ndarray:
            return await halved(
                lambda batch: self._call(batch, role, patient=False),
                texts,
                probe=lambda: self._call([PROBE], role),
                named=_begins,
            )

        return await together(self._service, embedded, batches, self._concurrency)

    async def _call(self, texts: list[str], role: Role, patient: bool = True) -> np.ndarray:
        """Embeddings float32 ``[n, d]``."""
        body = {**self._parameters, **self._format, **self._input_types.get(role, {}), "input": texts}
        try:
            rows = await self._service.each(body, ("data",), len(texts), _vector, _EXPECTED, patient)
        except PromptRefused as refused:
            if "encoding_format" not in body or "encoding_format" not in str(refused):
                raise
            self._format = {}  # some take base64 or nothing
            return await self._call(texts, role, patient)
        if len(widths := {len(row) for row in rows}) > 1:
            raise ServiceError(f"{self._service.where}: embeddings of {sorted(widths)} dimensions in one answer")
        if (dimensions := self._parameters.get("dimensions")) and widths != {dimensions}:
            problem = f"gives {len(rows[0])} dimensions in spite of dimensions={dimensions}; leave that out"
            raise ServiceError(f"{self._service.where} {problem}")
        embeddings = np.stack(rows)
        self._service.check_finite(embeddings, "embeddings", lambda index: _begins(texts[index]))
        return embeddings


def _begins(text: str) -> str:
    """The name of a text in a message."""
    return f"the text begins {text[:60]!r}"


_EXPECTED = "{index: number, embedding: list of numbers, or base64 of float32}"


def _vector(row: Any, index: int) -> tuple[int, np.ndarray]:
    """The index and the embedding float32 ``[d]`` of an answer, which may be the vector only."""
    row = row if isinstance(row, dict) else {"embedding": row}
    vector = row["embedding"]
    if isinstance(vector, str):
        vector = np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4").tolist()
    elif isinstance(vector, list) and len(vector) == 1 and isinstance(vector[0], list):
        vector = vector[0]  # llama.cpp nests the one vector of a text
    if not vector:
        raise ValueError
    return row.get("index", index), float32(vector)


def _input_types(text: str | None) -> dict[str, dict[str, str]]:
    """The field of a request that says the role, by role.

    >>> _input_types("voyage")
    {'query': {'input_type': 'query'}, 'document': {'input_type': 'document'}}

    Raises:
        UsageError: neither a known service nor FIELD:QUERY:DOCUMENT.
    """
    if text is None:
        return {}
    field, *values = INPUT_TYPES.get(text, text).split(":")
    if len(values) != 2 or not all((field, *values)):
        services = ", ".join(INPUT_TYPES)
        raise UsageError(
            f"api: input_type={text} is neither {services} nor FIELD:QUERY:DOCUMENT, as in task:query:passage"
        )
    query, document = values
    return {"query": {field: query}, "document": {field: document}}


async def halved(
    call: Callable[[list[str]], Awaitable[np.ndarray]],
    texts: list[str],
    probe: Callable[[], Awaitable[np.ndarray]],
    named: Callable[[str], str],
) -> np.ndarray:
    """The rows of ``call`` for ``texts``. A batch that the service refuses, or fails on before and after ``probe``, a
    call that works, is halved; a single text is to blame.

    Args:
        named: a text to its name in messages.

    Raises:
        ServiceError: a text that is refused or fails is named; and as ``call`` and ``probe``.
    """
    for attempt in range(2):
        try:
            return await call(texts)
        except (PromptRefused, ServerFailed) as error:
            failure = error
        if isinstance(failure, PromptRefused):
            break
        if attempt == 0:
            await probe()
    if len(texts) == 1:
        raise ServiceError(f"{failure}; {named(texts[0])}") from failure
    half = len(texts) // 2
    first = await halved(call, texts[:half], probe, named)
    second = await halved(call, texts[half:], probe, named)
    return np.concatenate([first, second])


async def together(
    service: ListService, call: Callable[[_Batch], Awaitable[np.ndarray]], batches: Iterable[_Batch], concurrency: int
) -> list[np.ndarray]:
    """What ``call`` makes of each batch, ``concurrency`` of them at once; the first failure ends all."""
    slots = asyncio.Semaphore(concurrency)

    async def limited(batch: _Batch) -> np.ndarray:
        async with slots:
            return await call(batch)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(limited(batch)) for batch in batches]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await service.close()
    return [task.result() for task in tasks]


def _ranges(length: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, length)) for start in range(0, length, size))


def fingerprint_of(spec: str, about: Mapping[str, Any], probe: np.ndarray) -> str:
    """The digest of a service's parameters, ``about``, and of its embeddings of the probe texts, ``probe`` ``[n, d]``.

    The first embeddings are cached, and they replace ``probe`` in the digest while the two agree. If they no longer
    agree, a notice reports the change, and ``probe`` is cached in their place.
    """
    key, cache, reference = f"probes of {json.dumps(about, sort_keys=True)}", open_cache(), probe
    if cache is not None:
        stored = cache.recall(key)
        if stored is not None:
            reference = np.array(stored, dtype=np.float32)
        change = _change(reference, probe)
        if change:
            notice(f"{spec}: the service has changed ({change}); what the previous version computed is not used")
            reference = probe
        if reference is probe:
            cache.remember(key, probe.tolist())
    return digest_of_json([key, reference.round(6).tolist()])


def _change(before: np.ndarray, now: np.ndarray) -> str:
    """How embeddings ``[n, d]`` of the probe texts differ from those before; empty: they agree."""
    if before.shape[1] != now.shape[1]:
        return f"{before.shape[1]} → {now.shape[1]} dimensions"
    if len(before) != len(now):
        return "longest text that it takes"
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(now, axis=1)
    cosine = float(((before * now).sum(axis=1) / np.maximum(norms, 1e-30)).min())
    return f"cosine {cosine:.3f}" if cosine < SAME else ""


def api(
    model: str,
    url: str,
    key_env: str,
    timeout: float,
    revision: str | None,
    dimensions: int | None,
    batch: int,
    concurrency: int,
    query_prompt: str | None,
    document_prompt: str | None,
    input_type: str | None,
    device: str | None = None,
) -> ServiceEncoder:
    """The encoder ``api``; raises as :func:`retrokit.core.service.service`."""
    endpoint = service(ListService, "api", model, url, "embeddings", key_env, timeout)
    prompts = {"query": given_prompt(query_prompt), "document": given_prompt(document_prompt)}
    return ServiceEncoder(endpoint, revision, dimensions, prompts, input_type, batch, concurrency)
