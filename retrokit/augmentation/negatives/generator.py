"""Near-misses out of a stream of texts: COMP's structural triplets (s, s, s̃), with its quotas and its held-out split.

A text is cut into sentences; those that are no running text are dropped and counted by rule (:data:`RULES`). Each
sentence is tagged once, every family offers its edits, and one of them is drawn. The draw and the split depend on the
seed and the sentence alone, never on its place in the stream or on the process (COMP 3.1, D.1).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from retrokit.augmentation.negatives.family import MOST_LOTS, Edit, Family
from retrokit.augmentation.negatives.sentence import tag
from retrokit.augmentation.splitters import Multilingual
from retrokit.core.errors import UsageError
from retrokit.data.training_rows import normal_form
from retrokit.llm.base import encodable

Split = Literal["train", "test"]
MIN_CHARS, MAX_CHARS = 20, 400
MIN_WORDS, MAX_WORDS = 4, 60

RULES: dict[str, str] = {
    "empty": "no text at all, or a pair without a paraphrase",
    "short": f"under {MIN_CHARS} characters",
    "few-words": f"fewer than {MIN_WORDS} words",
    "long": f"over {MAX_WORDS} words or {MAX_CHARS} characters",
    "broken": "characters of a wrong encoding, or cut off by an ellipsis",
    "link": "a web or mail address",
    "markup": "LaTeX, HTML or program code",
    "symbols": "under 70% letters",
    "brackets": "brackets or quotation marks without their counterpart",
    "capitals": "a heading or title in capitals",
    "language": "no common English word",
    "no-verb": "no verb",
    "duplicate": "the same sentence has come before",
    "quota-full": "its split needs no more",
    "no-edit": "no family that still needs some has an edit of it",
}
"""Why a text (the first) or a sentence gives nothing: the keys of the counts, and what they mean."""


class NearMiss(NamedTuple):
    """A triplet of training data, the family of its negative, and what was done to make it."""

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
        texts: a text, which is cut into sentences and whose sentences are their own positives; or a sentence and its
            paraphrase, taken whole, the paraphrase kept as the positive.
        families: whose edits are drawn (:func:`retrokit.augmentation.negatives.family.load_families`).
        seed: of the draws and the split.
        per_family: how many to make of each family; reading stops once every quota is full. All by default.
        split: the share of ``train``, the rest is ``test``; everything is ``train`` without it. With ``per_family``
            the shares are exact: ``round(per_family * split)`` and the rest.
        counts: filled as the stream is read: ``texts``, ``sentences``, a key of :data:`RULES` for each sentence that
            gave nothing, ``both-splits``, ``repeated`` and ``unchanged`` for drawn edits that were left out,
            ``FAMILY/SPLIT`` for what came out, and at the end ``missing:FAMILY/SPLIT`` where the texts did not fill
            a quota.

    No sentence, as anchor, positive or negative, comes out in both splits, and no pair of anchor and negative comes
    out twice, in either order. To see to that, eight-byte digests of what came out are kept, and no text.

    Raises:
        UsageError: a quota or a share out of range.
        MissingExtra: the tagger or the sentence splitter is not installed.

    >>> shout = Family("shout", lambda sentence: [Edit("louder", sentence.text.replace(".", "!"))])
    >>> [miss.negatives for _, miss in near_misses(["The cat sleeps in the box. Hello."], [shout])]
    [('The cat sleeps in the box!',)]
    """
    if per_family is not None and per_family < 1:
        raise UsageError(f"near-misses per family must be at least 1, not {per_family}")
    if split is not None and not 0 < split < 1:
        raise UsageError(f"the share of the training split must lie between 0 and 1, not {split:g}")
    counts = Counter() if counts is None else counts
    left = _quotas([family.name for family in families], per_family, split)
    return _Generator(families, seed, split, left, counts).run(texts)


def _quotas(names: Iterable[str], per_family: int | None, split: float | None) -> dict[tuple[str, Split], float]:
    """How many near-misses are wanted of each family and split."""
    total = math.inf if per_family is None else per_family
    train = total if split is None or per_family is None else round(per_family * split)
    shares: dict[Split, float] = {"train": train, "test": total if per_family is None else total - train}
    return {(name, part): share for name in names for part, share in shares.items()}


