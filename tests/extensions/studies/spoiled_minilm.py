"""Does `retrokit study why-this-figure` name what was done to minilm?

    python tests/extensions/studies/spoiled_minilm.py ../shared/data/scifact work/spoiled

Each case changes one thing of minilm's folder or of the task, and gives the figure without that change as the published
one. Claims of SciFact's test search its abstracts. For identical ids, the title of an abstract has the id of its first
half and is judged by the second half.
"""

import argparse
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import retrokit
from retrokit.data.beir import read_beir, write_beir
from retrokit.data.corpus import Document, read_corpus
from retrokit.encoders.folders import minilm_path
from retrokit.extensions.studies.why import why_this_figure

METRIC = "ndcg@10"


def claims(scifact: Path, folder: Path, queries: int, documents: int) -> str:
    """Some claims with their abstracts, and others at random."""
    data, rng = read_beir(scifact), random.Random(0)
    drawn = rng.sample(data.query_ids, queries)
    qrels = {query: data.qrels[query] for query in drawn}
    judged = {document for grades in qrels.values() for document in grades}
    others = [document for document in data.document_ids if document not in judged]
    chosen = judged | set(rng.sample(others, documents - len(judged)))
    texts = dict(zip(data.query_ids, data.queries, strict=True))
    corpus = [document for document in read_corpus(scifact / "corpus.jsonl") if document.id in chosen]
    write_beir(folder, corpus, [(query, texts[query]) for query in drawn], {"test": qrels})
    return f"beir:{folder}"


def halves(scifact: Path, folder: Path, queries: int) -> str:
    """Abstracts in two halves, and their titles as queries."""
    drawn = random.Random(0).sample(list(read_corpus(scifact / "corpus.jsonl")), queries)
    parts = [(document, len(document.text) // 2) for document in drawn]
    corpus = [Document(document.id, "", document.text[:middle]) for document, middle in parts]
    corpus += [Document(f"{document.id}-2", "", document.text[middle:]) for document, middle in parts]
    qrels = {document.id: {f"{document.id}-2": 1} for document in drawn}
    write_beir(folder, corpus, [(document.id, document.title) for document in drawn], {"test": qrels})
    return f"beir:{folder}"


def changed(file: str, **values: Any) -> Callable[[Path], None]:
    """Writes other values into a JSON file of the model."""

    def spoil(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")

    return spoil


def without_normalize(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    (folder / "modules.json").write_text(json.dumps(modules[:-1]), "utf-8")
    changed("config_sentence_transformers.json", similarity_fn_name="dot")(folder)


def without_end(folder: Path) -> None:
    processor = json.loads((folder / "tokenizer.json").read_text("utf-8"))["post_processor"]
    changed("tokenizer.json", post_processor=processor | {"single": processor["single"][:-1]})(folder)


def prompted(**prompts: str) -> Callable[[Path], None]:
    return changed("config_sentence_transformers.json", prompts={"query": "", "document": ""} | prompts)


PROMPT = "Summarise in a few words: "
FAMILY = 'query_prompt="query: ",document_prompt="passage: "'
POOLING = {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
CASES: list[tuple[str, str, Callable[[Path], None] | None, str, str]] = [
    # what was done, what must be named, of the folder, options of the task, options of the published model
    ("pooling `cls`", "pooling mean", changed("1_Pooling/config.json", **POOLING), "", ""),
    ("no Normalize layer, `dot`", "similarity cosine", without_normalize, "", ""),
    ("a prompt before queries", "query prompt none", prompted(query=PROMPT), "", ""),
    ("a prompt before documents", "document prompt none", prompted(document=PROMPT), "", ""),
    ("the prompts of E5 left out", "prompts of E5", None, "", FAMILY),
    ("32 tokens", "maximum length 256", changed("sentence_bert_config.json", max_seq_length=32), "", ""),
    (
        "texts cut at their start",
        "truncation side right",
        changed("tokenizer_config.json", truncation_side="left"),
        "",
        "",
    ),
    ("no end token", "end token with", without_end, "", ""),
    ("titles left out", "titles joined", None, "titles=false", ""),
    ("identical ids searched", "documents with the query's id left out", None, "ignore_identical_ids=false", ""),
    ("identical ids left out", "documents with the query's id searched", None, "ignore_identical_ids=true", ""),
]


def figure(model: str, task: str) -> float:
    (result,) = retrokit.evaluate([model], [task], metrics=[METRIC]).results
    return float(result.metrics[METRIC])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scifact", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--only", type=int, nargs="*", help="Numbers of cases.")
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    tasks = {
        False: claims(given.scifact, given.work / "claims", given.queries, given.documents),
        True: halves(given.scifact, given.work / "halves", given.queries),
    }
    print("| case | published | spoiled | named first | with that change | changes that give it |")
    print("|---|---:|---:|---|---:|---:|", flush=True)
    for number, (case, cause, spoil, of_task, of_model) in enumerate(CASES):
        if given.only and number not in given.only:
            continue
        task, model = tasks["identical" in of_task], given.work / f"model-{number}"
        opposite = of_task.replace("false", "true") if "false" in of_task else of_task.replace("true", "false")
        shutil.copytree(minilm_path(), model)
        published = figure(f"{model}{of_model and ','}{of_model}", f"{task}{opposite and ','}{opposite}")
        if spoil is not None:
            spoil(model)
        why = why_this_figure(str(model), f"{task}{of_task and ','}{of_task}", f"{METRIC}={published:.4f}")
        first, explaining = why.changes[0], sum(map(why.explains, why.changes))
        named = f"{first.setting} {first.value}"
        named += "" if named == cause else " (not the cause)"
        reached = "" if first.figure is None else f"{first.figure:.4f}"
        if f"{why.present:.4f}" == f"{published:.4f}":
            named, reached = "nothing: the figure is the published one", ""
        print(f"| {case} | {published:.4f} | {why.present:.4f} | {named} | {reached} | {explaining} |", flush=True)
        shutil.rmtree(model)


if __name__ == "__main__":
    main()
