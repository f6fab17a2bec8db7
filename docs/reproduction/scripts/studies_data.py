"""The data that the studies in docs/reproduction/studies share, besides published folders.

    python docs/reproduction/scripts/studies_data.py ABSTRACTS SURE OUT

OUT/titles is a BEIR folder: a query is the title of a paper, its document the abstract, one of 8,400 (6,400 pairs are
train, 1,000 test), and OUT/few has the test pairs alone. OUT/rest.jsonl holds the abstracts that are not in it, to
pretrain on. OUT/msmarco and OUT/fiqa are BEIR folders of the queries and passages of SURE's published sets. OUT/small
is a Transformer of two layers and 256 dimensions with the tokenizer of minilm, whose shape ``scratch:OUT/small`` takes.
ABSTRACTS is JSON lines of "title" and "text", or the folder with abstracts.jsonl. SURE contains msmarco/ and fiqa/.
What OUT already contains is left as it is, so an interrupted run continues.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from transformers import AutoTokenizer, BertConfig, BertModel

from retrokit.core.errors import DataError, MissingExtra, RetrokitError, first_line
from retrokit.core.files import writing
from retrokit.data.jsonl import read_jsonl
from retrokit.data.sure import read_sure
from retrokit.encoders.folders import minilm_path

DOCUMENTS, TRAIN, TEST = 8_400, 6_400, 1_000
SMALL = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 1_024}


def write(abstracts: Path, sure: Path, out: Path) -> None:
    """Read everything, then write the folders.

    Raises:
        RetrokitError: an input is missing or damaged; nothing is written.
    """
    if abstracts.is_dir():
        abstracts /= "abstracts.jsonl"
    by_title = {
        row.text("title"): row.text("text") for _, row in read_jsonl(abstracts, 'JSON lines of "title" and "text"')
    }
    published = {name: read_sure(sure / name) for name in ("msmarco", "fiqa")}
    try:
        tokenizer = AutoTokenizer.from_pretrained(minilm_path())
    except OSError as error:
        raise MissingExtra(f"the tokenizer of minilm ({first_line(error)})", "minilm") from error
    if out.exists() and not out.is_dir():
        raise DataError(out, "is a file; expected a folder")
    papers = sorted(by_title.items())
    random.Random(0).shuffle(papers)
    titles = {str(number): title for number, (title, _) in enumerate(papers[:DOCUMENTS])}
    texts = {str(number): text for number, (_, text) in enumerate(papers[:DOCUMENTS])}
    same = [(number, number) for number in titles]
    write_beir(out / "titles", titles, texts, {"train": same[:TRAIN], "test": same[TRAIN : TRAIN + TEST]})
    tested = dict(same[TRAIN : TRAIN + TEST])
    few = ({number: kind[number] for number in tested} for kind in (titles, texts))
    write_beir(out / "few", *few, {"test": list(tested.items())})
    if not (out / "rest.jsonl").exists():
        write_lines(out / "rest.jsonl", [{"text": text} for _, text in papers[DOCUMENTS:]])
    for name, data in published.items():
        write_beir(out / name, data.queries, data.passages, {"test": list(data.originals.items())})
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **SMALL}
    if not (out / "small").exists():
        with whole(out / "small") as folder:
            for part in (tokenizer, BertModel(BertConfig(**size))):
                part.save_pretrained(folder)


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A new folder to write, which gets its name when the block ends well."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    part.rename(folder)


def write_beir(
    folder: Path, queries: Mapping[str, str], documents: Mapping[str, str], splits: Mapping[str, list[tuple[str, str]]]
) -> None:
    """A BEIR folder, unless it exists; each split is pairs of a query and its document."""
    if folder.exists():
        print(f"{folder} is there already")
        return
    with whole(folder) as part:
        (part / "qrels").mkdir()
        write_lines(part / "queries.jsonl", [{"_id": number, "text": text} for number, text in queries.items()])
        write_lines(part / "corpus.jsonl", [{"_id": number, "text": text} for number, text in documents.items()])
        for split, pairs in splits.items():
            rows = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in pairs)]
            (part / "qrels" / f"{split}.tsv").write_text("\n".join([*rows, ""]), encoding="utf-8")
    for split, pairs in splits.items():
        print(f"{folder.name}, {split}: {len(pairs)} queries, {len(documents)} documents")


def write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    """JSON lines."""
    with writing(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("abstracts", type=Path, metavar="ABSTRACTS", help="abstracts.jsonl, or its folder")
    parser.add_argument("sure", type=Path, metavar="SURE", help="the folder of SURE's published sets")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    given = parser.parse_args(arguments)
    try:
        write(given.abstracts, given.sure, given.out)
    except RetrokitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