class _Generator:
    """One pass over the texts: ``left``, what each family still needs of each split, and digests of what came out."""

    def __init__(
        self,
        families: Sequence[Family],
        seed: int,
        split: float | None,
        left: dict[tuple[str, Split], float],
        counts: Counter[str],
    ) -> None:
        self.families, self.seed, self.split, self.left, self.counts = families, seed, split, left, counts
        self.anchors: set[int] = set()
        self.pairs: set[int] = set()
        self.members: dict[Split, set[int]] = {"train": set(), "test": set()}

    @property
    def full(self) -> bool:
        """Whether nothing is needed any more."""
        return not any(self.left.values())

    def run(self, texts: Iterable[str | tuple[str, str]]) -> Iterator[tuple[Split, NearMiss]]:
        if not self.full:
            for text in texts:
                self.counts["texts"] += 1
                before = self.counts["sentences"]
                for anchor, positive in sentences_of(text):
                    self.counts["sentences"] += 1
                    yield from self._of_sentence(anchor, positive)
                    if self.full:
                        return
                if self.counts["sentences"] == before:
                    self.counts["empty"] += 1
        missing = {
            f"missing:{family}/{split}": int(left) for (family, split), left in self.left.items() if 0 < left < math.inf
        }
        self.counts.update(missing)

    def _of_sentence(self, anchor: str, positive: str) -> Iterator[tuple[Split, NearMiss]]:
        rule = why_not(anchor)
        key = normal_form(anchor)
        if rule is None and _digest(key) in self.anchors:
            rule = "duplicate"
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
            offered = offered or bool(edits)
            edit = self._drawn(family, key, edits) if edits else None
            if edit is not None and self._admits(key, normal_form(positive), normal_form(edit.text), split):
                self.counts[f"{family.name}/{split}"] += 1
                self.left[family.name, split] -= 1
                yield split, NearMiss(anchor, positive, (edit.text,), family.name, edit.name)
        if not offered:
            self.counts["no-edit"] += 1

    def _drawn(self, family: Family, key: str, edits: Sequence[Edit]) -> Edit:
        """One of the edits: first a kind is drawn, then an edit of that kind, so that rare kinds come out too."""
        kinds = dict.fromkeys(edit.name for edit in edits)
        lots = [kind for kind in kinds for _ in range(family.lots.get(kind, MOST_LOTS))]
        number = _digest(f"{self.seed}\0{family.name}\0{key}")
        number, chosen = divmod(number, len(lots))
        of_kind = [edit for edit in edits if edit.name == lots[chosen]]
        return of_kind[number % len(of_kind)]

    def _admits(self, anchor: str, positive: str, negative: str, split: Split) -> bool:
        """Whether the triplet may come out; if so, it is remembered."""
        if negative in (anchor, positive):
            self.counts["unchanged"] += 1
            return False
        texts = {_digest(anchor), _digest(positive), _digest(negative)}
        if not texts.isdisjoint(self.members["test" if split == "train" else "train"]):
            self.counts["both-splits"] += 1
            return False
        pair = _digest("\0".join(sorted((anchor, negative))))
        if pair in self.pairs:
            self.counts["repeated"] += 1
            return False
        self.pairs.add(pair)
        self.anchors.add(_digest(anchor))
        if self.split is not None:
            self.members[split] |= texts
        return True


def sentences_of(text: str | tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The anchors of a text or a pair, with their positives; white space is normalised."""
    if isinstance(text, tuple):
        anchor, positive = (" ".join(encodable(part).split()) for part in text)
        if anchor and positive:
            yield anchor, positive
        return
    for piece in Multilingual("en").cut(encodable(text)):
        sentence = " ".join(piece.split())
        if sentence:
            yield sentence, sentence


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


# --- what is no running text -------------------------------------------------------------------------------------

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
    """The first rule (a key of :data:`RULES`) by which ``sentence`` is no running text, seen without tagging it.

    >>> why_not("Too short."), why_not("The cat sleeps inside the box.")
    ('short', None)
    """
    words = sentence.split()
    return next((rule for rule, holds in _TESTS if holds(sentence, words)), None)


def _balanced(sentence: str) -> bool:
    """Whether every bracket and every double quotation mark has its counterpart."""
    odd = sentence.count('"') % 2
    if odd or any(sentence.count(mark) != sentence.count(end) for mark, end in ("“”", ("``", "''"))):
        return False
    open_brackets: list[str] = []
    for mark in re.findall(r"[()\[\]]", sentence):
        if mark in "([":
            open_brackets.append(mark)
        elif not open_brackets or open_brackets.pop() + mark not in ("()", "[]"):
            return False
    return not open_brackets


def _capitals(words: Sequence[str]) -> bool:
    """Whether more than 60% of the words of four and more letters begin with a capital, the first word apart."""
    long = [word for word in words[1:] if len(word) > 3 and word[0].isalpha()]
    return len(long) > 1 and sum(word[0].isupper() for word in long) > 0.6 * len(long)


_TESTS: tuple[tuple[str, Callable[[str, Sequence[str]], object]], ...] = (
    ("short", lambda sentence, words: len(sentence) < MIN_CHARS),
    ("long", lambda sentence, words: len(sentence) > MAX_CHARS),
    ("few-words", lambda sentence, words: len(words) < MIN_WORDS),
    ("long", lambda sentence, words: len(words) > MAX_WORDS),
    ("broken", lambda sentence, words: _BROKEN.search(sentence)),
    ("link", lambda sentence, words: _LINK.search(sentence)),
    ("markup", lambda sentence, words: _MARKUP.search(sentence)),
    ("symbols", lambda sentence, words: sum(map(str.isalpha, sentence)) < 0.7 * (len(sentence) - len(words) + 1)),
    ("brackets", lambda sentence, words: not _balanced(sentence)),
    ("capitals", lambda sentence, words: _capitals(words)),
    ("language", lambda sentence, words: not _ENGLISH.search(sentence)),
)
