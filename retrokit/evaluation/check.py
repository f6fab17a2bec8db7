"""What is wrong with test sets and training data: ``retrokit check``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.core.frames import frame
from retrokit.core.notices import notice
from retrokit.core.registry import Registry, head_of, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.beir import RetrievalData, has_judgements, is_beir
from retrokit.data.check import (
    KINDS,
    TRAINING,
    CheckedData,
    DataFault,
    check_labelled,
    check_test,
    check_training,
    faults_of,
    overlap_fault,
    shown,
)
from retrokit.data.images import Image
from retrokit.data.jsonl import gathering
from retrokit.data.labelled import read_labelled
from retrokit.data.overlap import JudgedTexts, overlaps
from retrokit.data.pairs import Source, read_any_source, read_source
from retrokit.data.pairs import registry as training_data
from retrokit.data.records import PrintedRecord
from retrokit.data.training_rows import texts_of_record
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.settings import ANY, CheckSettings
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from pandas import DataFrame

    from retrokit.encoders.base import Encoder

BEIR = "beir"
TRAIN = "train"


@dataclass(frozen=True)
class DataCheck(PrintedRecord):
    """The faults of each data set.

    Attributes:
        failing: the kinds of faults present that ``fail_on`` names, in the order of :data:`KINDS`.
    """

    data: list[CheckedData]
    failing: list[str]

    def to_frame(self) -> DataFrame:
        """A row for each fault."""
        rows = [(checked, fault) for checked in self.data for fault in checked.faults]
        return frame({"data": checked.name, "role": checked.role, **_row(fault)} for checked, fault in rows)

    def sheets(self) -> list[Sheet]:
        """The faults of each data set, and their examples."""
        return [sheet for checked in self.data for sheet in _sheets(checked)]


def _row(fault: DataFault) -> dict[str, Any]:
    plain = {name: value for name, value in vars(fault).items() if name not in ("cost", "examples")}
    return {**plain, **{f"cost {metric}": value for metric, value in fault.cost.items()}}


def _sheets(checked: CheckedData) -> Iterator[Sheet]:
    metrics = list(checked.highest)
    counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in checked.counts.items() if count]
    notes = [", ".join(counts)]
    if metrics:
        highest = ", ".join(f"{name} {value:.4f}" for name, value in checked.highest.items())
        notes.append(f"a perfect system reaches {highest}")
    rows = []
    examples = []
    for fault in checked.faults:
        rows.append(_cells(fault, metrics))
        notes.append(f"{fault.kind}: {fault.about or KINDS[fault.kind]}")
        examples += [[fault.kind, text] for text in fault.examples]
    if not rows:
        notes.append("no fault")
    title = f"{checked.name} ({checked.role})"
    yield Sheet(title, ["fault", "of", "count", "share", *metrics], 2, rows, notes)
    if examples:
        yield Sheet(f"{title}: examples", ["fault", "example"], 2, examples)


def _cells(fault: DataFault, metrics: Sequence[str]) -> list[str]:
    """A row of the table: an empty cell for what is not defined."""
    share = f"{fault.count / fault.of:.1%}" if fault.of else ""
    cells = [fault.kind, fault.unit, f"{fault.count:,}", share]
    for name in metrics:
        cells.append(f"{-fault.cost[name] or 0:.4f}" if name in fault.cost else "")
    return cells


@taking(CheckSettings)
def check(settings: CheckSettings) -> DataCheck:
    """Check test sets and training data: faults of the files, and training texts in the tests.

    Raises:
        UsageError: a wrong name, metric or kind of fault.
        DataError: a file that no reader can continue with.
    """
    specs = [f"{BEIR}:{spec}" if is_beir(spec) else spec for spec in settings.data]
    parse_all([(_registry_of(spec), spec) for spec in specs])
    encoder = None
    if settings.encoder is not None:
        encoder = encoders.registry.create(settings.encoder, device=settings.device)
    tests: dict[str, RetrievalData] = {}
    checked: dict[str, CheckedData] = {}
    sources: dict[str, Source] = {}
    for spec in specs:
        if _registry_of(spec) is tasks:
            tests[spec], checked[spec] = _checked_test(spec, settings, encoder)
            if _split(spec) == TRAIN:
                path = tasks.parse(spec).params["path"]
                sources[spec] = read_source(f"{BEIR}:{path},split={TRAIN}", "pairs", images=True)
        else:
            sources[spec], checked[spec] = _checked_training(spec, settings, encoder)
    if not tests:
        notice("training-overlap is not checked, because no test set with judgements is among the data")
    complete = _with_overlaps(checked, tests, sources, settings.examples)
    return DataCheck(complete, _failing(complete, settings.fail_on))


def _failing(checked: Sequence[CheckedData], fail_on: Sequence[str]) -> list[str]:
    """The kinds of faults present that ``fail_on`` names."""
    present = {fault.kind for data in checked for fault in data.faults}
    if ANY not in fail_on:
        present &= set(fail_on)
    return [kind for kind in KINDS if kind in present]


def _registry_of(spec: str) -> Registry:
    """The tasks for a BEIR folder, which is judged; else the training data."""
    return tasks if head_of(spec) == BEIR else training_data


def _split(spec: str) -> str:
    return str(tasks.options(tasks.parse(spec))["split"])


def _checked_test(spec: str, settings: CheckSettings, encoder: Encoder | None) -> tuple[RetrievalData, CheckedData]:
    options = tasks.options(tasks.parse(spec))
    path = str(options["path"])
    if is_beir(path) and not has_judgements(path):
        raise DataError(path, f"contains no qrels/; to check its texts, give {path}/corpus.jsonl")
    data, checked = check_test(
        path,
        split=str(options["split"]),
        level=int(options["level"]),
        titles=bool(options["titles"]),
        metrics=settings.metrics,
        examples=settings.examples,
    )
    faults = [
        *checked.faults,
        *_truncated(encoder, "query", "queries", data.query_ids, data.queries, settings.examples),
        *_truncated(encoder, "document", "documents", data.document_ids, data.documents, settings.examples),
    ]
    role = TRAINING if _split(spec) == TRAIN else checked.role
    return data, replace(checked, name=spec, role=role, faults=faults)


def _checked_training(spec: str, settings: CheckSettings, encoder: Encoder | None) -> tuple[Source, CheckedData]:
    path = training_data.parse(spec).path
    try:
        labelled = check_labelled(read_labelled(path), settings.examples) if Path(path).is_file() else None
    except (DataError, UsageError):
        labelled = None
    with gathering() if labelled is not None else nullcontext():  # else its reader reports that labels are not used
        source = read_any_source(spec)
    checked = check_training(source, settings.examples) if labelled is None else replace(labelled, name=source.spec)
    sides: dict[Role, dict[str, None]] = {"query": {}, "document": {}}
    for record in source.records if encoder is not None else ():
        anchor, texts = texts_of_record(record)
        sides["query"][anchor] = None
        sides["document"].update(dict.fromkeys(texts))
    units: dict[Role, str] = {"query": "anchors", "document": "documents"}
    faults = [*checked.faults]
    for role, items in sides.items():
        places = [str(number) for number in range(1, len(items) + 1)]
        faults += _truncated(encoder, role, units[role], places, list(items), settings.examples)
    return source, replace(checked, faults=faults)


def _truncated(
    encoder: Encoder | None, role: Role, unit: str, ids: Sequence[str], texts: Sequence[str], examples: int
) -> list[DataFault]:
    """Texts that are longer than the encoder reads in a role."""
    if encoder is None:
        return []
    rows = [(id, text) for id, text in zip(ids, texts, strict=True) if not isinstance(text, Image)]
    cut = encoder.cut([text for _, text in rows], role) if rows else None
    if cut is None:
        return []
    items = [f"{id}: {shown(text)}" for (id, text), is_cut in zip(rows, cut.tolist(), strict=True) if is_cut]
    about = f"{encoder.spec} reads {encoder.max_length(role):,} tokens" if items else ""
    return faults_of("truncated", unit, items, len(rows), examples, about)


def _with_overlaps(
    checked: dict[str, CheckedData], tests: dict[str, RetrievalData], sources: dict[str, Source], examples: int
) -> list[CheckedData]:
    """With the training texts in each test that is not training data itself."""
    judged = {spec: JudgedTexts.judged(data) for spec, data in tests.items() if spec not in sources}
    results = dict(checked)
    for overlap in overlaps(judged, list(sources.values()), examples) if judged and sources else ():
        checked_test = results[overlap.test]
        results[overlap.test] = replace(checked_test, faults=[*checked_test.faults, *overlap_fault(overlap)])
    return list(results.values())
