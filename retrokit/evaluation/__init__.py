"""The registry of evaluation tasks: the table of names."""

import os

from retrokit.core.registry import Entry, Param, SpecRegistry

_TEST = Param("test", str, summary="a test file; default: a tenth of the texts, seed 42")
_SAMPLE = Param("sample", int, minimum=2, summary="N of the texts, at random, seed 42")


class _Tasks(SpecRegistry):
    """The tasks; the message for a path without the name of one says which to write."""

    def unknown(self, name: str) -> str:
        from retrokit.data.beir import PUBLISHED, is_beir

        path = name.partition(",")[0]
        if is_beir(path) or (path in PUBLISHED and not os.path.exists(path)):
            instead = f"beir:{name}"
        elif os.path.isdir(path):
            instead = f"beir:{name}, bright:{name}, sure:{name} or rag:{name}, by its layout"
        elif os.path.isfile(path):
            instead = f"knn:{name}, sts:{name} or pairs:{name}, by its fields"
        else:
            return super().unknown(name)
        return f"write {instead}: a path needs the name of its task first"


def _task(name: str, summary: str, target: str, *params: Param, path: str = "the folder") -> Entry:
    """A task that reads what lies at a path; ``target`` is in :mod:`retrokit.evaluation.tasks`."""
    place = Param("path", str, required=True, summary=path)
    return Entry(name, summary, f"retrokit.evaluation.tasks.{target}", (place, *params), positional="path")


_LABELLED = "JSONL of text and label"

registry = _Tasks(
    "task",
    "retrokit.tasks",
    [
        _task(
            "beir",
            "retrieval on a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), or the mean over a folder of them",
            "retrieval:beir",
            Param("split", str, "test", summary="which judgements"),
            Param(
                "ignore_identical_ids",
                bool,
                summary="leave a document with the query's own id out; default: for the sets for which mteb does",
            ),
            Param("level", int, 1, minimum=1, summary="lowest grade that counts as relevant; nDCG takes all grades"),
            Param("titles", bool, True, summary="put a document's title before its text"),
            path="the folder, the name of one of BEIR's sets, or hf:ORG/NAME",
        ),
        _task(
            "bright",
            "retrieval on a domain of BRIGHT: documents and examples with excluded ids, nDCG@10 after exclusion",
            "retrieval:bright",
            Param("domain", str, summary="required if the folder contains several"),
            Param("long", bool, False, summary="whole pages in place of passages"),
            Param("instructions", bool, False, summary="put BRIGHT's instruction of the domain before each query"),
            path="a folder, or a domain of the hub's copy",
        ),
        Entry(
            "mteb",
            "a task or benchmark of MTEB, or a set of the papers (@sfs, @crop, @mag), through mteb itself",
            "retrokit.evaluation.mteb.tasks:mteb",
            (
                Param("name", str, required=True, summary="of the task, benchmark or set"),
                Param("data", str, summary="local data: a folder, or a folder with one per task; default: the hub"),
                Param("language", str, summary="of a task that has several, such as eng; default: all of them"),
                Param("cache", str, summary="folder of mteb's results; default: mteb's own"),
                Param(
                    "task_prompts",
                    bool,
                    False,
                    summary="use mteb's instruction of each task, in the encoder's template",
                ),
                Param(
                    "classifier",
                    str,
                    choices=("logistic", "knn"),
                    summary="of classification; default: mteb's logistic regression, for @sfs the 3 nearest texts",
                ),
            ),
            positional="name",
            extra="mteb",
        ),
        _task(
            "sure",
            "ranks of a passage's variants beside a reference's: a folder of the SURE release, or of build-sure",
            "sure:sure",
            Param("reference", str, required=True, summary="a reranker, an encoder, bm25, or run:FILE"),
            Param("testbed", str, choices=("precision", "abstraction", "equivalence"), summary="default: all"),
            Param("corpus", str, summary="a BEIR folder or JSONL to search; default: the folder's passages"),
            Param("depth", int, 2000, minimum=1, summary="passages of the retriever's list"),
            Param(
                "counting",
                str,
                "once",
                choices=("once", "published-script"),
                summary="of variants by the reference: once, or twice as the published script",
            ),
            Param(
                "identical",
                str,
                "counted",
                choices=("counted", "left-out"),
                summary="queries with a variant that equals its passage word for word",
            ),
        ),
        _task(
            "rag",
            "question answering over the best passages: corpus.jsonl, and queries.jsonl with answers",
            "rag:rag",
            Param("reader", str, required=True, summary="what answers: a language model, or a folder or hub id of one"),
            Param("k", int, 5, minimum=1, summary="passages that it reads"),
            Param("new_tokens", int, 32, minimum=1, summary="tokens of an answer at most"),
            Param("store", str, summary="file that keeps the answers"),
        ),
        _task(
            "knn",
            "labels from the k nearest texts: JSONL of text and label",
            "labelled:knn",
            _TEST,
            Param("k", int, 10, minimum=1, summary="neighbours that vote"),
            Param("metric", str, "euclidean", choices=("euclidean", "cosine", "similarity"), summary="what is near"),
            Param("transform", str, "raw", choices=("raw", "centered", "whitened"), summary="of the embeddings first"),
            _SAMPLE,
            path=_LABELLED,
        ),
        _task(
            "sts",
            "correlation with people's scores: JSONL of sentence1, sentence2, score",
            "pairs:sts",
            path="JSONL of sentence1, sentence2, score",
        ),
        _task(
            "pairs",
            "do scores tell near-misses or non-duplicates apart: JSONL of pairs",
            "pairs:pairs",
            Param("family", str, "family", summary="field that names the family of a near-miss"),
            Param("gate", bool, False, summary="near-misses: test a gate, which rerankers can be (COMP, Evaluation 2)"),
            Param("paraphrases", str, summary="of a gate: pairs that do mean the same; default: the file's positives"),
            Param("max_paraphrases", int, 10_000, minimum=2, summary="of them, a random sample"),
            path="what augment near-misses writes, or labelled pairs",
        ),
        _task(
            "classify",
            "labels by logistic regression and by neighbours: JSONL of text and label",
            "labelled:classify",
            _TEST,
            Param("k", int, 3, minimum=1, summary="neighbours that vote"),
            _SAMPLE,
            path=_LABELLED,
        ),
        _task(
            "cluster",
            "clusters against labels: JSONL of text and label",
            "labelled:cluster",
            Param("seeds", int, 10, minimum=1, maximum=1000, summary="runs of k-means, averaged"),
            Param("batch", int, 32, minimum=1, summary="texts of a step of k-means; 500 in MTEB's own tasks"),
            _SAMPLE,
            path=_LABELLED,
        ),
    ],
)
