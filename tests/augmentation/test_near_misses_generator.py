"""The stream of near-misses: draws, quotas, splits, duplicates, and what is dropped; with small made-up families."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from retrokit.augmentation.edits.family import Family, Rewriting, load_families
from retrokit.augmentation.edits.generator import NearMiss, Text, near_misses
from retrokit.augmentation.edits.running_text import RULES, why_not
from retrokit.augmentation.edits.subject import Subject
from retrokit.augmentation.settings import NearMissSettings
from retrokit.core.errors import UsageError
from tests.close import LEAST_P

pytest.importorskip("HanTa", reason="of the extra negatives")

NAMES = ["Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Irene", "Jacob"]
THINGS = ["apple", "basket", "candle", "drum", "engine", "fiddle", "garden", "hammer", "island", "jacket"]
SENTENCES = [f"{name} sees the {thing} in the house." for name, thing in itertools.product(NAMES, THINGS)]


def deny(subject: Subject) -> Iterator[Rewriting]:
    """One edit of every sentence."""
    yield Rewriting("insert-not", subject.query.replace("sees", "does not see"))


def move(subject: Subject) -> Iterator[Rewriting]:
    """Nine edits of one kind, and one of another."""
    for place in "barn shed hall yard tent cave boat shop park".split():
        yield Rewriting("change-place", subject.query.replace("house", place))
    yield Rewriting("change-preposition", subject.query.replace(" in ", " near "))


DENY, MOVE = Family("deny", deny), Family("move", move)
BOTH = [DENY, MOVE]


@pytest.mark.parametrize("paraphrase", [None, "Both of them see the apple."])
def test_the_triplet_of_comp_and_pairs_that_keep_their_paraphrase(paraphrase: str | None) -> None:
    text = "Anna sees the apple in the house."
    [(split, miss)] = near_misses([text if paraphrase is None else (text, paraphrase)], [DENY])
    negative = "Anna does not see the apple in the house."
    assert (split, miss) == ("train", NearMiss(text, paraphrase or text, (negative,), "deny", "insert-not"))
    assert miss.to_json()["negatives"] == [negative]


def test_a_text_is_cut_and_every_family_has_its_turn() -> None:
    counts: Counter[str] = Counter()
    found = list(near_misses([" ".join(SENTENCES[:3]) + "\nHello."], BOTH, counts=counts))
    assert [(miss.anchor, miss.family) for _, miss in found] == list(itertools.product(SENTENCES[:3], ["deny", "move"]))
    assert counts == {"texts": 1, "sentences": 4, "short": 1, "deny/train": 3, "move/train": 3}


def test_a_draw_depends_on_the_seed_and_the_sentence_alone() -> None:
    forward = {miss.anchor: miss for _, miss in near_misses(SENTENCES, [MOVE], seed=3)}
    backward = {miss.anchor: miss for _, miss in near_misses(SENTENCES[::-1], BOTH, seed=3) if miss.family == "move"}
    assert forward == backward
    assert forward != {miss.anchor: miss for _, miss in near_misses(SENTENCES, [MOVE], seed=4)}


def test_the_kind_is_drawn_before_the_edit() -> None:
    kinds = Counter(miss.edit for _, miss in near_misses(SENTENCES, [MOVE]))
    assert kinds.total() == len(SENTENCES)
    drawn = binomtest(kinds["change-preposition"], len(SENTENCES), 1 / 2)  # a tenth of the edits, half of the kinds
    assert drawn.pvalue > LEAST_P


def test_quotas_are_exact() -> None:
    counts: Counter[str] = Counter()
    found = list(near_misses(SENTENCES, BOTH, per_family=21, split=0.8, counts=counts))
    assert Counter((split, miss.family) for split, miss in found) == {
        ("train", "deny"): 17,
        ("train", "move"): 17,
        ("test", "deny"): 4,
        ("test", "move"): 4,
    }
    assert not [key for key in counts if key.startswith("missing")]


def drawn(texts: Sequence[str], seed: int = 0) -> list[str]:
    return [miss.anchor for _, miss in near_misses(texts, BOTH[:1], seed=seed, per_family=20)]


def test_a_quota_is_drawn_from_all_texts_by_the_seed() -> None:
    """Of sentences in any order, in texts of any length, the same come out; they are not those at the head."""
    chosen = drawn(SENTENCES)
    assert len({*chosen}) == 20
    numbers = sorted(SENTENCES.index(anchor) for anchor in chosen)
    thirds = [sum(number * 3 // len(SENTENCES) == third for number in numbers) for third in range(3)]
    assert min(thirds) >= 2
    assert drawn(SENTENCES[::-1]) == chosen
    assert drawn([" ".join(SENTENCES[at : at + 7]) for at in range(0, len(SENTENCES), 7)]) == chosen
    assert drawn(SENTENCES, seed=1) != chosen


def test_a_language_model_is_asked_for_drawn_sentences_only() -> None:
    """With a quota nothing but the drawn sentences is read ahead, until the quota is full."""
    asked: list[object] = []

    def ahead(texts: Iterable[Text]) -> Iterator[Text]:
        for text in texts:
            asked.append(text)
            yield text

    found = list(near_misses(SENTENCES, BOTH[:1], per_family=5, ahead=ahead))
    assert [(miss.anchor, miss.positive) for _, miss in found] == asked[:5]
    assert len(asked) < len(SENTENCES)


def test_no_sentence_is_in_both_splits_even_as_a_negative() -> None:
    """Each sentence's near-miss is another sentence of the input, whose own split may be the other one."""

    def rotate(subject: Subject) -> Iterator[Rewriting]:
        yield Rewriting("next", SENTENCES[(SENTENCES.index(subject.query) + 1) % len(SENTENCES)])

    counts: Counter[str] = Counter()
    found = list(near_misses(SENTENCES, [Family("rotate", rotate)], split=0.5, counts=counts))
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for split, miss in found:
        texts[split] |= {miss.anchor, miss.positive, *miss.negatives}
    assert texts["train"]
    assert texts["test"]
    assert not texts["train"] & texts["test"]
    assert counts["both-splits"] == len(SENTENCES) - len(found) > 0


