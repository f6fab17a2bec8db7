"""What an export is asked for: for Python, and as the options of ``retrokit export``."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from retrokit.core.settings import FOLDER, PRECISION, PRECISIONS, Settings, setting
from retrokit.data.dtypes import DTYPES

ROLES: tuple[Literal["document"], Literal["query"]] = ("document", "query")


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Embeddings of which texts, by which encoder, written where and how.

    Attributes:
        source: of a BEIR folder the corpus is taken, or the queries.
        dtype: for int8 a dimension's range is that of a sample of texts, taken evenly from all of ``source``
            (:mod:`retrokit.data.quantization`).
        shard: its folder lies within ``output``; all n are read as one.
    """

    encoder: str = setting(help="Encoder whose embeddings are written.", argument=True)
    source: str = setting(
        help="Texts: JSON lines of id and text, - is standard input; or a BEIR folder.", flags=("--on",)
    )
    output: str = setting(help="Folder to write.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    sim: str | None = setting(None, "Similarity that prepares them; default: the encoder's own.")
    role: str = setting("document", "What the texts are.", choices=ROLES)
    dims: int | None = setting(None, "Use the first N dimensions of the encoder's only.")
    dtype: str = setting("float32", "What is stored; float16 takes half of float32, int8 a quarter.", choices=DTYPES)
    one_length: bool = setting(
        False, "Add a dimension in which documents get one length, for stores that know only cosine or L2."
    )
    shard: str | None = setting(
        None, "i/n: the i-th of n parts of the texts; under torchrun each process makes one by itself."
    )
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)
    overwrite: bool = setting(False, "Replace the export, or the shard, in the output folder.")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.one_length and self.dtype != "float32":
            yield f"`one_length=` is for float32, and `dtype=` is {self.dtype}"
        if self.one_length and self.shard is not None:
            yield f"`one_length=` is that of all documents: give no `shard=` ({self.shard})"
