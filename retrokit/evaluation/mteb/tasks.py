"""MTEB's tasks and benchmarks, and the papers' sets of them, through mteb itself, under the encoder's own similarity.

``mteb:SciFact``, ``mteb:"MTEB(eng, v2)"``, ``mteb:@crop``. Results are in mteb's own JSON in its own cache folder; the
model's name and revision there stand for weights, similarity, prompts, precision and local data. Where mteb's headline
is cosine's, ours is the one under the similarity, next to mteb's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import mteb as library
import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import no_progress_bars, notice, progress
from retrokit.data.jsonl import read_json, write_json
from retrokit.encoders.base import Encoder
from retrokit.encoders.prompts import template_of
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.mteb.data import folder_digest, judgements, leaves, use_folder, use_hub
from retrokit.evaluation.mteb.model import MtebModel, MtebSearch, Neighbours
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request, Task, needs_embeddings
from retrokit.metrics.ranking import Run, evaluate_run
from retrokit.ranking.retrieval.base import Searcher
from retrokit.ranking.retrieval.dense import Dense

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {  # SFS, Table 9; CROP, Table 1; MAG, Table 28
    "@sfs": {
        "Retrieval": tuple(
            f"Nano{name}Retrieval"
            for name in (
                *("ArguAna", "ClimateFever", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus"),
                *("Quora", "SCIDOCS", "SciFact", "Touche2020"),
            )
        ),
        "Reranking": ("AskUbuntuDupQuestions", "MindSmallReranking", "SciDocsRR", "StackOverflowDupQuestions"),
        "Classification": (
            *("AmazonCounterfactualClassification", "AmazonPolarityClassification", "AmazonReviewsClassification"),
            *("Banking77Classification", "ImdbClassification", "ToxicConversationsClassification"),
            "TweetSentimentExtractionClassification",
        ),
        "STS": ("BIOSSES", "STS12", "STS13", "STS14", "STS15", "STS16", "STS17", "STS22"),
    },
    "@crop": {
        "Clustering": (
            *("ArxivClusteringP2P", "BiorxivClusteringP2P", "MedrxivClusteringP2P", "RedditClusteringP2P"),
            "StackExchangeClusteringP2P",
        ),
        "Reranking": ("SciDocsRR", "MindSmallReranking"),
        "Retrieval": ("SCIDOCS", "ArguAna"),
        "STS": ("STS15", "STS16", "STSBenchmark"),
        "Classification": (
            *("AmazonPolarityClassification", "Banking77Classification", "ImdbClassification"),
            *("MassiveIntentClassification", "MassiveScenarioClassification", "MTOPDomainClassification"),
            "TweetSentimentExtractionClassification",
        ),
    },
    "@mag": {
        "MS MARCO Dev": ("MSMARCO",),
        "TREC-DL": ("TRECDL2019", "TRECDL2020"),
        "BEIR": (
            *("ArguAna", "ClimateFEVER", "CQADupstackRetrieval", "DBPedia", "FEVER", "FiQA2018", "HotpotQA"),
            *("NFCorpus", "NQ", "QuoraRetrieval", "SCIDOCS", "SciFact", "TRECCOVID", "Touche2020"),
        ),
        "BRIGHT": tuple(
            f"Bright{name}Retrieval"
            for name in (
                *("Aops", "Biology", "EarthScience", "Economics", "Leetcode", "Pony", "Psychology", "Robotics"),
                *("Stackoverflow", "SustainableLiving", "TheoremQAQuestions", "TheoremQATheorems"),
            )
        ),
    },
}
"""The sets that the papers evaluate on, in the blocks of their tables, by MTEB's names, in English.
MTEB lacks 2WikiMultihopQA, MuSiQue and NovelHopQA of MAG: ``examples/multihop_to_beir.py``."""
CLASSIFIERS = {"@sfs": "knn"}
"""What decides tasks of classification where a paper does not take mteb's logistic regression (SFS, C)."""


