"""The readers on real public data: the counts that its publishers give."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from retrokit.core import files
from retrokit.data.beir import read_beir
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import ScoredPair

pytestmark = pytest.mark.shared_data


def test_scifact(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Mock(wraps=open)
    monkeypatch.setattr(files, "open", opening, raising=False)
    data = read_beir(shared_data / "scifact")
    opened = [Path(call.args[0]).name for call in opening.call_args_list]
    assert sorted(opened) == ["corpus.jsonl", "queries.jsonl", "test.tsv"], "each is read once"
    assert data.counts == {
        "documents": 5183,
        "documents_without_text": 0,
        "queries": 300,
        "queries_without_judgements": 809,
        "judgements": 339,
        "queries_without_relevant": 0,
    }
    assert (data.name, data.split, data.query_ids[:2], data.document_ids[0]) == ("scifact", "test", ["1", "3"], "4983")
    assert data.queries[0] == "0-dimensional biomaterials show inductive properties."
    assert data.documents[0].startswith("Microstructural development of human newborn cerebral white matter assessed")
    assert data.qrels["1"] == {"31715818": 1}


def test_scifact_training_pairs(shared_data: Path) -> None:
    source = read_source(f"beir:{shared_data / 'scifact'}", "pairs")
    # 919 judgements; three of them repeat a claim and its document under another query id
    assert source.counts["records"] + source.counts["duplicates"] == 919
    assert source.counts["duplicates"] == 3
    assert source.counts["pairs_without_text"] == 0


def test_cisi(shared_data: Path) -> None:
    counts = read_beir(shared_data / "cisi").counts
    assert (counts["documents"], counts["queries"], counts["queries_without_judgements"]) == (1460, 76, 36)


@pytest.mark.parametrize(("split", "size"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_stsb(shared_data: Path, split: str, size: int) -> None:
    source = read_source(str(shared_data / "stsb" / f"{split}.jsonl"), "scored")
    assert source.counts["records"] == size
    scores = [record.score for record in source.records if isinstance(record, ScoredPair)]
    assert (min(scores), max(scores)) == (0.0, 5.0)
