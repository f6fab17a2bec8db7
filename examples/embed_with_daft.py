"""Embed a corpus with Daft, to be registered as an export.

    python examples/embed_with_daft.py data/mine/corpus.jsonl minilm vectors
    retrokit vectors adopt vectors minilm --on data/mine/corpus.jsonl -o exported/documents

Two local processes embed. A process loads the encoder once. If one is lost, the job fails; on Ray (``DAFT_RUNNER=ray``)
its portions are repeated. Needs the package daft.
"""

import argparse
from typing import Any

import daft
import pyarrow

import retrokit
from retrokit.data.corpus import read_corpus
from retrokit.data.exports import CHUNK
from retrokit.extensions.vectors import embed_batches


@daft.cls(max_concurrency=2, use_process=True)
class Embed:
    """What a process does."""

    def __init__(self, encoder: str) -> None:
        self.encoder = retrokit.encoder(encoder)

    @daft.method.batch(
        return_dtype=daft.DataType.list(daft.DataType.float32()),
        batch_size=CHUNK,  # the bits are those of retrokit export
    )
    def __call__(self, ids: daft.Series, texts: daft.Series) -> Any:
        table = pyarrow.table({"id": ids.to_arrow(), "text": texts.to_arrow()})
        return embed_batches(self.encoder, table, precision="fp32").column("embedding")


def main() -> None:
    """Read, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="documents, JSON lines of id and text")
    parser.add_argument("encoder")
    parser.add_argument("output", help="folder of Parquet files to write")
    options = parser.parse_args()
    documents = [{"id": document.id, "text": document.full_text} for document in read_corpus(options.corpus)]
    texts = daft.from_arrow(pyarrow.Table.from_pylist(documents))
    embed = Embed(options.encoder)
    embedded = texts.select(daft.col("id"), embed(daft.col("id"), daft.col("text")).alias("embedding"))
    embedded.write_parquet(options.output)


if __name__ == "__main__":
    main()
