"""``finetune``: from a configuration to a finished model folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from retrokit import encoders, evaluation, similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.data.jsonl import strictly
from retrokit.data.pairs import Source, hold_out, read_source
from retrokit.data.runs import TRAINING, Run
from retrokit.data.training_rows import ScoredPair
from retrokit.encoders import engine
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.base import Encoder
from retrokit.encoders.precision import name_of
from retrokit.encoders.tables import is_table
from retrokit.probing.settings import PAIRS, UNDECIDED
from retrokit.similarities.base import Similarity
from retrokit.training.batches import Batches, Collator, Loader, TrainingSet
from retrokit.training.card import model_card
from retrokit.training.config import AUTO, FinetuneConfig
from retrokit.training.evaluations import HOLDOUT, Evaluations, task_names
from retrokit.training.history import Outcome
from retrokit.training.loss import Guide, InfoNCE, PreparedLoss, ScoredMSE, Taught
from retrokit.training.memory import step_memory
from retrokit.training.model import (
    build,
    check_weights,
    describe_parameters,
    export,
    freeze_unused,
    has_dropout,
    learning_rate,
)
from retrokit.training.preflight import (
    SCALE_SAMPLE,
    Preflight,
    check_max_length,
    lengths_of,
    measure_scale,
    of_any_run,
    show_inputs,
    texts_of,
)
from retrokit.training.processes import (
    ends_all,
    first_says,
    is_first,
    is_sharded,
    join,
    own_device,
    process_count,
    process_rank,
)
from retrokit.training.run import (
    Job,
    carry_out,
    check_places,
    check_taught,
    folder_of,
    identity_of,
    provenance,
    training_precision,
)

if TYPE_CHECKING:  # a run on pairs loads no augmentation, one without held-out examples no task, a plan no trainer
    from sentence_transformers import SentenceTransformer

    from retrokit.augmentation.online import Augmentation, Masking
    from retrokit.training.held_out import HeldOut
    from retrokit.training.trainer import Options, RunTrainer


@dataclass(frozen=True)
class Plan(Job):
    """A fine-tuning; ``chosen_by`` is the probe's result with ``--sim auto``."""

    config: FinetuneConfig
    preflight: Preflight
    encoder: Encoder
    model: SentenceTransformer
    similarity: Similarity
    masking: Masking | None
    guide: Guide | None
    evaluations: Evaluations
    held_out: HeldOut | None
    chosen_by: dict[str, Any] | None

    @property
    def data(self) -> TrainingSet:
        """The training data."""
        return self.batches.data

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @property
    def precision(self) -> torch.dtype:
        return training_precision(self.config, self.model, self.device)

    @property
    def loader(self) -> Loader:
        """Batches, tokenised."""
        collator = Collator(
            partial(engine.preprocess, self.model),
            self.data.sources,
            prompts=self.encoder.prompts,
            max_length=self.config.max_length,
            masking=self.masking,
            guide=self.guide,
        )
        return Loader(self.data, self.batches, collator)

    def describe(self) -> Run:
        notes = {**self.preflight.notes(), **provenance()}
        spec, encoder = self.similarity.spec, self.config.encoder
        return Run(TRAINING, spec, encoder, self.identity, similarity_chosen_by=self.chosen_by, notes=notes)

    def loss(self) -> PreparedLoss:
        """The loss to minimise."""
        config, scale = self.config, self.preflight.scale["scale"]
        prefixes = list(self.model)[-1].prefixes
        embeddings = [torch.ones(1, size, device=self.model.device) for size in prefixes or []]
        widths = [self.similarity.prepare(embedding, "query").shape[-1] for embedding in embeddings] or None
        if "mse" in config.weights:
            return ScoredMSE(self.model, self.similarity, scale, config.mini_batch, widths)
        positives = self.data.positives
        if self.held_out is not None:
            positives = torch.cat([positives, self.held_out.data.positives]).unique()
        if config.of_loss("unmasked"):
            positives = positives[:0]
        options: dict[str, Any] = {
            "positives": positives,
            "directions": config.of_loss("directions"),
            "mini_batch": config.mini_batch,
            "widths": widths,
            "guide": self.guide,
        }
        if config.is_taught:
            weights, temperature = config.weights, config.of_loss("temperature")
            return Taught(self.model, self.similarity, scale, weights=weights, temperature=temperature, **options)
        return InfoNCE(self.model, self.similarity, scale, **options)

    def trainer(self, options: Options) -> RunTrainer:
        assert self.config.lr is not None  # a plan has one
        rates = {"": self.config.lr}
        if self.config.sim_lr is not None:
            rates[f"{len(self.model) - 1}.similarity."] = self.config.sim_lr
        from retrokit.training.trainer import FinetuneTrainer

        by_rows = is_table(self.model[0]) and self.batches.world == 1 and self.device.type == "cpu"
        kind = FinetuneTrainer
        if by_rows:
            from retrokit.training.table_trainer import TableTrainer

            kind = TableTrainer
        return kind(
            self.model,
            options,
            self.loader,
            rates,
            loss=self.loss(),
            evaluations=self.evaluations,
            held_out=self.held_out,
            start=self.encoder,
        )

    def intervals(self, steps: int) -> tuple[int | None, int]:
        config = self.config
        save_every = config.save_every or config.eval_every or max(50, steps // 10)
        return (config.eval_every or steps) if self.evaluations.tasks else None, save_every

    def selection(self, folder: Path) -> dict[str, Any]:
        return self.evaluations.selection(self.config, self.preflight.overlaps, folder)

    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        check_weights(trainer.model, trainer.folder.target)
        export(trainer.model, staged)
        facts = {"steps made": outcome.steps, "best step": outcome.best_step, "converged at step": outcome.converged_at}
        similarity = list(trainer.model)[-1].similarity
        card = model_card(trainer.folder.target.name, similarity, self.preflight, trainer.history.rows, facts)
        (staged / "README.md").write_text(card, encoding="utf-8")
        return {}


@ends_all
def plan(config: FinetuneConfig, *, dry_run: bool = False) -> Plan:
    """Read and check everything: data, encoder, task, options; measure lengths and the starting scale. A ``dry_run`` is
    not trained: ``sim=auto`` is not probed but planned as :data:`~retrokit.probing.settings.UNDECIDED`.

    Raises:
        UsageError, DataError: any problem, before the first step, in any of several processes.
    """
    join(shares=True)
    if config.mini_batch is not None and is_sharded():
        raise UsageError("`mini_batch=` and FSDP exclude each other; give `gradient_checkpointing=`")
    device = own_device(config.device)
    inputs = _read_inputs(config, device)
    encoder: Encoder = encoders.registry.create(config.start, device=device)
    untrained = encoder.to_train().model
    _check_start(config, encoder, untrained, inputs.batches.data)
    fingerprint = encoder.fingerprint()
    if config.lr is None:
        config = replace(config, lr=learning_rate(untrained))
    config, chosen_by = _with_similarity(config, encoder, inputs.batches.data, dry_run)
    dtype = training_precision(config, untrained, encoder.device)
    model, similarity = _build(config, encoder, inputs, dtype)
    guide, guide_digest = _guide(config, device)
    digests = {**inputs.digests, **guide_digest}
    identity = identity_of(config, encoder.device, encoder.computes_in(config.precision), fingerprint, digests)
    preflight = _preflight(config, inputs, encoder, model, similarity, dtype)
    return Plan(
        config=config,
        batches=inputs.batches,
        metric=inputs.evaluations.decides,
        preflight=preflight,
        identity=identity,
        encoder=encoder,
        model=model,
        similarity=similarity,
        masking=_masking(inputs.augmentation, encoder, config.seed),
        guide=guide,
        evaluations=inputs.evaluations,
        held_out=inputs.held_out,
        chosen_by=chosen_by,
    )


@dataclass(frozen=True)
class Inputs:
    """What a run reads before its encoder is loaded; ``digests`` are of the sources before any example was held out."""

    batches: Batches
    augmentation: Augmentation | None
    held_out: HeldOut | None
    evaluations: Evaluations
    digests: dict[str, list[str] | str]


def _read_inputs(config: FinetuneConfig, device: str | None) -> Inputs:
    """Read the data and the tasks, and check all that files can tell; a task opens encoders on ``device``.

    Raises:
        UsageError, DataError: wrong options or files.
    """
    rank, world = process_rank(), process_count()
    check_places(config, config.data)
    with strictly(config.strict):
        augmentation = None
        if config.augment:
            from retrokit.augmentation.online import combined

            augmentation = combined(config.augment)
        sources = _read_sources(config, augmentation)
        _warn_of_contradictions(sources)
        digests: dict[str, list[str] | str] = {"data_digests": [source.digest for source in sources]}
        held_out = None
        if config.holdout is not None:
            from retrokit.training.held_out import HeldOut

            sources, examples = hold_out(sources, config.holdout, config.seed)
            held_out = HeldOut(TrainingSet(examples, augmentation, config.seed), config.batch_size * world, config.seed)
        batches = Batches(
            TrainingSet(sources, augmentation, config.seed),
            config.batch_size,
            seed=config.seed,
            no_duplicates=config.no_duplicates,
            mix=config.mix,
            rank=rank,
            world=world,
        )
        _check_before_loading(config, batches.data)
        evaluations = _read_evaluations(config, held_out, device)
    return Inputs(batches, augmentation, held_out, evaluations, digests)


def _build(
    config: FinetuneConfig, encoder: Encoder, inputs: Inputs, dtype: torch.dtype
) -> tuple[SentenceTransformer, Similarity]:
    """The model to train, without weights that change nothing, and its similarity, which the encoder has from now on.

    Raises:
        UsageError: an augmentation by dropout of a model that has none.
    """
    model, similarity = build(
        encoder,
        config.sim,
        prefixes=config.matryoshka,
        freeze=config.freeze,
        lora=config.low_rank,
        dropout=config.dropout,
        seed=config.seed,
        checkpointed=config.gradient_checkpointing,
        merge_lora=config.merges,
        dtype=dtype,
    )
    encoder.use_with(similarity)
    augmentation = inputs.augmentation
    if augmentation is not None and augmentation.needs_dropout and not has_dropout(model):
        raise UsageError(f"`augment=` {augmentation.spec}: {encoder.spec} has no dropout; give a `dropout=` of 0.1")
    if config.scale == AUTO and similarity.multiple_of:
        other = similarity.multiple_of
        notice(f"{similarity.spec} is {other} divided by a number; with `scale=` auto both train the same")
    freeze_unused(model, texts_of(inputs.batches.data, 1, config.seed))
    return model, similarity


def _guide(config: FinetuneConfig, device: str | None) -> tuple[Guide | None, dict[str, str]]:
    """The encoder that masks false negatives, if there is one, and what of it decides the result."""
    if config.guide is None:
        return None, {}
    guide = Guide(config.guide, config.of_loss("margin"), config.of_loss("margin_type"), device)
    return guide, {"guide_fingerprint": guide.fingerprint()}


def _preflight(
    config: FinetuneConfig,
    inputs: Inputs,
    encoder: Encoder,
    model: SentenceTransformer,
    similarity: Similarity,
    dtype: torch.dtype,
) -> Preflight:
    """What the run will do, measured on samples of its data."""
    data, evaluations, held_out = inputs.batches.data, inputs.evaluations, inputs.held_out
    if is_first():
        show_inputs(encoder, data, config.show_inputs, config.max_length)
    lengths = lengths_of(encoder, data, config.seed, config.max_length)
    held_out_texts = None if held_out is None else held_out.judged_texts()

    def scale() -> dict[str, float]:
        sample = texts_of(data, SCALE_SAMPLE, config.seed)
        is_auto = config.scale == "auto"
        return measure_scale(encoder, similarity, sample, config.fixed_scale, is_auto, config.precision)

    return Preflight(
        **of_any_run(
            config,
            inputs.batches,
            encoder.device,
            lengths,
            precision=name_of(dtype),
            best_metric=evaluations.decides or None,
        ),
        parameters=describe_parameters(model),
        scale=first_says(scale),  # devices may round differently
        evaluated={name: task.spec for name, task in evaluations.tasks.items()},
        overlaps=first_says(lambda: evaluations.overlaps(data.sources, held_out_texts)),
        memory=_memory(config, model, dtype, data, lengths),
    )


def _masking(augmentation: Augmentation | None, encoder: Encoder, seed: int) -> Masking | None:
    if augmentation is None:
        return None
    from retrokit.augmentation.online import masking_of

    return masking_of(augmentation, encoder, seed)


def _check_before_loading(config: FinetuneConfig, data: TrainingSet) -> None:
    """Raise :class:`UsageError` for options that do not suit each other or the data, for any encoder."""
    if config.guide is not None:
        encoders.registry.check_is_there(config.guide)
    batch, mini_batch = config.batch_size, config.mini_batch
    if mini_batch is not None and mini_batch > batch:
        has_enough = any(batch * len(data[index].document_ids) >= mini_batch for index in range(len(data)))
        if not has_enough:
            problem = f"is more than the queries or the documents of a batch of {batch}"
            raise UsageError(f"`mini_batch=` {mini_batch} {problem}; give fewer, or leave it out")
    if config.sim != AUTO:
        _check_learns(config.sim_lr, similarities.registry.create(config.sim))


def _check_learns(rate: float | None, similarity: Similarity) -> None:
    """Raise :class:`UsageError` for a learning rate of a similarity that has no weights."""
    if rate is not None and not list(similarity.parameters()):
        raise UsageError(f"`sim_lr=`: {similarity.spec} has no weights to learn; leave it out")


def _check_start(config: FinetuneConfig, encoder: Encoder, model: SentenceTransformer, data: TrainingSet) -> None:
    """Raise :class:`UsageError` or :class:`DataError` for an encoder that the options or the data do not suit."""
    spec = encoder.spec
    check_max_length(config, encoder, "query", "document")
    if is_sharded() and is_quantized(model[0]):
        raise UsageError(f"{spec}: FSDP does not share quantised weights; start with torchrun")
    if config.mini_batch is not None and not hasattr(model[0], "auto_model"):
        raise UsageError(f"`mini_batch=`: {spec} has no activations worth caching; leave it out")
    with_images = [source.spec for source in data.sources if source.counts.get("images")]
    if with_images and not model.supports("image"):
        raise UsageError(f"{spec} takes no images; {', '.join(with_images)} contains images")
    check_weights(model, spec)


def _with_similarity(
    config: FinetuneConfig, encoder: Encoder, data: TrainingSet, dry_run: bool
) -> tuple[FinetuneConfig, dict[str, Any] | None]:
    """The options with the similarity that ``sim=auto`` means, and how it was chosen."""
    if config.sim != AUTO:
        return config, None
    chosen, chosen_by = _chosen_similarity(config, encoder, data, dry_run)
    _check_learns(config.sim_lr, similarities.registry.create(chosen))
    return replace(config, sim=chosen), chosen_by


def _chosen_similarity(
    config: FinetuneConfig, encoder: Encoder, data: TrainingSet, dry_run: bool
) -> tuple[str, dict[str, Any] | None]:
    """The similarity of ``sim=auto``, and how it was chosen; a resumed run keeps its own."""
    if dry_run:
        notice(f"`sim=` auto: training probes {PAIRS:,} pairs to choose; this plan is for {UNDECIDED}")
        return UNDECIDED, None
    folder = folder_of(config) if config.output is not None else None
    if folder is not None and folder.resumes:
        begun = folder.read()
        return begun.similarity, begun.similarity_chosen_by
    return first_says(lambda: choose_similarity(encoder, data, config.seed))


def _memory(
    config: FinetuneConfig, model: SentenceTransformer, dtype: torch.dtype, data: TrainingSet, lengths: dict[str, Any]
) -> dict[str, int] | None:
    """The memory of a step whose texts are all as long as the longest; ``None`` if it cannot be estimated."""
    transformer = getattr(model[0], "auto_model", None)
    if transformer is None or model.supports("image"):
        return None
    texts = config.batch_size * (1 + len(data[0].document_ids))
    if config.mini_batch is not None:
        texts = min(texts, config.mini_batch)
    tokens = max(min(role["percentiles"]["100"], role["limit"] or math.inf) for role in lengths.values())
    sizes = step_memory(transformer, dtype, texts, tokens, config.gradient_checkpointing)
    return {**sizes, "texts": texts, "tokens": tokens}


def choose_similarity(encoder: Encoder, data: TrainingSet, seed: int) -> tuple[str, dict[str, Any]]:
    """The similarity that a probe of the encoder, on a sample of the training pairs, predicts to train best (MAG 4.5),
    and the probe's results."""
    from retrokit.probing import fisher

    pairs = list(dict.fromkeys(zip(*texts_of(data, PAIRS, seed), strict=True)))
    probe = fisher.measure(encoder, pairs, "the training data", seed=seed)
    notice(f"`sim=` auto: {probe.prediction.choice}. {probe.verdict}. {probe.kappa}")
    return probe.prediction.choice, {"kappa": probe.kappa, **vars(probe.prediction)}


def _read_evaluations(config: FinetuneConfig, held_out: HeldOut | None, device: str | None) -> Evaluations:
    held_out_task = None if held_out is None else held_out.task()  # checked before a task loads models
    tasks = [evaluation.registry.create_on(spec, device) for spec in config.eval]
    by_name = dict(zip(task_names(config.eval), tasks, strict=True))
    if held_out_task is not None:
        by_name[HOLDOUT] = held_out_task
    evaluations = Evaluations.of(by_name, config.best_metric)
    if len(by_name) > 1 and config.best_metric is None:
        notice(f"{evaluations.decides} selects the weights; `best_metric=` names another metric")
    return evaluations


def _warn_of_contradictions(sources: Sequence[Source]) -> None:
    counts = {source.spec: source.counts.get("contradictions", 0) for source in sources}
    problems = [f"{spec}: {count:,} negatives are positives of their anchor" for spec, count in counts.items() if count]
    if problems:
        notice(f"{'; '.join(problems)} (see retrokit check)")


def _read_sources(config: FinetuneConfig, augmentation: Augmentation | None) -> list[Source]:
    if augmentation is not None:
        from retrokit.augmentation.online import usable_part

        return [usable_part(read_source(spec, config.kind), augmentation) for spec in config.data]
    sources = [read_source(spec, config.kind, images=config.kind != "scored") for spec in config.data]
    if config.is_taught:
        check_taught(sources)
    return _from_0_to_1(sources, config) if config.kind == "scored" else sources


def _from_0_to_1(sources: list[Source], config: FinetuneConfig) -> list[Source]:
    """Sources of scored pairs, their scores divided by the highest."""
    scores = [pair.score for pair in chain.from_iterable(map(_scored_pairs, sources))]
    highest = config.of_loss("max_score") or max(scores)
    if min(scores) < 0 or max(scores) > highest or highest <= 0:
        problem = f"scores run from {min(scores):g} to {max(scores):g}"
        raise DataError(", ".join(config.data), f"{problem}; expected 0 to {highest:g}")
    notice(f"scores are divided by {highest:g}, to run from 0 to 1")
    divided = []
    for source in sources:
        records = [replace(pair, score=pair.score / highest) for pair in _scored_pairs(source)]
        divided.append(replace(source, records=records))
    return divided


def _scored_pairs(source: Source) -> Iterator[ScoredPair]:
    return (record for record in source.records if isinstance(record, ScoredPair))


@taking(FinetuneConfig)
def finetune(config: FinetuneConfig) -> Outcome:
    """Plan and train, and leave a finished model folder; raises as :func:`plan` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan(config))
