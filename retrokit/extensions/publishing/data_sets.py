"""Data on the Hub: SURE sets, BEIR folders, repaired data and pairs, with a card and tables for ``load_dataset``.

Files are uploaded as they are. The ``datasets`` package reads one format in a repository, so queries and judgements
in TSV are added as JSON lines. The names of the tables of a BEIR folder are MTEB's.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard

from retrokit.core.errors import UsageError
from retrokit.core.files import LARGEST_TOML, read_text, unpacked_name
from retrokit.data.beir import is_beir, sets_in
from retrokit.data.corpus import read_queries
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.data.sure import PASSAGES, VARIANT_FILES
from retrokit.data.trec import read_judgements
from retrokit.encoders.folders import CARD
from retrokit.extensions.publishing.cards import complete, copy, read_card, without_folders
from retrokit.extensions.publishing.settings import PushSettings
from retrokit.training.card import table

_TABLES = (
    (r"qrels/(?P<split>[^/]+)\.jsonl", "default"),
    (r"qrels-\d+\.jsonl", "qrels"),
    (r"query-\d+(?P<kind>-semantic-equivalence)?\.jsonl", "queries"),
)
"""Names of files that are not those of their tables."""
_RECORDS = ("manifest.jsonl", "build-sure.json")
"""Files of a SURE set that are no tables."""
_CHANGES = "changes.jsonl"
_EXPECTED = "a model folder, a SURE or BEIR folder, repaired data, or JSON lines"


@dataclass(frozen=True)
class Table:
    """A table: its configuration and split in the repository, its file there, and its size."""

    config: str
    split: str
    file: str
    rows: int
    columns: list[str]


def stage_data(settings: PushSettings, staged: Path) -> None:
    """Write what is uploaded of data, with a card, into the folder ``staged``.

    Raises:
        UsageError: no data, or an option of models.
        DataError: a file that cannot be read.
    """
    for name in ("results", "mteb", "base_model"):
        if getattr(settings, name):
            raise UsageError(f"`{name}=` is for models, and {settings.folder} has no retrokit.json")
    source = Path(settings.folder)
    if source.is_file():
        copy(source, staged / source.name)
    else:
        for path in _files(source):
            target = staged / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy(path, target)
    for path in sorted(staged.rglob("*.tsv")):
        write_jsonl(path.with_suffix(".jsonl"), _rows(path))
    tables = list(_tables(staged))
    if not tables:
        raise UsageError(f"{source} contains no JSON lines; expected {_EXPECTED}")
    _write_card(settings, tables, staged)


def _files(folder: Path) -> Iterator[Path]:
    """The files of a data set, below a folder that may contain others; raises :class:`UsageError` for no data set."""
    sets = [folder]
    if (folder / _CHANGES).is_file():
        sets += sets_in(folder)
    elif not is_beir(folder) and not (folder / PASSAGES).is_file():
        raise UsageError(f"{folder} is no data set; expected {_EXPECTED}")
    for path in sets:
        for file in sorted([*path.glob("*"), *path.glob("qrels/*")]):
            is_data = unpacked_name(file.name).endswith((".jsonl", ".tsv"))
            if (is_data and not file.name.startswith(".")) or file.name in (CARD, *_RECORDS):
                yield file


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The queries or judgements of a TSV, with MTEB's names of their columns."""
    if "qrels" in (path.parent.name, path.name.partition("-")[0]):
        for _, query, document, grade in read_judgements(path):
            yield {"query-id": query, "corpus-id": document, "score": grade}
    elif path.name.startswith(("query-", "queries")):
        for query, text in read_queries(path):
            yield {"id": query, "text": text}
    else:
        raise UsageError(f"{path.name}: only queries and judgements may be TSV; write it as JSON lines")


def _tables(folder: Path) -> Iterator[Table]:
    for path in sorted(folder.rglob("*.jsonl*")):
        if path.name in _RECORDS:
            continue
        rows = 0
        columns: dict[str, None] = {}
        for _, row in read_jsonl(path):
            rows += 1
            columns.update(dict.fromkeys(row))
        file = path.relative_to(folder).as_posix()
        yield Table(*_config_and_split(file), file, rows, list(columns))


