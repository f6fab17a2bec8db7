"""Fine-tuning on pairs of a text and an image: every similarity, every direction, cached gradients, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import DataError
from retrokit.data.images import Image, open_image
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_source
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
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
