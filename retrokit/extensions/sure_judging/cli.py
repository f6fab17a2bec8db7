"""``retrokit build-sure audit``, ``judge`` and ``agreement``."""

from collections.abc import Sequence

from retrokit.cli.api import FILE, UsageError, common, notice, setting, show_record
from retrokit.extensions.sure_judging.settings import JudgeConfig, SampleConfig


def audit(config: SampleConfig) -> None:
    """Write an HTML page on which people judge a sample of variants (SURE 4.1).

    retrokit build-sure audit sure/scifact --sample 50 -o audit.html
    """
    from retrokit.extensions.sure_judging.audit import draw_sample, judge_prompts, write_audit_page

    judge, drawn = judge_prompts(config.prompts)["judge"], draw_sample(config.folder, config.sample, config.seed)
    write_audit_page(config.output, drawn, judge)
    notice(f"{config.output}: {len(drawn.items):,} variants of {drawn.queries:,} queries; open it in a browser")


def judge(config: JudgeConfig) -> None:
    """Have a language model judge the sample of the audit page (SURE 4.1).

    retrokit build-sure judge sure/scifact --llm openai:gpt-x,url=http://localhost:8000/v1 -o verdicts-model.jsonl
    """
    from retrokit import llm as llms
    from retrokit.extensions.sure_judging.audit import judge_prompts, judge_sample

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
    from retrokit.extensions.sure_judging.annotators import agreement as compare
    from retrokit.extensions.sure_judging.annotators import read_verdicts

    try:
        result = compare(read_verdicts(verdicts))
    except UsageError as error:
        raise UsageError(f"{', '.join(verdicts)}: {error}") from error
    show_record(as_json, "agreement", result)
