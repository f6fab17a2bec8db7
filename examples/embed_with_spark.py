"""Embed a corpus with Spark, to be registered as an export.

    python examples/embed_with_spark.py data/mine/corpus.jsonl minilm vectors
    retrokit vectors adopt vectors minilm --on data/mine/corpus.jsonl -o exported/documents

It starts a Spark of two local workers; ``--master`` names a cluster, whose workers need retrokit and the encoder. Spark
runs a failed task again (here up to four times). Needs the package pyspark, and Java.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
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
    parser.add_argument("--master", default="local[2,4]")
    options = parser.parse_args()
    spec = options.encoder

    def embed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        encoder = retrokit.encoder(spec)  # once a task
        for batch in batches:
            yield embed_batches(encoder, batch, precision="fp32")

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(options.master)
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", CHUNK)  # the bits are those of retrokit export
        .config("spark.sql.files.openCostInBytes", 1 << 30)  # a file of one portion is a partition
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    documents = [{"id": document.id, "text": document.full_text} for document in read_corpus(options.corpus)]
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, len(documents), CHUNK)):
            portion = pyarrow.Table.from_pylist(documents[start : start + CHUNK])
            pyarrow.parquet.write_table(portion, Path(folder) / f"{number:06}.parquet")
        texts = session.read.parquet(folder)
        texts.mapInArrow(embed, "id string, embedding array<float>").write.parquet(options.output)
    session.stop()


if __name__ == "__main__":
    main()