OURS = {"cosine_spearman": "spearman", "cosine_pearson": "pearson"} | dict.fromkeys(
    ("cosine_ap", "max_ap"), "similarity_ap"
)
"""Of mteb's headlines that ignore the model's similarity, the figure that does not."""

PAIRED = frozenset({"STS", "PairClassification", "Summarization", "BitextMining"})
SEARCHED = frozenset({"Retrieval", "Reranking", "InstructionRetrieval", "InstructionReranking"})
SYMMETRIC = PAIRED | {"Classification", "MultilabelClassification", "Clustering", "Regression"}
MORE = {
    "STS": tuple(f"{by}_{kind}" for by in ("euclidean", "manhattan") for kind in ("spearman", "pearson")),
    "Classification": ("f1", "f1_weighted"),
    "PairClassification": ("similarity_accuracy", "similarity_f1", "cosine_ap"),
}
"""What else than the headline mteb measures, by type of task."""
BATCH = 512  # texts that mteb hands over at a time; the encoder makes batches of its own
RANKED = ("ndcg", "map", "recall", "precision", "mrr", "hit_rate")


class MtebScores(NamedTuple):
    """Metrics of one task, and those of its queries if there are any; and mteb's own file of them, below its folder of
    results."""

    metrics: dict[str, float]
    per_query: dict[str, dict[str, float]]
    file: str


