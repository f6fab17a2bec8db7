"""Writing a model's folder, with its settings in the form that servers read.

sentence-transformers has written them otherwise since 5.4, and still reads the earlier form. vLLM knows the new names
of modules and poolings since September 2026 only. Text Embeddings Inference 1.9 knows neither them nor a
``sentence_bert_config.json`` without a length (docs/how-to/export-vectors.md).
"""

import copy
from pathlib import Path
from typing import Any

from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

from retrokit.core.notices import no_progress_bars
from retrokit.data.jsonl import read_json, write_json
from retrokit.encoders import tables
from retrokit.encoders.adapters import saving_adapters

_EARLIER_TYPES = {
    f"{module.__module__}.{module.__name__}": f"sentence_transformers.models.{module.__name__}"
    for module in (Dense, Normalize, Pooling, StaticEmbedding, Transformer)
}
"""The class of a module in ``modules.json``, and its name before 5.4."""
_EARLIER_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
"""The mode of a ``Pooling``, and the switch that it was before 5.4."""
_ASSUMED = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
"""Settings of a ``Transformer`` that the library assumes, and that it does not load before 5.4."""
_LARGEST_LENGTH = 2**31 - 1
"""A tokenizer without a limit has a larger one."""


def in_library(model: Any) -> Any:
    """The model with the library's class for each table of ours, whose weights are shared; itself without any."""
    ours = [module for module in model.modules() if isinstance(module, tables.StaticEmbedding)]
    if not ours:
        return model
    shared: dict[int, Any] = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    for table in ours:
        shared[id(table)] = StaticEmbedding(table.tokenizer, table.embedding.weight.detach())
    copied = copy.deepcopy(model, shared)  # what is copied already, by id
    if not isinstance(model, tables.PlainModel):
        return copied
    return SentenceTransformer(
        modules=list(copied),
        device=str(model.device),
        prompts=model.prompts,
        similarity_fn_name=model.similarity_fn_name,
        truncate_dim=model.truncate_dim,
    )


def save_model(model: SentenceTransformer | CrossEncoder, folder: Path) -> None:
    """Save a model without a card."""
    model = in_library(model)
    with no_progress_bars(), saving_adapters(model[0]):
        model.save(str(folder), create_model_card=False)
    entries = read_json(folder / "modules.json", "modules", list)
    for entry, module in zip(entries, model, strict=True):
        entry["type"] = _EARLIER_TYPES.get(entry["type"], entry["type"])
        if isinstance(module, Pooling):
            _write_pooling(module, folder / entry["path"])
        if isinstance(module, Transformer):
            _write_length(module, folder / entry["path"])
    write_json(folder / "modules.json", entries, indent=2)


def _write_pooling(pooling: Pooling, folder: Path) -> None:
    if not isinstance(pooling.pooling_mode, str):
        return  # the earlier form has another order of several modes
    settings: dict[str, Any] = {"word_embedding_dimension": pooling.embedding_dimension}
    for mode, switch in _EARLIER_POOLINGS.items():
        settings[switch] = mode == pooling.pooling_mode
    settings["include_prompt"] = pooling.include_prompt  # last: a server takes the first switch that is on
    write_json(folder / Pooling.config_file_name, settings, indent=2)


def _write_length(transformer: Transformer, folder: Path) -> None:
    length = transformer.max_seq_length
    is_for_texts = {*transformer.modalities} <= {"text", "message"}
    if length is None or length > _LARGEST_LENGTH or not is_for_texts:
        return
    path = folder / Transformer.config_file_name
    settings = read_json(path, "settings")
    if settings == _ASSUMED:
        settings = {}
    settings["max_seq_length"] = length
    settings["do_lower_case"] = False  # the tokenizer's own settings say so
    write_json(path, settings, indent=2)
