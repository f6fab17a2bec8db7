"""One data set from several: each taken by weight or by count, all shuffled, every row with where it comes from.

COMP, 3.1 and D.1, is ``mix(["nq.jsonl,count=100000", "near.jsonl,count=23856"], "mixture.jsonl")``: 123,856 rows, of
which 19.26% are structural near-misses.

The rows stay in their files: memory holds 25 bytes a row, however long the texts are. A first pass checks every line
and notes where it starts; the second reads the lines in the shuffled order, with one random access a row. Compressed
files and pipes are first unpacked into a temporary file (in ``TMPDIR``).
"""

from __future__ import annotations

import codecs
import json
import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from retrokit.augmentation.settings import MixSettings
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.files import named, opened, writing
from retrokit.core.notices import progress
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Entry, Param, Registry
from retrokit.core.settings import taking
from retrokit.data.columns import SCORE, pair_columns, scored_columns
from retrokit.data.jsonl import Row, fields_of, json_line, read_jsonl
from retrokit.data.tables import is_json_lines, read_rows, stem
from retrokit.data.training_rows import WITHOUT_NAMES, Kind, iterate_records

if TYPE_CHECKING:
    import numpy as np

KINDS: dict[Kind, str] = {"pairs": "pairs", "scored": "scored pairs", "texts": "texts"}
BLOCK = 1000  # rows whose places are worked out at once


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
        taken = int(weight * rows + 0.5)
        if not taken:
            raise UsageError(f"{named(self.path)}: weight={weight:g} of {rows:,} rows takes none")
        return taken

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
                Param("path", required=True, summary="a file, .gz too; - is standard input"),
                Param("weight", float, minimum=0.000001, maximum=1000.0, summary="how many times its rows are taken"),
                Param("count", int, minimum=1, summary="how many of its rows are taken"),
                Param("name", summary="what its rows say that they come from; default: the file's name"),
            ),
            positional="path",
        ),
    ],
    fallback="jsonl",
)


def part(path: str, weight: float | None, count: int | None, name: str | None) -> Part:
    """The part of a spec such as ``near.jsonl,count=100``; raises :class:`UsageError` for both weight and count."""
    if weight is not None and count is not None:
        raise UsageError(f"{path}: weight={weight:g} and count={count} are two ways to say how much; give one")
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
    """What was written: its ``kind`` (pairs, scored, texts), ``rows`` and ``parts``."""

    kind: Kind
    rows: int
    parts: list[PartCounts]

    def summary(self) -> list[str]:
        """A line for each part, and one for the whole."""
        lines = [f"{p.name}: {p.taken:,} of {p.rows:,} rows, {p.share:.2%} of the mixture" for p in self.parts]
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
    chosen = [cast(Part, registry.create(spec)) for spec in settings.parts]
    if sum(part.path == "-" for part in chosen) > 1:
        raise UsageError("standard input can be read once only")
    check_settings(settings)
    with ExitStack() as stack:
        indexed: list[_Indexed] = []
        for part in chosen:
            indexed.append(stack.enter_context(_indexed(part, settings.field)))
            if indexed[0].kind != indexed[-1].kind:
                ends = (indexed[0], indexed[-1])
                holds = [f"{named(end.part.path)} holds {KINDS[cast(Kind, end.kind)]}" for end in ends]
                raise UsageError(f"a mixture is of one kind: {', '.join(holds)}")
        taken = [source.part.sample(len(source.starts), settings.seed, place) for place, source in enumerate(indexed)]
        _write(settings, indexed, taken)
    total = sum(map(len, taken))
    counts = [
        PartCounts(source.part.name, source.part.path, len(source.starts), len(rows), len(rows) / total)
        for source, rows in zip(indexed, taken, strict=True)
    ]
    return Mixture(cast(Kind, indexed[0].kind), total, counts)


