"""A transformers checkpoint of this machine that answers prompts, by the library's ``generate``.

A model with a chat template reads prompts by it. One without reads them as they are, and continues them.
"""

import asyncio
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from retrokit.core.calls import PromptRefused, encodable
from retrokit.core.errors import DataError, RetrokitError, ServiceError, UsageError, first_line, shortened
from retrokit.core.notices import no_progress_bars
from retrokit.encoders.engine import NO_LIMIT
from retrokit.encoders.fingerprint import digest_of_weights, tokenizer_settings
from retrokit.encoders.folders import ask_hub
from retrokit.llm.base import LLM, Completion, Prompt, Sampling, cut_at, identified, read_stop, without_thinking


@dataclass(eq=False)
class LocalRequest:
    """A prompt's tokens, its settings, and its answer once it is computed."""

    ids: list[int]
    sampling: Sampling
    answer: Completion | None = None


class Generator:
    """Continues prompts.

    Attributes:
        window: tokens of prompt and answer together (of an encoder-decoder: of the prompt); ``None``: any number.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, max_length: int | None = None) -> None:
        self.name, self.model, self.tokenizer = name, model, tokenizer
        self.writes_anew = bool(model.config.is_encoder_decoder)
        limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
        self.window = max_length or min((limit for limit in limits if limit and limit <= NO_LIMIT), default=None)
        if self.window is not None and self.window < 1:
            raise ValueError(f"it reads {self.window} tokens")

    def tokens(self, text: str) -> list[int]:
        """What the model reads of a text. A chat template writes special tokens itself."""
        special = self.tokenizer.chat_template is None
        ids: list[int] = self.tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]
        return ids

    def chat(self, prompt: str, system: str | None) -> str:
        """What the model reads for a prompt: by its chat template, or else as it is, the system message first."""
        if self.tokenizer.chat_template is None:
            return prompt if system is None else f"{system}\n\n{prompt}"
        from jinja2 import TemplateError

        apply = partial(self.tokenizer.apply_chat_template, add_generation_prompt=True, tokenize=False)
        if system is not None:
            try:
                return apply([{"role": "system", "content": system}, {"role": "user", "content": prompt}])
            except TemplateError:  # some templates refuse a system message
                prompt = f"{system}\n\n{prompt}"
        return apply([{"role": "user", "content": prompt}])

    def fitted(self, prompt: Prompt, new_tokens: int) -> str:
        """The prompt's text, its middle cut at the end of a token so that there is room for ``new_tokens`` of answer.

        Raises:
            UsageError: the rest is too long even without the middle.
        """
        if self.window is None:
            return prompt.text
        room = self.window if self.writes_anew else max(1, self.window - new_tokens)
        shorter = prompt
        while (excess := len(self.tokens(self.chat(shorter.text, None))) - room) > 0:  # a cut may add tokens
            if not shorter.middle:
                text = f"{shortened(prompt.before, 80)!r} and {new_tokens} more"
                raise UsageError(f"{self.name} reads {self.window} tokens, too few for {text}")
            tokens = self.tokenizer(
                shorter.middle, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            ends = [0, *(end for _, end in tokens["offset_mapping"])]
            shorter = shorter._replace(middle=shorter.middle[: ends[max(0, len(ends) - 1 - excess)]])
        return shorter.text

    @torch.inference_mode()
    def generate(self, requests: list[LocalRequest], is_stopped: Any = lambda: False) -> list[Completion]:
        """The answer to each request; their sampling settings differ in the seed only. ``is_stopped`` is called before
        every token, and ends generation."""
        sampling = requests[0].sampling
        batch = self.tokenizer.pad(
            {"input_ids": [request.ids for request in requests]},
            padding_side="right" if self.writes_anew else "left",
            return_attention_mask=True,
            return_tensors="pt",
            verbose=False,
        ).to(self.model.device)
        ids = batch["input_ids"]
        highest, rows = int(ids.max()), self.model.get_input_embeddings().weight.shape[0]
        if highest >= rows:
            problem = f"its tokenizer gives token {highest:,}, and its table of embeddings has {rows:,} rows"
            raise DataError(self.name, problem)
        begin = 1 if self.writes_anew else ids.shape[1]  # a decoder begins with a token of its own
        # No character has more tokens than bytes. The library's criterion fails for a stop that its vocabulary lacks.
        tail_length = 4 * max(map(len, sampling.stop), default=0) + 4

        def has_ended(written: Tensor, *_: object, **__: object) -> Tensor:
            tails = written[:, max(begin, written.shape[1] - tail_length) :]
            texts = self.tokenizer.batch_decode(tails, skip_special_tokens=True)
            stopped = is_stopped()
            ended = [stopped or cut_at(text, sampling.stop) != text for text in texts]
            return torch.tensor(ended, device=written.device)

        draws: list[Any] = []
        if sampling.temperature > 0:
            draws = [TemperatureLogitsWarper(float(sampling.temperature)), TopPLogitsWarper(float(sampling.top_p))]
            draws.append(SeededNoise(requests))
        written = self.model.generate(
            **batch,
            max_new_tokens=sampling.max_tokens,
            do_sample=False,
            num_beams=1,
            # what a checkpoint recommends for sampling is no setting of a greedy search, and would be warned about
            **dict.fromkeys(("temperature", "top_p", "top_k")),
            logits_processor=draws,
            stopping_criteria=[has_ended],
            pad_token_id=self.tokenizer.pad_token_id,
        )
        answers = written[:, begin:].tolist()
        return [self._completion(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _completion(self, request: LocalRequest, ids: list[int]) -> Completion:
        ends = self.model.generation_config.eos_token_id
        ends = {*ends} if isinstance(ends, (list, tuple)) else {ends}
        if request.sampling.stop:  # a row that has met a stop string is padded while others are written
            ends.add(self.tokenizer.pad_token_id)
        end = next((index for index, token in enumerate(ids) if token in ends), None)
        ids = ids if end is None else ids[: end + 1]
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        until_stop = cut_at(text, request.sampling.stop)
        finish = "length" if end is None and until_stop == text else "stop"
        return Completion(without_thinking(encodable(until_stop.strip())), len(request.ids), len(ids), finish)

    def fingerprint(self) -> str:
        """A digest of all that decides what is written: weights, architecture, tokenizer, template, window."""
        digest = digest_of_weights(self.model.state_dict())
        config = {key: value for key, value in self.model.config.to_dict().items() if key != "_name_or_path"}
        template, settings = self.tokenizer.chat_template, tokenizer_settings(self.tokenizer)
        written = [config, self.model.generation_config.to_dict(), self.window, template, settings]
        digest.update(json.dumps(written, sort_keys=True, default=str).encode())
        return digest.hexdigest()


class SeededNoise:
    """Adds Gumbel noise to logits, so that their maximum is a draw from their distribution.

    The noise of a row depends only on its seed and its prompt, not on the rest of the batch. It is drawn on the
    processor, so that a GPU draws the same.
    """

    def __init__(self, requests: list[LocalRequest]) -> None:
        self.generators = [torch.Generator() for _ in requests]
        for generator, request in zip(self.generators, requests, strict=True):
            if request.sampling.seed is None:
                generator.seed()
            else:
                digest = hashlib.sha256(json.dumps([request.sampling.seed, request.ids]).encode()).digest()
                generator.manual_seed(int.from_bytes(digest[:8], "big", signed=True))

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        """``[rows, tokens]`` → the same with noise."""
        draws = [torch.empty(logits.shape[1]).exponential_(generator=generator) for generator in self.generators]
        return logits - torch.stack(draws).log().to(logits.device)


def load_generator(
    path: str, max_length: int | None, device: str | None = None, dtype: torch.dtype | None = None
) -> Generator:
    """The model of a folder or a hub id.

    Args:
        max_length: tokens that it reads; default: what its tokenizer or its positions allow.
        device: where it computes; default: a GPU if there is one.
        dtype: of the loaded weights; default: that of the files.

    Raises:
        UsageError: neither a folder nor a hub id, or a model without a fast tokenizer.
        DataError: a folder without a model that writes.
        ServiceError: a hub id that cannot be had.
    """
    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a model is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"{path!r} is neither a folder nor a hub id", partial(_no_model, path))
    try:
        model, tokenizer = _loaded(path, dtype)
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()
        generator = Generator(path, model, tokenizer, max_length)
        generator.generate([LocalRequest(generator.tokens(generator.chat("x", None)), Sampling(max_tokens=1))])
    except (RetrokitError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # what a damaged folder makes the libraries raise may be anything
        raise _no_model(path, error) from error
    return generator


def _loaded(path: str, dtype: torch.dtype | None) -> tuple[Any, Any]:
    """The model and its tokenizer; raises as the library does."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    with no_progress_bars():
        config = AutoConfig.from_pretrained(path)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model, loading_info = kind.from_pretrained(path, config=config, dtype=dtype, output_loading_info=True)
        if missing := sorted(loading_info["missing_keys"]):
            raise ValueError(f"its weights lack {missing[0]} ({len(missing)} in all): it writes nothing sensible")
        tokenizer = AutoTokenizer.from_pretrained(path)
    if not tokenizer.is_fast:
        raise UsageError(f"{path}: its tokenizer is not a fast one")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # decoders often have none; the mask hides it
    return model, tokenizer


