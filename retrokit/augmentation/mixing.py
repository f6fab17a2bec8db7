"""One data set from several: each part taken by weight or count, all shuffled, each row with the name of its part.

COMP, 3.1 and D.1, is ``mix(["nq.jsonl,count=100000", "near.jsonl,count=23856"], "mixture.jsonl")``: 123,856 rows, of
which 19.26% are structural near-misses. Memory is 16 bytes a row: a first pass checks each row and copies it into a
temporary file (in ``TMPDIR``), a second reads the rows in shuffled order.
"""

from __future__ import annotations

import codecs
import json
import os
import tempfile
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from retrokit.augmentation.settings import MixSettings
from retrokit.core.errors import UsageError, naming
from retrokit.core.files import named, writing
from retrokit.core.notices import progress
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Entry, Param, Registry, head_of
from retrokit.core.settings import taking
from retrokit.data.columns import SCORE, SENTENCES, pair_columns, scored_columns
from retrokit.data.jsonl import TEXTS, Row, fields_of, json_line, read_jsonl
from retrokit.data.pair_labels import has_score
from retrokit.data.pairs import registry as training_data
from retrokit.data.tables import is_json_lines, read_rows, stem
from retrokit.data.training_rows import WITHOUT_NAMES, Kind, iterate_records

if TYPE_CHECKING:
    import numpy as np

KINDS: dict[Kind, str] = {"pairs": "pairs", "scored": "scored pairs", "texts": "texts"}


@dataclass(frozen=True)
class Part:
    """A JSONL file and how much of it is taken: ``weight`` times its rows, or ``count`` of them. ``name`` is the source
    in its rows."""

    path: str
    name: str
    weight: float | None = None
    count: int | None = None

    def size(self, rows: int) -> int:
        """How many of ``rows`` rows are taken; raises :class:`UsageError` for more than there are, or none."""
        if self.count is not None:
            if self.count > rows:
                repeat = f"weight={self.count / rows:.3g} would repeat some"
                raise UsageError(f"{named(self.path)}: has {rows:,} rows, fewer than count={self.count:,}; {repeat}")
            return self.count
        weight = 1.0 if self.weight is None else self.weight
        size = int(weight * rows + 0.5)
        if not size:
            raise UsageError(f"{named(self.path)}: weight={weight:g} of {rows:,} rows takes none")
        return size

    def sample(self, rows: int, seed: int, position: int) -> np.ndarray:
        """Which of its ``rows`` rows are taken (int64), by the seed, the position and ``rows``: whole copies of all
        rows, then a random sample without replacement. A smaller sample is part of a larger one."""
        import numpy as np

        copies, rest = divmod(self.size(rows), rows)
        order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(position,))).permutation(rows)
        return np.concatenate([np.tile(np.arange(rows), copies), order[:rest]])


registry = Registry(
    "part of a mixture",
    "retrokit.mixing",
    [
        Entry(
            "jsonl",
            "JSON lines of pairs, of scored pairs, or of texts",
            "retrokit.augmentation.mixing:part",
            (
                Param("path", required=True, help="a file, .gz too; - is standard input"),
                Param("weight", float, minimum=0.000001, maximum=1000.0, help="how many times its rows are taken"),
                Param("count", int, minimum=1, help="how many of its rows are taken"),
                Param("name", help="what its rows say that they come from; default: the file's name"),
            ),
            positional="path",
        )
    ],
    fallback="jsonl",
)


def part(path: str, weight: float | None, count: int | None, name: str | None) -> Part:
    """The part of a spec such as ``near.jsonl,count=100``; raises :class:`UsageError` for both weight and count."""
    if weight is not None and count is not None:
        raise UsageError(f"{path}: weight={weight:g} and count={count} are two ways to say how much; give one")
    is_other_data = head_of(path) in {*training_data.names()} - {*registry.names()}
    if is_other_data and not os.path.exists(path):
        raise UsageError(f"{path}: a mixture is of files; finetune takes such data with --data, and mixes by --mix")
    return Part(path, name or stem(path), weight, count)


@dataclass(frozen=True)
class PartCounts:
    """How many ``rows`` a part has, how many were ``taken``, and their ``share`` of the mixture."""

    name: str
    path: str
    rows: int
    taken: int
    share: float


