"""Every family of near-misses: the texts that come out, what must not come out, and what holds for any text.

The sentences are in ``near_misses/FAMILY.txt``: ``= TEXT`` and all its edits in order, a line each, as ``NAME: TEXT``;
``+ NAME | TEXT | EDIT`` has the edit among others; ``0 TEXT`` has none; ``- NAME | TEXT`` none whose name begins so.

Then the data files and the lines of swaps, and a family from another package.
"""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrokit.augmentation.edits.patterns as data
from retrokit.augmentation.edits import NEAR_MISSES, registry, relations
from retrokit.augmentation.edits.binding import attributes
from retrokit.augmentation.edits.binding.fit import BindingView
from retrokit.augmentation.edits.family import Family, load_families
from retrokit.augmentation.edits.files import Written, write_near_misses
from retrokit.augmentation.edits.negation import verbs
from retrokit.augmentation.edits.negation.clauses import ClauseView
from retrokit.augmentation.edits.negation.verbs import negated_finite
from retrokit.augmentation.edits.patterns import Lexicon, Obstacle, read_swaps
from retrokit.augmentation.edits.running_text import RULES
from retrokit.augmentation.edits.sentence import Sentence, Token, View, inflected, rewrite, tag
from retrokit.augmentation.edits.subject import Subject
from retrokit.augmentation.edits.tags import FINITE
from tests.plugins import install, look_in

pytest.importorskip("HanTa", reason="of the extra negatives")


FAMILIES = {family.name: family for family in load_families([*NEAR_MISSES, "time", "degree", "action", "cause"])}


def made(family: str, text: str) -> list[tuple[str, str]]:
    return [(edit.name, edit.after) for edit in FAMILIES[family].edits(Subject.of_sentence(text))]


