"""Which examples stand together, and what the model sees of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler

from retrokit.core.errors import UsageError
from retrokit.data.images import Image
from retrokit.data.pairs import Source
from retrokit.data.training_rows import Pair, text_id
from retrokit.training.batches import Batches, Collator, Prefetcher, TrainingSet
from tests.codes import codes


def source(name: str, count: int, weight: float = 1.0, **prompts) -> Source:
    records = [Pair(f"{name} query {i}", f"{name} document {i}") for i in range(count)]
    known = {record.anchor: {record.positive} for record in records}
    options = {"query_prompt": None, "document_prompt": None} | prompts
    return Source(name, name, records, weight, digest="sha256:0", positives=codes(known), counts={}, **options)


def epoch(batches: Batches, number: int = 0) -> list[list[int]]:
    batches.set_epoch(number)
    return list(batches)


def test_an_epoch_is_a_function_of_the_seed_and_its_number():
    data = TrainingSet([source("a", 40)])
    first = epoch(Batches(data, 8, seed=1), 3)
    again = Batches(data, 8, seed=1)
    epoch(again, 0)
    assert epoch(again, 3) == first
    assert epoch(again, 4) != first
    assert epoch(Batches(data, 8, seed=2), 3) != first


def test_every_record_comes_once_an_epoch_but_for_the_last_incomplete_batch():
    batches = Batches(TrainingSet([source("a", 43)]), 8, seed=0)
    seen = [index for batch in epoch(batches) for index in batch]
    assert len(seen) == len(set(seen)) == 40
    assert len(batches) == 5
    left_out = {frozenset(set(range(43)) - {i for batch in epoch(batches, n) for i in batch}) for n in range(5)}
    assert len(left_out) > 1


def test_a_batch_holds_one_source_and_sources_mix_by_size_and_weight():
    data = TrainingSet([source("a", 80), source("b", 40, weight=3.0), source("c", 80, weight=0.5)])
    batches = epoch(Batches(data, 8, seed=0))
    names = [{data.sources[data[i].source].name for i in batch} for batch in batches]
    assert all(len(name) == 1 for name in names)
    assert Counter(next(iter(name)) for name in names) == {"a": 10, "b": 15, "c": 5}
    order = [next(iter(name)) for name in names]
    assert order != sorted(order)
    times = Counter(i for batch in batches for i in batch if data[i].source == 1)
    assert set(times.values()) == {3}


def test_a_mixture_is_one_pool_with_sources_by_size_and_weight_in_each_batch():
    data = TrainingSet([source("a", 80), source("b", 40, weight=2.0), source("c", 80, weight=0.5)])
    mixed = Batches(data, 20, seed=0, mix=True)
    epochs = [epoch(mixed, number) for number in range(2)]
    assert epochs[0] == epoch(Batches(data, 20, seed=0, mix=True)) != epochs[1]
    assert [len(batch) for batch in epochs[0]] == [20] * 10
    counts = [Counter(data[i].source for i in batch) for batch in epochs[0]]
    assert all(count.keys() == {0, 1, 2} for count in counts)
    assert sum(counts, Counter()) == {0: 80, 1: 80, 2: 40}
    times = Counter(i for batch in epochs[0] for i in batch)
    assert {times[i] for i in range(80)} == {1}
    assert {times[i] for i in range(80, 120)} == {2}
    parts = [epoch(Batches(data, 10, 0, rank, 2, mix=True)) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == epochs[0]


def test_a_part_of_the_records_is_rounded_down():
    """Half of seven are three, in a mixture as alone."""
    data = TrainingSet([source("a", 7, weight=0.5), source("b", 7)])
    (batch,) = epoch(Batches(data, 10, seed=0, mix=True))
    assert Counter(data[i].source for i in batch) == {0: 3, 1: 7}
    with pytest.raises(UsageError, match=r"a batch of 11 is larger than its 14 records at weight 0\.5, 1"):
        Batches(data, 11, seed=0, mix=True)
    with pytest.raises(UsageError, match=r"a batch of 4 is larger than its 7 records at weight 0\.5"):
        Batches(TrainingSet([source("a", 7, weight=0.5)]), 4, seed=0)


def test_processes_get_equal_parts_of_the_joint_batch():
    data = TrainingSet([source("a", 50), source("b", 30)])
    joint = epoch(Batches(data, 8, seed=5))
    parts = [epoch(Batches(data, 4, seed=5, rank=rank, world=2)) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == joint


def repetitive(seed: int, count: int = 200, **weight: float) -> Source:
    """Pairs some of which share an anchor, a positive or a negative, which may be an anchor elsewhere."""
    random = np.random.default_rng(seed)
    texts = [f"text {i}" for i in range(count)]

    def text(place: int) -> str:
        return texts[int(random.zipf(1.7)) % 7 if random.random() < 0.1 else place]

    records = [
        Pair(text(i), text(i) + " positive", tuple(text(int(j)) for j in random.integers(count, size=i % 3)))
        for i in range(count)
    ]
    return replace(source("a", 1, **weight), records=records)


def texts_twice(data: TrainingSet, batch: list[int]) -> list[int]:
    counts = Counter(text for i in batch for text in {data[i].anchor_id, *data[i].document_ids})
    return [text for text, count in counts.items() if count > 1]


@pytest.mark.parametrize("weight", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_no_text_stands_in_two_examples_of_a_batch(seed, weight):
    data = TrainingSet([repetitive(seed, weight=weight), source("b", 30)])
    assert any(texts_twice(data, batch) for batch in epoch(Batches(data, 8, seed)))
    batches = Batches(data, 8, seed, no_duplicates=True)
    epochs = [epoch(batches, number) for number in range(20)]
    assert {len(one) for one in epochs} == {len(batches)}, "a resumed run counts them"
    for one in epochs:
        assert {len(batch) for batch in one} == {8}
        assert not any(texts_twice(data, batch) for batch in one)
        assert {len({data[i].source for i in batch}) for batch in one} == {1}
    assert max(Counter(i for batch in epochs[0] for i in batch).values()) == max(1, int(weight))
    assert len({tuple(map(tuple, one)) for one in epochs}) == 20
    parts = [epoch(Batches(data, 4, seed, rank, 2, no_duplicates=True), 3) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == epochs[3]


@pytest.mark.parametrize("seed", range(3))
def test_without_duplicates_as_many_batches_as_in_sentence_transformers(seed):
    data = TrainingSet([repetitive(seed)])
    ours = Batches(data, 8, seed, no_duplicates=True)
    most = max(len(record.negatives) for record in data.sources[0].records)
    rows = [[text_id(text) for text in (r.anchor, r.positive, *r.negatives)] for r in data.sources[0].records]
    columns = {f"text {i}": [row[i % len(row)] for row in rows] for i in range(2 + most)}
    theirs = NoDuplicatesBatchSampler(Dataset.from_dict(columns), 8, drop_last=True, generator=torch.Generator())
    numbers = {i: set(row) for i, row in enumerate(rows)}
    found = list(theirs._iter_one_pass(numbers.get, lambda own, batch: not own.isdisjoint(batch)))
    assert not any(texts_twice(data, batch) for batch in found)
    assert len(found) <= len(ours) + 1, "of which one is left to chance"
    assert len(ours) <= len(theirs)


def test_what_fits_into_no_batch_without_duplicates_is_said(caplog):
    caplog.set_level("INFO", "retrokit")
    hub = [Pair("the same", f"document {i}") for i in range(30)]
    records = [*hub, *source("a", 21).records]
    batches = Batches(TrainingSet([replace(source("a", 1), records=records)]), 8, 0, no_duplicates=True)
    assert len(batches) == 3, "each with the one that all share, and 7 of 21 others"
    assert caplog.messages == ["a: 27 of 51 examples fit into no batch of an epoch without duplicates"]
    with pytest.raises(UsageError, match="a: its 30 records fill no batch of 8 without duplicates"):
        Batches(TrainingSet([replace(source("a", 1), records=hub)]), 8, 0, no_duplicates=True)


def test_the_collator_puts_prompts_by_source_and_role():
    seen = []

    def preprocess(texts, prompt, task, **options):
        seen.append((task, prompt, list(texts), options))
        return {"input_ids": torch.zeros(len(texts), 1)}

    plain, prompted = source("a", 2), source("b", 2, query_prompt="find: ")
    data = TrainingSet([plain, prompted])
    collator = Collator(preprocess, data.sources, {"query": "q: ", "document": None}, max_length=7)
    collator([data[0], data[1]])
    batch = collator([data[2], data[3]])
    assert seen == [
        ("query", "q: ", ["a query 0", "a query 1"], {"max_length": 7}),
        ("document", None, ["a document 0", "a document 1"], {"max_length": 7}),
        ("query", "find: ", ["b query 0", "b query 1"], {"max_length": 7}),
        ("document", None, ["b document 0", "b document 1"], {"max_length": 7}),
    ]
    assert batch["query"]["task"] == "query"


def test_documents_are_the_positives_then_all_negatives():
    records = [Pair("q1", "p1", ("n1", "n2")), Pair("q2", "p2"), Pair("q3", "p3", ("p1",))]
    made = Source("t", "t", records, 1.0, None, None, "sha256:0", codes({r.anchor: {r.positive} for r in records}), {})
    texts = []

    def preprocess(given, prompt, task):
        texts.append(list(given))
        return {"input_ids": torch.zeros(len(given), 1)}

    data = TrainingSet([made])
    batch = Collator(preprocess, data.sources, {"query": None, "document": None}, None)([data[i] for i in range(3)])
    assert texts == [["q1", "q2", "q3"], ["p1", "p2", "p3", "n1", "n2", "p1"]]
    ids = batch["document"]["text_ids"].tolist()
    assert ids[0] == ids[5]
    assert len(set(ids)) == 5


def test_batches_are_made_ahead_in_order():
    made: list[int] = []

    def batches() -> Iterator[int]:
        for number in range(4):
            made.append(number)
            yield number

    ahead = Prefetcher(batches())
    ahead.wait()
    assert made == [0]
    assert next(ahead) == 0
    ahead.wait()
    assert made == [0, 1]
    assert list(ahead) == [1, 2, 3]
    assert list(ahead) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_record_that_is_taken_twice_is_not_twice_in_a_batch(seed):
    batches = Batches(TrainingSet([source("a", 9, weight=2.0)]), 6, seed, no_duplicates=True)
    assert [len(set(batch)) for number in range(5) for batch in epoch(batches, number)] == [6] * 5 * len(batches)


def test_a_batch_of_several_processes_or_sources_that_is_too_large_is_named():
    data = TrainingSet([source("a", 7), source("b", 5)])
    with pytest.raises(UsageError, match=r"^a: a batch of 4 × 2 processes is larger than its 7 records; give"):
        Batches(data, 4, seed=0, world=2)
    with pytest.raises(UsageError, match=r"^a \+ b: a batch of 13 is larger than its 12 records; give"):
        Batches(data, 13, seed=0, mix=True)


def test_a_mixture_has_one_pair_of_prompts_and_one_kind_of_items():
    prompted = source("b", 5, document_prompt="passage: ")
    with pytest.raises(UsageError, match=r"the sources differ in their prompts; a batch has one"):
        Batches(TrainingSet([source("a", 5), prompted]), 4, seed=0, mix=True)
    pictures = [Pair(Image(f"i{i}", "digest", ("file", i)), f"caption {i}") for i in range(5)]
    with pytest.raises(UsageError, match=r"the sources differ in their kinds of items; a batch has one"):
        Batches(TrainingSet([source("a", 5), replace(source("b", 5), records=pictures)]), 4, seed=0, mix=True)


def test_the_mask_follows_from_epoch_role_and_texts():
    keys = []

    def masking(features, key):
        keys.append(key)
        return features["input_ids"]

    def preprocess(texts, prompt, task):
        return {"input_ids": torch.zeros(len(texts), 1)}

    data = TrainingSet([source("a", 2)])
    data.epoch = 3
    examples = [data[0], data[1]]
    Collator(preprocess, data.sources, {"query": None, "document": None}, None, masking)(examples)
    ids = [example.anchor_id for example in examples]
    assert keys == [(3, "query", *ids), (3, "document", *ids)]