@dataclass(frozen=True)
class Mixture:
    """A mixture: its ``kind`` (pairs, scored, texts), ``rows`` and ``parts``."""

    kind: Kind
    rows: int
    parts: list[PartCounts]

    def summary(self) -> list[str]:
        """A line for each part, and one for the whole."""
        lines = []
        for counts in self.parts:
            lines.append(f"{counts.name}: {counts.taken:,} of {counts.rows:,} rows, {counts.share:.2%} of the mixture")
        return [*lines, f"{self.rows:,} rows of {KINDS[self.kind]}"]


@taking(MixSettings)
def mix(settings: MixSettings) -> Mixture:
    """Join ``parts`` into ``output``, shuffled; whole or not at all.

    Each row is written as it was, to the byte, with the name of its part added as ``field``. A row that has such a
    field already keeps it: in a mixture of mixtures each row names its first source.

    Raises:
        UsageError: a wrong spec, a count beyond a part's rows, an output that is an input, or standard input twice.
        DataError: a line that is wrong, parts of different kinds, or a file that cannot be read or written.
    """
    import numpy as np

    sources = [cast(Part, registry.create(spec)) for spec in settings.parts]
    if sum(source.path == "-" for source in sources) > 1:
        raise UsageError("standard input can be read once only")
    check_settings(settings)
    temporary = f"a temporary file in {tempfile.gettempdir()}"
    with naming(temporary, temporary), tempfile.TemporaryFile() as stream:
        kinds, starts = zip(*(_copied(source, settings.field, stream) for source in sources), strict=True)
        _check_one_kind(sources, kinds)
        samples = []
        for index, source in enumerate(sources):
            rows = source.sample(len(starts[index]), settings.seed, index)
            samples.append(np.frombuffer(starts[index], np.int64)[rows])
        order = np.concatenate(samples)
        np.random.default_rng(np.random.SeedSequence(settings.seed)).shuffle(order)
        with progress("mixing", len(order), "rows") as advance, writing(settings.output) as output:
            for start in order:
                stream.seek(start)
                output.write(stream.readline().decode())
                advance(1)
    counts = []
    for source, source_starts, sample in zip(sources, starts, samples, strict=True):
        share = len(sample) / len(order)
        counts.append(PartCounts(source.name, source.path, len(source_starts), len(sample), share))
    return Mixture(kinds[0], len(order), counts)


def _check_one_kind(sources: Sequence[Part], kinds: Sequence[Kind]) -> None:
    for source, kind in zip(sources, kinds, strict=True):
        if kind != kinds[0]:
            first = f"{named(sources[0].path)} contains {KINDS[kinds[0]]}"
            raise UsageError(f"a mixture is of one kind: {first}, {named(source.path)} contains {KINDS[kind]}")


def _copied(part: Part, field: str | None, stream: BinaryIO) -> tuple[Kind, array[int]]:
    """Check the rows of a part and append them to ``stream`` as they are to be written; where each of them starts."""
    has_lines, expected = is_json_lines(part.path), "rows of a data set, one JSON object a line"
    end = "}" if field is None else f", {json.dumps({field: part.name}, ensure_ascii=False)[1:]}"
    raw, kind, starts = b"", None, array("q")

    def feed(line: bytes) -> None:
        nonlocal raw
        raw = line

    table = partial(read_rows, columns=WITHOUT_NAMES["pairs"])
    rows = read_jsonl(part.path, expected, feed) if has_lines else table(part.path, expected)
    with progress(f"reading {part.name}", None, "rows") as advance:
        for _, row in rows:
            kind = kind or _kind_of(row)
            list(iterate_records([(row.line, row)], kind, part.path))
            line = (raw if has_lines else json_line(row).encode()).removeprefix(codecs.BOM_UTF8).strip()
            line = line if field in row else line[:-1].rstrip() + end.encode()
            starts.append(stream.tell())
            stream.write(line + b"\n")
            advance(1)
    return cast(Kind, kind), starts


def _kind_of(row: Row) -> Kind:
    names = tuple(row)
    with suppress(ValueError):
        columns = pair_columns(names)
        if columns.label not in SCORE or columns.negatives:
            return "pairs"
        return "scored" if columns.anchor in SENTENCES or has_score(row[columns.label]) else "pairs"
    with suppress(ValueError):
        scored_columns(names)
        return "scored"
    if not row.keys().isdisjoint(TEXTS):
        return "texts"
    expected = "a pair ('anchor', 'positive'), a scored pair ('sentence1', 'sentence2', 'score') or a 'text'"
    raise row.wrong(f"expected {expected}; the fields are {fields_of(names)}")
