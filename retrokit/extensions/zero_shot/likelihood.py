"""The reranker ``query-likelihood``: how likely a causal language model finds the query after the document.

Sachan et al., "Improving Passage Retrieval with Zero-Shot Question Generation" (UPR), EMNLP 2022, Eq. 2: the mean
log-likelihood of the query's tokens after a prompt with the document. It needs no training. The default prompt is that
of the authors' code (github.com/DevSinghSachan/unsupervised-passage-reranking, ``upr_gpt.py``).

A document's tokens are computed once for several of its queries, and only a query's positions reach the language
model's head.
"""

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

from retrokit.core.errors import UsageError
from retrokit.encoders.engine import CHUNK, tokens_at_once
from retrokit.llm.base import Prompt
from retrokit.llm.local import Generator, load_generator
from retrokit.ranking.reranking.base import CUT
from retrokit.ranking.reranking.library import ModelReranker, loaded_dtype

ROWS = 16
CPU_LOGITS, GPU_LOGITS = 1 << 26, 1 << 29  # of a batch: a vocabulary may have 262,144 tokens

Ids = tuple[int, ...]
Unit = tuple[Ids, list[int]]
"""The tokens before a query, and the pairs that they are computed for."""


class QueryLikelihood(ModelReranker):
    """Scores pairs by the mean log-likelihood of the query's tokens (natural logarithm, at most 0)."""

    computes_once = "document"

    def __init__(self, spec: str, generator: Generator, template: str) -> None:
        super().__init__(spec, generator.model)
        self._generator, self._template = generator, template
        prompt, place, end = template.partition("{query}")
        parts = prompt.split("{document}")
        if len(parts) != 2 or not place or end.strip():
            raise UsageError(f"{spec}: the template {template!r} needs {{document}} once, then {{query}} at its end")
        self._before, after = parts
        self._after = after.rstrip()
        # a chat template ends the prompt itself
        self._gap = after[len(self._after) :] if generator.tokenizer.chat_template is None else ""

    def fingerprint(self) -> str:
        settings = f"{self._generator.fingerprint()} {self.computes_in} {self._template!r}"
        return hashlib.sha256(settings.encode()).hexdigest()

    def description(self) -> str:
        """The template."""
        return self._template

    def remarks(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[str]]:
        results = super().remarks(queries, documents)
        for remarks, query, document in zip(results, queries, documents, strict=True):
            prompt = self._prompt(document)
            is_whole = self._generator.fitted(prompt, len(self._answers([query])[0])) == prompt.text
            remarks += [] if is_whole else [CUT]
        return results

    @torch.inference_mode()
    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        answers = self._answers(queries)
        pairs_of: dict[Ids, list[int]] = {}
        for pair, context in enumerate(self._contexts(documents, [len(answer) for answer in answers])):
            pairs_of.setdefault(context, []).append(pair)
        scores = np.zeros(len(queries))  # an empty query is certain
        for units in self._batches(pairs_of, answers):
            pairs = [pair for _, members in units for pair in members]
            scores[pairs] = self._mean_log_likelihoods(units, [answers[pair] for pair in pairs])
        return scores

    def _prompt(self, document: str) -> Prompt:
        return Prompt(self._before, document, self._after)

    def _answers(self, queries: Sequence[str]) -> list[Ids]:
        """The tokens of each query."""
        distinct = list(dict.fromkeys(queries))
        texts = [self._gap + query for query in distinct]
        ids = self._generator.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        ids_of = dict(zip(distinct, map(tuple, ids), strict=True))
        return [ids_of[query] for query in queries]

    def _contexts(self, documents: Sequence[str], lengths: Sequence[int]) -> list[Ids]:
        """The tokens before each query of ``lengths`` tokens; the document's end is cut where both do not fit. Raises
        :class:`UsageError` for a query that does not fit without a document."""
        generator = self._generator

        def read(texts: list[str]) -> list[Ids]:
            special = generator.tokenizer.chat_template is None  # which a chat template writes itself
            ids = generator.tokenizer(texts, add_special_tokens=special, verbose=False)["input_ids"]
            return [tuple(row) or (generator.tokenizer.pad_token_id,) for row in ids]

        distinct = list(dict.fromkeys(documents))
        uncut: dict[str, Ids] = {}
        for start in range(0, len(distinct), CHUNK):
            chunk = distinct[start : start + CHUNK]
            texts = [generator.chat(self._prompt(document).text, None) for document in chunk]
            uncut.update(zip(chunk, read(texts), strict=True))
        contexts: list[Ids] = []
        cut: dict[tuple[str, int], Ids] = {}
        for document, length in zip(documents, lengths, strict=True):
            context = uncut[document]
            if generator.window is not None and len(context) + length > generator.window:
                reserve = self._reserve(length)
                if (document, reserve) not in cut:
                    fitted = generator.fitted(self._prompt(document), reserve)
                    (cut[document, reserve],) = read([generator.chat(fitted, None)])
                context = cut[document, reserve]
                if len(context) + length > generator.window:
                    raise UsageError(f"{self.spec}: reads {generator.window} tokens, and a query has {length}")
            contexts.append(context)
        return contexts

    def _reserve(self, length: int) -> int:
        """Tokens left free for a query of ``length``, next to a document that is cut: in steps of an eighth of the
        room for both, so that queries of about the same length share the document's tokens."""
        step = max(1, self._room // 8)
        reserve = -(-length // step) * step
        return reserve if reserve <= self._room // 2 else length

    @cached_property
    def _room(self) -> int:
        """Tokens that the window has for a document and a query."""
        assert self._generator.window is not None
        return self._generator.window - len(self._generator.tokens(self._generator.chat(self._prompt("").text, None)))

    def _batches(self, pairs_of: dict[Ids, list[int]], answers: Sequence[Ids]) -> Iterator[list[Unit]]:
        """Units of like length, so that neither the tokens nor the logits of a batch become too many."""
        on_cpu = self.device.type == "cpu"
        vocabulary = self.model.get_output_embeddings().weight.shape[0]
        tokens, logits = tokens_at_once(self.device), max(1, (CPU_LOGITS if on_cpu else GPU_LOGITS) // vocabulary)
        batch: list[Unit] = []
        count = longest = widest = 0
        for context in sorted(pairs_of, key=lambda ids: (-len(ids), ids)):
            for pair in sorted(pairs_of[context], key=lambda pair: answers[pair]):
                wide = max(widest, len(answers[pair]))
                if batch and (count + 1) * max((longest + wide) / tokens, wide / logits) > 1:
                    yield batch
                    batch, count, wide = [], 0, len(answers[pair])
                if batch and batch[-1][0] == context:
                    batch[-1][1].append(pair)
                else:
                    batch.append((context, [pair]))
                longest = len(batch[0][0])
                count, widest = count + 1, wide
        if batch:
            yield batch

    def _mean_log_likelihoods(self, units: list[Unit], answers: list[Ids]) -> np.ndarray:
        """Of each answer ``[n]`` after its unit's context, the units' answers one after the other."""
        sizes = torch.tensor([len(members) for _, members in units], device=self.device)
        rows = torch.arange(len(units), device=self.device).repeat_interleave(sizes)
        lengths = torch.tensor([len(answer) for answer in answers], device=self.device)
        # the last token before a query predicts the first of it
        before, is_before = self._padded([context[:-1] for context, _ in units], "left")
        inputs = [(units[row][0][-1], *ids[:-1]) for row, ids in zip(rows.tolist(), answers, strict=True)]
        read, is_read = self._padded(inputs, "right")
        targets, is_target = self._padded(answers, "right")
        options: dict[str, Any] = {}
        if before.shape[1]:
            names = inspect.signature(self.model.forward).parameters
            cache = DynamicCache(config=self.model.config)
            options = {"use_cache": True, "cache" if "cache" in names else "past_key_values": cache}
            _run(self.model.base_model, before, is_before, **options)
            if len(rows) != len(units):
                cache.batch_select_indices(rows)
        mask = torch.cat([is_before[rows], is_read], dim=1)
        logits = _run(self.model, read, mask, **options)["logits"][:, : targets.shape[1]]
        # a few rows at a time: copies of all in float32 are too large for the processor's cache
        sums = torch.cat([rows_of_logits.float().logsumexp(1) for rows_of_logits in logits.flatten(0, 1).split(ROWS)])
        likely = logits.gather(2, targets[..., None])[..., 0].float() - sums.view(targets.shape)
        means = likely.masked_fill(~is_target, 0).sum(1) / lengths.clamp(min=1)
        result: np.ndarray = means.double().cpu().numpy()
        return result

    def _padded(self, rows: Sequence[Ids], side: str) -> tuple[Tensor, Tensor]:
        """Tokens int64 ``[n, t]``, and which are no padding."""
        ids, mask = (
            pad_sequence([torch.tensor(row, dtype=torch.long) for row in part], True, 0, side).to(self.device)
            for part in (rows, [(1,) * len(row) for row in rows])
        )
        return ids, mask.bool()


def _run(model: Any, ids: Tensor, mask: Tensor, **options: Any) -> Any:
    """The outputs for ``ids`` ``[n, t]``, the last columns of ``mask``; what is before them is in the cache."""
    if "position_ids" in inspect.signature(model.forward).parameters:
        positions = mask.long().cumsum(1).sub(1).clamp(min=0)
        options["position_ids"] = positions[:, mask.shape[1] - ids.shape[1] :]
    return model(input_ids=ids, attention_mask=mask.long(), **options)


def query_likelihood(
    path: str, template: str, max_length: int | None, dtype: str, device: str | None = None
) -> QueryLikelihood:
    """The causal language model of a folder or a hub id. Raises :class:`UsageError` for an encoder-decoder, a template
    without places, or more tokens than the model reads, and as :func:`retrokit.llm.local.load_generator`."""
    generator = load_generator(path, None, device, loaded_dtype(dtype, device))
    if generator.writes_anew:
        raise UsageError(f"{path}: is an encoder-decoder; query-likelihood needs a causal language model")
    if max_length is not None:
        if generator.window is not None and generator.window < max_length:
            raise UsageError(f"{path}: max_length={max_length} is more than the model's {generator.window} positions")
        generator.window = max_length
    return QueryLikelihood(f"query-likelihood:{path}", generator, template)