class MtebTask(Task):
    """Tasks of MTEB, each measured by mteb, under one spec.

    One task has mteb's metrics (``ndcg@10`` for its ``ndcg_at_10``), averaged over its splits and languages. Several
    have the headline of each under the task's name, the mean of each block, ``average`` over the tasks and
    ``block_average`` over the blocks (CROP, Table 1).

    ``blocks`` has mteb's tasks, ``folders`` those of local data by the task's name, and ``cache`` is mteb's own by
    default. With ``task_prompts`` the texts bring mteb's instruction (:class:`MtebSearch`); with ``by_neighbours`` the
    three nearest texts under the similarity decide tasks of classification (SFS, C), not mteb's logistic regression.
    """

    def __init__(
        self,
        blocks: Mapping[str, Sequence[Any]],
        folders: Mapping[str, Path],
        cache: str | None = None,
        task_prompts: bool = False,
        by_neighbours: bool = False,
    ) -> None:
        self.blocks = blocks
        self.tasks = [task for tasks in blocks.values() for task in tasks]
        self.folders = folders
        self.cache = cache
        self.task_prompts = task_prompts
        self.by_neighbours = by_neighbours
        self.symmetric = all(task.metadata.type in SYMMETRIC for task in self.tasks)
        self.searches = all(task.metadata.type in SEARCHED for task in self.tasks)
        if len(self.tasks) == 1:
            (task,) = self.tasks
            self.main_metric = headline(task)
            self.shown_metrics = tuple(dict.fromkeys([self.main_metric, *_shown(task)]))
            more = [f"{metric}@{k}" for metric in RANKED for k in getattr(task, "k_values", ())]
            more += MORE.get(task.metadata.type, ())
        else:
            self.main_metric = "average"
            self.shown_metrics = ("average", "block_average", *blocks)
            more = [task.metadata.name for task in self.tasks]
        self.default_metrics = tuple(dict.fromkeys([*self.shown_metrics, *more]))

    def digest(self) -> str | None:
        """Of local data the digest; of the hub's, the revisions that this mteb asks for."""
        all_leaves = [leaf for task in self.tasks for leaf in leaves(task)]
        revisions = [f"{leaf.metadata.name}={leaf.metadata.revision}" for leaf in all_leaves]
        return " ".join([library.__version__, *revisions])

    def describe(self) -> str:
        names = [task.metadata.name for task in self.tasks]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        local = f"; data from {', '.join(sorted({str(folder) for folder in self.folders.values()}))}"
        return f"MTEB {library.__version__}: {shown}" + (local if self.folders else "")

    def evaluate(self, request: Request) -> list[Result]:
        """One result per similarity; the texts of a task are encoded once for all of them. Raises :class:`DataError`
        for local data that are wrong, or a headline that is undefined."""
        if self.task_prompts and request.encoder is not None:
            _report_prompts(request.encoder)
        cache = library.ResultCache(self.cache)
        memory = MemoizedEncoder(request.encoder) if request.encoder is not None else None
        systems = self._systems(replace(request, encoder=memory))
        system_scores: list[dict[str, MtebScores]] = [{} for _ in systems]
        with progress("MTEB", len(self.tasks) * len(systems), "tasks") as advance, no_progress_bars("datasets"):
            for task in self.tasks:
                for (searcher, _), scores in zip(systems, system_scores, strict=True):
                    scores[task.metadata.name] = self._measure(searcher, memory is not None, task, cache)
                    advance(1)
                if memory is not None:
                    memory.forget()
        where = {"mteb": library.__version__, "mteb_cache": str(cache.cache_path)}
        return [
            self._result(searcher, scores, request, {**about, **where})
            for (searcher, about), scores in zip(systems, system_scores, strict=True)
        ]

    def _systems(self, request: Request) -> list[tuple[Searcher, dict[str, Any]]]:
        """The searchers of a request, each with its configuration."""
        if request.searcher is not None:
            if not self.searches:
                raise UsageError(needs_embeddings(self, [request.name]))
            return [(request.searcher, {"fingerprint": request.searcher.fingerprint()})]
        embeddings, similarities = request.embeddings(self)
        configuration = embeddings.configuration()
        configuration.pop("encoding_seconds", None)
        if request.index is not None:
            configuration["index"] = request.index
        if request.quantize is not None:
            configuration["quantize"] = request.quantize
        systems: list[tuple[Searcher, dict[str, Any]]] = []
        for similarity in similarities:
            dense = Dense(embeddings, similarity, request.index, request.quantize)
            systems.append((dense, {**configuration, **dense.scorer.statistics()}))
        return systems

    def _measure(self, searcher: Any, embeds: bool, task: Any, cache: library.ResultCache) -> MtebScores:
        """What mteb measures of a task; from its cache, if that has the result of the same model."""
        local = {
            leaf.metadata.name: folder_digest(leaf, self.folders[leaf.metadata.name])
            for leaf in leaves(task)
            if leaf.metadata.name in self.folders
        }
        identity = {"local_data": local} if local else {}
        if embeds:
            model: MtebSearch = MtebModel(searcher, self.task_prompts, self.by_neighbours, identity)
        else:
            model = MtebSearch(searcher, self.task_prompts, identity)
        if embeds and self.by_neighbours and task.metadata.type == "Classification":
            task.evaluator_model = Neighbours(searcher.scorer, searcher.embeddings.encoder.device)
        settings = {"batch_size": BATCH, "show_progress_bar": False}
        measured = library.evaluate(
            model, task, cache=cache, co2_tracker=False, encode_kwargs=settings, show_progress_bar=False
        )
        metrics = _averaged(measured.task_results[0].scores)
        # not in mteb's own folders, where every file counts as the result of a task
        path = cache.get_task_result_path(task.metadata.name, model.mteb_model_meta).relative_to(cache.cache_path)
        return MtebScores(metrics, _per_query(task, model, cache.cache_path / "retrokit" / path), str(path))

    def _result(
        self,
        searcher: Searcher,
        task_scores: Mapping[str, MtebScores],
        request: Request,
        configuration: dict[str, Any],
    ) -> Result:
        headlines = self._headlines(searcher, task_scores)
        if len(self.tasks) == 1:
            ((metrics, per_query, _),) = task_scores.values()
        else:
            metrics = self._over_tasks(headlines)
            per_query = {"average": headlines}  # a mean over tasks is compared over tasks
        requested = request.names(self) if request.metrics else list(dict.fromkeys([self.main_metric, *metrics]))
        missing = [name for name in requested if name not in metrics]
        if missing:
            notice(f"{self.spec}: mteb has no number for {', '.join(missing)} under {searcher.similarity}")
        return Result(
            searcher.spec,
            searcher.similarity,
            self.spec,
            self.main_metric,
            metrics={name: metrics.get(name, math.nan) for name in requested},
            per_query={name: values for name, values in per_query.items() if name in requested},
            counts={"tasks": len(self.tasks)},
            norms={},
            configuration={**configuration, "mteb_results": [scores.file for scores in task_scores.values()]},
        )

    def _headlines(self, searcher: Searcher, task_scores: Mapping[str, MtebScores]) -> dict[str, float]:
        """The headline of each task by its name. Raises :class:`DataError` for one that is undefined."""
        headlines = {}
        for task in self.tasks:
            name, metric = task.metadata.name, headline(task)
            if metric not in task_scores[name].metrics:
                problem = f"mteb's {metric} of {name} under {searcher.similarity} is not a number"
                raise DataError(searcher.spec, f"{problem}: do all embeddings score alike?")
            headlines[name] = task_scores[name].metrics[metric]
        return headlines

    def _over_tasks(self, headlines: Mapping[str, float]) -> dict[str, float]:
        """The means over all tasks, over blocks and of each block, and the headlines."""
        blocks = {}
        for block, tasks in self.blocks.items():
            blocks[block] = float(np.mean([headlines[task.metadata.name] for task in tasks]))
        average = float(np.mean([*headlines.values()]))
        block_average = float(np.mean([*blocks.values()]))
        return {"average": average, "block_average": block_average, **blocks, **headlines}


