"""Fine-tuning on pairs of a text and an image: every similarity, every direction, cached gradients, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import DataError, UsageError
from retrokit.data.images import Image, open_image
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_source
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from tests.close import assert_rounded
from tests.models import sentences
from tests.pictures import make_image_benchmark, make_picture

SPECS = ["cosine", "dot", "qnorm", "dnorm", "learn", "sfs:4", "l2", "l1"]
COUNT = 12


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, Path]:
    """Files of pairs, by which side is the image."""
    shown = [{"image": f"pictures/{i}.png"} for i in range(COUNT)]
    for i in range(COUNT):
        make_picture(tmp_path / "pictures" / f"{i}.png", i)
    sides = {"positive": (sentences(COUNT), shown), "anchor": (shown, sentences(COUNT))}
    for name, (anchors, positives) in sides.items():
        rows = [{"anchor": a, "positive": p} for a, p in zip(anchors, positives, strict=True)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    return {name: tmp_path / f"{name}.jsonl" for name in sides}


def config(clip: Path, data: Path, output: Path | None = None, **options) -> FinetuneConfig:
    options = {"epochs": None, "steps": 2, "batch_size": 4, "lr": 0.01, "precision": "fp32", **options}
    return FinetuneConfig(encoder=f"clip:{clip}", data=[str(data)], output=output and str(output), **options)


@pytest.mark.parametrize("side", ["positive", "anchor"])
@pytest.mark.parametrize("sim", SPECS)
def test_a_run_loads_as_an_image_text_model(tiny_clip: Path, tmp_path: Path, pairs, sim: str, side: str):
    finetune(config(tiny_clip, pairs[side], tmp_path / "run", sim=sim))
    run, start = (retrokit.encoder(str(folder)) for folder in (tmp_path / "run", tiny_clip))
    assert run.similarity.spec == retrokit.similarity(sim).spec
    image = open_image(tmp_path / "pictures" / "0.png")
    for item in (image, "the cat sleeps"):
        before, after = (encoder.embed([item], "query", "fp32") for encoder in (start, run))
        assert np.isfinite(after).all()
        assert not np.allclose(before, after, atol=1e-3)


@pytest.mark.parametrize("directions", ["query-to-document", "document-to-query", "both"])
def test_the_loss_is_that_of_the_embeddings(tiny_clip: Path, pairs, directions: str):
    made = plan(config(tiny_clip, pairs["positive"], sim="dot", loss=f"infonce:directions={directions}", dropout=0.0))
    examples = [made.data[i] for i in range(4)]
    batch = made.loader.collate_fn(examples)
    found = made.loss()([batch["query"], batch["document"]])
    encoder = retrokit.encoder(f"clip:{tiny_clip}")
    sides = [[one.record.anchor for one in examples], [one.record.positive for one in examples]]
    queries, documents = (torch.from_numpy(encoder.embed(side, "query", "fp32")) for side in sides)
    scores = made.preflight.scale["scale"] * queries @ documents.T
    of = {"query-to-document": [scores], "document-to-query": [scores.T], "both": [scores, scores.T]}[directions]
    expected = sum(torch.nn.functional.cross_entropy(one, torch.arange(4)) for one in of) / len(of)
    assert_rounded(found.item(), expected.item(), 4)


@pytest.mark.parametrize("side", ["positive", "anchor"])
def test_cached_gradients_are_the_whole_batchs(tiny_clip: Path, pairs, side: str):
    gradients: list[dict[str, torch.Tensor]] = []
    for mini_batch in (None, 3):
        made = plan(config(tiny_clip, pairs[side], sim="dot", loss="infonce:directions=both", mini_batch=mini_batch))
        batch = made.loader.collate_fn([made.data[i] for i in range(8)])
        made.loss()([batch["query"], batch["document"]]).backward()
        gradients.append({name: value.grad for name, value in made.model.named_parameters() if value.requires_grad})
    assert {name.split(".")[2] for name in gradients[0]} >= {"text_model", "vision_model"}
    largest = max(float(whole.abs().max()) for whole in gradients[0].values())
    for name, whole in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], whole, rtol=1e-3, atol=1e-5 * largest)


def test_lengths_and_counts_are_of_texts_and_of_images(tiny_clip: Path, pairs, tmp_path: Path):
    made = plan(config(tiny_clip, pairs["positive"]))
    assert list(made.preflight.lengths) == ["query"]
    assert made.preflight.sources[0]["images"] == COUNT
    before = read_source(str(pairs["positive"]), "pairs", images=True).digest
    make_picture(tmp_path / "pictures" / "3.png", 99)
    assert read_source(str(pairs["positive"]), "pairs", images=True).digest != before


def test_the_memory_of_two_towers_is_not_estimated(tiny_clip: Path, pairs):
    assert plan(config(tiny_clip, pairs["positive"])).preflight.memory is None


@pytest.mark.parametrize("options", [{"lora": 2}, {"gradient_checkpointing": True}])
def test_both_towers_are_trained_by_parts_too(tiny_clip: Path, tmp_path: Path, pairs, options):
    finetune(config(tiny_clip, pairs["positive"], tmp_path / "run", **options))
    run, start = (retrokit.encoder(str(folder)) for folder in (tmp_path / "run", tiny_clip))
    for item in (open_image(tmp_path / "pictures" / "0.png"), "the cat sleeps"):
        before, after = (encoder.embed([item], "query", "fp32") for encoder in (start, run))
        assert not np.allclose(before, after, atol=1e-4)


def test_a_benchmark_with_images_gives_pairs(tmp_path: Path):
    folder = make_image_benchmark(tmp_path / "data")
    records = read_source(f"beir:{folder},split=test", "pairs", images=True).records
    assert [(type(one.anchor), type(one.positive)) for one in records] == [(str, Image)] * 6
    assert [one.positive.where[1] for one in records] == [1, 2, 3, 4, 5, 6]


def image_row(**more):
    return {"anchor": "a", "positive": {"image": "good.png"}, **more}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"anchor": "b", "positive": "c"}, "anchor and document are a text and a text; expected a text and an image"),
        (image_row(negatives=["c"]), "anchor and document are a text and a text; expected a text and an image"),
        (image_row(anchor={"image": "good.png"}), "an image and an image; expected a text and an image"),
        (image_row(positive={"image": "none.png"}), "none.png' does not exist"),
        (image_row(positive=[{"image": "bad.png"}]), "bad.png' is no image"),
        (image_row(positive={"picture": "good.png"}), "should be a string or a list of strings, found an object"),
        (image_row(anchor={"image": 3}), "should be a string, found an object"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, row, said: str):
    make_picture(tmp_path / "good.png")
    (tmp_path / "bad.png").write_text("no picture")
    write_jsonl(tmp_path / "pairs.jsonl", [image_row(), row])
    with pytest.raises(DataError) as error:
        read_source(str(tmp_path / "pairs.jsonl"), "pairs", images=True)
    assert str(error.value).startswith(f"{tmp_path / 'pairs.jsonl'}:2: ")
    assert said in str(error.value)


def test_negatives_may_be_images_where_positives_are(tmp_path: Path, tiny_clip: Path):
    for i in range(3):
        make_picture(tmp_path / f"{i}.png", i)
    rows = [
        {"anchor": text, "positive": {"image": "0.png"}, "negatives": [{"image": "1.png"}, {"image": "2.png"}]}
        for text in sentences(4)
    ]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    made = plan(config(tiny_clip, tmp_path / "pairs.jsonl"))
    batch = made.loader.collate_fn([made.data[i] for i in range(4)])
    assert batch["document"]["pixel_values"].shape == (12, 3, 24, 24)
    assert len(set(batch["document"]["text_ids"].tolist())) == 3


def test_what_takes_texts_refuses_pairs_with_images(tmp_path: Path, pairs, tiny_bert: Path):
    with pytest.raises(UsageError, match=r"positive\.jsonl contains images; expected texts"):
        read_source(str(pairs["positive"]), "pairs")
    with pytest.raises(UsageError, match="takes no images"):
        plan(FinetuneConfig(encoder=str(tiny_bert), data=[str(pairs["positive"])], batch_size=4))
