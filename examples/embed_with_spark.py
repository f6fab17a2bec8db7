"""Embed a corpus with Spark, to be registered as an export.

    python examples/embed_with_spark.py data/mine/corpus.jsonl minilm vectors
    retrokit vectors adopt vectors minilm --on data/mine/corpus.jsonl -o exported/documents

Two local workers embed. A task loads the encoder, and embeds one portion. The vectors agree with those of
``retrokit export`` to rounding, not to the bit. Needs the package pyspark, and Java 17.
"""

import argparse
import os
import sys
from collections.abc import Iterator

import pyarrow
from pyspark.sql import SparkSession

import retrokit
from retrokit.data.corpus import read_corpus
from retrokit.data.exports import CHUNK
from retrokit.extensions.vectors import embed_batches


def main() -> None:
    """Read, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="documents, JSON lines of id and text")
    parser.add_argument("encoder")
    parser.add_argument("output", help="folder of Parquet files to write")
    parser.add_argument("--master", default="local[2]", help="two local workers, or the address of a cluster")
    options = parser.parse_args()
    encoder_name = options.encoder

    def embed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        encoder = retrokit.encoder(encoder_name)
        for batch in batches:
            yield embed_batches(encoder, batch, precision="fp32")

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": CHUNK,
        "spark.ui.enabled": False,
    }
    spark = SparkSession.builder.master(options.master).config(map=settings).getOrCreate()
    documents = [{"id": document.id, "text": document.full_text} for document in read_corpus(options.corpus)]
    texts = spark.createDataFrame(pyarrow.Table.from_pylist(documents))
    embedded = texts.mapInArrow(embed, "id string, embedding array<float>")
    embedded.write.parquet(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
