"""Long texts: which are cut, chunks by tokens, and what is made of the chunks."""

import random
from itertools import chain, pairwise

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders import engine
from retrokit.encoders.chunks import best_chunks
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.ranking.retrieval.base import TextList
from tests.evaluation.fakes import write_lines
from tests.models import WORDS, sentences

WORDY = " ".join(random.Random(1).choices(WORDS, k=150))
LONG = [WORDY, "the cat", "", WORDY[::-1], "x" * 300, *sentences(6), " ".join(sentences(9, seed=2)), "猫 " * 40]
ENCODERS = ["{bert}", "static:dim=8,tokenizer={bert}", "{llama},pooling=last", '{bert},document_prompt="a dog "']


def made(spec: str, tiny_bert, tiny_llama, more: str = ""):
    spec = spec.format(bert=tiny_bert, llama=tiny_llama)
    return retrokit.encoder(f"{spec},{more}" if more else spec)


@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("spec", ENCODERS)
def test_chunks_hold_all_words_and_no_more_tokens_than_asked(spec, overlap, tiny_bert, tiny_llama):
    encoder = made(spec, tiny_bert, tiny_llama, f"chunks=16,overlap={overlap}")
    plain = made(spec, tiny_bert, tiny_llama).to_train().model
    for text in LONG:
        chunks, counts = encoder.split([text])
        assert counts.tolist() == [len(chunks)]
        if text in (WORDY, LONG[-2]):
            assert len(chunks) > 3
        if overlap == 0:
            assert "".join("".join(chunks).split()) == "".join(text.split())
        elif text == WORDY:
            assert all(two.split()[0] in one.split() for one, two in pairwise(chunks))
        for chunk in chunks:
            features = plain.preprocess([chunk], prompt=plain.prompts.get("document"), task="document")
            assert features["input_ids"].numel() <= 16
            if "x" not in text and "llama" not in spec:
                assert set(chunk.split()) <= set(text.split())  # words stay whole


def test_tokens_of_a_text_that_goes_to_the_tokenizer_in_pieces_are_those_of_the_whole(tiny_bert, monkeypatch):
    encoder = retrokit.encoder(f"{tiny_bert},chunks=16,overlap=3")
    expected = encoder.split([WORDY])[0]
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    monkeypatch.setattr(engine, "PIECE", 50)
    assert retrokit.encoder(f"{tiny_bert},chunks=16,overlap=3").split([WORDY])[0] == expected


@pytest.mark.parametrize("spec", [*ENCODERS, "{bert},max_length=9", "static:dim=8,tokenizer={bert},max_length=9"])
def test_a_text_is_cut_where_the_library_counts_fewer_tokens_than_it_has(spec, tiny_bert, tiny_llama):
    encoder = made(spec, tiny_bert, tiny_llama)
    model = encoder.to_train().model
    limit, texts = encoder.max_length("document"), [*LONG, WORDY * 20]
    whole = [model.tokenizer.encode((encoder.prompts["document"] or "") + text) for text in texts]
    parts = [[one] if isinstance(one, list) else [one.ids, *(more.ids for more in one.overflowing)] for one in whole]
    lengths = [len(list(chain(*ids))) for ids in parts]
    if spec.startswith("static"):
        lengths = [length - 2 for length in lengths]  # it takes no special tokens
    expected = [limit is not None and length > limit for length in lengths]
    assert encoder.cut(texts, "document").tolist() == expected
    assert encoder.cut(texts, "document").tolist() == expected  # from the cache
    assert any(expected) == (limit is not None)


@pytest.mark.parametrize("spec", ENCODERS)
def test_mean_is_the_mean_of_the_chunks(spec, tiny_bert, tiny_llama):
    encoder = made(spec, tiny_bert, tiny_llama, "chunks=16,overlap=3,pool=mean")
    plain = made(spec, tiny_bert, tiny_llama)
    chunks = made(spec, tiny_bert, tiny_llama, "chunks=16,overlap=3")
    expected = np.stack([plain.embed(chunks.split([text])[0], "document", "fp32").mean(axis=0) for text in LONG])
    np.testing.assert_allclose(encoder.embed(LONG, "document", "fp32"), expected, rtol=1e-4, atol=1e-5)
    queries = plain.embed(LONG, "query", "fp32")
    np.testing.assert_allclose(encoder.embed(LONG, "query", "fp32"), queries, rtol=1e-4, atol=1e-5)


