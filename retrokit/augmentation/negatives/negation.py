"""Near-misses by negation and its scope: insert it, remove it, move it, swap quantifiers (COMP 3.1, D.1).

Every edit is a rule over C5 tags that gives up where the structure is not certain: a near-miss that is ungrammatical
or says the same as its sentence teaches a model the wrong thing, a sentence without a near-miss costs nothing. So
nothing is negated twice, no question of yes or no is negated (it asks the same), negation does not move across verbs
that raise it ("do not think that it is" is "think that it is not"), and what a word of polarity ("any", "yet") needs
is mended or the edit is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from retrokit.augmentation.negatives.sentence import (
    Change,
    Edit,
    Sentence,
    inflected,
    lemma,
    rewrite,
    uncapitalized,
)

FAMILY = "negation"

Named = tuple[str, list[Change]]
"""A name of an edit and the changes that make it."""

# --- What the rules know of words ------------------------------------------------------------------------------------

_NEGATIVE = frozenset(
    "not n't no never neither nor none nobody nothing nowhere cannot hardly scarcely barely rarely seldom few little "
    "fail fails failed failing lack lacks lacked lacking without unless refuse refuses refused unlikely unable "
    "impossible insufficient unwilling".split()
)
_BE = frozenset(("VBZ", "VBB", "VBD"))
_HAVE = frozenset(("VHZ", "VHB", "VHD"))
_DO = frozenset(("VDZ", "VDB", "VDD"))
_LEXICAL = frozenset(("VVZ", "VVB", "VVD"))
_FINITE = _BE | _HAVE | _DO | _LEXICAL | {"VM0"}
_BASE = frozenset(("VVI", "VBI", "VHI", "VDI"))
_PARTICIPLE = frozenset(("VVN", "VBN", "VHN", "VDN"))
_NOUN = frozenset(("NN1", "NN2", "NN0", "NP0"))
_NAME_LIKE = frozenset(("UNC", "ZZ0"))  # formulae and foreign words stand where nouns do
_ADJECTIVE = frozenset(("AJ0", "AJC", "AJS"))
_PHRASE = (
    _NOUN | _NAME_LIKE | _ADJECTIVE | {"AT0", "DT0", "DPS", "CRD", "ORD", "POS", "VVN", "PRF", "PRP", "AV0", "CJC"}
)
_OBJECT = _NOUN | {"AT0", "DPS", "CRD", "PNP", "CJT"}
_INVERTING = frozenset(("what", "how", "where", "whose", "here", "there", "only"))
_OPENS_CLAUSE = frozenset(("PUN", "PUL", "PUR", "PUQ", "CJS", "CJT", "PNQ", "DTQ", "AVQ"))
_PENN = {"VVZ": "VBZ", "VVD": "VBD", "VHZ": "VBZ", "VHD": "VBD", "VDZ": "VBZ", "VDD": "VBD", "VVN": "VBN"}
_DO_FOR = {"Z": "does", "B": "do", "D": "did"}  # by the last letter of the verb's tag

_BEGINS_PHRASE = frozenset(("AT0", "DPS", "PNP"))
_NO_VERB_PHRASE = frozenset(("PUN", "PUL", "PUR", "PUQ", "PNP", "EX0", "CJC", "CJS", ""))

_CONTRACTED = {
    **{word: word + "n't" for word in "is are was were has have had could should would does do did".split()},
    "can": "can't",
    "will": "won't",
}
_WHOLE = {"ca": "can", "wo": "will", "sha": "shall"}  # what stands before n't
_CLITIC_NEGATED = {
    "'s": "'s not",
    "'re": "'re not",
    "'m": "'m not",
    "'ve": " haven't",
    "'ll": " won't",
    **{"VM0": " wouldn't", "VHD": " hadn't"},  # what 'd stands for
}
_NOMINATIVE = {"he": 1, "she": 1, "it": 1, "i": 2, "we": 2, "they": 2, "you": 2}  # 1 takes "does", 2 takes "do"

# Adverbs that stand before "not", and those after which a negated verb would not be English or would not be negated.
_BEFORE_NOT = frozenset(
    "also still probably likely certainly definitely perhaps possibly therefore thus hence however consequently "
    "generally usually typically currently now often clearly apparently actually really then obviously surely "
    "presumably unfortunately simply largely mostly".split()
)
# Other adverbs that may stand between "does not" and the verb, besides those in -ly.
_BEFORE_VERB = _BEFORE_NOT | frozenset(
    "always first further thereby better best just only even well ever never".split()
)
_NO_NOT_WITH = frozenset(
    "only just even almost nearly merely hardly already too rather pretty never not both either neither as so more "
    "most all each every no than best better solely about over around approximately roughly up at".split()
)
_UNIVERSAL = frozenset(
    "all every each both everyone everything everybody any anyone anything either only many most some several less "
    "more enough much as".split()
)
# "Whether it is not" asks the same as "whether it is"; "until it does not" is rarely said.
_NO_NOT_UNDER = frozenset("whether until till before after once since as".split())
_ONCE = frozenset("when if while".split())  # "when it never does" is rarely said either
_PARTICULAR = {"some": "any", "something": "anything", "someone": "anyone", "somebody": "anybody"}
_POLAR = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody", "anywhere": "somewhere"}
_NEGATIVE_ONLY = frozenset(
    "ever yet either nor neither until till whatsoever anymore necessarily unless let alone nevertheless rather "
    "instead much long even bother budge slightest".split()
)
_NOT_AFTER_SOME = frozenset(("more", "longer", "other", "of", "way", "one"))
_NOT_AFTER_NOT = frozenset(
    "only just merely simply solely even so least until necessarily too unless all every everyone everything one a "
    "much many enough always long very that exactly quite both sure but for because".split()
)
# Verbs after which "not that P" and "that not P" differ: those that report or establish, never those that suppose.
_FACTIVE = frozenset(
    "show demonstrate prove reveal find confirm report establish observe note discover conclude know explain realize "
    "realise mention state acknowledge verify illustrate recognize recognise remember notice".split()
)
_NO_DO = frozenset("let please thank welcome be need dare suffice become ought wish hope lest say".split())
_NO_FAIL = frozenset(
    "have need want know like mean seem appear depend belong consist live remain think believe be come go say use "
    "fail lack refuse avoid get stay cost weigh equal require tend try aim seek hope wish relate involve differ feel "
    "love hate".split()
)
# Authors seldom write that they never did a thing; what they may fail to do is to show or to find.
_AUTHORS = frozenset("we paper work study article report chapter thesis results experiments".split())
_AUTHORS_FAIL = _FACTIVE | frozenset("detect replicate reproduce identify provide achieve obtain improve solve".split())
_BEARS_NO = frozenset("have show find observe report see offer provide give reveal exhibit produce cause cite".split())
_AMOUNT = frozenset(
    "few lot little bit number variety great total majority set series range couple pair host wide while part piece "
    "large long good way handful plethora multitude need lots deal fraction small look chance kind type sort".split()
)
_COUNTED = frozenset(
    "difference effect association correlation relationship change increase decrease reduction improvement impact "
    "influence benefit interaction reason way guarantee problem role link limit solution answer trend advantage "
    "history tendency threat indication requirement restriction attempt mention mechanism response".split()
)
_NO_IDIOM = frozenset(
    "doubt question matter wonder way longer more less such other better different good fewer later sooner small mean "
    "ordinary easy need use sense means account idea exception one stranger time . further".split()
)
_UNITS = frozenset(
    "year month week day hour minute second mile kilometer kilometre meter metre foot inch km cm mm kg pound ounce "
    "dollar euro cent percent point gram g mg ml times time degree % half third quarter acre ton tonne mph".split()
)
_FIXED_AFTER = frozenset(
    "day year week month night time times kind kinds sort sorts way ways other right over but single now else about "
    "morning hours days years together".split()
)
# A noun or a verb that "with" belongs to: "without" would not be English, or not its opposite.
_TAKES_WITH = (
    "associat compar combin correlat relat interact contact agree accord collab conjunct contrast consist deal contend "
    "provid supply suppli equip present replac fill fac infect treat help charg endow mix integrat coupl shar align "
    "work meet met talk discuss problem experienc line interview war contract issu concern compl cope struggl familiar "
    "connect link along start begin began begun end cover coincid overlap compet communic identif identic confus "
    "consult continu credit cross diagnos disagree differ don done doing engag entrust exchang fight fought fit go "
    "goes involv join liv live marri match merg negotiat obsess part pair play pleas relationship satisf dissatisf "
    "speak sat sit stick stay stand strik tamper team tie trust vary vari wrong togeth similar analog equal analys fus "
    "coexist"
).split()
_AFFIRMATIVE = {
    "able": "unable",
    "likely": "unlikely",
    "possible": "impossible",
    "sufficient": "insufficient",
    "willing": "unwilling",
}
_PAIRED = _AFFIRMATIVE | {negative: word for word, negative in _AFFIRMATIVE.items()}


@dataclass(frozen=True, slots=True)
class _View:
    """A sentence as the rules look at it.

    ``words`` are in lower case with straight apostrophes; ``words`` and ``tags`` end in empty entries, so that the
    neighbours of the first and the last word can be asked for. ``clause`` numbers the stretch of words between
    punctuation and conjunctions in which each word stands; ``negative`` are the stretches that hold a negative.
    """

    sentence: Sentence
    words: list[str]
    tags: list[str]
    clause: list[int]
    negative: frozenset[int]
    contracts: bool
    question: bool

    def __len__(self) -> int:
        return len(self.sentence.tokens)


Rule = Callable[[_View, int], Iterator[Named]]
"""What a rule is: the edits that can be made at one word of a sentence."""

_PADDING = [""] * 4
_CLITICS = frozenset(("n't", "'re", "'ve", "'ll", "'m", "'d"))
_WH = frozenset("what who whom which whose how why where when".split())
_AUXILIARY_WORDS = frozenset(
    "is are was were am do does did has have had can could should would will may might must shall isn't".split()
)


def _view(sentence: Sentence) -> _View:
    words = [token.text.lower().replace("’", "'") for token in sentence.tokens]
    tags = [token.tag for token in sentence.tokens]
    asks = _AUXILIARY_WORDS.intersection(words[1:4] if words[:1] and words[0] in _WH else words[:1])
    question = bool(words) and (words[-1] == "?" or (bool(asks) and words[-1] not in {".", "!"}))
    contracts = not _CLITICS.isdisjoint(words)
    words += _PADDING
    tags += _PADDING
    clause, negative, number = [], set(), 0
    for i in range(len(sentence.tokens)):
        number += _opens_clause(words, tags, i)
        clause.append(number)
        if words[i] in _NEGATIVE:
            negative.add(number)
    _mend_bases(tags, clause)
    return _View(sentence, words, tags, clause, frozenset(negative), contracts, question)


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
    if tag in _OPENS_CLAUSE:
        return word not in {"than", "as", "-"}
    if tag != "CJC":
        return False
    return word in {"but", "yet", "so"} or (tags[i + 1] == "PNP" and words[i + 1] in _NOMINATIVE)


def edits(sentence: Sentence) -> Iterator[Edit]:
    """The near-misses by negation that can be made of a sentence, in a fixed order, each text once.

    Negated verbs come first, then removals and swaps by their place in the sentence, then moves between clauses. Names
    begin with *insert*, *remove*, *swap* or *move*.
    """
    if len(sentence.tokens) < 3:
        return
    view = _view(sentence)
    seen = {sentence.text}
    for name, changes in _changes(view):
        changes = [_styled(sentence, change) for change in changes]
        text = rewrite(sentence, changes)
        if text not in seen:
            seen.add(text)
            yield Edit(FAMILY, name, text)


def _styled(sentence: Sentence, change: Change) -> Change:
    """The change with the sentence's kind of apostrophe, and with the capital of a word of a title that it replaces."""
    text = change.text.replace("'", "’") if "’" in sentence.text else change.text
    titled = 0 < change.start < change.end and sentence.tokens[change.start].text.istitle()
    return change._replace(text=text[:1].upper() + text[1:] if titled else text)