def _config_and_split(file: str) -> tuple[str, str]:
    """The configuration and the split of a table, from the name of its file below the repository.

    >>> _config_and_split("fiqa/qrels/dev.jsonl"), _config_and_split("query-12-semantic-equivalence.jsonl")
    (('fiqa-qrels', 'dev'), ('queries-semantic-equivalence', 'test'))
    """
    for pattern, config in _TABLES:
        match = re.fullmatch(rf"(?:(?P<set>.+)/)?{pattern}", file)
        if match is not None:
            groups = match.groupdict()
            if groups["set"]:
                config = f"{groups['set'].replace('/', '-')}-{config.replace('default', 'qrels')}"
            return config + (groups.get("kind") or ""), groups.get("split") or "test"
    stem = unpacked_name(file).removesuffix(".jsonl")
    name = stem.rpartition("/")[2]
    split = "train"
    if name in ("corpus", "queries"):
        split = name
    elif f"{name}.jsonl" in (PASSAGES, *VARIANT_FILES.values()):
        split = "test"
    return stem.replace("/", "-"), split


def _write_card(settings: PushSettings, tables: list[Table], staged: Path) -> None:
    """Complete the card of the folder, or write one."""
    path = staged / CARD
    name = settings.repo.partition("/")[2]
    text = read_text(path, LARGEST_TOML) if path.is_file() else f"# {name}\n\n{_described(tables)}\n"
    if not text.startswith("---"):
        text = f"---\npretty_name: {name}\n---\n\n{text}"
    card = read_card(DatasetCard, text, Path(settings.folder, CARD))
    entries = {
        "license": settings.license,
        "language": settings.card_languages,
        "task_categories": card.data.get("task_categories") or ["text-retrieval"],
        "configs": _configs(tables),
    }
    complete(card, entries, ["retrokit"])
    sections = [without_folders(card.text).strip()]
    if "## Tables" not in card.text:
        sections += [_table_section(tables), _use_section(settings.repo, tables)]
    if (staged / _CHANGES).is_file() and "## Repairs" not in card.text:
        reasons = Counter(str(row.get("reason")) for _, row in read_jsonl(staged / _CHANGES))
        sections.append(f"## Repairs\n\n{table({'reason': '---', 'changes': '---:'}, reasons.most_common())}")
    card.text = "\n" + "\n\n".join(sections) + "\n"
    path.write_text(str(card), encoding="utf-8")


def _configs(tables: list[Table]) -> list[dict[str, Any]]:
    """The tables as the card of a data set on the Hub lists them."""
    files: dict[str, list[dict[str, str]]] = {}
    for entry in tables:
        files.setdefault(entry.config, []).append({"split": entry.split, "path": entry.file})
    return [{"config_name": config, "data_files": paths} for config, paths in files.items()]


def _table_section(tables: list[Table]) -> str:
    rows = [[entry.config, entry.split, f"{entry.rows:,}", ", ".join(entry.columns)] for entry in tables]
    headings = {"configuration": "---", "split": "---", "rows": "---:", "columns": "---"}
    return f"## Tables\n\n{table(headings, rows)}"


def _described(tables: list[Table]) -> str:
    files = {entry.file for entry in tables}
    if PASSAGES in files:
        return "Queries, their passages and variants of these, in the layout of the SURE release."
    if _CHANGES in files:
        return f"Repaired copies of data. `{_CHANGES}` lists each change."
    if any(Path(file).name.startswith("corpus.") for file in files):
        return "A corpus, queries and judgements, in the layout of BEIR."
    return "Texts for training retrievers, in JSON lines."


def _use_section(repo: str, tables: list[Table]) -> str:
    configs = {entry.config for entry in tables}
    name = repo.partition("/")[2]
    if {"corpus", "default"} <= configs:
        command = f"retrokit eval minilm --on beir:hf:{repo}"
    elif len(tables) == 1 and {"anchor", "positive"} <= set(tables[0].columns):
        command = f"retrokit finetune minilm --data hf:{repo} -o runs/{name}"
    else:
        command = f"hf download {repo} --repo-type dataset --local-dir {name}"
    return f"""## Use

```python
from datasets import load_dataset

rows = load_dataset("{repo}", "{tables[0].config}", split="{tables[0].split}")
```

```bash
{command}
```"""
