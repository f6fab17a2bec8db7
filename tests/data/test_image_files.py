"""Image files as items: what is read, what is refused and where, and what two of them have in common."""

import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import read_beir
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.images import Image, check_texts, open_image, with_images
from retrokit.data.jsonl import write_jsonl
from retrokit.data.training_rows import text_id
from tests.pictures import make_image_benchmark, make_picture


def png_of(width: int, height: int) -> bytes:
    """A PNG that says it has so many pixels, and holds none."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def cut(path: Path) -> bytes:
    return path.read_bytes()[: path.stat().st_size // 2]


BROKEN = {
    "missing": (lambda path: None, "does not exist"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "empty": (lambda path: b"", "is no image; expected PNG, JPEG"),
    "text": (lambda path: b"<html></html>", "is no image; expected PNG, JPEG"),
    "half a png": (lambda path: cut(make_picture(path.with_suffix(".png"), size=(300, 200))), "is damaged"),
    "half a jpeg": (lambda path: cut(make_picture(path.with_suffix(".jpg"), size=(300, 200))), "is damaged"),
    "bomb": (lambda path: png_of(30_000, 30_000), "more than 89,478,485 pixels"),
    "small bomb": (lambda path: png_of(10_000, 10_000), "more than 89,478,485 pixels"),
    "script": (lambda path: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no image"),
}


@pytest.mark.parametrize("reader", [read_corpus, read_queries])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_one_line_with_file_and_line(tmp_path: Path, name: str, reader):
    make, said = BROKEN[name]
    content = make(tmp_path / "broken")
    if isinstance(content, bytes):
        (tmp_path / "broken").write_bytes(content)
    make_picture(tmp_path / "good.png")
    write_jsonl(tmp_path / "rows.jsonl", [{"id": 1, "image": "good.png"}, {"id": 2, "image": "broken"}])
    with pytest.raises(DataError) as error:
        list(reader(tmp_path / "rows.jsonl", images=True))
    assert str(error.value).startswith(f"{tmp_path / 'rows.jsonl'}:2: ")
    assert said in str(error.value)
    assert "broken" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_image_goes_before_the_text_beside_it_for_who_takes_images(tmp_path: Path):
    make_picture(tmp_path / "in" / "a.png")
    rows = [{"id": 1, "title": "a", "text": "cat", "image": "a.png"}, {"id": 2, "title": "a", "text": "dog"}]
    write_jsonl(tmp_path / "in" / "rows.jsonl", rows)
    shown, told = read_corpus(tmp_path / "in" / "rows.jsonl", images=True)
    assert isinstance(shown.full_text, Image)
    assert shown.full_text == open_image(tmp_path / "in" / "a.png")
    assert told.full_text == "a dog"
    assert [document.full_text for document in read_corpus(tmp_path / "in" / "rows.jsonl")] == ["a cat", "a dog"]


def test_an_image_is_its_bytes_and_no_text_is_equal_to_it(tmp_path: Path):
    one, same = (open_image(make_picture(tmp_path / name)) for name in ("a.png", "b.png"))
    other = open_image(make_picture(tmp_path / "c.png", seed=1))
    assert (one == same, one == other, one == str(one), str(one) == one, one != str(one)) == (True, *[False] * 3, True)
    assert hash(one) == hash(same)
    assert text_id(one) == text_id(same)
    assert len(set(map(text_id, (one, other, str(one))))) == 3
    assert len({one: 0, same: 1, str(one): 2, str(same): 3}) == 3
    copy = pickle.loads(pickle.dumps(one))
    assert (copy, str(copy), copy.where) == (one, str(one), one.where)
    assert with_images("sha256:0", ["a", "b"]) == "sha256:0"
    assert len({with_images("sha256:0", part) for part in ([one], [same], [other], [one, other], [])}) == 4
    with pytest.raises(UsageError, match=r"minilm takes texts, and no images: '.*a\.png'"):
        check_texts(["a text", one], "minilm")


@pytest.mark.parametrize(("name", "mode"), [("a.png", "L"), ("a.png", "P"), ("a.png", "RGBA"), ("a.jpg", "L")])
def test_a_picture_is_three_colours_upright(tmp_path: Path, name: str, mode: str):
    made = open_image(make_picture(tmp_path / name, mode=mode)).picture()
    assert (made.mode, made.size) == ("RGB", (40, 30))
    turned = PIL.Image.open(tmp_path / name).convert("RGB")
    exif = turned.getexif()
    exif[0x0112] = 6  # lies on its side
    turned.save(tmp_path / "turned.png", exif=exif)
    shown = np.asarray(open_image(tmp_path / "turned.png").picture())
    assert np.array_equal(shown, np.rot90(np.asarray(turned), k=-1))


@pytest.mark.parametrize("images", ["corpus", "queries"])
def test_a_benchmark_may_hold_images_on_either_side(tmp_path: Path, images: str):
    data = read_beir(make_image_benchmark(tmp_path / "data", images=images), images=True)
    are = [{isinstance(item, Image) for item in side} for side in (data.documents, data.queries)]
    assert are == ([{True}, {False}] if images == "corpus" else [{False}, {True}])
    with pytest.raises(DataError, match=r"(corpus|queries)\.jsonl:1: no field 'text'"):
        read_beir(tmp_path / "data")