def _changes(view: _View) -> Iterator[Named]:
    inserted: dict[int, list[Change]] = {}  # by the place of the verb
    removed: dict[int, list[Change]] = {}  # by the place of the "not"
    if view.question:
        yield from _in_question(view)
    else:
        inserted = {i: changes for i in range(1, len(view)) if (changes := _negated(view, i))}
        single = [i for i in inserted if not _has_negative_complement(view, i)]
        for i in single:
            yield "insert-not", inserted[i]
            if i == single[0]:
                yield from _negated_otherwise(view, i)
        yield from _imperative(view)
        if not inserted:
            yield from _caption(view)
    for i in range(len(view)):
        if view.tags[i] == "XX0" and (changes := _affirmed(view, i)):
            removed[i] = changes
            yield "remove-not", changes
        for rule in _BY_WORD.get(view.words[i], ()):
            yield from rule(view, i)
    yield from _moved(view, inserted, removed)


# --- Subjects and verbs ----------------------------------------------------------------------------------------------


def _subject(view: _View, end: int) -> str:
    """What stands as the subject right before token ``end``: ``"1"`` if it takes *does*, ``"2"`` if it takes *do*,
    ``"12"`` if it may take either, and nothing if there is no certain subject."""
    words, tags, last = view.words, view.tags, end - 1
    tag, word = tags[last], words[last]
    if tag == "PNP":
        clear = word not in {"it", "you"} or tags[last - 1] in _OPENS_CLAUSE | {"", "CJC", "AV0"}
        return str(_NOMINATIVE[word]) if word in _NOMINATIVE and clear else ""
    if tag in {"PNQ", "DTQ", "CJT"}:  # a relative pronoun; the noun before it decides
        return "12" if word in {"who", "which"} or (word == "that" and tags[last - 1] in _NOUN) else ""
    if tag in {"PNI", "DT0", "EX0"}:
        opens = tags[last - 1] in _OPENS_CLAUSE | {""}
        return {"this": "1", "that": "1", "these": "2", "those": "2"}.get(word, "") if opens else ""
    return _noun_subject(view, last) if tag in _NOUN or tag in _NAME_LIKE else ""


def _noun_subject(view: _View, last: int) -> str:
    """As :func:`_subject`, for a subject that ends in the noun ``last``."""
    tags = view.tags
    start = last
    while start and tags[start - 1] in _PHRASE:
        start -= 1
    if start and tags[start - 1] not in _OPENS_CLAUSE:
        return ""
    while start < last and (tags[start] in {"AV0", "CJC"} or tags[start] == "PRP"):
        if tags[start] == "PRP":
            return ""
        start += 1
    if tags[start] == "PRF" or not _UNIVERSAL.isdisjoint(view.words[start:last]):
        return ""
    head = start
    while tags[head] not in _NOUN and tags[head] not in _NAME_LIKE:
        head += 1
    while head < last and (tags[head + 1] in _NOUN or tags[head + 1] in {"POS", "CRD"} or tags[head + 1] in _NAME_LIKE):
        head += 1
    if "CJC" in tags[start : last + 1]:
        joined = tags.index("CJC", start)
        if view.words[joined] != "and" or not {"PRF", "PRP"}.isdisjoint(tags[start:joined]):
            return ""
        return "2"
    return {"NN2": "2", "NN1": "1", "NP0": "1"}.get(tags[head], "12")


