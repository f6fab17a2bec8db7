"""Making encoders: registered ones, local folders, hub ids, and runs. Nothing else knows how a model is loaded."""

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import load_file_path

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.prompted import given_prompt, prompts_in_words
from retrokit.data.runs import is_run
from retrokit.encoders.adapters import keep_as_stored, merge
from retrokit.encoders.checks import UNUSED, check_parts, positions_of, whole_weights
from retrokit.encoders.folders import (
    check_is_there,
    check_kind,
    check_minilm,
    loading,
    no_model,
    run_similarity,
    source_of,
)
from retrokit.encoders.modules import MODULE_CLASSES, Prepare, TokenPooling
from retrokit.encoders.packed import cast
from retrokit.encoders.precision import PRECISIONS, choose_precision
from retrokit.encoders.prompts import (
    ModelFamily,
    family_of,
    resolve_prompts,
    role_prompts,
    similar_family,
)
from retrokit.encoders.tables import is_table, set_length
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.encoders.towers import towers
from retrokit.similarities import registry as similarities
from retrokit.similarities.base import Similarity

# Whatever type the weights have, a copy may compute in another, so that the library's advice misleads.
logging.getLogger("sentence_transformers.base.model").addFilter(lambda said: "was loaded in" not in said.getMessage())


def load_model(
    name: str,
    path: str,
    device: str | None = None,
    *,
    dtype: str = "auto",
    attention: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    bits: str | None = None,
    device_map: str | None = None,
    images: bool = False,
    **options: Any,
) -> TorchEncoder:
    """The model of a folder or a hub id, as an encoder called ``name``; with ``images``, one that must take them.

    Raises:
        DataError: a folder that contains no model.
        MissingExtra: the package for weights of few ``bits`` is not installed.
        ServiceError: a hub id that cannot be had.
        UsageError: a run whose training is not finished; parameters that do not fit together.
    """
    if bits is not None and dtype != "auto":
        raise UsageError(f"{name}: bits={bits} is for weights as they are stored: leave out dtype")
    if trust_remote_code:
        notice(f"{name}: runs the code that comes with the model (trust_remote_code)")
    kwargs = _transformer_options(dtype, attention, bits, device, device_map)
    similarity = run_similarity(path) if is_run(path) else None
    loaded = _load(path, device, kwargs, revision=revision, trust_remote_code=trust_remote_code)
    if images and not loaded.supports("image"):
        raise UsageError(f"{name} embeds only texts; expected an image-text model, such as a CLIP checkpoint")
    saved_prompts = dict(loaded.prompts)
    has_prompts = any(role_prompts(saved_prompts).values())
    lacks_prompts = not has_prompts and isinstance(loaded[0], Transformer)
    family, known_by = family_of(path) if lacks_prompts else (None, "")
    bare = not loaded.module_kwargs  # it has no modules.json
    encoder = _finish(name, loaded, PRECISIONS.get(dtype), similarity=similarity, family=family, **options)
    modes = _pooling_modes(encoder) if bare else []
    prompts_of = _in_use(family, known_by, **options)
    remarks = [_assumed(encoder, modes, prompts_of, **options), _other_reading(saved_prompts, **options)]
    if lacks_prompts and family is None:
        remarks.append(_without_prompts(path, is_reported=bool(remarks[0]), **options))
    encoder.assumed = "; ".join(filter(None, remarks))
    return encoder


def load_minilm(name: str, path: str, device: str | None, **options: Any) -> TorchEncoder:
    """As :func:`load_model`, of the files that were published."""
    check_minilm(path)
    return load_model(name, path, device, **options)


def _transformer_options(
    dtype: str, attention: str | None, bits: str | None, device: str | None, device_map: str | None
) -> dict[str, Any]:
    """What the library takes to load a transformer."""
    options: dict[str, Any] = {"dtype": PRECISIONS.get(dtype, "auto")}
    if attention is not None:
        options["attn_implementation"] = "flash_attention_2" if attention == "flash" else attention
    if bits is not None:
        options |= _in_bits(bits, device)
    if device_map is not None:
        options["device_map"] = device_map
    return options


def _in_use(
    family: ModelFamily | None,
    known_by: str,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    **_: Any,
) -> str:
    """The family, if a prompt of it applies, since no option states another; else nothing."""
    if family is None:
        return ""
    is_used = (family.query and query_prompt is None) or (family.document and document_prompt is None)
    return f"{family.name} ({known_by})" if is_used else ""


