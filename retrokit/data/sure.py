"""SURE folders: queries, each with one relevant passage and its variants, in the layout of the published release.

Kong et al., "SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models" (SURE, 3.2); the layout is
the release's: ``query-N.tsv``, ``query-N-semantic-equivalence.tsv``, ``qrels-N.tsv``, and JSONL of ``id`` (the
passage's) and ``contents``, one file a kind of variant. ``build-sure`` writes the same.

An id that a JSONL file repeats with another text counts as on its last line, as in the published evaluator. (A passage
of the published MS MARCO set answers two queries, and has its key sentences in two places of the noise.)
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.errors import DataError
from retrokit.core.files import check_is_folder, digest, plain_or_packed, read_lines, unpacked_name
from retrokit.data.jsonl import Faults, fields_of, names_in, read_jsonl
from retrokit.data.trec import read_judgements

ORIGINAL = "original"

TESTBEDS: dict[str, tuple[str, ...]] = {
    "precision": ("key-sentences", ORIGINAL, "key-sentences-with-noise"),
    "abstraction": ("summary", ORIGINAL, "expansion"),
    "equivalence": (ORIGINAL, "paraphrase"),
}
"""The passages of each testbed, in the order in which their ranks are listed and equal scores are ranked."""

VARIANT_FILES = {
    "key-sentences": "key-sentences.jsonl",
    "key-sentences-with-noise": "key-sentences-with-noise.jsonl",
    "summary": "summaries.jsonl",
    "expansion": "expansions.jsonl",
    "paraphrase": "passages-with-keywords-replaced.jsonl",
}
"""The file of each kind of variant."""

COUNTED, LEFT_OUT = "counted", "left-out"
"""What is done with queries one of whose variants equals the passage: rankings tie the two, which makes ROC 1."""

PASSAGES = "passages.jsonl"
_EQUIVALENCE, _QRELS = "-semantic-equivalence", "qrels-N.tsv"
_LAYOUT = f"a SURE folder (query-N.tsv, query-N{_EQUIVALENCE}.tsv, qrels-N.tsv, {PASSAGES}, a JSONL file a variant)"


@dataclass(frozen=True)
class SureData:
    """Queries with the passage that answers them, and that passage's variants, in file order.

    Attributes:
        queries: query id → text.
        originals: query id → the id of its relevant passage, if it is judged.
        passages: passage id → text.
        variants: kind of variant (:data:`VARIANT_FILES`) → passage id → text; of testbeds that were read.
        testbeds: testbed → the ids of its queries that have a passage and all variants.
        dropped: testbed → reason (``without_judgement``, ``without_variants``; ``identical_variant`` if they are left
            out) → number of queries left out.
        identical: testbed → number of its queries with a variant that equals the passage word for word.
        repeated: number of ids that came again with another text.
    """

    name: str
    queries: dict[str, str]
    originals: dict[str, str]
    passages: dict[str, str]
    variants: dict[str, dict[str, str]]
    testbeds: dict[str, list[str]]
    dropped: dict[str, dict[str, int]]
    identical: dict[str, int]
    repeated: int


def kinds_of(testbeds: Iterable[str]) -> list[str]:
    """The kinds of variants that belong to the testbeds, in their order, each once."""
    return list(dict.fromkeys(kind for name in testbeds for kind in TESTBEDS[name] if kind != ORIGINAL))


def variant_id(passage_id: str, kind: str) -> str:
    """The id of a variant in a TREC run.

    >>> variant_id("88124", "summary")
    '88124#summary'
    """
    return f"{passage_id}#{kind}"


def read_sure(folder: str | Path, testbed: str | None = None, identical: str = COUNTED) -> SureData:
    """Read ``testbed`` of a SURE folder, or all whose files are there, without queries that lack a variant.

    ``identical`` says whether queries with a variant that equals its passage word for word are :data:`COUNTED` or
    :data:`LEFT_OUT`.

    Raises:
        DataError: no such folder or files (the message names what is missing), a wrong line, a query with two texts or
            two relevant passages, or a testbed without a query.
    """
    folder = Path(folder)
    names = _testbeds_there(folder, testbed)
    files = _files(folder, names)
    queries_by_testbed = {name: _read_queries(files[_query_name(name)]) for name in names}
    queries: dict[str, str] = {}
    for texts in queries_by_testbed.values():
        for id, text in texts.items():
            if queries.setdefault(id, text) != text:
                raise DataError(folder, f"the query {id!r} has another text in the testbed of equivalence")
    passages, repeated = _read_texts(files[PASSAGES])
    originals = _read_originals(files[_QRELS], queries, passages)
    variants = {}
    for kind in kinds_of(names):
        variants[kind], again = _read_texts(files[VARIANT_FILES[kind]])
        repeated += again
    data = SureData(folder.resolve().name, queries, originals, passages, variants, {}, {}, {}, repeated)
    for name in names:
        _add_testbed(data, name, queries_by_testbed[name], identical)
        if not data.testbeds[name]:
            lost = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in data.dropped[name].items())
            raise DataError(folder, f"no query is left of the testbed {name}: {lost}")
    return data


def _add_testbed(data: SureData, name: str, queries: Iterable[str], identical: str) -> None:
    """Add the testbed with those of its ``queries`` that have a passage and all variants, and counts of the others."""
    complete = []
    unchanged = set()
    dropped = {"without_judgement": 0, "without_variants": 0}
    for query in queries:
        passage = data.originals.get(query)
        if passage is None:
            dropped["without_judgement"] += 1
            continue
        texts = [data.variants[kind].get(passage, "").split() for kind in kinds_of([name])]
        if not all(texts):
            dropped["without_variants"] += 1
            continue
        complete.append(query)
        if data.passages[passage].split() in texts:
            unchanged.add(query)
    if identical == LEFT_OUT:
        dropped["identical_variant"] = len(unchanged)
        complete = [query for query in complete if query not in unchanged]
    data.testbeds[name] = complete
    data.dropped[name] = dropped
    data.identical[name] = len(unchanged)


def digest_sure(folder: str | Path, testbed: str | None = None) -> str:
    """``sha256:<hex>`` over the files that :func:`read_sure` reads; raises :class:`DataError` for missing ones."""
    folder = Path(folder)
    files = _files(folder, _testbeds_there(folder, testbed)).values()
    return digest(folder, [path.relative_to(folder).as_posix() for path in files])


def missing_testbeds(data: SureData) -> list[str]:
    """The testbeds that ``data`` does not hold."""
    return [name for name in TESTBEDS if name not in data.testbeds]


def _testbeds_there(folder: Path, testbed: str | None) -> list[str]:
    check_is_folder(folder, _LAYOUT)
    testbeds = []
    missing: dict[str, None] = {}
    for name in [testbed] if testbed else TESTBEDS:
        absent = [file for file, paths in _found(folder, [name]).items() if not paths]
        missing.update(dict.fromkeys(absent))
        if not absent:
            testbeds.append(name)
    if testbeds:
        return testbeds
    what = f"has no testbed {testbed}" if testbed else "is no SURE folder"
    raise DataError(folder, f"{what}: {', '.join(missing)} missing; it contains {names_in(folder)}")


def _query_name(testbed: str) -> str:
    return f"query-N{_EQUIVALENCE if testbed == 'equivalence' else ''}.tsv"


def _found(folder: Path, testbeds: Iterable[str]) -> dict[str, list[Path]]:
    """The files of the testbeds that are there; N is the number of a file's lines."""
    names = (PASSAGES, *(VARIANT_FILES[kind] for kind in kinds_of(testbeds)))
    files = {name: [path] if (path := plain_or_packed(folder / name)) is not None else [] for name in names}
    for name in (*map(_query_name, testbeds), _QRELS):
        pattern = re.compile(name.replace("N", r"\d+").replace(".", r"\."))
        files[name] = sorted(path for path in folder.glob("*.tsv*") if pattern.fullmatch(unpacked_name(path.name)))
    return files


