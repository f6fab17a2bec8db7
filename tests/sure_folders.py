"""SURE folders that the tests write: small ones by hand, and cuts of the published ones."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

VARIANTS = {
    "key-sentences": "key-sentences.jsonl",
    "key-sentences-with-noise": "key-sentences-with-noise.jsonl",
    "summary": "summaries.jsonl",
    "expansion": "expansions.jsonl",
    "paraphrase": "passages-with-keywords-replaced.jsonl",
}


def write_sure(
    folder: Path,
    queries: Mapping[str, str],
    qrels: Mapping[str, str],
    passages: Mapping[str, str],
    variants: Mapping[str, Mapping[str, str]],
    equivalence: Iterable[str] | None = None,
) -> Path:
    """A folder in the layout of the release; ``equivalence`` names the queries of that testbed, by default all."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(queries if equivalence is None else equivalence)
    for name, ids in (
        (f"query-{len(queries)}.tsv", queries),
        (f"query-{len(chosen)}-semantic-equivalence.tsv", chosen),
    ):
        (folder / name).write_text("".join(f"{id}\t{queries[id]}\n" for id in ids))
    judged = "".join(f"{query}\t0\t{passage}\t1\n" for query, passage in qrels.items())
    (folder / f"qrels-{len(qrels)}.tsv").write_text(judged)
    for name, texts in (("passages.jsonl", passages), *((VARIANTS[kind], texts) for kind, texts in variants.items())):
        rows = [json.dumps({"id": id, "contents": text}, ensure_ascii=False) + "\n" for id, text in texts.items()]
        (folder / name).write_text("".join(rows))
    return folder


def small_folder(folder: Path, count: int = 4) -> Path:
    """``count`` queries q0, q1, … with passages p0, p1, … and a variant of each kind for each."""
    ids = range(count)
    return write_sure(
        folder,
        {f"q{i}": f"query {i}" for i in ids},
        {f"q{i}": f"p{i}" for i in ids},
        {f"p{i}": f"passage {i}" for i in ids},
        {kind: {f"p{i}": f"{kind} {i}" for i in ids} for kind in VARIANTS},
    )


def cut(source: Path, target: Path, queries: int, passages: int) -> Path:
    """The first ``queries`` queries of a published folder, with the first ``passages`` passages and their own."""

    def lines(pattern: str) -> list[str]:
        (path,) = source.glob(pattern)
        return path.read_text(encoding="utf-8").splitlines()

    judged = dict(line.split("\t")[0::2] for line in lines("qrels-*.tsv"))  # id, passage: columns 0 and 2
    texts = dict(line.split("\t") for line in lines("query-*[0-9].tsv")[:queries])
    paraphrased = {line.split("\t")[0] for line in lines("query-*-semantic-equivalence.tsv")}

    def contents(name: str) -> dict[str, str]:
        rows = (json.loads(line) for line in (source / name).read_text(encoding="utf-8").splitlines())
        return {row["id"]: row["contents"] for row in rows}

    own = {judged[query] for query in texts}
    every = contents("passages.jsonl")
    kept = {id: text for i, (id, text) in enumerate(every.items()) if i < passages or id in own}
    found = {kind: {id: text for id, text in contents(name).items() if id in own} for kind, name in VARIANTS.items()}
    return write_sure(
        target,
        texts,
        {query: judged[query] for query in texts},
        kept,
        found,
        [query for query in texts if query in paraphrased],
    )
