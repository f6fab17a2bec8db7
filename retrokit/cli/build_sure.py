"""``retrokit build-sure``: build a SURE benchmark from queries and passages, and judge it."""

from collections.abc import Sequence
from dataclasses import asdict

from retrokit.cli.common import show_record, show_result
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import FILE, common, setting
from retrokit.sure.config import JudgeConfig, SampleConfig, SureConfig


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


def audit(config: SampleConfig) -> None:
    """Write an HTML page on which people judge a sample of variants (SURE 4.1).

    retrokit build-sure audit sure/scifact --sample 50 -o audit.html
    """
    from retrokit.sure.audit import draw_sample, write_audit_page
    from retrokit.sure.prompts import judge_prompts

    judge, drawn = judge_prompts(config.prompts)["judge"], draw_sample(config.folder, config.sample, config.seed)
    write_audit_page(config.output, drawn, judge)
    notice(f"{config.output}: {len(drawn.items):,} variants of {drawn.queries:,} queries; open it in a browser")


def judge_command(config: JudgeConfig) -> None:
    """Have a language model judge the sample of the audit page (SURE 4.1).

    retrokit build-sure judge sure/scifact --llm openai:gpt-x,url=http://localhost:8000/v1 -o verdicts-model.jsonl
    """
    from retrokit import llm as llms
    from retrokit.sure.audit import judge_sample
    from retrokit.sure.prompts import judge_prompts

    judged = judge_sample(config, llms.registry.create(config.llm), judge_prompts(config.prompts))
    without = f", {judged.without_verdict:,} skipped without a verdict" if judged.without_verdict else ""
    notice(f"{judged.qualified:,} qualified, {judged.unqualified:,} unqualified{without}")


def agreement(
    verdicts: Sequence[str] = setting(
        help="Verdicts as JSON lines, from the page or judge. Repeatable.", argument=True, reads=FILE
    ),
    as_json: bool = common("as_json"),
) -> None:
    """Compare annotators: verdicts, Cohen's and Fleiss' kappa (SURE, Table 2).

    retrokit build-sure agreement verdicts-anna.jsonl verdicts-ben.jsonl verdicts-model.jsonl
    """
    from retrokit.sure.agreement import agreement as compare
    from retrokit.sure.agreement import read_verdicts

    try:
        result = compare(read_verdicts(verdicts))
    except UsageError as error:
        raise UsageError(f"{', '.join(verdicts)}: {error}") from error
    show_record(as_json, "agreement", result)
