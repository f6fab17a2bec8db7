"""What to build a SURE benchmark of, with which model, and how: the settings of ``build-sure``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, FOLDER, Settings, setting, taking
from retrokit.llm.settings import Asking

if TYPE_CHECKING:
    from retrokit.sure.build import BuildSettings, Built, Estimate
    from retrokit.sure.items import Items


@dataclass(frozen=True)
class SampleConfig(Settings):
    """Which variants of a benchmark are judged (SURE 4.1)."""

    folder: str = setting(help="A SURE folder: one that was built, or the release's.", argument=True)
    _: KW_ONLY
    output: str = setting(help="HTML file to write.", flags=("--output", "-o"), writes=FILE)
    sample: int = setting(50, "How many queries; each brings all its variants.", minimum=1)
    seed: int = setting(0, "Seed of the sample: one seed, one sample for all annotators, people and models.", minimum=0)
    prompts: str | None = setting(None, "Folder whose judge.toml takes the place of ours; the paper gives none.")


@dataclass(frozen=True)
class JudgeConfig(Asking, SampleConfig):
    """Which model judges them, and how it is asked."""

    _: KW_ONLY
    llm: str = setting(help="Language model that judges.")
    output: str = setting(
        help="JSON lines of verdicts to write; - is standard output.", flags=("--output", "-o"), writes=FILE
    )
    annotator: str | None = setting(None, "Name in the verdicts. Default: the model's.")


@dataclass(frozen=True)
class SureConfig(Asking):
    """A benchmark to build (SURE 3.2)."""

    first = (
        *("llm", "output", "split", "queries", "passages", "qrels", "testbeds", "limit", "prompts", "max_tokens"),
        *("seed", "dry_run"),
    )

    data: str | None = setting(
        None, "A BEIR folder with judgements, or the name of a BEIR set.", argument=True, metavar="DATA"
    )
    llm: str | None = setting(None, "Language model, e.g. openai:MODEL,url=ADDRESS; needed unless `dry_run=`.")
    output: str | None = setting(
        None, "Folder to write; needed unless `dry_run=`.", flags=("--output", "-o"), writes=FOLDER
    )
    split: str = setting("test", "Split of the BEIR folder whose queries are used.")
    queries: str | None = setting(None, "Instead of DATA: queries as JSON lines of id, text and passage_id; .gz too.")
    passages: str | None = setting(None, "With `queries=`: passages as JSON lines of id, text and optionally title.")
    qrels: str | None = setting(None, "With `queries=`: judgements (BEIR's or TREC's) in place of passage_id.")
    testbeds: str = setting("precision,abstraction,equivalence", "Which, with commas between.")
    limit: int | None = setting(None, "Queries to try, drawn by the seed. Default: all.")
    retries: int = setting(2, "How often a rejected variant is made again, with the reason.", minimum=0)
    prompts: str = setting(
        "ours",
        "Wording: ours; paper, SURE's own of its Appendix A; or a folder whose NAME.toml take the place of ours.",
    )
    language: str = setting("en", "Language of the texts, for cutting sentences: en, de, zh …")
    seed: int = setting(
        0, "Seed of the queries drawn, of ties between passages, and of the places of key sentences.", minimum=0
    )
    overwrite: bool = setting(False, "Replace a benchmark that was built there before.")

    @property
    def settings(self) -> BuildSettings:
        """What decides the benchmark besides items, prompts and model."""
        from retrokit.sure.build import BuildSettings

        named = tuple(name.strip() for name in self.testbeds.split(",") if name.strip())
        return BuildSettings(named, self.retries, self.seed, self.language, self.sampling)

    @property
    def inputs(self) -> list[str]:
        """The paths that are read."""
        given = (self.data, self.queries, self.passages, self.qrels, self.prompts)
        return [path for path in given if path is not None]

    def items(self) -> Items:
        """The queries and their passages; raises :class:`UsageError` unless one source is given, and it whole."""
        from retrokit.sure.items import beir_items, jsonl_items

        if self.data is not None and (self.queries or self.passages or self.qrels):
            raise UsageError("give DATA, or `queries=` and `passages=`, not both")
        if self.data is not None:
            return beir_items(self.data, self.split, self.limit, self.seed)
        if not self.queries or not self.passages:
            raise UsageError("give a BEIR folder, or both `queries=` and `passages=`")
        return jsonl_items(self.queries, self.passages, self.qrels, self.limit, self.seed)


@taking(SureConfig)
def estimate_sure(config: SureConfig) -> Estimate:
    """Count the calls that a build would make and estimate its tokens; no model is asked, and none need be named.

    Raises:
        UsageError, DataError: as :func:`build_sure` does before the first call.
    """
    from retrokit import llm as llms
    from retrokit.llm.session import check_limits
    from retrokit.sure.build import estimate
    from retrokit.sure.folder import check_output
    from retrokit.sure.prompts import load_prompts

    spec = llms.registry.parse(config.llm) if config.llm is not None else None
    settings, wording, items = config.settings, load_prompts(config.prompts), config.items()
    if spec is not None:
        llms.registry.create(spec)
    check_limits(config.concurrency, config.max_tokens)
    if config.output is not None:
        check_output(config.output, config.overwrite, config.inputs)
    return estimate(items, wording, settings)


@taking(SureConfig)
def build_sure(config: SureConfig) -> Built:
    """Build a benchmark: variants of each query's passage, verified (SURE 3.2).

    Raises:
        UsageError: wrong names; ``output`` exists, or another build writes it.
        DataError: a file that cannot be read or written.
        ServiceError: the model fails for good; its answers are kept in the store.
        Interrupted: by Ctrl-C; answers are kept.
    """
    from retrokit import llm as llms
    from retrokit.sure.build import build
    from retrokit.sure.prompts import load_prompts

    if config.llm is None or config.output is None:
        missing = "a language model: `llm=`" if config.llm is None else "the folder to write: `output=`"
        raise UsageError(f"name {missing} (or only count: `dry_run=`)")
    spec, settings, wording = llms.registry.parse(config.llm), config.settings, load_prompts(config.prompts)
    return build(
        config.items(),
        llms.registry.create(spec),
        config.output,
        prompts=wording,
        settings=settings,
        store=config.store,
        concurrency=config.concurrency,
        max_tokens=config.max_tokens,
        overwrite=config.overwrite,
        inputs=config.inputs,
    )
