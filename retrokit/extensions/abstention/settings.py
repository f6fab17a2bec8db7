"""The options of ``retrokit abstain``."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FILE, FOLDER, Settings, common, setting
from retrokit.metrics.names import metric_names

SIGNALS = ("auto", "score", "margin", "hubness", "verifier")
ERROR = "Share of queries with nothing relevant that may be answered."


@dataclass(frozen=True)
class AbstentionSettings(Settings):
    """What is calibrated to abstain, and on which queries."""

    first = ("on", "output", "error", "index_folder", "signal", "verifier", "splits", "device", "as_json")

    system: str | None = setting(
        None,
        "Encoder or searcher, such as dense:minilm,sim=dot; default: that of `index_folder=`.",
        argument=True,
        metavar="SYSTEM",
        names="encoders,searchers",
    )
    _: KW_ONLY
    on: str = common("on", help="Task with relevance judgements, e.g. beir:data/scifact,split=train.")
    output: str = common("output", help="JSON to write, for abstain:FILE.", writes=FILE)
    error: float = setting(0.05, ERROR, above=0, maximum=0.5)
    index_folder: str | None = setting(
        None, "Folder of retrokit export that is searched, not the task's documents.", reads=FOLDER
    )
    signal: str = setting("auto", "What decides. auto: the one that answers most.", choices=SIGNALS)
    verifier: str | None = setting(
        None, "Reranker whose score of the first document is a signal too.", names="rerankers,encoders"
    )
    splits: int = setting(200, "Splits of the queries to measure error and share answered.", minimum=100)
    device: str | None = common("device")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.system is None and self.index_folder is None:
            yield "name what is calibrated: an encoder, bm25, … or an `index_folder=`"
        if self.signal == "verifier" and self.verifier is None:
            yield "`signal=` verifier needs `verifier=`"


@dataclass(frozen=True)
class ReportSettings(Settings):
    """Which calibration is measured, and on which queries."""

    first = ("on", "error", "max_error", "index_folder", "metrics", "device", "as_json")

    file: str = setting(help="File of retrokit abstain calibrate.", argument=True, reads=FILE)
    _: KW_ONLY
    on: str = common("on", help="Task with relevance judgements, other than those of the calibration.")
    error: float = setting(0.05, ERROR, above=0, maximum=0.5)
    max_error: float | None = setting(None, "Exit 1 if the measured error is above.", minimum=0, maximum=1)
    index_folder: str | None = setting(
        None, "Folder of retrokit export, whose documents are not embedded again.", reads=FOLDER
    )
    metrics: Sequence[str] = common(
        "metrics",
        help="Metrics of the answers, e.g. ndcg@10,recall@100. Default: those that tables show.",
        canonical=metric_names,
    )
    device: str | None = common("device")
