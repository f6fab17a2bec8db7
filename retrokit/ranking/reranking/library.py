"""Rerankers that are models of sentence-transformers, from a folder or a hub id: ``colbert`` and ``cross-encoder``.

``colbert``: Khattab and Zaharia, "ColBERT", 2020. Any ``MultiVectorEncoder`` of the library: it brings its own
prefixes, query expansion, projection and list of tokens that do not count, and is scored by its own MaxSim.

``cross-encoder``: Nogueira and Cho, "Passage Re-ranking with BERT", 2019. Any ``CrossEncoder`` of the library, and any
Hugging Face checkpoint for sequence classification with one output."""

import copy
import json
import logging
import os
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_model
from sentence_transformers import CrossEncoder, MultiVectorEncoder
from sentence_transformers.util import get_device_name
from transformers.utils import logging as transformers_logging

from retrokit import encoders
from retrokit.core.errors import DataError, ServiceError, UsageError, first_line
from retrokit.core.notices import notice
from retrokit.data.runs import is_run, read_run
from retrokit.encoders import engine
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.base import Encoder
from retrokit.encoders.checks import PROBES, UNUSED, check_positions, positions_of, whole_weights
from retrokit.encoders.fingerprint import digest_of_weights, tokenizer_settings
from retrokit.encoders.folders import architectures, ask_hub, loading
from retrokit.encoders.precision import choose_precision
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import CUT, PairwiseReranker, check_counts, check_finite


class ModelReranker(PairwiseReranker):
    """Scores pairs with ``model``. A subclass gives :meth:`library_scores` and :meth:`description`."""

    def __init__(self, spec: str, model: Any) -> None:
        self.spec, self.model = spec, model
        self.computes_in = str(next(model.parameters()).dtype).removeprefix("torch.")

    @abstractmethod
    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """The library's scores ``[n]`` of query i with document i, at least one."""

    @abstractmethod
    def description(self) -> Any:
        """What decides a score besides the weights."""

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        if not queries:
            return np.zeros(0, dtype=np.float32)
        scores = self.library_scores(queries, documents)
        check_finite(scores, self.spec, queries)
        return scores.astype(np.float32, copy=False)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def fingerprint(self) -> str:
        digest = digest_of_weights(self.model.state_dict())
        digest.update(json.dumps(self.description(), sort_keys=True, default=str).encode())
        return str(digest.hexdigest())


@contextmanager
def loading_model(name: str, what: str, path: str) -> Iterator[None]:
    """Load the ``what`` of the reranker ``name`` from ``path`` in the block. Raises :class:`UsageError` for neither a
    folder nor a hub id, :class:`DataError` for another folder, :class:`ServiceError` for a hub id that failed."""

    def failed(error: BaseException) -> ServiceError:
        return ServiceError(
            f"{name}: {path!r} is not a folder, and was not found on the model hub: {first_line(error)}"
        )

    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a {what} is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"{name}: {path!r} is neither a folder nor a hub id", failed)
    with loading(path, what, failed):
        yield


class MultiVectorReranker(ModelReranker):
    """Scores pairs by the sum, over the query's vectors, of the best product with one of the document's."""

    @torch.inference_mode()
    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Each distinct text is encoded once."""
        first, second = list(dict.fromkeys(queries)), list(dict.fromkeys(documents))
        query_of = dict(zip(first, self.model.encode_query(first, show_progress_bar=False), strict=True))
        document_of = dict(zip(second, self.model.encode_document(second, show_progress_bar=False), strict=True))
        similarities = self.model.similarity_pairwise(
            [query_of[text] for text in queries], [document_of[text] for text in documents]
        )
        scores: np.ndarray = similarities.float().cpu().numpy()
        return scores

    def description(self) -> list[Any]:
        """Modules, tokenizer, prompts, similarity, length."""
        modules: list[Any] = []
        for module in self.model:
            modules.append((type(module).__name__, getattr(module, "get_config_dict", dict)()))
        tokenizer = tokenizer_settings(self.model.tokenizer)
        return [modules, tokenizer, self.model.prompts, self.model.similarity_fn_name, self.model.max_seq_length]


def colbert(path: str, max_length: int | None, device: str | None = None) -> MultiVectorReranker:
    """A multi-vector encoder from a local folder or a hub id; raises as :func:`loading_model` does."""
    with loading_model("colbert", "multi-vector encoder", path), whole_weights(UNUSED), _said() as records:
        loaded = MultiVectorEncoder(path, device=device, model_kwargs={"dtype": torch.float32})
        check_positions(loaded, path)
        loaded.encode_document(PROBES, show_progress_bar=False)
    if any("randomly-initialised" in record.getMessage() for record in records):
        raise DataError(path, "is not a multi-vector encoder: it has no projection of its token vectors")
    if max_length is not None:
        loaded.max_seq_length = max_length
    return MultiVectorReranker(f"colbert:{path}", loaded)


@contextmanager
def _said() -> Iterator[list[logging.LogRecord]]:
    """The library's log lines in the block: it reports a random projection nowhere else."""
    library, handler = logging.getLogger(MultiVectorEncoder.__module__), BufferingHandler(sys.maxsize)
    before = library.level, library.propagate
    library.setLevel(logging.INFO)
    library.propagate = False
    library.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        library.removeHandler(handler)
        library.setLevel(before[0])
        library.propagate = before[1]


