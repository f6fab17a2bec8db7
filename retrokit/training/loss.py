"""The losses: InfoNCE over prepared embeddings (MAG, Eq. 2), losses against a teacher's scores, and mean squared error
on scored pairs (MAG, Appendix R).

The model applies the similarity's role transforms, so a loss gets prepared embeddings, applies the kernel in float32,
and has no weights. Gradient caching is the library's. A batch's texts are embedded from the longest to the shortest, in
parts with little padding; the loss is that of the whole batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from retrokit import encoders
from retrokit.data.training_rows import pair_codes
from retrokit.encoders.base import Encoder, Item
from retrokit.encoders.engine import ranges_of_tokens, tokens_at_once
from retrokit.similarities.base import Role, Similarity
from retrokit.training.processes import is_sharded


class Guide(nn.Module):
    """Masks a candidate that the encoder scores above an anchor's positive less the margin, under its own similarity.
    The margin is a score (``absolute``) or a share of the positive's (``relative``).

    Args:
        encoder: its spec.
    """

    def __init__(
        self, encoder: str, margin: float, type: Literal["absolute", "relative"], device: str | None = None
    ) -> None:
        super().__init__()
        self._encoder: Encoder = encoders.registry.create(encoder, device=device)
        self.similarity = self._encoder.similarity
        self.margin, self.is_relative = margin, type == "relative"
        self.counts: Tensor
        self.register_buffer("counts", torch.zeros(2), persistent=False)  # masked, and all, since the last share

    def fingerprint(self) -> str:
        """Of the encoder."""
        return self._encoder.fingerprint()

    @torch.no_grad()
    def prepared(self, items: Sequence[Item], role: Role) -> Tensor:
        """Prepared embeddings float32 ``[n, w]``, on the CPU."""
        return self.similarity.prepare(torch.from_numpy(self._encoder.embed(items, role)), role)

    @torch.no_grad()
    def nearer(self, scores: Tensor, positive_columns: Tensor, excluded: Tensor) -> Tensor:
        """Which candidates are masked, bool ``[b, n]``, by the encoder's ``scores [b, n]``; the positive of row i is in
        column ``positive_columns[i]``. Counts the masked ones that are not ``excluded`` otherwise."""
        positive = scores.gather(1, positive_columns[:, None])
        bound = positive - (positive.abs() * self.margin if self.is_relative else self.margin)
        masked = scores > bound
        others = ~excluded
        others[torch.arange(len(positive_columns), device=positive_columns.device), positive_columns] = False
        self.counts += torch.stack([(masked & others).sum(), others.sum()])
        return masked

    def share(self) -> float | None:
        """The share of masked candidates since the last call; ``None`` without candidates."""
        masked, seen = self.counts.tolist()
        self.counts.zero_()
        return masked / seen if seen else None


class PreparedLoss(nn.Module):
    """Base of all: embeds queries and documents, whole or in cached mini-batches, and compares them.

    Args:
        model: a SentenceTransformer that ends in ``Prepare``.
        similarity: gives the kernel.
        scale: multiplies the scores.
        mini_batch: texts whose activations are in memory together; ``None``: the whole batch's, without caching.
        widths: widths of the prepared prefixes, concatenated in an embedding (Matryoshka); losses are added.
    """

    def __init__(
        self, model: Any, similarity: Similarity, scale: float, mini_batch: int | None, widths: list[int] | None
    ) -> None:
        super().__init__()
        self.model = model
        # Not a submodule: its parameters are the model's, and must count once.
        self._similarity = [similarity]
        self.scale = scale
        self.mini_batch_size = mini_batch or 0
        self.widths = widths
        self._ids: tuple[Tensor, Tensor] | None = None
        self.guide: Guide | None = None
        self._guided: list[Tensor] = []
        self._places: list[Tensor | None] = []

    def forward(self, sentence_features: list[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch ``[query features, document features]``, a scalar."""
        self._ids = (sentence_features[0]["text_ids"], sentence_features[1]["text_ids"])
        self._guided = [features.pop("guide") for features in sentence_features if "guide" in features]
        by_length, self._places = zip(*map(_by_length, sentence_features), strict=True)
        if self.mini_batch_size:
            loss: Tensor = self.in_parts.forward_cached(by_length, labels)
            return loss
        return self.calculate_loss([self._embed(features) for features in by_length], labels)

    def _embed(self, features: dict[str, Any]) -> list[Tensor]:
        """Embeddings of texts in the order of their lengths, a part at a time."""
        if not _has_lengths(features):
            return [self.model(dict(features))["sentence_embedding"]]
        mask = features["attention_mask"]
        ranges = ranges_of_tokens(mask.sum(dim=1).tolist(), tokens_at_once(mask.device))
        if is_sharded() and _world()[1] > 1:
            # equally many in every process: all pass through a sharded model together
            agreed = torch.tensor([-len(ranges), ranges[-1][1]])
            dist.all_reduce(agreed, dist.ReduceOp.MIN)
            count = min(-int(agreed[0]), int(agreed[1]))
            ranges = list(pairwise([ranges[-1][1] * number // count for number in range(count + 1)]))
        embed = partial(self.in_parts.embed_minibatch, features, with_grad=True, copy_random_state=False)
        return [embed(*bounds)[0] for bounds in ranges]

    @cached_property
    def in_parts(self) -> Any:
        """Embeds a batch in parts, by the library."""
        from retrokit.training.caching import InParts

        return InParts(self)

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss from the parts' embeddings, back-propagated to them if ``with_backward``."""
        sides = [
            torch.cat(parts) if places is None else torch.cat(parts)[places]
            for parts, places in zip(reps, self._places, strict=True)
        ]
        loss = self.compare(sides[0], sides[1], labels)
        if with_backward:
            loss.backward()
        return loss.detach() if with_backward else loss

    def compare(self, queries: Tensor, documents: Tensor, labels: Tensor | None) -> Tensor:
        """Sum over the prefixes of the loss between prepared embeddings ``[n, w]`` and ``[m, w]``."""
        widths = self.widths or [queries.shape[-1]]
        with torch.autocast(queries.device.type, enabled=False):
            prefixes = zip(queries.split(widths, -1), documents.split(widths, -1), strict=True)
            return torch.stack([self.loss_of(query, document, labels) for query, document in prefixes]).sum()

    def loss_of(self, queries: Tensor, documents: Tensor, labels: Tensor | None) -> Tensor:
        """The loss between prepared embeddings."""
        raise NotImplementedError


class InfoNCE(PreparedLoss):
    """Cross-entropy of each anchor's positive among all documents of the batch, across processes.

    Every document of the joint batch is a candidate, except other known positives of the anchor and copies of its own.
    ``document-to-query`` ranks the anchors for each positive instead; ``both`` is the mean of the two.

    Args:
        positives: codes of the known positives (``records.pair_codes``), sorted int64 ``[n]``.
        directions: ``query-to-document``, ``document-to-query`` or ``both``.
        guide: masks further candidates, by its own embeddings, ``guide`` among the features of either side.
    """

    def __init__(
        self,
        model: Any,
        similarity: Similarity,
        scale: float = 20.0,
        *,
        positives: Tensor,
        directions: str = "query-to-document",
        guide: Guide | None = None,
        mini_batch: int | None = None,
        widths: list[int] | None = None,
    ) -> None:
        super().__init__(model, similarity, scale, mini_batch, widths)
        self.known_pairs = KnownPairs(positives)
        self.directions = directions
        self.guide = guide

    def loss_of(self, queries: Tensor, documents: Tensor, labels: Tensor | None) -> Tensor:
        """Mean over the process's own anchors; ``queries [b, w]``, ``documents [b + negatives, w]``."""
        assert self._ids is not None
        losses = []
        if self.directions in ("query-to-document", "both"):
            losses.append(self._rank_documents(queries, documents, *self._ids))
        if self.directions in ("document-to-query", "both"):
            losses.append(self._rank_queries(queries, documents, *self._ids))
        return torch.stack(losses).mean()

    def _rank_documents(self, queries: Tensor, documents: Tensor, query_ids: Tensor, document_ids: Tensor) -> Tensor:
        count = len(queries)
        candidates, candidate_ids, positive_columns = _gathered_documents(documents, document_ids, count)
        scores = self.scale * self._similarity[0].kernel(queries, candidates)
        excluded = self.known_pairs(query_ids, candidate_ids) | (candidate_ids < 0)
        if self.guide is not None:
            guide_queries, guide_documents = self._guided
            guide_candidates, _, _ = _gathered_documents(guide_documents, document_ids, count)
            guide_scores = self.guide.similarity.kernel(guide_queries, guide_candidates)
            excluded |= self.guide.nearer(guide_scores, positive_columns, excluded)
        return _cross_entropy(scores, excluded, positive_columns)

    def _rank_queries(self, queries: Tensor, documents: Tensor, query_ids: Tensor, document_ids: Tensor) -> Tensor:
        count = len(queries)
        candidates, candidate_ids, positive_columns = _gathered_queries(queries, query_ids)
        scores = self.scale * self._similarity[0].kernel(candidates, documents[:count]).T
        excluded = self.known_pairs(candidate_ids, document_ids[:count]).T
        if self.guide is not None:
            guide_queries, guide_documents = self._guided
            guide_candidates, _, _ = _gathered_queries(guide_queries, query_ids)
            guide_scores = self.guide.similarity.kernel(guide_candidates, guide_documents[:count]).T
            excluded |= self.guide.nearer(guide_scores, positive_columns, excluded)
        return _cross_entropy(scores, excluded, positive_columns)


class Taught(InfoNCE):
    """A weighted sum of InfoNCE and of two losses against a teacher's scores of each anchor's own positive and
    negatives, ``labels [b, 1 + most negatives]``, filled up with NaN.

    ``kl``: the Kullback–Leibler divergence of the softmax of the student's scaled scores from that of the teacher's
    scores divided by ``temperature``; mean over the anchors. (The library's ``DistillKLDivLoss`` with a student's
    temperature of ``1 / scale`` multiplies that by the temperature's square.)

    ``margin-mse``: the squared difference between the student's margin, the scaled score of the positive less that of
    a negative, and the teacher's; mean over an anchor's negatives, then over the anchors (Hofstätter et al. 2020).

    Args:
        weights: of ``infonce``, ``kl`` and ``margin-mse``; a missing one is 0.
        temperature: the teacher's.
        options: those of :class:`InfoNCE`.
    """

    def __init__(self, *args: Any, weights: Mapping[str, float], temperature: float = 1.0, **options: Any) -> None:
        super().__init__(*args, **options)
        self.weights, self.temperature = dict(weights), temperature

    def loss_of(self, queries: Tensor, documents: Tensor, labels: Tensor | None) -> Tensor:
        """As of the base class."""
        assert labels is not None
        terms = {"kl": self._divergence, "margin-mse": self._margins, "infonce": super().loss_of}
        weighted = [weight * terms[name](queries, documents, labels) for name, weight in self.weights.items()]
        return torch.stack(weighted).sum()

    def _divergence(self, queries: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        missing = labels.isnan()
        student = self._own_scores(queries, documents, labels).masked_fill(missing, -torch.inf).log_softmax(dim=1)
        teacher = (labels / self.temperature).masked_fill(missing, -torch.inf).log_softmax(dim=1)
        divergences = teacher.exp() * (teacher - student).masked_fill(missing, 0.0)
        return divergences.sum(dim=1).mean()

    def _margins(self, queries: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        student = self._own_scores(queries, documents, labels)
        errors = (student[:, :1] - student[:, 1:]) - (labels[:, :1] - labels[:, 1:])
        missing = errors.isnan()
        squares = errors.masked_fill(missing, 0.0).square()
        return (squares.sum(dim=1) / (~missing).sum(dim=1).clamp_min(1)).mean()

    def _own_scores(self, queries: Tensor, documents: Tensor, labels: Tensor) -> Tensor:
        """Scaled scores of each anchor with its own documents, in the places of the ``labels``, else 0. The
        positives are first in ``documents``, then the anchors' negatives, one anchor after another."""
        rows, places = (~labels.isnan()).nonzero(as_tuple=True)
        is_negative = places > 0
        columns = torch.where(is_negative, len(queries) - 1 + is_negative.cumsum(0), rows)
        scores = self.scale * self._similarity[0].kernel_pairs(queries[rows], documents[columns])
        return scores.new_zeros(labels.shape).index_put((rows, places), scores)


class KnownPairs(nn.Module):
    """Which pairs of texts are known positives, in a time that does not grow with their number.

    A code's first bits lead to the first of the sorted codes that may equal it. Those of texts' ids are like random
    numbers, so that a few have the same first bits.

    Args:
        positives: codes of the known positives (``records.pair_codes``), sorted int64 ``[n]``.
    """

    def __init__(self, positives: Tensor) -> None:
        super().__init__()
        bits = (2 * len(positives)).bit_length() or 1
        self.shift, self.offset = 64 - bits, 2**bits // 2
        starts = torch.searchsorted(positives, torch.arange(-self.offset, self.offset) << self.shift)
        self.longest = int(starts.diff(append=torch.tensor([len(positives)])).max())
        self.positives: Tensor
        self.starts: Tensor
        last = positives[-1:].repeat(self.longest)
        self.register_buffer("positives", torch.cat([positives, last]), persistent=False)
        self.register_buffer("starts", starts, persistent=False)

    def forward(self, query_ids: Tensor, document_ids: Tensor) -> Tensor:
        """Bool ``[nq, nd]``, of the ids of queries (``records.text_id``), int64 ``[nq]``, and documents ``[nd]``; −1 is
        padding, and no positive."""
        codes = pair_codes(query_ids[:, None], document_ids[None, :]).flatten()
        index = self.starts.index_select(0, (codes >> self.shift).add_(self.offset))
        is_known = torch.zeros_like(codes, dtype=torch.bool)
        for _ in range(self.longest):
            is_known |= self.positives.index_select(0, index) == codes
            index += 1
        return is_known.view(len(query_ids), len(document_ids)) & (document_ids >= 0)


class ScoredMSE(PreparedLoss):
    """Mean of ``(scale · s(sentence1, sentence2) − label)²``, labels from 0 to 1 (MAG, Appendix R; λ there)."""

    def loss_of(self, queries: Tensor, documents: Tensor, labels: Tensor | None) -> Tensor:
        """Mean over the pairs; ``queries`` and ``documents`` ``[b, w]``, ``labels [b]``."""
        assert labels is not None
        scores = self.scale * self._similarity[0].kernel_pairs(queries, documents)
        return nn.functional.mse_loss(scores, labels.to(scores.dtype))


def _has_lengths(features: dict[str, Any]) -> bool:
    """Whether texts are rows with padding, not a static encoder's bags or flattened texts."""
    mask = features.get("attention_mask")
    return isinstance(mask, Tensor) and mask.ndim == 2 and "cu_seq_lens_q" not in features


def _by_length(features: dict[str, Any]) -> tuple[dict[str, Any], Tensor | None]:
    """The texts from the longest to the shortest, and the new place of each; ``None``: unchanged."""
    if not _has_lengths(features):
        return features, None
    order = features["attention_mask"].sum(dim=1).argsort(descending=True, stable=True)
    sorted_features = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == order.shape:
            sorted_features[name] = value[order]
    return sorted_features, order.argsort()


def _cross_entropy(scores: Tensor, excluded: Tensor, positive_columns: Tensor) -> Tensor:
    """Mean of −log softmax at column ``positive_columns[i]`` of row i, over the columns that are not excluded."""
    excluded[torch.arange(len(positive_columns), device=positive_columns.device), positive_columns] = False
    return nn.functional.cross_entropy(scores.masked_fill(excluded, -torch.inf), positive_columns)


_ALONE = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """A loss is that of this process's batch, without other processes."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def _world() -> tuple[int, int]:
    several = not _ALONE.get() and dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if several else (0, 1)


def _gathered_queries(queries: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All processes' queries and ids, and the columns of those of this process."""
    rank, world = _world()
    columns = torch.arange(len(queries), device=queries.device) + rank * len(queries)
    if world == 1:
        return queries, ids, columns
    from sentence_transformers.util import all_gather, all_gather_with_grad

    return all_gather_with_grad(queries), all_gather(ids), columns


def _gathered_documents(documents: Tensor, ids: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """All processes' positives, then all their negatives, with ids (−1: padding), and the columns of
    this process's positives.

    ``count`` positives stand first in ``documents`` on every process; negatives may differ in number.
    """
    rank, world = _world()
    columns = torch.arange(count, device=documents.device) + rank * count
    if world == 1:
        return documents, ids, columns
    from sentence_transformers.util import all_gather, all_gather_with_grad

    most_negatives = torch.tensor([len(documents) - count])  # by the CPUs, so that no GPU is waited for
    dist.all_reduce(most_negatives, dist.ReduceOp.MAX)
    missing = int(most_negatives) - (len(documents) - count)
    negatives = nn.functional.pad(documents[count:], (0, 0, 0, missing))
    negative_ids = nn.functional.pad(ids[count:], (0, missing), value=-1)
    pieces, piece_ids = [all_gather_with_grad(documents[:count])], [all_gather(ids[:count])]
    if int(most_negatives):
        pieces.append(all_gather_with_grad(negatives))
        piece_ids.append(all_gather(negative_ids))
    return torch.cat(pieces), torch.cat(piece_ids), columns
