"""Stepping the rows of a table alone gives what AdamW gives for the whole table."""

import numpy as np
import pytest
import torch
from torch import nn

from retrokit.training.rows import RowAdamW, RowBag, clip
from tests.close import assert_rounded

ROWS, DIMENSION = 40, 6


def _batches(count, seed=0, used=ROWS):
    """Token ids and offsets of bags; most tokens are rare, so that rows rest for many steps."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, used + 1) ** 1.5
    for _ in range(count):
        ids = random.choice(used, size=12, p=weights / weights.sum())
        yield torch.from_numpy(ids), torch.tensor([0, 3, 4, 9])


def _schedule(step):
    return 0.1 * min(1.0, step / 5) * (1 - step / 400)


def _tables(dtype=torch.float64):
    weights = torch.randn(ROWS, DIMENSION, generator=torch.Generator().manual_seed(1), dtype=dtype)
    dense, table = (nn.EmbeddingBag.from_pretrained(weights.clone(), freeze=False) for _ in range(2))
    return dense, RowBag(table)


def _loss(table, ids, offsets, target):
    return ((table(ids, offsets) - target) ** 2).sum()


def _train(table, optimizer, batches, target, first=0, clipped=None):
    for step, (ids, offsets) in enumerate(batches, start=first):
        for group in optimizer.param_groups:
            group["lr"] = _schedule(step)
        if isinstance(optimizer, RowAdamW):
            optimizer.bring(table.weight, ids)
        _loss(table, ids, offsets, target).backward()
        if clipped is not None:
            norm = clip(table.parameters(), clipped)
            assert norm > 0
        optimizer.step()
        optimizer.zero_grad()


def test_a_row_bag_is_an_embedding_bag():
    """Gradients by hand: of two texts, the second empty, then of both bags on many."""
    bag = RowBag(nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), freeze=False))
    made = bag(torch.tensor([3, 1, 3, 2]), torch.tensor([0, 3, 3]))
    assert made.tolist() == [[6.0], [0.0], [4.0]]
    (made * torch.tensor([[3.0], [5.0], [7.0]])).sum().backward()
    gradient = bag.weight.grad.coalesce()
    assert gradient.indices().tolist() == [[1, 2, 3]]
    assert gradient.values().tolist() == [[1.0], [7.0], [2.0]]
    dense, table = _tables()
    for ids, offsets in _batches(20, seed=8):
        for each in (dense, table):
            _loss(each, ids, offsets, 0.3).backward()
    assert_rounded(table.weight.grad.to_dense(), dense.weight.grad, dtype=np.float64)
    assert list(table.state_dict()) == list(dense.state_dict())


def test_texts_without_a_token_have_no_gradient():
    _, table = _tables()
    made = table(torch.tensor([], dtype=torch.int64), torch.tensor([0, 0]))
    assert made.tolist() == [[0.0] * DIMENSION] * 2
    made.sum().backward()
    assert table.weight.grad._nnz() == 0
    assert table.weight.grad.to_dense().abs().sum() == 0


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.7)])
def test_all_rows_end_where_dense_adamw_has_them(decay, betas):
    dense, sparse = _tables()
    target = torch.randn(4, DIMENSION, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    options = {"lr": 0.1, "weight_decay": decay, "betas": betas, "eps": 1e-14}
    plain, rows = torch.optim.AdamW(dense.parameters(), **options), RowAdamW(sparse.parameters(), **options)
    batches = list(_batches(150))
    start = sparse.weight.detach().clone()
    _train(dense, plain, batches, target)
    _train(sparse, rows, batches, target)
    late = {int(i) for ids, _ in batches[-30:] for i in ids}
    assert len(late) < ROWS, "some rows must rest for long"
    with rows.whole():
        assert torch.allclose(dense.weight, sparse.weight, rtol=0, atol=1e-9)
        assert (sparse.weight - start).abs().max() > 0.5
    assert not torch.allclose(dense.weight, sparse.weight, rtol=0, atol=1e-9), "outside, resting rows lag"
    rows.bring(sparse.weight)
    assert torch.allclose(dense.weight, sparse.weight, rtol=0, atol=1e-9)


def test_rows_that_never_occur_only_decay():
    _, table = _tables()
    start = table.weight.detach().clone()
    rows = RowAdamW(table.parameters(), lr=0.1, weight_decay=0.3)
    _train(table, rows, _batches(20, used=10), torch.zeros(4, DIMENSION, dtype=torch.float64))
    expected = np.prod([1 - 0.3 * _schedule(step) for step in range(20)])
    rows.bring(table.weight)
    assert torch.allclose(table.weight[10:], start[10:] * expected, rtol=1e-12)


def test_going_on_from_a_saved_state_gives_the_same_bits(tmp_path):
    target = torch.zeros(4, DIMENSION)
    batches = list(_batches(60))

    def fresh():
        table = _tables(torch.float32)[1]
        return table, RowAdamW(table.parameters(), lr=0.1, weight_decay=0.01)

    whole, optimizer = fresh()
    _train(whole, optimizer, batches, target)
    optimizer.bring(whole.weight)

    first, before = fresh()
    _train(first, before, batches[:25], target)
    torch.save(before.state_dict(), tmp_path / "optimizer.pt")
    second, after = fresh()
    after.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    _train(second, after, batches[25:], target, first=25)
    after.bring(second.weight)
    assert torch.equal(whole.weight, second.weight)


@pytest.mark.parametrize("highest", [0.01, 1.0, 1e9])
def test_clipping_is_torchs_for_dense_gradients(highest):
    dense, sparse = _tables()
    ids, offsets = next(_batches(1))
    target = torch.zeros(4, DIMENSION, dtype=torch.float64)
    for table in (dense, sparse):
        _loss(table, ids, offsets, target).backward()
    expected = torch.nn.utils.clip_grad_norm_(dense.parameters(), highest)
    assert clip(sparse.parameters(), highest) == pytest.approx(float(expected))
    assert_rounded(sparse.weight.grad.to_dense(), dense.weight.grad, dtype=np.float64)


def test_the_factors_follow_their_definition():
    _, table = _tables()
    rows = RowAdamW(table.parameters(), lr=0.1, weight_decay=0.3)
    _train(table, rows, _batches(12), torch.zeros(4, DIMENSION, dtype=torch.float64))
    (state,) = rows.tables.values()
    kept = [1 - 0.3 * _schedule(step) for step in range(12)]
    rates = [_schedule(k - 1) * (1 - 0.999**k) ** 0.5 / (1 - 0.9**k) for k in range(1, 13)]
    for since in (0, 7, 12):
        drift = sum(rates[k - 1] * (0.9 / 0.999**0.5) ** (k - since) * np.prod(kept[k:]) for k in range(since + 1, 13))
        assert state.decay[since].item() == pytest.approx(np.prod(kept[since:]), rel=1e-12)
        assert state.drift[since].item() == pytest.approx(drift, rel=1e-12)


def test_epsilon_is_adamws():
    """Of every row in every step, and of one that rests, as it was at its last step."""
    dense, table = _tables()
    options = {"lr": 0.1, "weight_decay": 0.0, "betas": (0.9, 0.999), "eps": 0.1}
    plain, rows = torch.optim.AdamW(dense.parameters(), **options), RowAdamW(table.parameters(), **options)
    batches = [(torch.arange(ROWS), torch.tensor([0, 3, 4, 9]))] * 5
    target = torch.zeros(4, DIMENSION, dtype=torch.float64)
    _train(dense, plain, batches, target)
    _train(table, rows, batches, target)
    assert torch.allclose(table.weight, dense.weight, rtol=0, atol=1e-12)
    (state,) = rows.tables.values()
    before = table.weight[9].detach().clone()
    with torch.no_grad():
        state.step(torch.tensor([0]), torch.ones(1, DIMENSION, dtype=torch.float64))
        state.bring()
    divisor = state.square[9].sqrt() + 0.1 * (1 - 0.999**5) ** 0.5
    expected = state.decay[5] * before - state.drift[5] * state.mean[9] / divisor
    assert torch.allclose(table.weight[9], expected, rtol=0, atol=1e-12)


def test_all_is_as_before_where_a_reader_of_the_whole_fails():
    _, table = _tables()
    rows = RowAdamW(table.parameters(), lr=0.1, weight_decay=0.3)
    _train(table, rows, _batches(10, used=5), torch.zeros(4, DIMENSION, dtype=torch.float64))
    before = table.weight.detach().clone()

    def read() -> None:
        with rows.whole():
            assert not torch.equal(table.weight, before)
            raise KeyError

    with pytest.raises(KeyError):
        read()
    assert torch.equal(table.weight, before)


def test_a_table_may_be_in_any_group():
    _, table = _tables()
    other = nn.Parameter(torch.ones(2, dtype=torch.float64))
    rows = RowAdamW([{"params": [other], "lr": 0.5}, {"params": [table.weight], "lr": 0.25}], weight_decay=0.0)
    start = table.weight.detach().clone()
    (_loss(table, torch.tensor([3]), torch.tensor([0]), 9.0) + other.sum()).backward()
    rows.step()
    assert torch.allclose(other, torch.full_like(other, 0.5))
    assert torch.allclose(table.weight[3], start[3] + 0.25)
    assert [*rows.state_dict()["tables"]] == [1]
