"""The registry of evaluation tasks: the table of names."""

from __future__ import annotations

from retrokit.registry import Entry, Param, SpecRegistry

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
    ],
)
