"""The reranker ``generative``: a decoder that answers yes or no, whose score is the log-odds of the answer.

Such a model is a ``CrossEncoder`` of sentence-transformers, with a chat template of the roles query and document and a
``LogitScore``. Folders that were saved for the library bring both. For others the template and the two tokens come from
the options, or from the table of published forms in ``generative.toml``.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.util import is_sentence_transformer_model
from torch import nn

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.encoders.folders import architectures, tokenizer_of
from retrokit.ranking.reranking.library import (
    CrossEncoderReranker,
    load_cross_encoder,
    loaded_dtype,
    loading_model,
    set_length,
)

_CONTENT = '{{{{ messages | selectattr("role", "eq", "{}") | map(attribute="content") | first }}}}'
_INSTRUCTED = "instruction"  # the name of a prompt


class GenerativeReranker(CrossEncoderReranker):
    """Scores pairs by logit(yes) − logit(no), or only by logit(yes)."""

    computes_once = "query"

    def lengths(self, queries: Sequence[str], documents: Sequence[str]) -> list[int]:
        """Tokens of each pair in the template."""
        pairs = zip(queries, documents, strict=True)
        messages = [
            [{"role": "query", "content": query}, {"role": "document", "content": document}]
            for query, document in pairs
        ]
        rows = self.model.tokenizer.apply_chat_template(messages, return_dict=True, padding=False)["input_ids"]
        return [len(row) for row in rows]

    def description(self) -> dict[str, Any]:
        """As of any cross-encoder; template and tokens."""
        score: Any = self.model[1]
        own = {"template": self.model.tokenizer.chat_template, "score": score.get_config_dict()}
        return {**super().description(), **own, "prompt": self.model.default_prompt_name}


@cache
def forms() -> dict[str, dict[str, Any]]:
    """The published forms by name."""
    text = files("retrokit.extensions.zero_shot").joinpath("generative.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def generative(
    path: str,
    form: str | None,
    template: str | None,
    instruction: str | None,
    yes: str | None,
    no: str | None,
    layer: int | None,
    max_length: int | None,
    dtype: str,
    device: str | None = None,
    default: str | None = None,
) -> GenerativeReranker:
    """The decoder of a folder or a hub id, with the form ``default`` if it does not say how it is prompted. Raises
    :class:`UsageError` for an unknown form, a template without places, a yes or no that is not a single token, a layer
    that the model lacks, and as :func:`~retrokit.ranking.reranking.library.cross_encoder`."""
    with loading_model("generative", "model", path):
        is_complete = is_sentence_transformer_model(path)
        tokenizer = tokenizer_of(path)
        is_decoder = any(name.endswith("ForCausalLM") for name in architectures(path))
    fields = _form_of(path, form, template, default, is_complete)
    logit_score = _logit_score(path, _answers_of(path, fields, yes, no), tokenizer)
    options: dict[str, Any] = {}
    if not is_complete and tokenizer.pad_token is None:
        options["pad_token"] = tokenizer.eos_token
    prompt = instruction
    template = fields.get("template") if template is None else template
    if template is not None:
        prompt = None
        options["chat_template"] = _chat_template(path, template, _instruction_of(fields, instruction), tokenizer)

    def load() -> CrossEncoder:
        loading: dict[str, Any] = {
            "model_kwargs": {"dtype": loaded_dtype(dtype, device)},
            "processor_kwargs": options,
        }
        if logit_score is None or is_complete or not is_decoder:
            return CrossEncoder(path, device=device, **loading)
        # the library's own way needs a tokenizer that has its two answers
        decoder = Transformer(path, transformer_task="text-generation", **loading)
        return CrossEncoder(modules=[decoder, logit_score], device=device)

    def prepare(loaded: CrossEncoder) -> None:
        _set_up(path, loaded, prompt, logit_score, layer)

    loaded = load_cross_encoder("generative", path, load, prepare)
    if max_length is not None:
        set_length(path, loaded, max_length)
    return GenerativeReranker(f"generative:{path}", loaded)


def _form_of(
    path: str, form: str | None, template: str | None, default: str | None, is_complete: bool
) -> Mapping[str, Any]:
    """The fields of the published form: the one that is given, else, unless the folder ``is_complete``, that of the
    model's name. Raises :class:`UsageError` if nothing says how the model is prompted."""
    if form is not None:
        return forms()[form]
    if is_complete:
        return {}
    for published in forms().values():
        if any(name in path.lower() for name in published["names"]):
            return published
    if template is not None:
        return {"yes": "yes", "no": "no"}
    if default is not None:
        return forms()[default]
    raise UsageError(f"{path}: does not say how it is prompted; give form={'|'.join(forms())}, or template=")