def cases() -> list[tuple[str, list[str]]]:
    """The family and the lines of each case."""
    found: list[tuple[str, list[str]]] = []
    for family in FAMILIES:
        for line in (Path(__file__).parent / "near_misses" / f"{family}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                found[-1][1].append(line.strip())
            elif line and not line.startswith("#"):
                found.append((family, [line]))
    assert len(found) > 300
    return found


@pytest.mark.parametrize(("family", "lines"), cases(), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_sentence(family: str, lines: list[str]) -> None:
    sign, *fields = lines[0][0], *lines[0][2:].split(" | ")
    if sign == "=":
        assert [f"{name}: {text}" for name, text in made(family, fields[0])] == lines[1:]
    elif sign == "+":
        assert (fields[0], fields[2]) in made(family, fields[1])
    elif sign == "-":
        assert [name for name, _ in made(family, fields[1]) if name.startswith(fields[0])] == []
    else:
        assert (sign, made(family, fields[0])) == ("0", [])


# --- the tables of rules: a sentence a row


def swaps_with_sentences() -> list[tuple[str, str, str]]:
    """Family, kind of edit and sentence of each line of swaps that has one."""
    lines = []
    files = [("negation", "negation", "relations.txt"), ("binding", "binding", "links.txt")]
    files += [(family, "relations", f"{family}.txt") for family in ("spatial", "time", "degree", "action", "cause")]
    for family, folder, file in files:
        content = data.text(f"{data.__package__}.{folder}", file)
        for kind, sentence in re.findall(rf"^([a-z-]+): .*\n{data.EXAMPLE}(.*)$", content, re.MULTILINE):
            lines.append((family, kind, sentence))
    assert len(lines) > 50
    return lines


@pytest.mark.parametrize(("family", "kind", "sentence"), swaps_with_sentences())
def test_the_sentence_of_a_swap(family: str, kind: str, sentence: str) -> None:
    before, after = sentence.split(" > ")
    assert (kind, after) in made(family, before)


@pytest.mark.parametrize("kind", ["transitive", "intransitive"])
def test_every_line_about_verbs_decides_its_sentence(kind: str) -> None:
    rules = [
        (form, relations.VerbRule("", base, opposite, tag_of_form, transitive=kind == "transitive"))
        for name, pairs in relations.PAIRS.items()
        if name.endswith(f"-{kind}")
        for base, opposite in pairs.items()
        for tag_of_form, form in ((penn, inflected(base, penn)) for penn in ("VB", "VBZ", "VBN", "VBD", "VBG"))
    ]
    for frame in relations.frames()[kind]:
        view = View(tag(frame.sentence))
        deciding = [
            rule.deciding_frame(view, index)
            for index in range(view.size)
            for form, rule in rules
            if view.words[index] == form
        ]
        assert frame in deciding, frame.sentence


@pytest.mark.parametrize("obstacle", verbs.OBSTACLES, ids=lambda obstacle: obstacle.sentence)
def test_a_verb_that_is_not_negated(obstacle: Obstacle) -> None:
    view = ClauseView(tag(obstacle.sentence))
    finite = [index for index in range(view.size) if view.tags[index] in FINITE]
    first = [next((other for other in verbs.OBSTACLES if other.holds(view, index)), None) for index in finite]
    assert obstacle in first
    assert not any(negated_finite(view, index) for index, other in zip(finite, first, strict=True) if other == obstacle)


@pytest.mark.parametrize("obstacle", attributes.OBSTACLES, ids=lambda obstacle: obstacle.sentence)
def test_an_adjective_that_stays(obstacle: Obstacle) -> None:
    view = BindingView(tag(obstacle.sentence))
    adjectives = [(phrase, view.shape.rfind("a", phrase.start, phrase.head)) for phrase in view.phrases]
    first = [
        next((other for other in attributes.OBSTACLES if other.holds(view, phrase, at)), None)
        for phrase, at in adjectives
        if at >= 0
    ]
    assert obstacle in first


@pytest.mark.parametrize("fit", attributes.FITS, ids=lambda fit: fit.sentence)
def test_an_adjective_fits_the_first_noun_and_not_the_second(fit: attributes.Fit) -> None:
    view = BindingView(tag(fit.sentence))
    first, second = view.phrases
    (adjective,) = {view.words[phrase.head - 1] for phrase in view.phrases}
    assert adjective in attributes.WORDS[fit.adjectives]
    fits = [attributes._goes_with(view, view.words.index(adjective), phrase) for phrase in (first, second)]
    assert fits == [True, False]


def words_of(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def check_edits(family: str, text: str) -> int:
    """What holds for the edits of any text; how many there are."""
    found = made(family, text)
    assert found == made(family, text)
    assert len({edit for _, edit in found}) == len(found)
    for name, edit in found:
        assert edit.lower() != text.lower()
        assert edit == edit.strip()
        assert edit.count("  ") <= text.count("  ")
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", name)
        assert len(words_of(text).keys() - words_of(edit).keys()) <= 6
    return len(found)


WORDS = (
    "the a patients model models is are was does did not no never all every both few many some only with without at "
    "least than more improve improves improved show shows found effective and but that which , . ? n't can it they "
    "10 results before inside from to rose 20% red instead of because John"
).split()


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(text=st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_words_are_edited_without_fault(family: str, text: str) -> None:
    check_edits(family, text)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_edited_without_fault(family: str, text: str) -> None:
    made(family, text)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("family", "file", "field", "least"),
    [
        ("negation", "scifact/corpus.jsonl", "text", 0.5),
        ("negation", "stsb/dev.jsonl", "sentence1", 0.4),
        ("binding", "stsb/dev.jsonl", "sentence1", 0.05),
        ("spatial", "stsb/test.jsonl", "sentence1", 0.02),
    ],
)
def test_real_sentences(shared_data: Path, family: str, file: str, field: str, least: float) -> None:
    with (shared_data / file).open(encoding="utf-8") as lines:
        texts = [json.loads(line)[field] for line in itertools.islice(lines, 400 if field == "sentence1" else 150)]
    sentences = [piece for text in texts for piece in re.split(r"(?<=[.?!]) (?=[A-Z])", " ".join(text.split()))][:400]
    assert sum(check_edits(family, sentence) > 0 for sentence in sentences) / len(sentences) > least
    if family == "binding":  # nearly all words stay
        for sentence in sentences:
            for _, edit in made(family, sentence):
                assert (words_of(edit) & words_of(sentence)).total() >= 0.5 * words_of(sentence).total()
                assert words_of(edit).total() - words_of(sentence).total() in range(-3, 4)


ROOM = Path(data.__file__).parent
TABLES = ("relations.txt", "verbs.txt", "links.txt")


def faults(content: str) -> list[str]:
    """Sections without a comment or of no kind, and names and entries that are there twice."""
    wrong, names, entries, before = [], [], [], ""
    for line in content.splitlines():
        if line.startswith("["):
            names.append(line.strip("[]").split()[0])
            entries = []
            if not before.startswith("#") or not re.fullmatch(r"\[[a-z][a-z-]*( pairs| table| groups)?\]", line):
                wrong.append(line)
            has_keys, is_of_pairs, is_of_groups = "table]" in line, "pairs]" in line, "groups]" in line
        elif line and not line.startswith("#"):
            words = line.split()
            wrong += words[:1] if has_keys and not words[0].endswith(":") else []
            wrong += [word for word in words if is_of_pairs and not re.fullmatch("[^/>]+[/>][^/>]+", word)]
            first = entries if not is_of_groups else []
            entries = first + words[:1] * has_keys + [w for word in words if not has_keys for w in sides(word)]
            wrong += [word for word in {*entries} if entries.count(word) > 1]
        before = line
    return wrong + [name for name in {*names} if names.count(name) > 1]


def sides(word: str) -> list[str]:
    return word.split(">")[:1] if ">" in word else word.split("/")


@pytest.mark.parametrize("path", sorted(ROOM.glob("*/*s.txt")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_of_words_is_well_formed(path: Path) -> None:
    if path.name not in TABLES:
        assert faults(path.read_text(encoding="utf-8")) == []


LEXICON = Lexicon({"rooms": frozenset({"kitchen", "hall*"})}, {"sides": {"left": "right", "right": "left"}}, {}, {})
KNOWN = {"long": lambda view, at: len(view.words[at]) > 5}


def swapped(lines: str, tagged: str) -> list[tuple[str, str]]:
    """The edits that lines make of ``word/TAG word/TAG``."""
    tokens, start = [], 0
    for entry in tagged.split():
        word, _, tag = entry.partition("/")
        tokens.append(Token(word, tag, start, start + len(word)))
        start += len(word) + 1
    sentence = Sentence(" ".join(token.text for token in tokens), tuple(tokens))
    view, found = View(sentence), []
    for at, word in enumerate(view.words):
        for key, swap in read_swaps(lines, LEXICON, KNOWN, {}):
            if key == word and (edit := swap(view, at)) is not None:
                found.append((edit[0], rewrite(sentence, edit[1])))
    return found


@pytest.mark.parametrize("unknown", ["+numbers", "%places", "0:@short"])
def test_a_swap_names_only_what_there_is(unknown: str) -> None:
    with pytest.raises(KeyError, match=unknown[-5:]):
        list(read_swaps(f"x: in>near where {unknown}", LEXICON, KNOWN, {}))


def test_fields_of_a_family_by_position() -> None:
    family = Family("doubled", lambda subject: [], True, False, {"x": 2}, "Rewrite {sentence}", 0.5)
    assert (family.lots, family.prompt, family.least_overlap, family.needs_corpus) == (
        {"x": 2},
        "Rewrite {sentence}",
        0.5,
        False,
    )


CAT = "The/AT0 cat/NN1 sleeps/VVZ in/PRP the/AT0 kitchen/NN1"


@pytest.mark.parametrize(
    ("line", "tagged", "text"),
    [
        ("x: in>near", CAT, "The cat sleeps near the kitchen"),
        ("x: near/in", CAT, "The cat sleeps near the kitchen"),
        ("x: near>in", CAT, None),
        ("x: sleeps_in>leaves", CAT, "The cat leaves the kitchen"),
        ("x: sleeps_*in>leaves where 0:PRP -1:cat 1:the", CAT, "The cat leaves the kitchen"),
        ("x: sleeps_on>leaves", CAT, None),
        ("x: sleeps>~sing", CAT, "The cat sings in the kitchen"),
        ("x: cat>~sing", CAT, None),  # no verb, so no form
        ("x: sleeps_in>~go_to", CAT, "The cat goes to the kitchen"),
        ("x: $sides", "Turn/VVB left/AV0", "Turn right"),
        ("x: in>near where 2:$rooms", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 2:$rooms", CAT.replace("kitchen", "hallway"), "The cat sleeps near the hallway"),
        ("x: in>near where 2:$rooms", CAT.replace("kitchen", "house"), None),
        ("x: in>near where 2!$rooms", CAT, None),
        ("x: in>near where -1:VV* 1:AT0|DPS", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where -1:NN*", CAT, None),
        ("x: in>near where 1..2:kitchen -3..-2:cat", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1..2!kitchen", CAT, None),
        ("x: in>near where *:the *!dog", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 3:^ -4:^ 9..12!^", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 2:^", CAT, None),
        ("x: in>near where 2:@long 1!@long", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1:the&AT0", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1:the&NN1", CAT, None),
        ("x: in>near where 1!the_kitchen", CAT, None),
        ("x: in>near where -2:cat_?_in -1:sl*", CAT, "The cat sleeps near the kitchen"),
        ("# Rooms.\n%room = 2:$rooms 1:the\n\nx: in>near where %room", CAT, "The cat sleeps near the kitchen"),
        ("x: western>eastern", "The/AT0 Western/AJ0 wall/NN1", "The Eastern wall"),
    ],
)
def test_what_a_line_means(line: str, tagged: str, text: str | None) -> None:
    assert swapped(line, tagged) == ([("x", text)] if text else [])


MODULE = """
from retrokit.augmentation.edits.family import Family, Rewriting
from retrokit.core.registry import Entry

ENTRY = Entry("tense", "the present becomes the past", f"{__name__}:family")


def past(subject):
    sentence = subject.tagged
    for i, token in enumerate(sentence.tokens):
        if token.tag == "VVZ":
            yield Rewriting("past", f"{sentence.words(0, i)} {token.text[:-1]}ed{sentence.text[token.end:]}")


def family():
    return Family("tense", past)
"""


@pytest.fixture
def tense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wheel of the third party leaves in site-packages, and a registry that has not looked there yet."""
    entry_points = "[retrokit.edits]\ntense = tense_of_verbs:ENTRY\n"
    install(tmp_path / "site", "tense", {"tense_of_verbs": MODULE}, entry_points)
    look_in(tmp_path / "site", registry, monkeypatch)


@pytest.mark.usefixtures("tense")
def test_a_family_from_elsewhere(tmp_path: Path) -> None:
    corpus, output = tmp_path / "corpus.jsonl", tmp_path / "near.jsonl"
    corpus.write_text(json.dumps({"text": "The model does not help. The cat jumps into the box."}))
    written = write_near_misses(str(corpus), str(output), families=["spatial", "tense"])
    made = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["family"], row["edit"], row["negatives"]) for row in made] == [
        ("spatial", "swap-direction", ["The cat jumps out of the box."]),
        ("tense", "past", ["The cat jumped into the box."]),
    ]
    assert (written.counts["tense/train"], written.counts["no-edit"]) == (1, 1)
    assert registry.names()[-1] == "tense"


def test_a_summary_has_the_three_most_frequent_reasons():
    counts = Counter({rule: number for number, rule in enumerate(list(RULES)[:4], start=1)})
    (line,) = Written((), counts).summary()[1:]
    assert line.startswith("10 sentences gave none (4: ")
    assert line.count("; ") == 3
    assert line.endswith("; …)")