class _Indexed:
    """A part whose rows can be read in any order: from its file, or a ``copy`` of what is compressed or a pipe."""

    def __init__(self, part: Part, stream: BinaryIO, copy: bool) -> None:
        self.part, self.stream, self.copy = part, stream, copy
        self.kind: Kind | None = None
        self.starts = array("q")
        self.has_field = bytearray()  # which rows have the provenance field already
        self.state = None if copy else _state(part)
        self._start = self._end = 0

    def feed(self, raw: bytes) -> None:
        """Take the next line, which may be a row."""
        self._start, self._end = self._end, self._end + len(raw)
        if self.copy:
            with disk_errors(f"a temporary file in {tempfile.gettempdir()}"):
                self.stream.write(raw)

    def add(self, row: Row, field: str | None) -> None:
        """Check the row that the last line holds, and note where it starts."""
        self.kind = self.kind or _kind_of(row)
        list(iterate_records([(row.line, row)], self.kind, self.part.path))
        self.starts.append(self._start)
        self.has_field.append(field in row)

    def line(self, row: int) -> bytes:
        """The JSON object of a row, without white space around it."""
        self.stream.seek(self.starts[row])
        return self.stream.readline().removeprefix(codecs.BOM_UTF8).strip()


@contextmanager
def _indexed(part: Part, field: str | None) -> Iterator[_Indexed]:
    """Check the whole of a part; the file that its rows are read from stays open in the block."""
    has_lines = is_json_lines(part.path)
    is_plain = has_lines and os.path.isfile(part.path) and not part.path.endswith(".gz")
    expected = "rows of a data set, one JSON object a line"
    with opened(part.path) if is_plain else tempfile.TemporaryFile() as stream:
        source = _Indexed(part, stream, copy=not is_plain)
        rows = (
            read_jsonl(part.path, expected, source.feed)
            if has_lines
            else read_rows(part.path, expected, columns=WITHOUT_NAMES["pairs"])
        )
        with progress(f"reading {part.name}", None, "rows") as advance:
            for number, (_, row) in enumerate(rows, start=1):
                if not has_lines:
                    source.feed(json_line(row).encode())
                source.add(row, field)
                advance(BLOCK * (number % BLOCK == 0))
        yield source


def _state(part: Part) -> tuple[int, int]:
    """Differs once the file has been written to."""
    status = os.stat(part.path)
    return status.st_size, status.st_mtime_ns


def _kind_of(row: Row) -> Kind:
    names = tuple(row)
    with suppress(ValueError):
        layout = pair_columns(names).layout
        return "scored" if layout is not None and layout.label in SCORE and layout.positives == (1,) else "pairs"
    with suppress(ValueError):
        scored_columns(names)
        return "scored"
    if "text" in row:
        return "texts"
    expected = "a pair ('anchor', 'positive'), a scored pair ('sentence1', 'sentence2', 'score') or a 'text'"
    raise row.wrong(f"expected {expected}; the fields are {fields_of(names)}")


def _write(settings: MixSettings, indexed: Sequence[_Indexed], taken: Sequence[np.ndarray]) -> None:
    """The second pass: read in the order of the mixture."""
    import numpy as np

    field = settings.field
    first_of = np.cumsum([0, *(len(source.starts) for source in indexed)])  # rows are numbered through all parts
    order = np.concatenate([rows + first for rows, first in zip(taken, first_of, strict=False)])
    np.random.default_rng(np.random.SeedSequence(settings.seed)).shuffle(order)
    ends = [
        "}" if field is None else f", {json.dumps({field: source.part.name}, ensure_ascii=False)[1:]}"
        for source in indexed
    ]
    with progress("mixing", len(order), "rows") as advance, writing(settings.output) as stream:
        for start in range(0, len(order), BLOCK):
            numbers = order[start : start + BLOCK]
            positions = np.searchsorted(first_of, numbers, side="right") - 1
            rows = numbers - first_of[positions]
            for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
                source = indexed[position]
                line = source.line(row)
                if not source.has_field[row]:
                    line = line[:-1].rstrip() + ends[position].encode()
                stream.write(line.decode() + "\n")
            advance(len(rows))
        for source in indexed:
            if source.state is not None and source.state != _state(source.part):
                raise DataError(source.part.path, "was written to while it was read")