def _report_prompts(encoder: Encoder) -> None:
    """Report where mteb's instructions go, if the encoder has prompts."""
    if not any(encoder.prompts.values()):
        return
    template = template_of(encoder.prompts)
    if template is None:
        notice(f"{encoder.spec}: its own prompts stay, which have no place for mteb's instructions")
    else:
        notice(f"{encoder.spec}: mteb's instructions go into its own template {template!r}")


def _per_query(task: Any, model: MtebSearch, file: Path) -> dict[str, dict[str, float]]:
    """The scores of each query of a retrieval task, by metric, so that differences can be tested.

    mteb's results have only means. New rankings are measured and the scores written to ``file``; a result from mteb's
    cache reads them.
    """
    if model.runs:
        if task.metadata.type != "Retrieval" or hasattr(task, "tasks"):
            return {}
        scores = _measured_per_query(task, model.runs)
        write_json(file, {"metrics": scores}, kind="mteb-queries")
        return scores
    if not file.is_file():
        return {}
    table: dict[str, dict[str, float]]
    table = read_json(file, "scores of queries", {"metrics": dict[str, dict[str, float]]})["metrics"]
    return table


def _measured_per_query(task: Any, runs: Mapping[tuple[str, str], Run]) -> dict[str, dict[str, float]]:
    """The scores of each query of a retrieval task, given its rankings by split and subset."""
    names = [name for name in _shown(task) if int(name.partition("@")[2]) <= max(task.k_values)]
    scores: dict[str, dict[str, float]] = {name: {} for name in names}
    for (split, subset), qrels in judgements(task).items():
        if (split, subset) not in runs:
            continue
        run = runs[split, subset]
        if task.ignore_identical_ids:
            run = {query: _without_document(ranked, query) for query, ranked in run.items()}
        prefix = f"{split}/{subset}/" if len(runs) > 1 else ""
        for name, values in evaluate_run(qrels, run, names).items():
            scores[name] |= {f"{prefix}{query}": value for query, value in values.items()}
    return scores


def _without_document(ranked: Mapping[str, float], document: str) -> dict[str, float]:
    return {other: score for other, score in ranked.items() if other != document}


def headline(task: Any) -> str:
    """The metric that decides on a task: mteb's main score, or ours in place of one that is always cosine's."""
    main = task.metadata.main_score
    return _plain(OURS.get(main, main))


def _shown(task: Any) -> list[str]:
    if task.metadata.type == "Retrieval":
        return ["ndcg@10", "recall@100", "mrr@10", "map@100"]
    pairs = ["spearman", "pearson", "cosine_spearman", "cosine_pearson"]
    return pairs if task.metadata.type == "STS" else [_plain(task.metadata.main_score)]