def _files(folder: Path, testbeds: Sequence[str]) -> dict[str, Path]:
    """The files of the testbeds, which are there; raises :class:`DataError` for several of one kind."""
    files = _found(folder, testbeds)
    for name, paths in files.items():
        if len(paths) > 1:
            problem = f"contains {fields_of(path.name for path in paths)} as {name}; expected one such file"
            raise DataError(folder, problem)
    return {name: path for name, (path,) in files.items()}


def _read_queries(path: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for line, row in read_lines(path, "queries, one 'query-id<TAB>text' a line"):
        id, tab, text = row.partition("\t")
        if not tab or not id.strip():
            raise DataError(path, "expected 'query-id<TAB>text'", line)
        if queries.setdefault(id.strip(), text) != text:
            raise DataError(path, f"the query {id.strip()!r} has another text on an earlier line", line)
    return queries


def _read_texts(path: Path) -> tuple[dict[str, str], int]:
    """Passage id → text, and the number of ids with another text on an earlier line."""
    texts: dict[str, str] = {}
    repeated = 0
    for _, row in read_jsonl(path, 'passages, one {"id": …, "contents": …} a line'):
        id, text = row.id, row.text("contents")
        repeated += texts.get(id, text) != text
        texts[id] = text
    return texts, repeated


def _read_originals(path: Path, queries: dict[str, str], passages: dict[str, str]) -> dict[str, str]:
    """Query id → the id of its relevant passage; judgements of queries of other testbeds are left out."""
    originals: dict[str, str] = {}
    faults = Faults(path)
    for line, query_id, passage_id, grade in read_judgements(path):
        if grade <= 0 or query_id not in queries:
            continue
        if passage_id not in passages:
            faults.add("passages", f"passage {passage_id!r} is not in {PASSAGES}", line)
            continue
        if query_id in originals:
            problem = f"query {query_id!r} has two relevant passages, {originals[query_id]!r} and {passage_id!r}"
            raise DataError(path, f"{problem}; SURE has one a query", line)
        originals[query_id] = passage_id
    faults.report("passages", "{n} judgements of absent passages are left out")
    if not originals:
        raise DataError(path, f"judges none of the queries: {fields_of(queries)}")
    return originals
