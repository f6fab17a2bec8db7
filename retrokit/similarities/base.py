"""What a similarity is: two role transforms and a kernel.

``score(q, d) = kernel(prepare(q, "query"), prepare(d, "document"))``, float32, higher is better. A subclass gives
``prepare`` and, unless it is the inner product, the kernel. It is a torch module, so that its parameters are saved,
restored, clipped and synchronised with its model.
"""

import hashlib
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.core.registry import fault_of

Role = Literal["query", "document"]
Embeddings = Tensor | np.ndarray

TINY = 1e-12  # a vector shorter than this counts as this long, so zero vectors score 0 and have finite gradients


class Ceilings(Protocol):
    """The ceiling ``q·d + terms`` of each prepared document ``[nd]``. Those of two equal scores in float32 differ by
    less than the query's ``margin`` ``[nq]``."""

    terms: Tensor
    margin: Tensor


class Similarity(nn.Module):
    """Base of all similarities. Inputs are embeddings ``[n, d]`` (or one of them, ``[d]``) of any float type;
    ``score`` and ``score_pairs`` also take NumPy arrays, such as an encoder gives.

    Attributes:
        spec: the canonical spec it was created from.
        symmetric: whether ``score(a, b) == score(b, a)`` for all a, b.
        factorable: whether the kernel is the inner product: one exact inner-product search then serves it.
        uses_magnitude: whether the norm of an embedding changes scores; a built-in Normalize layer must then go.
        unit_length: whether prepared embeddings have norm 1 with any encoder.
        export: how a saved model yields embeddings: stock Normalize, as they are, or through retrokit's own module.
        multiple_of: the spec of another similarity with the same scores but for a factor: under ``scale=auto`` both
            train the same.
        library_name: the sentence-transformers similarity for the exported embeddings.
        library_exact: whether that similarity ranks documents as this one does.
    """

    spec: str = ""
    symmetric: bool = True
    factorable: ClassVar[bool] = True
    uses_magnitude: bool = True
    unit_length: bool = False
    export: Literal["normalize", "raw", "prepared"] = "raw"
    multiple_of: str = ""
    library_name: Literal["cosine", "dot", "euclidean", "manhattan"] = "dot"
    library_exact: bool = True

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        """The role's transform, ``[n, d] → [n, d']`` in float32 (float64 stays); ``[d]`` counts as ``[1, d]``."""
        raise NotImplementedError

    def prepare_in_words(self, role: Role) -> str:
        """The result of :meth:`prepare` for an embedding x, in words."""
        return f"retrokit.similarity({self.spec!r}).prepare(x, {role!r})"

    def kernel(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Scores ``[nq, nd]`` of prepared embeddings."""
        return queries @ documents.T

    def kernel_pairs(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Scores ``[n]`` of prepared pairs, row by row."""
        return (queries * documents).sum(dim=-1)

    def score(self, queries: Embeddings, documents: Embeddings) -> Tensor:
        """Scores ``[nq, nd]`` of every query with every document; higher is better. Raises :class:`UsageError` for
        dimensions that differ or do not fit."""
        q, d = self._checked(queries, documents)
        return self.kernel(self.prepare(q, "query"), self.prepare(d, "document"))

    def score_pairs(self, queries: Embeddings, documents: Embeddings) -> Tensor:
        """Scores ``[n]`` of query i with document i. Raises :class:`UsageError` for other dimensions or counts."""
        q, d = self._checked(queries, documents)
        if len(q) != len(d):
            raise UsageError(f"pairs need as many queries as documents: {len(q)} and {len(d)}")
        return self.kernel_pairs(self.prepare(q, "query"), self.prepare(d, "document"))

    def ceilings(self, queries: Tensor, documents: Tensor) -> Ceilings | None:
        """For a kernel that is no product: ceilings at the cost of one, or ``None``."""
        return None

    def typical_score(self, queries: Tensor, documents: Tensor) -> float:
        """The size of scores of prepared embeddings ``[nq, d]``, ``[nd, d]``: for inner products the product of their
        mean norms. At ``scale / typical_score`` a similarity is as sharp as cosine at ``scale``."""
        norms = [torch.linalg.vector_norm(side, dim=-1).mean().item() for side in (queries, documents)]
        return max(norms[0] * norms[1], TINY)

    def check_members(self) -> None:
        """Raise :class:`UsageError` for a class without ``prepare``, or whose kernels contradict ``factorable``."""
        kind = type(self)
        kernels = (kind.kernel, kind.kernel_pairs)
        of_base = (Similarity.kernel, Similarity.kernel_pairs)
        if kind.prepare is Similarity.prepare:
            problem = "has no prepare"
        elif self.factorable and kernels != of_base:
            problem = "has a kernel of its own; set factorable = False"
        elif not self.factorable and (kernels[0] is of_base[0] or kernels[1] is of_base[1]):
            problem = "has factorable = False; it needs kernel and kernel_pairs"
        else:
            return
        raise self._fault(problem)

    def check_fits(self, dimension: int) -> None:
        """Raise :class:`UsageError` unless embeddings of ``dimension`` have scores of the right shapes."""
        self.check_dimension(dimension)
        device = next((parameter.device for parameter in self.parameters()), None)
        queries = torch.ones(2, dimension, device=device)
        documents = torch.ones(3, dimension, device=device)
        with torch.no_grad():
            scores = self.score(queries, documents)
            pair_scores = self.score_pairs(documents, documents)
        if scores.shape != (2, 3):
            problem = f"kernel gives {list(scores.shape)} for 2 queries and 3 documents, not [2, 3]"
        elif pair_scores.shape != (3,):
            problem = f"kernel_pairs gives {list(pair_scores.shape)} for 3 pairs, not [3]"
        else:
            return
        raise self._fault(problem)

    def check_dimension(self, dimension: int) -> None:
        """Raise :class:`UsageError` if the similarity cannot be used on embeddings of ``dimension``."""

    def statistics(self) -> dict[str, float]:
        """Learned parameters for logs (γ)."""
        return {}

    def fingerprint(self) -> str:
        """A digest of the spec and of learned parameters."""
        learned = {name: (str(tensor.dtype), tensor.tolist()) for name, tensor in sorted(self.state_dict().items())}
        return hashlib.sha256(f"{self.spec} {learned}".encode()).hexdigest()

    def _fault(self, problem: str) -> UsageError:
        """What is wrong with the class, as one line that names the entry and its plugin."""
        kind = type(self)
        return UsageError(f"similarity {self.spec}: {kind.__qualname__}: {problem}{fault_of(kind.__module__)}")

    def _checked(self, queries: Embeddings, documents: Embeddings) -> tuple[Tensor, Tensor]:
        q, d = as_rows(queries), as_rows(documents)
        if q.shape[-1] != d.shape[-1]:
            raise UsageError(f"query embeddings have {q.shape[-1]} dimensions, document embeddings {d.shape[-1]}")
        wider = torch.promote_types(q.dtype, d.dtype)
        return q.to(wider), d.to(wider)


def as_rows(embeddings: Embeddings) -> Tensor:
    """``[d]`` or ``[n, d]`` of any float type, torch or NumPy, as a tensor ``[n, d]`` in float32 (float64 stays)."""
    embeddings = torch.as_tensor(embeddings)
    if embeddings.ndim not in (1, 2):
        raise UsageError(f"embeddings must be [n, d] or [d], not {list(embeddings.shape)}")
    rows = embeddings.unsqueeze(0) if embeddings.ndim == 1 else embeddings
    return rows if rows.dtype == torch.float64 else rows.float()


def length(embeddings: Tensor) -> Tensor:
    """Euclidean norm over the last dimension, which stays with size 1; at least :data:`TINY`."""
    return torch.linalg.vector_norm(embeddings, dim=-1, keepdim=True).clamp_min(TINY)
