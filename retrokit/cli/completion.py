"""Completion of values in bash, zsh and fish: registered names, runs in the folder, metrics, choices."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob

from retrokit.core.registry import Entry
from retrokit.core.settings import METRIC_NAMES, RUNS, Param, listed
from retrokit.kinds import KINDS_OF_THE_LIBRARY, kinds_of_names, named

CORE_KINDS = [
    *KINDS_OF_THE_LIBRARY,
    Entry("commands", "Commands", "retrokit.cli.commands:registry"),
    Entry("records", "Records that commands print as JSON", "retrokit.report.records:registry"),
]
for entry in CORE_KINDS[len(KINDS_OF_THE_LIBRARY) :]:
    kinds_of_names.add(entry)

Completion = tuple[str, str]
"""A value, and what it is."""

METRICS: tuple[str, ...] = (
    *("ndcg@10", "mrr@10", "map@100", "recall@100", "precision@10", "accuracy@1", "accuracy", "f1", "roc_auc"),
    *("spearman", "pearson", "v_measure", "rdc", "roc", "exact_match", "knn_accuracy"),
)


def completing(param: Param) -> Callable[[str], Iterator[Completion]] | None:
    """What completes the values of a parameter, by the names that it takes; ``None`` if it takes none."""
    return _values_of(param.kinds, METRIC_NAMES in param.kinds or param.read is listed) if param.names else None


def choosing(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes one of some choices."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _values_of(kinds: Sequence[str], takes_list: bool) -> Callable[[str], Iterator[Completion]]:
    def values(incomplete: str) -> Iterator[Completion]:
        before, comma, last = incomplete.rpartition(",") if takes_list else ("", "", incomplete)
        for value, about in _candidates(kinds):
            if value.startswith(last):
                yield f"{before}{comma}{value}", about

    return values


def _candidates(kinds: Sequence[str]) -> Iterator[Completion]:
    for kind in kinds:
        if kind == METRIC_NAMES:
            yield from ((metric, "") for metric in METRICS)
        elif kind != RUNS:
            yield from names_of(kind)
        if kind in (RUNS, "encoders"):
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
