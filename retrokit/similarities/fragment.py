"""Semantic Fragment Similarity: the mean of similarities of consecutive slices of equal size (SFS, Eq. 3).

With ``cosine`` and ``dot`` as base it is one inner product of prepared embeddings; with ``l2`` and ``l1`` it is not.
``dims=M`` uses the first M dimensions, that is the first M / size fragments (SFS, Table 19).
"""

from torch import Tensor

from retrokit.core.errors import UsageError
from retrokit.similarities.base import TINY, Role, Similarity, as_rows, length
from retrokit.similarities.distance import Distance


class FragmentSimilarity(Similarity):
    """Base of the fragment similarities: slices ``[n, d]`` into ``[n, N_f, size]``."""

    export = "prepared"

    def __init__(self, size: int, dims: int | None, **of_base: int) -> None:
        super().__init__(**of_base)
        if dims is not None and dims % size:
            raise UsageError(f"dims={dims} is not a multiple of the fragment size {size}")
        self.size = size
        self.dims = dims

    def check_dimension(self, dimension: int) -> None:
        if self.dims is not None and self.dims > dimension:
            raise UsageError(f"dims={self.dims} is more than the embedding's {dimension} dimensions")
        if dimension % self.size and self.dims is None:
            sizes = ", ".join(str(size) for size in range(1, dimension + 1) if dimension % size == 0)
            raise UsageError(f"size {self.size} does not divide {dimension}; sizes that do: {sizes}")

    def fragments(self, embeddings: Tensor) -> Tensor:
        """``[n, d]`` as ``[n, N_f, size]``."""
        embeddings = as_rows(embeddings)
        self.check_dimension(embeddings.shape[-1])
        return embeddings[:, : self.dims].unflatten(-1, (-1, self.size))

    def fragments_in_words(self) -> str:
        """The result of :meth:`fragments` for an embedding x, in words."""
        of = "x" if self.dims is None else f"the first {self.dims} dimensions of x"
        return f"{of} in N consecutive fragments f of {self.size} dimensions"


class FragmentCosine(FragmentSimilarity):
    """Mean over fragments of the cosine (SFS, Eq. 3): each fragment to unit length, then ÷ √N_f.

    >>> import torch
    >>> q, d = torch.tensor([[3.0, 4.0, 1.0, 0.0]]), torch.tensor([[0.0, 2.0, -5.0, 0.0]])
    >>> round(FragmentCosine(2, None).score(q, d).item(), 2)  # (0.8 − 1) / 2
    -0.1
    """

    uses_magnitude = False
    unit_length = True

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        fragments = self.fragments(embeddings)
        return (fragments / (length(fragments) * fragments.shape[1] ** 0.5)).flatten(1)

    def prepare_in_words(self, role: Role) -> str:
        return f"{self.fragments_in_words()}; each f / (max(‖f‖, {TINY}) · √N), joined again"


class FragmentDot(FragmentSimilarity):
    """Mean over fragments of the inner product: the inner product ÷ N_f."""

    def __init__(self, size: int, dims: int | None) -> None:
        super().__init__(size, dims)
        self.multiple_of = "dot" if dims is None else ""

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        fragments = self.fragments(embeddings)
        return fragments.flatten(1) / fragments.shape[1] ** 0.5

    def prepare_in_words(self, role: Role) -> str:
        return f"{self.fragments_in_words()}; each f / √N, joined again"


class FragmentDistance(FragmentSimilarity, Distance):
    """Minus the mean over fragments of the distance ``‖f_q − f_d‖_p``.

    >>> import torch
    >>> q, d = torch.tensor([[3.0, 4.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 0.0, 0.0]])
    >>> FragmentDistance(2, None, p=2).score(q, d).item()  # −(5 + 1) / 2
    -3.0
    """

    def __init__(self, size: int, dims: int | None, p: int) -> None:
        super().__init__(size, dims, p=p)
        self.library_exact = p == 1
        self.multiple_of = "l1" if dims is None and 1 in (p, size) else ""

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        return self.fragments(embeddings).flatten(1)

    def part(self, dimension: int) -> int:
        return self.size


def sfs(size: int, base: str = "cosine", dims: int | None = None) -> FragmentSimilarity:
    """The fragment similarity of fragments of ``size`` dimensions over ``base``: cosine, dot, l2 or l1."""
    if base == "cosine":
        return FragmentCosine(size, dims)
    if base == "dot":
        return FragmentDot(size, dims)
    return FragmentDistance(size, dims, p={"l2": 2, "l1": 1}[base])
