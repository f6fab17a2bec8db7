"""Texts and images in one space: what an image-text model gives, and what becomes of images where texts are meant."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import CLIPModel, CLIPProcessor

import retrokit
from retrokit.core.errors import UsageError
from retrokit.data.beir import read_beir
from retrokit.data.images import open_image
from retrokit.encoders import engine
from retrokit.evaluation.evaluate import evaluate
from retrokit.probing.magnitude import probe_magnitude
from tests.close import assert_rounded
from tests.models import sentences
from tests.pictures import make_image_benchmark, make_picture


@pytest.fixture
def images(tmp_path: Path):
    return [open_image(make_picture(tmp_path / f"{i}.png", i, size=(30 + i, 40))) for i in range(3)]


def assert_close(made: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(made, expected, rtol=0, atol=64 * np.finfo(np.float32).eps * np.abs(expected).max())


def test_embeddings_are_those_of_the_model_itself(tiny_clip: Path, images, monkeypatch):
    monkeypatch.setattr(engine, "IMAGES", 2)
    texts = sentences(3)
    model, processor = CLIPModel.from_pretrained(tiny_clip).eval(), CLIPProcessor.from_pretrained(tiny_clip)
    with torch.inference_mode():
        tokens = processor(text=texts, return_tensors="pt", padding=True)
        of_texts = model.get_text_features(**tokens).pooler_output.numpy()
        pixels = processor(images=[image.picture() for image in images], return_tensors="pt")
        of_images = model.get_image_features(**pixels).pooler_output.numpy()
    encoder = retrokit.encoder(f"clip:{tiny_clip}")
    mixed = [item for pair in zip(texts, images, strict=True) for item in pair]
    made = encoder.embed([*mixed, images[0]], "query", "fp32")
    assert_close(made[0:6:2], of_texts)
    assert_close(made[1:6:2], of_images)
    assert_close(made[6], of_images[0])
    assert np.ptp(of_images, axis=0).max() > 0.01  # or all of this would say nothing
    assert (encoder.dimension, encoder.max_length("query")) == (16, 32)


def test_a_prompt_goes_before_texts_alone(tiny_clip: Path, images):
    plain, prompted = (retrokit.encoder(f"clip:{tiny_clip}{more}") for more in ("", ",query_prompt=the cat"))
    before, after = (one.embed(["a", *images], "query") for one in (plain, prompted))
    assert (before != after).any(axis=1).tolist() == [True, False, False, False]


def test_a_text_that_reads_as_the_path_of_an_image_is_a_text(tiny_clip: Path, images):
    encoder = retrokit.encoder(f"clip:{tiny_clip}")
    path = str(images[0])
    assert os.path.isfile(path)
    as_text, as_image = encoder.embed([path, images[0]], "query", "fp32")
    assert not np.allclose(as_text, as_image, atol=0.01)
    addresses = ["http://localhost:1/a.png", "data:image/png;base64,AAAA"]
    assert encoder.embed(addresses, "query").shape == (2, 16)


def test_the_cache_knows_an_image_by_its_bytes_and_by_what_makes_numbers_of_them(
    tiny_clip: Path, tmp_path: Path, images, monkeypatch
):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    counted = []
    monkeypatch.setattr(engine, "preprocess", counting(engine.preprocess, counted))
    first = retrokit.encoder(f"clip:{tiny_clip}").embed(images, "document", "fp32")
    moved = open_image(shutil.copy(images[0], tmp_path / "moved.png"))
    again = retrokit.encoder(f"clip:{tiny_clip}").embed([moved, str(images[0])], "document", "fp32")
    assert np.array_equal(again[0], first[0])
    assert counted == [3, 1]  # of the second list, the text
    other = tmp_path / "clip"
    shutil.copytree(tiny_clip, other)
    settings = json.loads((other / "processor_config.json").read_text())
    settings["image_processor"]["image_mean"] = [0.0, 0.0, 0.0]
    (other / "processor_config.json").write_text(json.dumps(settings))
    changed = retrokit.encoder(f"clip:{other}")
    assert changed.fingerprint() != retrokit.encoder(f"clip:{tiny_clip}").fingerprint()
    assert not np.array_equal(changed.embed(images, "document", "fp32"), first)


def counting(function, counted):
    def made(model, items, *args, **options):
        counted.append(len(items))
        return function(model, items, *args, **options)

    return made


@pytest.mark.parametrize("side", ["corpus", "queries"])
def test_a_task_and_a_probe_with_images_on_either_side(tiny_clip: Path, tmp_path: Path, side: str):
    folder = make_image_benchmark(tmp_path / "data", images=side)
    (result,) = evaluate([f"clip:{tiny_clip}"], [f"beir:{folder}"], sim=["dot"], metrics=["accuracy@1"]).results
    encoder = retrokit.encoder(str(tiny_clip))  # the name may be left out
    sides = [encoder.embed(items, "query") for items in read_sides(folder)]
    best = (sides[0] @ sides[1].T).argmax(axis=1)
    assert_rounded(result.metrics["accuracy@1"], float(np.mean(best == np.arange(6))), 6)
    lengths = np.linalg.norm(sides[1], axis=1)
    (found,) = probe_magnitude([f"clip:{tiny_clip}"], [f"beir:{folder}"]).results
    assert_rounded(found.relevant.mean, float(lengths.mean()), 4)


def read_sides(folder: Path):
    data = read_beir(folder, images=True)
    return data.queries, data.documents


@pytest.mark.parametrize("name", ["static:8", "bert", "bm25"])
def test_what_takes_texts_says_so(tiny_bert: Path, tmp_path: Path, name: str):
    folder = make_image_benchmark(tmp_path / "data")
    name = str(tiny_bert) if name == "bert" else name
    with pytest.raises(UsageError, match=r"takes texts, and no images: '.*png' \(.*corpus\.jsonl:\d\)"):
        evaluate([name], [f"beir:{folder}"], metrics=["accuracy@1"])


def test_what_a_model_of_two_towers_has_not(tiny_clip: Path, tiny_bert: Path, images):
    encoder = retrokit.encoder(f"clip:{tiny_clip}")
    with pytest.raises(UsageError, match="embeds whole texts, and no tokens"):
        encoder.with_tokens()
    with pytest.raises(UsageError, match="has no layers"):
        encoder.with_layers().every_layer()
    with pytest.raises(UsageError, match="32 positions"):
        retrokit.encoder(f"clip:{tiny_clip},max_length=33")
    with pytest.raises(UsageError, match="embeds only texts; expected an image-text model"):
        retrokit.encoder(f"clip:{tiny_bert}")
    with pytest.raises(UsageError, match="no images"):
        retrokit.encoder(str(tiny_bert)).with_tokens().token_embeddings(images, "query")
