"""Near-misses out of a stream of texts: COMP's structural triplets (s, s, s̃), with its quotas and its held-out split.

A text is cut into sentences; those that are no running text are dropped and counted by rule (:data:`RULES`). Each
sentence is tagged once, every family offers its edits, and one of them is drawn. The draw and the split depend on the
seed and the sentence only, never on its place in the stream or on the process (COMP 3.1, D.1).
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from retrokit.augmentation.crops import Multilingual
from retrokit.augmentation.near_misses.family import MOST_LOTS, Family
from retrokit.augmentation.near_misses.sentence import tag
from retrokit.core.calls import encodable
from retrokit.data.training_rows import normal_form

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
MIN_CHARS, MAX_CHARS = 20, 400
MIN_WORDS, MAX_WORDS = 4, 60

RULES: dict[str, str] = {
    "empty": "empty, or a pair without a paraphrase",
    "short": f"under {MIN_CHARS} characters",
    "few-words": f"fewer than {MIN_WORDS} words",
    "long": f"over {MAX_WORDS} words or {MAX_CHARS} characters",
    "broken": "wrong encoding, or cut off by an ellipsis",
    "link": "a web or mail address",
    "markup": "LaTeX, HTML or program code",
    "symbols": "under 70% letters",
    "brackets": "unbalanced brackets or quotation marks",
    "capitals": "a heading or title in capitals",
    "language": "no common English word",
    "no-verb": "no verb",
    "duplicate": "duplicate sentence",
    "quota-full": "quota of its split reached",
    "no-edit": "no edit by a family with an open quota",
}
"""Why a text (the first) or a sentence gives nothing: the keys of the counts, and what they mean."""


class NearMiss(NamedTuple):
    """A triplet of training data, the family of its negative, and the name of the edit."""

    anchor: str
    positive: str
    negatives: tuple[str, ...]
    family: str
    edit: str

    def to_json(self) -> dict[str, object]:
        """The record as a JSON object."""
        return {**self._asdict(), "negatives": list(self.negatives)}


def near_misses(
    texts: Iterable[str | tuple[str, str]],
    families: Sequence[Family],
    *,
    seed: int = 0,
    per_family: int | None = None,
    split: float | None = None,
    counts: Counter[str] | None = None,
) -> Iterator[tuple[Split, NearMiss]]:
    """Near-misses of ``texts`` in their order, at most one per sentence and family, each with its split.

    Args:
        texts: a text, which is cut into sentences that are their own positives; or a sentence and its paraphrase.
        seed: of the draws and the split.
        per_family: number of each family; reading stops once every quota is full. Default: all.
        split: the share of ``train``; everything is ``train`` without it. With ``per_family`` the shares are exact.
        counts: ``texts``, ``sentences``, a key of :data:`RULES` for each sentence without a near-miss, ``both-splits``,
            ``repeated`` and ``unchanged`` for drawn edits that were dropped, ``FAMILY/SPLIT`` for near-misses, and
            ``missing:FAMILY/SPLIT`` for quotas that the texts did not fill.

    No sentence, as anchor, positive or negative, is in both splits, and no pair of anchor and negative comes twice, in
    either order. Memory is eight bytes a text.

    Raises:
        MissingExtra: the tagger or the sentence splitter is not installed.

    >>> from retrokit.augmentation.near_misses.family import Edit
    >>> shout = Family("shout", lambda sentence: [Edit("louder", sentence.text.replace(".", "!"))])
    >>> [miss.negatives for _, miss in near_misses(["The cat sleeps in the box. Hello."], [shout])]
    [('The cat sleeps in the box!',)]
    """
    counts = Counter() if counts is None else counts
    left = quotas([family.name for family in families], per_family, split)
    return _Generator(families, seed, split, left, counts).run(texts)


def quotas(names: Iterable[str], per_family: int | None, split: float | None) -> dict[tuple[str, Split], float]:
    """How many near-misses are wanted of each family and split."""
    total = math.inf if per_family is None else per_family
    train = total if split is None or per_family is None else round(per_family * split)
    shares: dict[Split, float] = {"train": train, "test": total if per_family is None else total - train}
    return {(name, part): share for name in names for part, share in shares.items()}


@dataclass
class _Generator:
    """One pass over the texts: ``left``, what each family still needs of each split, and digests of the output."""

    families: Sequence[Family]
    seed: int
    split: float | None
    left: dict[tuple[str, Split], float]
    counts: Counter[str]
    anchors: set[int] = field(default_factory=set)
    pairs: set[int] = field(default_factory=set)
    members: dict[Split, set[int]] = field(default_factory=lambda: {"train": set(), "test": set()})

    def run(self, texts: Iterable[str | tuple[str, str]]) -> Iterator[tuple[Split, NearMiss]]:
        for text in texts if any(self.left.values()) else ():
            self.counts["texts"] += 1
            before = self.counts["sentences"]
            for anchor, positive in sentences_of(text):
                self.counts["sentences"] += 1
                yield from self._of_sentence(anchor, positive)
                if not any(self.left.values()):
                    return
            if self.counts["sentences"] == before:
                self.counts["empty"] += 1
        missing = {f"missing:{family}/{part}": left for (family, part), left in self.left.items()}
        self.counts.update({key: int(left) for key, left in missing.items() if 0 < left < math.inf})

    def _of_sentence(self, anchor: str, positive: str) -> Iterator[tuple[Split, NearMiss]]:
        key = normal_form(anchor)
        rule = why_not(anchor) or ("duplicate" if _digest(key) in self.anchors else None)
        if rule is not None:
            self.counts[rule] += 1
            return
        split: Split = "train"
        if self.split is not None and _digest(f"{self.seed}\0split\0{key}") >= self.split * 2**64:
            split = "test"
        wanted = [family for family in self.families if self.left[family.name, split] > 0]
        if not wanted:
            self.counts["quota-full"] += 1
            return
        sentence = tag(anchor)
        if not any(token.tag.startswith("V") for token in sentence.tokens):
            self.counts["no-verb"] += 1
            return
        offered = False
        for family in wanted:
            edits = list(family.edits(sentence))
            if not edits:
                continue
            offered = True
            # first a kind is drawn, then an edit of that kind, so that rare kinds come out too
            kinds = dict.fromkeys(edit.name for edit in edits)
            lots = [kind for kind in kinds for _ in range(family.lots.get(kind, MOST_LOTS))]
            number, chosen = divmod(_digest(f"{self.seed}\0{family.name}\0{key}"), len(lots))
            of_kind = [edit for edit in edits if edit.name == lots[chosen]]
            edit = of_kind[number % len(of_kind)]
            if (obstacle := self._obstacle(key, normal_form(positive), normal_form(edit.text), split)) is None:
                self.counts[f"{family.name}/{split}"] += 1
                self.left[family.name, split] -= 1
                yield split, NearMiss(anchor, positive, (edit.text,), family.name, edit.name)
            else:
                self.counts[obstacle] += 1
        if not offered:
            self.counts["no-edit"] += 1

    def _obstacle(self, anchor: str, positive: str, negative: str, split: Split) -> str | None:
        """Why the triplet may not come out; one that may is remembered."""
        if negative in (anchor, positive):
            return "unchanged"
        texts = {_digest(anchor), _digest(positive), _digest(negative)}
        if not texts.isdisjoint(self.members["test" if split == "train" else "train"]):
            return "both-splits"
        pair = _digest("\0".join(sorted((anchor, negative))))
        if pair in self.pairs:
            return "repeated"
        self.pairs.add(pair)
        self.anchors.add(_digest(anchor))
        if self.split is not None:
            self.members[split] |= texts
        return None


def sentences_of(text: str | tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The anchors of a text or a pair, with their positives; white space is normalised."""
    if isinstance(text, tuple):
        anchor, positive = (" ".join(encodable(part).split()) for part in text)
        if anchor and positive:
            yield anchor, positive
        return
    for piece in Multilingual("en").cut(encodable(text)):
        if sentence := " ".join(piece.split()):
            yield sentence, sentence


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


