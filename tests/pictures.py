"""Pictures that tests make."""

from pathlib import Path

import numpy as np
from PIL import Image

from retrokit.data.jsonl import write_jsonl
from tests.models import sentences


def make_picture(path: Path, seed: int = 0, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Path:
    """Blocks of random colours, ``size`` pixels wide and high; the format is that of the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST).convert(mode).save(path)
    return path


def make_image_benchmark(folder: Path, count: int = 6, images: str = "corpus") -> Path:
    """A BEIR folder of ``count`` pairs: of a text and an image; ``images`` are the documents, or the queries."""
    texts = [{"_id": f"t{i}", "text": text} for i, text in enumerate(sentences(count))]
    shown = [{"_id": f"i{i}", "image": f"pictures/{i}.png"} for i in range(count)]
    for i in range(count):
        make_picture(folder / "pictures" / f"{i}.png", i)
    sides = {"corpus": shown, "queries": texts} if images == "corpus" else {"corpus": texts, "queries": shown}
    for name, rows in sides.items():
        write_jsonl(folder / f"{name}.jsonl", rows)
    (folder / "qrels").mkdir()
    judged = [f"{q['_id']}\t{d['_id']}\t1\n" for q, d in zip(sides["queries"], sides["corpus"], strict=True)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))
    return folder
