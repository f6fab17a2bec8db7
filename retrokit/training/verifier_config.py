"""Every option of ``retrokit rerank train``, checked as far as that needs no model and no data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrokit import encoders, reranking
from retrokit.registry import parse_all
from retrokit.settings import Settings, setting

BATCH_SIZE = {"cnn": 32, "transformer": 32}
"""COMP, D.3, by the verifier's name; :data:`OTHER_BATCH_SIZE` for the others."""
OTHER_BATCH_SIZE = 128
METRICS = ("ndcg@10", "accuracy", "roc_auc")

DATA, BATCHES, OPTIMIZER, EVALUATION, RUN = "Data", "Batches and steps", "Optimizer", "Evaluation", "Run folder"


@dataclass(frozen=True)
class VerifierConfig(Settings):
    """Which verifier to train, and how."""

    verifier: str = setting(help="Verifier to train: cnn, transformer, soft, or with options.", argument=True)
    encoder: str = setting(help="Encoder whose token embeddings make the maps.", argument=True)
    data: Sequence[str] = setting(
        help="Anchor, positive, negatives: FILE.jsonl, -, beir:PATH, hf:NAME; ,weight=2 mixes.", panel=DATA
    )
    output: str | None = setting(None, "Run folder to write.", RUN, flags=("--output", "-o"), result=False)
    dev: Sequence[str] = setting((), "Examples to measure on. Default: a tenth of the anchors, 500 at most.", DATA)
    start: str | None = setting(
        None, "Finished verifier to start from, of the same spec, made for this encoder.", RUN, result=False
    )
    end_to_end: bool = setting(False, "Train the encoder too; it is saved with the verifier.", OPTIMIZER)
    in_batch: int = setting(8, "Documents of other examples that an anchor is compared with.", BATCHES, above=0)
    batch_size: int | None = setting(
        None, "Examples of a batch. Default: 32 for cnn and transformer, else 128 (COMP D.3).", BATCHES, above=0
    )
    epochs: float | None = setting(None, "Passes over the data. Default: 1.", BATCHES, above=0, most=1e6)
    steps: int | None = setting(None, "Optimizer steps, instead of `epochs`.", BATCHES, above=0)
    lr: float = setting(1e-4, "Highest learning rate of the verifier.", OPTIMIZER, above=0, most=100)
    encoder_lr: float = setting(1e-5, "Highest learning rate of the encoder.", OPTIMIZER, above=0, most=100)
    weight_decay: float = setting(0.01, "AdamW's; never on biases and norms.", OPTIMIZER, least=0, most=100)
    warmup: float = setting(0.1, "Steps of linear warm-up; below 1: a share of all steps.", OPTIMIZER, least=0)
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm.", OPTIMIZER, above=0)
    precision: str = setting(
        "auto", "Of the encoder: fp32, bf16; auto is bf16 where the machine is faster with it.", OPTIMIZER
    )
    seed: int = setting(0, "Of batches, dropout and fresh weights.", OPTIMIZER, least=0)
    eval_every: int | None = setting(
        None, "Steps between evaluations, each with a checkpoint. Default: a tenth.", EVALUATION, above=0
    )
    best_metric: str | None = setting(
        None, "ndcg@10, accuracy or roc_auc: what the kept weights are best in. Default: roc_auc.", EVALUATION
    )
    patience: int | None = setting(None, "Stop after N evaluations without a better one.", EVALUATION, above=0)
    log_every: int = setting(10, "Steps of a line in metrics.jsonl.", RUN, above=0, result=False)
    keep_checkpoints: int = setting(1, "Checkpoints to keep, besides the best.", RUN, above=0, result=False)
    cache: str | None = setting(
        None, "Folder to keep token embeddings in. Default: in the run, while it trains.", RUN, result=False
    )
    device: str | None = setting(None, "cpu, cuda, cuda:1, mps; default: the best there is.", result=False)
    overwrite: bool = setting(False, "Replace the run in the output folder.", RUN, result=False)
    resume: bool = setting(False, "Go on from the last checkpoint.", RUN, result=False)

    def __post_init__(self) -> None:
        from retrokit.data.pairs import registry as sources  # here, for a help page needs no reader of data

        parse_all(
            [
                (reranking.verifiers, self.verifier),
                (encoders.registry, self.encoder),
                *((sources, spec) for spec in (*self.data, *self.dev)),
            ]
        )
        super().__post_init__()

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings, each as a line."""
        found = [
            None if self.data else "no training data: give `data` at least once",
            "give `epochs` or `steps`, not both" if self.epochs is not None and self.steps is not None else None,
            None
            if self.best_metric in (None, *METRICS)
            else f"`best_metric` {self.best_metric} is none of {', '.join(METRICS)}",
            None
            if self.precision in ("auto", "fp32", "bf16")
            else f"`precision` {self.precision} is none of auto, fp32, bf16",
            "`overwrite` and `resume` exclude each other" if self.overwrite and self.resume else None,
            "`cache` is for a frozen encoder: one in training makes new embeddings at every step"
            if self.cache is not None and self.end_to_end
            else None,
            *self.number_problems(),
        ]
        return (problem for problem in found if problem)

    @property
    def examples(self) -> int:
        """Examples of a batch."""
        if self.batch_size is not None:
            return self.batch_size
        return BATCH_SIZE.get(reranking.verifiers.parse(self.verifier).name, OTHER_BATCH_SIZE)

    def inputs(self) -> list[str]:
        """The paths that are read, and the folder of embeddings that are kept."""
        from retrokit.data.outputs import paths_in
        from retrokit.data.pairs import registry as sources

        read = [(encoders.registry, self.encoder), *((sources, spec) for spec in (*self.data, *self.dev))]
        kept = [path for path in (self.start, self.cache) if path is not None]
        return [*paths_in(registry.parse(spec) for registry, spec in read), *kept]
