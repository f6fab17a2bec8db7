"""Triplets to train a verifier on that cannot be told apart by "is anything changed?": the positives are changed too.

A verifier that is trained on (s, s, s̃) learns to look for any edit (COMP, D.1). Here a positive is a rewriting of the
sentence that keeps its meaning, of the same size and often of the same kind as the near-miss: coordinates exchanged, a
clause put first, active and passive, *above* and *below* with the two things exchanged, contractions, synonyms. Both
ways count: of a near-miss, its own rewritings are positives and the sentence is the near-miss.

    python docs/reproduction/scripts/verifier_pairs.py texts FILE.jsonl -o OUT.jsonl [--per-family 1000] [--field text]
    python docs/reproduction/scripts/verifier_pairs.py rewritten BEFORE.jsonl AFTER.jsonl -o OUT.jsonl
    python docs/reproduction/scripts/verifier_pairs.py mirrored TRIPLETS.jsonl -o OUT.jsonl

``texts`` takes sentences as ``retrokit augment near-misses`` does, and ``rewritten`` aligns the sentences of texts with
those of their rewritings by others (fields id, contents). ``mirrored`` writes triplets, and each again with the anchor
and the positive exchanged.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from retrokit.augmentation.crops import Multilingual
from retrokit.augmentation.edits import NEAR_MISSES
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.running_text import why_not
from retrokit.augmentation.edits.sentence import Change, View, inflected, rewrite, tag
from retrokit.augmentation.edits.subject import Subject
from retrokit.data.jsonl import read_jsonl, write_jsonl

CONTRACTIONS = [
    *[(rf"\b{word} not\b", f"{word}n't") for word in "is are was were do does did has have had would could".split()],
    (r"\bcannot\b", "can't"),
    (r"\bwill not\b", "won't"),
    *[(rf"\b({who}) is (?=a|the|not|very|\w+ing)", r"\1's ") for who in ("it", "It", "he", "He", "she", "She")],
    *[(rf"\b({who}) are\b", r"\1're") for who in ("we", "We", "they", "They", "you", "You")],
    *[(rf"\b({who}) will\b", r"\1'll") for who in ("we", "We", "they", "They", "it", "It")],
]
EXPANSIONS = [
    *[(rf"\b{word}n't\b", f"{word} not") for word in "is are was were do does did has have had would could".split()],
    (r"\bcan't\b", "cannot"),
    (r"\bwon't\b", "will not"),
    (r"\bnever\b", "at no time"),
    (r"\bno longer\b", "not any more"),
    (r"\bwithout\b", "with no"),
]
SYNONYMS = """
show demonstrate; big large; small little; begin start; buy purchase; help assist; obtain get; many numerous; often
frequently; quick fast; important significant; use employ; need require; choose select; build construct; method
approach; find discover; also additionally; about approximately; almost nearly; enough sufficient; therefore thus;
however nevertheless; people persons; car automobile; doctor physician; movie film; picture image; child kid; ocean
sea; shop store; street road; make produce; keep retain; ask inquire; end finish; try attempt; happen occur; whole
entire; main principal; hard difficult; easy simple; rich wealthy; sick ill; happy glad; sad unhappy; smart clever;
couch sofa; stone rock; forest woods; boat ship; jump leap; talk speak; look gaze; shut close; reply answer; mistake
error; job task; trip journey; speed velocity; change alter; goal aim; area region; kind type; study investigate;
examine inspect; improve enhance; propose suggest; evaluate assess; allow permit; contain include; consist comprise;
various diverse; novel new; current present; previous prior; usually normally; mainly mostly; recently lately;
efficient effective; accurate precise; robust sturdy; data information; results findings; while whereas; because since;
although though; woman lady; man guy; phone telephone; bike bicycle; plane airplane; photo photograph; television TV;
pretty beautiful; huge enormous; tiny minute; correct right; rapid swift; gather collect; construct assemble
"""
OPENINGS = (
    "Indeed, |In fact, |Note that |It is known that |It is true that |As we know, |Actually, |We note that ".split("|")
)
CLOSINGS = [", as is known", ", as has been noted", ", in fact", ", as one can see"]
FRONTS = (
    "in on at during after before for with by from since through under over among despite although while when if "
    "because as until within without across"
).split()
_SYNONYM = {}
for pair in SYNONYMS.split(";"):
    one, other = pair.split()
    _SYNONYM.setdefault(one, []).append(other)
    _SYNONYM.setdefault(other, []).append(one)
_FORMS = {"VVZ": "VBZ", "VVD": "VBD", "VVN": "VBN", "VVG": "VBG", "NN2": "NNS"}


def rewritings(text: str) -> Iterator[tuple[str, str]]:
    """What keeps the meaning of a sentence: the kind of each rewriting, and the text."""
    sentence = tag(text)
    view = View(sentence)
    ending = {phrase.end: phrase for phrase in view.phrases}
    for rules, name in ((CONTRACTIONS, "contract"), (EXPANSIONS, "expand")):
        made = text
        for pattern, by in rules:
            made = re.sub(pattern, by, made)
        if made != text:
            yield name, made
    for link in range(1, len(sentence.tokens) - 1):
        if sentence.tokens[link].lower not in ("and", "or"):
            continue
        one, other = ending.get(link), view.starting.get(link + 1)
        if one is None or other is None or view.codes[one.start - 1] in ",&" or view.codes[other.end] in ",&fP":
            continue
        if one.end - one.start > 1 and view.codes[one.start] not in "dp" and view.codes[other.start] in "dp":
            continue
        first, second = sentence.words(one.start, one.end), sentence.words(other.start, other.end)
        if one.start == 0:
            first = first[0].lower() + first[1:] if sentence.tokens[0].tag != "NP0" else first
        changes = [Change(one.start, one.end, second), Change(other.start, other.end, first)]
        if "respectively" not in text and "between" not in text:
            yield "exchange-coordinates", rewrite(sentence, changes)
    if match := re.match(rf"^({'|'.join(FRONTS)}) ([^,;:]{{3,70}}), ([^.;:?]+)\.?$", text, re.IGNORECASE):
        rest = match[3][0].upper() + match[3][1:]
        yield "put-last", f"{rest} {match[1].lower()} {match[2]}."
    if match := re.match(rf"^([^,;:?]{{12,}}?) ({'|'.join(FRONTS[:7])}) ((?:\d{{4}}|the \w+|\w+ \d{{4}}))\.?$", text):
        first = tag(match[1]).tokens[0]
        start = match[1] if first.tag == "NP0" or first.text == "I" else match[1][0].lower() + match[1][1:]
        yield "put-first", f"{match[2].capitalize()} {match[3]}, {start}."
    for i, token in enumerate(sentence.tokens):
        base = _base(token.lower, token.tag)
        for synonym in _SYNONYM.get(base, ()):
            form = inflected(synonym, _FORMS[token.tag]) if token.tag in _FORMS else synonym
            form = form.capitalize() if token.text[0].isupper() else form
            yield "synonym", rewrite(sentence, [Change(i, i + 1, form)])
    if text[0].isupper() and not text.endswith("?") and sentence.tokens[0].tag not in ("NP0", "PUQ", "AV0"):
        lowered = text if sentence.tokens[0].text == "I" or text[1].isupper() else text[0].lower() + text[1:]
        yield "open", OPENINGS[len(text) % len(OPENINGS)] + lowered
        yield "close", text.rstrip(".") + CLOSINGS[len(text) % len(CLOSINGS)] + "."
    if match := re.match(r"^(?:However|Moreover|Furthermore|In addition|Indeed|Also|Thus|Hence|Finally), (.+)$", text):
        yield "drop-opening", match[1][0].upper() + match[1][1:]
    yield from _cancelled(text)


def _base(word: str, part: str) -> str:
    if part in ("VVZ", "NN2") and word.endswith("s"):
        return word[:-1]
    if part in ("VVD", "VVN") and word.endswith("ed"):
        return word[:-2] if word[:-2] in _SYNONYM else word[:-1]
    if part == "VVG" and word.endswith("ing"):
        return word[:-3] if word[:-3] in _SYNONYM else word[:-3] + "e"
    return word


FAMILIES = (*NEAR_MISSES, "time", "degree", "action", "cause")
_PAIRED = {
    ("binding", "swap-arguments"): ("active-to-passive",),
    ("binding", "swap-agent"): ("passive-to-active",),
    ("spatial", "swap-position"): ("swap-located", "swap-places"),
    ("degree", "swap-comparative"): ("swap-comparison",),
    ("time", "swap-time"): ("swap-clauses",),
    ("degree", "swap-more-less"): ("swap-comparison",),
}


def _cancelled(text: str) -> Iterator[tuple[str, str]]:
    """Two near-misses that undo each other: arguments exchanged, then the passive; *above* to *below*, exchanged."""
    families = load_families(["binding", "spatial", "time", "degree"])
    binding = families[0]
    for family in families:
        for edit in family.edits(Subject.of_sentence(text)):
            for second in binding.edits(Subject.of_sentence(edit.after)) if (family.name, edit.name) in _PAIRED else ():
                if second.name in _PAIRED[family.name, edit.name]:
                    yield f"{edit.name}+{second.name}", second.after


def triplets(text: str, random: random.Random) -> Iterator[dict[str, object]]:
    """Triplets of a sentence, a family at a time, and of its near-misses."""
    same = list(rewritings(text))
    for family in load_families(FAMILIES):
        by_kind: dict[str, list[str]] = {}
        for edit in family.edits(Subject.of_sentence(text)):
            by_kind.setdefault(edit.name, []).append(edit.after)
        if not by_kind:
            continue
        kind = random.choice(sorted(by_kind, key=lambda name: (name in ("insert-not", "swap-attributes"), name))[:4])
        near = random.choice(by_kind[kind])
        of_near = list(rewritings(near))
        near_texts = [near, *[text for _, text in random.sample(of_near, min(1, len(of_near)))]]
        name, positive = _chosen(same, random) if same else ("same", text)
        if random.random() < 0.15:
            name, positive = "same", text
        yield _row(text, positive, near_texts, family.name, kind, name)
        if of_near:
            name, positive = _chosen(of_near, random)
            yield _row(near, positive, [text, *([_chosen(same, random)[1]] if same else [])], family.name, kind, name)


def _chosen(found: list[tuple[str, str]], random: random.Random) -> tuple[str, str]:
    """One of a kind that is drawn first, so that none crowds out the others; what fits any sentence is rare."""
    kinds = sorted({name for name, _ in found})
    kind = random.choices(kinds, [0.25 if name in ("open", "close") else 1.0 for name in kinds])[0]
    return random.choice([one for one in found if one[0] == kind])


def _row(anchor: str, positive: str, near: list[str], family: str, edit: str, kept: str) -> dict[str, object]:
    near = [text for text in dict.fromkeys(near) if text not in (anchor, positive)]
    return {"anchor": anchor, "positive": positive, "negatives": near, "family": family, "edit": edit, "kept": kept}


def of_texts(path: str, field: str, per_family: int, seed: int) -> Iterator[dict[str, object]]:
    """Triplets of the sentences of a file."""
    draw = random.Random(seed)
    splitter, counts, seen = Multilingual("en"), Counter[str](), set()
    for _, row in read_jsonl(path):
        for sentence in map(str.strip, splitter.cut(str(row[field]))):
            if sentence in seen or why_not(sentence) is not None or len(sentence) > 220:
                continue
            seen.add(sentence)
            for made in triplets(sentence, draw):
                if made["negatives"] and counts[str(made["family"])] < per_family:
                    counts[str(made["family"])] += 1
                    yield made
        if len(counts) == 3 and min(counts.values()) >= per_family:
            return


def of_rewritten(before: str, after: str) -> Iterator[dict[str, object]]:
    """Pairs of a sentence and its rewriting by others, with a near-miss of either."""
    splitter, families, draw = Multilingual("en"), load_families(FAMILIES), random.Random(0)
    rewritten = {row["id"]: str(row["contents"]) for _, row in read_jsonl(after)}
    for _, row in read_jsonl(before):
        if row["id"] not in rewritten:
            continue
        first, second = (
            [part.strip() for part in splitter.cut(text)] for text in (str(row["contents"]), rewritten[row["id"]])
        )
        for one, other in zip(first, second, strict=False) if len(first) == len(second) else ():
            words = set(one.lower().split()), set(other.lower().split())
            if (
                len(words[0] & words[1]) < 0.25 * len(words[0] | words[1])
                or max(len(one), len(other)) > 260
                or one == other
            ):
                continue
            if draw.random() < 0.5:
                one, other = other, one
            near = [
                (f.name, edit) for f in families for edit in f.edits(Subject.of_sentence(draw.choice([one, other])))
            ]
            if near:
                family, edit = draw.choice(near)
                yield _row(one, other, [edit.after], family, edit.name, "rewritten")


def mirrored(path: str) -> Iterator[dict[str, object]]:
    """Triplets with two negatives, one near the anchor and one near the positive; and each the other way round. Where
    both negatives differ from their neighbour by the same words, they say the same, and are an anchor and its positive
    too: so a text that says what is odd is not wrong for that."""
    for _, row in read_jsonl(path):
        one, other, pair = str(row["anchor"]), str(row["positive"]), list(map(str, row["negatives"]))
        sides = [(one, other, pair), (other, one, pair[::-1])]
        if len(pair) == 2 and _changed(one, pair[0]) == _changed(other, pair[1]):
            sides += [(pair[0], pair[1], [one, other]), (pair[1], pair[0], [other, one])]
        for anchor, positive, negatives in sides:
            yield {**row, "anchor": anchor, "positive": positive, "negatives": negatives}


def _changed(one: str, other: str) -> frozenset[tuple[str, ...]]:
    """The words that only one of two texts has, whichever that is."""
    first, second = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
    return frozenset(tuple(sorted(part.elements())) for part in (first - second, second - first))


def main() -> None:
    """Write the triplets that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("texts", "rewritten", "mirrored"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--field", default="text")
    parser.add_argument("--per-family", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.what == "texts":
        rows = of_texts(asked.files[0], asked.field, asked.per_family, asked.seed)
    elif asked.what == "mirrored":
        rows = mirrored(asked.files[0])
    else:
        rows = islice(of_rewritten(*asked.files), 3 * asked.per_family)
    print(f"{write_jsonl(asked.output, (row for row in rows if row['negatives'])):,} triplets in {asked.output}")


if __name__ == "__main__":
    main()
