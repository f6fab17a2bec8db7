"""A local model that writes text: a sequence-to-sequence or a causal checkpoint, of a folder or a hub id."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from retrokit.encoders.encoder import NO_LIMIT
from retrokit.encoders.hub import ask_hub, first_line
from retrokit.errors import DataError, RetrokitError, ServiceError, UsageError
from retrokit.notices import no_progress_bars, progress

BATCH = 8


class Prompt(NamedTuple):
    """A prompt in three parts, of which the end of the middle one goes where all of it is too long."""

    before: str
    middle: str
    after: str

    @property
    def text(self) -> str:
        """The whole of it."""
        return self.before + self.middle + self.after


class Generator:
    """Greedy continuations of prompts.

    Attributes:
        window: tokens of a prompt that the model can read; ``None``: any number.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, window: int | None, new_tokens: int) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.writes_anew = bool(model.config.is_encoder_decoder)
        self.new_tokens = new_tokens
        self.window = window

    def fitted(self, prompt: Prompt) -> str:
        """The prompt's text, its middle cut at the end of a token so that the model can read all of the rest.

        Raises:
            UsageError: the rest alone is too long.
        """
        excess = self._excess(prompt.text)
        if excess <= 0:
            return prompt.text
        about = self.tokenizer(prompt.middle, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = about["offset_mapping"]
        kept = len(offsets)
        while excess > 0 and kept > 0:
            # a cut may change how its neighbours are tokenised, so that more than once may be needed
            kept = max(0, kept - excess)
            shorter = prompt._replace(middle=prompt.middle[: offsets[kept - 1][1] if kept else 0])
            excess = self._excess(shorter.text)
        if excess > 0:
            question = prompt.before if len(prompt.before) <= 80 else prompt.before[:79] + "…"
            raise UsageError(f"{self.name} reads {self.window} tokens, too few for {question!r}")
        return shorter.text

    def _excess(self, text: str) -> int:
        return 0 if self.window is None else len(self.tokenizer(text, verbose=False)["input_ids"]) - self.window

    @torch.inference_mode()
    def generate(self, texts: Sequence[str]) -> list[str]:
        """What follows each text, in the order of ``texts``; of a causal model its first line."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = [""] * len(texts)
        with progress("reading", len(texts), "prompts") as advance:
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                for row, text in zip(rows, self._generate([texts[i] for i in rows]), strict=True):
                    found[row] = text
                advance(len(rows))
        return found

    def _generate(self, texts: list[str]) -> list[str]:
        side = "right" if self.writes_anew else "left"
        batch = self.tokenizer(texts, return_tensors="pt", padding=True, padding_side=side)
        inputs: dict[str, Tensor] = {
            name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")
        }
        written = self.model.generate(
            **inputs,
            max_new_tokens=self.new_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        if not self.writes_anew:
            written = written[:, inputs["input_ids"].shape[1] :]
        decoded = [text.strip() for text in self.tokenizer.batch_decode(written, skip_special_tokens=True)]
        return decoded if self.writes_anew else [(text.splitlines() or [""])[0].strip() for text in decoded]

    def fingerprint(self) -> str:
        """A digest of all that decides what is written: weights, architecture, tokenizer, window, length."""
        whole = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            whole.update(f"{name}:{tensor.dtype}:{list(tensor.shape)}".encode())
            whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        config = {key: value for key, value in self.model.config.to_dict().items() if key != "_name_or_path"}
        written = [config, self.model.generation_config.to_dict(), self.window, self.new_tokens]
        whole.update(json.dumps(written, sort_keys=True, default=str).encode())
        backend = json.loads(self.tokenizer.backend_tokenizer.to_str())
        # calls leave their truncation and padding in the tokenizer
        parts = {key: value for key, value in backend.items() if key not in ("truncation", "padding")}
        whole.update(json.dumps(parts, sort_keys=True).encode())
        return whole.hexdigest()


def load_generator(path: str, max_length: int | None, new_tokens: int, device: str | None = None) -> Generator:
    """The model of a folder or a hub id.

    Args:
        path: which.
        max_length: tokens that it reads; default: what its tokenizer or its positions allow.
        new_tokens: tokens that it writes at most.
        device: where it computes; default: a GPU if there is one.

    Raises:
        UsageError: neither a folder nor a hub id, or a model without a fast tokenizer.
        DataError: a folder that holds no model that writes.
        ServiceError: a hub id that cannot be had.
    """
    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a reader is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"{path!r} is no folder and no hub id", partial(_no_model, path))
    try:
        model, tokenizer = _loaded(path)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise _no_model(path, error) from error
    if not tokenizer.is_fast:
        raise UsageError(f"{path}: a reader needs a fast tokenizer")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # decoders often have none; the mask hides it
    model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()
    return Generator(path, model, tokenizer, max_length or _window(model, tokenizer, new_tokens), new_tokens)


def _loaded(path: str) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    with no_progress_bars():
        config = AutoConfig.from_pretrained(path)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model, told = kind.from_pretrained(path, config=config, output_loading_info=True)
        if told["missing_keys"]:
            missing = sorted(told["missing_keys"])
            raise ValueError(f"its weights lack {missing[0]} ({len(missing)} in all): it writes nothing sensible")
        return model, AutoTokenizer.from_pretrained(path)


def _no_model(path: str, error: BaseException) -> RetrokitError:
    if os.path.isdir(path):
        return DataError(path, f"is no model that writes text: {first_line(error)}")
    return ServiceError(f"{path!r} is no folder, and the model hub gave nothing: {first_line(error)}")


def _window(model: Any, tokenizer: Any, new_tokens: int) -> int | None:
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    known = [limit for limit in limits if limit and limit <= NO_LIMIT]
    if not known:
        return None
    # a causal model writes into the window that it reads
    return min(known) if model.config.is_encoder_decoder else max(1, min(known) - new_tokens)
