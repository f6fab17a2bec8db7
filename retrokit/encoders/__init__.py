"""The registry of encoders: the table of names.

A text whose head is no registered name is a local folder (a finished run, a SentenceTransformer folder, a Hugging Face
checkpoint) or a hub id, and goes to the entry ``model``.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.registry import Entry, Param, Spec, SpecRegistry
from retrokit.core.settings import COMMON
from retrokit.data.prompted import PROMPT
from retrokit.encoders.inputs import inputs_to_show
from retrokit.encoders.inputs import showing_inputs as showing_inputs

if TYPE_CHECKING:
    from retrokit.encoders.base import Encoder

_LOADING, _OPENING = "retrokit.encoders.loading", "retrokit.encoders.opening"

CHUNKS = (
    Param("chunks", int, minimum=1, help="tokens in a chunk of a document"),
    Param("overlap", 0, minimum=0, help="tokens shared with the previous chunk"),
    Param("pool", "max", choices=("max", "mean"), help="score of the best chunk, or mean embedding"),
)
"""Parameters of an entry whose encoder embeds long documents in chunks, which the registry sees to."""
PROMPTS = (
    Param("query_prompt", pattern=PROMPT, help="text before every query; a template ends with {text}"),
    Param("document_prompt", pattern=PROMPT, help="text before every document; a template ends with {text}"),
)
_COMMON = (
    *CHUNKS,
    *PROMPTS,
    Param("query_max_length", int, minimum=1, help="longest query in tokens"),
    Param("max_length", int, minimum=1, help="longest text in tokens"),
)
_FRESH_DTYPE = Param("dtype", "fp32", choices=("fp32", "bf16", "fp16"), help="type of the weights")
_ATTENTION = Param("attention", choices=("sdpa", "flash", "eager"), help="attention implementation")
_DTYPE = Param(
    "dtype",
    "auto",
    choices=("auto", "fp32", "bf16", "fp16"),
    help="type of the weights; auto: as stored",
)
_HUB = (
    Param("revision", help="branch, tag or commit of a hub id"),
    Param("trust_remote_code", False, help="run code that comes with the model"),
    Param("bits", choices=("4", "8"), help="quantise the weights to 4 or 8 bits (bitsandbytes)", extra="bits"),
    Param("device_map", help="placement on several devices: auto, balanced, …"),
)
_POOLING = Param("pooling", pattern=r"mean|cls|last|sep|token\d{1,5}", help="mean, cls, last, sep or tokenK (K from 0)")
_ENDS = (
    Param("truncation", choices=("left", "right"), help="end at which a long text is cut"),
    Param("end_token", bool, help="whether a text ends with the end-of-sequence token"),
)


class EncoderRegistry(SpecRegistry):
    """A registry whose encoders, third parties' too, lie over the user's embedding cache, and chunks over that."""

    def create(self, spec: str | Spec, **context: Any) -> Any:
        """Make what ``spec`` names."""
        from retrokit.encoders.cached import cached
        from retrokit.encoders.chunks import chunked
        from retrokit.encoders.views import ShownEncoder

        named = self.parse(spec)
        spec = replace(named, label="")
        joined: dict[str, Any] = {
            param.name: spec.params.get(param.name, param.default) for param in self._chunks(spec)
        }
        unchunked = replace(spec, params={name: value for name, value in spec.params.items() if name not in joined})
        encoder: Encoder = cached(super().create(unchunked, **context))
        if inputs_to_show.get():
            encoder = ShownEncoder(encoder)
        if joined:
            encoder = chunked(encoder, str(spec), **joined)
        encoder.label = named.label
        return encoder

    def check_is_there(self, spec: str | Spec) -> None:
        """Raise :class:`UsageError` for a model that is neither a folder nor at the hub; loads nothing."""
        from retrokit.encoders.folders import check_is_there

        spec = self.parse(spec)
        if spec.name == self.fallback:
            check_is_there(spec.path)

    def options(self, spec: Spec) -> dict[str, Any]:
        """All parameters that its target takes."""
        chunks = {param.name for param in self._chunks(spec)}
        return {name: value for name, value in super().options(spec).items() if name not in chunks}

    def _chunks(self, spec: Spec) -> list[Param]:
        return [param for param in self.entry(spec.name).params if param in CHUNKS]


registry = EncoderRegistry(
    "encoder",
    "retrokit.encoders",
    [
        Entry(
            "minilm",
            "all-MiniLM-L6-v2 (384 dimensions): from the installed weights package, else from the hub",
            f"{_OPENING}:minilm",
            (_POOLING, *_ENDS, *_COMMON, _DTYPE, _ATTENTION),
        ),
        Entry(
            "clip",
            "an image-text model: texts and images in one space (CLIP, SigLIP, …)",
            f"{_OPENING}:clip",
            (Param("path", required=True, help="folder or hub id"), *_COMMON, _DTYPE, _ATTENTION, *_HUB),
            positional="path",
        ),
        Entry(
            "static",
            "a table of token embeddings with fresh weights",
            f"{_OPENING}:static",
            (
                Param("dim", 768, minimum=1, maximum=65536, help="embedding dimensions"),
                Param("tokenizer", "minilm", help="encoder, folder or hub id whose tokenizer it uses"),
                COMMON["seed"],
                *_COMMON,
                _FRESH_DTYPE,
            ),
            positional="dim",
        ),
        Entry(
            "scratch",
            "the architecture of a folder, hub id or minilm, with fresh weights",
            f"{_LOADING}:scratch",
            (
                Param("architecture", required=True, help="folder, hub id or minilm"),
                COMMON["seed"],
                _POOLING,
                *_COMMON,
                _FRESH_DTYPE,
            ),
            positional="architecture",
        ),
        Entry(
            "model",
            "a run, a SentenceTransformer folder, a Hugging Face checkpoint, or a hub id (the name may be left out)",
            f"{_OPENING}:model",
            (
                Param("path", required=True, help="folder or hub id"),
                _POOLING,
                *_ENDS,
                *_COMMON,
                _DTYPE,
                _ATTENTION,
                *_HUB,
            ),
            positional="path",
        ),
    ],
    fallback="model",
    has_labels=True,
)


def create_for(owner: object, spec: str, device: str | None, advice: str) -> "Encoder":
    """The encoder ``spec`` that the folder ``owner`` names. If it cannot be loaded, the error names both, and gives the
    ``advice``."""
    try:
        encoder: Encoder = registry.create(spec, device=device)
    except (DataError, ServiceError, UsageError) as error:
        kind = ServiceError if isinstance(error, ServiceError) else UsageError
        raise kind(f"{owner}: needs {spec}, which cannot be loaded ({error}); {advice}") from error
    return encoder