_HEAD = "ForSequenceClassification"
_RELEVANT = ("label_1", "1", "relevant", "positive", "true", "yes", "entailment", "duplicate")


class CrossEncoderReranker(ModelReranker):
    """Scores pairs with a cross-encoder, after the model's own activation; higher is better."""

    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        scores = engine.pair_scores(self.model, queries, documents)
        return scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]

    def remarks(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[str]]:
        results = super().remarks(queries, documents)
        if (limit := self.model.max_seq_length) and queries:
            for remarks, length in zip(results, self.lengths(queries, documents), strict=True):
                remarks += [CUT] * (length > limit)
        return results

    def lengths(self, queries: Sequence[str], documents: Sequence[str]) -> list[int]:
        """Tokens of each pair, at least one, before any is cut."""
        both = self.model.tokenizer(list(queries), list(documents), truncation=False, verbose=False)["input_ids"]
        return [len(tokens) for tokens in both]

    def description(self) -> dict[str, Any]:
        """Configuration, tokenizer, length, activation, prompts."""
        backend = getattr(self.model.tokenizer, "backend_tokenizer", None)
        vocabulary = {} if backend is not None else {"vocabulary": self.model.tokenizer.get_vocab()}
        return {
            "config": {key: value for key, value in self.model.config.to_dict().items() if key != "_name_or_path"},
            "tokenizer": vocabulary or tokenizer_settings(self.model.tokenizer),
            "max_length": self.model.max_seq_length,
            "activation": repr(self.model.activation_fn),
            "prompts": self.model.prompts,
        }


def cross_encoder(path: str, max_length: int | None, dtype: str, device: str | None = None) -> CrossEncoderReranker:
    """A cross-encoder from a folder or a hub id. Of two outputs, the score is their difference. Raises as
    :func:`loading_model`."""

    def load() -> CrossEncoder:
        return CrossEncoder(path, device=device, model_kwargs={"dtype": loaded_dtype(dtype, device)})

    loaded = load_cross_encoder("cross-encoder", path, load)
    if max_length is not None:
        set_length(path, loaded, max_length)
    return CrossEncoderReranker(f"cross-encoder:{path}", loaded)


def loaded_dtype(name: str, device: str | None) -> torch.dtype:
    """The type of weights that ``name`` stands for on ``device``; by default on the one that the library chooses."""
    return choose_precision(name, torch.device(device or get_device_name()))


def load_cross_encoder(
    name: str,
    path: str,
    load: Callable[[], CrossEncoder],
    prepare: Callable[[CrossEncoder], None] = lambda loaded: None,
) -> CrossEncoder:
    """What ``load`` gives for the reranker ``name``, changed by ``prepare`` and tried on a few pairs."""
    if is_run(path):
        read_run(path).finished(path)
    with loading_model(name, "cross-encoder", path), whole_weights(head=False):
        loaded = load()
        _check_head(name, path, loaded)
        check_positions(loaded, path)
        prepare(loaded)
        loaded.predict([(PROBES[0], text) for text in PROBES], show_progress_bar=False)
    for module in list(loaded)[1:]:
        module.float()  # the engine gives it the first module's output in float32
    return loaded


