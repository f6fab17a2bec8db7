"""The magnitude family: ``‖q‖^(1−γq) · ‖d‖^(1−γd) · cos θ`` (MAG, Eq. 3–7). One class, five names.

γ is how much of a side's length is taken away: 1 normalises, 0 leaves it. Only γd matters for a ranking
(MAG, Propositions 4.1 and S.2); γq changes how sharp each query's softmax is while training.
"""

import math
from functools import partial

import torch
from torch import Tensor, nn

from retrokit.similarities.base import TINY, Role, Similarity, as_rows, length


class Magnitude(Similarity):
    """``q·d / (‖q‖^γq ‖d‖^γd)`` with fixed γ, each 0 or 1: ``cosine``, ``dot``, ``qnorm``, ``dnorm`` (MAG, Eq. 3 to 6).

    >>> import torch
    >>> q, d = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> [round(s.score(q, d).item(), 2) for s in (cosine(), dot(), qnorm(), dnorm())]
    [0.8, 8.0, 1.6, 4.0]
    """

    def __init__(self, query_gamma: int, document_gamma: int) -> None:
        super().__init__()
        self._normalised = {"query": query_gamma == 1, "document": document_gamma == 1}
        self.gammas = (float(query_gamma), float(document_gamma))
        self.symmetric = query_gamma == document_gamma
        self.uses_magnitude = not (query_gamma and document_gamma)
        self.unit_length = not self.uses_magnitude
        self.export = "raw" if self.uses_magnitude else "normalize"
        self.library_name = "cosine" if document_gamma else "dot"

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        embeddings = as_rows(embeddings)
        return embeddings / length(embeddings) if self._normalised[role] else embeddings

    def prepare_in_words(self, role: Role) -> str:
        return f"x / max(‖x‖, {TINY})" if self._normalised[role] else "x as it is"


class LearnedMagnitude(Similarity):
    """``q·d / (‖q‖^γq ‖d‖^γd)`` with learned γ = σ(γ̂) that start at ``query`` and ``document`` (MAG, Eq. 7).

    >>> import torch
    >>> q, d = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.0]])
    >>> round(learn().score(q, d).item(), 4)  # 16 / (√5 · √4)
    3.5777
    """

    symmetric = False
    export = "prepared"

    def __init__(self, query: float = 0.5, document: float = 0.5) -> None:
        super().__init__()
        self.query_gamma_logit = nn.Parameter(torch.tensor([_logit(query)]))
        self.document_gamma_logit = nn.Parameter(torch.tensor([_logit(document)]))

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        embeddings = as_rows(embeddings)
        logit = self.query_gamma_logit if role == "query" else self.document_gamma_logit
        return embeddings / length(embeddings) ** torch.sigmoid(logit.to(embeddings.device))

    def prepare_in_words(self, role: Role) -> str:
        return f"x / max(‖x‖, {TINY})^{self.gammas[role == 'document']!r}"

    @property
    def gammas(self) -> tuple[float, float]:
        """γ of the query and of the document side, as learned so far."""
        return torch.sigmoid(self.query_gamma_logit).item(), torch.sigmoid(self.document_gamma_logit).item()

    def statistics(self) -> dict[str, float]:
        return dict(zip(("gamma_query", "gamma_document"), self.gammas, strict=True))


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


cosine, dot = partial(Magnitude, 1, 1), partial(Magnitude, 0, 0)
qnorm, dnorm = partial(Magnitude, 1, 0), partial(Magnitude, 0, 1)
learn = LearnedMagnitude
