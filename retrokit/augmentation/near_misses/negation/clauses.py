"""A sentence as the rules of negation look at it: its clauses, which of them are negative, what agrees with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.data import lexicon
from retrokit.augmentation.near_misses.sentence import Change, Named, Sentence, inflected, lemma
from retrokit.augmentation.near_misses.view import View

LEXICON = lexicon(__package__)
WORDS, PAIRS = LEXICON.words, LEXICON.pairs
DO_FOR = {"Z": "does", "B": "do", "D": "did"}  # by the last letter of the verb's tag


class ClauseView(View):
    """The view of a sentence with its clauses, and with the verbs mended that the tagger takes for infinitives.

    Attributes:
        clause: the number of the stretch of words, between punctuation and conjunctions, in which each word stands.
        negative: the stretches that hold a negative.
        contracts: whether the sentence has contracted forms.
        question: whether it is a question.
    """

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(sentence)
        words = self.words
        last = words[self.size - 1]
        asks = WORDS["auxiliary-words"].intersection(words[1:4] if words[0] in WORDS["wh"] else words[:1])
        self.question = last == "?" or (bool(asks) and last not in {".", "!"})
        self.contracts = not WORDS["clitics"].isdisjoint(words)
        self.clause: list[int] = []
        self.negative: set[int] = set()
        number, negative = 0, WORDS["negative"]
        for i in range(self.size):
            number += _opens_clause(words, self.tags, i)
            self.clause.append(number)
            if words[i] in negative:
                self.negative.add(number)
        _mend_bases(self.tags, self.clause)

    def has_negative(self, i: int) -> bool:
        """Whether the clause of token ``i`` is negative, with those before it that a comma only cuts off."""
        clause = self.clause[i]
        while clause not in self.negative:
            start = self.clause.index(clause)
            goes_on = self.tags[start + 1] == "CJC" or start + 1 == i
            apart = goes_on or c5.FINITE.isdisjoint(self.tags[self.clause_start(start - 1) : start])
            if start == 0 or self.words[start] != "," or not apart:
                return False
            clause -= 1
        return True

    def clause_start(self, i: int) -> int:
        """The first token of the clause of token ``i``."""
        return self.clause.index(self.clause[i])

    def has_negative_complement(self, i: int) -> bool:
        """Whether the clause of token ``i`` is joined by *that* to a negative one: no one negates both."""
        start, end = self.clause_start(i), self.clause_rest(i).stop
        below = self.words[end] == "that" and self.clause[i] + 1 in self.negative
        return below or (self.words[start] == "that" and self.clause[i] - 1 in self.negative)

    def clause_rest(self, i: int) -> range:
        """The words after token ``i`` up to where its clause ends."""
        end = i + 1
        while end < self.size and self.clause[end] == self.clause[i]:
            end += 1
        return range(i + 1, end)

    def clause_opening(self, i: int) -> str:
        """The conjunction that opens the clause of token ``i``, or whatever its first word is."""
        start = self.clause_start(i)
        if self.words[start] == "if" and self.tags[start - 1] in c5.LEXICAL | c5.BASE:
            return "whether"
        return self.words[start]

    def clause_before(self, i: int) -> list[str]:
        """The words of the clause of token ``i`` that stand before it."""
        return self.words[self.clause_start(i) : i]

    def in_brackets(self, i: int) -> bool:
        """Whether token ``i`` stands between brackets."""
        tags = self.tags[:i]
        return tags.count("PUL") > tags.count("PUR")

    def subject_number(self, end: int) -> str:
        """What stands as the subject right before token ``end``: ``"1"`` if it takes *does*, ``"2"`` if it takes *do*,
        ``"12"`` if it may take either, and nothing if there is no certain subject."""
        words, tags, last = self.words, self.tags, end - 1
        tag, word = tags[last], words[last]
        if tag == "PNP":
            clear = word not in {"it", "you"} or tags[last - 1] in c5.OPENS_CLAUSE | {"", "CJC", "AV0"}
            return PAIRS["nominative"][word] if word in PAIRS["nominative"] and clear else ""
        if tag in {"PNQ", "DTQ", "CJT"}:  # a relative pronoun; the noun before it decides
            return "12" if word in {"who", "which"} or (word == "that" and tags[last - 1] in c5.NOUN) else ""
        if tag in {"PNI", "DT0", "EX0"}:
            opens = tags[last - 1] in c5.OPENS_CLAUSE | {""}
            return {"this": "1", "that": "1", "these": "2", "those": "2"}.get(word, "") if opens else ""
        return self._noun_subject(last) if tag in c5.NOUN or tag in c5.NAME_LIKE else ""

    def _noun_subject(self, last: int) -> str:
        """As :func:`subject_number`, for a subject that ends in the noun ``last``."""
        tags = self.tags
        start = last
        while start and tags[start - 1] in c5.PHRASE:
            start -= 1
        if start and tags[start - 1] not in c5.OPENS_CLAUSE:
            return ""
        while start < last and (tags[start] in {"AV0", "CJC"} or tags[start] == "PRP"):
            if tags[start] == "PRP":
                return ""
            start += 1
        if tags[start] == "PRF" or not WORDS["universal"].isdisjoint(self.words[start:last]):
            return ""
        head = start
        while tags[head] not in c5.NOUN | c5.NAME_LIKE:
            head += 1
        while head < last and tags[head + 1] in c5.NOUN | c5.NAME_LIKE | {"POS", "CRD"}:
            head += 1
        if "CJC" in tags[start : last + 1]:
            joined = tags.index("CJC", start)
            if self.words[joined] != "and" or not {"PRF", "PRP"}.isdisjoint(tags[start:joined]):
                return ""
            return "2"
        return {"NN2": "2", "NN1": "1", "NP0": "1"}.get(tags[head], "12")

    def is_auxiliary(self, i: int) -> bool:
        """Whether the finite verb ``i`` can be negated without *do*."""
        tags = self.tags
        after = self.after_adverbs(i + 1, ("AV0", "XX0"))
        if tags[i] in c5.BE:
            return True
        if tags[i] == "VM0":
            return tags[after] in c5.BASE
        return tags[i] in c5.HAVE and tags[after] in c5.PARTICIPLE

    def base_form(self, i: int) -> str:
        """The base form of the finite verb ``i``; nothing if the word is not surely that form of a verb."""
        word, tag = self.words[i], self.tags[i]
        if tag in c5.HAVE:
            return "have" if word in {"has", "have", "had"} else ""
        if not word.isalpha():
            return ""
        if tag == "VVB":
            return word
        base = "leave" if word == "left" else lemma(word, "VERB")
        return base if inflected(base, c5.PENN[tag]) == word else ""

    def verb_group(self, i: int) -> tuple[int, str]:
        """Where the verb ``i`` with the adverbs before it begins, and its base form; an empty form if no subject stands
        before them that agrees with the verb, or the verb is no plain finite one."""
        words, tags = self.words, self.tags
        if tags[i] not in c5.LEXICAL and tags[i] not in c5.HAVE:
            return i, ""
        first = i
        while tags[first - 1] == "AV0" and first > 1:
            first -= 1
        before_verb = any(word.endswith("ly") or word in WORDS["before-verb"] for word in words[first:i])
        place = first if before_verb else i  # other adverbs belong to the noun: "the diagram below shows"
        number = self.subject_number(first)
        wanted = {"Z": "1", "B": "2"}.get(tags[i][-1], number[:1])
        joined = tags[i + 1] in c5.FINITE | {"CJC"} or (words[i + 1] == "," and tags[i + 2][:1] == "V")
        if not number or wanted not in number or joined or tags[i + 1] == "XX0":
            return i, ""
        if words[first - 1] in WORDS["not-subjects"]:
            return i, ""
        if tags[i] == "VVD" and (words[i + 1] == "to" or not (tags[first - 1] == "PNP" or self._surely_past(i))):
            return i, ""
        while words[place] in WORDS["before-not"]:
            place += 1
        if not WORDS["no-not-with"].isdisjoint(words[place:i]):
            return i, ""
        base = self.base_form(i)
        return place, "" if base in WORDS["no-do"] else base

    def _surely_past(self, i: int) -> bool:
        """Whether the past form ``i`` is its clause's verb and not a participle that follows its noun."""
        if self.words[i + 1] == "by" or self.tags[i + 1] in {"PUN", "PUL", ""}:
            return False
        base = self.base_form(i)
        headline = self.words[self.size - 1] not in {".", "!"}
        if headline and self.tags[i + 1] not in c5.OBJECT and inflected(base, "VBN") == self.words[i]:
            return False
        later = any(self.tags[k] in c5.FINITE for k in self.clause_rest(i))
        comma = self.clause_rest(i).stop
        return not later and not (self.words[comma] == "," and self.tags[comma + 1] in c5.FINITE)

    def noun_end(self, i: int) -> int:
        """Where the noun stands that ends the plain noun phrase beginning at ``i``; 0 if there is none."""
        tags = self.tags
        k = i + (tags[i] in {"AT0", "DPS"})
        while tags[k] in c5.ADJECTIVE or tags[k] in c5.NOUN or tags[k] in {"VVN", "CRD", "ORD", "UNC"}:
            k += 1
        k -= 1
        ends = k >= i and tags[k] in {"NN1", "NN2", "NN0"} and tags[k + 1] not in {"POS", "ZZ0"}
        return k if ends and self.words[k + 1] not in {"-", "/"} else 0

    def in_number(self, i: int, plural: bool) -> list[Change] | None:
        """The changes that make the finite verb right after ``i`` agree with a plural or a singular subject; None if no
        finite verb follows."""
        k = self.after_adverbs(i + 1)
        return self.in_agreement(k, plural) if self.tags[k] in c5.FINITE else None

    def is_subject(self, i: int, head: int) -> bool:
        """Whether the phrase from ``i`` to ``head`` begins its clause and a finite verb follows."""
        k = self.after_adverbs(head + 1)
        joined = self.tags[i - 1] == "CJC" and not c5.FINITE.isdisjoint(self.tags[self.clause_start(i) : i])
        return self.tags[k] in c5.FINITE and (joined or self.tags[i - 1] in c5.OPENS_CLAUSE | {""} or i == 1)


Rule = Callable[[ClauseView, int], Iterator[Named]]
"""What a rule is: the edits that can be made at one word of a sentence."""


def _mend_bases(tags: list[str], clause: list[int]) -> None:
    """The tagger takes many a plural's verb for an infinitive ("the methods improve it"): where no other verb and no
    *to* stands before it in its clause, it is finite."""
    for i in range(1, len(clause)):
        if tags[i] != "VVI":
            continue
        before = tags[clause.index(clause[i]) : i]
        subject = next((tag for tag in reversed(before) if tag != "AV0"), "")
        if subject == "NN2" and not any(tag[0] == "V" or tag == "TO0" for tag in before if tag):
            tags[i] = "VVB"


def _opens_clause(words: list[str], tags: list[str], i: int) -> bool:
    tag, word = tags[i], words[i]
    if tag in c5.OPENS_CLAUSE:
        abbreviation = word == "." and "." in words[i - 1]  # "the U.S. quarters"
        return word not in {"than", "as", "-"} and not abbreviation
    if tag != "CJC":
        return False
    return word in {"but", "yet", "so"} or (tags[i + 1] == "PNP" and words[i + 1] in PAIRS["nominative"])
