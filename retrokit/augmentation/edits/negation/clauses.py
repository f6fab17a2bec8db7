"""A sentence as the rules of negation look at it: its clauses, which of them are negative, what agrees with what."""

from collections.abc import Callable, Iterator
from itertools import accumulate

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.patterns import lexicon
from retrokit.augmentation.edits.sentence import Change, Named, Sentence, View, inflected, lemma

LEXICON = lexicon(__package__)
WORDS, PAIRS = LEXICON.words, LEXICON.pairs
DO_FOR = {"Z": "does", "B": "do", "D": "did"}  # by the last letter of the verb's tag


class ClauseView(View):
    """The view of a sentence with its clauses, and with the verbs mended that the tagger takes for infinitives.

    Attributes:
        clause: the number of the stretch of words, between punctuation and conjunctions, of each word.
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
        self.clause = list(accumulate(int(self._opens_clause(i)) for i in range(self.size)))
        self.negative = {self.clause[i] for i in range(self.size) if words[i] in WORDS["negative"]}
        self._mend_plural_verbs()

    def _mend_plural_verbs(self) -> None:
        """Tag as finite what the tagger takes for an infinitive ("the methods improve it"): a plural's verb that has no
        other verb and no "to" before it in its clause."""
        for i in range(1, self.size):
            before = self.tags[self.clause_start(i) : i]
            subject = next((tag for tag in reversed(before) if tag != "AV0"), "")
            if self.tags[i] == "VVI" and subject == "NN2" and not any(tag[:1] == "V" or tag == "TO0" for tag in before):
                self.tags[i] = "VVB"

    def _opens_clause(self, i: int) -> bool:
        word, tag = self.words[i], self.tags[i]
        if tag in c5.OPENS_CLAUSE:
            abbreviation = word == "." and "." in self.words[i - 1]  # "the U.S. quarters"
            return word not in {"than", "as", "-"} and not abbreviation
        joins = word in {"but", "yet", "so"} or (self.tags[i + 1] == "PNP" and self.words[i + 1] in PAIRS["nominative"])
        return tag == "CJC" and joins

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
        return range(i + 1, i + self.clause[i:].count(self.clause[i]))

    def clause_opening(self, i: int) -> str:
        """The conjunction that opens the clause of token ``i``, or its first word."""
        start = self.clause_start(i)
        is_question = self.words[start] == "if" and self.tags[start - 1] in c5.LEXICAL | c5.BASE
        return "whether" if is_question else self.words[start]

    def clause_before(self, i: int) -> list[str]:
        """The words of the clause of token ``i`` that stand before it."""
        return self.words[self.clause_start(i) : i]

    def subject_number(self, end: int) -> str:
        """The number of the subject right before token ``end``: ``"1"`` if it takes *does*, ``"2"`` if it takes *do*,
        ``"12"`` if it may take either, and nothing if there is no certain subject."""
        tags, last = self.tags, end - 1
        tag, word = tags[last], self.words[last]
        if tag == "PNP":
            is_clear = word not in {"it", "you"} or tags[last - 1] in c5.OPENS_CLAUSE | {"", "CJC", "AV0"}
            return PAIRS["nominative"].get(word, "") if is_clear else ""
        if tag in {"PNQ", "DTQ", "CJT"}:
            return "12" if self._is_relative(last) else ""
        if tag in {"PNI", "DT0", "EX0"}:
            opens = tags[last - 1] in c5.OPENS_CLAUSE | {""}
            return {"this": "1", "that": "1", "these": "2", "those": "2"}.get(word, "") if opens else ""
        return self._noun_subject(last) if tag in c5.NOUN | c5.NAME_LIKE else ""

    def _noun_subject(self, last: int) -> str:
        """As :func:`subject_number`, for a subject that ends in the noun ``last``."""
        tags = self.tags
        start = self._phrase_start(last)
        if start is None:
            return ""
        attached = tags[start] == "PRF" or (tags[start] == "PRP" and start < last)
        if attached or not WORDS["universal"].isdisjoint(self.words[start:last]):
            return ""
        if "CJC" in tags[start : last + 1]:
            joined = tags.index("CJC", start)
            plain = self.words[joined] == "and" and {"PRF", "PRP"}.isdisjoint(tags[start:joined])
            return "2" if plain else ""
        head = self._head_noun(start, last)
        return {"NN2": "2", "NN1": "1", "NP0": "1"}.get(tags[head], "12")

    def _phrase_start(self, last: int) -> int | None:
        """The first token of the phrase that ends in the noun ``last``, adverbs and conjunctions left out; None if no
        clause opens with it."""
        tags, start = self.tags, last
        while start and tags[start - 1] in c5.PHRASE:
            start -= 1
        if start and tags[start - 1] not in c5.OPENS_CLAUSE:
            return None
        while start < last and tags[start] in {"AV0", "CJC"}:
            start += 1
        return start

    def _head_noun(self, start: int, last: int) -> int:
        """The last of the nouns that come first in a phrase."""
        nouns = c5.NOUN | c5.NAME_LIKE
        head = next(index for index in range(start, last + 1) if self.tags[index] in nouns)
        while head < last and self.tags[head + 1] in nouns | {"POS", "CRD"}:
            head += 1
        return head

    def _is_relative(self, i: int) -> bool:
        """Whether a pronoun is relative, so that the noun before it decides the number."""
        return self.words[i] in {"who", "which"} or (self.words[i] == "that" and self.tags[i - 1] in c5.NOUN)

    def is_auxiliary(self, i: int) -> bool:
        """Whether the finite verb ``i`` can be negated without *do*."""
        after = self.tags[self.after_adverbs(i + 1, ("AV0", "XX0"))]
        modal = self.tags[i] == "VM0" and after in c5.BASE
        return self.tags[i] in c5.BE or modal or (self.tags[i] in c5.HAVE and after in c5.PARTICIPLE)

    def base_form(self, i: int) -> str:
        """The base form of the finite verb ``i``; nothing if the word is not surely that form of a verb."""
        word, tag = self.words[i], self.tags[i]
        if tag in c5.HAVE:
            return "have" if word in {"has", "have", "had"} else ""
        if tag == "VVB" or not word.isalpha():
            return word if word.isalpha() else ""
        base = "leave" if word == "left" else lemma(word, "VERB")
        return base if inflected(base, c5.PENN[tag]) == word else ""

    def verb_group(self, i: int) -> tuple[int, str]:
        """Where the verb ``i`` with the adverbs before it begins, and its base form; an empty form if no subject is
        before them that agrees with the verb, or the verb is no plain finite one."""
        words, tags = self.words, self.tags
        if tags[i] not in c5.LEXICAL | c5.HAVE:
            return i, ""
        first = i
        while tags[first - 1] == "AV0" and first > 1:
            first -= 1
        joined = tags[i + 1] in c5.FINITE | {"CJC", "XX0"} or (words[i + 1] == "," and tags[i + 2][:1] == "V")
        if joined or not self._agrees_with_subject(i, first):
            return i, ""
        start = self._adverbs_start(i, first)
        if not WORDS["no-not-with"].isdisjoint(words[start:i]):
            return i, ""
        base = self.base_form(i)
        return start, "" if base in WORDS["no-do"] else base

    def _adverbs_start(self, i: int, first: int) -> int:
        """Where the adverbs of the verb ``i`` begin, of those from ``first`` on; the verb itself without any."""
        before_verb = any(word.endswith("ly") or word in WORDS["before-verb"] for word in self.words[first:i])
        # other adverbs belong to the noun: "the diagram below shows"
        return self.after_focus(first if before_verb else i)

    def after_focus(self, i: int) -> int:
        """The first token from ``i`` on that is no word after which *not* comes."""
        while self.words[i] in WORDS["before-not"]:
            i += 1
        return i

    def _agrees_with_subject(self, i: int, first: int) -> bool:
        """Whether a subject that the verb ``i`` agrees with ends before token ``first``."""
        number = self.subject_number(first)
        verb_number = {"Z": "1", "B": "2"}.get(self.tags[i][-1], number[:1])
        if not number or verb_number not in number or self.words[first - 1] in WORDS["not-subjects"]:
            return False
        if self.tags[i] != "VVD":
            return True
        return self.words[i + 1] != "to" and (self.tags[first - 1] == "PNP" or self._surely_past(i))

    def _surely_past(self, i: int) -> bool:
        """Whether the past form ``i`` is its clause's verb and not a participle that follows its noun."""
        if self.words[i + 1] == "by" or self.tags[i + 1] in {"PUN", "PUL", ""}:
            return False
        headline = self.words[self.size - 1] not in {".", "!"} and self.tags[i + 1] not in c5.OBJECT
        if headline and inflected(self.base_form(i), "VBN") == self.words[i]:
            return False
        later, comma = any(self.tags[k] in c5.FINITE for k in self.clause_rest(i)), self.clause_rest(i).stop
        return not later and not (self.words[comma] == "," and self.tags[comma + 1] in c5.FINITE)

    def noun_end(self, i: int) -> int:
        """The place of the noun that ends the plain noun phrase beginning at ``i``; 0 if there is none."""
        tags = self.tags
        k = i + (tags[i] in {"AT0", "DPS"})
        while tags[k] in c5.ADJECTIVE | c5.NOUN | {"VVN", "CRD", "ORD", "UNC"}:
            k += 1
        k -= 1
        ends = k >= i and tags[k] in {"NN1", "NN2", "NN0"} and tags[k + 1] not in {"POS", "ZZ0"}
        return k if ends and self.words[k + 1] not in {"-", "/"} else 0

    def counted_noun(self, at: int) -> int:
        """The noun that the word counts, through "of the" or not; 0 if that is not plain."""
        first = at + 1
        if self.words[first] == "of" and self.words[at + 2] in WORDS["determiners"]:
            first = at + 3
        elif self.words[first] in {"these", "those"}:
            first = at + 2
        return self.noun_end(first)

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
"""A rule: the edits at one word of a sentence."""