def _check_head(name: str, path: str, loaded: CrossEncoder) -> None:
    """Raise :class:`DataError` for a model without a scoring head, :class:`UsageError` for other outputs than a
    reranker's; a notice reports two outputs."""
    architecture, saved = type(loaded[0].model).__name__, loaded[0].model.config.architectures or []
    if architecture.endswith(_HEAD) and architecture not in saved:  # the library has made one at random
        problem = f"it has no scoring head (architecture: {list(saved) or 'unnamed'})"
        raise DataError(path, f"is not a {name} reranker: {problem}")
    labels = [str(label) for _, label in sorted(loaded.config.id2label.items())]
    if loaded.num_labels == 2 and labels[1].lower() in _RELEVANT:
        notice(f"{path}: has two outputs; a score is that of {labels[1]} less that of {labels[0]}")
    elif loaded.num_labels != 1:
        expected = "one output, or two of which the second is called relevant, positive or LABEL_1"
        problem = f"has {loaded.num_labels} outputs ({', '.join(labels)}); a reranker needs {expected}"
        raise UsageError(f"{path}: {problem}")


class Beginning:
    """The start of ``rerank train cross-encoder``."""

    def reranker(self, model: CrossEncoder) -> CrossEncoderReranker:
        """Scores with a model that is trained."""
        return CrossEncoderReranker("", model)

    def model(self, base: str, max_length: int | None, seed: int, device: str | None) -> CrossEncoder:
        """The cross-encoder of a folder or a hub id, in float32; or the transformer of an encoder with a new head of
        ``AutoModelForSequenceClassification``. Raises :class:`UsageError` for an encoder that is no transformer, and as
        :func:`cross_encoder`."""
        spec = encoders.registry.parse(base)
        path = spec.path
        if spec.name == "model" and _scores_pairs(path):
            if len(spec.params) > 1:
                raise UsageError(f"{base}: a cross-encoder to start from has no options; give only {path}")
            loaded: CrossEncoder = cross_encoder(path, None, "fp32", device).model
            if loaded.num_labels != 1:
                raise UsageError(f"{base}: has {loaded.num_labels} outputs; a cross-encoder is trained with one")
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                loaded = _with_new_head(encoders.registry.create(base, device="cpu"), device)
        if max_length is not None:
            set_length(base, loaded, max_length)
        return loaded


def _scores_pairs(path: str) -> bool:
    """Whether a checkpoint has a head for pairs."""
    with loading_model(reranking.CROSS_ENCODER, "model", path):
        return any(name.endswith(_HEAD) for name in architectures(path))


def _with_new_head(encoder: Encoder, device: str | None) -> CrossEncoder:
    first: Any = encoder.to_train().model[0]
    if not hasattr(first, "auto_model"):
        raise UsageError(f"{encoder.spec} has no transformer, which is what a cross-encoder starts from")
    if is_quantized(first):
        raise UsageError(f"{encoder.spec}: weights of few bits are not trained")
    with tempfile.TemporaryDirectory() as folder, loading_model(reranking.CROSS_ENCODER, "transformer", folder):
        # not by save_pretrained, which writes nothing in all but the first of several processes
        config = copy.deepcopy(first.auto_model.config)
        config.architectures = [type(first.auto_model).__name__]
        config.save_pretrained(folder)
        save_model(first.auto_model, str(Path(folder, "model.safetensors")), {"format": "pt"})
        first.tokenizer.save_pretrained(folder)
        said = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity_error()  # that the head is new is no news
        try:
            with whole_weights(head=False):
                model = CrossEncoder(folder, num_labels=1, device=device, model_kwargs={"dtype": torch.float32})
        finally:
            transformers_logging.set_verbosity(said)
    if model.config.pad_token_id is None:  # of a decoder, whose head reads the last token that is no padding
        model.config.pad_token_id = model.tokenizer.pad_token_id
    return model


def set_length(path: str, loaded: CrossEncoder, max_length: int) -> None:
    """Cut pairs at ``max_length`` tokens; raises :class:`UsageError` for more than the model has positions."""
    limit = (positions_of(loaded[0]) or (0, getattr(loaded.config, "max_position_embeddings", None)))[1]
    if limit and 0 < limit < max_length:
        raise UsageError(f"{path}: max_length={max_length} is more than the model's {limit} positions")
    loaded.max_seq_length = max_length
