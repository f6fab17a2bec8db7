"""Search exported embeddings in DuckDB, which knows nothing of encoders and similarities, only the inner product.

    retrokit export minilm --on data/scifact --sim sfs:16 -o exported/documents
    retrokit export minilm --on data/scifact --sim sfs:16 --role query -o exported/queries
    python examples/search_in_duckdb.py exported/documents exported/queries --run duckdb.trec

It needs ``python -m pip install duckdb``. With ``--compare FILE``, a TREC run of the same queries such as
``retrokit eval --save-run`` writes, it counts the queries whose best documents are the same, and exits with 1 if any
differ. Documents whose scores are equal within rounding may change places.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np

from retrokit.data.exports import TABLE, Export, open_export
from retrokit.data.quantization import Quantization
from retrokit.data.trec import read_run, write_run

ROUNDING = 1e-5  # of the score, between sums of float32 in different orders


def load(database: duckdb.DuckDBPyConnection, documents: Export) -> None:
    """Read the Parquet file, or that of each shard, into the table ``documents``."""
    database.execute(
        f"CREATE TABLE documents AS SELECT id, embedding::FLOAT[{documents.note['dimension']}] AS embedding "
        "FROM read_parquet($files)",
        {"files": [str(part.folder / TABLE) for part in documents.parts]},
    )


def search(
    database: duckdb.DuckDBPyConnection, queries: Export, k: int, kept: Quantization
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Each query's id, with the ids and scores of its ``k`` best documents, best first; ``kept``: how these are
    stored."""
    scale, offset = kept.linear() if kept.ranges is not None else (np.float32(1), np.float32(0))
    dimension = queries.note["dimension"]
    for identifier, embedding in zip(queries.ids(), queries.vectors(), strict=True):
        found = database.execute(
            f"SELECT id, array_inner_product(embedding, $query::FLOAT[{dimension}]) + $more AS score "
            "FROM documents ORDER BY score DESC, id DESC LIMIT $k",
            {"query": (embedding * scale).tolist(), "more": float((embedding * offset).sum()), "k": k},
        )
        yield identifier, found.fetchall()


def check_match(documents: Export, queries: Export) -> None:
    """Raise SystemExit unless both sides were made by the same encoder for the same similarity."""
    for of, name in (
        ("similarity", "spec"),
        ("similarity", "learned"),
        ("encoder", "fingerprint"),
        ("encoder", "dims"),
    ):
        if documents.note[of][name] != queries.note[of][name]:
            raise SystemExit(f"{documents.folder} and {queries.folder} differ in the {name} of their {of}")


def is_same(ours: Mapping[str, float], theirs: Sequence[tuple[str, float]]) -> bool:
    """Whether ``theirs``, best first, are the best of ``ours``, up to the order of equal scores."""
    best = sorted(ours, key=ours.__getitem__, reverse=True)[: len(theirs)]
    return len(best) == len(theirs) and all(
        found == expected or abs(ours.get(found, float("-inf")) - ours[expected]) <= ROUNDING * max(1, abs(score))
        for (found, score), expected in zip(theirs, best, strict=True)
    )


def main() -> int:
    """Load, search, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", help="folder of retrokit export")
    parser.add_argument("queries", help="folder of retrokit export --role query")
    parser.add_argument("--top", type=int, default=10, help="documents of a query")
    parser.add_argument("--run", type=Path, help="TREC run to write")
    parser.add_argument("--compare", type=Path, help="TREC run to compare with")
    given = parser.parse_args()
    documents, queries = open_export(given.documents), open_export(given.queries)
    check_match(documents, queries)
    with duckdb.connect() as database:
        load(database, documents)
        found = dict(search(database, queries, given.top, documents.parts[0].quantization()))
    if given.run:
        write_run(given.run, {query: dict(ranked) for query, ranked in found.items()}, tag="duckdb")
    if not given.compare:
        return 0
    expected = read_run(given.compare)
    same = [is_same(expected[query], found[query]) for query in expected]
    print(f"{sum(same)} of {len(same)} queries have the same top {given.top}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
