"""Records on disk: as a list would be, in a few bytes of memory a record."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import DataError
from retrokit.data import records
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_source
from retrokit.data.records import RecordStore, pair_codes, text_id
from retrokit.data.training_rows import Pair


def store_of(items):
    return RecordStore(list, tuple, items)


@given(st.lists(st.lists(st.text(max_size=5), max_size=3).map(tuple)))
def test_a_store_is_a_list(items):
    store = store_of(items)
    assert list(store) == items
    assert [store[i] for i in range(-len(items), len(items))] == [*items, *items]
    assert store[1:3] == items[1:3]
    with pytest.raises(IndexError):
        store[len(items)]


@given(st.lists(st.sampled_from([("a",), ("b",), ("a", "b"), ("ab",)])))
def test_duplicates_leave_the_first(items):
    store = store_of(items)
    kept = list(dict.fromkeys(items))
    assert store.drop_duplicates() == len(items) - len(kept)
    assert list(store) == kept
    assert list(store.chosen(range(0, len(kept), 2))) == kept[::2]


def test_ids_and_codes_are_the_same_for_arrays_and_tensors():
    ids = [text_id(text) for text in ("", "a", "b", "\ud800")]
    assert len(set(ids)) == 4
    assert all(0 <= number < 2**63 for number in ids)
    array = np.array(ids, dtype=np.int64)
    table = pair_codes(array[:, None], array[None, :])
    assert len(np.unique(table)) == 16  # the order of the two counts
    tensor = torch.from_numpy(array)
    assert torch.equal(pair_codes(tensor[:, None], tensor[None, :]), torch.from_numpy(table))


def test_large_data_lie_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "IN_MEMORY", 10_000)
    path = tmp_path / "pairs.jsonl"
    count = 4000
    write_jsonl(path, ({"anchor": f"{i} " + "x" * 1000, "positive": f"{i} " + "y" * 1000} for i in range(count)))
    tracemalloc.start()
    source = read_source(str(path), "pairs")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(source.records) == count
    assert source.records[count - 1] == Pair(f"{count - 1} " + "x" * 1000, f"{count - 1} " + "y" * 1000)
    assert held < 100 * count  # the texts alone are 2,000 bytes a record
    assert peak < 300 * count


def test_a_full_disk_is_one_line(monkeypatch):
    store = store_of([("a",)])

    def full(data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store._file, "write", full)
    with pytest.raises(DataError, match=r"temporary file in .* could not be written: No space left on device"):
        store.append(("b",))
