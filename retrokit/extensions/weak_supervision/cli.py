"""``retrokit augment queries``, ``mine`` and ``score``."""

from dataclasses import replace

from retrokit.cli.api import UsageError, common, notice, readers_may_leave, setting, show_result, write_rows
from retrokit.extensions.weak_supervision.settings import MinedFiles, MiningSettings, QuerySettings, TeacherSettings


def queries(
    settings: QuerySettings,
    dry_run: bool = common("dry_run"),
    as_json: bool = common("as_json"),
) -> None:
    """Have a language model write queries for passages; a search and a judge filter them.

    retrokit augment queries corpus.jsonl --llm openai:MODEL,url=http://localhost:8000/v1 --negatives 4 -o pairs.jsonl
    """
    from retrokit.extensions.weak_supervision.writing import estimate_queries, queries

    if dry_run:
        estimate = estimate_queries(settings)
        about = "{passages:,} passages: {queries:,} queries to write, about {prompt_tokens:,} tokens of prompts; "
        about += "grading adds one call for each remaining query"
        return show_result(as_json, "estimate", estimate, about.format(**estimate))
    if as_json and settings.output == "-":
        raise UsageError("the rows and --json both need standard output; give -o FILE")
    with readers_may_leave():
        written = queries(settings)
        for line in () if as_json else written.summary():
            notice(line)
    if as_json:
        show_result(True, "queries", written.to_json())


def mine(
    files: MinedFiles,
    settings: MiningSettings,
    replace_: bool = setting(False, "Drop existing negatives. Default: keep them first.", flags=("--replace",)),
) -> None:
    """Mine hard negatives with any encoder and similarity, or another searcher (SFS B.2).

    retrokit augment mine pairs.jsonl --encoder minilm --corpus beir:data/scifact -o hard.jsonl
    """
    from retrokit.extensions.weak_supervision.mining import mine

    write_rows(lambda: mine(**vars(files), settings=replace(settings, keep_negatives=not replace_)))


def score(settings: TeacherSettings) -> None:
    """Score pairs and their negatives with a reranker, for finetune --loss kl or margin-mse.

    retrokit augment score hard.jsonl --with cross-encoder:models/teacher -o taught.jsonl
    """
    from retrokit.extensions.weak_supervision.teaching import score

    with readers_may_leave():
        notice(f"{score(settings):,} rows scored")
