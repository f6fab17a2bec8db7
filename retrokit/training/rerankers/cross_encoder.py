"""Training of a cross-encoder, or of a decoder that answers yes or no, on the trainer of every run, by the losses of
sentence-transformers.

``binary`` separates positives from negatives of all anchors, so that one threshold can serve all. ``lambda``
(LambdaLoss, NDCG-Loss2++: Wang et al., CIKM 2018) and ``ranknet`` order each anchor's documents. Against a teacher,
``kl`` is ListNet's cross-entropy with the softmax of the teacher's scores, ``margin-mse`` compares distances to the
positive (Hofstätter et al., 2020), and ``mse`` the scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import losses
from sentence_transformers.cross_encoder.data_collator import CrossEncoderDataCollator
from torch import Tensor, nn

from retrokit.data.training_rows import Pair, texts_of_record
from retrokit.encoders.engine import ranges_of_tokens, tokens_at_once
from retrokit.encoders.precision import name_of
from retrokit.encoders.saving import save_model
from retrokit.ranking import reranking
from retrokit.ranking.reranking.library import CrossEncoderReranker
from retrokit.training.batches import Example
from retrokit.training.card import data_section, options_section, results_section
from retrokit.training.history import Outcome
from retrokit.training.model import check_weights, forget_where_it_came_from, merged
from retrokit.training.preflight import LENGTH_SAMPLE, describe_lengths, texts_of
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.job import Material, RerankerJob, RerankerTrainer, VerifierPreflight
from retrokit.training.run import training_precision
from retrokit.training.trainer import Options, RunTrainer

CPU_TOKENS = 1024  # padded tokens of a part; small parts need little padding

Scored = tuple[str, list[str], list[float]]
"""An anchor, its documents, the positive first, and their labels."""


def pairs(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """A row a pair, for the library's pointwise losses."""
    rows: list[dict[str, Any]] = []
    for anchor, documents, labels in scored:
        for document, label in zip(documents, labels, strict=True):
            rows.append({"query": anchor, "document": document, "label": label})
    return rows


