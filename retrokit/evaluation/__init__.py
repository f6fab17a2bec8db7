"""The registry of evaluation tasks: the table of names."""

import os

from retrokit.core.registry import Entry, Param, SpecRegistry
from retrokit.core.settings import either
from retrokit.data import DOCSTRINGS, DOCUMENTS

RANKING = ("beir", DOCSTRINGS, "bright")
"""Tasks that rank documents, whose metrics are known before their data are read."""

_TEST = Param("test", help="a test file; default: a tenth of the texts, seed 42")
_SAMPLE = Param("sample", int, minimum=2, help="N of the texts, at random, seed 42")


class _Tasks(SpecRegistry):
    """The tasks; the message for a path without the name of one says which to write."""

    def unknown(self, name: str) -> str:
        from retrokit.data.beir import PUBLISHED, is_beir

        path = name.partition(",")[0]
        if is_beir(path) or (path in PUBLISHED and not os.path.exists(path)):
            instead = f"beir:{name}"
        elif os.path.isdir(path):
            instead = f"{either([f'{task}:{name}' for task in self.names_for_folders()])}, by its layout"
        elif os.path.isfile(path):
            instead = f"knn:{name}, sts:{name} or pairs:{name}, by its fields"
        else:
            return super().unknown(name)
        return f"write {instead}: a path needs the name of its task first"

    def names_for_folders(self) -> list[str]:
        """Tasks whose path is a folder, as its help says."""
        paths = {entry.name: entry.param("path") for entry in self.entries()}
        return [name for name, path in paths.items() if path is not None and "folder" in path.help]


def _task(name: str, summary: str, target: str, *params: Param, path: str = "the folder") -> Entry:
    """A task that reads what lies at a path; ``target`` is in :mod:`retrokit.evaluation.tasks`."""
    path_param = Param("path", required=True, help=path)
    return Entry(name, summary, f"retrokit.evaluation.tasks.{target}", (path_param, *params), positional="path")


_LABELLED = "JSONL of text and label"

registry = _Tasks(
    "task",
    "retrokit.tasks",
    [
        _task(
            "beir",
            "retrieval on a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), or the mean over a folder of them",
            "retrieval:beir",
            Param("split", "test", help="which judgements"),
            Param(
                "ignore_identical_ids",
                bool,
                help="leave a document with the query's own id out; default: for the sets for which mteb does",
            ),
            Param("level", 1, minimum=1, help="lowest grade that counts as relevant; nDCG takes all grades"),
            Param("titles", True, help="put a document's title before its text"),
            path="the folder, the name of one of BEIR's sets, or hf:ORG/NAME",
        ),
        Entry(
            DOCSTRINGS,
            "retrieval on docstrings of Python's standard library, their first sentences as queries; built in",
            "retrokit.evaluation.tasks.retrieval:docstrings",
            (DOCUMENTS, Param("split", "test", help="which queries")),
        ),
        _task(
            "bright",
            "retrieval on a domain of BRIGHT: documents and examples with excluded ids, nDCG@10 after exclusion",
            "retrieval:bright",
            Param("domain", help="required if the folder contains several"),
            Param("long", False, help="whole pages in place of passages"),
            Param("instructions", False, help="put BRIGHT's instruction of the domain before each query"),
            path="a folder, or a domain of the hub's copy",
        ),
        Entry(
            "mteb",
            "a task or benchmark of MTEB, or a set of the papers (@sfs, @crop, @mag), through mteb itself",
            "retrokit.evaluation.mteb.tasks:mteb",
            (
                Param("name", required=True, help="of the task, benchmark or set"),
                Param("data", help="local data: a folder, or a folder with one per task; default: the hub"),
                Param("language", help="of a task that has several, such as eng; default: all of them"),
                Param("cache", help="folder of mteb's results; default: mteb's own"),
                Param(
                    "task_prompts",
                    False,
                    help="use mteb's instruction of each task, in the encoder's template",
                ),
                Param(
                    "classifier",
                    choices=("logistic", "knn"),
                    help="of classification; default: mteb's logistic regression, for @sfs the 3 nearest texts",
                ),
            ),
            positional="name",
            extra="mteb",
        ),
        _task(
            "sure",
            "ranks of a passage's variants beside a reference's: a folder of the SURE release, or of build-sure",
            "sure:sure",
            Param("reference", required=True, help="a reranker, an encoder, bm25, or run:FILE"),
            Param("testbed", choices=("precision", "abstraction", "equivalence"), help="default: all"),
            Param("corpus", help="a BEIR folder or JSONL to search; default: the folder's passages"),
            Param("depth", 2000, minimum=1, help="passages of the retriever's list"),
            Param(
                "counting",
                "once",
                choices=("once", "published-script"),
                help="of variants by the reference: once, or twice as the published script",
            ),
            Param(
                "identical",
                "counted",
                choices=("counted", "left-out"),
                help="queries with a variant that equals its passage word for word",
            ),
        ),
        _task(
            "knn",
            "labels from the k nearest texts: JSONL of text and label",
            "labelled:knn",
            _TEST,
            Param("k", 10, minimum=1, help="neighbours that vote"),
            Param("metric", "euclidean", choices=("euclidean", "cosine", "similarity"), help="what is near"),
            Param("transform", "raw", choices=("raw", "centered", "whitened"), help="of the embeddings first"),
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
            Param("family", "family", help="field that names the family of a near-miss"),
            Param("gate", False, help="near-misses: test a gate, which rerankers can be (COMP, Evaluation 2)"),
            Param("paraphrases", help="of a gate: pairs that do mean the same; default: the file's positives"),
            Param("max_paraphrases", 10_000, minimum=2, help="of them, a random sample"),
            path="what augment near-misses writes, or labelled pairs",
        ),
        _task(
            "classify",
            "labels by logistic regression and by neighbours: JSONL of text and label",
            "labelled:classify",
            _TEST,
            Param("k", 3, minimum=1, help="neighbours that vote"),
            _SAMPLE,
            path=_LABELLED,
        ),
        _task(
            "cluster",
            "clusters against labels: JSONL of text and label",
            "labelled:cluster",
            Param("seeds", 10, minimum=1, maximum=1000, help="runs of k-means, averaged"),
            Param("batch", 32, minimum=1, help="texts of a step of k-means; 500 in MTEB's own tasks"),
            _SAMPLE,
            path=_LABELLED,
        ),
    ],
)