def _no_model(path: str, error: BaseException) -> RetrokitError:
    if os.path.isdir(path):
        return DataError(path, f"is not a model that writes text: {first_line(error)}")
    return ServiceError(f"{path!r} is not a folder, and the model hub gave nothing: {first_line(error)}")


class LocalLLM(LLM):
    """A :class:`Generator` that answers prompts.

    Args:
        batch: prompts that are computed at once.
        stop: texts that end each answer.
    """

    spec = ""

    def __init__(self, generator: Generator, batch: int = 8, stop: tuple[str, ...] = ()) -> None:
        self.generator, self.batch, self._stop = generator, batch, stop
        self.identity = identified(f"local {generator.fingerprint()}", stop)
        self.continues = generator.tokenizer.chat_template is None and not generator.writes_anew
        self._waiting: list[LocalRequest] = []
        self._open()

    def _open(self) -> None:
        """Prepare for the calls of an event loop."""
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "local model")  # so that the event loop stays free
        self._is_stopped = False

    def fitted(self, prompt: Prompt, max_tokens: int) -> str:
        """As :class:`retrokit.llm.base.LLM` says."""
        return self.generator.fitted(prompt, max_tokens)

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt, computed with others of the same settings that wait for theirs.

        Raises:
            PromptRefused: it is too long for the model.
            ServiceError: the memory does not suffice for a batch.
        """
        generator = self.generator
        ids = generator.tokens(generator.chat(prompt, system))
        new_tokens = sampling.max_tokens
        if generator.window is not None:
            room = generator.window - len(ids)
            if room < (0 if generator.writes_anew else 1):
                raise PromptRefused(f"{generator.name} reads {generator.window} tokens, and a prompt has {len(ids)}")
            if not generator.writes_anew:
                new_tokens = min(room, new_tokens)
        stop = (*sampling.stop, *self._stop)
        request = LocalRequest(ids, replace(sampling, max_tokens=new_tokens, stop=stop))
        self._waiting.append(request)
        try:
            await asyncio.sleep(0)  # others join the batch
            async with self._turn:
                if request.answer is None:
                    await self._answer(request)
        finally:
            self._waiting.remove(request)
        assert request.answer is not None
        return request.answer

    async def _answer(self, first: LocalRequest) -> None:
        """Compute a batch: the request, and those that wait with the same settings but for the seed."""
        settings = replace(first.sampling, seed=None)
        alike = [request for request in self._waiting if replace(request.sampling, seed=None) == settings]
        batch = [request for request in alike if request.answer is None][: self.batch]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._thread, self.generator.generate, batch, lambda: self._is_stopped
            )
        except torch.OutOfMemoryError as error:
            advice = f"{len(batch)} prompts do not fit into the GPU's memory; give a smaller `batch=`"
            raise ServiceError(f"{self.generator.name}: {advice}") from error
        for request, answer in zip(batch, answers, strict=True):
            request.answer = answer

    async def close(self) -> None:
        """Stop what is being computed."""
        self._is_stopped = True
        self._thread.shutdown(cancel_futures=True)
        self._open()


def local_llm(path: str, max_length: int | None, batch: int, device: str | None, stop: str | None = None) -> LocalLLM:
    """The model ``local``; raises as :func:`load_generator` does."""
    return LocalLLM(load_generator(path, max_length, device), batch, read_stop(stop))