def test_no_paraphrase_is_in_both_splits() -> None:
    """All sentences have one paraphrase, which stays in the split of the first."""
    counts: Counter[str] = Counter()
    found = list(
        near_misses([(text, "Somebody sees a thing in there.") for text in SENTENCES], [DENY], split=0.5, counts=counts)
    )
    first = found[0][0]
    assert {split for split, _ in found} == {first}
    assert len(found) == counts[f"deny/{first}"] > 0
    assert counts["both-splits"] == len(SENTENCES) - len(found) > 0


def test_no_pair_twice_in_either_order() -> None:
    def swap(subject: Subject) -> Iterator[Rewriting]:
        there, back = SENTENCES[0], SENTENCES[1]
        yield Rewriting("swap", back if subject.query == there else there)

    counts: Counter[str] = Counter()
    found = list(
        near_misses(
            [*SENTENCES[:2], SENTENCES[0].upper().capitalize(), SENTENCES[0]], [Family("swap", swap)], counts=counts
        )
    )
    assert [miss.anchor for _, miss in found] == [SENTENCES[0]]
    assert counts["repeated"] == 1
    assert counts["duplicate"] == 2


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("The cat is here.", "short"),
        ("Incomprehensibilities notwithstanding everything.", "few-words"),
        ("The cat sees the dog " + "and the very old bird " * 20 + "here.", "long"),
        ("It is the cityâ\x80\x99s oldest house of all.", "broken"),
        ("It is a house that was built in the…", "broken"),
        ("The cat was seen in the old house by the girl that lives there and", "broken"),
        (", which is why the cat sleeps in the box.", "broken"),
        ("RESULTS The cat sleeps in the box of the girl.", "run-on"),
        ("The cat sleeps in the box. The dog does not.", "run-on"),
        ("The cat sleeps in the box The dog does not sleep.", "run-on"),
        ("The cat sees 12 34 dogs and the the bird.", "run-on"),
        ("box : str, optional The cat sleeps in the box.", "run-on"),
        ("box: The cat sleeps in the box.", "run-on"),
        ("Returns: The cat that sleeps in the box.", "run-on"),
        ("BoxError: The cat sleeps in the box.", "run-on"),
        ("The cat sleeps in the box name (str): a word.", "run-on"),
        ("The cat sleeps in the box - The dog does not sleep.", "run-on"),
        ("The cat sleeps in the box if it rains 4.", "run-on"),
        ("The cat sleeps in the box; 2.", "run-on"),
        ("box.Error: The cat sleeps in the box.", "run-on"),
        ("The number of cats is greater than 4.", None),
        ("Box` is in the house `Cat` and sleeps.", "brackets"),
        ("The cat sleeps in the (cid:12) box of the girl.", "broken"),
        ("The cat sleeps in the box of the nn.", "broken"),
        ("The cat never sleeps, i.e. it is always awake.", "restated"),
        ("See the page at www.example.com for more of it.", "link"),
        ("We show that $\\alpha$ is a constant of the model.", "markup"),
        ("Use the <b>bold</b> words of the text here.", "markup"),
        ("The table: 1.2 3.4 5.6 7.8 9.0 1.1 2.2 3.3", "symbols"),
        ("The cat (which is old sleeps in the box.", "brackets"),
        ('He said "the cat sleeps in the box.', "brackets"),
        ("He said 'the cat sleeps in the box.", "brackets"),
        ("Dog` is in the box that the cat sees.", "brackets"),
        ("The History Of Modern Architecture In Europe", "capitals"),
        ("Der Hund schläft heute wieder lange.", "language"),
        ("The price is $5 million (about 3%) for the house.", None),
        ('He said "the cat" is in the box.', None),
        ("The dogs' house is next to the 'red' box of the girl.", None),
        ("Vitamins B and C are in the box", None),
        ("Dr. Smith was in the house of the girl.", None),
        ("Vitamin A deficiency is common in the world.", None),
        ("He said that that was the cat in the box.", None),
    ],
)
def test_what_is_no_running_text_is_named(sentence: str, rule: str | None) -> None:
    assert why_not(sentence) == rule
    assert rule is None or rule in RULES


