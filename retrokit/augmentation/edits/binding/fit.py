"""What may change places in a near-miss of binding: whole and comparable phrases that nothing else hangs on."""

import re
from collections.abc import Callable, Iterator

from retrokit.augmentation.edits.patterns import lexicon
from retrokit.augmentation.edits.sentence import PRONOUNS, Change, Named, Phrase, VerbGroup, View, lemma

LEXICON = lexicon(__package__)
WORDS, TABLES, GROUPS = LEXICON.words, LEXICON.tables, LEXICON.groups
TERMS = lexicon(__package__, "terms.txt").words

# The characters of lexical verbs in a parse.
VERBS = "bzyvkg"


class BindingView(View):
    """The view of a sentence with what may change places in it."""

    def kind_of(self, phrase: Phrase) -> str:
        """What a phrase names: ``animate``, ``concrete``, ``measure`` (or a light noun), ``name``, or a ``thing``."""
        if self.codes[phrase.head] == "i":
            return "animate"
        kinds = {"animate": WORDS["animate"], "concrete": WORDS["concrete"], "measure": WORDS["measures"]}
        other = "name" if self.codes[phrase.head] == "N" else "thing"
        return next((kind for kind, words in kinds.items() if self.head(phrase) in words), other)

    def interchangeable(self, first: Phrase, other: Phrase) -> bool:
        """Whether two phrases can stand in each other's place at all."""
        return self.head(first) != self.head(other) and self._is_whole(first) and self._is_whole(other)

    def _is_whole(self, phrase: Phrase) -> bool:
        """Whether a phrase is complete and bound to nothing else: no word of it outside, no pronoun that refers."""
        bound = self.codes[phrase.start - 1] in "anN'?c-" or self.codes[phrase.end] in "cnNaIx'?"
        bound = bound or (self.codes[phrase.end] == "g" and self.codes[phrase.end + 1] not in "dpt")
        refers = self.codes[phrase.head] == "i" and self.words[phrase.head] not in PRONOUNS
        return not bound and not refers and WORDS["tied"].isdisjoint(self.words[phrase.start : phrase.end])

    def verb_takes(self, verb: str, phrase: Phrase, other: Phrase) -> bool:
        """Whether both phrases may be either argument of the verb."""
        kinds = {self.kind_of(phrase), self.kind_of(other)}
        if verb in WORDS["symmetric"] or ("measure" in kinds and verb not in WORDS["of-measures"]):
            return False
        if kinds <= {"animate", "name"} and "animate" in kinds and verb in WORDS["personal"]:
            return True
        if kinds <= {"animate", "concrete"} and verb in WORDS["physical"]:
            return True
        heads = {self.words[phrase.head], self.words[other.head]}
        return verb in WORDS["relating"] and heads.isdisjoint(PRONOUNS)

    def any_verb(self, at: int) -> VerbGroup | None:
        """The verb group that starts at a token."""
        return self.passive(at) or self.active(at) or self.copula(at)

    def takes_both(self, verb: str, subject: Phrase, other: Phrase) -> bool:
        """Whether a subject and a phrase after its verb may be either argument, and may change places."""
        return self.exchangeable(subject, other) and self.verb_takes(verb, subject, other)

    def free_after(self, phrase: Phrase, same_number: bool) -> bool:
        """Whether the clause can continue after a phrase that another replaces: no coordination, no relative clause, no
        second finite verb that would have to agree."""
        end, code, after = phrase.end, self.codes[phrase.end], self.codes[phrase.end + 1]
        if not same_number and re.search(r"&[rm]*[zbBHD]", self.shape[end:]):
            return False
        if code == ",":
            return after in "sPTrmgk." and end + 1 not in self.starting
        if code == "&":
            return after in "zbvBHD"
        return code in ".PTsrm" and self.words[end] not in ("between", "among", "than", "as", "to")

    def whole_after(self, phrase: Phrase) -> bool:
        """Whether a phrase that depends on a noun ends where it seems to: no coordination, no relative clause."""
        return self.codes[phrase.end] in "zbvBHDM" or self.free_after(phrase, True)

    def exchange(self, subject: Phrase, verb: VerbGroup, other: Phrase) -> list[Change] | None:
        """A subject and a phrase after its verb change places, and the verb agrees; None if agreement is uncertain."""
        agreed = self.in_agreement(verb.finite, other.plural, self.words[other.head])
        if agreed is None or not self.agrees(verb.finite, subject):
            return None
        first = Change(subject.start, subject.end, self.as_subject(other))
        return [first, Change(other.start, other.end, self.as_object(subject)), *agreed]

    def exchanged(self, name: str, subject: Phrase, verb: VerbGroup, other: Phrase) -> Iterator[Named]:
        """The edit in which a subject and a phrase after its verb change places, if they may."""
        if self.exchangeable(subject, other) and (changes := self.exchange(subject, verb, other)):
            yield name, changes

    def frames(
        self, group: Callable[[int], VerbGroup | None], relations: frozenset[str] | None = None
    ) -> Iterator[tuple[Phrase, VerbGroup, Phrase]]:
        """The subjects with their verb groups and the phrases that follow: at once, or with ``relations`` after a
        preposition, with or without the verb before it."""
        for subject in self.subjects:
            verb = group(subject.end)
            if verb is None or (after := self.starting.get(verb.end + (relations is not None))) is None:
                continue
            word = self.words[verb.end]
            if relations is None or word in relations or f"{self.verb_lemma(verb.main)} {word}" in relations:
                yield subject, verb, self.extended(after)

    def swapped(self, phrase: Phrase, other: Phrase) -> list[Change]:
        """Two phrases, neither of them a subject, change places."""
        first = Change(phrase.start, phrase.end, self.as_object(other))
        return [first, Change(other.start, other.end, self.as_object(phrase))]

    def exchangeable(self, subject: Phrase, other: Phrase) -> bool:
        """Whether a subject and a phrase after its verb may change places as far as the clause around them goes."""
        if self.codes[subject.head] == "i" and self.words[other.end] in ("with", "without"):
            return False  # "cared for them with diseases"
        return self.interchangeable(subject, other) and self.free_after(other, subject.plural == other.plural)

    def verb_lemma(self, index: int) -> str:
        """The dictionary form of the verb at a token."""
        return lemma(self.sentence.tokens[index].text, "VERB")

    def alike(self, phrase: Phrase, other: Phrase) -> bool:
        """Whether two phrases name things of a comparable kind."""
        kinds = {self.kind_of(phrase), self.kind_of(other)}
        return len(kinds - {"name"}) < 2 or kinds <= {"thing", "measure"}

    def both_things(self, phrase: Phrase, other: Phrase) -> bool:
        """Whether two phrases are of one kind, and of a kind that may stand on either side."""
        return self.kind_of(phrase) == self.kind_of(other) != "measure"