def _answers_of(path: str, fields: Mapping[str, Any], yes: str | None, no: str | None) -> tuple[str | None, str | None]:
    """The words of both answers. With a ``yes`` of its own, the form's ``no`` does not count."""
    if yes is not None:
        return yes, no
    answers = fields.get("yes"), fields.get("no") if no is None else no
    if answers[0] is None and no is not None:
        raise UsageError(f"{path}: no={no} needs yes=")
    return answers


def _logit_score(path: str, words: Sequence[str | None], tokenizer: Any) -> LogitScore | None:
    """What scores the answers yes and perhaps no; ``None`` without a yes."""
    ids = [None if word is None else _token(path, word, tokenizer) for word in words]
    return None if ids[0] is None else LogitScore(*ids)


def _instruction_of(fields: Mapping[str, Any], instruction: str | None) -> str:
    """The text of the template's instruction."""
    if instruction is None:
        return str(fields.get("instruction", ""))
    text: str = fields.get("given", "{}").format(instruction)
    return text


def _set_up(
    path: str, loaded: CrossEncoder, prompt: str | None, logit_score: LogitScore | None, layer: int | None
) -> None:
    """Give a loaded model its prompt, its answers and its last layer. Raises :class:`UsageError` for a model of another
    kind, or a layer that it lacks."""
    if len(loaded) != 2 or not isinstance(loaded[1], LogitScore):
        raise UsageError(f"{path}: is no decoder that answers yes or no; cross-encoder:{path} may load it")
    loaded.activation_fn = nn.Identity()
    if prompt is not None:
        loaded.prompts, loaded.default_prompt_name = {**loaded.prompts, _INSTRUCTED: prompt}, _INSTRUCTED
    if logit_score is not None:
        loaded[1] = logit_score
    if layer is not None:
        _cut(path, loaded[0].model, layer)


def _chat_template(path: str, template: str, instruction: str, tokenizer: Any) -> str:
    """The template of the library for one with the places ``{query}``, ``{document}`` and perhaps ``{instruction}``.
    Raises :class:`UsageError` unless the document comes once, after the query: its end is what is cut."""
    texts = re.split(r"\{(query|document)\}", template.replace("{instruction}", instruction))
    if texts[1::2] != ["query", "document"]:
        raise UsageError(f"{path}: the template {template[:80]!r} needs {{query}} and then {{document}}, each once")
    begins = tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
    filled = [
        _CONTENT.format(text) if number % 2 else f"{{{{ {json.dumps(text)} }}}}" for number, text in enumerate(texts)
    ]
    return "".join(["{{ bos_token }}" if begins else "", *filled])


def _token(path: str, word: str, tokenizer: Any) -> int:
    """The token of an answer; raises :class:`UsageError` if it is none, or several."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        tokens = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(ids)))
        raise UsageError(f"{path}: the answer {word!r} is not a single token ({tokens}); give yes= and no=")
    return int(ids[0])


def _cut(path: str, model: Any, layer: int) -> None:
    """Leave the first ``layer`` layers, behind which the last norm and the head follow (BGE's layerwise form)."""
    body, config = model.base_model, model.config
    layers = getattr(body, "layers", ())
    if layer > len(layers):
        raise UsageError(f"{path}: layer={layer} is more than the model's {len(layers)} layers")
    body.layers, config.num_hidden_layers = layers[:layer], layer
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layer]


@dataclass(frozen=True)
class DecoderBeginning:
    """The start of ``rerank train generative``: a decoder, which answers as BGE's do unless it says otherwise."""

    form: str | None = None
    template: str | None = None
    instruction: str | None = None
    yes: str | None = None
    no: str | None = None

    def model(self, base: str, max_length: int | None, seed: int, device: str | None) -> CrossEncoder:
        """The decoder of a folder or a hub id in float32. Raises :class:`UsageError` for an encoder with options, and
        as :func:`generative`."""
        spec = encoders.registry.parse(base)
        if spec.name != "model" or len(spec.params) > 1:
            raise UsageError(f"{base}: a decoder to start from is a folder or a hub id, without options")
        options = self.form, self.template, self.instruction, self.yes, self.no
        loaded: CrossEncoder = generative(spec.path, *options, None, max_length, "fp32", device, "bge").model
        return loaded

    def reranker(self, model: CrossEncoder) -> GenerativeReranker:
        """Scores with a model that is trained."""
        return GenerativeReranker("", model)
