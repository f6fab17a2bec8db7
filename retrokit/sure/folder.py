"""The folder of a benchmark that was built: SURE's own layout, a manifest of how each query went, and a data card.

The layout is that of :mod:`retrokit.data.sure`. ``manifest.jsonl`` has a line a query, ``build-sure.json`` the
settings, counts and statistics, ``README.md`` the same for people. No file depends on when, where or how often it was
built.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from retrokit.core.errors import UsageError, disk_errors
from retrokit.core.files import writing
from retrokit.core.outputs import check_folder, check_replaceable, is_empty
from retrokit.data.jsonl import json_line, write_json
from retrokit.data.sure import ORIGINAL, PASSAGES, VARIANT_FILES, kinds_of
from retrokit.llm.prompts import PromptTemplate
from retrokit.sure.checks import CAUSES
from retrokit.sure.items import SKIPPED, Items
from retrokit.sure.statistics import Vocabulary
from retrokit.sure.variants import POSITIONS, STEPS, Variants

MANIFEST = "manifest.jsonl"
RECORD = "build-sure.json"
_COUNTS = ["[0-9]" * digits for digits in range(1, 10)]
_FILES = (
    *(MANIFEST, RECORD, "README.md", PASSAGES, *VARIANT_FILES.values()),
    *(name.format(count) for name in ("query-{}.tsv", "query-{}-semantic-equivalence.tsv") for count in _COUNTS),
    *(f"qrels-{count}.tsv" for count in _COUNTS),
)
"""Patterns of what a build writes."""

_KIND_OF_STEP: dict[str, str] = {}
for _testbed, _chains in STEPS.items():
    for _kind, _chain in zip(kinds_of([_testbed]), _chains, strict=True):
        _KIND_OF_STEP |= dict.fromkeys(_chain, _kind)


def check_output(folder: str | Path, overwrite: bool, inputs: Iterable[str | Path] = ()) -> None:
    """See before the work that its result can be written, and that nothing else is lost by it.

    Args:
        inputs: what is read.

    Raises:
        UsageError: the folder exists and is not to be overwritten, or contains an input or foreign files.
        DataError: it cannot be written.
    """
    check_folder(folder)
    if not os.path.lexists(folder):
        return
    if not overwrite:
        raise UsageError(f"{folder} exists; give `overwrite=` to replace it, or another `output=`")
    if not is_empty(folder):
        if not (Path(folder) / MANIFEST).is_file():
            problem = "exists and was not written by build-sure: `overwrite=` replaces such folders only"
            raise UsageError(f"{folder} {problem}")
        check_replaceable(folder, _FILES, inputs)


class BenchmarkRows:
    """The result of each query, in a temporary file until all are complete: a benchmark need not fit into memory.

    Attributes:
        record: the settings, counts and statistics, complete once all rows are added.
    """

    def __init__(self, items: Items, settings: Mapping[str, Any], testbeds: Sequence[str], language: str) -> None:
        self._file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115 - lives on
        self._settings, self._items, self._testbeds = settings, items, testbeds
        self._counts: Counter[str] = Counter()
        self._dropped: dict[str, Counter[str]] = {testbed: Counter() for testbed in testbeds}
        self._positions: Counter[str] = Counter(dict.fromkeys(POSITIONS, 0))
        kinds = kinds_of(testbeds)
        self._tried: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        self._rejections: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        self._lexicons = {kind: Vocabulary(language) for kind in (ORIGINAL, *kinds)}

    def add(self, variants: Variants, prompts: Mapping[str, PromptTemplate]) -> None:
        """Add one query; raises :class:`DataError` if the disk is full."""
        self._count(variants)
        item = variants.item
        testbeds = [testbed for testbed in self._testbeds if testbed not in variants.dropped]
        manifest = {
            "query": item.query_id,
            "passage": item.passage_id,
            "model": self._settings["model"],
            "prompts": {step: prompts[step].digest for step in dict.fromkeys(call.step for call in variants.calls)},
            "kept": testbeds,
            "dropped": {testbed: {"kind": kind, "cause": cause} for testbed, (kind, cause) in variants.dropped.items()},
            "position": variants.position,
            "keywords": variants.keywords,
            "calls": [call.to_json() for call in variants.calls],
        }
        row = {"manifest": manifest, "query": item.query, "passage": item.passage, "texts": variants.texts}
        with disk_errors(f"a temporary file in {tempfile.gettempdir()}"):
            self._file.write(json_line(row))

    def _count(self, variants: Variants) -> None:
        for testbed in self._testbeds:
            if testbed in variants.dropped:
                kind, cause = variants.dropped[testbed]
                self._dropped[testbed][f"{kind}: {cause}"] += 1
            else:
                self._counts[testbed] += 1
        if variants.position:
            self._positions[variants.position] += 1
        self._count_calls(variants)
        if variants.texts:
            self._lexicons[ORIGINAL].add(variants.item.passage)
        for kind, text in variants.texts.items():
            self._lexicons[kind].add(text)

    def _count_calls(self, variants: Variants) -> None:
        """Count why answers were rejected, and per kind of variant whether it was dropped or took retries."""
        rejections: dict[str, list[str]] = {}
        for call in variants.calls:
            kind_rejections = rejections.setdefault(_KIND_OF_STEP[call.step], [])
            if call.rejected:
                kind_rejections.append(call.rejected)
        dropped = {kind for kind, _ in variants.dropped.values()}
        for kind, causes in rejections.items():
            self._rejections[kind].update(causes)
            if kind in dropped:
                self._tried[kind]["dropped"] += 1
            elif causes:
                self._tried[kind]["after_retries"] += 1
            else:
                self._tried[kind]["at_once"] += 1

    @property
    def record(self) -> dict[str, Any]:
        """Settings, counts and statistics."""
        return {
            **self._settings,
            "data": self._items.name,
            "queries": self._items.queries,
            "skipped": self._items.skipped,
            "tried": len(self._items.items),
            "testbeds": {
                testbed: {"kept": self._counts[testbed], "dropped": dict(sorted(self._dropped[testbed].items()))}
                for testbed in self._testbeds
            },
            "positions": dict(self._positions),
            "kinds": {
                kind: {
                    "tried": counts.total(),
                    **{how: counts[how] for how in ("at_once", "after_retries", "dropped")},
                    "rejections": dict(sorted(self._rejections[kind].items())),
                }
                for kind, counts in self._tried.items()
            },
            "statistics": {kind: lexicon.to_json() for kind, lexicon in self._lexicons.items() if lexicon.texts},
        }

    def nothing(self) -> str | None:
        """Why no query is left in any testbed, in a few words; ``None`` if one is."""
        if self._counts.total():
            return None
        causes = Counter[str]()
        for rejections in self._rejections.values():
            causes += rejections
        return "; ".join(f"{number:,}: {CAUSES[cause]}" for cause, number in causes.most_common(3))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        return (json.loads(line) for line in self._file)


def write_folder(folder: Path, rows: BenchmarkRows) -> dict[str, Any]:
    """Write the benchmark of all rows that were added into an empty folder; returns its record.

    A testbed that no query is left in gets no file.

    Raises:
        DataError: it cannot be written.
    """
    record = rows.record
    sizes: Counter[str] = Counter()
    for row in rows:
        sizes.update(file for file, _ in _lines(row))
    with ExitStack() as stack:
        streams = {}
        for file, name in _FILE_NAMES.items():
            if sizes[file]:
                streams[file] = stack.enter_context(writing(folder / name.format(sizes[file])))
        for row in rows:
            for file, line in _lines(row):
                streams[file].write(line)
    write_json(folder / RECORD, record, indent=2, kind="build-sure")
    with writing(folder / "README.md") as stream:
        stream.write(data_card(record))
    return record


_FILE_NAMES = {
    **{"manifest": MANIFEST, "queries": "query-{}.tsv", "equivalence": "query-{}-semantic-equivalence.tsv"},
    **{"qrels": "qrels-{}.tsv", ORIGINAL: PASSAGES, **VARIANT_FILES},
}
"""The files, named by how many lines they have."""


def _lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of one query, each with its file (:data:`_FILE_NAMES`)."""
    manifest = row["manifest"]
    query, passage, stays = manifest["query"], manifest["passage"], manifest["kept"]
    yield "manifest", json_line(manifest)
    if not stays:
        return
    if stays != ["equivalence"]:
        yield "queries", f"{query}\t{row['query']}\n"
    if "equivalence" in stays:
        yield "equivalence", f"{query}\t{row['query']}\n"
    yield "qrels", f"{query}\t0\t{passage}\t1\n"
    for kind, text in {ORIGINAL: row["passage"], **row["texts"]}.items():
        yield kind, json_line({"id": passage, "contents": text})


