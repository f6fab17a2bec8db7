"""The data that the studies in examples/studies share, besides published folders.

    python examples/studies_data.py ABSTRACTS SURE OUT

OUT/titles is a BEIR folder: a query is the title of a paper, its document the abstract, one of 8,400 (6,400 pairs are
train, 1,000 test), and OUT/few has the test pairs alone. OUT/rest.jsonl holds the abstracts that are not in it, to
pretrain on. OUT/msmarco and OUT/fiqa are BEIR folders of the queries and passages of SURE's published sets. OUT/small
is a Transformer of two layers and 256 dimensions with the tokenizer of minilm, whose shape ``scratch:OUT/small`` takes.
ABSTRACTS is JSON lines of "title" and "text", SURE holds msmarco/ and fiqa/.
"""

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path

from transformers import AutoTokenizer, BertConfig, BertModel

from retrokit.data.sure import read_sure
from retrokit.encoders.folders import minilm_path

DOCUMENTS, TRAIN, TEST = 8_400, 6_400, 1_000
SMALL = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 1_024}


def main(abstracts: Path, sure: Path, out: Path) -> None:
    """Write the folders."""
    by_title = {row["title"]: row["text"] for row in map(json.loads, abstracts.read_text().splitlines())}
    papers = sorted(by_title.items())
    random.Random(0).shuffle(papers)
    titles = {str(number): title for number, (title, _) in enumerate(papers[:DOCUMENTS])}
    texts = {str(number): text for number, (_, text) in enumerate(papers[:DOCUMENTS])}
    same = [(number, number) for number in titles]
    write_beir(out / "titles", titles, texts, {"train": same[:TRAIN], "test": same[TRAIN : TRAIN + TEST]})
    tested = dict(same[TRAIN : TRAIN + TEST])
    few = ({number: kind[number] for number in tested} for kind in (titles, texts))
    write_beir(out / "few", *few, {"test": list(tested.items())})
    write_lines(out / "rest.jsonl", [{"text": text} for _, text in papers[DOCUMENTS:]])
    for name in ("msmarco", "fiqa"):
        data = read_sure(str(sure / name))
        write_beir(out / name, data.queries, data.passages, {"test": list(data.originals.items())})
    tokenizer = AutoTokenizer.from_pretrained(minilm_path())
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **SMALL}
    for part in (tokenizer, BertModel(BertConfig(**size))):
        part.save_pretrained(out / "small")


def write_beir(
    folder: Path, queries: Mapping[str, str], documents: Mapping[str, str], splits: Mapping[str, list[tuple[str, str]]]
) -> None:
    """A BEIR folder; each split is pairs of a query and its document."""
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "queries.jsonl", [{"_id": number, "text": text} for number, text in queries.items()])
    write_lines(folder / "corpus.jsonl", [{"_id": number, "text": text} for number, text in documents.items()])
    for split, pairs in splits.items():
        rows = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in pairs)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join([*rows, ""]))
        print(f"{folder.name}, {split}: {len(pairs)} queries, {len(documents)} documents")


def write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
