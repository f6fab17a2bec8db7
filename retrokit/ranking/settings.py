"""Settings of search, export and verifiers, for Python and the command line."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from retrokit.core.settings import FILE, FOLDER, FOLDER_OR_ADDRESS, Settings, common, setting
from retrokit.data.dtypes import DTYPES


@dataclass(frozen=True)
class SearchSettings(Settings):
    """Which documents are searched by what, and for what. ``k`` is the number of documents of a query."""

    first = (
        *("corpus", "index_folder", "queries", "query", "k", "sim", "index", "quantize"),
        *("interactive", "output", "format"),
    )

    searcher: str | None = setting(
        None,
        "Encoder, bm25 or another searcher; default: that of `index_folder=`.",
        argument=True,
        metavar="SYSTEM",
        names="encoders,searchers",
    )
    corpus: str | None = setting(
        None, "Texts to search in: JSON lines of id and text, - is standard input; or a BEIR folder.", names="data"
    )
    index_folder: str | None = setting(
        None, "Folder of retrokit export, whole or in shards, whose documents are not embedded again.", reads=FOLDER
    )
    queries: str | None = setting(None, "Queries: JSON lines of id and text, TSV of both, or a BEIR folder.")
    query: Sequence[str] = setting((), "A query. Repeatable.")
    k: int = setting(10, "Documents of a query.", flags=("-k",), minimum=1)
    sim: str | None = setting(None, "Similarity; default: the encoder's own, or the folder's.", names="similarities")
    dims: int | None = common("dims")
    index: str | None = common("index")
    quantize: str | None = setting(
        None, "Storage dtype: float16, int8, binary, binary+rescore; default: float32, or the folder's."
    )
    precision: str = common("precision")
    show_inputs: int = common("show_inputs")
    device: str | None = common("device")

    @property
    def shows_texts(self) -> bool:
        """Whether hits are shown with their texts."""
        return True

    def check_ids(self, what: str, ids: Iterable[str]) -> None:
        """Raise :class:`DataError`, before anything is embedded, for an id, a ``what``, that the results could not be
        written with."""

    def options(self) -> dict[str, Any]:
        """Those of :func:`retrokit.ranking.retrieval.create`."""
        return {name: getattr(self, name) for name in ("sim", "dims", "precision", "index", "quantize")}


ROLES: tuple[Literal["document"], Literal["query"]] = ("document", "query")


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Embeddings of which texts, by which encoder, written where and how. The folder of a ``shard`` is in
    ``output``."""

    first = ("source", "output", "sim", "role", "dims", "dtype", "one_length", "shard", "overwrite", "as_json")

    encoder: str = setting(help="Encoder whose embeddings are written.", argument=True, names="encoders")
    source: str = setting(
        help="Texts: JSON lines of id and text, - is standard input; or a BEIR folder.", flags=("--on",), names="data"
    )
    output: str = common(
        "output", help="Folder to write, or an address such as s3://bucket/folder.", writes=FOLDER_OR_ADDRESS
    )
    _: KW_ONLY
    sim: str | None = setting(None, "Similarity that prepares them; default: the encoder's own.", names="similarities")
    role: str = setting("document", "What the texts are.", choices=ROLES)
    only: str | None = setting(None, "Embed only the texts with these ids: a file, one a line.", reads=FILE)
    dims: int | None = common("dims")
    dtype: str = setting("float32", "Storage dtype; float16 takes half of float32, int8 a quarter.", choices=DTYPES)
    one_length: bool = setting(
        False,
        "Add a dimension that gives documents one norm, for vector databases with only cosine or L2.",
        excludes=("shard",),
    )
    shard: str | None = setting(None, "i/n: the i-th of n parts of the texts; under torchrun each process makes one.")
    precision: str = common("precision")
    show_inputs: int = common("show_inputs")
    device: str | None = common("device")
    overwrite: bool = common("overwrite", help="Replace the export, or the shard, in the output folder.")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.one_length and self.dtype != "float32":
            yield f"`one_length=` is for float32, and `dtype=` is {self.dtype}"


KEEP = ("all", "accepted", "rejected")
_RUN = "Folder of rerank train."
_JUDGE = "Folder of rerank train; or default, the packaged verifier."


@dataclass(frozen=True)
class CalibrationSettings(Settings):
    """The calibration of a verifier's threshold."""

    folder: str = setting(help=_RUN, argument=True, metavar="RUN", names="runs", reads=FOLDER)
    pairs: str = setting(
        help="Held-out pairs: of augment near-misses; text, near_miss, positive; or labels.", argument=True, reads=FILE
    )
    false_accept_rate: float = setting(0.05, "False-accept rate to allow, above 0 and below 1.", above=0, below=1)
    _: KW_ONLY
    precision: str = common("precision", default="fp32")
    device: str | None = common("device")


@dataclass(frozen=True)
class ShrinkSettings(Settings):
    """A small copy of a verifier."""

    folder: str = setting(
        help="Folder of rerank train --end-to-end.", argument=True, metavar="RUN", names="runs", reads=FOLDER
    )
    output: str = common("output", writes=FOLDER)
    rank: int = setting(32, "Rank of the matrices with the changes of a weight.")
    encoder: str | None = setting(
        None, "Encoder to start from, of the same shape. Default: that of the training.", names="encoders"
    )


@dataclass(frozen=True)
class VerifySettings(Settings):
    """The pairs to judge, and the lines to write."""

    folder: str = setting(help=_JUDGE, argument=True, metavar="RUN", names="runs")
    pairs: str = setting("-", "JSON lines with two texts each; - is standard input.", argument=True, reads=FILE)
    output: str = common("output_lines")
    threshold: float | None = setting(None, "Lowest accepted score. Default: the calibrated one.", canonical=float)
    keep: str = setting("all", "Lines to write.", choices=KEEP)
    _: KW_ONLY
    precision: str = common("precision", default="fp32")
    device: str | None = common("device")
