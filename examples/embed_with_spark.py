"""Embed a corpus with Spark, to be registered as an export.

    python examples/embed_with_spark.py data/mine/corpus.jsonl minilm vectors
    retrokit vectors adopt vectors minilm --on data/mine/corpus.jsonl -o exported/documents

Two local workers embed. A task loads the encoder, and embeds one portion. Spark repeats the portions of a lost worker.
Needs the package pyspark, and Java 17.
"""

import argparse
import os
import sys

import pyarrow
import torch
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
    parser.add_argument(
        "--master", default="local[2,4]", help="two local workers and four attempts at a task, or a cluster's address"
    )
    options = parser.parse_args()
    encoder_name = options.encoder

    def embed(portion: pyarrow.Table) -> pyarrow.Table:
        encoder = retrokit.encoder(encoder_name)
        return embed_batches(encoder, portion.sort_by("position"), precision="fp32")

    documents = [
        {"position": position, "portion": position // CHUNK, "id": document.id, "text": document.full_text}
        for position, document in enumerate(read_corpus(options.corpus))
    ]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.sql.shuffle.partitions": documents[-1]["portion"] + 1,
        "spark.sql.adaptive.coalescePartitions.enabled": False,  # small tables too are embedded by several workers
        # Spark's default is one thread. The number of threads decides the last bit of a vector.
        "spark.executorEnv.OMP_NUM_THREADS": torch.get_num_threads(),
        "spark.ui.enabled": False,
    }
    spark = SparkSession.builder.master(options.master).config(map=settings).getOrCreate()
    texts = spark.createDataFrame(pyarrow.Table.from_pylist(documents))
    # A group is a portion of retrokit export, so that the bits are the same.
    embedded = texts.groupBy("portion").applyInArrow(embed, "id string, embedding array<float>")
    embedded.write.parquet(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