def test_a_negative_that_is_the_paraphrase_is_none() -> None:
    counts: Counter[str] = Counter()
    pair = ("Anna sees the apple in the house.", "Anna does not see the apple in the house.")
    assert list(near_misses([pair], [DENY], counts=counts)) == []
    assert counts["unchanged"] == 1


def test_wrong_use_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match=r"'x'; known: negation, binding, .*\n.* 'spacial' \(did you mean spatial\b"):
        load_families(["x", "spacial", "spatial"])
    with pytest.raises(UsageError, match="named twice: spatial, spatial"):
        load_families(["spatial", "spatial"])
    with pytest.raises(UsageError, match="`per_family=` 0 is out of range"):
        NearMissSettings("a.jsonl", per_family=0)
    with pytest.raises(UsageError, match=r"`split=` 1\.0 must be below 1"):
        NearMissSettings("a.jsonl", "b.jsonl", split=1.0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(SENTENCES), max_size=60),
    st.integers(0, 99),
    st.one_of(st.none(), st.integers(1, 12)),
    st.one_of(st.none(), st.floats(0.05, 0.95)),
)
def test_what_holds_for_all_input(texts: list[str], seed: int, per_family: int | None, split: float | None) -> None:
    counts: Counter[str] = Counter()
    found = list(near_misses(texts, BOTH, seed=seed, per_family=per_family, split=split, counts=counts))
    assert found == list(near_misses(texts, BOTH, seed=seed, per_family=per_family, split=split))
    pairs = [frozenset((miss.anchor, *miss.negatives)) for _, miss in found]
    assert len(set(pairs)) == len(pairs)
    assert len({(miss.anchor, miss.family) for _, miss in found}) == len(found)
    assert Counter(f"{miss.family}/{part}" for part, miss in found) == {
        k: n for k, n in counts.items() if k[:4] in ("deny", "move")
    }
    if per_family is not None:
        for family in ("deny", "move"):
            missing = counts[f"missing:{family}/train"] + counts[f"missing:{family}/test"]
            assert sum(miss.family == family for _, miss in found) + missing == per_family


@pytest.mark.parametrize(
    "family", [family for family in load_families() if family.needs_corpus], ids=attrgetter("name")
)
def test_families_that_need_a_corpus_make_nothing_without_one(family: Family) -> None:
    subject = Subject.of_sentence("The HIV infection of the lung killed 12 patients with IL-6 in France.")
    assert [list(family.edits(replace(subject, id=str(number)))) for number in range(9)] == [[]] * 9