def _is_auxiliary(view: _View, i: int) -> bool:
    tags = view.tags
    after = i + 1
    while tags[after] in {"AV0", "XX0"}:
        after += 1
    if tags[i] in _BE:
        return True
    if tags[i] == "VM0":
        return tags[after] in _BASE
    return tags[i] in _HAVE and tags[after] in _PARTICIPLE


def _base(view: _View, i: int) -> str:
    """The base form of the finite verb ``i``; nothing if the word is not surely that form of a verb."""
    word, tag = view.words[i], view.tags[i]
    if tag in _HAVE:
        return "have" if word in {"has", "have", "had"} else ""
    if not word.isalpha():
        return ""
    if tag == "VVB":
        return word
    base = "leave" if word == "left" else lemma(word, "VERB")
    return base if inflected(base, _PENN[tag]) == word else ""


def _has_negative(view: _View, i: int) -> bool:
    """Whether the clause of token ``i`` is negative, with those before it that a comma only cuts off."""
    clause = view.clause[i]
    while clause not in view.negative:
        start = view.clause.index(clause)
        goes_on = view.tags[start + 1] == "CJC" or start + 1 == i
        if view.words[start] != "," or not (goes_on or _FINITE.isdisjoint(view.tags[_first(view, start - 1) : start])):
            return False
        clause -= 1
    return True


def _first(view: _View, i: int) -> int:
    """The first token of the clause of token ``i``."""
    return view.clause.index(view.clause[i])


def _has_negative_complement(view: _View, i: int) -> bool:
    """Whether the clause of token ``i`` is joined by *that* to a negative one: no one negates both."""
    start, end = _first(view, i), _rest(view, i).stop
    below = view.words[end] == "that" and view.clause[i] + 1 in view.negative
    return below or (view.words[start] == "that" and view.clause[i] - 1 in view.negative)


def _rest(view: _View, i: int) -> range:
    """The words after token ``i`` up to where its clause ends."""
    end = i + 1
    while end < len(view) and view.clause[end] == view.clause[i]:
        end += 1
    return range(i + 1, end)


def _opening(view: _View, i: int) -> str:
    """The conjunction that opens the clause of token ``i``, or whatever its first word is."""
    start = _first(view, i)
    if view.words[start] == "if" and view.tags[start - 1] in _LEXICAL | _BASE:
        return "whether"
    return view.words[start]


def _before(view: _View, i: int) -> list[str]:
    """The words of the clause of token ``i`` that stand before it."""
    return view.words[_first(view, i) : i]


# --- Inserting -------------------------------------------------------------------------------------------------------


def _negated(view: _View, i: int) -> list[Change]:
    """The changes that negate the finite verb ``i`` with *not*; none if that is not certain to be right."""
    if view.tags[i] not in _FINITE or _has_negative(view, i) or _in_brackets(view, i):
        return []
    if view.words[i + 1] in _NO_NOT_WITH or view.words[i - 1] in {"if", "as", "than", "so", "nor"}:
        return []
    if not _UNIVERSAL.isdisjoint(_before(view, i)) or _opening(view, i) in _NO_NOT_UNDER:
        return []
    end = _rest(view, i).stop
    end += view.words[end] == "," and view.words[end + 1] == "but"
    if view.words[end] == "but" and view.words[end + 1] in {"also", "no", "not", "never"}:
        return []  # "you may drink water, but no tea"
    return _negated_auxiliary(view, i) if _is_auxiliary(view, i) else _negated_verb(view, i)


def _in_brackets(view: _View, i: int) -> bool:
    tags = view.tags[:i]
    return tags.count("PUL") > tags.count("PUR")


def _negated_auxiliary(view: _View, i: int) -> list[Change]:
    words, tags = view.words, view.tags
    if not _may_precede_auxiliary(view, i) or tags[i + 1] in _NO_VERB_PHRASE:
        return []
    place = i + 1
    while words[place] in _BEFORE_NOT:
        place += 1
    if words[place] in _NO_NOT_WITH or tags[place] in _NO_VERB_PHRASE or _supposes(view, i):
        return []
    particular = _particular(view, place)
    word = words[i]
    if word.startswith("'"):
        return [*_negated_clitic(view, i), *particular] if place == i + 1 and _negated_clitic(view, i) else []
    if tags[i - 1] == "EX0" and tags[place] in _NOUN | _ADJECTIVE:
        return [Change(place, place, "no")]
    if tags[i - 1] == "EX0" and words[i + 1] == "a" and words[i + 2] in _AMOUNT:
        return []
    if tags[i - 1] == "EX0" and words[i + 1] == "something":
        return [Change(i + 1, i + 2, "nothing")]
    if place == i + 1 and view.contracts and word in _CONTRACTED:
        return [Change(i, i + 1, _CONTRACTED[word]), *particular]
    if place == i + 1 and word == "can":
        return [Change(i, i + 1, "cannot"), *particular]
    return [Change(place, place, "not"), *particular]


def _negated_clitic(view: _View, i: int) -> list[Change]:
    """*they've seen* → *they haven't seen*; a noun's *'s* may be a genitive and is left alone."""
    if view.tags[i - 1] not in {"PNP", "EX0", "PNQ", "DT0"}:
        return []
    negated = _CLITIC_NEGATED.get(view.words[i] if view.words[i] != "'d" else view.tags[i])
    return [Change(i, i + 1, negated)] if negated else []


def _supposes(view: _View, i: int) -> bool:
    """Whether *as if* stands closely before the verb ``i``."""
    near = view.words[max(0, i - 4) : i]
    return "if" in near and "as" in near


def _may_precede_auxiliary(view: _View, i: int) -> bool:
    """Whether a subject or what goes on with one stands before the auxiliary, so that it is not inverted."""
    before = i - 1
    while before >= 0 and view.tags[before] == "AV0":
        before -= 1
    tag, word = view.tags[before], view.words[before]
    if before < 0 or word in _INVERTING or view.words[i - 1] in _INVERTING:
        return tag == "EX0"
    if view.tags[_first(view, i)] == "PRF":  # "of concern are the costs"
        return False
    if tag == "CJC":
        return word in {"and", "but"} and any(t in _FINITE for t in view.tags[:before])
    return tag in _NOUN or tag in _NAME_LIKE or tag in {"PNP", "PNQ", "DTQ", "DT0", "EX0", "PUR", "CRD"}


def _particular(view: _View, i: int) -> list[Change]:
    """*some* right after a negated verb becomes *any*."""
    general = _PARTICULAR.get(view.words[i])
    return [Change(i, i + 1, general)] if general else []


def _negated_verb(view: _View, i: int) -> list[Change]:
    place, base = _verb_group(view, i)
    if not base:
        return []
    auxiliary = _DO_FOR[view.tags[i][-1]]
    auxiliary = _CONTRACTED[auxiliary] if view.contracts else auxiliary + " not"
    return _with_auxiliary(i, place, auxiliary, base) + _particular(view, i + 1)


