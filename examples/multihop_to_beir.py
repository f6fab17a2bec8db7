"""The multi-hop sets that MTEB lacks (MAG, Table 28) as BEIR folders, from their authors' published files.

python examples/multihop_to_beir.py 2wikimultihopqa dev.json -o data/2wikimultihopqa
python examples/multihop_to_beir.py musique musique_ans_v1.0_dev.jsonl -o data/musique
python examples/multihop_to_beir.py novelhopqa hop_1.csv hop_2.csv hop_3.csv hop_4.csv -o data/novelhopqa

What each file holds, and what becomes relevant to a question:

- 2WikiMultihopQA: a JSON list of _id, question, answer, context (title and sentences) and supporting_facts (title and
  number); a paragraph that a supporting fact names. HotpotQA's own files have the same form.
- MuSiQue: JSON lines of id, question, answer, answer_aliases, paragraphs (title, paragraph_text, is_supporting); a
  supporting paragraph. Questions that are marked as not answerable are left out.
- NovelHopQA: question, answer and context, as CSV, JSON or JSON lines; the context that the question was made from.

Each question's paragraphs become documents of its own, as the counts of MAG's table have it (2,417 questions of 20
paragraphs are its 48,315 documents, but for the few that a question repeats); --merge makes one document of equal
paragraphs of several questions, relevant to each of them. Answers go beside the questions, so that rag:FOLDER can ask.
"""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, RetrokitError
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.data.jsonl import fields_of, read_jsonl

Row = dict[str, Any]
Paragraph = tuple[str, str, bool]
"""Title, text, and whether it is relevant."""


@dataclass(frozen=True)
class Question:
    """A question with its answers and its paragraphs; ``None`` for an id that the file does not give."""

    id: str | None
    text: str
    answers: list[str]
    paragraphs: list[Paragraph]


def two_wiki(row: Row) -> Question:
    """A question of 2WikiMultihopQA or HotpotQA."""
    supporting = {title for title, _ in row["supporting_facts"]}
    paragraphs = [
        (title, " ".join(s.strip() for s in sentences), title in supporting) for title, sentences in row["context"]
    ]
    return Question(str(row["_id"]), row["question"], [row["answer"]], paragraphs)


def musique(row: Row) -> Question | None:
    """A question of MuSiQue; ``None`` if it is marked as not answerable."""
    if not row.get("answerable", True):
        return None
    paragraphs = [(part["title"], part["paragraph_text"], bool(part["is_supporting"])) for part in row["paragraphs"]]
    return Question(str(row["id"]), row["question"], [row["answer"], *row.get("answer_aliases", [])], paragraphs)


def novelhop(row: Row) -> Question:
    """A question of NovelHopQA."""
    identifier = row.get("id", row.get("_id"))
    answers, paragraphs = [row["answer"]], [("", row["context"], True)]
    return Question(None if identifier is None else str(identifier), row["question"], answers, paragraphs)


FORMATS: dict[str, Callable[[Row], Question | None]] = {
    "2wikimultihopqa": two_wiki,
    "musique": musique,
    "novelhopqa": novelhop,
}


def rows_of(path: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV file, a JSON list or JSON lines, numbered from 1.

    Raises:
        DataError: the file cannot be read as what its name says.
    """
    try:
        if path.suffix == ".csv":
            csv.field_size_limit(sys.maxsize)
            with open(path, encoding="utf-8-sig", newline="") as stream:
                yield from enumerate(csv.DictReader(stream), start=1)
        elif path.suffix == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
                raise DataError(path, "expected a JSON list of objects")
            yield from enumerate(found, start=1)
        else:
            yield from read_jsonl(path)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise DataError(path, f"could not be read: {error}") from error


def questions_of(paths: list[Path], read: Callable[[Row], Question | None]) -> Iterator[Question]:
    """The questions of all files, each with an id.

    Raises:
        DataError: a row without the fields of its format, a question without a relevant paragraph, or a repeated id.
    """
    seen: set[str] = set()
    for path in paths:
        for number, row in rows_of(path):
            try:
                question = read(row)
            except KeyError as error:
                raise DataError(path, f"no field {error}; the fields are {fields_of(row)}", number) from error
            except (TypeError, ValueError, AttributeError) as error:
                raise DataError(path, f"a field is of another form than expected: {error}", number) from error
            if question is None:
                continue
            identifier = question.id or f"{path.stem}-{number}"
            if identifier in seen:
                raise DataError(path, f"the id {identifier!r} came before", number)
            if not any(relevant for _, _, relevant in question.paragraphs):
                raise DataError(path, "no paragraph is marked as supporting (a test set without answers?)", number)
            seen.add(identifier)
            yield Question(identifier, question.text, question.answers, question.paragraphs)


def convert(name: str, paths: list[Path], folder: Path, merge: bool = False) -> dict[str, int]:
    """Write ``folder``; returns how many queries, documents and judgements there are.

    Raises:
        UsageError: the folder exists already.
        DataError: as for :func:`questions_of`.
    """
    documents: dict[str, Document] = {}
    by_text: dict[tuple[str, str], str] = {}
    queries: list[tuple[str, str]] = []
    qrels: dict[str, dict[str, int]] = {}
    answers: dict[str, list[str]] = {}
    for question in questions_of(paths, FORMATS[name]):
        query = str(question.id)
        queries.append((query, question.text))
        answers[query] = list(dict.fromkeys(answer for answer in question.answers if answer))
        qrels[query] = {}
        own = by_text if merge else {}
        for title, text, relevant in question.paragraphs:
            fresh = str(len(documents)) if merge else f"{query}-{len(own)}"
            identifier = own.setdefault((title, text), fresh)
            documents.setdefault(identifier, Document(identifier, title, text))
            if relevant:
                qrels[query][identifier] = 1
    write_beir(folder, documents.values(), queries, {"test": qrels}, answers)
    judged = sum(len(grades) for grades in qrels.values())
    return {"queries": len(queries), "documents": len(documents), "judgements": judged}


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FORMATS)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-o", "--output", required=True, type=Path, help="the new folder")
    parser.add_argument("--merge", action="store_true", help="one document of equal paragraphs of several questions")
    given = parser.parse_args(arguments)
    try:
        counts = convert(given.name, given.files, given.output, given.merge)
    except RetrokitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{given.output}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
