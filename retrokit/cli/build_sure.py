"""``retrokit build-sure``: a SURE benchmark from any queries and passages, and judging what was built."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from retrokit.cli.common import Commands, GroupWithDefault, JsonOption, app, show, with_names
from retrokit.cli.settings import takes
from retrokit.errors import UsageError
from retrokit.sure.config import SureConfig


class _Building(GroupWithDefault):
    """``build-sure DATA …`` means ``build-sure build DATA …``."""

    default = "build"


build_sure = Commands(
    cls=_Building,
    no_args_is_help=True,
    help="Build a SURE benchmark from any queries and passages with any language model, and have it judged. "
    "Without the name of a command: build.",
)
app.add_typer(build_sure, name="build-sure")

JudgePromptsOption = Annotated[
    str | None, typer.Option("--prompts", help="Folder whose judge.toml takes the place of ours; the paper gives none.")
]
SampleOption = Annotated[int, typer.Option("--sample", help="How many queries; each brings all its variants.")]
FolderArgument = Annotated[str, typer.Argument(help="A SURE folder: one that was built, or the release's.")]


@build_sure.command(cls=with_names("llms"))
@takes(SureConfig)
def build(
    config: SureConfig,
    dry_run: bool = typer.Option(False, "--dry-run", help="Count the calls and estimate the tokens; ask nothing."),
    as_json: JsonOption = False,
) -> None:
    """Build a benchmark: variants of each query's passage, verified (SURE 3.2).

    retrokit build-sure data/scifact --llm openai:gpt-x -o sure/scifact

    `retrokit build-sure audit` makes a page to judge a sample, `judge` has a language model judge it, and `agreement`
    compares annotators.
    """
    from retrokit.report.build_sure import build_tables, estimate_table
    from retrokit.report.tables import to_json
    from retrokit.sure.config import build_sure as build_benchmark
    from retrokit.sure.config import estimate_sure

    if dry_run:
        estimated = estimate_sure(config)
        show(to_json(asdict(estimated)) if as_json else estimate_table(estimated))
        return
    built = build_benchmark(config)
    show(*([to_json({**built.record, "calls": built.counts})] if as_json else build_tables(built)))


def _read_from(folder: str, prompts: str | None) -> list[str]:
    """The files that a sample is made of."""
    files = [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []
    return [*files, *([prompts] if prompts is not None else [])]


@build_sure.command()
def audit(
    folder: FolderArgument,
    output: str = typer.Option(..., "--output", "-o", help="HTML file to write."),
    sample: SampleOption = 50,
    seed: int = typer.Option(0, min=0, help="Seed of the sample: one seed, one sample for all annotators."),
    prompts: JudgePromptsOption = None,
) -> None:
    """Make a page on which people judge a sample of the variants, in a browser and without a server (SURE 4.1).

    retrokit build-sure audit sure/scifact --sample 50 -o audit.html
    """
    from retrokit.data.outputs import check_file
    from retrokit.notices import notice
    from retrokit.sure.audit import draw_sample, write_audit_page
    from retrokit.sure.prompts import judge_prompts

    check_file(output, _read_from(folder, prompts))
    judge = judge_prompts(prompts)["judge"]
    drawn = draw_sample(folder, sample, seed)
    write_audit_page(output, drawn, judge)
    notice(f"{output}: {len(drawn.items):,} variants of {drawn.queries:,} queries; open it in a browser")


@build_sure.command("judge", cls=with_names("llms"))
def judge_command(
    folder: FolderArgument,
    llm: str = typer.Option(..., help="Language model that judges."),
    output: str = typer.Option(..., "--output", "-o", help="JSON lines of verdicts to write; - is standard output."),
    sample: SampleOption = 50,
    seed: int = typer.Option(0, min=0, help="Seed of the sample: that of the page, to judge the same."),
    annotator: str | None = typer.Option(None, help="Name in the verdicts. Default: the model's."),
    prompts: JudgePromptsOption = None,
    temperature: float = typer.Option(0.0, min=0, help="Temperature of sampling; 0: the likeliest token each time."),
    answer_tokens: int = typer.Option(4096, help="Longest answer in tokens, what a reasoning model thinks included."),
    store: str | None = typer.Option(
        None, help="File that keeps every answer; several builds may share one. Default: OUTPUT.answers.sqlite."
    ),
    concurrency: int = typer.Option(16, min=1, max=1024, help="Calls at once."),
    max_tokens: int | None = typer.Option(
        None,
        min=1,
        max=2**53,
        help="Stop before prompts and answers exceed this many tokens. Default: no limit.",
    ),
) -> None:
    """Have a language model judge the same sample as people do on the page: one more annotator (SURE 4.1).

    retrokit build-sure judge sure/scifact --llm openai:gpt-x -o verdicts-model.jsonl
    """
    from retrokit import llm as llms
    from retrokit.data.outputs import check_file
    from retrokit.llm.base import Sampling
    from retrokit.llm.store import default_store
    from retrokit.notices import notice
    from retrokit.sure.audit import draw_sample
    from retrokit.sure.judging import judge_sample
    from retrokit.sure.prompts import judge_prompts

    spec = llms.registry.parse(llm)
    if output == "-" and store is None:
        raise UsageError("with -o - name the file that keeps the answers: --store FILE")
    check_file(output, [*_read_from(folder, prompts), *([store] if store is not None else [])])
    wording = judge_prompts(prompts)
    judged = judge_sample(
        draw_sample(folder, sample, seed),
        llms.registry.create(spec),
        output,
        prompts=wording,
        store=default_store(output) if store is None else store,
        annotator=annotator,
        sampling=Sampling(temperature=temperature, max_tokens=answer_tokens),
        concurrency=concurrency,
        max_tokens=max_tokens,
    )
    without = f", {judged.without_verdict:,} without a verdict, left out" if judged.without_verdict else ""
    notice(f"{judged.qualified:,} qualified, {judged.unqualified:,} unqualified{without}")


@build_sure.command()
def agreement(
    verdicts: list[str] = typer.Argument(..., help="Verdicts as JSON lines, of the page or of judge. Repeatable."),
    as_json: JsonOption = False,
) -> None:
    """Compare annotators: verdicts of each and of several together (SURE, Table 2), Cohen's and Fleiss' kappa.

    retrokit build-sure agreement verdicts-anna.jsonl verdicts-ben.jsonl verdicts-model.jsonl
    """
    from retrokit.report.build_sure import agreement_tables
    from retrokit.report.tables import to_json
    from retrokit.sure.agreement import agreement as compare
    from retrokit.sure.agreement import read_verdicts

    found = compare(read_verdicts(verdicts))
    show(*([to_json(found.to_json())] if as_json else agreement_tables(found)))
