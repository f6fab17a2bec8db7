"""Download a public data set and write it in the layout that the commands read.

python docs/reproduction/get_data.py scifact|cisi|abstracts|sure|stsb|banking77|counterfactual|paradetox FOLDER

Needs the network. Files are compared with the SHA-256 in data.toml; a difference is reported, not an error.
"""

import argparse
import hashlib
import io
import json
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make

HUB = {
    "stsb": ("mteb/stsbenchmark-sts", None, {"train": "train", "dev": "validation", "test": "test"}),
    "banking77": ("mteb/banking77", None, {"train": "train", "test": "test"}),
    "counterfactual": (
        "mteb/amazon_counterfactual",
        "en-ext",
        {"train": "train", "valid": "validation", "test": "test"},
    ),
}
FIELDS = {
    "stsb": {name: name for name in ("sentence1", "sentence2", "score", "genre")},
    "banking77": {"text": "text", "label": "label_text"},
    "counterfactual": {"text": "text", "label": "label"},
}
GITHUB = "https://github.com/{}/archive/HEAD.zip"


def write_lines(path: Path, rows: Iterable[dict[str, Any]], ascii_only: bool = True) -> None:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows), "utf-8")


def unzip(address: str, inside: str, out: Path) -> None:
    """The files of a folder inside an archive."""
    with zipfile.ZipFile(io.BytesIO(urlopen(address).read())) as archive:
        for name in archive.namelist():
            _, found, rest = name.partition(inside + "/")
            if found and rest and not name.endswith("/"):
                (out / rest).parent.mkdir(parents=True, exist_ok=True)
                (out / rest).write_bytes(archive.read(name))


def entries(text: str) -> Iterator[dict[str, str]]:
    """The entries of a file of CISI: fields by their letters, I for the number."""
    for block in ("\n" + text).split("\n.I ")[1:]:
        number, _, rest = block.partition("\n")
        fields = {"I": number.strip()}
        for part in ("\n" + rest).split("\n.")[1:]:
            fields[part[0]] = " ".join(line.strip() for line in part.split("\n")[1:])
        yield fields


def cisi(address: str, out: Path) -> None:
    """CISI as a BEIR folder."""
    with tarfile.open(fileobj=io.BytesIO(urlopen(address).read())) as archive:
        texts = {
            Path(member.name).name: archive.extractfile(member).read().decode("latin-1")
            for member in archive.getmembers()
            if member.isfile()
        }
    documents = entries(texts["CISI.ALL"])
    rows = ({"_id": entry["I"], "title": entry["T"], "text": " ".join(entry["W"].split())} for entry in documents)
    write_lines(out / "corpus.jsonl", rows)
    queries = entries(texts["CISI.QRY"])
    write_lines(out / "queries.jsonl", ({"_id": entry["I"], "text": entry.get("W", "")} for entry in queries))
    pairs = [line.split()[:2] for line in texts["CISI.REL"].splitlines() if line.strip()]
    (out / "qrels").mkdir(exist_ok=True)
    lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in pairs), ""]
    (out / "qrels" / "test.tsv").write_text("\n".join(lines), "utf-8")


def abstracts(address: str, out: Path) -> None:
    """The abstracts that abstracts.xz lists: a file of the repository, and a place in it."""
    files: dict[str, list[dict[str, Any]]] = {}
    rows = []
    for line in lzma.decompress((make.FOLDER / "abstracts.xz").read_bytes()).decode().splitlines():
        stem, _, place = line.partition(" ")
        venue, year = stem[:-4], int(stem[-4:])
        if stem not in files:
            files[stem] = json.load(urlopen(f"{address}/{venue}/{stem}.json"))
        paper = files[stem][int(place)]
        text = " ".join(paper["abstract"].split())
        identifier = f"{stem}-{paper.get('id')}"
        rows.append({"id": identifier, "title": paper["title"].strip(), "text": text, "label": venue, "year": year})
    write_lines(out / "abstracts.jsonl", rows, ascii_only=False)


def main(name: str, out: Path) -> None:
    """Write one folder."""
    record = make.data()[name]
    if name == "scifact":
        unzip(record["address"], "scifact", out)
        for file in ("corpus.jsonl", "queries.jsonl"):  # without the field metadata
            rows = [json.loads(line) for line in (out / file).read_text("utf-8").splitlines()]
            fields = ("_id", "title", "text")
            write_lines(
                out / file, ({field: row[field] for field in fields if field in row} for row in rows), ascii_only=True
            )
    elif name == "cisi":
        cisi(record["address"], out)
    elif name == "abstracts":
        abstracts(record["address"], out)
    elif name == "sure":
        unzip(GITHUB.format("icip-cas/SURE"), "data", out)
    elif name == "paradetox":
        unzip(GITHUB.format("s-nlp/paradetox"), "paradetox", out)
        rows = [line.split("\t") for line in (out / "paradetox.tsv").read_text("utf-8").split("\n")[1:]]
        pairs = [
            {"toxic": row[0].strip(), "neutral": row[1].strip()} for row in rows if len(row) > 1 and row[1].strip()
        ]
        write_lines(out / "pairs.jsonl", pairs)
    else:
        from datasets import load_dataset

        path, configuration, splits = HUB[name]
        for file, split in splits.items():
            rows = load_dataset(path, configuration, split=split)
            chosen = ({to: row[field] for to, field in FIELDS[name].items()} for row in rows)
            write_lines(out / f"{file}.jsonl", chosen)
    for file, digest in record.get("sha256", {}).items():
        same = hashlib.sha256((out / file).read_bytes()).hexdigest() == digest
        print(f"{file}: {'as recorded' if same else 'differs from the recorded SHA-256'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Download a public data set in the layout that the commands read.")
    parser.add_argument("name", choices=["scifact", "cisi", "abstracts", "sure", "paradetox", *HUB])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    try:
        main(given.name, given.folder)
    except (URLError, ConnectionError) as error:
        sys.exit(f"{given.name}: {make.data()[given.name]['address']} cannot be read: {error}")