def data_card(record: Mapping[str, Any]) -> str:
    """The data card as Markdown: the settings, the counts and the paper's Tables 1 and 3, without any text of the data.

    ``record`` is that of :func:`write_folder`.
    """
    settings = {
        "model": f"`{_cell(record['model'])}`",
        "sampling": ", ".join(f"{name} {value}" for name, value in record["sampling"].items() if value is not None),
        "seed, retries, language": f"{record['seed']}, {record['retries']}, {_cell(record['language'])}",
        "queries to draw from, tried": f"{record['queries']:,}, {record['tried']:,}",
        **{f"left out: {SKIPPED[why]}": f"{count:,}" for why, count in record["skipped"].items() if count},
    }
    testbeds = [(testbed, f"{counts['kept']:,}") for testbed, counts in record["testbeds"].items()]
    texts = []
    for kind, values in record["statistics"].items():
        texts.append([kind, *[f"{value:,}" for value in values.values()]])
    sections = [
        f"# SURE benchmark of {_cell(record['data'])}",
        "Queries, each with a relevant passage and variants of it, in the layout of the SURE release (Kong et al., "
        '"SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models"). The variants were written by '
        "a language model and not by people: judge a sample before you rely on them.",
        _table(("setting", "value"), settings.items()),
        "## Testbeds (Table 1)",
        _table(("testbed", "queries"), testbeds),
        "## Texts (Table 3)",
        "Type-token ratio and Shannon entropy (bits) are of the words of all texts of a kind together, in lower case; "
        "sentence lengths are in words.",
        _table(("kind", "texts", "TTR", "entropy", "average sentence", "longest sentence"), texts),
        f"Each query's calls, answers and verdicts are in `{MANIFEST}`. `{RECORD}` has these numbers, the rejections "
        "by cause, and the wording and digest of each prompt.",
    ]
    return "\n\n".join(sections) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _cell(text: object) -> str:
    """A name from outside as it may stand in a cell of Markdown."""
    return " ".join(str(text).replace("|", "¦").replace("`", "'").replace("<", "‹").replace(">", "›").split())