def lists(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """A row an anchor, for its listwise losses."""
    return [{"query": anchor, "documents": documents, "label": labels} for anchor, documents, labels in scored]


def tuples(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """A row an anchor with a column a document, for MarginMSELoss; a row a negative if their numbers differ."""
    is_even = len({len(documents) for _, documents, _ in scored}) <= 1
    rows: list[dict[str, Any]] = []
    for anchor, documents, labels in scored:
        if is_even:
            columns = {str(index): document for index, document in enumerate(documents)}
            rows.append({"query": anchor, **columns, "label": labels})
            continue
        for document, label in zip(documents[1:], labels[1:], strict=True):
            rows.append({"query": anchor, "0": documents[0], "1": document, "label": [labels[0], label]})
    return rows


@dataclass(frozen=True)
class Loss:
    """A loss of the library, its rows, and the activation from logit to score."""

    kind: Callable[..., nn.Module]
    rows: Callable[[Sequence[Scored]], list[dict[str, Any]]]
    activation: type[nn.Module] = nn.Identity


LOSSES = {
    "binary": Loss(losses.BinaryCrossEntropyLoss, pairs, nn.Sigmoid),
    "lambda": Loss(losses.LambdaLoss, lists),
    "ranknet": Loss(losses.RankNetLoss, lists),
    "kl": Loss(losses.ListNetLoss, lists),
    "margin-mse": Loss(losses.MarginMSELoss, tuples),
    "mse": Loss(losses.MSELoss, pairs),
}


class CrossEncoderRun(RerankerTrainer):
    """Trains a cross-encoder; ``weight`` is that of a positive under ``binary``, against a negative's 1."""

    def __init__(self, reranker: CrossEncoderReranker, *shared: Any, weight: float, **options: Any) -> None:
        model: CrossEncoder = reranker.model
        super().__init__(model, *shared, **options)
        self.reranker, self.cross_encoder = reranker, model
        loss = LOSSES[str(self.config.loss)]
        loss_options = {"pos_weight": torch.tensor(weight)} if self.config.loss == "binary" else {}
        self.loss = loss.kind(model, **loss_options).to(self.args.device)
        self.rows = loss.rows
        self.collate = CrossEncoderDataCollator(preprocess_fn=model.preprocess)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The library's loss of a batch."""
        columns = self.on_device(self.collate(self.rows(self.scored(inputs["batch"].examples))))
        labels = columns.pop("label")
        self.loss.model = _InParts(model, self.cross_encoder)
        loss: Tensor = self.loss(list(columns.values()), labels)
        return loss

    def scored(self, examples: Sequence[Example]) -> list[Scored]:
        """The examples' own documents with a teacher's scores, or with drawn ones."""
        scored: list[Scored] = []
        if self.config.is_taught:
            temperature = self.config.teacher_temperature or 1.0
            for example in examples:
                if isinstance(example.record, Pair):
                    anchor, documents = texts_of_record(example.record)
                    labels = [score / temperature for score in example.record.scores]
                    scored.append((anchor, list(documents), labels))
            return scored
        drawn = self.candidates(examples)
        for anchor, columns in zip(drawn.anchors, drawn.columns.tolist(), strict=True):
            texts = [drawn.documents[column] for column in columns if column >= 0]
            scored.append((anchor, texts, [1.0] + [0.0] * (len(texts) - 1)))
        return scored

    def measure(self) -> dict[str, float]:
        return self.lists.metrics(self.reranker.score_pairs(self.lists.queries, self.lists.documents))

    def write_model(self, folder: Path) -> bool:
        save(self.cross_encoder, folder)
        return True


class _InParts(nn.Module):
    """The cross-encoder, perhaps wrapped for several processes, that reads pairs by length, in parts with little
    padding."""

    def __init__(self, model: nn.Module, cross_encoder: CrossEncoder) -> None:
        super().__init__()
        self.model = model
        self.preprocess, self.device = cross_encoder.preprocess, cross_encoder.device

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """``scores`` ``[n, labels]`` in the order of the pairs."""
        mask = features["attention_mask"]
        lengths, order = mask.sum(dim=1).sort(descending=True, stable=True)
        max_tokens = CPU_TOKENS if mask.device.type == "cpu" else tokens_at_once(mask.device)
        scores = []
        for start, end in ranges_of_tokens(lengths.tolist(), max_tokens):
            rows = order[start:end]
            columns = mask[rows].any(dim=0)
            batch = dict(features)
            for name, value in features.items():
                if isinstance(value, Tensor):
                    batch[name] = value[rows][:, columns]
            scores.append(self.model(batch)["scores"])
        return {"scores": torch.cat(scores)[order.argsort()]}


def save(model: CrossEncoder, folder: Path) -> None:
    """Write the model for the library, low-rank updates merged, without the path that it was loaded from."""
    trained = model[0]
    model[0] = merged(trained)
    try:
        save_model(model, folder)
    finally:
        model[0] = trained
    forget_where_it_came_from(folder / "config.json")


@dataclass(frozen=True)
class CrossEncoderPlan(RerankerJob):
    """The training of a reranker's cross-encoder; ``weight`` is a positive's under ``binary``."""

    reranker: CrossEncoderReranker
    weight: float

    @property
    def model(self) -> CrossEncoder:
        model: CrossEncoder = self.reranker.model
        return model

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def precision(self) -> torch.dtype:
        return training_precision(self.config, self.model, self.device)

    def trainer(self, options: Options) -> RunTrainer:
        rates = {"": float(self.config.lr or 0)}
        return CrossEncoderRun(
            self.reranker, options, self.loader, rates, config=self.config, lists=self.lists, weight=self.weight
        )

    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        check_weights(self.model, trainer.folder.target)
        save(self.model, staged)
        card = _card(trainer.folder.target.name, self.preflight, trainer.history.rows, outcome)
        (staged / "README.md").write_text(card, encoding="utf-8")
        return {}


def plan_cross_encoder(config: VerifierConfig, material: Material, device: str | None) -> CrossEncoderPlan:
    """Load and check the model to start from; measure lengths."""
    data = material.batches.data
    begin = reranking.verifiers.create(config.verifier)
    model: CrossEncoder = begin.model(config.encoder, config.max_length, config.seed, device)
    check_weights(model, config.encoder)
    if config.low_rank is not None:
        config.low_rank.add(model[0], config.encoder, config.seed, None)
    model.activation_fn = LOSSES[str(config.loss)].activation()
    queries, documents = texts_of(data, LENGTH_SAMPLE, config.seed)
    reranker: CrossEncoderReranker = begin.reranker(model)
    lengths = {"pair": describe_lengths(reranker.lengths(queries, documents), model.max_seq_length)}
    negatives = [len(data[i].document_ids) - 1 for i in range(0, len(data), 1 + len(data) // LENGTH_SAMPLE)]
    model_device = torch.device(model.device)
    parameters = sum(value.numel() for value in model.parameters())
    trainable = sum(value.numel() for value in model.parameters() if value.requires_grad)
    precision = name_of(training_precision(config, model, model_device))
    fields = material.of_job(
        config,
        model_device,
        computes_in=precision,
        fingerprint=reranker.fingerprint(),
        lengths=lengths,
        parameters={"verifier": parameters, "trainable": trainable},
        precision=precision,
    )
    # the negatives of a positive, drawn ones included
    return CrossEncoderPlan(**fields, reranker=reranker, weight=float(np.mean(negatives)) + float(config.in_batch or 0))


def _card(name: str, preflight: VerifierPreflight, history: list[dict[str, Any]], outcome: Outcome) -> str:
    """The model card, as Markdown."""
    configuration = preflight.configuration
    steps = {"steps made": outcome.steps, "best step": outcome.best_step}
    probable = "Scores are probabilities of a match."
    scores = probable if configuration["loss"] == "binary" else "Scores are logits: only their order counts."
    return f"""---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags:
- sentence-transformers
- cross-encoder
- reranker
- retrokit
---

# {name}

A {reranking.kind_of(configuration["verifier"])}, which reads two texts together and scores the pair: \
`{configuration["encoder"]}` trained by retrokit with the loss `{configuration["loss"]}`. {scores}

{data_section(preflight.sources)}

{results_section(history, {"": "examples held out"})}

## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("{name}")
scores = model.predict([("a question", "a passage"), ("a question", "another passage")])  # higher is better
```

or, behind a first stage: `retrokit rerank ENCODER --on TASK --with cross-encoder:{name}`.

{options_section({**configuration, **steps})}
"""
