"""A model of the machine's own as one of the registry: prompts that wait together are computed together.

A model with a chat template reads prompts by it; one without reads them as they are, and continues them.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from retrokit.core.calls import PromptRefused, encodable
from retrokit.core.errors import DataError, RetrokitError, ServiceError, UsageError, first_line
from retrokit.core.notices import no_progress_bars
from retrokit.encoders.engine import NO_LIMIT
from retrokit.encoders.fingerprint import digest_of_weights, tokenizer_settings
from retrokit.encoders.folders import ask_hub
from retrokit.llm.base import LLM, Completion, Prompt, Sampling, cut_at, identified, read_stop, without_thinking


class Generated(NamedTuple):
    """What a model wrote: its text, special tokens left out, how many tokens it took, and ``stop`` or ``length``."""

    text: str
    tokens: int
    finish: str


class Generator:
    """Continues texts, each under its own sampling settings.

    Attributes:
        window: tokens of prompt and answer together (of an encoder-decoder: of the prompt); ``None``: any number.
        max_length: maximum tokens of a prompt, if requested.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, max_length: int | None = None) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._tokenizing = Lock()  # a fast tokenizer stores one call's padding; prompts are measured meanwhile
        self.writes_anew = bool(model.config.is_encoder_decoder)
        limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
        self.window = min((limit for limit in limits if limit and limit <= NO_LIMIT), default=None)
        if self.window is not None and self.window < 1:
            raise ValueError(f"it reads {self.window} tokens")

    def room(self, new_tokens: int) -> int | None:
        """Tokens that a prompt may have if the answer is to have ``new_tokens``; ``None``: any number."""
        if self.max_length is not None or self.window is None:
            return self.max_length
        # a causal model writes into the window that it reads
        return self.window if self.writes_anew else max(1, self.window - new_tokens)

    def length(self, text: str) -> int:
        """How many tokens the model reads of a text."""
        return len(self._tokens(text)["input_ids"])

    def _tokens(self, text: str | list[str], **options: Any) -> Any:
        special = self.tokenizer.chat_template is None  # which a chat template writes itself
        with self._tokenizing:
            return self.tokenizer(text, **{"add_special_tokens": special, "verbose": False, **options})

    def chat(self, prompt: str, system: str | None) -> str:
        """What the model reads for a prompt: by its chat template, or else as it is, the system message first."""
        if self.tokenizer.chat_template is None:
            return prompt if system is None else f"{system}\n\n{prompt}"
        from jinja2 import TemplateError

        user = [{"role": "user", "content": prompt}]
        apply = partial(self.tokenizer.apply_chat_template, add_generation_prompt=True, tokenize=False)
        if system is None:
            return apply(user)
        try:
            return apply([{"role": "system", "content": system}, *user])
        except TemplateError:  # some know no system message
            return apply([{"role": "user", "content": f"{system}\n\n{prompt}"}])

    def fitted(self, prompt: Prompt, new_tokens: int) -> str:
        """The prompt's text, its middle cut at the end of a token so that there is room for ``new_tokens`` of answer.

        Raises:
            UsageError: the rest is too long even without the middle.
        """
        room = self.room(new_tokens)

        def excess(text: str) -> int:
            return 0 if room is None else self.length(self.chat(text, None)) - room

        over = excess(prompt.text)
        if over <= 0:
            return prompt.text
        about = self._tokens(prompt.middle, add_special_tokens=False, return_offsets_mapping=True)
        offsets = about["offset_mapping"]
        middle_tokens, shorter = len(offsets), prompt
        while over > 0 and middle_tokens > 0:
            # a cut may change how its neighbours are tokenised, so that more than once may be needed
            middle_tokens = max(0, middle_tokens - over)
            shorter = prompt._replace(middle=prompt.middle[: offsets[middle_tokens - 1][1] if middle_tokens else 0])
            over = excess(shorter.text)
        if over > 0:
            start = prompt.before if len(prompt.before) <= 80 else prompt.before[:79] + "…"
            raise UsageError(f"{self.name} reads {self.window} tokens, too few for {start!r} and {new_tokens} more")
        return shorter.text

    @torch.inference_mode()
    def generate(
        self,
        texts: Sequence[str],
        samplings: Sequence[Sampling],
        new_tokens: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[Generated]:
        """The continuation of each of ``texts`` (as :meth:`chat` returns them), at most ``new_tokens`` tokens of it.
        All of ``samplings`` have the same stop strings.

        ``stopped`` is called before every token. Generation stops if it returns ``True``.
        """
        side = "right" if self.writes_anew else "left"
        batch = self._tokens(list(texts), return_tensors="pt", padding=True, padding_side=side)
        inputs: dict[str, Tensor] = {
            name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")
        }
        last, rows = int(inputs["input_ids"].max()), self.model.get_input_embeddings().weight.shape[0]
        if last >= rows:
            raise DataError(
                self.name, f"its tokenizer gives token {last:,}, and its table of embeddings has {rows:,} rows"
            )
        # a decoder begins with a token of its own
        begin, stop = 1 if self.writes_anew else inputs["input_ids"].shape[1], samplings[0].stop

        def ends(ids: Tensor, *_: object, **__: object) -> Tensor:
            # no character has more tokens than bytes; the library's own criterion fails for small vocabularies
            tails = ids[:, max(begin, ids.shape[1] - 4 * max(map(len, stop), default=0) - 4) :] if stop else ids[:, :0]
            tails_read = self.tokenizer.batch_decode(tails, skip_special_tokens=True)
            return torch.tensor([stopped() or cut_at(tail, stop) != tail for tail in tails_read], device=ids.device)

        written = self.model.generate(
            **inputs,
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            # what a checkpoint recommends for sampling is no setting of a greedy search, and would be warned about
            **dict.fromkeys(("temperature", "top_p", "top_k")),
            logits_processor=[_Draws(texts, samplings)] if any(sampling.temperature for sampling in samplings) else [],
            stopping_criteria=[ends],
            pad_token_id=self.tokenizer.pad_token_id,
        )
        return [self._written(row, stop) for row in written[:, begin:].tolist()]

    def _written(self, ids: list[int], stop: Sequence[str]) -> Generated:
        ends = self.model.generation_config.eos_token_id
        ends = ends if isinstance(ends, (list, tuple)) else [ends]
        # what has met a stop string goes on with padding while others are written
        ends = [*ends, self.tokenizer.pad_token_id] if stop else ends
        end = next((place for place, token in enumerate(ids) if token in ends), None)
        ids, finish = (ids, "length") if end is None else (ids[: end + 1], "stop")
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        whole = cut_at(text, stop)
        return Generated(whole.strip(), len(ids), finish if whole == text else "stop")

    def fingerprint(self) -> str:
        """A digest of all that decides what is written: weights, architecture, tokenizer, template, window."""
        whole = digest_of_weights(self.model.state_dict())
        config = {key: value for key, value in self.model.config.to_dict().items() if key != "_name_or_path"}
        template = self.tokenizer.chat_template
        written = [config, self.model.generation_config.to_dict(), self.window, self.max_length, template]
        whole.update(json.dumps(written, sort_keys=True, default=str).encode())
        whole.update(json.dumps(tokenizer_settings(self.tokenizer), sort_keys=True).encode())
        return whole.hexdigest()


class _Draws:
    """Adds Gumbel noise to the tempered logits of each row, so that their maximum is a draw from its distribution.

    The noise of a row depends only on its seed and its text. Rows of temperature 0 stay as they are.
    """

    def __init__(self, texts: Sequence[str], samplings: Sequence[Sampling]) -> None:
        self.samplings = samplings
        self.sources = [_source(text, sampling) for text, sampling in zip(texts, samplings, strict=True)]

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        drawn = logits.clone()
        for row, (sampling, source) in enumerate(zip(self.samplings, self.sources, strict=True)):
            if sampling.temperature > 0:
                tempered = nucleus(logits[row] / sampling.temperature, sampling.top_p)
                noise = -torch.empty(tempered.shape).exponential_(generator=source).log()
                drawn[row] = tempered + noise.to(logits.device)
        return drawn


def _source(text: str, sampling: Sampling) -> torch.Generator:
    """Of random numbers, on the processor, so that a GPU draws the same."""
    source = torch.Generator()
    if sampling.seed is None:
        source.seed()
    else:
        digest = hashlib.sha256(f"{sampling.seed}\0{text}".encode()).digest()
        source.manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    return source


def nucleus(logits: Tensor, share: float) -> Tensor:
    """``logits`` (1-D) with −∞ for all but the likeliest tokens that have ``share`` of the probability together.

    >>> nucleus(torch.tensor([0.5, 0.3, 0.2]).log(), 0.6).isinf().tolist()
    [False, False, True]
    """
    if share >= 1:
        return logits
    ranked, order = logits.softmax(-1).sort(descending=True)
    beyond = ranked.cumsum(-1) - ranked >= share  # what comes before is enough
    return logits.masked_fill(torch.zeros_like(beyond).scatter(0, order, beyond), -torch.inf)


def load_generator(
    path: str, max_length: int | None, device: str | None = None, dtype: torch.dtype | None = None
) -> Generator:
    """The model of a folder or a hub id.

    Args:
        path: which.
        max_length: tokens that it reads; default: what its tokenizer or its positions allow.
        device: where it computes; default: a GPU if there is one.
        dtype: of the loaded weights; default: that of the files.

    Raises:
        UsageError: neither a folder nor a hub id, or a model without a fast tokenizer.
        DataError: a folder without a model that writes.
        ServiceError: a hub id that cannot be had.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a model is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"{path!r} is neither a folder nor a hub id", partial(_no_model, path))
    try:
        with no_progress_bars():
            config = AutoConfig.from_pretrained(path)
            kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            model, loading_info = kind.from_pretrained(path, config=config, dtype=dtype, output_loading_info=True)
            if loading_info["missing_keys"]:
                missing = sorted(loading_info["missing_keys"])
                raise ValueError(f"its weights lack {missing[0]} ({len(missing)} in all): it writes nothing sensible")
            tokenizer = AutoTokenizer.from_pretrained(path)
        if not tokenizer.is_fast:
            raise UsageError(f"{path}: its tokenizer is not a fast one")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token  # decoders often have none; the mask hides it
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()
        generator = Generator(path, model, tokenizer, max_length)
        generator.generate([generator.chat("x", None)], [Sampling()], 1)  # whether all of it fits together
    except (RetrokitError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # what a damaged folder makes the libraries raise may be anything
        raise _no_model(path, error) from error
    return generator


def _no_model(path: str, error: BaseException) -> RetrokitError:
    if os.path.isdir(path):
        return DataError(path, f"is not a model that writes text: {first_line(error)}")
    return ServiceError(f"{path!r} is not a folder, and the model hub gave nothing: {first_line(error)}")


@dataclass(frozen=True)
class _Waiting:
    text: str
    length: int
    new_tokens: int
    sampling: Sampling
    future: asyncio.Future[Generated]

    @property
    def kind(self) -> tuple[int, tuple[str, ...]]:
        """What the rows of a batch have in common."""
        return self.new_tokens, self.sampling.stop


class LocalLLM(LLM):
    """A :class:`retrokit.llm.local.Generator` that answers prompts.

    Args:
        generator: which.
        batch: prompts that are computed at once.
        stop: texts that end each answer.
    """

    spec = ""

    def __init__(self, generator: Generator, batch: int = 8, stop: tuple[str, ...] = ()) -> None:
        self.generator, self._stop = generator, stop
        self.identity = identified(f"local {generator.fingerprint()}", stop)
        self.continues = generator.tokenizer.chat_template is None and not generator.writes_anew
        self.batch = batch
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        self._stopped = False

    def fitted(self, prompt: Prompt, max_tokens: int) -> str:
        """As :class:`retrokit.llm.base.LLM` says."""
        return self.generator.fitted(prompt, max_tokens)

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt, computed with others that wait for theirs.

        Raises:
            PromptRefused: it is too long for the model.
        """
        text = self.generator.chat(prompt, system)
        length = self.generator.length(text)
        window = self.generator.window
        most = self.generator.max_length or window
        left = None if self.generator.writes_anew or window is None else window - length  # for an answer
        if (most is not None and length > most) or (left is not None and left < 1):
            raise PromptRefused(f"{self.generator.name} reads {most} tokens, and a prompt has {length}")
        new_tokens = sampling.max_tokens if left is None else min(left, sampling.max_tokens)
        future = asyncio.get_running_loop().create_future()
        sampling = replace(sampling, stop=(*sampling.stop, *self._stop))
        self._waiting.append(_Waiting(text, length, new_tokens, sampling, future))
        if self._worker is None:
            self._stopped = False
            self._worker = asyncio.create_task(self._work())
        written = await future
        return Completion(without_thinking(encodable(written.text)), length, written.tokens, written.finish)

    async def _work(self) -> None:
        """Compute batch after batch while any prompt waits, in a thread, so that the event loop stays free."""
        loop = asyncio.get_running_loop()
        try:
            with ThreadPoolExecutor(1, "local model") as thread:
                while rows := self._next_rows():
                    try:
                        answers = await loop.run_in_executor(thread, self._generated, rows)
                    except Exception as error:  # whatever it is belongs to those who asked
                        for row in rows:
                            if not row.future.done():
                                row.future.set_exception(error)
                        continue
                    for row, answer in zip(rows, answers, strict=True):
                        if not row.future.done():
                            row.future.set_result(answer)
        finally:
            self._worker = None

    def _next_rows(self) -> list[_Waiting]:
        """Prompts of about the same length, to be answered with the same number of tokens and the same ends.

        So none is computed beyond its own end into positions that the model does not have.
        """
        waiting = sorted(
            (row for row in self._waiting if not row.future.done()), key=lambda row: (*row.kind, row.length)
        )
        rows = [row for row in waiting if row.kind == waiting[0].kind][: self.batch]
        self._waiting = waiting[len(rows) :]
        return rows

    def _generated(self, rows: Sequence[_Waiting]) -> list[Generated]:
        texts, samplings = [row.text for row in rows], [row.sampling for row in rows]
        try:
            return self.generator.generate(texts, samplings, rows[0].new_tokens, lambda: self._stopped)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if len(rows) == 1:
                raise ServiceError(f"{self.generator.name}: the GPU's memory does not hold a single prompt") from error
        half = len(rows) // 2
        return self._generated(rows[:half]) + self._generated(rows[half:])

    async def close(self) -> None:
        """Leave off what is being computed."""
        self._stopped = True
        self._waiting.clear()
        if self._worker is not None:
            await asyncio.wait([self._worker])


def local_llm(path: str, max_length: int | None, batch: int, device: str | None, stop: str | None = None) -> LocalLLM:
    """The model ``local``; raises as :func:`retrokit.llm.local.load_generator` does."""
    return LocalLLM(load_generator(path, max_length, device), batch, read_stop(stop))
