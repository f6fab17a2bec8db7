"""The registry of evaluation tasks: the table of names."""

from __future__ import annotations

from retrokit.registry import Entry, Param, SpecRegistry

_LABELLED = Param("path", str, required=True, summary="JSONL of text and label")
_TEST = Param("test", str, summary="a test file; default: a tenth of the texts, seed 42")
_SAMPLE = Param("sample", int, minimum=2, summary="so many of the texts, at random, seed 42")

registry = SpecRegistry(
    "task",
    "retrokit.tasks",
    [
        Entry(
            "beir",
            "retrieval on a BEIR folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv",
            "retrokit.evaluation.retrieval:beir",
            (
                Param("path", str, required=True, summary="the folder"),
                Param("split", str, "test", summary="which judgements"),
                Param("ignore_identical_ids", bool, False, summary="leave a document with the query's own id out"),
            ),
            positional="path",
        ),
        Entry(
            "knn",
            "labels from the k nearest texts: JSONL of text and label",
            "retrokit.evaluation.knn:knn",
            (
                _LABELLED,
                _TEST,
                Param("k", int, 10, minimum=1, summary="neighbours that vote"),
                Param(
                    "metric", str, "euclidean", choices=("euclidean", "cosine", "similarity"), summary="what is near"
                ),
                Param(
                    "transform", str, "raw", choices=("raw", "centered", "whitened"), summary="of the embeddings first"
                ),
                _SAMPLE,
            ),
            positional="path",
        ),
        Entry(
            "sts",
            "correlation with people's scores: JSONL of sentence1, sentence2, score",
            "retrokit.evaluation.sts:sts",
            (Param("path", str, required=True, summary="JSONL of sentence1, sentence2, score"),),
            positional="path",
        ),
        Entry(
            "pairs",
            "do scores tell near-misses or non-duplicates apart: JSONL of pairs",
            "retrokit.evaluation.pairs:pairs",
            (Param("path", str, required=True, summary="what augment negatives writes, or labelled pairs"),),
            positional="path",
        ),
        Entry(
            "classify",
            "labels by logistic regression and by neighbours: JSONL of text and label",
            "retrokit.evaluation.classification:classify",
            (_LABELLED, _TEST, Param("k", int, 3, minimum=1, summary="neighbours that vote"), _SAMPLE),
            positional="path",
        ),
        Entry(
            "cluster",
            "clusters against labels: JSONL of text and label",
            "retrokit.evaluation.clustering:cluster",
            (_LABELLED, Param("seeds", int, 10, minimum=1, summary="runs of k-means, averaged"), _SAMPLE),
            positional="path",
        ),
    ],
)
