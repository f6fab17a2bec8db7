"""`finetune --augment`: fresh pairs of plain texts in every epoch, the same as a file would hold, and resumable."""

from pathlib import Path

import pytest
import torch

from retrokit.augmentation.crops import CropSettings, crop_pairs
from retrokit.augmentation.online import combined, masking_of
from retrokit.augmentation.texts import Texts
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.training.batches import Collator
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.trainer import FinetuneTrainer
from tests.models import sentences
from tests.runs import assert_same_weights, killed_after

CROPS = "crops:min_chars=5,max_chars=200"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """24 texts of six sentences, one of one sentence, and an empty one."""
    parts = sentences(24 * 6)
    rows = [{"id": f"t{i}", "text": ". ".join(parts[6 * i : 6 * i + 6]) + "."} for i in range(24)]
    rows[7:7] = [{"id": "short", "text": "the cat sleeps."}, {"id": "empty", "text": ""}]
    write_jsonl(tmp_path / "corpus.jsonl", rows)
    return tmp_path / "corpus.jsonl"


def configure(encoder: object, data: Path, output: Path | None = None, **options) -> FinetuneConfig:
    defaults = {"steps": 6, "batch_size": 8, "precision": "fp32", "lr": 1e-3, "device": "cpu", "augment": [CROPS]}
    return FinetuneConfig(str(encoder), [str(data)], None if output is None else str(output), **(defaults | options))


@pytest.mark.parametrize(("kind", "twice"), [("crops", False), ("dropout", True)])
def test_every_epoch_gives_what_a_file_would_hold(tiny_bert, corpus, tmp_path, kind, twice):
    settings = CropSettings(sentences=2, min_chars=5, max_chars=200)
    rows = list(crop_pairs(Texts(corpus), settings, epochs=3, seed=5, twice=twice))
    assert len(rows) == 3 * 24
    made = plan(configure(tiny_bert, corpus, augment=[f"{kind}:min_chars=5,max_chars=200"], seed=5))
    per_epoch = []
    for epoch in range(3):
        made.data.epoch = epoch
        per_epoch.append([made.data[i].record for i in range(24)])
        expected = rows[24 * epoch : 24 * (epoch + 1)]
        assert [(pair.anchor, pair.positive) for pair in per_epoch[-1]] == [
            (r["anchor"], r["positive"]) for r in expected
        ]
    # fresh pairs: over 20 seeds 17.9 of 24 where a pair is one chunk twice, with an SD of 2.6
    assert sum(a != b for a, b in zip(per_epoch[0], per_epoch[1], strict=True)) > 4


def test_the_trained_batches_are_fresh_in_every_epoch(tiny_bert, corpus, tmp_path, monkeypatch):
    seen: list[torch.Tensor] = []
    real = FinetuneTrainer.training_step

    def watching(self, model, inputs, *args, **kwargs):
        seen.append(inputs["query"]["input_ids"].clone())
        return real(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(FinetuneTrainer, "training_step", watching)
    finetune(configure(tiny_bert, corpus, tmp_path / "run", steps=9))  # three steps an epoch
    rows = [{tuple(row[row > 0].tolist()) for batch in seen[i : i + 3] for row in batch} for i in (0, 3, 6)]
    assert all(len(epoch) == 24 for epoch in rows)
    # over 20 seeds 5.1 of 24 anchors are drawn again, with an SD of 2.0
    assert len(rows[0] & rows[1]) < 16
    assert len(rows[1] & rows[2]) < 16


@pytest.mark.parametrize("augment", [[CROPS], [CROPS, "mask:0.3"]])
def test_a_resumed_run_sees_the_same_pairs(tiny_bert, corpus, tmp_path, augment):
    common = {"steps": 10, "save_every": 4, "augment": augment}
    finetune(configure(tiny_bert, corpus, tmp_path / "whole", **common))
    with killed_after(7):
        finetune(configure(tiny_bert, corpus, tmp_path / "run", **common))
    finetune(configure(tiny_bert, corpus, tmp_path / "run", **common, resume=True))
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


def test_masks_come_on_top_of_crops(tiny_bert, corpus):
    made = plan(configure(tiny_bert, corpus, augment=[CROPS, "mask:0.5"]))
    masking = masking_of(combined([CROPS, "mask:0.5"]), made.encoder, 0)
    tokenizer = made.encoder.to_train().model.tokenizer
    plain = Collator(made.model.preprocess, made.data.sources, made.encoder.prompts, None)
    masked = Collator(made.model.preprocess, made.data.sources, made.encoder.prompts, None, masking)
    examples = [made.data[i] for i in range(8)]
    before, after, again = plain(examples), masked(examples), masked(examples)
    later = masked([example._replace(epoch=1) for example in examples])
    for role in ("query", "document"):
        ids, changed = before[role]["input_ids"], after[role]["input_ids"]
        is_masked = changed == tokenizer.mask_token_id
        assert torch.equal(changed[~is_masked], ids[~is_masked])
        special = torch.isin(
            ids, torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id])
        )
        assert not (special & is_masked).any()
        tokens = (~special).sum(dim=1)
        assert is_masked.sum(dim=1).tolist() == [(n + 1) // 2 for n in tokens.tolist()]
        assert torch.equal(changed, again[role]["input_ids"])
        assert not torch.equal(changed, later[role]["input_ids"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment": ["crop"]}, "crops"),
        ({"augment": ["crops:sentences=0"]}, "sentences"),
        ({"augment": ["crops:splitter=comma"]}, "comma"),
        ({"augment": ["mask:1.5"]}, "fraction"),
        ({"augment": ["crops", "dropout"]}, "one way to make pairs and at most one mask, not crops, dropout"),
        ({"augment": ["mask:0.1", "mask:0.2"]}, "at most one mask"),
        ({"augment": ["crops"], "loss": "mse"}, "`augment=` and `loss=` mse exclude each other"),
    ],
)
def test_wrong_augmentations(tiny_bert, corpus, options, message):
    with pytest.raises(UsageError, match=message):
        plan(configure(tiny_bert, corpus, **options))
