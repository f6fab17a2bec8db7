"""The converter of multi-hop sets, on files made in their authors' forms."""

import csv
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from retrokit.data.beir import read_answers, read_beir

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "multihop_to_beir.py"

TWO_WIKI = [
    {
        "_id": "w1",
        "question": "Who directed it?",
        "answer": "Ann",
        "type": "compositional",
        "context": [["Film", ["It is a film.", " Ann made it."]], ["Ann", ["Ann directs."]], ["Bob", ["Bob acts."]]],
        "supporting_facts": [["Film", 1], ["Ann", 0], ["Film", 0]],
    },
    {
        "_id": "w2",
        "question": "Who acts?",
        "answer": "Bob",
        "context": [["Bob", ["Bob acts."]], ["Ann", ["Ann directs."]], ["Bob", ["Bob acts."]]],
        "supporting_facts": [["Bob", 0]],
    },
]
MUSIQUE = [
    {
        "id": "2hop__1_2",
        "question": "Where was she born?",
        "answer": "Paris",
        "answer_aliases": ["City of Light", "Paris"],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "She", "paragraph_text": "Born in Paris.", "is_supporting": True},
            {"idx": 1, "title": "He", "paragraph_text": "Born in Rome.", "is_supporting": False},
        ],
    },
    {"id": "x", "question": "?", "answer": "", "answerable": False, "paragraphs": []},
]
NOVEL = [
    {"book": "Emma", "context": 'She said "no",\nand left.', "question": "What did she say?", "answer": "no"},
    {"book": "Emma", "context": "He came.", "question": "Who came?", "answer": "he"},
]


@pytest.fixture
def converter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("multihop_to_beir", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_two_wiki(converter: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "dev.json", TWO_WIKI)
    assert converter.main(["2wikimultihopqa", path, "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: 2 queries, 5 documents, 3 judgements\n"
    data = read_beir(tmp_path / "out")
    texts = dict(zip(data.document_ids, data.documents, strict=True))
    assert texts == {
        "w1-0": "Film It is a film. Ann made it.",
        "w1-1": "Ann Ann directs.",
        "w1-2": "Bob Bob acts.",
        "w2-0": "Bob Bob acts.",  # twice in its question, once here
        "w2-1": "Ann Ann directs.",
    }
    assert data.qrels == {"w1": {"w1-0": 1, "w1-1": 1}, "w2": {"w2-0": 1}}
    assert dict(zip(data.query_ids, data.queries, strict=True)) == {"w1": "Who directed it?", "w2": "Who acts?"}
    assert read_answers(tmp_path / "out") == {"w1": ["Ann"], "w2": ["Bob"]}


def test_merged(converter: ModuleType, tmp_path: Path) -> None:
    path = written(tmp_path / "dev.json", TWO_WIKI)
    assert converter.main(["2wikimultihopqa", path, "-o", str(tmp_path / "out"), "--merge"]) == 0
    data = read_beir(tmp_path / "out")
    assert data.document_ids == ["0", "1", "2"]
    assert data.qrels == {"w1": {"0": 1, "1": 1}, "w2": {"2": 1}}


def test_musique(converter: ModuleType, tmp_path: Path) -> None:
    path = written(tmp_path / "musique_ans_v1.0_dev.jsonl", MUSIQUE)
    assert converter.main(["musique", path, "-o", str(tmp_path / "out")]) == 0
    data = read_beir(tmp_path / "out")
    assert data.qrels == {"2hop__1_2": {"2hop__1_2-0": 1}}
    assert data.documents == ["She Born in Paris.", "He Born in Rome."]
    assert read_answers(tmp_path / "out") == {"2hop__1_2": ["Paris", "City of Light"]}


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_novelhop(converter: ModuleType, tmp_path: Path, ending: str) -> None:
    paths = [written(tmp_path / f"hop_{i}.{ending}", NOVEL[i - 1 : i]) for i in (1, 2)]
    assert converter.main(["novelhopqa", *paths, "-o", str(tmp_path / "out")]) == 0
    data = read_beir(tmp_path / "out")
    assert data.qrels == {"hop_1-1": {"hop_1-1-0": 1}, "hop_2-1": {"hop_2-1-0": 1}}
    assert data.documents == ['She said "no",\nand left.', "He came."]


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("2wikimultihopqa", {"supporting_facts": []}, "dev.json:1: no paragraph is marked as supporting"),
        ("2wikimultihopqa", {"context": [["Film"]]}, "dev.json:1: a field is of another form than expected"),
        ("musique", {}, "dev.json:1: no field 'paragraphs'; the fields are '_id', 'question'"),
    ],
)
def test_wrong_files(
    converter: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, change: Any, problem: str
) -> None:
    path = written(tmp_path / "dev.json", [{**TWO_WIKI[0], **change}])
    assert converter.main([name, path, "-o", str(tmp_path / "out")]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ids_that_came_before_and_no_json(
    converter: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "dev.json", [TWO_WIKI[0], TWO_WIKI[0]])
    assert converter.main(["2wikimultihopqa", path, "-o", str(tmp_path / "out")]) == 2
    assert "dev.json:2: the id 'w1' came before" in capsys.readouterr().err
    (tmp_path / "dev.json").write_text("{")
    assert converter.main(["2wikimultihopqa", path, "-o", str(tmp_path / "out")]) == 2
    assert "dev.json: could not be read: Expecting" in capsys.readouterr().err
    (tmp_path / "dev.json").write_text("{}")
    assert converter.main(["2wikimultihopqa", path, "-o", str(tmp_path / "out")]) == 2
    assert "expected a JSON list of objects" in capsys.readouterr().err