def _pooling_modes(encoder: TorchEncoder) -> list[str]:
    return [str(module.pooling_mode) for module in encoder.model if isinstance(module, Pooling)]


def _assumed(
    encoder: TorchEncoder,
    modes: list[str],
    family: str,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    **_: Any,
) -> str:
    """What is assumed of a checkpoint without modules: ``modes`` of pooling, and prompts of its ``family``, but for
    what options state."""
    assumptions = []
    if pooling is None:
        assumptions += [f"{mode} pooling (`pooling=`)" for mode in modes]
    if family or (modes and query_prompt is None and document_prompt is None):
        prompts = f"prompts of {family}: {prompts_in_words(encoder.prompts)}" if family else "no prompts"
        assumptions.append(f"{prompts} (`query_prompt=`, `document_prompt=`)")
    if not assumptions:
        return ""
    line = f"assuming {' and '.join(assumptions)}"
    return f"is a bare checkpoint; {line}" if modes else line


def _other_reading(
    saved: Mapping[str, str | None], query_prompt: str | None = None, document_prompt: str | None = None, **_: Any
) -> str:
    """The ``saved`` prompts that sentence-transformers leaves out, unless options state them: it adds an empty prompt
    called ``query`` or ``document`` where there is none, and reads no other name."""
    options = {"query": query_prompt, "document": document_prompt}
    unread = {}
    for role, text in role_prompts(saved).items():
        if text and not saved.get(role) and options[role] is None:
            unread[role] = text
    if not unread:
        return ""
    methods = " and ".join(f"encode_{role}" for role in unread)
    choice = ", ".join(f"`{role}_prompt=`" for role in unread)
    difference = f"uses its prompts {prompts_in_words(unread)}, unlike {methods} of sentence-transformers"
    return f"{difference}; choose others with {choice}"


def _without_prompts(
    path: str, is_reported: bool, query_prompt: str | None = None, document_prompt: str | None = None, **_: Any
) -> str:
    """That a model without prompts (which ``is_reported``) is named like a family that has some, unless options state
    them."""
    family, known_by = similar_family(path)
    if not family or query_prompt is not None or document_prompt is not None:
        return ""
    similar = f"is named like {family} ({known_by}), which has some"
    if is_reported:
        return similar
    return f"has no prompts, but {similar}; choose them with `query_prompt=`, `document_prompt=`"


def _in_bits(bits: str, device: str | None) -> dict[str, Any]:
    """The library's options to load weights in 4 bits (NF4) or 8, on one device."""
    from transformers import BitsAndBytesConfig

    one_device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if bits == "4":
        quantization = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=choose_precision("auto", one_device),
        )
    else:
        quantization = BitsAndBytesConfig(load_in_8bit=True)
    return {"quantization_config": quantization, "device_map": {"": str(one_device)}}


def scratch(
    architecture: str, seed: int, device: str | None = None, dtype: str = "fp32", **options: Any
) -> TorchEncoder:
    """The architecture and tokenizer of a folder, a hub id or minilm, with fresh weights."""
    from transformers import AutoConfig, AutoModel

    source = source_of(architecture)
    with tempfile.TemporaryDirectory() as folder, _loading(source):
        _copy_without_weights(source, Path(folder))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
            model = _load(folder, device, {"dtype": torch.float32})
            _take_off_last(model, Prepare)
            for following in list(model)[1:]:
                for module in following.modules():
                    if hasattr(module, "reset_parameters"):
                        module.reset_parameters()
    return _finish(f"scratch:{architecture}", model, PRECISIONS[dtype], **options)


def _loading(path: str) -> AbstractContextManager[None]:
    return loading(path, "model", partial(no_model, path))


def _load(path: str, device: str | None, kwargs: Mapping[str, Any], **options: Any) -> SentenceTransformer:
    """The model as the library loads it: ``kwargs`` are those of its transformer, ``options`` its own."""
    check_is_there(path, options.get("revision"))
    with _loading(path), whole_weights(UNUSED):
        loaded = SentenceTransformer._load_with_module_classes(
            path, MODULE_CLASSES, device=device, model_kwargs=dict(kwargs), **options
        )
        for module in loaded.modules():
            if isinstance(module, Transformer):
                tokenizer = module.tokenizer
                if tokenizer.pad_token is None:
                    tokenizer.pad_token = tokenizer.eos_token  # decoders often have none; the mask hides it
                merge(module.model)
                keep_as_stored(module.model)
        check_parts(loaded, path)
    if not os.path.isdir(path):
        for name in ("config_sentence_transformers.json", "modules.json", "config.json"):
            if file := load_file_path(path, name, revision=options.get("revision")):
                check_kind(path, Path(file).parent)
    return loaded