def _with_auxiliary(i: int, place: int, auxiliary: str, base: str) -> list[Change]:
    """*auxiliary* before the adverbs that begin at ``place``, and the verb ``i`` in its base form."""
    if place == i:
        return [Change(i, i + 1, f"{auxiliary} {base}")]
    return [Change(place, place, auxiliary), Change(i, i + 1, base)]


def _verb_group(view: _View, i: int) -> tuple[int, str]:
    """Where the verb ``i`` with the adverbs before it begins, and its base form; an empty form if no subject stands
    before them that agrees with the verb, or the verb is no plain finite one."""
    words, tags = view.words, view.tags
    if tags[i] not in _LEXICAL and tags[i] not in _HAVE:
        return i, ""
    first = i
    while tags[first - 1] == "AV0" and first > 1:
        first -= 1
    before_verb = any(word.endswith("ly") or word in _BEFORE_VERB for word in words[first:i])
    place = first if before_verb else i  # other adverbs belong to the noun: "the diagram below shows"
    number = _subject(view, first)
    wanted = {"Z": "1", "B": "2"}.get(tags[i][-1], number[:1])
    joined = tags[i + 1] == "CJC" or (words[i + 1] == "," and tags[i + 2][:1] == "V")
    if not number or wanted not in number or joined or tags[i + 1] == "XX0":
        return i, ""
    if tags[i] == "VVD" and (words[i + 1] == "to" or not (tags[first - 1] == "PNP" or _surely_past(view, i))):
        return i, ""
    while words[place] in _BEFORE_NOT:
        place += 1
    if not _NO_NOT_WITH.isdisjoint(words[place:i]):
        return i, ""
    base = _base(view, i)
    return place, "" if base in _NO_DO else base


def _surely_past(view: _View, i: int) -> bool:
    """Whether the past form ``i`` is its clause's verb and not a participle that follows its noun."""
    if view.words[i + 1] == "by" or view.tags[i + 1] in {"PUN", "PUL", ""}:
        return False
    base = _base(view, i)
    headline = view.words[len(view) - 1] not in {".", "!"}
    if headline and view.tags[i + 1] not in _OBJECT and inflected(base, "VBN") == view.words[i]:
        return False
    later = any(view.tags[k] in _FINITE for k in _rest(view, i))
    comma = _rest(view, i).stop
    return not later and not (view.words[comma] == "," and view.tags[comma + 1] in _FINITE)


def _negated_otherwise(view: _View, i: int) -> Iterator[Named]:
    """The verb ``i``, which *not* can negate, negated by another word."""
    words, tags = view.words, view.tags
    if _opening(view, i) in _ONCE:
        return
    if _is_auxiliary(view, i):
        if words[i].startswith("'") or words[i + 1] in _BEFORE_NOT or words[i + 1] in _PARTICULAR:
            return
        if words[i] in {"may", "might"}:
            yield "insert-cannot", [Change(i, i + 1, "cannot" if words[i] == "may" else "could not")]
        elif tags[i] in _HAVE or words[i] in {"can", "could", "will", "would"} or tags[i + 1] in {"VVN", "AJ0"}:
            yield "insert-never", [Change(i + 1, i + 1, "never")]
        if tags[i] in {"VBZ", "VBB"} and tags[i + 1] in {"VVN", "AJ0", "VVG"}:
            yield "insert-no-longer", [Change(i + 1, i + 1, "no longer")]
        return
    place, base = _verb_group(view, i)
    if words[i + 1] in _PARTICULAR or words[place - 1] in _BEFORE_NOT:
        return
    authors = not _AUTHORS.isdisjoint(words[max(0, place - 3) : place])
    if place == i and tags[i] in _LEXICAL and (base in _AUTHORS_FAIL if authors else base not in _NO_FAIL):
        yield "insert-fail-to", [Change(i, i + 1, f"{inflected('fail', _PENN.get(tags[i], 'VB'))} to {base}")]
    if authors:
        return
    yield "insert-never", [Change(place, place, "never")]
    if tags[i] in {"VVZ", "VVB", "VHZ", "VHB"}:
        yield "insert-no-longer", [Change(place, place, "no longer")]


def _imperative(view: _View) -> Iterator[Named]:
    """*Use it.* → *Do not use it.*, *Never use it.*"""
    words, tags = view.words, view.tags
    if tags[0] != "VVB" or tags[1] not in {"AT0", "DPS", "PNP"} or words[1] in _NOMINATIVE.keys() - {"it", "you"}:
        return
    if view.words[len(view) - 1] not in {".", "!"} or words[0] in _NO_DO or words[0] in {"see", "note", "make"}:
        return
    if any(view.tags[k] in _FINITE for k in _rest(view, 0)) or _has_negative(view, 0):
        return
    verb = uncapitalized(view.sentence, 0, 1)
    yield "insert-not", [Change(0, 1, ("don't " if view.contracts else "do not ") + verb)]
    yield "insert-never", [Change(0, 1, f"never {verb}")]


def _caption(view: _View) -> Iterator[Named]:
    """*A man playing a guitar.* → *A man not playing a guitar.*, where no verb is finite."""
    tags = view.tags
    if any(tag in _FINITE for tag in tags) or view.negative or tags[0] not in {"AT0", "CRD", "NN2", "NN1"}:
        return
    for i in range(1, len(view)):
        if tags[i] == "VVG" and tags[i - 1] in {"NN1", "NN2"} and tags[i + 1] in _AFTER_PARTICIPLE:
            yield "insert-not", [Change(i, i, "not")]
            return


_AFTER_PARTICIPLE = frozenset(("AT0", "DPS", "PRP", "AVP", "CRD", "PUN"))


def _in_question(view: _View) -> Iterator[Named]:
    """*Why does it work?* → *Why doesn't it work?*, *What causes it?* → *What does not cause it?*"""
    words, tags = view.words, view.tags
    if view.negative or tags.count("CJC") > 1:
        return
    if words[0] not in {"why", "when", "which", "what", "who"}:
        return
    auxiliary = next((i for i in range(1, min(4, len(view))) if words[i] in _CONTRACTED), 0)
    subject, verb = auxiliary + 1, auxiliary + 2
    if words[0] == "why" and auxiliary == 1:
        yield "insert-not", [Change(1, 2, _CONTRACTED[words[1]])]
    elif auxiliary and tags[subject] == "PNP" and tags[verb] in _BASE and words[verb] != "do":
        yield "insert-not", [Change(verb, verb, "not")]
    elif not auxiliary and words[0] in {"what", "who", "which"}:
        yield from _negated_wh_subject(view)


def _how_to(view: _View, i: int) -> Iterator[Named]:
    """*how to boil eggs* → *how not to boil eggs*"""
    if view.words[i + 1] == "to" and view.tags[i + 2] in _BASE:
        yield "insert-not", [Change(i + 1, i + 1, "not")]


def _a_few(view: _View, i: int) -> Iterator[Named]:
    """*a few items* → *many items*"""
    head = _noun_end(view, i + 1)
    plain = view.words[i - 1] == "a" and view.words[i - 2] not in {"quite", "only", "just", "than", "not"}
    if plain and head and view.tags[head] == "NN2" and lemma(view.words[head], "NOUN") not in _UNITS:
        yield "swap-a-few-many", [Change(i - 1, i + 1, "many")]


def _negated_wh_subject(view: _View) -> Iterator[Named]:
    verb = 1
    while view.words[0] == "which" and view.tags[verb] in _NOUN | _ADJECTIVE:
        verb += 1
    if view.tags[verb] in {"VVZ", "VVD"} and (base := _base(view, verb)) and base not in _NO_DO:
        yield "insert-not", [Change(verb, verb + 1, f"{_DO_FOR[view.tags[verb][-1]]} not {base}")]


