"""``retrokit finetune``: from a configuration to a finished run folder."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from retrokit import encoders, evaluation
from retrokit.augmentation.online import Augmentation, Masking, combined, masking_of, usable_part
from retrokit.data.pairs import ScoredPair, Source, read_source
from retrokit.data.pairs import registry as training_data
from retrokit.data.runs import TRAINING, Run
from retrokit.encoders.base import Encoder
from retrokit.encoders.precision import choose_precision
from retrokit.errors import DataError, Interrupted, UsageError
from retrokit.evaluation.task import Task
from retrokit.notices import notice, progress
from retrokit.similarities.base import Similarity
from retrokit.training.batches import Batches, Collator, TrainingSet
from retrokit.training.card import model_card
from retrokit.training.checkpoints import check_state, state_files
from retrokit.training.config import AUTO, FinetuneConfig, differences
from retrokit.training.interruption import interruptible
from retrokit.training.loss import InfoNCE, PreparedLoss, ScoredMSE
from retrokit.training.model import (
    build,
    check_weights,
    default_rate,
    describe_parameters,
    export,
    freeze_unused,
    has_dropout,
)
from retrokit.training.preflight import (
    LENGTH_SAMPLE,
    SCALE_SAMPLE,
    Preflight,
    measure_lengths,
    measure_scale,
    source_counts,
    texts_of,
)
from retrokit.training.processes import (
    all_say,
    ends_all,
    first_says,
    is_first,
    join,
    leave,
    own_device,
    place,
    shared_stdin,
)
from retrokit.training.provenance import provenance
from retrokit.training.run_folder import RunFolder, saving, step_of
from retrokit.training.similarity_choice import choose_similarity
from retrokit.training.trainer import Conduct, FinetuneTrainer, History, Options, seconds_per_step

FEW_STEPS = 30
"""Steps of a time budget below which a run is unlikely to gain anything, warm-up and decay included."""


@dataclass(frozen=True)
class Plan:
    """All that a run needs, made before anything is written; ``chosen_by`` is what ``--sim auto`` found, if it was
    asked for."""

    config: FinetuneConfig
    encoder: Encoder
    model: SentenceTransformer
    similarity: Similarity
    data: TrainingSet
    batches: Batches
    masking: Masking | None
    task: Task | None
    metric: str
    preflight: Preflight
    identity: dict[str, Any]
    chosen_by: dict[str, Any] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a finished run yields.

    Attributes:
        folder: the run folder.
        steps: optimizer steps made.
        stopped_because: why before the planned end, if so.
        best_step: the step whose weights were kept (with ``--eval``).
        converged_at: first step that meets MAG's criterion (C.1), if any.
        evaluations: the history's evaluations.
        losses: step and mean loss of the first and of the last steps that were logged.
        baseline: similarity and metrics of the encoder as it came, under its own similarity, if that is another one.
        gain: of the metric that decides, over the start: the encoder as it came, under its own similarity.
    """

    folder: str
    steps: int
    stopped_because: str | None
    best_step: int | None
    converged_at: int | None
    evaluations: list[dict[str, Any]]
    losses: list[dict[str, float]]
    baseline: dict[str, Any] | None = None
    gain: float | None = None

    @classmethod
    def of(
        cls, folder: RunFolder, steps: int, stopped_because: str | None, converged_at: int | None, history: History
    ) -> Outcome:
        """What ``history`` says of a run."""
        best = history.best
        logged = [{"step": row["step"], "loss": row["loss"]} for row in history.rows if "loss" in row]
        return cls(
            str(folder.target),
            steps,
            stopped_because,
            best[0] if best else None,
            converged_at,
            [row for row in history.rows if "evaluation" in row],
            logged[:1] + logged[1:][-1:],
            history.baseline,
            history.gain,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return dict(vars(self))


def plan(config: FinetuneConfig) -> Plan:
    """Read and check everything: data, encoder, task, options; measure lengths and the starting scale.

    Raises:
        UsageError, DataError: whatever is wrong, before a step is made; in any of several processes.
    """
    join()
    return _plan(config)


@ends_all
def _plan(config: FinetuneConfig) -> Plan:
    rank, world = place()
    device = own_device(config.device)
    if config.output is not None and rank == 0:  # the others would see what the first one has begun to write
        _folder(config).check(config.inputs())
    task = evaluation.registry.create_on(config.eval, device) if config.eval else None
    metric = config.best_metric or (task.main_metric if task else "")
    if task:
        task.check_metrics([metric])
    augmentation = combined(config.augment) if config.augment else None
    with shared_stdin() if world > 1 and any(map(_is_stdin, config.data)) else nullcontext():
        sources = _read_sources(config, augmentation)
    data = TrainingSet(sources, augmentation, config.seed)
    batches = Batches(data, config.batch_size, config.seed, rank, world)
    encoder: Encoder = encoders.registry.create(config.encoder, device=device)
    if config.mini_batch is not None and not hasattr(encoder.to_train().model[0], "auto_model"):
        raise UsageError(f"--mini-batch: {encoder.spec} has no activations worth caching; leave it out")
    check_weights(encoder.to_train().model, encoder.spec)
    fingerprint = encoder.fingerprint()
    if config.lr is None:
        config = replace(config, lr=default_rate(encoder.to_train().model))
    config, chosen_by = _resolved(config, encoder, data)
    model, similarity = build(
        encoder,
        config.sim,
        config.matryoshka,
        config.freeze,
        config.lora,
        config.dropout,
        config.seed,
    )
    encoder.use_with(similarity)
    if augmentation is not None and augmentation.needs_dropout and not has_dropout(model):
        raise UsageError(f"--augment {augmentation.spec}: {encoder.spec} has no dropout; give --dropout 0.1")
    masking = masking_of(augmentation, encoder, config.seed) if augmentation is not None else None
    _speak(config, similarity, sources)
    freeze_unused(model, texts_of(data, 1, config.seed)[1])
    if config.sim_lr is not None and not list(similarity.parameters()):
        raise UsageError(f"--sim-lr: {config.sim} learns nothing by itself")
    preflight = _inspect(config, encoder, model, similarity, batches)
    identity = {
        **config.identity(),
        "precision": encoder.computes_in(config.precision),
        "data_digests": [source.digest for source in sources],
        "encoder_fingerprint": fingerprint,
        "processes": world,
    }
    _compare(identity)
    return Plan(
        config, encoder, model, similarity, data, batches, masking, task, metric, preflight, identity, chosen_by
    )


def _is_stdin(spec: str) -> bool:
    return dict(training_data.parse(spec).params).get("path") == "-"


def _compare(identity: dict[str, Any]) -> None:
    """Raise :class:`UsageError` unless all processes are about to do the same."""
    first, *others = all_say(identity)
    for rank, other in enumerate(others, start=1):
        if different := differences(first, other, "in the first process", f"in process {rank}"):
            raise UsageError(f"the processes differ: {'; '.join(different)}")


def _resolved(
    config: FinetuneConfig, encoder: Encoder, data: TrainingSet
) -> tuple[FinetuneConfig, dict[str, Any] | None]:
    """The configuration with the similarity that ``auto`` stands for, and the findings that chose it.

    A run that goes on keeps what it has chosen.
    """
    if config.sim != AUTO:
        return config, None
    folder = _folder(config) if config.output is not None else None
    if folder is not None and folder.goes_on:
        before = folder.read()
        return replace(config, sim=before.similarity), before.similarity_chosen_by
    chosen, findings = first_says(lambda: choose_similarity(encoder, data, config.seed))
    return replace(config, sim=chosen), findings


@ends_all
def run(plan: Plan) -> Outcome:
    """Train as planned and leave a finished run folder.

    Raises:
        Interrupted: stopped by the user; the state is kept for ``--resume``.
        UsageError: no output folder, or one that another run stands in or another command writes.
    """
    folder = first_says(lambda: _folder(plan.config))
    first = is_first()
    with folder.locked(plan.config.inputs()) if first else nullcontext():  # by the first process for all
        return _run(plan, folder, first)


def _folder(config: FinetuneConfig) -> RunFolder:
    if config.output is None:
        raise UsageError("give an output folder: -o runs/NAME")
    return RunFolder(config.output, config.overwrite, config.resume)


def _run(plan: Plan, folder: RunFolder, first: bool) -> Outcome:
    description = _description(plan)
    history = History(folder.metrics, [], plan.metric, writes=first)
    trainer = _trainer(plan, folder, history, description)
    # The first process alone looks into the folder and changes it; the others go by what it found.
    start = first_says(lambda: _open(plan, folder, description))
    history.rows = list(start.rows)
    steps = start.steps or _steps(plan, trainer)
    description = trainer.description = replace(description, steps=steps)
    if first:
        folder.describe(description)
    conduct = _train(plan, trainer, steps, start.checkpoint, start.resumed)
    if conduct.stopped_because == "interrupted":
        raise Interrupted(
            f"stopped at step {trainer.state.global_step} of {steps}; the state is kept in {folder.checkpoints}",
            "resume",
        )
    trainer.settle()
    best = history.best[0] if history.best else None
    if first and best is not None and best != trainer.state.global_step:
        trainer.load_weights(folder.checkpoints / f"checkpoint-{best}")
    outcome = Outcome.of(folder, trainer.state.global_step, conduct.stopped_because, history.converged_at(), history)
    if first:
        _finish(plan, trainer, folder, history, description, outcome)
    leave()
    return outcome


@dataclass(frozen=True)
class _Start:
    """Where a run starts: from scratch, or from a checkpoint with the steps planned and the history written then."""

    resumed: bool
    checkpoint: Path | None = None
    steps: int | None = None
    rows: tuple[dict[str, Any], ...] = ()


def _open(plan: Plan, folder: RunFolder, description: Run) -> _Start:
    """Make the folder new, or find where to go on in it."""
    if not folder.goes_on:
        folder.begin(description)
        return _Start(resumed=False)
    described = folder.check_same(plan.identity)
    checkpoint = folder.last_checkpoint()
    if checkpoint is not None:
        scaled = _training_precision(plan.config, plan.encoder.device) == torch.float16
        check_state(checkpoint, state_files(plan.batches.world, scaled), step_of(checkpoint))
    rows = folder.truncate_metrics(step_of(checkpoint) if checkpoint else -1)
    return _Start(True, checkpoint, described.steps, tuple(rows))


def finetune(config: FinetuneConfig) -> Outcome:
    """Plan and run."""
    return run(plan(config))


def _read_sources(config: FinetuneConfig, augmentation: Augmentation | None) -> list[Source]:
    if augmentation is not None:
        return [usable_part(read_source(spec, "texts"), augmentation) for spec in config.data]
    if config.loss == "infonce":
        return [read_source(spec, "pairs") for spec in config.data]
    sources = [read_source(spec, "scored") for spec in config.data]
    scores = [record.score for source in sources for record in source.records if isinstance(record, ScoredPair)]
    highest = config.max_score or max(scores)
    if min(scores) < 0 or max(scores) > highest or highest <= 0:
        found = f"scores run from {min(scores):g} to {max(scores):g}"
        raise DataError(", ".join(config.data), f"{found}; expected 0 to {highest:g}")
    notice(f"scores are divided by {highest:g}, so that they run from 0 to 1")
    return [
        replace(
            source,
            records=[
                ScoredPair(record.sentence1, record.sentence2, record.score / highest)
                for record in source.records
                if isinstance(record, ScoredPair)
            ],
        )
        for source in sources
    ]


def _speak(config: FinetuneConfig, similarity: Similarity, sources: list[Source]) -> None:
    """Say what is allowed and will surprise."""
    if config.scale == "auto" and similarity.multiple_of:
        other = similarity.multiple_of
        notice(f"{similarity.spec} is {other} divided by a number: with --scale auto it trains exactly as {other} does")
    if config.loss == "mse" and not similarity.symmetric:
        notice(
            f"{similarity.spec} is not symmetric, and scored pairs are: it will do badly, "
            "because the longer vector of a pair decides its score (MAG, Proposition 2.1)"
        )
    for source in sources:
        if source.query_prompt or source.document_prompt:
            notice(
                f"{source.name}: its prompts are used in training only; give them to the run to evaluate with them: "
                f"RUN,query_prompt=TEXT"
            )


def _inspect(
    config: FinetuneConfig,
    encoder: Encoder,
    model: SentenceTransformer,
    similarity: Similarity,
    batches: Batches,
) -> Preflight:
    data = batches.data
    queries, documents = texts_of(data, LENGTH_SAMPLE, config.seed)
    lengths = {
        "query": measure_lengths(encoder, queries, "query", config.max_length),
        "document": measure_lengths(encoder, documents, "document", config.max_length),
    }
    sample = texts_of(data, SCALE_SAMPLE, config.seed)
    # one number for all processes, whose devices may round differently
    scale = first_says(lambda: measure_scale(encoder, similarity, sample, config.fixed_scale, config.scale == "auto"))
    per_epoch = len(batches)
    steps: dict[str, float] = {"per_epoch": per_epoch}
    if config.time_budget is not None:
        steps["time_budget"] = config.time_budget
    else:
        steps["total"] = config.steps or math.ceil((config.epochs or 1) * per_epoch)
    precision = str(_training_precision(config, encoder.device)).removeprefix("torch.")
    return Preflight(
        [source_counts(source) for source in data.sources],
        lengths,
        describe_parameters(model),
        scale,
        steps,
        {**config.to_json(), "precision": precision, "device": encoder.device.type, "processes": batches.world},
    )


def _training_precision(config: FinetuneConfig, device: torch.device) -> torch.dtype:
    precision = choose_precision(config.precision, device)
    if precision == torch.float16 and device.type == "cpu":
        raise UsageError("--precision fp16 needs a GPU: its gradients must be scaled there; bf16 and fp32 work here")
    return precision


def _description(plan: Plan) -> Run:
    notes = {
        "configuration": plan.preflight.configuration,
        "scale": plan.preflight.scale,
        "data": plan.preflight.sources,
        **provenance(),
    }
    chosen_by = plan.chosen_by
    return Run(
        TRAINING, plan.similarity.spec, plan.config.encoder, plan.identity, similarity_chosen_by=chosen_by, notes=notes
    )


def _trainer(plan: Plan, folder: RunFolder, history: History, description: Run) -> FinetuneTrainer:
    config = plan.config
    assert config.lr is not None  # a plan has one
    precision = _training_precision(config, plan.encoder.device)
    learned = {r"\.similarity\.": config.sim_lr} if config.sim_lr is not None else {}
    args = Options(
        computes_on=str(plan.encoder.device),
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=config.batch_size,
        max_steps=1,
        learning_rate=config.lr,
        learning_rate_mapping=learned,
        weight_decay=config.weight_decay,
        warmup_steps=config.warmup,
        lr_scheduler_type="constant_with_warmup" if config.schedule == "constant" else config.schedule,
        max_grad_norm=config.max_grad_norm,
        adam_beta1=config.adam_betas[0],
        adam_beta2=config.adam_betas[1],
        bf16=precision == torch.bfloat16,
        fp16=precision == torch.float16,
        seed=config.seed,
        use_cpu=plan.encoder.device.type == "cpu",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # a loss that is no number is to be seen
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
    )
    collator = Collator(plan.model.preprocess, plan.data.sources, plan.encoder.prompts, config.max_length, plan.masking)
    return FinetuneTrainer(
        plan.model,
        args,
        _loss(plan),
        plan.data,
        plan.batches,
        collator,
        folder,
        plan.task,
        history,
        plan.encoder.spec,
        config.keep_checkpoints,
        description,
    )


def _loss(plan: Plan) -> PreparedLoss:
    config, scale = plan.config, plan.preflight.scale["scale"]
    prefixes = list(plan.model)[-1].prefixes
    sizes = [torch.ones(1, size, device=plan.model.device) for size in prefixes or []]
    widths = [plan.similarity.prepare(one, "query").shape[-1] for one in sizes] or None
    if config.loss == "mse":
        return ScoredMSE(plan.model, plan.similarity, scale, config.mini_batch, widths)
    return InfoNCE(
        plan.model,
        plan.similarity,
        scale,
        positives=plan.data.positives,
        directions=config.directions,
        mini_batch=config.mini_batch,
        widths=widths,
    )


def _steps(plan: Plan, trainer: FinetuneTrainer) -> int:
    """Planned optimizer steps; under a time budget as many as fit by measured speed (COMP, D.3)."""
    budget = plan.config.time_budget
    if budget is None:
        return int(plan.preflight.steps["total"])
    seconds = seconds_per_step(trainer)
    steps = max(1, int(budget / seconds))
    notice(f"a step takes {seconds:.2f} s: {steps} steps fit into {budget:g} s")
    if steps < FEW_STEPS:
        notice(
            f"{steps} steps are too few to learn much, and can make an encoder worse: a longer --time-budget gives "
            "more, as do a smaller --batch-size and --max-length"
        )
    return steps


def _train(plan: Plan, trainer: FinetuneTrainer, steps: int, checkpoint: Path | None, resumed: bool) -> Conduct:
    config = plan.config
    trainer.args.max_steps = steps
    eval_every = (config.eval_every or steps) if plan.task else None
    save_every = config.save_every or config.eval_every or max(50, steps // 10)
    with progress("training", steps, "steps") as advance, interruptible() as stop:
        conduct = Conduct(
            trainer,
            log_every=config.log_every,
            eval_every=eval_every,
            save_every=save_every,
            patience=config.patience,
            # A resumed run goes to the planned end: its result is that of an uninterrupted one.
            time_budget=None if resumed else config.time_budget,
            advance=advance,
            stop=stop,
        )
        trainer.add_callback(conduct)
        if checkpoint is None and plan.task is not None:
            own = plan.encoder.similarity
            trainer.start_similarity = own if own.spec != plan.similarity.spec else None
            trainer.evaluate()
            trainer.start_similarity = None
        if checkpoint is not None:
            advance(step_of(checkpoint))
            notice(f"resuming at step {step_of(checkpoint)} of {steps}")
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return conduct


def _finish(
    plan: Plan,
    trainer: FinetuneTrainer,
    folder: RunFolder,
    history: History,
    description: Run,
    outcome: Outcome,
) -> None:
    check_weights(trainer.model, folder.target)
    staged = folder.path / ".staged"
    with saving(folder.target):
        staged.mkdir(exist_ok=True)
        export(trainer.model, staged)
        facts = {"steps made": outcome.steps, "best step": outcome.best_step, "converged at step": outcome.converged_at}
        shown = {key: value for key, value in facts.items() if value is not None}
        card = model_card(folder.target.name, plan.similarity, plan.preflight, history.rows, shown)
        (staged / "README.md").write_text(card, encoding="utf-8")
        folder.finish(staged, replace(description, outcome=outcome.to_json()))
