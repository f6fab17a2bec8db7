"""What is answered from a retriever's passages, by the similarity that it was trained with (MAG, 5.2, J and Table 4).

python docs/reproduction/scripts/answers.py RETRIEVERS SURE OUT

RETRIEVERS contains a run SIMILARITY-REPLICATE-… for each retriever. Questions and passages are those of SURE's msmarco
and fiqa, answers the key sentences. They are written to OUT as folders that `retrokit eval --on rag:FOLDER` takes.
The reader has no weights of its own: of the five passages it answers with the sentence that minilm has nearest to the
question. Prints Markdown, differences and slopes with 95% over replicates (paired t).
"""

import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

import retrokit
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.data.sure import read_sure
from retrokit.evaluation.task import Request
from retrokit.extensions.rag.metrics import exact_match, token_f1
from retrokit.extensions.rag.task import Questions, Rag, read_questions
from retrokit.llm.base import LLM, Completion, Sampling
from retrokit.metrics.significance import PairedTest, paired_t_test
from retrokit.sure.statistics import sentences_of

K = 5
FIRST, OTHERS = "cosine", ("qnorm", "dot", "dnorm", "learn")
METRICS = ("recall@5", "exact_match", "f1")
Measures = dict[str, float]


class NearestSentence(LLM):
    """A reader that answers with the sentence of its prompt that is nearest to the question, by minilm's cosine."""

    spec = identity = "nearest sentence by minilm"

    def __init__(self) -> None:
        self.encoder = retrokit.encoder("minilm")
        self.vectors: dict[str, np.ndarray] = {}
        self.sentences_of = cache(lambda passage: sentences_of(passage, "en"))

    def embedded(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of unit length, ``[n, d]``; each text is embedded once."""
        new = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if new:
            self.vectors.update(zip(new, self.encoder.embed(new, "document"), strict=True))
        rows = np.stack([self.vectors[text] for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """A sentence of the passages."""
        sentences = [sentence for passage in passages for sentence in self.sentences_of(passage)]
        nearest = np.argmax(self.embedded(sentences) @ self.embedded([question])[0])
        return sentences[nearest]

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """The answer to a prompt of the task `rag`."""
        question, _, rest = prompt.split("\n", 2)
        passages = re.split(r"\[\d+\] ", rest.removesuffix("\nAnswer:"))
        return Completion(self.answer(question.removeprefix("Question: "), passages), 0, 0)

    async def close(self) -> None:
        """Nothing is open."""


def write_questions(sure: Path, folder: Path) -> dict[str, str]:
    """The folder of questions with answers, unless it exists; the passage that answers each question."""
    data = read_sure(sure, "precision")
    passage_of = {query: data.originals[query] for query in data.testbeds["precision"]}
    if not folder.exists():
        write_beir(
            folder,
            documents=(Document(id, "", text) for id, text in data.passages.items()),
            queries=((query, data.queries[query]) for query in passage_of),
            qrels={"test": {query: {passage: 1} for query, passage in passage_of.items()}},
            answers={query: [data.variants["key-sentences"][passage]] for query, passage in passage_of.items()},
        )
    return passage_of


def measured(task: Rag, run: Path, passage_of: Mapping[str, str]) -> Measures:
    """Means over the questions, for a retriever."""
    retriever = retrokit.load(str(run))
    (result,) = task.evaluate(Request(retriever, [retriever.similarity]))
    hits = [passage_of[query] in passages for query, passages in result.run.items()]
    return {"recall@5": statistics.mean(hits), **result.metrics}


def read_from(reader: NearestSentence, data: Questions, passages: Mapping[str, Sequence[str]]) -> Measures:
    """Means over the questions, read from passages that no retriever chose."""
    answers = {query: reader.answer(data.questions[query], passages[query]) for query in passages}
    pairs = [(answers[query], data.answers[query]) for query in passages]
    return {
        "exact_match": statistics.mean(exact_match(*pair) for pair in pairs),
        "f1": statistics.mean(token_f1(*pair) for pair in pairs),
    }


def interval(test: PairedTest) -> str:
    """A difference with its interval."""
    return f"{test.difference:+.3f} ({test.low:+.3f} to {test.high:+.3f})"


def slope(first: Measures, others: Sequence[Measures], metric: str) -> float:
    """Points of a metric for each point of recall, by least squares: a line through the first system."""
    recalls = np.array([other["recall@5"] - first["recall@5"] for other in others])
    values = np.array([other[metric] - first[metric] for other in others])
    return float(recalls @ values / (recalls @ recalls))


def main(retrievers: Path, sure: Path, out: Path) -> None:
    """Print the tables of both sets."""
    reader = NearestSentence()
    for name in ("msmarco", "fiqa"):
        passage_of = write_questions(sure / name, out / name)
        data = read_questions(out / name)
        task = Rag(data, reader, K)
        systems: dict[str, dict[str, Measures]] = defaultdict(dict)
        for run in sorted(retrievers.iterdir()):
            similarity, replicate = run.name.split("-")[:2]
            systems[similarity][replicate] = measured(task, run, passage_of)
        print(f"\n{name}, {len(data.questions):,} questions, {len(data.documents):,} passages:\n")
        print("| retriever trained with | recall@5 | less cosine | EM | less cosine | F1 | less cosine |")
        print("|---|---:|---|---:|---|---:|---|")
        for similarity in (FIRST, *OTHERS):
            cells = []
            for metric in METRICS:
                values, first = (
                    {replicate: measures[metric] for replicate, measures in systems[one].items()}
                    for one in (similarity, FIRST)
                )
                spread = statistics.stdev(values.values())
                cells.append(f"{statistics.mean(values.values()):.3f} ± {spread:.3f}")
                cells.append("" if similarity == FIRST else interval(paired_t_test(first, values)))
            print(f"| {similarity} | {' | '.join(cells)} |")
        text_of = dict(zip(data.documents.ids, data.documents, strict=True))
        draws = random.Random(0)
        bounds = {
            "the passage that answers": {query: [text_of[passage]] for query, passage in passage_of.items()},
            "five passages by chance": {query: draws.sample(list(text_of.values()), K) for query in passage_of},
        }
        for bound, passages in bounds.items():
            measures = read_from(reader, data, passages)
            print(f"| {bound} | | | {measures['exact_match']:.3f} | | {measures['f1']:.3f} | |")
        for metric in METRICS[1:]:
            slopes = {
                replicate: slope(first, [systems[one][replicate] for one in OTHERS], metric)
                for replicate, first in systems[FIRST].items()
            }
            test = paired_t_test(dict.fromkeys(slopes, 0.0), slopes)
            print(f"\n{name}, {metric} for each point of recall@5: {interval(test)}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