# --- Removing --------------------------------------------------------------------------------------------------------


def _affirmed(view: _View, i: int) -> list[Change]:
    """The changes that take away the *not* at ``i``; none if that is not certain to be right."""
    words, tags = view.words, view.tags
    if words[i + 1] in _NOT_AFTER_NOT or words[i - 1] in {"if", "or", "why", "and", "but", ",", "perhaps"}:
        return []
    repaired = _without_polarity(view, i)
    if repaired is None:
        return []
    host = i - 2 if tags[i - 1] == "AV0" else i - 1
    if tags[host] in _DO:
        changes = _without_do(view, host, i)
    elif tags[host] in _BE or tags[host] in _HAVE or tags[host] == "VM0":
        changes = _without_not(view, host, i)
    elif tags[i + 1] == "TO0" or (tags[i - 1] == "TO0" and tags[i + 1] in _BASE):
        changes = [Change(i, i + 1, "")]
    else:
        changes = []
    if changes and words[i + 1] == "yet":
        changes.append(Change(i + 1, i + 2, "already"))
    return changes + repaired if changes else []


def _without_polarity(view: _View, i: int) -> list[Change] | None:
    """The changes that what only a negative allows wants once the negative ``i`` has gone; None if they are unclear."""
    words, tags = view.words, view.tags
    changes = []
    for k in range(i + 1, len(view)):
        word = words[k]
        if word in {";", ":"}:
            break
        if word in _POLAR and words[k - 1] not in {"than", "by", "if"}:
            if word == "any" and (words[k + 1] in _NOT_AFTER_SOME or tags[k + 1] == "AJC"):
                return None
            changes.append(Change(k, k + 1, _POLAR[word]))
        elif word == "at" and words[k + 1] == "all" and tags[k + 2] not in _NOUN:
            changes.append(Change(k, k + 2, ""))
        elif _wants_negative(view, k) and not (word == "yet" and k == i + 1):
            return None
    return changes


def _wants_negative(view: _View, i: int) -> bool:
    """Whether the word ``i`` needs the negative before it: "ever", "until", or a "but" that corrects."""
    if view.words[i] == "but":
        return not _opens_full_clause(view, i)
    return view.words[i] in _NEGATIVE_ONLY and view.words[i + 1] != "than"


def _opens_full_clause(view: _View, i: int) -> bool:
    """Whether the conjunction ``i`` begins a clause with its own finite verb, and no correction ("but rather")."""
    if view.words[i + 1] in {"also", "rather", "instead", "only", "not", "is", "are", "for", "as", "it", "at"}:
        return False
    return any(view.tags[k] in _FINITE for k in _rest(view, i))


def _without_do(view: _View, host: int, i: int) -> list[Change]:
    """*does not improve* → *improves*; in a question and where the subject follows, only the *not* goes."""
    words, tags = view.words, view.tags
    verb = i + 1
    while tags[verb] == "AV0":
        verb += 1
    if tags[verb] not in {"VVI", "VHI"} or words[verb] == "help":
        inverted = view.question and words[0] in _WH and words[i] == "n't" and tags[i + 1] in _NOUN | _BEGINS_PHRASE
        return [Change(i, i + 1, "")] if inverted else []
    if view.question and tags[host - 1] in {"", "PUN", "AVQ"}:
        return []
    if tags[host] == "VDB":
        return [Change(host, i + 1, "")]
    for k in range(verb, _rest(view, verb).stop + 1):  # a second verb of the same "does" would want its ending too
        after = k + 2 if tags[k + 1] == "AV0" else k + 1
        if (tags[k] in {"CJC", "PUN"} and tags[after] in _BASE | {"VVB"}) or (
            words[k] == "or" and tags[after] == "NN1"
        ):
            return []
    form = inflected(words[verb], _PENN[tags[host]])
    return [Change(host, i + 1, ""), Change(verb, verb + 1, form)]


def _without_not(view: _View, host: int, i: int) -> list[Change]:
    inverted = host == 0 or view.tags[i + 1] == "PNP" or view.tags[host - 1] in {"PUN", "AVQ"}
    if view.tags[i + 1] in {"PUN", "CJC", ""} or view.words[host] in {"need", "dare"}:
        return []
    if inverted and not (view.question and view.words[0] in _WH):
        return []
    if view.words[host] in _WHOLE and view.words[i] == "n't":
        return [Change(host, i + 1, _WHOLE[view.words[host]])]
    return [Change(i, i + 1, "")]


def _never(view: _View, i: int) -> Iterator[Named]:
    words, tags = view.words, view.tags
    repaired = _without_polarity(view, i)
    if repaired is None or view.question or words[i + 1] in {"before", "mind", "ending", "again", ",", ".", "the", "a"}:
        return
    yield "swap-never-always", [Change(i, i + 1, "always"), *repaired]
    if tags[i - 1] in _FINITE or tags[i + 1] in {"VVZ", "VVD"} or words[i - 1] in _NOMINATIVE:
        yield "remove-never", [Change(i, i + 1, ""), *repaired]


def _no(view: _View, i: int) -> Iterator[Named]:
    """*no longer* → *still*, *no more than* → *more than*, *no evidence* → *some evidence*, *no drug* → *every drug*"""
    words, tags = view.words, view.tags
    if words[i + 1] == "longer":
        if tags[i + 2] not in {"PUN", "CJC", ""} and words[i + 2] != "than":
            yield "remove-no-longer", [Change(i, i + 2, "still")]
        return
    if words[i + 1] in {"more", "less", "fewer"} and words[i + 2] == "than" and tags[i + 3] == "CRD":
        yield "remove-no", [Change(i, i + 1, "")]
        return
    repaired = _without_polarity(view, i)
    head = _noun_end(view, i + 1)
    if repaired is None or not head or tags[i] != "AT0" or words[i - 1] in {"or", "and", "whether", "if"}:
        return
    if tags[i + 1] == "CRD" or words[i + 1] in _NO_IDIOM or words[head] in _NO_IDIOM:
        return
    if i == 0 and tags[head + 1] in _FINITE and words[head] not in _COUNTED:
        yield "swap-no-every", [Change(i, i + 1, "all" if tags[head] == "NN2" else "every"), *repaired]
    predicate = tags[i - 1] in _BE and tags[i - 2] != "EX0"
    if tags[head] == "NN1" and (predicate or words[head] in _COUNTED):
        yield "remove-no", [Change(i, i + 1, "a"), *repaired]
    else:
        yield "swap-no-some", [Change(i, i + 1, "some"), *repaired]


def _fail(view: _View, i: int) -> Iterator[Named]:
    """*fails to improve* → *improves*"""
    words, tags = view.words, view.tags
    repaired = _without_polarity(view, i)
    if words[i + 1] != "to" or tags[i + 2] not in {"VVI", "VHI", "VDI"} or repaired is None:
        return
    if tags[i] not in _LEXICAL | {"VVI", "VVN"} or tags[i - 1] == "XX0" or words[i - 1] == "never":
        return
    if tags[i] == "VVN" and not {tags[i - 1], tags[i - 2]} & (_HAVE | {"VHI"}):
        return
    form = words[i + 2] if tags[i] in {"VVB", "VVI"} else inflected(words[i + 2], _PENN[tags[i]])
    yield "remove-fail-to", [Change(i, i + 3, form), *repaired]


