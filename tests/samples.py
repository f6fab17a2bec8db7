"""What tests of all commands need of an extension: :class:`Samples`, from ``tests/extensions/NAME/samples.py``."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "extensions"
EXTENSIONS = sorted(path.parent.name for path in FOLDER.glob("*/samples.py"))
"""The extensions that are here; ``.ci/core_alone`` runs the tests without."""


@dataclass(frozen=True)
class Samples:
    """The command lines and files of an extension. Lines with ``{o}`` are of ``tests/test_cli_outputs.py``: ``{o}`` is
    the output, and the inputs are in the folder ``in``.

    Attributes:
        runs: of ``tests/test_distribution.py``: command, and its words; they run behind those of the core, in a folder
            with what these wrote.
        probes: of ``tests/test_cli_probe.py``: probe, and its options, in which ``{labelled}`` and ``{pairs}`` are
            files, its tables, its pictures.
        printed: of ``tests/damage.py``: probe, and a command that prints its findings.
        pictures: of ``tests/report``: picture, and how it is drawn with names of the caller's choice.
        without_extra: of the same: extra, and the words of a command that needs it.
        reports: of ``tests/test_cli_reports.py``: command lines, and what they print for people.
        writes_file: command, and its line: it writes a file.
        writes_folder: command, and its line: it writes files into a folder.
        writes_whole_folder: command, and its line: it writes a new folder whole or not at all.
        inputs: command, and its inputs: none may be its output.
        makers: what ``damaged`` needs, and a function that makes it in the working folder, next to the core's files. It
            returns names of files that are not known before, by how ``damaged`` has them.
        damaged: of ``tests/damage.py``: kind of file, and the file with a command that reads it.
        file_kinds: of ``tests/schemas.py``: the kind that a JSON file names, and its schema.
        preloads: modules that its tests load again and again, for ``tests/forked_python.py``.
        file_schemas: of ``tests/schemas.py``: the pattern of a file's path, and its schema.
        line_schemas: of the same: the pattern of a command, and the schema of the lines that it writes.
    """

    runs: Mapping[str, list[str]] = field(default_factory=dict)
    without_extra: Mapping[str, list[str]] = field(default_factory=dict)
    probes: Mapping[str, tuple[str, set[str], set[str]]] = field(default_factory=dict)
    printed: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Callable[[Sequence[str]], Callable[[Path], object]]] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict)
    writes_file: Mapping[str, str] = field(default_factory=dict)
    writes_folder: Mapping[str, str] = field(default_factory=dict)
    writes_whole_folder: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    makers: Mapping[str, Callable[[], dict[str, str]]] = field(default_factory=dict)
    damaged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    file_kinds: Mapping[str, str] = field(default_factory=dict)
    preloads: Mapping[str, list[str]] = field(default_factory=dict)
    file_schemas: Mapping[str, str] = field(default_factory=dict)
    line_schemas: Mapping[str, str] = field(default_factory=dict)


def all_samples() -> Samples:
    """The samples of all extensions that are here, as one."""
    joined: dict[str, dict[str, object]] = {table.name: {} for table in fields(Samples)}
    for name in EXTENSIONS:
        samples = importlib.import_module(f"tests.extensions.{name}.samples").SAMPLES
        for table, rows in joined.items():
            rows |= getattr(samples, table)
    return Samples(**joined)  # type: ignore[arg-type]
