"""What a benchmark is built from: queries, each with one relevant passage (SURE, 4.1).

From a BEIR folder, or from JSONL files of queries and of passages. A query's passage is the one of its highest grade,
and of several such one that the seed draws. The layout of SURE's release knows variants by their passage, so no two
queries can have the same one: the later takes another of its best, or is left out.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from retrokit.augmentation.draws import bits
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.data.beir import corpus_file, judgements_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.jsonl import Faults, kind_of, read_jsonl
from retrokit.data.pairs import beir_folder
from retrokit.data.trec import fits_a_column, read_judgements

SKIPPED: dict[str, str] = {
    "without_relevant": "no relevant passage",
    "without_text": "no text, or no passage with text",
    "passage_taken": "all its best passages are other queries'",
}
"""Why a query is left out before anything is built, by the name that it is counted under."""

Judged = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Item:
    """A query and its relevant passage; the query is on one line."""

    query_id: str
    query: str
    passage_id: str
    passage: str


@dataclass(frozen=True)
class Items:
    """What is built from.

    Attributes:
        name: of the data.
        items: in the order of the file of queries.
        queries: how many queries there were to draw from.
        skipped: a key of :data:`SKIPPED` → how many of those drawn were left out.
    """

    name: str
    items: list[Item]
    queries: int
    skipped: dict[str, int]


def beir_items(folder: str | Path, split: str = "test", limit: int | None = None, seed: int = 0) -> Items:
    """The judged queries of a BEIR folder (or of one of BEIR's sets by name), at most ``limit`` that the seed draws.

    A higher limit keeps the queries of a lower one. The corpus is read as a stream.

    Raises:
        DataError: no BEIR folder or split, a wrong line, an id that the layout cannot hold, or no query that can be
            used.
        MissingExtra, ServiceError: as for :func:`retrokit.data.beir.located`.
    """
    folder = beir_folder(folder)
    qrels = judgements_file(folder, split)
    texts, judged = _read_judged(qrels, queries_file(folder, split))
    passages = _read_passages(corpus_file(folder), judged, qrels)
    return _drawn(Path(folder).resolve().name, texts, judged, passages, limit, seed, folder)


def jsonl_items(
    queries: str | Path,
    passages: str | Path,
    qrels: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Items:
    """Queries and passages of JSONL files, at most ``limit`` queries that the seed draws.

    Args:
        queries: lines of ``id``, ``text`` and, without ``qrels``, ``passage_id``: the id of the passage that answers.
        passages: lines of ``id``, ``text`` and optionally ``title``.
        qrels: judgements, as BEIR's or TREC's; queries that it does not judge are left out.

    Raises:
        DataError: a wrong line, an id that the layout cannot hold, or no query that can
            be used.
    """
    if str(queries) == "-" and str(passages) == "-":
        raise UsageError("standard input cannot be both the queries and the passages")
    name = "queries" if str(queries) == "-" else Path(queries).name.removesuffix(".gz").removesuffix(".jsonl")
    texts, judged = _read_paired(queries) if qrels is None else _read_judged(qrels, queries)
    passage_texts = _read_passages(passages, judged, queries if qrels is None else qrels)
    return _drawn(name, texts, judged, passage_texts, limit, seed, queries)


def _read_judged(path: str | Path, queries: str | Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The texts of the queries that are judged, and their judgements."""
    texts = dict(read_queries(queries))
    judged: dict[str, dict[str, int]] = {}
    faults = Faults(path)
    for line, query, passage, grade in read_judgements(path):
        if query not in texts:
            faults.add("queries", f"query {query!r} is not in {Path(queries).name}", line)
            continue
        judged.setdefault(query, {})[passage] = grade
    faults.report("queries", "{n} judgements of absent queries are left out")
    return {query: text for query, text in texts.items() if query in judged}, judged


def _read_paired(path: str | Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    texts: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    expected = 'queries, one {"id": …, "text": …, "passage_id": …} a line'
    for _, row in read_jsonl(path, expected):
        query, text = row.id, row.content
        if query in texts:
            raise row.wrong(f"the id {query!r} is on an earlier line already")
        passage = row.get("passage_id")
        if not isinstance(passage, (str, int)) or isinstance(passage, bool) or passage == "":
            actual = f"found {kind_of(passage)}" if "passage_id" in row else "there is none"
            problem = f"field 'passage_id' should be the id of the passage that answers, {actual}"
            raise row.wrong(f"{problem} (or give the judgements with `qrels=`)")
        texts[query], judged[query] = text, {str(passage): 1}
    return texts, judged


def _best(grades: Mapping[str, int]) -> list[str]:
    """The passages of the highest grade, if that is above 0."""
    highest = max(grades.values())
    return [passage for passage, grade in grades.items() if grade == highest] if highest > 0 else []


def _read_passages(path: str | Path, judged: Judged, where: str | Path) -> dict[str, str]:
    """The texts of the passages that may be chosen."""
    candidates: set[str] = set()
    for grades in judged.values():
        candidates.update(_best(grades))
    texts = {document.id: document.full_text for document in read_corpus(path) if document.id in candidates}
    faults = Faults(where)
    for missing in sorted(candidates - texts.keys()):
        faults.add("passages", f"passage {missing!r} is not in {named(path)}")
    faults.report("passages", "{n} absent passages are left out")
    return texts


def _drawn(
    name: str,
    queries: Mapping[str, str],
    judged: Judged,
    passages: Mapping[str, str],
    limit: int | None,
    seed: int,
    where: str | Path,
) -> Items:
    order = sorted(queries, key=lambda query: (bits(seed, "query", query), query)) if limit else list(queries)
    skipped = Counter(dict.fromkeys(SKIPPED, 0))
    chosen: dict[str, Item] = {}
    for item in islice(_usable(order, queries, judged, passages, seed, skipped), limit):
        _check_ids(item, where)
        chosen[item.query_id] = item
    if not chosen:
        reasons = ", ".join(f"{count:,} {SKIPPED[reason]}" for reason, count in skipped.items() if count)
        raise DataError(where, f"no query can be used: {reasons or 'none is judged'}")
    return Items(name, [chosen[query] for query in queries if query in chosen], len(queries), dict(skipped))


def _check_ids(item: Item, where: str | Path) -> None:
    """Raise :class:`DataError` for an id that the layout cannot hold."""
    for identifier in (item.query_id, item.passage_id):
        if not fits_a_column(identifier):
            raise DataError(where, f"the id {identifier!r} cannot be written into a file of columns")


def _usable(
    order: Iterable[str],
    queries: Mapping[str, str],
    judged: Judged,
    passages: Mapping[str, str],
    seed: int,
    skipped: Counter[str],
) -> Iterator[Item]:
    """Each query with a passage of its own, in the ``order``; the others are counted as ``skipped`` by the reason."""
    used: set[str] = set()
    for query in order:
        best = sorted(_best(judged[query]), key=lambda passage: (bits(seed, "passage", query, passage), passage))
        passage, reason = _choice(queries[query], best, passages, used)
        if passage is None:
            skipped[reason] += 1
            continue
        used.add(passage)
        yield Item(query, " ".join(queries[query].split()), passage, passages[passage])


def _choice(
    query: str, best: Sequence[str], passages: Mapping[str, str], used: Collection[str]
) -> tuple[str | None, str]:
    """The first of the ``best`` passages with a text that no other query has; or why there is none."""
    if not best:
        return None, "without_relevant"
    with_text = [passage for passage in best if passages.get(passage, "").strip()]
    if not with_text or not query.strip():
        return None, "without_text"
    free = [passage for passage in with_text if passage not in used]
    return (free[0], "") if free else (None, "passage_taken")