_BROKEN = re.compile("[\ufffd\ufeff\x00-\x08\x0e-\x1f\x7f-\x9f\u200b]|[ÃÂâ][\u20ac\u0080-\u00bf]|(?:\\.\\.\\.|…)$")
_LINK = re.compile(r"https?:|www\.|\b[\w-]+\.(?:com|org|net|edu|gov)\b|\w@\w", re.IGNORECASE)
_MARKUP = re.compile(r"[\\^{}|_]|<[A-Za-z/!]|\$[A-Za-z(]|\(\)|&\w+;|\[\w+\]|[=+*#].*[=+*#]")
_ENGLISH = re.compile(
    r"\b(?:the|a|an|of|to|in|is|are|was|were|be|been|and|or|for|on|at|by|with|from|as|that|this|these|those|it|its|we|our|"
    r"you|your|he|his|she|her|they|their|i|my|do|does|did|has|have|had|can|will|would|should|could|may|not|no|but|if|"
    r"when|what|how|who|why|where|which|than|after|before|into|over|under|there|all|more|most|some|any)\b",
    re.IGNORECASE,
)


def why_not(sentence: str) -> str | None:
    """The first rule (a key of :data:`RULES`) by which ``sentence`` is no running text, without tagging it.

    >>> why_not("Too short."), why_not("The cat sleeps inside the box.")
    ('short', None)
    """
    words = sentence.split()
    tests: list[tuple[str, Callable[[], object]]] = [
        ("short", lambda: len(sentence) < MIN_CHARS),
        ("long", lambda: len(sentence) > MAX_CHARS),
        ("few-words", lambda: len(words) < MIN_WORDS),
        ("long", lambda: len(words) > MAX_WORDS),
        ("broken", lambda: _BROKEN.search(sentence)),
        ("link", lambda: _LINK.search(sentence)),
        ("markup", lambda: _MARKUP.search(sentence)),
        ("symbols", lambda: sum(map(str.isalpha, sentence)) < 0.7 * (len(sentence) - len(words) + 1)),
        ("brackets", lambda: not _balanced(sentence)),
        ("capitals", lambda: _capitals(words)),
        ("language", lambda: not _ENGLISH.search(sentence)),
    ]
    return next((rule for rule, holds in tests if holds()), None)


def _balanced(sentence: str) -> bool:
    """Whether every bracket and every double quotation mark has its counterpart."""
    odd = sentence.count('"') % 2
    if odd or any(sentence.count(mark) != sentence.count(end) for mark, end in ("“”", ("``", "''"))):
        return False
    brackets = "".join(re.findall(r"[()\[\]]", sentence))
    while (left := brackets.replace("()", "").replace("[]", "")) != brackets:
        brackets = left
    return not brackets


def _capitals(words: Sequence[str]) -> bool:
    """Whether more than 60% of the words of four and more letters begin with a capital, the first word apart."""
    long = [word for word in words[1:] if len(word) > 3 and word[0].isalpha()]
    return len(long) > 1 and sum(word[0].isupper() for word in long) > 0.6 * len(long)
