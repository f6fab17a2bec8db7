"""``retrokit augment``: training data without labels, as filters over JSONL."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import typer

from retrokit.augmentation.crops import CropSettings
from retrokit.augmentation.settings import (
    SHARES,
    MaskSettings,
    MinedFiles,
    MiningSettings,
    MixSettings,
    NearMissSettings,
    PairSettings,
    QuerySettings,
    SplitSettings,
    TeacherSettings,
)
from retrokit.cli.common import Commands, JsonOption, app, show, with_names
from retrokit.cli.settings import takes
from retrokit.cli.streams import readers_may_leave
from retrokit.core.errors import UsageError

augment = Commands(help="Make training data without labels: pairs from texts, near-misses, mined negatives, mixtures.")
app.add_typer(augment, name="augment")


def _pairs_command(name: str, about: str) -> None:
    @augment.command(name, cls=with_names("splitters"), help=about)
    @takes(PairSettings, CropSettings)
    def pairs(settings: PairSettings, crops: CropSettings) -> None:
        import retrokit.augment

        _write(lambda: getattr(retrokit.augment, name)(settings=crops, **vars(settings)))


_pairs_command(
    "crops",
    """Pairs of two chunks of the same text (CROP 3.1).

    retrokit augment crops corpus.jsonl -o pairs.jsonl
    """,
)
_pairs_command(
    "dropout",
    """Pairs of a chunk with itself, for an encoder whose dropout tells them apart (SimCSE, CROP 3.1).

    retrokit augment dropout corpus.jsonl -o pairs.jsonl
    """,
)


def _write(work: Callable[[], Any]) -> None:
    """Write rows, and say what became of them."""
    from retrokit.core.notices import notice

    with readers_may_leave():
        summary = work().summary()
        for line in [summary] if isinstance(summary, str) else summary:
            notice(line)


@augment.command(cls=with_names("encoders"))
@takes(MaskSettings)
def mask(settings: MaskSettings) -> None:
    """Mask tokens: in both texts of a pair, or of a whole text twice, which makes a pair (CROP A.1).

    retrokit augment crops corpus.jsonl | retrokit augment mask - --encoder minilm -o pairs.jsonl
    """
    import retrokit.augment

    _write(lambda: retrokit.augment.mask(**vars(settings)))


@augment.command(cls=with_names("data"))
@takes(SplitSettings)
def split(settings: SplitSettings, as_json: JsonOption = False) -> None:
    """Pairs as a BEIR folder of train, dev and test without leaks: what shares a text is in one split.

    retrokit augment split pairs.jsonl -o data/mine

    With --train and --test: the 9:1 split of knn and classify as two files (CROP, Table S4).

    retrokit augment split abstracts.jsonl --train train.jsonl --test test.jsonl
    """
    import retrokit.augment
    from retrokit.core.notices import notice
    from retrokit.data.jsonl import to_json

    if settings.output is not None:
        result = retrokit.augment.split_pairs(settings.data, settings.output, settings.shares or SHARES, settings.seed)
        counts = vars(result)
        notice(result.summary())
    else:
        parts = retrokit.augment.split(settings.data[0], str(settings.train), str(settings.test))
        counts = dict(zip(("train", "test"), parts, strict=True))
        notice(
            f"{parts[0]:,} rows to train on, {parts[1]:,} to ask about: --on knn:{settings.train},test={settings.test}"
        )
    if as_json:
        show(to_json(counts, kind="split"))


@augment.command("near-misses", cls=with_names("near-misses", "llms"))
@takes(NearMissSettings)
def near_misses(
    settings: NearMissSettings,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Count the calls of a model and estimate their tokens; ask nothing."
    ),
) -> None:
    """Structural near-misses: minimal edits of sentences that change their meaning (COMP D.1).

    retrokit augment near-misses corpus.jsonl --per-family 9940 --split 0.8 -o near-misses.jsonl
    """
    from retrokit.augmentation.near_misses.files import estimate_of, write_near_misses

    if dry_run:
        show(str(estimate_of(**vars(settings))))
    else:
        _write(lambda: write_near_misses(**vars(settings)))


@augment.command(cls=with_names("llms", "encoders", "searchers"))
@takes(QuerySettings)
def queries(
    settings: QuerySettings,
    dry_run: bool = typer.Option(False, "--dry-run", help="Count the calls and estimate their tokens; ask nothing."),
    as_json: JsonOption = False,
) -> None:
    """Queries that a language model writes for the passages of a corpus, kept if a search and a judge confirm them.

    retrokit augment queries corpus.jsonl --llm openai:MODEL --negatives 4 -o pairs.jsonl
    """
    import retrokit.augment
    from retrokit.augmentation.queries import estimate_queries
    from retrokit.core.notices import notice
    from retrokit.data.jsonl import to_json

    if dry_run:
        estimate = estimate_queries(**vars(settings))
        about = "{passages:,} passages: {queries:,} queries to write, about {prompt_tokens:,} tokens of prompts; "
        about += "grading asks once more for each query that is left by then"
        show(to_json(estimate, kind="estimate") if as_json else about.format(**estimate))
        return
    if as_json and settings.output == "-":
        raise UsageError("standard output takes the rows or --json, not both: name a file with -o")
    with readers_may_leave():
        written = retrokit.augment.queries(**vars(settings))
        for line in () if as_json else written.summary():
            notice(line)
    if as_json:
        show(to_json(written.to_json(), kind="queries"))


@augment.command(cls=with_names("encoders", "searchers", "similarities", "rerankers"))
@takes(MinedFiles, MiningSettings, keep_negatives=None)
def mine(
    files: MinedFiles,
    settings: MiningSettings,
    replace_: bool = typer.Option(
        False, "--replace", help="Drop the negatives that a pair has already; default: keep them in front."
    ),
) -> None:
    """Hard negatives by a search with any encoder and similarity, or another searcher (SFS B.2).

    retrokit augment mine pairs.jsonl --encoder minilm --corpus beir:data/scifact -o hard.jsonl
    """
    from retrokit.augmentation.mining import mine

    _write(lambda: mine(**vars(files), settings=replace(settings, keep_negatives=not replace_)))


@augment.command(cls=with_names("rerankers"))
@takes(TeacherSettings)
def score(settings: TeacherSettings) -> None:
    """A teacher's scores of pairs and their negatives, by any reranker, for finetune --loss kl or margin-mse.

    retrokit augment score hard.jsonl --with cross-encoder:models/teacher -o taught.jsonl
    """
    import retrokit.augment
    from retrokit.core.notices import notice

    with readers_may_leave():
        count = retrokit.augment.score(**vars(settings))
        notice(f"{count:,} rows with a teacher's scores")


@augment.command(cls=with_names("mixture"))
@takes(MixSettings)
def mix(settings: MixSettings) -> None:
    """Join data sets by weight or count, shuffled (COMP D.1).

    retrokit augment mix nq.jsonl,count=100000 near-misses.train.jsonl -o mixture.jsonl
    """
    from retrokit.augmentation.mixing import mix

    _write(lambda: mix(**vars(settings)))
