"""Images and texts that every machine can make: glyphs of the font that comes with matplotlib, and their names.

    python docs/reproduction/scripts/glyphs.py OUT

Characters of the scripts with a hundred glyphs or more, of which four in five are for training (by the digest of the
name): OUT/text-to-image.jsonl and OUT/image-to-text.jsonl are pairs to train on, the folders of the same names BEIR
folders to test on. Characters that look the same count once, under the first name.
"""

import json
import sys
import unicodedata
from collections import Counter
from hashlib import sha256
from pathlib import Path

import matplotlib
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
SIZE, POINTS, LEAST = 32, 22, 100


def glyphs() -> dict[str, Image.Image]:
    """The picture of each character, by its name."""
    names = {code: unicodedata.name(chr(code), "") for code in sorted(FT2Font(str(FONT)).get_charmap())}
    names = {code: name for code, name in names.items() if name and unicodedata.category(chr(code))[0] in "LNPS"}
    scripts = Counter(name.split()[0] for name in names.values())
    font, seen, made = ImageFont.truetype(str(FONT), POINTS), set(), {}
    for code, name in names.items():
        picture = Image.new("L", (SIZE, SIZE), 255)
        ImageDraw.Draw(picture).text((SIZE // 2, SIZE // 2), chr(code), fill=0, font=font, anchor="mm")
        if scripts[name.split()[0]] >= LEAST and picture.tobytes() not in seen:
            seen.add(picture.tobytes())
            made[name] = picture
    return made


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main(folder: Path) -> None:
    """Write pictures, pairs and benchmarks."""
    parts: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    for number, (name, picture) in enumerate(glyphs().items()):
        path = f"pictures/{number}.png"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        picture.save(folder / path)
        parts["test" if sha256(name.encode()).digest()[0] < 256 / 5 else "train"].append((name.lower(), path))
    for direction in ("text-to-image", "image-to-text"):
        pairs = [({"text": name}, {"image": path}) for name, path in parts["train"]]
        sides = [(text["text"], image) for text, image in pairs]
        sides = sides if direction == "text-to-image" else [(image, text) for text, image in sides]
        write(folder / f"{direction}.jsonl", [{"anchor": anchor, "positive": positive} for anchor, positive in sides])
        texts = [{"_id": f"t{i}", "text": name} for i, (name, _) in enumerate(parts["test"])]
        images = [{"_id": f"i{i}", "image": f"../{path}"} for i, (_, path) in enumerate(parts["test"])]
        queries, documents = (texts, images) if direction == "text-to-image" else (images, texts)
        write(folder / direction / "queries.jsonl", queries)
        write(folder / direction / "corpus.jsonl", documents)
        judged = zip(queries, documents, strict=True)
        lines = ["query-id\tcorpus-id\tscore", *(f"{query['_id']}\t{found['_id']}\t1" for query, found in judged)]
        (folder / direction / "qrels").mkdir(exist_ok=True)
        (folder / direction / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    print({part: len(pairs) for part, pairs in parts.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
