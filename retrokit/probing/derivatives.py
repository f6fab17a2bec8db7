"""The closed forms of the derivatives of the magnitude family's similarities (MAG, Eq. 11 to 25, M.4.1)."""

import numpy as np

from retrokit.similarities.base import TINY


def partial_derivatives(
    gammas: tuple[float, float], queries: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂s/∂‖d‖, ∂s/∂‖q‖ and ∂s/∂θ, float64 ``[n]``, of ``s = ‖q‖^(1−γq) ‖d‖^(1−γd) cos θ`` (MAG, Eq. 11 to 25).

    Args:
        gammas: γq and γd; 1 and 1 is cosine, whose first two derivatives are exactly 0.
        queries: raw embeddings ``[n, d]``.
        documents: raw embeddings ``[n, d]``, row by row the queries' partners.

    >>> q, d = np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]])  # lengths 5 and 2, cos θ = 0.8
    >>> [round(float(part[0]), 6) for part in partial_derivatives((1.0, 0.0), q, d)]  # qnorm: cos θ, 0, −‖d‖ sin θ
    [0.8, 0.0, -1.2]
    """
    query_gamma, document_gamma = gammas
    q, d, cosine = _polar(queries, documents)
    sine = np.sqrt(np.maximum(0.0, (1 - cosine) * (1 + cosine)))
    by_document = (1 - document_gamma) * q ** (1 - query_gamma) * d**-document_gamma * cosine
    by_query = (1 - query_gamma) * q**-query_gamma * d ** (1 - document_gamma) * cosine
    by_angle = -(q ** (1 - query_gamma)) * d ** (1 - document_gamma) * sine
    return by_document, by_query, by_angle


def gradients(gammas: tuple[float, float], queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """∂s/∂(q, d), float64 ``[n, 2d]``, of the same similarity: q's part first (MAG, M.4.1).

    >>> gradients((1.0, 0.0), np.array([[0.0, 2.0]]), np.array([[3.0, 1.0]])).round(6).tolist()  # ((d − s q̂)/‖q‖, q̂)
    [[1.5, 0.0, 0.0, 1.0]]
    """
    query_gamma, document_gamma = gammas
    q, d, cosine = (side[:, None] for side in _polar(queries, documents))
    queries, documents = queries.astype(np.float64), documents.astype(np.float64)
    divisor = q**query_gamma * d**document_gamma
    score = q * d * cosine / divisor
    by_query = documents / divisor - query_gamma * score * queries / q**2
    by_document = queries / divisor - document_gamma * score * documents / d**2
    return np.hstack([by_query, by_document])


def _polar(queries: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both lengths (at least ``TINY``, as in the similarities) and cos θ, float64 ``[n]``."""
    queries, documents = queries.astype(np.float64), documents.astype(np.float64)
    q, d = (np.maximum(np.linalg.norm(side, axis=1), TINY) for side in (queries, documents))
    return q, d, np.clip((queries * documents).sum(axis=1) / (q * d), -1.0, 1.0)