def _lack(view: _View, i: int) -> Iterator[Named]:
    """*lacks a nucleus* → *has a nucleus*; *the lack of* → *the presence of*"""
    words, tags = view.words, view.tags
    if words[i + 1] == "of" and words[i - 1] == "the" and tags[i + 2] in {"NN1", "NN2", "AJ0"}:
        yield "remove-lack", [Change(i, i + 1, "presence")]
    form = {"VVZ": "has", "VVB": "have", "VVD": "had", "VVG": "having", "VVI": "have"}.get(tags[i])
    follows = tags[i + 1] in _PHRASE - {"PRP", "PRF", "AV0", "CJC"} and "XX0" not in {tags[i - 1], tags[i - 2]}
    if form and follows and _without_polarity(view, i) == []:
        yield "remove-lack", [Change(i, i + 1, form)]


# --- Adverbs, adjectives and prepositions ----------------------------------------------------------------------------


_COMPARING = frozenset("not n't how more most less as than least so".split())


def _frequency(other: str) -> Rule:
    """*always* → *never*, *often* ↔ *rarely* and the like: the rule that puts ``other`` in its place."""

    def rule(view: _View, i: int) -> Iterator[Named]:
        words, tags = view.words, view.tags
        if tags[i] != "AV0" or words[i - 1] in _COMPARING or (view.question and other == "never"):
            return
        near = _FINITE | _BASE | _PARTICIPLE | {"VVG", "AJ0"}
        if tags[i + 1] not in near and tags[i - 1] not in _FINITE:
            return
        if other in {"never", "rarely"} and _has_negative(view, i):
            return
        if other == "often" and _without_polarity(view, i) != []:
            return
        if i == 0 and tags[1] not in {"VVB", "VVI"}:  # a negative in front would invert verb and subject
            return
        yield f"swap-{words[i]}-{other}", [Change(i, i + 1, other)]

    return rule


def _paired(view: _View, i: int) -> Iterator[Named]:
    """*is able to* ↔ *is unable to*, *it is possible that* ↔ *it is impossible that*"""
    words, tags, word = view.words, view.tags, view.words[i]
    verb = i - 2 if words[i - 1] in {"also", "still", "often", "very", "highly", "therefore", "thus"} else i - 1
    if words[i + 1] not in {"to", "that"} or tags[verb] not in _BE | {"VBI"}:
        return
    if view.question or _opening(view, i) == "whether":
        return
    if word in _AFFIRMATIVE:
        if not _has_negative(view, i):
            yield f"insert-{_PAIRED[word]}", [Change(i, i + 1, _PAIRED[word])]
    elif _without_polarity(view, i) == []:
        yield f"remove-{word}", [Change(i, i + 1, _PAIRED[word])]


def _presence(view: _View, i: int) -> Iterator[Named]:
    words = view.words
    if words[i - 1] != "the" or words[i + 1] != "of" or view.tags[i + 2] not in _PHRASE:
        return
    other = "absence" if words[i] == "presence" else "presence"
    if words[i + 2] not in _POLAR:
        yield f"swap-{words[i]}-{other}", [Change(i, i + 1, other)]


def _without(view: _View, i: int) -> Iterator[Named]:
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or words[i - 1] in {"or", "and", "not", "with", "but"} or words[i + 1] in {"or", "and"}:
        return
    first = i + 2 if words[i + 1] == "any" else i + 1
    if words[first] in _NO_IDIOM or words[first] == "further" or words[first].endswith("ing"):
        return
    if (first == i + 2 or tags[first] in _NOUN | _ADJECTIVE | {"AT0", "DPS"}) and _noun_end(view, first):
        yield "remove-without", [Change(i, first, "with")]


def _with(view: _View, i: int) -> Iterator[Named]:
    """*patients with diabetes* → *patients without diabetes*, where "with" belongs to the noun before it."""
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or tags[i - 1] not in {"NN1", "NN2", ""} or _has_negative(view, i):
        return
    if any(word.startswith(stem) for word in _before(view, i)[-6:] for stem in _WITH_STEMS.get(word[:2], ())):
        return
    first = i + 2 if words[i + 1] in {"a", "an"} else i + 1
    if tags[first] not in _NOUN | _ADJECTIVE or not _noun_end(view, i + 1) or words[first] in _UNIVERSAL | _AMOUNT:
        return
    if words[first] in {"respect", "regard", "reference", "view"}:
        return
    yield "insert-without", [Change(i, i + 1, "without")]


_WITH_STEMS: dict[str, tuple[str, ...]] = {}
for _stem in _TAKES_WITH:
    _WITH_STEMS[_stem[:2]] = (*_WITH_STEMS.get(_stem[:2], ()), _stem)


# --- Quantifiers -----------------------------------------------------------------------------------------------------


def _noun_end(view: _View, i: int) -> int:
    """Where the noun stands that ends the plain noun phrase beginning at ``i``; 0 if there is none."""
    tags = view.tags
    k = i + (tags[i] in {"AT0", "DPS"})
    while tags[k] in _ADJECTIVE or tags[k] in _NOUN or tags[k] in {"VVN", "CRD", "ORD", "UNC"}:
        k += 1
    k -= 1
    ends = k >= i and tags[k] in {"NN1", "NN2", "NN0"} and tags[k + 1] not in {"POS", "ZZ0"}
    return k if ends and view.words[k + 1] not in {"-", "/"} else 0


def _in_number(view: _View, i: int, tag: str) -> list[Change] | None:
    """The changes that make the finite verb right after ``i`` agree with a subject of the number ``tag`` (``NN1`` or
    ``NN2``); None if no finite verb follows."""
    k = i + 1
    while view.tags[k] == "AV0":
        k += 1
    word, verb = view.words[k], view.tags[k]
    if verb in {"VM0", "VVD", "VHD", "VDD"}:
        return []
    known = _SINGULAR if tag == "NN1" else {b: a for a, b in _SINGULAR.items()}
    if verb in _BE | _HAVE | _DO:
        return [Change(k, k + 1, known[word])] if word in known else [] if word in known.values() else None
    if verb == "VVB":
        return [Change(k, k + 1, inflected(word, "VBZ"))] if tag == "NN1" else []
    if verb == "VVZ":
        return [Change(k, k + 1, _base(view, k))] if tag == "NN2" else []
    return None


_SINGULAR = {"are": "is", "were": "was", "have": "has", "do": "does"}


def _is_subject(view: _View, i: int, head: int) -> bool:
    """Whether the phrase from ``i`` to ``head`` begins its clause and a finite verb follows."""
    k = head + 1
    while view.tags[k] == "AV0":
        k += 1
    return view.tags[k] in _FINITE and view.tags[i - 1] in _OPENS_CLAUSE | {"", "CJC"}


def _quantified(view: _View, i: int) -> tuple[int, bool]:
    """The noun that the quantifier ``i`` counts, and whether through "of the"; 0 if that is not plain."""
    if view.words[i + 1] == "of" and view.words[i + 2] in {"the", "these", "those", "our", "their", "its"}:
        return _noun_end(view, i + 3), True
    return _noun_end(view, i + 1), False


