"""Stress tests: systems with a planted defect fail exactly their capability, on sentences made here."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.augmentation.edits import registry
from retrokit.augmentation.edits.by_model import prompts_of
from retrokit.augmentation.edits.family import CONTROL, EDIT, Edit, load_families
from retrokit.augmentation.edits.files import near_miss_families
from retrokit.augmentation.edits.generator import PER_TEXT, EditCase, TextToEdit, edit_set, sample_of
from retrokit.augmentation.edits.subject import FUNCTION_WORDS, LEXICON, Passage
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import heard
from retrokit.data.jsonl import read_jsonl, to_json
from retrokit.evaluation.evaluate import evaluate_systems
from retrokit.extensions.stress.stress import RANDOM, StressProbe, outcomes_of, probe_stress
from retrokit.metrics.significance import wilson
from retrokit.report.records import read_record
from tests.evaluation.fakes import write_folder, write_lines
from tests.sure_folders import small_folder

SENTENCES = (
    "The nurses gave 35 patients at least 20 mg of the new drug in March.",
    "In 1998 the surgeon in Kenya treated seven children with severe asthma.",
    "The HIV infection may strongly affect the older women who live in Kenya.",
    "Doctors rarely reported the HCV infection in small towns before the year 2003.",
    "The teacher praised the student after the long exam on organic chemistry.",
    "The engineers show that steel bridges often crack in winter and summer.",
    "Ménière described a rare illness of the inner ear with vertigo and deafness.",
    "The team in Peru sequenced the gene BRCA1 and its copies within 12 weeks.",
    "A majority of farmers use the method to dry coffee and cocoa.",
    "The cook put the hot soup above the cold fish on the wooden table.",
    "The committee did not publish the final report on coastal fishing in Ghana.",
    "The red truck followed the blue bicycle through the narrow village.",
    "The lawyers can quickly examine 640 contracts with the new software.",
    "The dog chased the cat because the gate of the garden stood open.",
    "The pilot landed the plane before the storm reached the island of Fiji.",
)
TRANSLATED = {sentence.upper()[::-1]: sentence for sentence in SENTENCES}
NEGATIONS = frozenset("no not never none neither nor without n't cannot".split())
ADDED = FUNCTION_WORDS - NEGATIONS - {"was", "were", "by"}
FREE = ADDED - frozenset("may will can must could at up more most above below after before".split())
PAIRS = [pair for name in ("verbs", "nouns", "others") for pair in LEXICON.pairs[name].items()]
FORMS = [(f"{a}{end}", f"{b}{end}") for a, b in PAIRS for end in ("", "s", "d", "ed")] + [
    ("doctors", "physicians"),
    ("children", "kids"),
]
LOOKS = (
    ("rn", "m"),
    ("in", "m"),
    ("ri", "n"),
    ("li", "h"),
    ("cl", "d"),
    ("vv", "w"),
    ("e", "c"),
    ("0", "o"),
    ("1", "l"),
)


def meanings() -> dict[str, str]:
    """Each word that has a synonym, with one word for all of them."""
    meaning = {word: word for pair in FORMS for word in pair}
    for _ in range(4):
        for pair in FORMS:
            first = min(meaning[word] for word in pair)
            meaning |= dict.fromkeys(pair, first)
    return meaning


SAME = meanings()


def normal(text: str, digits: bool = True, capitals: bool = True, accents: bool = True) -> list[str]:
    """The words of a text in a form that no control changes."""
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", TRANSLATED.get(text, text)).replace("\u00ad", "")
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    text = re.sub(r"\w\u0301|\w\u0300", "", text) if not accents else text
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    words = re.findall(r"\w+(?:[.,'-]\w+)*", text)
    words = [word for word in words if capitals or not (len(word) > 3 and word.isupper() and word.isalpha())]
    words = [word.lower() for word in words if digits or not any(letter.isdigit() for letter in word)]
    return words


@cache
def like(word: str, other: str, synonyms: bool = True, typos: bool = True) -> bool:
    """Whether two words are one, up to a synonym or a slip of a letter or two."""
    if word == other:
        return True
    if synonyms and SAME.get(word, word) == SAME.get(other, other):
        return True
    if not typos or len(word) < 5:
        return False
    if look(word) == look(other):
        return True
    both = Counter(word), Counter(other)
    differ = max((both[0] - both[1]).total(), (both[1] - both[0]).total())
    return (
        word.isalpha() and (word[0], word[-1]) == (other[0], other[-1]) and differ <= 1 >= abs(len(word) - len(other))
    )


def look(word: str) -> str:
    for old, new in LOOKS:
        word = word.replace(old, new)
    return word


def sorted_coordinates(words: list[str]) -> list[str]:
    pattern = r"\b(\w+) (and|or) (\w+)"
    return re.sub(pattern, lambda m: " ".join([min(m[1], m[3]), m[2], max(m[1], m[3])]), " ".join(words)).split()


def aligned(query: list[str], text: list[str], **options: bool) -> float:
    """1 − the cost of finding the query's words in order anywhere in the text, by the query's length; coordinates have
    no order."""
    return max(
        _aligned(query, text, **options), _aligned(sorted_coordinates(query), sorted_coordinates(text), **options)
    )


def _aligned(query: list[str], text: list[str], **options: bool) -> float:
    before = [0.0] * (len(text) + 1)
    for word in query:
        row = [before[0] + (0 if word in FREE else 1)]
        for place, other in enumerate(text, start=1):
            same = before[place - 1] + (0 if like(word, other, **options) else 1)
            row.append(min(same, before[place] + 1, row[-1] + (0 if other in ADDED else 1)))
        before = row
    return 1 - min(before) / max(1, len(query))


Pair = Callable[[str, str], float]


def healthy(query: str, text: str, **options: bool) -> float:
    return aligned(normal(query), normal(text), **options)


def without_order(query: str, text: str) -> float:
    words, there = normal(query), Counter(normal(text))
    missing = sum(not any(like(word, other) for other in there) for word in words)
    negations = sum((there - Counter(words))[word] for word in NEGATIONS)
    return 1 - (missing + negations) / len(words)


def first_words(count: int) -> Pair:
    return lambda query, text: healthy(query, "".join(re.findall(r"\S+\s*", text)[:count]))


def seeing(**options: bool) -> Pair:
    return lambda query, text: aligned(normal(query, **options), normal(text, **options))


def counting(query: str, text: str) -> float:
    counts = Counter(normal(text))
    return healthy(query, text) + sum(max(0, counts[word] - 1) for word in {*normal(query)} - FUNCTION_WORDS)


DEFECTS: dict[str, tuple[Pair, set[str]]] = {
    "none": (healthy, set()),
    "order ignored": (without_order, {"binding"}),
    "cut at 64 words": (first_words(64), {"position"}),
    "first sentence only": (lambda q, t: healthy(q, re.split(r"(?<=[.])\s", t)[0]), {"position", "padding"}),
    "digits dropped": (seeing(digits=False), {"numbers", "dates", "codes"}),
    "capitals unknown": (seeing(capitals=False), {"case"}),
    "accents dropped": (seeing(accents=False), {"diacritics"}),
    "frequency counted": (counting, {"stuffing"}),
    "instructions obeyed": (
        lambda q, t: healthy(q, t) + 9 * bool(re.search("best answer|ranked|highest", t)),
        {"instruction"},
    ),
    "no synonyms": (lambda q, t: healthy(q, t, synonyms=False), {"synonyms"}),
    "one language": (lambda q, t: healthy("Unbekannte Wörter" if q in TRANSLATED else q, t), {"language"}),
    "no typos": (lambda q, t: healthy(q, t, typos=False), {"typos"}),
}


@pytest.fixture(scope="module")
def edits() -> list[EditCase]:
    texts = [TextToEdit(f"{i}", text, None, translation) for i, (translation, text) in enumerate(TRANSLATED.items())]
    return edit_set(texts, load_families(), 0).cases


def rates(score: Pair, edits: list[EditCase], tolerance: float = 0.05) -> dict[str, float]:
    outcomes = outcomes_of(
        lambda qs, ts: np.array([score(*pair) for pair in zip(qs, ts, strict=True)]), edits, tolerance
    )
    return {family: float(np.mean([outcome.passed for outcome in rows])) for family, rows in outcomes.items()}


def test_there_are_edits_of_every_capability(edits):
    assert {edit.edit.family for edit in edits} == set(registry.names())
    assert {edit.edit.kind for edit in edits} == {EDIT, CONTROL}
    assert max(Counter((edit.id, edit.edit.family) for edit in edits).values()) == PER_TEXT
    assert all(edit.edit.after != edit.edit.before or edit.edited_query != edit.query for edit in edits)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_fails_exactly_its_capability(edits, defect):
    score, expected = DEFECTS[defect]
    failed = {name: rate for name, rate in rates(score, edits).items() if rate < 0.9}
    assert set(failed) == expected, failed


def test_a_pass_is_decided_by_the_spread_and_by_the_tolerance():
    scores = {"original": 0.9, "edited": 0.6, "harmless": 0.7, "other": 0.1}

    def outcome(kind: str, tolerance: float = 0.1, **changed: float):
        change = Edit("c", "e", Passage("", "original", ""), "edited", None, kind == EDIT)
        edit = EditCase("1", 0, "q", change, ("harmless",), ("other",))
        values = scores | changed
        outcomes = outcomes_of(lambda qs, ts: np.array([values[text] for text in ts]), [edit], tolerance)
        (outcome,) = outcomes["c"]
        return outcome.passed, round(outcome.edit.fall, 6), round(outcome.bound, 6)

    assert outcome(EDIT) == (True, 0.3, 0.2)
    assert outcome(EDIT, harmless=0.6) == (False, 0.3, 0.3)
    assert outcome(EDIT, harmless=1.3)[0] is False  # a spread is as large upwards
    assert outcome(CONTROL) == (False, 0.3, 0.08)
    assert outcome(CONTROL, 0.4) == (True, 0.3, 0.32)
    assert outcome(CONTROL, edited=0.95)[0] is True
    assert outcome(CONTROL, 1.0, other=0.95) == (False, 0.3, 0.0)
    assert outcome(CONTROL, edited=1.0, other=0.95)[0] is False  # the original is below an unrelated text
    with pytest.raises(UsageError, match="no score"):
        outcome(EDIT, edited=float("nan"))


# --- edits


def test_the_same_seed_gives_the_same_edits_in_any_order():
    texts = [TextToEdit(f"{i}", sentence) for i, sentence in enumerate(SENTENCES)]
    drawn = [sample_of(order, 8, seed) for order in (texts, texts[::-1]) for seed in (1, 1)]
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    assert sample_of(texts, 8, 2) != drawn[0]
    chosen = load_families(["numbers", "typos", "stuffing"])
    assert edit_set(drawn[0], chosen, 1) == edit_set(drawn[2], chosen, 1)
    assert edit_set(drawn[0], chosen, 1) != edit_set(drawn[0], chosen, 2)


@pytest.mark.parametrize(
    ("capability", "sentence", "edited"),
    [
        (
            "units",
            "The patients took 5 mg of the drug for a month.",
            {"The patients took 5 g of the drug for a month."},
        ),
        ("quantities", "It is, at least in part, the work of the team.", set()),
        ("quantities", "They need at least 12 members.", {"They need at most 12 members."}),
        ("quantities", "To the best of our knowledge, it is the first of its kind.", set()),
        (
            "numbers",
            "The 3' untranslated region of type 2 is described in Figure 4 (see [12], Fig. 5, figures 6 and 7).",
            set(),
        ),
        ("numbers", "It binds 25(OH)D and was measured 10-12 times in IL 6.", set()),
        ("codes", "It was 40 mm2 large and used 2D or 3D images of the 1990s.", set()),
        ("modality", "This may not be the cause of the disease.", set()),
        ("modality", "I can't repair it, and they can’t see the cat.", set()),
        ("modality", "The data suggest that it works.", {"The data prove that it works."}),
        ("degree", "It is not strongly associated with the disease.", set()),
        ("degree", "It is strongly associated with the disease.", {"It is weakly associated with the disease."}),
        ("word-order", "If it rains, the farmer reads a book.", set()),
        ("word-order", "If rain falls, the farmer reads a book.", {"The farmer reads a book if rain falls."}),
        ("keywords", "They did not see the cat.", {"They did not see the cat."}),
    ],
)
def test_rules(capability, sentence, edited):
    found = edit_set([TextToEdit("1", sentence)], load_families([capability]), 0).cases
    assert {edit.edit.after for edit in found} == edited
    assert all("not" in edit.edited_query.split() for edit in found if capability == "keywords")


def test_a_judged_document_is_edited_where_its_answer_is():
    text = "A title of ten words. The dog ate 12 sausages. The cat slept for 13 hours. Nobody saw 14 birds."
    capabilities = load_families(["numbers", "units"])
    edits = edit_set([TextToEdit("1", text, "Did the dog eat 12 sausages?")], capabilities, 0).cases
    assert [edit.edit.before for edit in edits] == [text]
    assert re.fullmatch(
        r"A title of ten words. The dog ate \d2 sausages. The cat slept for 13 hours. Nobody saw 14 birds.",
        edits[0].edit.after,
    )
    assert edits[0].harmless[1] == text.replace("The dog", "In fact, the dog")
    (edit,) = edit_set([TextToEdit("1", "The dog ate 12 sausages.", "Did the dog eat 12?")], capabilities[:1], 0).cases
    assert edit.edit.before == "The dog ate 12 sausages."
    # the query does not have the number that the edit takes away
    assert edit_set([TextToEdit("1", text, "Did the dog eat sausages?")], capabilities, 0).cases == []


# --- the probe


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [f"{sentence} {SENTENCES[(i + 4) % len(SENTENCES)]}" for i, sentence in enumerate(SENTENCES)]
    more = [text.replace("The", "One", 1) for text in texts]
    return write_lines(
        tmp_path / "corpus.jsonl", [{"id": f"t{i}", "text": text} for i, text in enumerate([*texts, *more])]
    )


def test_the_probe_compares_with_bm25_chance_and_the_first(corpus):
    probe = probe_stress(["static:16", "bm25"], str(corpus), with_="none")
    systems = list(dict.fromkeys((row.system, row.role) for row in probe.rates))
    assert systems == [("static:16", "system"), ("bm25", "system"), (RANDOM, "reference")]
    rows = {(row.capability, row.system): row for row in probe.rates}
    names = list(dict.fromkeys(row.capability for row in probe.rates))
    assert names == [row.capability for row in probe.counts]
    assert names == [name for name in registry.names() if name in names]  # in the order of the registry
    codes, typos = rows["codes", "bm25"], rows["typos", "bm25"]
    assert (codes.rate, codes.texts) == (1.0, 4)
    assert codes.p is None  # too few
    assert typos.rate < 0.2
    assert rows["synonyms", "bm25"].rate < 0.5
    assert typos.p is not None
    assert typos.difference == pytest.approx(typos.rate - rows["typos", "static:16"].rate)
    assert (typos.low, typos.high) == pytest.approx(wilson(typos.rate, typos.texts))
    assert {row.system for row in probe.worst} == {"static:16", "bm25"}
    assert StressProbe.from_json(probe.to_json()) == probe
    assert to_json(probe.to_json()) == to_json(probe_stress(["static:16", "bm25"], str(corpus), with_="none").to_json())


def test_few_texts_of_a_capability_are_a_sample_of_all(corpus, tmp_path):
    files = [tmp_path / "few.jsonl", tmp_path / "all.jsonl"]
    options = {"with_": "none", "capabilities": ["typos", "negation"]}
    with heard() as lines:
        few = probe_stress(["bm25"], str(corpus), per_capability=5, save_edits=str(files[0]), **options)
    every = probe_stress(["bm25"], str(corpus), all_=True, save_edits=str(files[1]), **options)
    assert [row.texts for row in few.counts] == [5, 5]
    assert all(row.texts > 5 for row in every.counts)
    total = sum(row.edits for row in every.counts)
    assert lines[-1].startswith(f"{sum(row.edits for row in few.counts):,} of {total:,} edits: at most 5 texts")
    assert files[0].read_bytes() == files[1].read_bytes()  # all edits are saved
    assert {(row.id, row.edit) for row in few.worst} <= {
        (case["id"], case["edit"]) for case in map(json.loads, files[1].open())
    }
    for row in few.rates:
        assert (row.low, row.high) == pytest.approx(wilson(row.rate, row.texts))


def test_a_family_without_edits_is_named(tmp_path):
    texts = write_lines(tmp_path / "texts.jsonl", [{"text": "The cat sleeps in the box."}, {"text": "The dog is old."}])
    with heard() as lines:
        probe = probe_stress(
            [], str(texts), capabilities=["negation", "dates"], save_edits=str(tmp_path / "edits.jsonl")
        )
    assert "no edits in these texts: dates" in lines
    assert [row.capability for row in probe.counts] == ["negation"]


def test_a_reranker_catches_what_the_first_system_fails(corpus):
    probe = probe_stress(["static:16"], str(corpus), capabilities=["negation", "binding"], with_="static:16")
    assert {row.caught for row in probe.rates if row.role == "system"} <= {0.0, None}  # its own failures
    assert all(row.caught is None for row in probe.rates if row.role != "system")


def test_judged_queries(tmp_path):
    documents = {f"d{i}": f"A heading. {sentence}" for i, sentence in enumerate(SENTENCES)}
    queries = {f"q{i}": f"Is it true that {sentence}" for i, sentence in enumerate(SENTENCES)}
    data = write_folder(tmp_path / "beir", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(len(SENTENCES))})
    probe = probe_stress(["bm25"], on=f"beir:{data}", capabilities=["typos", "numbers", "keywords"], with_="none")
    assert probe.texts == len(SENTENCES)
    assert {row.id for row in probe.worst} <= {f"q{i}" for i in range(len(SENTENCES))}


def replayed(path: Path, answers: dict[str, str]) -> str:
    """A language model with these answers to the prompts of ``negation``, by sentence; others get NONE."""
    (prompt,) = prompts_of(load_families(["negation"]), "ours")
    rows = [
        {"prompt": prompt.fill(sentence=text), "system": prompt.system, "answer": answers.get(text, "NONE")}
        for text in SENTENCES
    ]
    return f"replay:{write_lines(path, rows)}"


def test_edits_of_a_language_model_are_checked_by_rules(tmp_path, capsys):
    texts = write_lines(tmp_path / "texts.jsonl", [{"text": text} for text in SENTENCES])
    good = SENTENCES[0].replace("The nurses gave", "The nurses hardly gave")
    answers = {SENTENCES[0]: good, SENTENCES[1]: "Something else entirely is written here.", SENTENCES[2]: SENTENCES[2]}
    llm = replayed(tmp_path / "answers.jsonl", answers)
    edits, store = tmp_path / "edits.jsonl", tmp_path / "store.sqlite"
    words = ["probe", "stress", "--texts", str(texts), "--save-edits", str(edits)]
    given = [*words, "--capabilities", "negation,case", "--llm", llm, "--store", str(store)]
    assert cli.run(given) == 0
    rows = [row for _, row in read_jsonl(edits)]
    assert [(row["original"], row["edited"]) for row in rows if row["edit"] == "llm"] == [(SENTENCES[0], good)]
    assert {row["edit"] for row in rows if row["capability"] == "negation"} > {"llm"}
    shown = capsys.readouterr().err
    assert "1: too few shared words" in shown
    assert "1: unchanged" in shown
    assert f"{len(SENTENCES)} calls, 0 answers from the answer cache" in shown
    before = edits.read_bytes()
    assert cli.run(given) == 0
    assert f"0 calls, {len(SENTENCES)} answers from the answer cache" in capsys.readouterr().err
    assert edits.read_bytes() == before
    silent = replayed(tmp_path / "none.jsonl", {SENTENCES[0]: "No."})
    assert cli.run([*words, "--capabilities", "negation", "--llm", silent]) == 0  # with the rules' own edits
    assert "the model reports none" in capsys.readouterr().err
    assert {row["edit"] for _, row in read_jsonl(edits)} == {
        row["edit"] for row in rows if row["capability"] == "negation"
    } - {"llm"}
    assert cli.run([*words, "--capabilities", "case", "--llm", llm]) == 2
    assert "--llm edits by negation, binding, spatial; name one in --capabilities" in capsys.readouterr().err


def test_sure_next_to_the_rates(corpus, tmp_path):
    spec = f"{small_folder(tmp_path / 'sure')},reference=static:16"
    probe = probe_stress(["static:24", "static:8"], str(corpus), capabilities=["case"], with_="none", sure=spec)
    evaluation = retrokit.evaluate(["static:24", "static:8"], [f"sure:{spec}"])
    expected = {(result.encoder, "mean"): result.metrics["rdc"] for result in evaluation.results}
    assert {(row.system, row.testbed): row.rdc for row in probe.sure if row.testbed == "mean"} == expected
    assert StressProbe.from_json(probe.to_json()) == probe
    (tmp_path / "stress.json").write_text(to_json(probe.to_json(), kind="probe-stress"))
    source = read_record(str(tmp_path / "stress.json"), "a probe")
    assert source is not None
    assert "SURE: rank consistency with the reference" in [sheet.title for sheet in source.sheets]


def test_sure_is_not_paired_by_order(corpus, tmp_path, monkeypatch):
    def reversed_results(options):
        return SimpleNamespace(results=evaluate_systems(options).results[::-1])

    monkeypatch.setattr("retrokit.extensions.stress.stress.evaluate_systems", reversed_results)
    spec = f"{small_folder(tmp_path / 'sure')},reference=static:16"
    systems = ["static:24", "static:8"]
    probe = probe_stress(systems, str(corpus), capabilities=["case"], with_="none", sure=spec)
    expected = {
        result.encoder: result.metrics["rdc"] for result in retrokit.evaluate(systems, [f"sure:{spec}"]).results
    }
    assert {row.system: row.rdc for row in probe.sure if row.testbed == "mean"} == expected
    assert {row.system for row in probe.sure} <= {row.system for row in probe.rates}


def test_wrong_input_is_one_line(corpus, tmp_path):
    run = tmp_path / "run.trec"
    run.write_text("q0 Q0 d0 1 1.0 x\n")
    short = write_lines(tmp_path / "short.jsonl", [{"text": "Too short."}, {"text": "Yes."}])
    about = {"texts": str(corpus), "with_": "none"}
    unread = {"texts": str(tmp_path / "none.jsonl"), "with_": "none"}
    for given, says in (
        ({"encoders": ["bm25"], "with_": "none"}, "give `texts=` or `on=`"),
        ({"encoders": ["bm25"], **about, "on": "beir:x"}, "give `texts=` or `on=`"),
        (about, "give systems, or `save_edits=`"),
        ({"encoders": ["bm25", "bm25"], **about}, "a system is named twice: bm25, bm25"),
        ({"encoders": ["bm25"], "on": "beir:x", "with_": "none", "field": "body"}, "`field=` needs `texts=`"),
        ({"texts": str(corpus), "save_edits": "x.jsonl", "with_": "maxsim"}, "`with_=` reranks what a system fails"),
        ({"encoders": ["bm25"], **about, "capabilities": ["language"]}, "language takes `translations=`"),
        ({"encoders": ["bm25"], **about, "capabilities": ["case"], "translations": "x"}, "`translations=` are of the"),
        ({"encoders": ["bm25"], **about, "store": "x.sqlite"}, "`store=` needs `llm=`"),
        ({"texts": str(corpus), "save_edits": "x.jsonl", "sure": "x"}, "`sure=` needs `encoders=`"),
        ({"encoders": ["bm25"], **about, "sure": "x"}, "sure:x"),
        ({"encoders": ["bm25"], **about, "junit": "x.xml"}, "`junit=` needs `fail_under=`"),
        ({"encoders": ["bm25"], **about, "capabilities": ["negations"]}, "unknown family of edits 'negations'"),
        ({"encoders": ["bm25"], **about, "fail_under": ["negatoin=1"]}, "unknown family of edits 'negatoin'"),
        ({"encoders": ["bm25"], **about, "fail_under": ["negation=30"]}, "negation=30: a pass rate is from 0 to 1"),
        ({"encoders": ["bm25"], **about, "fail_under": ["codes=1"]}, "`fail_under=` codes: 4 edits are too few"),
        ({"encoders": ["bm25"], **unread, "capabilities": ["case"], "fail_under": ["codes=1"]}, "codes: `cap"),
        ({"encoders": ["static:8", f"run:{run}"], **unread}, "ranks by ids"),
        ({"encoders": ["hybrid:a=bm25,b=static,weight=auto"], **unread}, "weight=auto is tuned"),
        ({"encoders": ["two-stage:first=bm25,reranker=maxsim,blend=0.5"], **unread}, "cannot score pairs"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)):
            probe_stress(**given)
    with pytest.raises(DataError, match="no sentence that a rule can edit"):
        probe_stress(["bm25"], str(short), with_="none")
    single = write_lines(tmp_path / "single.jsonl", [{"text": SENTENCES[0]}])
    with pytest.raises(DataError, match="a second, unrelated one"):
        probe_stress(["bm25"], str(single), with_="none")


def test_controls_and_families_that_need_a_corpus_are_no_near_misses():
    with pytest.raises(UsageError, match=r"^typos, case: keeps the meaning"):
        near_miss_families(["numbers", "typos", "case"])
    with pytest.raises(UsageError, match=r"^entities, position: takes words or names from other texts"):
        near_miss_families(["numbers", "entities", "position"])
