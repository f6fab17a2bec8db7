"""``retrokit augment``: training data without labels, as filters over JSONL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.augmentation.crops import CropSettings
from retrokit.cli.common import Commands, DeviceOption, PrecisionOption, app, show, with_names
from retrokit.cli.settings import takes
from retrokit.cli.streams import readers_may_leave

if TYPE_CHECKING:  # help is shown without loading what augments
    from retrokit.augmentation.texts import Counts

augment = Commands(
    no_args_is_help=True,
    help="Make training data without labels: pairs from texts, near-misses, mined negatives, mixtures.",
)
app.add_typer(augment, name="augment")

InputArgument = Annotated[
    str, typer.Argument(metavar="INPUT", help="Texts as JSON lines, .gz too; - is standard input.")
]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="JSON lines to write; - is standard output.")]
FieldOption = Annotated[str, typer.Option(help="Field of a line that holds the text.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed and input give the same output.")]
PerTextOption = Annotated[int, typer.Option(help="Pairs of a text in an epoch.")]
EpochsOption = Annotated[int, typer.Option(help="Passes over the texts, each with fresh pairs.")]


def _pairs_command(name: str, about: str) -> None:
    @augment.command(name, cls=with_names("splitters"), help=about)
    @takes(CropSettings)
    def pairs(
        path: InputArgument,
        output: OutputOption = "-",
        *,
        settings: CropSettings,
        per_text: PerTextOption = 1,
        epochs: EpochsOption = 1,
        field: FieldOption = "text",
        seed: SeedOption = 0,
    ) -> None:
        import retrokit.augment

        _write(lambda: getattr(retrokit.augment, name)(path, output, settings, per_text, epochs, field, seed))


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


def _write(work: Callable[[], Counts]) -> None:
    """Make rows from texts, and say what became of the texts."""
    from retrokit.augmentation.texts import summary
    from retrokit.notices import notice

    with readers_may_leave():
        notice(summary(work()))


@augment.command(cls=with_names("encoders"))
def mask(
    path: Annotated[
        str, typer.Argument(metavar="INPUT", help="Pairs or texts as JSON lines, .gz too; - is standard input.")
    ],
    encoder: Annotated[str, typer.Option(help="Encoder whose tokens are masked.")],
    output: OutputOption = "-",
    fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the tokens that the mask token replaces.")
    ] = 0.15,
    epochs: EpochsOption = 1,
    field: FieldOption = "text",
    seed: SeedOption = 0,
) -> None:
    """Mask tokens: in both texts of a pair, or of a whole text twice, which makes a pair (CROP A.1).

    retrokit augment crops corpus.jsonl | retrokit augment mask - --encoder minilm -o pairs.jsonl
    """
    import retrokit.augment

    _write(lambda: retrokit.augment.mask(path, output, encoder, fraction, epochs, field, seed))


@augment.command()
def split(
    path: InputArgument,
    train: Annotated[str, typer.Option(help="JSON lines to write: nine tenths, to train on and to learn from.")],
    test: Annotated[str, typer.Option(help="JSON lines to write: the tenth that knn and classify ask about.")],
) -> None:
    """The 9:1 split of knn and classify as two files, to train without the texts of the test (CROP, Table S4).

    retrokit augment split abstracts.jsonl --train train.jsonl --test test.jsonl
    """
    from retrokit.data.labelled import write_split
    from retrokit.notices import notice

    counts = write_split(path, train, test)
    notice(f"{counts[0]:,} rows to train on, {counts[1]:,} to ask about: --on knn:{train},test={test}")


@augment.command(cls=with_names("near-misses", "llms"))
def negatives(
    path: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Texts as JSON lines, or pairs with --positive paraphrase; .gz too; - is standard input.",
        ),
    ],
    output: OutputOption = "-",
    families: Annotated[
        str, typer.Option(help="Kinds of near-misses, with commas between.")
    ] = "negation,binding,spatial",
    positive: Annotated[
        str, typer.Option(help="anchor: the sentence itself (COMP); paraphrase: that of the input's pairs.")
    ] = "anchor",
    per_family: Annotated[
        int | None, typer.Option(help="How many of each family; reading stops when all are there. Default: all.")
    ] = None,
    split: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share for training; writes NAME.train.jsonl and NAME.test.jsonl."),
    ] = None,
    llm: Annotated[
        str | None, typer.Option(help="Language model that makes the near-misses. Default: rules, and no model.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="File that keeps each of its answers. Default: OUTPUT.answers.sqlite.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, max=2**53, help="Budget of its prompts and answers together. Default: 10,000,000."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Calls of it at once.")] = 16,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the calls of a model and estimate their tokens; ask nothing.")
    ] = False,
    field: FieldOption = "text",
    seed: SeedOption = 0,
) -> None:
    """Structural near-misses: minimal edits of sentences that change their meaning (COMP D.1).

    retrokit augment negatives corpus.jsonl --per-family 9940 --split 0.8 -o near-misses.jsonl
    """
    from retrokit.augmentation.negatives.files import estimate_of, write_near_misses
    from retrokit.notices import notice

    named = [name.strip() for name in families.split(",")]
    if dry_run:
        show(str(estimate_of(path, families=named, field=field, positive=positive)))
        return
    with readers_may_leave():
        written = write_near_misses(
            path,
            output,
            families=named,
            field=field,
            positive=positive,
            per_family=per_family,
            split=split,
            seed=seed,
            llm=llm,
            store=store,
            max_tokens=max_tokens,
            concurrency=concurrency,
        )
        for line in written.summary():
            notice(line)


@augment.command(cls=with_names("encoders", "searchers", "similarities", "rerankers"))
def mine(
    data: Annotated[list[str], typer.Argument(help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME. Repeatable.")],
    encoder: Annotated[str, typer.Option(help="Encoder, or another searcher such as bm25, that searches.")],
    output: OutputOption = "-",
    sim: Annotated[str | None, typer.Option(help="Similarity that ranks; default: the encoder's own.")] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Candidates: a JSONL corpus, or the folder of a BEIR data set; default: the data's own documents."
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="Search with this index of faiss, e.g. HNSW32, IVF4096,Flat:nprobe=64.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Reranker whose scores the margins then apply to.")] = None,
    count: Annotated[int, typer.Option("--negatives", help="Negatives of a pair.")] = 7,
    sampling: Annotated[str, typer.Option(help="top: the best of the range; random: any of it.")] = "top",
    first_rank: Annotated[int, typer.Option(help="Best rank to take, from 1.")] = 1,
    last_rank: Annotated[int, typer.Option(help="Worst rank to take.")] = 100,
    margin: Annotated[
        str, typer.Option(help="How much less than the positive a negative scores, at least; none: any score.")
    ] = "0.04",
    relative_margin: Annotated[
        float | None, typer.Option(min=0, help="The same as a share of the positive's score, e.g. 0.05.")
    ] = None,
    max_score: Annotated[float | None, typer.Option(help="Highest score of a negative.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Lowest score of a negative.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop the negatives that a pair has already; default: keep them in front.")
    ] = False,
    drop_rows_without: Annotated[
        bool, typer.Option("--drop-rows-without", help="Leave out pairs for which nothing was found.")
    ] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Add positive_score and negative_scores.")] = False,
    precision: PrecisionOption = "auto",
    device: DeviceOption = None,
    seed: SeedOption = 0,
) -> None:
    """Hard negatives by a search with any encoder and similarity, or another searcher (SFS B.2).

    retrokit augment mine pairs.jsonl --encoder minilm --corpus beir:data/scifact -o hard.jsonl
    """
    from retrokit.augmentation.mining.mine import mine
    from retrokit.augmentation.mining.settings import MiningSettings
    from retrokit.notices import notice
    from retrokit.settings import number_or

    settings = MiningSettings(
        negatives=count,
        sampling=sampling,
        first_rank=first_rank,
        last_rank=last_rank,
        absolute_margin=None if margin == "none" else number_or("none", "margin")(margin),
        relative_margin=relative_margin,
        max_score=max_score,
        min_score=min_score,
        keep_negatives=not replace,
        drop_rows_without=drop_rows_without,
        scores=scores,
        seed=seed,
    )
    with readers_may_leave():
        mined = mine(
            encoder,
            data,
            output,
            sim=sim,
            index=index,
            corpus=corpus,
            judge=judge,
            settings=settings,
            precision=precision,
            device=device,
        )
        notice(mined.summary())


@augment.command(cls=with_names("mixture"))
def mix(
    parts: Annotated[list[str], typer.Argument(help="JSON lines: FILE, FILE,weight=0.5, FILE,count=1000.")],
    output: OutputOption = "-",
    field: Annotated[str, typer.Option(help="Field that names each row's part; empty: none.")] = "source",
    seed: SeedOption = 0,
) -> None:
    """Join data sets by weight or count, shuffled (COMP D.1).

    retrokit augment mix nq.jsonl,count=100000 near-misses.train.jsonl -o mixture.jsonl
    """
    from retrokit.augmentation.mixing import mix
    from retrokit.notices import notice

    with readers_may_leave():
        for line in mix(parts, output, seed, field or None).summary():
            notice(line)