def _all(view: _View, i: int) -> Iterator[Named]:
    """*all models are* → *not all models are*, *no models are*, *some models are*; *not all* → *all*, *no*"""
    words, tags = view.words, view.tags
    head, of = _quantified(view, i)
    the = words[i + 1] in {"the", "these", "those"}
    if the:
        head = _noun_end(view, i + 2)
    if not head or tags[head] != "NN2" or words[head] in _FIXED_AFTER or words[i - 1] in _NOT_BEFORE_ALL:
        return
    inner = f" of {words[i + 1]}" if the else " of" if of else ""
    end = i + 2 if inner else i + 1
    no = ("none" if inner else "no") + inner
    if words[i - 1] == "not":
        if i == 1 or tags[i - 2] in _OPENS_CLAUSE:
            yield "swap-not-all-all", [Change(i - 1, i, "")]
            yield "swap-not-all-no", [Change(i - 1, end, no)]
        return
    if words[i - 1] == "n't" or tags[i - 1] in {"PNP", "NN2"}:
        return
    if view.clause[i] not in view.negative:
        if _is_subject(view, i, head):
            yield "swap-all-not-all", [Change(i, i + 1, "not all")]
        yield "swap-all-no", [Change(i, end, no)]
    yield "swap-all-some", [Change(i, end, "some" + inner)]


_NOT_BEFORE_ALL = frozenset("at after of in above nearly almost virtually practically".split())


def _every(view: _View, i: int) -> Iterator[Named]:
    """*every patient was* → *no patient was*, *each of the patients* → *none of the patients*"""
    words, tags = view.words, view.tags
    head, of = _quantified(view, i)
    if not head or tags[i] not in {"AT0", "DT0"} or tags[i + 1] == "CRD" or words[i + 1] in _FIXED_AFTER:
        return
    if view.clause[i] in view.negative or words[head] in _FIXED_AFTER or not _is_subject(view, i, head):
        return
    yield f"swap-{words[i]}-no", [Change(i, i + 1, "none" if of else "no")]
    if words[i] == "every":
        yield "swap-every-not-every", [Change(i, i + 1, "not every")]


def _some(view: _View, i: int) -> Iterator[Named]:
    head, of = _quantified(view, i)
    if not head or view.tags[head] != "NN2" or view.clause[i] in view.negative or not _is_subject(view, i, head):
        return
    word = view.words[i]
    yield f"swap-{word}-no", [Change(i, i + 1, "none" if of else "no")]
    if word == "some":
        yield "swap-some-all", [Change(i, i + 1, "all")]


def _many(other: str) -> Rule:
    """*many* ↔ *few*, *most* → *few*"""

    def rule(view: _View, i: int) -> Iterator[Named]:
        words, tags = view.words, view.tags
        head, of = _quantified(view, i)
        if not head or tags[head] != "NN2" or tags[i] not in {"DT0", "AJ0"} or words[i - 1] in _NOT_BEFORE_MANY:
            return
        superlative = words[i] == "most" and not of and head != i + 1
        if superlative or words[i + 1] in {"other", "more", "as"}:
            return
        if _has_negative(view, i) if other == "few" else _without_polarity(view, i) != []:
            return
        yield f"swap-{words[i]}-{other}", [Change(i, i + 1, other)]

    return rule


_NOT_BEFORE_MANY = frozenset("how as the not n't a than at so too these those".split())


def _both(view: _View, i: int) -> Iterator[Named]:
    """*both models are* → *neither model is*, *both A and B* → *neither A nor B*"""
    words, tags = view.words, view.tags
    if _has_negative(view, i) or view.question:
        return
    if words[i + 1] in {"of", "the", "these", "those"}:
        end = i + 2 if words[i + 1] == "of" else i + 1
        head = _noun_end(view, end + 1)
        agreed = _in_number(view, head, "NN1") if head and tags[head] == "NN2" and _is_subject(view, i, head) else None
        if agreed is not None:
            yield "swap-both-neither", [Change(i, end, "neither of"), *agreed]
        else:
            yield from _both_and(view, i)
        return
    head = _noun_end(view, i + 1)
    if head and tags[head] == "NN2" and words[head + 1] not in {"and", ","}:
        singular = lemma(words[head], "NOUN")
        agreed = _in_number(view, head, "NN1") if _is_subject(view, i, head) else None
        if agreed is not None and inflected(singular, "NNS") == words[head]:
            yield "swap-both-neither", [Change(i, i + 1, "neither"), Change(head, head + 1, singular), *agreed]
        return
    yield from _both_and(view, i)


def _both_and(view: _View, i: int) -> Iterator[Named]:
    words, tags = view.words, view.tags
    inside = _rest(view, i)
    joints = [k for k in inside if tags[k] == "CJC"]
    joint = joints[0] if joints else 0
    if words[joint] != "and" or joint - i > 6 or not _FINITE.isdisjoint(tags[i:joint]):
        return
    if tags[i - 1] in _LEXICAL | _BE | {"PRP"}:
        if len(joints) == 1 and _FINITE.isdisjoint(tags[i : inside.stop]):
            yield "swap-both-neither", [Change(i, i + 1, "neither"), Change(joint, joint + 1, "nor")]
        return
    head = _noun_end(view, joint + 1)
    if tags[i - 1] in _OPENS_CLAUSE | {""} and head and _is_subject(view, i, head):
        agreed = _in_number(view, head, "NN1") if tags[head] != "NN2" else []
        if agreed is not None:
            yield "swap-both-neither", [Change(i, i + 1, "neither"), Change(joint, joint + 1, "nor"), *agreed]


def _neither(view: _View, i: int) -> Iterator[Named]:
    """*neither model is* → *both models are*, *neither A nor B* → *both A and B*"""
    words, tags = view.words, view.tags
    if not {"any", "ever", "yet", "either"}.isdisjoint(words[i:]):
        return
    joint = next((k for k in range(i + 1, min(i + 8, len(view))) if words[k] == "nor"), 0)
    head = _noun_end(view, (joint or i) + 1)
    if joint:
        agreed = _in_number(view, head, "NN2") if head and _is_subject(view, i, head) else []
        if agreed is not None and words.count("nor") == 1:
            yield "swap-neither-both", [Change(i, i + 1, "both"), Change(joint, joint + 1, "and"), *agreed]
        return
    if words[i + 1] == "of":
        head = _noun_end(view, i + 3)
        agreed = _in_number(view, head, "NN2") if head and _is_subject(view, i, head) else None
        if agreed is not None:
            yield "swap-neither-both", [Change(i, i + 1, "both"), *agreed]
    elif head and tags[head] == "NN1" and _is_subject(view, i, head):
        agreed = _in_number(view, head, "NN2")
        if agreed is not None:
            plural = inflected(words[head], "NNS")
            yield "swap-neither-both", [Change(i, i + 1, "both"), Change(head, head + 1, plural), *agreed]


def _none(view: _View, i: int) -> Iterator[Named]:
    """*none of the patients was* → *all of the patients were*"""
    head, of = _quantified(view, i)
    if not of or not head or view.tags[head] != "NN2" or _without_polarity(view, i) != []:
        return
    agreed = _in_number(view, head, "NN2") if _is_subject(view, i, head) else None
    if agreed is not None:
        yield "swap-none-all", [Change(i, i + 1, "all"), *agreed]
        yield "swap-none-some", [Change(i, i + 1, "some"), *agreed]


def _person(other: str) -> Rule:
    """*everyone* ↔ *no one* and the like, as a subject: there the verb stays as it is."""

    def rule(view: _View, i: int) -> Iterator[Named]:
        words = view.words
        if not _is_subject(view, i, i) or words[i + 1] == "else" or view.question:
            return
        if other.startswith("no"):
            if _has_negative(view, i):
                return
        elif _without_polarity(view, i) != []:
            return
        yield f"swap-{words[i]}-{other.replace(' ', '-')}", [Change(i, i + 1, other)]

    return rule


def _no_one(view: _View, i: int) -> Iterator[Named]:
    if view.words[i + 1] == "one" and _is_subject(view, i, i + 1) and _without_polarity(view, i) == []:
        yield "swap-no-one-everyone", [Change(i, i + 2, "everyone")]


