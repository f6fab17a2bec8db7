"""AdamW for tables of embeddings on a CPU, at the cost of the rows that a step touches: the result is dense AdamW's.

A row without a gradient still moves under AdamW, by decay and momentum. Until its next gradient it moves in one
direction, ``m / √v``, by an amount that depends on the steps only. So a row is updated when it is needed, by two
factors: AdamW (Loshchilov and Hutter, 2019) moves it from step s to step t as ::

    w_t = P(s, t) · w_s − C(s, t) · m_s / √v_s

P is the product of ``1 − lr · λ`` over the steps between, C the sum of their rates times ``(β₁ / √β₂)`` to the power
of the steps since s. Both follow from step to step by a recurrence. The constant ε is taken as it is at step s.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import get_total_norm

_STATE = ("mean", "square", "brought", "stepped", "decay", "drift", "fade")
_AT_ONCE = 2**16  # numbers of rows, which stay in the processor's cache from one operation to the next


class RowBag(nn.EmbeddingBag):
    """Means of rows of a table, whose gradient is one row for each row in use; PyTorch's sparse one has a row for each
    token."""

    def __init__(self, bag: nn.EmbeddingBag) -> None:
        """``bag`` gives its table, which is shared."""
        super().__init__(bag.num_embeddings, bag.embedding_dim, _weight=bag.weight.data, mode="mean")
        self.weight = bag.weight

    def forward(self, input: Tensor, offsets: Tensor) -> Tensor:  # type: ignore[override] # the two that are used
        """Token ids ``[t]``, and where each text starts, ``[n]`` → ``[n, d]``; a text without tokens gives zeros."""
        means: Tensor = _MeanOfRows.apply(self.weight, input, offsets)
        return means


class _MeanOfRows(torch.autograd.Function):
    """:class:`RowBag`'s function and its derivative by the table."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        """Table ``[r, d]``, token ids ``[t]``, starts of the texts ``[n]`` → their means ``[n, d]``."""
        ctx.save_for_backward(ids, offsets)
        ctx.shape = table.shape
        return functional.embedding_bag(ids, table, offsets, mode="mean")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradient of the means ``[n, d]`` → of the table ``[r, d]``, sparse: a row for each row in use, in order."""
        ids, offsets = ctx.saved_tensors
        lengths = torch.diff(offsets, append=offsets.new_tensor([len(ids)]))
        # of 16 bits, as most tables have, numpy sorts without comparing
        order = torch.from_numpy(ids.numpy().astype(np.min_scalar_type(ctx.shape[0])).argsort(kind="stable"))
        ids = ids[order]
        text = torch.repeat_interleave(torch.arange(len(lengths)), lengths)[order]
        rows, counts = torch.unique_consecutive(ids, return_counts=True)
        # of a row: the sum over the texts that use it, of each by the share that one token has in its mean
        shares = lengths.to(gradient.dtype).reciprocal()[text]
        starts = counts.cumsum(0) - counts
        row_gradients = functional.embedding_bag(
            text, gradient.contiguous(), starts, mode="sum", per_sample_weights=shares
        )
        options: dict[str, Any] = {"is_coalesced": True, "check_invariants": False}
        return torch.sparse_coo_tensor(rows[None], row_gradients, ctx.shape, **options), None, None


class TableRows:
    """The state of one ``table [n, d]`` in AdamW's ``group``: moments, and up to which step each row and its moments
    have been brought.

    Of each step s up to the present one, t: ``decay[s]`` is P(s, t), ``drift[s]`` C(s, t), ``fade[s]``
    (β₁ / √β₂)^(t − s).
    """

    def __init__(self, table: Tensor, group: dict[str, Any]) -> None:
        self.table, self.group = table, group
        self.mean = torch.zeros_like(table)
        self.square = torch.zeros_like(table)
        self.brought = torch.zeros(len(table), dtype=torch.int64)
        self.stepped = torch.zeros_like(self.brought)
        self.decay = torch.ones(1, dtype=torch.float64)
        self.drift = torch.zeros(1, dtype=torch.float64)
        self.fade = torch.ones(1, dtype=torch.float64)

    @property
    def present(self) -> int:
        """The present step, from 0."""
        return len(self.decay) - 1

    def advance(self) -> float:
        """Go to the next step, and return its rate."""
        step, lr, (beta1, beta2) = self.present + 1, self.group["lr"], self.group["betas"]
        rate: float = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        decay_factor = 1 - lr * self.group["weight_decay"]
        self.fade *= beta1 / beta2**0.5
        self.decay *= decay_factor
        self.drift = decay_factor * self.drift + rate * self.fade
        for name, first in (("decay", 1.0), ("drift", 0.0), ("fade", 1.0)):
            setattr(self, name, torch.cat([getattr(self, name), torch.tensor([first], dtype=torch.float64)]))
        return rate

    def moved(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of the rows (each named once), and where those are at the present step."""
        brought, stepped = self.brought[rows], self.stepped[rows]
        betas = self.group["betas"]
        # ε stands beside √v̂; the moments here are not corrected for their start at 0
        small = self.group["eps"] * torch.sqrt(1 - betas[1] ** stepped.double().clamp_min(1))
        faded = (betas[0] / betas[1] ** 0.5) ** (brought - stepped).double()
        factors = small, self.decay[brought], self.drift[brought] * faded
        for part, small_of_part, decay, drift in self._parts(rows, *map(self._column, factors)):
            divisor = self._root(self.square.index_select(0, part)).add_(small_of_part)
            drifts = self.mean.index_select(0, part).mul_(drift)
            yield part, self.table.index_select(0, part).mul_(decay).addcdiv_(drifts, divisor, value=-1)

    def bring(self, rows: Tensor | None = None) -> None:
        """Bring the rows, in any shape and order (default: all), up to the present step."""
        behind = self.brought < self.present
        if rows is not None:
            is_named = torch.zeros_like(behind)
            is_named[rows] = True
            behind &= is_named
        rows = behind.nonzero().squeeze(1)
        for part, values in self.moved(rows):
            self.table.index_copy_(0, part, values)
        self.brought[rows] = self.present

    def step(self, rows: Tensor, gradient: Tensor) -> None:
        """One step with the gradient ``[len(rows), d]`` of the rows (each named once); the others follow later."""
        lr, decay, betas, eps = (self.group[name] for name in ("lr", "weight_decay", "betas", "eps"))
        self.bring(rows)
        rate, step = self.advance(), self.present
        correction = (1 - betas[1] ** step) ** 0.5
        rested = (step - self.stepped[rows]).double()
        faded = [self._column(beta**rested) for beta in betas]
        for part, slope, mean_faded, square_faded in self._parts(rows, gradient, *faded):
            mean = self.mean.index_select(0, part).mul_(mean_faded).add_(slope, alpha=1 - betas[0])
            square = self.square.index_select(0, part).mul_(square_faded).addcmul_(slope, slope, value=1 - betas[1])
            self.mean.index_copy_(0, part, mean)
            self.square.index_copy_(0, part, square)
            divisor = self._root(square).add_(eps * correction)
            values = self.table.index_select(0, part).mul_(1 - lr * decay)
            self.table.index_copy_(0, part, values.addcdiv_(mean, divisor, value=-rate))
        self.brought[rows] = self.stepped[rows] = step

    def _parts(self, *of_rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Tensors with an entry for each row, in parts that are computed at once."""
        size = max(1, _AT_ONCE // self.table.shape[1])
        return zip(*(tensor.split(size) for tensor in of_rows), strict=True)

    def _root(self, square: Tensor) -> Tensor:
        """The root, in place; of a denormal number, which takes a processor 40 times as long, that of the smallest
        normal one. Next to ε neither is seen."""
        return square.clamp_min_(torch.finfo(square.dtype).tiny).sqrt_()

    def _column(self, factors: Tensor) -> Tensor:
        return factors.to(self.table.dtype).unsqueeze(1)


class RowAdamW(torch.optim.AdamW):
    """AdamW whose parameters with a sparse gradient are tables, stepped row by row.

    Between steps, the rows of a table are where they were last needed: call :meth:`bring` before they are read, and
    read a whole table within :meth:`whole`.
    """

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, **options)
        self.tables: dict[Tensor, TableRows] = {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        sparse = [(table, group) for table, group in self._placed() if _is_sparse(table.grad)]
        gradients: list[Any] = [table.grad for table, _ in sparse]
        for table, _ in sparse:
            table.grad = None  # dense ones alone are stepped by AdamW itself
        super().step(closure)
        for (table, group), gradient in zip(sparse, gradients, strict=True):
            table.grad = gradient
            coalesced = gradient.coalesce()
            if table not in self.tables:
                self.tables[table] = TableRows(table, group)
            self.tables[table].step(coalesced.indices()[0], coalesced.values())

    @torch.no_grad()
    def bring(self, table: Tensor, rows: Tensor | None = None) -> None:
        """As :meth:`TableRows.bring`."""
        if table in self.tables:
            self.tables[table].bring(rows)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within it, every row of every table is where dense AdamW has it; after it, all is as before."""
        originals = {}
        with torch.no_grad():
            for table, rows in self.tables.items():
                originals[table] = table.clone()
                for part, values in rows.moved(torch.arange(len(table))):
                    table.index_copy_(0, part, values)
        try:
            yield
        finally:
            with torch.no_grad():
                for table, value in originals.items():
                    table.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """AdamW's, and of each table its rows as they are, so that going on gives the same bits."""
        state = super().state_dict()
        state["tables"] = {}
        for index, (table, _) in enumerate(self._placed()):
            if table in self.tables:
                rows = self.tables[table]
                state["tables"][index] = {"table": table.detach(), **{name: getattr(rows, name) for name in _STATE}}
        return state

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What :meth:`state_dict` gave, the tables themselves included."""
        super().load_state_dict(state_dict)
        placed = list(self._placed())
        for index, state in state_dict["tables"].items():
            table, group = placed[index]
            table.copy_(state["table"])
            rows = self.tables[table] = TableRows(table, group)
            for name in _STATE:
                setattr(rows, name, state[name])

    def _placed(self) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """The parameters in order, each with its group."""
        return ((parameter, group) for group in self.param_groups for parameter in group["params"])


def _is_sparse(gradient: Tensor | None) -> bool:
    return gradient is not None and gradient.is_sparse


def clip(parameters: Iterable[nn.Parameter], highest: float) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``highest``; sparse ones too, unlike torch's own. Gives
    the norm before."""
    values = []
    for parameter in parameters:
        if _is_sparse(parameter.grad):
            parameter.grad = parameter.grad.coalesce()  # type: ignore[union-attr]
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = get_total_norm(values)
    factor = (highest / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(factor)
    return norm