SIMILARITIES = ["cosine", "dot", "dnorm", "l2", "sfs:4"]


@pytest.mark.parametrize("sim", SIMILARITIES)
def test_the_best_chunk_decides_as_in_the_full_matrix(sim, tiny_bert):
    documents, queries = TextList(LONG * 2), TextList(sentences(7, seed=4))
    spec = f"{tiny_bert},chunks=16,overlap=3"
    index = retrokit.ranking.retrieval.create(spec, sim=sim, precision="fp32").index(documents)
    chunked, plain, similarity = retrokit.encoder(spec), retrokit.encoder(str(tiny_bert)), retrokit.similarity(sim)
    asked = plain.embed(queries, "query", "fp32")
    best = np.stack(
        [
            similarity.score(asked, plain.embed(chunked.split([text])[0], "document", "fp32")).amax(1)
            for text in documents
        ],
        axis=1,
    )
    for k in (1, 4, 100):
        for row, (scores, places) in enumerate(index.search(queries, k)):
            assert len(places) == min(k, len(documents)) == len(set(places.tolist()))
            np.testing.assert_allclose(scores, best[row, places], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(scores, np.sort(best[row])[::-1][: len(scores)], rtol=1e-4, atol=1e-5)
            twins = {place % len(LONG): place for place in reversed(places.tolist())}
            assert all(first < len(LONG) for first in twins.values())  # of equal scores the lower position first
    pairs = TextList([query for query in queries for _ in documents]), TextList([*documents] * len(queries))
    np.testing.assert_allclose(index.score_pairs(*pairs), best.ravel(), rtol=1e-4, atol=1e-5)


def test_many_chunks_of_one_document_leave_room_for_others():
    owner = np.repeat([0, 1, 2], [50, 1, 1])
    scores = np.concatenate([np.full(50, 9.0), [1.0, 2.0]])
    depths = []

    def search(queries, k):
        depths.append(k)
        order = np.lexsort([np.arange(52), -scores])[:k]
        return [(scores[order], order)] * len(queries)

    ((found, documents),) = best_chunks(search, np.zeros((1, 2)), 2, owner)
    assert (documents.tolist(), found.tolist()) == ([0, 2], [9.0, 2.0])
    assert depths[0] < 52
    assert depths[-1] == 52


WRONG = {
    "chunks=65": "chunks of 65 tokens are longer than the 64 that count",
    "chunks=16,overlap=14": "must hold more than their overlap of 14 and 2 special tokens",
    "overlap=3": "give chunks=N too",
    "pool=mean": "give chunks=N too",
    "chunks=0": "out of range",
}


@pytest.mark.parametrize("options", WRONG)
def test_chunks_that_do_not_fit_are_one_clear_line(options, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=WRONG[options]):
        retrokit.encoder(f"{tiny_bert},{options}")


def test_a_task_that_does_not_search_takes_the_mean_alone(tiny_bert, tmp_path):
    rows = [{"sentence1": WORDY, "sentence2": text, "score": number} for number, text in enumerate(sentences(5))]
    task = tasks.create(f"sts:{write_lines(tmp_path / 'sts.jsonl', rows)}")
    cosine = [retrokit.similarity("cosine")]
    with pytest.raises(UsageError, match="take pool=mean"):
        task.evaluate(Request(retrokit.encoder(f"{tiny_bert},chunks=16"), cosine))
    (result,) = task.evaluate(Request(retrokit.encoder(f"{tiny_bert},chunks=16,pool=mean"), cosine))
    assert result.counts["texts_cut"] == 0
    (result,) = task.evaluate(Request(retrokit.encoder(str(tiny_bert)), cosine))
    assert result.counts["texts_cut"] > 0