def _compared(view: _View, i: int) -> Iterator[Named]:
    """*more than 10 items* ↔ *fewer than 10 items*, *at least* ↔ *at most*, *up to* → *at least*"""
    words, tags = view.words, view.tags
    word, number = words[i], i + 2
    if words[i - 1] == "no" or (words[number] in {"one", "once", "zero"} and word != "at"):
        return
    number += words[number] in {"$", "£", "€"}
    if tags[number] != "CRD" and words[number] not in {"half", "twice"} and not words[number].endswith("%"):
        return
    if words[i + 1] == "than" and word in {"more", "less", "fewer"}:
        other = "more" if word != "more" else "fewer" if _counts(view, number) else "less"
        yield f"swap-{word}-than-{other}-than", [Change(i, i + 1, other)]
    elif word == "at" and words[i + 1] in {"least", "most"}:
        other = "most" if words[i + 1] == "least" else "least"
        yield f"swap-at-{words[i + 1]}-at-{other}", [Change(i + 1, i + 2, other)]
    elif word == "up" and words[i + 1] == "to" and tags[i - 1] in _BE | {"PRP", "PUN", "PUL", "AV0", "VBI"}:
        yield "swap-up-to-at-least", [Change(i, i + 2, "at least")]


def _counts(view: _View, number: int) -> bool:
    """Whether the number counts things (*fewer*) and does not measure (*less*)."""
    head = _noun_end(view, number + 1)
    if not head or (view.tags[head] != "NN2" and view.words[head] != "people"):
        return False
    return lemma(view.words[head], "NOUN") not in _UNITS and view.words[number + 1] not in _UNITS


def _majority(view: _View, i: int) -> Iterator[Named]:
    words = view.words
    if words[i + 1] == "of" and words[i - 1] in {"a", "the"}:
        other = "minority" if words[i] == "majority" else "majority"
        yield f"swap-{words[i]}-{other}", [Change(i - 1, i + 1, f"a {other}")]


def _article(view: _View, i: int) -> Iterator[Named]:
    """*has a significant effect* → *has no significant effect*, *a man is* → *no man is*"""
    words, tags = view.words, view.tags
    head = _noun_end(view, i + 1)
    if not head or view.question or _has_negative(view, i) or not _AMOUNT.isdisjoint(words[i + 1 : head + 1]):
        return
    if tags[i + 1] in {"CRD", "ORD", "AJS"} or tags[head] != "NN1":
        return
    if i == 0 and tags[head + 1] in _FINITE:
        yield "insert-no", [Change(0, 1, "no")]
        return
    verb = i - 1
    if tags[verb] in _BE:
        bears = tags[verb - 1] == "EX0"
    else:
        bears = tags[verb] in _LEXICAL | _HAVE and _base(view, verb) in _BEARS_NO and bool(_verb_group(view, verb)[1])
    if bears:
        yield "insert-no", [Change(i, i + 1, "no")]


def _only(view: _View, i: int) -> Iterator[Named]:
    """*the model only uses text*, *the model uses only text* → *only the model uses text*, and back."""
    tags = view.tags
    if view.question or _has_negative(view, i):
        return
    if i == 0:
        head = _noun_end(view, 1)
        verb = head + 1
        if head and tags[1] in {"AT0", "NN2", "DPS", "DT0"} and tags[verb] in _LEXICAL and _base(view, verb):
            yield "move-only", [Change(0, 1, ""), Change(verb, verb, "only")]
        return
    start = _first(view, i)
    start += tags[start] in _OPENS_CLAUSE
    head = _noun_end(view, start)
    if (
        not 0 < head < i
        or view.words[head] == "others"
        or tags[start] not in {"AT0", "DPS", "NN2", "AJ0"}
        or tags[start - 1] in {"PUR", "PUQ"}
    ):
        return
    between = tags[head + 1 : i]
    if len(between) <= 1 and all(tag in _FINITE for tag in between) and tags[i + 1] not in {"CRD", "AV0", "CJS", "PUN"}:
        first = "only " + uncapitalized(view.sentence, start, start + 1)
        yield "move-only", [Change(start, start + 1, first), Change(i, i + 1, "")]


# --- Moving ----------------------------------------------------------------------------------------------------------


def _moved(view: _View, inserted: dict[int, list[Change]], removed: dict[int, list[Change]]) -> Iterator[Named]:
    """The negation of one clause in another: *A shows that B does not* ↔ *A does not show that B does*, and between
    two clauses that a conjunction joins."""
    for i, away in removed.items():
        for verb, there in inserted.items():
            if name := _joined(view, i, verb):
                yield name, [*away, *there]


def _joined(view: _View, negative: int, verb: int) -> str:
    """How the clause of the *not* and that of the verb are joined: the name of the move, or nothing."""
    clause = view.clause
    first, second = min(negative, verb), max(negative, verb)
    if clause[second] == clause[first]:
        return ""
    starts = clause.index(clause[second])
    word = view.words[starts + 1] if view.words[starts] == "," else view.words[starts]
    apart = clause[second] - clause[first]
    if apart > 2 or (apart == 2 and view.words[starts - 1] != ","):
        return ""
    if word == "that":
        main = verb if verb < negative else _main_verb(view, negative)
        if starts == main + 1 and _base_of(view, main) in _FACTIVE:
            return "move-not-up" if verb < negative else "move-not-down"
        return ""
    if word in _CONTRASTING or (
        view.words[starts] == "," and view.words[_first(view, first)] in _CONTRASTING - {"and"}
    ):
        return "move-not-across"
    return ""


_CONTRASTING = frozenset("but and while whereas although though yet".split())


def _main_verb(view: _View, negative: int) -> int:
    k = negative + 1
    while view.tags[k] == "AV0":
        k += 1
    return k


def _base_of(view: _View, i: int) -> str:
    return view.words[i] if view.tags[i] in {"VVI", "VVB"} else lemma(view.words[i], "VERB")


_BY_WORD: dict[str, tuple[Rule, ...]] = {
    "never": (_never,),
    "no": (_no_one, _no),
    **dict.fromkeys(("fail", "fails", "failed"), (_fail,)),
    **dict.fromkeys(("lack", "lacks", "lacked", "lacking"), (_lack,)),
    "always": (_frequency("never"),),
    **dict.fromkeys(("often", "usually", "frequently", "typically", "generally"), (_frequency("rarely"),)),
    "sometimes": (_frequency("never"),),
    **dict.fromkeys(("rarely", "seldom"), (_frequency("often"),)),
    **dict.fromkeys(_PAIRED, (_paired,)),
    "presence": (_presence,),
    "absence": (_presence,),
    "with": (_with,),
    "without": (_without,),
    "all": (_all,),
    "every": (_every,),
    "each": (_every,),
    "some": (_some,),
    "several": (_some,),
    "many": (_many("few"),),
    "most": (_many("few"),),
    "few": (_many("many"), _a_few),
    "how": (_how_to,),
    "both": (_both,),
    "neither": (_neither,),
    "none": (_none,),
    "everyone": (_person("no one"),),
    "everybody": (_person("nobody"),),
    "everything": (_person("nothing"),),
    "nobody": (_person("everybody"),),
    "nothing": (_person("everything"),),
    "someone": (_person("no one"),),
    **dict.fromkeys(("more", "less", "fewer", "at", "up"), (_compared,)),
    "majority": (_majority,),
    "minority": (_majority,),
    "a": (_article,),
    "an": (_article,),
    "only": (_only,),
}