def _copy_without_weights(source: str, target: Path) -> None:
    """Copy a model's folder without the transformer's weights; what follows it needs its own to be loaded at all."""
    weights = ("*.safetensors", "*.bin", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.index.json")
    if Path(source).is_dir():
        top = shutil.ignore_patterns(*weights, "checkpoints", "onnx", "openvino")
        shutil.copytree(
            source, target, dirs_exist_ok=True, ignore=lambda at, names: top(at, names) if at == source else set()
        )
        return
    from huggingface_hub import snapshot_download

    snapshot_download(source, local_dir=target, ignore_patterns=list(weights))
    snapshot_download(source, local_dir=target, allow_patterns=["[1-9]_*/*.safetensors", "[1-9]_*/*.bin"])


def _finish(
    name: str,
    loaded: SentenceTransformer,
    dtype: torch.dtype | None,
    *,
    similarity: Similarity | None = None,
    family: ModelFamily | None = None,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    query_max_length: int | None = None,
    max_length: int | None = None,
    truncation: str | None = None,
    end_token: bool | None = None,
) -> TorchEncoder:
    """Apply the options that every encoder has, and take off what is the similarity's work."""
    for tower in towers(loaded):
        if dtype is not None:
            cast(tower[0], dtype)
        for module in list(tower)[1:]:
            module.float()  # its input is float32
    similarity, had_normalize = _take_off_similarity(loaded, similarity)
    if pooling is not None:
        _set_pooling(loaded, pooling, name)
    for tower in towers(loaded):
        _set_tokenizer(tower, name, truncation, end_token)
    user_prompts = {"query": given_prompt(query_prompt), "document": given_prompt(document_prompt)}
    loaded.prompts = resolve_prompts(loaded.prompts, user_prompts, family)
    for tower in towers(loaded):
        _set_lengths(tower, max_length, query_max_length, name)
    return TorchEncoder(name, loaded, similarity, had_normalize)


def _take_off_similarity(loaded: SentenceTransformer, similarity: Similarity | None) -> tuple[Similarity, bool]:
    """Take off ``Prepare`` and the normalisation of a model, the work of its similarity: that of its run, if any, or
    the declared one. Returns it, and whether the model normalised."""
    prepare = _take_off_last(loaded, Prepare)
    declared = loaded.similarity_fn_name
    on_unit_length = _OF_UNIT_LENGTH.get(declared)
    is_replaceable = similarity is not None or on_unit_length is not None
    if similarity is None and loaded.truncate_dim is not None:  # cut after it was normalised: its length is not 1
        is_replaceable = on_unit_length == _DECLARED[declared]
    had_normalize = is_replaceable and _take_off_last(loaded, Normalize) is not None
    if prepare is not None:
        similarity = prepare.similarity
        similarity.spec = prepare.similarity_spec
    if similarity is None:
        similarity = similarities.create((_OF_UNIT_LENGTH if had_normalize else _DECLARED)[declared])
    return similarity, had_normalize


def _set_tokenizer(tower: SentenceTransformer, name: str, truncation: str | None, end_token: bool | None) -> None:
    """Set the end at which long texts are cut, and whether texts end with a token; by default if the last is pooled."""
    if (truncation is not None or end_token is not None) and not isinstance(tower[0], Transformer):
        raise UsageError(f"{name}: truncation= and end_token= are for transformers")
    if truncation is not None:
        tower.tokenizer.truncation_side = truncation
    if end_token is None and _pools_last_token(tower):
        _append_eos(tower, name, "pooling=last")
    elif end_token:
        _append_eos(tower, name, "end_token=true")
    elif end_token is False:
        _set_ends(tower.tokenizer, None)


def _pools_last_token(tower: SentenceTransformer) -> bool:
    if not isinstance(tower[0], Transformer):
        return False
    return any(isinstance(module, Pooling) and module.pooling_mode == "lasttoken" for module in tower)


def _take_off_last(loaded: SentenceTransformer, kind: type[torch.nn.Module]) -> Any:
    """Remove the last module, of a ``Router`` that of each route, if it is of that kind; ``None`` if it is not."""
    last = list(loaded)[-1]
    ends: list[Any] = [*last.sub_modules.values()] if isinstance(last, Router) else [loaded]
    for end in ends:
        module = end[len(end) - 1] if len(end) > 1 else None
        if (
            not isinstance(module, kind)
            or getattr(module, "module_input_name", "sentence_embedding") != "sentence_embedding"
        ):
            return None
    for end in ends:
        del end[len(end) - 1]
    return module


_DECLARED = {"cosine": "cosine", "dot": "dot", "euclidean": "l2", "manhattan": "l1"}
"""Our names for the similarity that a SentenceTransformer declares; cosine where it declares none."""

_OF_UNIT_LENGTH = {"cosine": "cosine", "dot": "cosine"}
"""Those that score normalised vectors as one of raw vectors does, and which."""

_STOCK_POOLING = {"mean": "mean", "cls": "cls", "last": "lasttoken"}


def _set_pooling(loaded: SentenceTransformer, pooling: str, name: str) -> None:
    indices = [index for index, module in enumerate(loaded) if isinstance(module, (Pooling, TokenPooling))]
    if not indices or not isinstance(loaded[0], Transformer):
        raise UsageError(f"{name}: pooling={pooling} needs a transformer encoder with a pooling layer")
    dimension = loaded[0].get_embedding_dimension()
    layer: torch.nn.Module
    if pooling in _STOCK_POOLING:
        layer = Pooling(dimension, _STOCK_POOLING[pooling])
    elif pooling == "sep":
        token_id = loaded.tokenizer.sep_token_id
        if token_id is None:
            raise UsageError(f"{name}: pooling=sep needs a tokenizer with a separator token")
        layer = TokenPooling(dimension, token_id=token_id)
    else:
        layer = TokenPooling(dimension, position=int(pooling.removeprefix("token")))
    loaded[indices[0]] = layer


def _append_eos(loaded: SentenceTransformer, name: str, option: str) -> None:
    """End every text with the end-of-sequence token, truncated ones too (SFS 5.3), unless the tokenizer ends texts."""
    tokenizer = loaded.tokenizer
    probe = tokenizer.backend_tokenizer.encode("a")
    if probe.special_tokens_mask[-1:] == [1] and 0 in probe.special_tokens_mask:
        return
    eos = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    if eos is None:
        raise UsageError(f"{name}: {option} needs a tokenizer with an end-of-sequence token")
    tokenizer.padding_side = "right"
    _set_ends(tokenizer, eos)


def _set_ends(tokenizer: Any, end: int | None) -> None:
    """Have a text end with the token ``end``, or with none that the tokenizer adds; what it begins with stays."""
    from tokenizers import processors

    probe = tokenizer.backend_tokenizer.encode("a")
    before = takewhile(lambda token: token[2], zip(probe.tokens, probe.ids, probe.special_tokens_mask, strict=True))
    start = [(token, id) for token, id, _ in before]
    ends = [] if end is None else [(tokenizer.convert_ids_to_tokens(end), end)]
    template = " ".join([*(f"{token}:0" for token, _ in start), "$A:0", *(f"{token}:0" for token, _ in ends)])
    added = processors.TemplateProcessing(single=template, special_tokens=[*start, *ends])
    tokenizer.backend_tokenizer.post_processor = added


def _set_lengths(loaded: SentenceTransformer, max_length: int | None, query_max_length: int | None, name: str) -> None:
    first = loaded[0]
    if is_table(first):
        set_length(first.tokenizer, name, max_length, query_max_length)
        return
    positions = positions_of(first)
    if positions is None:
        limit = getattr(first.config.get_text_config(), "max_position_embeddings", None)
    else:
        _, limit = positions
    for option, length in (("max_length", max_length), ("query_max_length", query_max_length)):
        if length is not None and limit and 0 < limit < length:
            raise UsageError(f"{name}: {option}={length} is more than the model's {limit} positions")
    if max_length is not None:
        loaded.max_seq_length = max_length
    if query_max_length is not None:
        first.query_length = query_max_length
