"""Where a run started, and how far its layers are from there."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import DataError
from retrokit.extensions.representations.starts import layer_changes, starting_encoder


def test_changes_are_relative_frobenius_norms(tiny_bert: Path) -> None:
    start, end = retrokit.encoder(str(tiny_bert)), retrokit.encoder(str(tiny_bert))
    assert layer_changes(start, end) == [0.0, 0.0, 0.0]
    network = end.to_train().model[0].model
    with torch.no_grad():
        for parameter in network.encoder.layer[1].parameters():
            parameter.mul_(1.5)
        network.embeddings.word_embeddings.weight.add_(0.1)
    old = np.concatenate([p.detach().numpy().ravel() for p in start.to_train().model[0].model.embeddings.parameters()])
    new = np.concatenate([p.detach().numpy().ravel() for p in network.embeddings.parameters()])
    expected = np.linalg.norm(new - old) / np.linalg.norm(old)
    assert layer_changes(start, end) == pytest.approx([expected, 0.0, 0.5], rel=1e-5)  # norms of float32


def test_where_a_run_started(tiny_bert: Path, tmp_path: Path) -> None:
    assert starting_encoder(tiny_bert) is None
    assert starting_encoder(Path("static:8")) is None
    run = tmp_path / "run"
    retrokit.encoder(str(tiny_bert)).to_train().model.save(str(run))
    described = {"encoder": "scratch:minilm", "similarity": "cosine", "status": "finished"}
    (run / "retrokit.json").write_text(json.dumps(described))
    assert starting_encoder(run) == "scratch:minilm"
    checkpoint = run / "checkpoints" / "checkpoint-10"
    retrokit.encoder(str(tiny_bert)).to_train().model.save(str(checkpoint))
    assert starting_encoder(checkpoint) == "scratch:minilm"
    (run / "retrokit.json").write_text("{")
    with pytest.raises(DataError, match="the description of a run"):
        starting_encoder(run)
