"""Canaries of an export: a few of its texts with their raw embeddings."""

from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import DataError
from retrokit.data.exports import CANARY_COUNT, open_export
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.vectors.canaries import read_canaries
from retrokit.ranking.export import export
from tests.models import sentences

TEXTS = [" ".join(sentences(count, seed=count)) for count in range(1, 9) for _ in range(3)]
TEXTS += sentences(30, seed=4)


def test_an_export_has_texts_of_all_lengths_with_their_raw_vectors(tiny_bert, tmp_path):
    rows = ({"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS))
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    spec = f"{tiny_bert},document_prompt=passage: "
    folder = str(tmp_path / "out")
    export(spec, str(tmp_path / "corpus.jsonl"), folder, precision="fp32", sim="cosine")
    canaries = read_canaries(open_export(folder))
    assert len(set(canaries.texts)) == CANARY_COUNT
    assert {min(TEXTS, key=len), max(TEXTS, key=len)} <= set(canaries.texts) <= set(TEXTS)
    encoder = retrokit.encoder(spec)
    expected = encoder.embed(canaries.texts, "document", "fp32")
    assert np.array_equal(np.array(canaries.embeddings, dtype=np.float32), expected)
    assert (canaries.role, canaries.prompt) == ("document", "passage: ")
    assert not np.allclose(np.linalg.norm(expected, axis=1), 1)  # raw, whatever the similarity


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('"texts": ["a"], "embeddings": []', "no embedding for each text; export again"),
        ('"texts": ["a"], "embeddings": [[1.0]], "version": 2, "kind": "canaries"', "has version 2 of its format"),
    ],
)
def test_damaged_canaries_are_refused(tiny_bert, tmp_path: Path, content, problem):
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "d", "text": "cat"}])
    folder = export(str(tiny_bert), str(tmp_path / "corpus.jsonl"), str(tmp_path / "out")).folder
    (folder / "canaries.json").write_text('{"role": "document", "prompt": null, ' + content + "}")
    with pytest.raises(DataError, match=problem):
        read_canaries(open_export(folder))
