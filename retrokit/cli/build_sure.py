"""``retrokit build-sure build``: build a SURE benchmark from queries and passages."""

from dataclasses import asdict

from retrokit.cli.common import show_record, show_result
from retrokit.core.settings import common
from retrokit.sure.config import SureConfig


def build(
    config: SureConfig,
    dry_run: bool = common("dry_run"),
    as_json: bool = common("as_json"),
) -> None:
    """Build a benchmark: verified variants of each query's passage (SURE 3.2).

    retrokit build-sure data/scifact --llm openai:gpt-x,url=http://localhost:8000/v1 -o sure/scifact

    Next: `retrokit build-sure audit`, `judge` and `agreement` check its quality.
    """
    from retrokit.report.tables import estimate_sheet
    from retrokit.sure.build import build_sure as build_benchmark
    from retrokit.sure.build import estimate_sure

    if dry_run:
        estimated = estimate_sure(config)
        return show_result(as_json, "estimate", asdict(estimated), estimate_sheet(estimated))
    show_record(as_json, "build-sure", build_benchmark(config))
