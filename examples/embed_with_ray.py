"""Embed a corpus with Ray Data, to be registered as an export.

    python examples/embed_with_ray.py data/mine/corpus.jsonl minilm vectors
    retrokit vectors adopt vectors minilm --on data/mine/corpus.jsonl -o exported/documents

It starts a Ray of two local workers, or joins the cluster of ``RAY_ADDRESS``. A worker loads the encoder once. Ray
replaces a lost worker, and repeats its portions. Needs the package ray.
"""

import argparse
import os
from typing import Any

import pyarrow
import ray
import torch

import retrokit
from retrokit.data.corpus import read_corpus
from retrokit.data.exports import CHUNK
from retrokit.extensions.vectors import embed_batches


class Embed:
    """What a worker does."""

    def __init__(self, encoder: str) -> None:
        self.encoder = retrokit.encoder(encoder)

    def __call__(self, table: Any) -> Any:
        return embed_batches(self.encoder, table, precision="fp32")


def main() -> None:
    """Read, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="documents, JSON lines of id and text")
    parser.add_argument("encoder")
    parser.add_argument("output", help="folder of Parquet files to write")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if "RAY_ADDRESS" not in os.environ:
        ray.init(num_cpus=options.workers + 1, include_dashboard=False)
    documents = [{"id": document.id, "text": document.full_text} for document in read_corpus(options.corpus)]
    portions = [
        pyarrow.Table.from_pylist(documents[start : start + CHUNK]) for start in range(0, len(documents), CHUNK)
    ]
    embedded = ray.data.from_arrow(portions).map_batches(
        Embed,
        fn_constructor_args=(options.encoder,),
        batch_format="pyarrow",
        batch_size=None,  # a block, which is a portion: the bits are those of retrokit export
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=1,
        # Ray's default is one thread. The number of threads decides the last bit of a vector.
        runtime_env={"env_vars": {"OMP_NUM_THREADS": str(torch.get_num_threads())}},
    )
    embedded.write_parquet(os.path.abspath(options.output))


if __name__ == "__main__":
    main()
