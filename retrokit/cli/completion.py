"""Completion of values in bash, zsh and fish: registered names, runs in the folder, metrics, choices."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob
from typing import Any, get_args

from typer.models import ParameterInfo

from retrokit.core.registry import Entry, Registry, WordRegistry, imported

CORE_KINDS = [
    Entry("encoders", "Encoders", "retrokit.encoders:registry"),
    Entry("similarities", "Similarities", "retrokit.similarities:registry"),
    Entry("data", "Training data", "retrokit.data.pairs:registry"),
    Entry("augmentations", "Augmentations", "retrokit.augmentation:registry"),
    Entry("tasks", "Tasks", "retrokit.evaluation:registry"),
    Entry("searchers", "Searchers", "retrokit.ranking.retrieval:registry"),
    Entry("rerankers", "Rerankers", "retrokit.ranking.reranking:registry"),
    Entry("verifiers", "Verifiers", "retrokit.ranking.reranking:verifiers"),
    Entry("llms", "Language models", "retrokit.llm:registry"),
    Entry("contrasts", "Contrasting pairs", "retrokit.probing:contrasts"),
    Entry("corpora", "Corpora", "retrokit.probing:corpora"),
    Entry("splitters", "Splitters", "retrokit.augmentation.crops:splitters"),
    Entry("mixture", "Parts of a mixture", "retrokit.augmentation.mixing:registry"),
    Entry("near-misses", "Families of near-misses", "retrokit.augmentation.near_misses:registry"),
    Entry("capabilities", "Capabilities of stress tests", "retrokit.augmentation.stress:registry"),
    Entry("commands", "Commands", "retrokit.cli.commands:registry"),
]
kinds_of_names = WordRegistry("kind", "retrokit.registries", CORE_KINDS)
"""The registries, by the kind of names that each has."""


def named(kind: str) -> Registry:
    """The registry of a kind of names."""
    return imported(kinds_of_names.entry(kind).target)


Completion = tuple[str, str]
"""A value, and what it is."""

_SEARCHERS = ("encoders", "searchers")
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("encoder", "encoders", "searcher"), _SEARCHERS),
    **dict.fromkeys(("start", "guide", "reference_encoder", "cv_reference"), ("encoders",)),
    **dict.fromkeys(("with_", "teacher"), ("rerankers", "encoders")),
    **dict.fromkeys(("on", "eval"), ("tasks",)),
    "sim": ("similarities",),
    "verifier": ("verifiers",),
    "llm": ("llms",),
    "splitter": ("splitters",),
}
"""By parameter, the kinds of names that it takes."""
_RUNS = {"encoder", "encoders", "searcher", "start", "guide", "reference_encoder", "cv_reference", "folder", "paths"}
METRICS: tuple[str, ...] = (
    *("ndcg@10", "mrr@10", "map@100", "recall@100", "precision@10", "accuracy@1", "accuracy", "f1", "roc_auc"),
    *("spearman", "pearson", "v_measure", "rdc", "roc", "exact_match", "knn_accuracy"),
)


def completing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, its parameters completed by what their names stand for."""
    for param in inspect.signature(command, eval_str=True).parameters.values():
        known = param.name in KINDS or param.name in _RUNS or param.name.startswith("metric")
        for about in (param.default, *get_args(param.annotation)):
            if isinstance(about, ParameterInfo) and known and about.autocompletion is None:
                about.autocompletion = _values_of(param.name)
    return command


def choosing(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes one of some choices."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _values_of(name: str) -> Callable[[str], Iterator[Completion]]:
    def values(incomplete: str) -> Iterator[Completion]:
        before, comma, last = incomplete.rpartition(",") if name.startswith("metric") else ("", "", incomplete)
        for value, about in _candidates(name):
            if value.startswith(last):
                yield f"{before}{comma}{value}", about

    return values


def _candidates(name: str) -> Iterator[Completion]:
    if name.startswith("metric"):
        yield from ((metric, "") for metric in METRICS)
    for kind in KINDS.get(name, ()):
        yield from names_of(kind)
    if name in _RUNS:
        yield from ((folder, "run") for folder in runs())


def names_of(kind: str) -> Iterator[Completion]:
    """The registered names of a kind; a colon follows one that cannot do without a value."""
    for entry in named(kind).entries():
        yield f"{entry.name}{':' * any(param.required for param in entry.params)}", entry.summary


def runs() -> Sequence[str]:
    """Folders of runs here, and one or two levels below."""
    from retrokit.data.runs import RUN_FILE

    paths = (path for depth in ("*", "*/*", "*/*/*") for path in glob(f"{depth}/{RUN_FILE}"))
    return sorted(path.removesuffix(f"/{RUN_FILE}") for path in paths if "/checkpoints/" not in f"/{path}")
