"""Near-misses of relation: a word gives way to its converse or opposite.

COMP's family is ``spatial`` (3.1, D.1): place, direction, containment and order in space, *into* to *out of*. Others
have their own names: ``time``, *before* to *after*; ``degree``, *larger* to *smaller*; ``action``, *rose* to *fell*;
``cause``, *because of* to *despite*.

The words of a family are in the file of its name; a rule decides where one may be swapped. An idiom, a name, a
quotation, another reading of the word, or one side of a contrast that the sentence itself draws (*before and after*)
stays as it is. Relations that read the same both ways (*next to*, *between*, *similar to*) are in no table.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.family import Family, Rewriting, written
from retrokit.augmentation.edits.patterns import EXAMPLE, Condition, Test, lexicon, read_condition, read_swaps, text
from retrokit.augmentation.edits.sentence import Change, Named, Sentence, View, inflected, lemma
from retrokit.augmentation.edits.subject import Subject

LEXICON = lexicon(__package__)
WORDS, PAIRS, TABLES = LEXICON.words, LEXICON.pairs, LEXICON.tables

_CORRELATIVE = re.compile(r"\bthe (?:more|less|higher|lower|larger|smaller|better|worse|faster|longer|greater|older)\b")


def _gradable(view: View, index: int) -> bool:
    """Whether *more* before this adjective or adverb means its degree, and not a number of things."""
    word = view.words[index]
    if view.tags[index] == "AV0":
        return word.endswith("ly") or word == "often"
    return not _short(word) and "-" not in word and word not in {"such", "other", "same", "due", "new", "different"}


def _short(word: str) -> bool:
    """One syllable by its look: such adjectives take -er, never *more*."""
    return len(re.findall(r"[aeiouy]+", word.removesuffix("e"))) < 2


def _prevents_action(view: View, index: int) -> bool:
    """Whether the object of a verb does something: "causes the engine to stop"."""
    for after in range(index + 1, min(index + 9, view.size)):
        if view.words[after] in {"from", "to"} or view.tags[after] == "VVG":
            return True
        if view.tags[after] in {"PUN", "CJS", "CJT"}:
            return False
    return False


def _begins(kind: str, view: View, index: int) -> bool:
    """Whether a noun phrase whose head is of the kind, and not in a figure of speech, begins at a token."""
    phrase = view.starting.get(index)
    if phrase is None or view.head(phrase) not in WORDS[kind]:
        return False
    return WORDS["figurative"].isdisjoint(view.words[phrase.start : phrase.head])


_HAPPENING = re.compile("(?:tion|sion|ment|ing|sis)$")


def _happens(view: View, index: int) -> bool:
    """Whether a noun phrase for something that happens begins at a token."""
    phrase = view.starting.get(index)
    if phrase is None or (head := view.head(phrase)) in WORDS["no-happenings"]:
        return False
    return head in WORDS["happenings"] or _HAPPENING.search(head) is not None


def _describes(kind: str, view: View, index: int) -> bool:
    """Whether a token is in a noun phrase before its head, which is of the kind."""
    return any(phrase.start <= index < phrase.head and view.head(phrase) in WORDS[kind] for phrase in view.phrases)


CONDITIONS: dict[str, Test[View]] = {
    **{f"a-{kind}": partial(_begins, kind) for kind in ("places", "bodies", "lines", "texts", "underneath")},
    "question": lambda view, at: view.words[view.size - 1] == "?",
    "a-happening": _happens,
    "a-clause": lambda view, at: (
        (phrase := view.starting.get(at)) is not None and view.tags[view.extended(phrase, "fP").end] in c5.FINITE
    ),
    "is-text": lambda view, at: view.is_noun(at) and lemma(view.words[at], "NOUN") in WORDS["texts"],
    "of-place": partial(_describes, "places"),
    "of-text": partial(_describes, "texts"),
    "of-event": partial(_describes, "happenings"),
    "np": View.starts_noun_phrase,
    "attributive": View.before_noun,
    "passive": View.is_passive,
    "predicate": lambda view, at: view.is_passive(at) and view.ends_phrase(at + 1),
    "predicative": lambda view, at: (
        view.is_passive(at) and (view.tags[at + 1] in {"PUN", ""} or view.words[at + 1] in {"in", "for", "at"})
    ),
    "banned": lambda view, at: view.words[at + 1] in TABLES["banned-nouns"].get(view.words[at], frozenset()),
    "correlative": lambda view, at: len(_CORRELATIVE.findall(view.sentence.text.lower())) > 1,
    # "higher and higher"
    "twin": lambda view, at: view.says(at + 1, "and", view.words[at]) or view.says(at - 2, view.words[at], "and"),
    "gradable": _gradable,
    "short": lambda view, at: _short(view.words[at]),
    "capital": lambda view, at: view.sentence.tokens[at].text[0].isupper(),
    "year": lambda view, at: view.words[at].isdigit() and len(view.words[at]) == 4,
    "will": lambda view, at: view.tags[at] == "CJS" and "will" in view.words[at : at + 10],
    "repeated": lambda view, at: view.words[at - 1] == view.words[at + 1],
    "duration": lambda view, at: (
        view.tags[at] in {"CRD", "DT0", "AT0"} and not WORDS["time-units"].isdisjoint(view.words[at + 1 : at + 4])
    ),
    "ends": View.ends_phrase,
    "perfect": lambda view, at: view.tags[view.before_adverbs(at)].startswith("VH"),
    "raised": lambda view, at: not WORDS["raised"].isdisjoint({view.words[at], view.words[at].rstrip("s")}),
    "manner": lambda view, at: view.tags[at] == "AV0" and view.words[at].endswith("ly"),
    "prevents-action": _prevents_action,
}


Rule = Callable[[View, int], Named | None]


class Frame(NamedTuple):
    """A line of ``verbs.txt``: whether its verbs may be swapped in its forms and under its conditions, and a sentence
    that it decides. ``verbs`` and ``forms`` are empty for any."""

    allows: bool
    verbs: frozenset[str]
    forms: frozenset[str]
    conditions: list[Condition[View]]
    sentence: str

    def fits(self, view: View, index: int, form: str) -> bool:
        """Whether the line decides about the verb of that form at a token."""
        if self.forms and form not in self.forms:
            return False
        return all(condition(view, index, index, index + 1) for condition in self.conditions)


_FRAME = re.compile(r"(yes|no) (\S+)(?: ([A-Z|]+))?(?: where (.*))?")


@cache
def frames() -> dict[str, list[Frame]]:
    """The lines of ``verbs.txt`` that decide about verbs with an object (``transitive``) and without."""
    common, *sections = re.split(r"^\[(\w+)\]$", text(__package__, "verbs.txt"), flags=re.MULTILINE)
    by_name = zip(sections[::2], sections[1::2], strict=True)
    return {name: [*_frames_in(common), *_frames_in(section)] for name, section in by_name}


def _frames_in(content: str) -> Iterator[Frame]:
    for line, sentence in re.findall(rf"^([yn].*)\n{EXAMPLE}(.*)$", content, re.MULTILINE):
        answer, names, forms, conditions = _FRAME.fullmatch(line).groups("")  # type: ignore[union-attr]
        verbs: set[str] = set()
        for name in names.split("|"):
            verbs |= WORDS[name[1:]] if name.startswith("$") else {name}
        yield Frame(
            allows=answer == "yes",
            verbs=frozenset(verbs - {"any"}),
            forms=frozenset(forms.split("|")) - {""},
            conditions=[read_condition(condition, LEXICON, CONDITIONS) for condition in conditions.split()],
            sentence=sentence,
        )


class VerbRule:
    """The rule for one form of a verb and its opposite, which may be a verb and a particle (*fall below*).

    ``ending`` is the form's Penn tag, ``VBD`` where past and participle look the same; ``transitive`` says whether an
    object (or the passive) must follow.
    """

    def __init__(self, name: str, lemma: str, opposite: str, ending: str, *, transitive: bool) -> None:
        self._name, self._lemma, self._ending = name, lemma, ending
        self._opposite, _, self._particle = opposite.partition(" ")
        kinds = {lemma, "phrasal"} if self._particle else {lemma}
        every = frames()["transitive" if transitive else "intransitive"]
        self._frames = [frame for frame in every if not frame.verbs or not kinds.isdisjoint(frame.verbs)]
        self._is_regular = inflected(self._opposite, "VBD") == inflected(self._opposite, "VBN")

    def __call__(self, view: View, index: int) -> Named | None:
        """The edit at a token, if its frame allows it."""
        frame = self.deciding_frame(view, index)
        if frame is None or not frame.allows:
            return None
        form = self._form(view, index) or ""
        changes = [Change(index, index + 1, f"{inflected(self._opposite, form)} {self._particle}".strip())]
        if self._lemma in WORDS["opposite-of-change"]:
            numbers = from_to(view, index)
            if numbers is None:
                return None
            changes += numbers
        return self._name, changes

    def deciding_frame(self, view: View, index: int) -> Frame | None:
        """The line of ``verbs.txt`` that decides about the verb at a token; None if it is not that form of it."""
        form = self._form(view, index)
        return None if form is None else next(frame for frame in self._frames if frame.fits(view, index, form))

    def _form(self, view: View, index: int) -> str | None:
        return _verb_form(view, index, self._lemma, self._ending, sure=self._is_regular)


def _verb_form(view: View, index: int, lemma: str, ending: str, *, sure: bool) -> str | None:
    """The Penn tag of the verb form at ``index``; none for a noun, or where past and participle look the same."""
    tag = view.tags[index]
    if ending in {"VBD", "VBN"}:
        return _past_form(view, index, lemma, sure=sure)
    if ending == "VBG":
        fits = tag == "VVG"
    elif ending == "VBZ":
        fits = tag == "VVZ" or (lemma in WORDS["always-verbs"] and tag == "NN2")
    else:  # "and not lower specificity"
        fits = tag == "VVB" or (tag == "VVI" and (view.words[index - 1] != "not" or view.tags[index - 2] != "CJC"))
    return ending if fits else None


def _past_form(view: View, index: int, lemma: str, *, sure: bool) -> str | None:
    """The Penn tag of a past or a participle; ``sure`` where both forms of the opposite look the same."""
    tag = view.tags[index]
    if tag == "AJ0":
        return "VBN" if sure else None
    if tag not in {"VVD", "VVN"}:
        return None
    if view.tags[view.before_adverbs(index)].startswith(("VB", "VH")):
        return "VBN"
    if tag == "VVD":
        return "VBD"
    return "VBN" if sure else None


def from_to(view: View, index: int) -> list[Change] | None:
    """The changes that turn *from 3 to 5* round after a word of change; none of them without numbers; None where the
    numbers could not be turned."""
    stop = min(index + 16, view.size)
    origin = view.find({"from"}, index + 1, stop)
    goal = view.find({"to", "-", "–"}, index + 1, stop)
    numbers = [after for after in range(index + 1, stop) if _is_number(view, after)]
    if origin is None or goal is None or not numbers:
        return []
    if view.words[goal] != "to" or set(range(origin + 1, goal)).isdisjoint(numbers):
        return None
    end = goal + (goal - origin)
    if view.tags[origin + 1 : goal] != view.tags[goal + 1 : end] or not view.tags[end - 1]:
        return None
    words = view.sentence.words
    return [Change(origin + 1, goal, words(goal + 1, end)), Change(goal + 1, end, words(origin + 1, goal))]


def _is_number(view: View, index: int) -> bool:
    return view.tags[index] in {"CRD", "NN0"} and view.words[index][:1].isdigit()


def allow(view: View, index: int) -> Named | None:
    """*allows users to edit* → *prevents users from editing*"""
    form = _regular_form(view, index)
    to = None if form is None else _link_of_action(view, index, lambda k: view.tags[k] == "TO0")
    if form is None or to is None:
        return None
    verb, tag = view.words[to + 1], view.tags[to + 1]
    if tag not in {"VVI", "VBI"} or not verb.isalpha() or _coordinated_infinitive(view, to + 2):
        return None
    prevents = Change(index, index + 1, inflected("prevent", form))
    return "swap-action", [prevents, Change(to, to + 2, f"from {inflected(verb, 'VBG')}")]


def prevent(view: View, index: int) -> Named | None:
    """*prevents users from editing* → *allows users to edit*"""
    form = _regular_form(view, index)
    gerunds = {"VVG", "VBG"}
    start = None
    if form is not None:
        start = _link_of_action(view, index, lambda k: view.words[k] == "from" and view.tags[k + 1] in gerunds)
    if form is None or start is None:
        return None
    base = lemma(view.words[start + 1], "VERB")
    if inflected(base, "VBG") != view.words[start + 1]:
        return None
    allows = Change(index, index + 1, inflected("allow", form))
    return "swap-action", [allows, Change(start, start + 2, f"to {base}")]


def _link_of_action(view: View, index: int, is_link: Callable[[int], bool]) -> int | None:
    """The token that joins the object of a verb to what it does, if nothing else is between."""
    if not view.starts_noun_phrase(index + 1):
        return None
    for k in range(index + 2, min(index + 9, view.size - 1)):
        if is_link(k):
            return k
        tag = view.tags[k]
        if (tag[:1] in {"V", "P"} and tag not in {"PRF", "PNP"}) or tag.startswith("CJ"):
            return None
    return None


def _coordinated_infinitive(view: View, start: int) -> bool:
    """Whether another infinitive without *to* may hang on the same verb."""
    return any(
        view.tags[k] == "CJC" and (view.tags[k + 1] in {"VVI", "VVB", "AV0", "TO0"} or view.tags[k + 2] == "VVI")
        for k in range(start, view.size)
    )


def _regular_form(view: View, index: int) -> str | None:
    """The form of an unambiguous regular verb, by its ending and its neighbours."""
    word, tag = view.words[index], view.tags[index]
    if word.endswith("ing"):
        return "VBG" if tag in {"VVG", "AJ0"} else None
    if word.endswith("ed"):
        return "VBD" if tag == "VVD" and not view.is_passive(index) else None
    if word.endswith("s"):
        return "VBZ"
    return "VB" if tag in {"VVB", "VVI", "NN1"} else None


def begin(view: View, index: int) -> Named | None:
    """*began to eat* → *stopped eating*."""
    penn, verb = c5.PENN.get(view.tags[index]), view.words[index + 2]
    infinitive = view.tags[index + 1] == "TO0" and view.tags[index + 2] == "VVI" and verb.isalpha()
    if penn is None or view.is_passive(index) or not infinitive or _coordinated_infinitive(view, index + 3):
        return None
    return "swap-time", [Change(index, index + 3, f"{inflected('stop', penn)} {inflected(verb, 'VBG')}")]


def into(view: View, index: int) -> Named | None:
    """*walks into the room* → *walks out of the room*, *inserted into the slot* → *removed from the slot*."""
    goal = view.starting.get(index + 1)
    before = range(index - 1, max(-1, index - 6), -1)
    verb = next((word for word in before if view.tags[word].startswith("VV")), None)
    if goal is None or verb is None or not _begins("places", view, index + 1):
        return None
    if view.words[verb] in WORDS["motion"] and (verb >= index - 2 or view.tags[verb] == "VVG"):
        return "swap-direction", [Change(index, index + 1, "out of")]
    return _removed_from(view, index, verb)


def _removed_from(view: View, index: int, verb: int) -> Named | None:
    form = _CONTAINER_FORMS.get(view.words[verb])
    if form is None or not {"PUN", "CJC", "PRP"}.isdisjoint(view.tags[verb + 1 : index]):
        return None
    return "swap-direction", [Change(verb, verb + 1, inflected("remove", form)), Change(index, index + 1, "from")]


def _container_forms() -> Iterator[tuple[str, str]]:
    """The forms of verbs of putting something into a container, with their Penn tags: *placed*, *inserting*."""
    for base in WORDS["containers"] - {"embed"}:
        yield base, "VB"
        yield f"{base}s", "VBZ"
        stem = base.removesuffix("e")
        yield f"{stem}ed", "VBN"
        yield f"{stem}ing", "VBG"


_CONTAINER_FORMS = dict(_container_forms())


def from_place(view: View, index: int) -> Named | None:
    """*from Paris to Rome* → *to Paris from Rome*."""
    start = view.starting.get(index + 1)
    end = None if start is None or view.words[start.end] != "to" else view.starting.get(start.end + 1)
    if start is None or end is None or view.head(start) == view.head(end):
        return None
    if not all(_begins("places", view, phrase.start) for phrase in (start, end)):
        return None
    return "swap-direction", [Change(index, index + 1, "to"), Change(start.end, start.end + 1, "from")]


def spatial() -> Family:
    """The family, as the registry makes it."""
    return Family("spatial", partial(rewritings, "spatial"), prompt=text(__package__, "prompt.txt"))


def time() -> Family:
    """The family, as the registry makes it."""
    return Family("time", partial(rewritings, "time"))


def degree() -> Family:
    """The family, as the registry makes it."""
    return Family("degree", partial(rewritings, "degree"))


def action() -> Family:
    """The family, as the registry makes it."""
    return Family("action", partial(rewritings, "action"))


def cause() -> Family:
    """The family, as the registry makes it."""
    return Family("cause", partial(rewritings, "cause"))


def rewritings(family: str, subject: Subject) -> Iterator[Rewriting]:
    """Every swap of one relation of the family in the sentence, in the order of its words.

    >>> sentence = Subject.of_sentence("The cat sleeps inside the box.")
    >>> [rewriting.text for rewriting in rewritings("spatial", sentence)]
    ['The cat sleeps outside the box.']
    """
    yield from written(subject.tagged, _swaps(View(subject.tagged), _table(family)))


def _swaps(view: View, table: Mapping[str, Sequence[Rule]]) -> Iterator[Named]:
    hits = [index for index, word in enumerate(view.words) if word in table]
    closed = _quoted_or_bracketed(view) if hits else set()
    for index in hits:
        if index in closed or not _stands_free(view.sentence, index):
            continue
        for rule in table[view.words[index]]:
            swap = rule(view, index)
            if swap is not None and not _names_the_opposite(view, swap):
                yield swap


def _stands_free(sentence: Sentence, index: int) -> bool:
    """Whether the token is a word of running text: no part of a name, a title or a hyphenated compound."""
    token, text = sentence.tokens[index], sentence.text
    if index > 0 and not token.text.islower() and token.text not in WORDS["compass-names"]:
        return False
    return set("-‐‑/–'\"‘’`=").isdisjoint(
        (text[max(token.start - 1, 0) : token.start], text[token.end : token.end + 1])
    )


def _quoted_or_bracketed(view: View) -> set[int]:
    """The tokens inside quotation marks or brackets."""
    inside: set[int] = set()
    depth, quoted = 0, False
    for index, word in enumerate(view.words):
        if word in {"(", "[", "{"}:
            depth += 1
        elif word in {")", "]", "}"}:
            depth = max(0, depth - 1)
        elif word in {'"', "“", "”", "``", "''"}:
            quoted = word == "“" or (word != "”" and not quoted)
        elif depth or quoted:
            inside.add(index)
    return inside


def _names_the_opposite(view: View, swap: Named) -> bool:
    """Whether the sentence already contains a word that the swap puts in, or a form of it: a contrast of its own."""
    _, changes = swap
    changed = set(chain.from_iterable(range(change.start, change.end) for change in changes))
    removed = {view.words[index] for index in changed}
    others = " ".join(word for index, word in enumerate(view.words) if index not in changed)
    added = " ".join(change.text.lower() for change in changes).split()
    new = {word for word in added if word[0].isalpha()} - removed - WORDS["function-words"]
    if any(_is_in(word, f" {others} ") for word in new):
        return True
    if any(_is_repeated(view, index) for index in changed if view.words[index] not in added):
        return True
    return any(_OPPOSED[word] in view.words for word in removed & _OPPOSED.keys())


def _is_repeated(view: View, index: int) -> bool:
    """Whether a content word is in the sentence again, where it would contradict the swap."""
    word = (view.words[index], view.tags[index])
    pairs = list(zip(view.words, view.tags, strict=True))
    return word[0].isalpha() and word[0] not in WORDS["function-words"] and pairs.count(word) > 1


_OPPOSED = {"more": "less", "most": "least", "less": "more", "fewer": "more", "least": "most"}


def _is_in(word: str, text: str) -> bool:
    """Whether a text contains a word, or one that begins as a long word does."""
    stem = word if len(word) <= 5 else word[: max(5, len(word) - 3)]
    return f" {word} " in text or (len(word) > 2 and f" {stem}" in text)


_RULES: dict[str, dict[str, Rule]] = {
    "time": {"begin begins began start starts started": begin},
    "action": {
        "allows allow allowed allowing enables enable enabled enabling permits permit": allow,
        "prevents prevent preventing prevented": prevent,
    },
    "spatial": {"into": into, "from": from_place},
}


@cache
def _table(family: str) -> dict[str, list[Rule]]:
    """Every word that a family may swap, and its rules in their order."""
    table: defaultdict[str, list[Rule]] = defaultdict(list)
    for word, swap in read_swaps(text(__package__, f"{family}.txt"), LEXICON, CONDITIONS, {"numbers": from_to}):
        table[word].append(swap)
    for words, rule in _RULES.get(family, {}).items():
        for word in words.split():
            table[word].append(rule)
    for kind in ("transitive", "intransitive"):
        for base, opposite in PAIRS.get(f"{family}-{kind}", {}).items():
            name = "swap-change" if base in WORDS["opposite-of-change"] else f"swap-{family}"
            for form, ending in {inflected(base, penn): penn for penn in ("VB", "VBZ", "VBN", "VBD", "VBG")}.items():
                table[form].append(VerbRule(name, base, opposite, ending, transitive=kind == "transitive"))
    return dict(table)
