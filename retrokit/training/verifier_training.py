"""``retrokit rerank train``: a verifier on token maps, with its encoder frozen or in training too (COMP, D.3).

A batch and everything random in a step are functions of the seed and the step's number, so a resumed run ends where an
uninterrupted one would.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from retrokit import encoders, reranking
from retrokit.data.pairs import Pair, Source, read_source
from retrokit.data.runs import TRAINING, Run
from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import train_tokens
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.encoders.precision import choose_precision
from retrokit.errors import DataError, Interrupted, UsageError
from retrokit.notices import Advance, notice, progress
from retrokit.reranking.maps import MapReranker, MapScorer, TokenBlock, pad_tokens, pair_maps
from retrokit.reranking.tokens import TokenCache
from retrokit.reranking.verifier import WEIGHTS_FILE, load_weights, save_weights, start_from
from retrokit.similarities.base import Role, length
from retrokit.training.batches import Batches, TrainingSet
from retrokit.training.checkpoints import TRAINED, check_state, intact, read_state
from retrokit.training.finetune import Outcome
from retrokit.training.interruption import interruptible
from retrokit.training.model import build, export, load_trainable_state, trainable_state
from retrokit.training.preflight import LENGTH_SAMPLE, measure_lengths, source_counts, texts_of
from retrokit.training.provenance import provenance
from retrokit.training.run_folder import RunFolder, saving, step_of
from retrokit.training.trainer import History
from retrokit.training.verifier_config import VerifierConfig
from retrokit.training.verifier_data import Candidates, RankedLists, draw_candidates, hold_out
from retrokit.training.verifier_loss import verifier_loss

TIMED_PAIRS = 100
TOKENS_FOLDER = "tokens"


@dataclass(frozen=True)
class VerifierPreflight:
    """The findings before the first step.

    Attributes:
        sources: per source: name, records, anchors, documents, duplicates, weight.
        held_out: examples that the verifier is measured on.
        lengths: per role: tokens at the 50th, 90th, 99th and 100th percentile, the limit, and the share cut at it.
        parameters: the verifier's, and those that are trained in all.
        microseconds_per_pair: of the verifier, from token embeddings to the score.
        steps: optimizer steps, and steps an epoch.
        configuration: every option, resolved.
    """

    sources: list[dict[str, Any]]
    held_out: int
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    microseconds_per_pair: float
    steps: dict[str, int]
    configuration: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class VerifierPlan:
    """All that a run needs, made before anything is written."""

    config: VerifierConfig
    encoder: Encoder
    trained_encoder: SentenceTransformer | None
    scorer: MapScorer
    batches: Batches
    lists: RankedLists
    metric: str
    preflight: VerifierPreflight
    identity: dict[str, Any]


def plan_verifier(config: VerifierConfig) -> VerifierPlan:
    """Read and check everything: data, encoder, verifier, options; measure lengths and speed.

    Raises:
        UsageError, DataError: whatever is wrong, before a step is made.
    """
    if config.output is not None:
        _folder(config).check(config.inputs())
    sources, dev, held_out = _read_data(config)
    data = TrainingSet(sources)
    batches = Batches(data, config.examples, config.seed)
    lists = RankedLists.of(held_out)
    if config.best_metric == "roc_auc" and not sum(lists.negatives):
        raise UsageError("--best-metric roc_auc: the examples held out have no negatives")
    # nDCG@10 is soon 1 where there are near-misses, and says nothing of a threshold for all anchors
    metric = config.best_metric or ("roc_auc" if sum(lists.negatives) else "ndcg@10")
    encoder: Encoder = encoders.registry.create(config.encoder, device=config.device)
    fingerprint = encoder.fingerprint()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        scorer: MapScorer = reranking.verifiers.create(config.verifier)
    if config.start is not None:
        start_from(scorer, config.verifier, config.start, encoder)
    if not config.end_to_end and not list(scorer.parameters()):
        raise UsageError(f"{config.verifier} learns nothing by itself: give --end-to-end to train its encoder")
    trained = build(encoder, "cosine")[0] if config.end_to_end else None
    scorer.to(encoder.device)
    preflight = _inspect(config, encoder, trained, scorer, batches, len(held_out))
    identity = {
        **config.identity(),
        "precision": encoder.computes_in(config.precision),
        "data_digests": [source.digest for source in sources],
        "dev_digests": [source.digest for source in dev],
        "encoder_fingerprint": fingerprint,
    }
    if config.start is not None:
        identity["start_digest"] = digest_of_weights(scorer.state_dict()).hexdigest()
    return VerifierPlan(config, encoder, trained, scorer, batches, lists, metric, preflight, identity)


def train_verifier(plan: VerifierPlan) -> Outcome:
    """Train as planned and leave a finished verifier's folder.

    Raises:
        Interrupted: stopped by the user; the state is kept for ``--resume``.
        UsageError: no output folder, or one that another run stands in or another command writes.
        DataError: a loss that is not finite.
    """
    folder = _folder(plan.config)
    with folder.locked(plan.config.inputs()):
        return _Training(plan, folder).run()


def _folder(config: VerifierConfig) -> RunFolder:
    if config.output is None:
        raise UsageError("give an output folder: -o runs/NAME")
    return RunFolder(config.output, config.overwrite, config.resume)


def _read_data(config: VerifierConfig) -> tuple[list[Source], list[Source], list[Pair]]:
    """What to train on, the sources of what is held out if there are any, and what is held out."""
    sources = [read_source(spec, "pairs") for spec in config.data]
    if config.dev:
        dev = [read_source(spec, "pairs") for spec in config.dev]
        return sources, dev, [record for source in dev for record in _pairs(source)]
    parts = [hold_out(source) for source in sources]
    return [source for source, _ in parts], [], [record for _, records in parts for record in records]


def _pairs(source: Source) -> Iterator[Pair]:
    for record in source.records:
        assert isinstance(record, Pair)
        yield record


def _inspect(
    config: VerifierConfig,
    encoder: Encoder,
    trained: SentenceTransformer | None,
    scorer: MapScorer,
    batches: Batches,
    held_out: int,
) -> VerifierPreflight:
    queries, documents = texts_of(batches.data, LENGTH_SAMPLE, config.seed)
    learned = sum(value.numel() for value in scorer.parameters())
    of_encoder = sum(value.numel() for value in trained.parameters()) if trained is not None else 0
    return VerifierPreflight(
        [source_counts(source) for source in batches.data.sources],
        held_out,
        {
            "query": measure_lengths(encoder, queries, "query", None),
            "document": measure_lengths(encoder, documents, "document", None),
        },
        {"verifier": learned, "trainable": learned + of_encoder},
        round(1e6 * seconds_per_pair(encoder, scorer, queries, documents), 1),
        {"per_epoch": len(batches), "total": config.steps or math.ceil((config.epochs or 1) * len(batches))},
        {**config.to_json(), "batch_size": config.examples, "device": encoder.device.type},
    )


@torch.inference_mode()
def seconds_per_pair(encoder: Encoder, scorer: MapScorer, queries: list[str], documents: list[str]) -> float:
    """Measured seconds in which a verifier turns the token embeddings of a pair into its score."""
    texts = documents[:TIMED_PAIRS]
    reranker = MapReranker("", encoder, scorer)
    query, block = reranker.tokens(queries[:1], "query"), reranker.tokens(texts, "document")
    rows, columns = np.zeros(len(texts), dtype=np.int64), np.arange(len(texts))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        reranker.score_blocks(query, block, rows, columns)
        times.append(time.perf_counter() - began)
    return min(times) / len(texts)


class _Training:
    """One run, from its first or next step to its folder."""

    def __init__(self, plan: VerifierPlan, folder: RunFolder) -> None:
        self.plan = plan
        self.config = plan.config
        self.folder = folder
        self.scorer = plan.scorer
        self.steps = plan.preflight.steps["total"]
        self.per_epoch = plan.preflight.steps["per_epoch"]
        self.history = History(folder.metrics, [], plan.metric, writes=True)
        self.precision = choose_precision(self.config.precision, plan.encoder.device)
        self.began = time.perf_counter()
        self.stopped_because: str | None = None
        self.description = self._description()
        self.optimizer = self._optimizer()
        self.cache: TokenCache | None = None

    def run(self) -> Outcome:
        first = self._open()
        if not self.config.end_to_end:
            place = self.config.cache or str(self.folder.path / TOKENS_FOLDER)
            self.cache = TokenCache(place, self.plan.encoder.with_tokens(), self.config.precision)
            self._encode_all()
        step = self._train(first)
        return self._finish(step)

    # --- the loop

    def _train(self, first: int) -> int:
        eval_every = self.config.eval_every or max(1, self.steps // 10)
        stopped = first
        if first == 0:
            self._evaluate(0)
        with progress("training", self.steps, "steps") as advance, interruptible() as stop:
            if first:
                notice(f"resuming at step {first} of {self.steps}")
                advance(first)
            window: list[float] = []
            for step, rows in self._batches(first):
                loss, norm = self._step(step, rows)
                window.append(loss)
                stopped = step
                advance(1)
                last = step == self.steps
                if step % self.config.log_every == 0 or last or stop.is_set():
                    self._log(step, float(np.mean(window)), norm, advance)
                    window = []
                if step % eval_every == 0 or last:
                    if window:  # a checkpoint ends a logging window, so that a resumed run logs the same windows
                        self._log(step, float(np.mean(window)), norm, advance)
                        window = []
                    self._evaluate(step)
                    self._save(step)
                    if self._patience_is_over():
                        break
                if stop.is_set() and not last:
                    self._interrupt(step, stop)
        return stopped

    def _interrupt(self, step: int, stop: Event) -> None:
        self._save(step)
        raise Interrupted(
            f"stopped at step {step} of {self.steps}; the state is kept in {self.folder.checkpoints}", "resume"
        )

    def _patience_is_over(self) -> bool:
        patience = self.config.patience
        if patience is None or self.history.evaluations_since_best() < patience:
            return False
        self.stopped_because = f"no better for {patience} evaluations"
        return True

    def _batches(self, first: int) -> Iterator[tuple[int, list[int]]]:
        """The steps after ``first``, counted from 1, each with the positions of its examples."""
        step = first
        while step < self.steps:
            epoch, done = divmod(step, self.per_epoch)
            self.plan.batches.set_epoch(epoch)
            for rows in list(self.plan.batches)[done:]:
                if step >= self.steps:
                    return
                step += 1
                yield step, rows

    def _step(self, step: int, rows: list[int]) -> tuple[float, float]:
        """One optimizer step: its loss, and the norm of its gradient before clipping."""
        config, data = self.config, self.plan.batches.data
        random = np.random.default_rng([config.seed, step])
        candidates = draw_candidates([data[row] for row in rows], data.positives, config.in_batch, random)
        devices = [self.plan.encoder.device] if self.plan.encoder.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(random.integers(2**62)))
            self._mode(training=True)
            scores = self._scores(candidates)
            own = candidates.own.to(scores.device)
            loss = verifier_loss(scores, own, self.scorer.learns_logits)
            loss.backward()
        parameters = [value for group in self.optimizer.param_groups for value in group["params"]]
        norm = float(nn.utils.clip_grad_norm_(parameters, config.max_grad_norm))
        value = loss.item()
        if not math.isfinite(value) or not math.isfinite(norm):
            raise DataError(self.folder.target, f"the loss is {value} at step {step}; lower --lr")
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest"] * self._share_of_rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return value, norm

    def _scores(self, candidates: Candidates) -> Tensor:
        """Scores of each anchor's candidates, float32 ``[n, k]``, −∞ in padding."""
        queries = self._tokens(candidates.anchors, "query")
        documents = self._tokens(candidates.documents, "document")
        columns = candidates.columns.to(queries.mask.device)
        rows, places = torch.nonzero(columns >= 0, as_tuple=True)
        taken = columns[rows, places]
        query = TokenBlock(queries.tokens[rows], queries.mask[rows])
        document = TokenBlock(documents.tokens[taken], documents.mask[taken])
        found = self.scorer(pair_maps(query, document), query.mask, document.mask)
        scores = found.new_full(columns.shape, -torch.inf)
        return scores.index_put((rows, places), found)

    def _tokens(self, texts: list[str], role: Role) -> TokenBlock:
        """Unit token embeddings: kept ones, or such that carry gradients."""
        encoder = self.plan.encoder
        if self.cache is not None:
            return pad_tokens(self.cache.tokens(texts, role), encoder.device)
        with self._autocast():
            tokens, mask = train_tokens(encoder.to_train().model, texts, role, encoder.prompts[role])
        return TokenBlock(tokens / length(tokens), mask)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.plan.encoder.device.type, self.precision)

    def _mode(self, training: bool) -> None:
        self.scorer.train(training)
        if self.config.end_to_end:
            self.plan.encoder.to_train().model.train(training)

    def _share_of_rate(self, step: int) -> float:
        """Linear warm-up, then linear decay to 0, counted so that the first and the last step move something."""
        warmup = self.config.warmup if self.config.warmup >= 1 else self.config.warmup * self.steps
        if step <= warmup:
            return step / max(1.0, math.ceil(warmup))
        return (self.steps - step + 1) / max(1.0, self.steps - math.floor(warmup))

    def _optimizer(self) -> torch.optim.AdamW:
        groups = []
        parts = [(self.scorer, self.config.lr)]
        if self.plan.trained_encoder is not None:
            parts.append((self.plan.trained_encoder, self.config.encoder_lr))
        for module, rate in parts:
            named = [(name, value) for name, value in module.named_parameters() if value.requires_grad]
            plain = [value for name, value in named if value.ndim < 2]
            decayed = [value for name, value in named if value.ndim >= 2]
            for values, decay in ((decayed, self.config.weight_decay), (plain, 0.0)):
                if values:
                    groups.append({"params": values, "weight_decay": decay, "lr": rate, "highest": rate})
        return torch.optim.AdamW(groups)

    # --- what is written down

    def _log(self, step: int, loss: float, norm: float, advance: Advance) -> None:
        advance(0, f"loss {loss:.4g}")
        rate = self.config.lr * self._share_of_rate(step)
        seconds = round(time.perf_counter() - self.began, 3)
        row = {"step": step, "epoch": round(step / self.per_epoch, 6), "loss": loss, "grad_norm": norm, "lr": rate}
        self.history.add({**row, "seconds": seconds})

    def _evaluate(self, step: int) -> None:
        """Measure on the examples held out."""
        lists = self.plan.lists
        self._mode(training=False)
        reranker = MapReranker("", self.plan.encoder, self.scorer, self.config.precision)
        reranker.cache = self.cache
        scores = reranker.score_pairs(lists.queries, lists.documents)
        seconds = round(time.perf_counter() - self.began, 3)
        self.history.add({"step": step, "evaluation": lists.metrics(scores), "seconds": seconds})

    def _encode_all(self) -> None:
        """Make the token embeddings of all texts, those that are not kept already."""
        assert self.cache is not None
        anchors: dict[str, None] = dict.fromkeys(self.plan.lists.queries)
        documents: dict[str, None] = dict.fromkeys(self.plan.lists.documents)
        for source in self.plan.batches.data.sources:
            for record in _pairs(source):
                anchors[record.anchor] = None
                documents.update(dict.fromkeys([record.positive, *record.negatives]))
        self.cache.tokens(list(anchors), "query")
        self.cache.tokens(list(documents), "document")

    def _description(self) -> Run:
        plan = self.plan
        verifier = str(reranking.verifiers.parse(self.config.verifier))
        notes = {
            "configuration": plan.preflight.configuration,
            "parameters": plan.preflight.parameters,
            "microseconds_per_pair": plan.preflight.microseconds_per_pair,
            "data": plan.preflight.sources,
            "held_out": plan.preflight.held_out,
            **provenance(),
        }
        return Run(TRAINING, "cosine", self.config.encoder, plan.identity, verifier=verifier, notes=notes)

    def _open(self) -> int:
        """Make the folder new, or find the step to go on from in it, and put back what was trained until then."""
        if not self.folder.goes_on:
            self.folder.begin(self.description)
            return 0
        self.folder.check_same(self.plan.identity)
        checkpoint = self.folder.last_checkpoint()
        step = step_of(checkpoint) if checkpoint is not None else -1
        if checkpoint is not None:
            trained = [TRAINED] if self.plan.trained_encoder is not None else []
            check_state(checkpoint, [WEIGHTS_FILE, "optimizer.pt", *trained], step)
        self.history.rows = self.folder.truncate_metrics(step)
        if checkpoint is None:
            return 0
        self._load(checkpoint)
        path = checkpoint / "optimizer.pt"
        with intact(path):
            self.optimizer.load_state_dict(read_state(path))
        return step

    def _save(self, step: int) -> None:
        """A checkpoint; only the last ones and the best are kept."""
        path = self.folder.checkpoints / f"checkpoint-{step}"
        with saving(path):
            path.mkdir(parents=True, exist_ok=True)
            save_weights(self.scorer, path)
            torch.save(self.optimizer.state_dict(), path / "optimizer.pt")
            if self.plan.trained_encoder is not None:
                torch.save(trainable_state(self.plan.trained_encoder), path / TRAINED)
            best = self.history.best
            self.folder.complete_checkpoint(path, best[0] if best else None, self.config.keep_checkpoints)

    def _load(self, checkpoint: Path) -> None:
        load_weights(self.scorer, checkpoint)
        if self.plan.trained_encoder is not None:
            path = checkpoint / TRAINED
            with intact(path):
                load_trainable_state(self.plan.trained_encoder, read_state(path))

    def _finish(self, step: int) -> Outcome:
        """Keep the best weights, and move them into place."""
        best = self.history.best
        assert best is not None
        if best[0] != step:
            self._load(self.folder.checkpoints / f"checkpoint-{best[0]}")
        outcome = Outcome.of(self.folder, step, self.stopped_because, None, self.history)
        staged = self.folder.path / ".staged"
        with saving(self.folder.target):
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir()
            self._mode(training=False)
            if self.plan.trained_encoder is not None:
                export(self.plan.trained_encoder, staged)
            made_for = {
                "encoder": self.config.encoder,
                "fingerprint": self._fingerprint_of(staged),
                "in_folder": self.config.end_to_end,
            }
            save_weights(self.scorer, staged)
            self.folder.finish(staged, replace(self.description, outcome=outcome.to_json(), made_for=made_for))
            shutil.rmtree(self.folder.path / TOKENS_FOLDER, ignore_errors=True)
        return outcome

    def _fingerprint_of(self, staged: Path) -> str:
        """The fingerprint of the encoder as whoever loads the verifier will have it."""
        if not self.config.end_to_end:
            return self.plan.identity["encoder_fingerprint"]
        return encoders.registry.create(f'model:"{staged}"', device=self.config.device).fingerprint()