def _plain(name: str) -> str:
    """``ndcg_at_10`` as everywhere else here: ``ndcg@10``."""
    metric, at, cutoff = name.rpartition("_at_")
    return f"{metric}@{cutoff}" if at and cutoff.isdigit() else name


def _averaged(scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """The mean of every figure over splits and languages. Figures that are undefined somewhere are left out, as are
    those of abstention (nauc)."""
    entries = [entry for split in scores.values() for entry in split]
    names = [name for name, value in entries[0].items() if type(value) in (int, float) and "nauc" not in name]
    means = {}
    for name in names:
        # to six digits, as mteb writes them: a result is the same figure fresh and from its cache
        values = [round(entry.get(name, math.nan), 6) for entry in entries]
        if all(math.isfinite(value) for value in values):
            means[_plain(name)] = float(np.mean(values))
    return means


def mteb(
    name: str, data: str | None, language: str | None, cache: str | None, task_prompts: bool, classifier: str | None
) -> MtebTask:
    """A task, a benchmark or a set of the papers by name.

    ``data`` is a folder with the data of one task; of several, it contains a folder named for each task, and those that
    it lacks come from the hub.

    Raises:
        UsageError: an unknown name, with the nearest ones.
        DataError: a folder that does not hold a task's data.
    """
    blocks = _blocks(name, language)
    all_leaves: list[Any] = []
    for task in chain.from_iterable(blocks.values()):
        all_leaves += leaves(task)
    folders = {} if data is None else _folders(Path(data), [leaf.metadata.name for leaf in all_leaves])
    where = "into FOLDER" if len(all_leaves) == 1 else "each into FOLDER/TASK"
    for leaf in all_leaves:
        if leaf.metadata.name in folders:
            use_folder(leaf, folders[leaf.metadata.name])
        else:
            use_hub(leaf, f"{where} and name it: mteb:{name},data=FOLDER")
    by_neighbours = (classifier or CLASSIFIERS.get(name)) == "knn"
    return MtebTask(blocks, folders, cache, task_prompts, by_neighbours)


def _folders(data: Path, names: Sequence[str]) -> dict[str, Path]:
    """The folder of each of the tasks ``names`` that has one in ``data``, which is itself the folder of a single task.
    Raises :class:`DataError` if there is none."""
    folders = {name: data / name for name in names if (data / name).is_dir()}
    if not folders and len(names) == 1:
        return {names[0]: data}
    if not folders:
        raise DataError(data, f"contains no folder of any task's name, such as {names[0]}")
    return folders


def _blocks(name: str, language: str | None) -> dict[str, list[Any]]:
    """The tasks of a name by block: of a set of the papers, or of their type."""
    if name.startswith("@"):
        if name not in GROUPS:
            raise UsageError(f"mteb:{name}: no such set; the sets are {', '.join(GROUPS)}")
        return {block: [*map(_in_english, names)] for block, names in GROUPS[name].items()}
    chosen = {"languages": [language], "exclusive_language_filter": True} if language else {}
    try:
        tasks = [library.get_task(name, **chosen)]
    except KeyError as no_task:
        try:
            tasks = library.get_benchmark(name).tasks
        except KeyError as no_benchmark:
            problems = "; ".join(str(error.args[0]).removeprefix("KeyError: ") for error in (no_task, no_benchmark))
            raise UsageError(f"mteb: no task and no benchmark of that name: {problems}") from None
    blocks: dict[str, list[Any]] = {}
    for task in tasks:
        blocks.setdefault(task.metadata.type, []).append(task)
    return blocks


def _in_english(name: str) -> Any:
    """The task's English test set, as MTEB's own English benchmark takes it."""
    task = library.get_task(name, languages=["eng"], exclusive_language_filter=True)
    splits = ["test"] if "test" in task.eval_splits else task.eval_splits
    subsets = ["en"] if "en" in task.hf_subsets else task.hf_subsets
    if (splits, subsets) == (task.eval_splits, task.hf_subsets):
        return task
    return library.get_task(name, eval_splits=splits, hf_subsets=subsets)
