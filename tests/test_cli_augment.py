"""``retrokit augment`` as typed: pipes, files that come whole or not at all, exit codes and messages."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import retrokit.augmentation.mining as mining
from retrokit.augmentation.crops import CropSettings, crop_pairs, dropout_pairs
from retrokit.augmentation.edits import NEAR_MISSES, registry, sentence
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.subject import Subject
from retrokit.augmentation.masking import Masker, masked_rows
from retrokit.augmentation.settings import MiningSettings
from retrokit.augmentation.texts import Rows, Texts
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from tests.forked_python import light_python

Command = Callable[..., tuple[int, str, str]]

NAMES = ("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Irene", "Jacob")
THINGS = ("apple", "basket", "candle", "drum", "engine")
REST = "and the small dog of her old father sleeps near the river until the long and quiet day is over"
TEXTS = [
    " ".join(f"{name} puts the red {thing} of the king under the green table {REST}." for thing in THINGS)
    for name in NAMES
]
PAIRS = [
    {"anchor": f"the {thing} of {name}", "positive": f"{name} has the {thing}"} for thing in THINGS for name in NAMES
]


ROOT = Path(__file__).resolve().parents[1]


def lines_of(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


CORPUS = lines_of(*({"id": f"t{i}", "text": text} for i, text in enumerate(TEXTS)))


@pytest.fixture
def augment(typed: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run ``retrokit augment …`` in a folder of files."""
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)
    (tmp_path / "pairs.jsonl").write_bytes(lines_of(*PAIRS))

    def run(*words: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code, out, err = typed("augment", *words)
        return code, out, "".join(line for line in err.splitlines(keepends=True) if "is a bare checkpoint" not in line)

    return run


@pytest.fixture
def commands(tiny_bert: Path) -> dict[str, list[str]]:
    """Every command on the test's own files, without its output."""
    return {
        "crops": ["crops", "corpus.jsonl"],
        "dropout": ["dropout", "corpus.jsonl"],
        "mask": ["mask", "corpus.jsonl", "--encoder", str(tiny_bert), "--fraction", "0.3"],
        "near-misses": ["near-misses", "corpus.jsonl"],
        "mine": ["mine", "pairs.jsonl", "--encoder", str(tiny_bert), "--margin", "none", "--sampling", "random"],
        "mix": ["mix", "pairs.jsonl,count=30"],
    }


ALL = ("crops", "dropout", "mask", "near-misses", "mine", "mix")
OF_TEXTS = ("crops", "dropout", "mask", "near-misses")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- what comes out


@pytest.mark.parametrize("name", ALL)
def test_a_file_standard_output_and_gzip_hold_the_same(augment, commands, tmp_path, name):
    code, out, err = augment(*commands[name], "-o", "a.jsonl")
    assert (code, out) == (0, "")
    written = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert len(written.splitlines()) >= 10
    assert augment(*commands[name]) == (0, written, err)
    assert augment(*commands[name], "-o", "b.jsonl.gz")[0] == 0
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).decode() == written
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl", "a.jsonl", "b.jsonl.gz"}


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides(augment, commands, name):
    outputs = [augment(*commands[name], "--seed", seed)[1] for seed in (7, 7, 8)]
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize("name", ALL)
def test_standard_input_is_a_file(augment, commands, tmp_path, name):
    expected = augment(*commands[name])[1]
    _, path, *options = commands[name]
    file, _, how_much = path.partition(",")
    given = f"jsonl:-,{how_much}" if how_much else "-"  # a word that starts with "-," would be an option
    code, out, _ = augment(name, given, *options, stdin=(tmp_path / file).read_bytes())
    assert code == 0
    assert out.replace('"source": "stdin"', '"source": "pairs"') == expected


def test_what_becomes_of_the_texts_is_said(augment, tiny_bert):
    texts = ["", "short. text", TEXTS[0], ". ".join(TEXTS[1].split(". ")[:2])]
    given = lines_of(*({"text": text} for text in texts))
    assert augment("crops", "-", "--per-text", 3, stdin=given)[2] == (
        "4 texts: 1 gave 3 pairs; 3 gave none (2: too few chunks of 2 sentences of 100 to 250 characters; "
        "1: empty text)\n"
    )
    said = "4 texts: 3 gave pairs; 1 gave none (1: empty text)\n"
    assert augment("mask", "-", "--encoder", tiny_bert, stdin=given)[2] == said


def test_negatives_say_what_was_dropped(augment):
    texts = ["", "Hi. The lamp is not above the table. See https://x.org for the whole of the text."]
    code, out, err = augment("near-misses", "-", stdin=lines_of(*({"text": text} for text in texts)))
    assert code == 0
    anchors = {json.loads(line)["anchor"] for line in out.splitlines()}
    assert anchors == {"The lamp is not above the table."}
    families = {json.loads(line)["family"] for line in out.splitlines()}
    made = "; ".join(f"{family}/train: 1" for family in sorted(families))
    assert err.splitlines() == [
        f"3 sentences: {len(families)} near-misses ({made})",
        "3 sentences gave none (1: under 20 characters; 1: a web or mail address; "
        "1: empty, or a pair without a paraphrase)",
    ]


# --- every option reaches the library


CUT = ("--sentences", 1, "--min-chars", 5, "--max-chars", 60, "--splitter", "multilingual:en", "--field", "body")
TWICE = ("--per-text", 2, "--epochs", 2, "--seed", 5)


@pytest.mark.parametrize(("name", "make"), [("crops", crop_pairs), ("dropout", dropout_pairs)])
def test_options_of_crops_and_dropout(augment, tmp_path, name, make):
    rows = [{"body": f"{who} went by Mr. Smith. It rained! {who} slept. Was it late?"} for who in NAMES]
    (tmp_path / "bodies.jsonl").write_bytes(lines_of(*rows))
    code, out, _ = augment(name, "bodies.jsonl", *CUT, *TWICE)
    settings = CropSettings(1, 5, 60, "multilingual:en")
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert found == list(make(Texts("bodies.jsonl", "body"), settings, per_text=2, epochs=2, seed=5))
    assert len(found) == 40
    assert any("Mr. Smith." in row["anchor"] for row in found)


def test_options_of_mask(augment, tiny_bert, tmp_path):
    from retrokit import encoder

    (tmp_path / "bodies.jsonl").write_bytes(lines_of(*({"body": text} for text in TEXTS)))
    words = ("--encoder", tiny_bert, "--fraction", 0.4, "--field", "body", "--epochs", 2, "--seed", 3)
    code, out, _ = augment("mask", "bodies.jsonl", *words)
    masker = Masker(encoder(str(tiny_bert)).model.tokenizer, 0.4)
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert found == list(masked_rows(Rows("bodies.jsonl"), masker, "body", epochs=2, seed=3))
    assert len(found) == 20


def test_a_split_makes_two_files_that_share_no_sentence(augment, tmp_path):
    code, out, err = augment("near-misses", "corpus.jsonl", "--per-family", 10, "--split", 0.8, "-o", "near.jsonl")
    assert (code, out) == (0, "")
    parts = {part: read(tmp_path / f"near.{part}.jsonl") for part in ("train", "test")}
    for part, size in (("train", 8), ("test", 2)):
        families = [row["family"] for row in parts[part]]
        assert {name: families.count(name) for name in families} == {"negation": size, "binding": size, "spatial": size}
    texts = [{text for row in rows for text in (row["anchor"], *row["negatives"])} for rows in parts.values()]
    assert texts[0].isdisjoint(texts[1])
    assert "30 near-misses (binding/test: 2; binding/train: 8; " in err
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl", "near.train.jsonl", "near.test.jsonl"}


def test_families_and_paraphrases(augment):
    pair = {"anchor": "Anna does not see the lamp above the table.", "positive": "Anna overlooks the lamp."}
    code, out, err = augment(
        "near-misses", "-", "--families", "negation, spatial", "--positive", "paraphrase", stdin=lines_of(pair)
    )
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["family"] for row in rows] == ["negation", "spatial"]
    assert {row["positive"] for row in rows} == {"Anna overlooks the lamp."}


def test_quotas_that_the_texts_do_not_fill_are_said(augment):
    given = lines_of({"text": "The lamp is not above the table."})
    code, out, err = augment("near-misses", "-", "--per-family", 5, "--families", "negation", stdin=given)
    assert (code, out.count("\n")) == (0, 1)
    assert err.splitlines()[-1] == "the texts did not fill every quota: 4 of negation/train are missing"


def test_options_of_mine(augment, monkeypatch):
    asked: dict[str, Any] = {}

    class Found:
        def summary(self) -> str:
            return "mined"

    def record(**given: object) -> Found:
        asked.update(given)
        return Found()

    monkeypatch.setattr(mining, "mine", record)
    words = "a.jsonl b.jsonl --encoder minilm -o o.jsonl --sim sfs:16 --index Flat --corpus c.jsonl --judge ce"
    numbers = "--negatives 3 --sampling random --first-rank 2 --last-rank 9 --margin 0.5 --relative-margin 0.1"
    bounds = "--max-score 0.9 --min-score 0.2 --replace --drop-rows-without --scores --seed 4"
    code, _, err = augment(
        "mine", *words.split(), *numbers.split(), *bounds.split(), "--precision", "fp32", "--device", "cpu"
    )
    assert (code, err) == (0, "mined\n")
    chosen = {"absolute_margin": 0.5, "relative_margin": 0.1, "max_score": 0.9, "min_score": 0.2}
    flags = {"keep_negatives": False, "drop_rows_without": True, "scores": True, "seed": 4}
    assert asked.pop("settings") == MiningSettings(3, "random", 2, 9, **chosen, **flags)
    files = {"searcher": "minilm", "data": ("a.jsonl", "b.jsonl"), "output": "o.jsonl", "sim": "sfs:16"}
    more = {"index": "Flat", "corpus": "c.jsonl", "judge": "ce", "precision": "fp32", "device": "cpu"}
    assert asked == files | more
    assert augment("mine", "a.jsonl", "--encoder", "minilm")[0] == 0
    assert asked["settings"] == MiningSettings()  # the defaults are SFS's recipe
    assert augment("mine", "a.jsonl", "--encoder", "minilm", "--margin", "none")[0] == 0
    assert asked["settings"] == MiningSettings(absolute_margin=None)


def test_the_near_misses_that_the_page_shows_are_made():
    page = (ROOT / "docs" / "how-to" / "training-data.md").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in page.splitlines() if line.startswith('{"anchor": ')]
    shown = [row for row in rows if "family" in row]
    families = {family.name: family for family in load_families(NEAR_MISSES)}
    assert [row["family"] for row in shown] == list(families)
    for row in shown:
        assert row["positive"] == row["anchor"]
        made = {(edit.name, edit.after) for edit in families[row["family"]].edits(Subject.of_sentence(row["anchor"]))}
        assert (row["edit"], *row["negatives"]) in made


# --- pipes


def test_crops_masked_and_trained_on_through_pipes(tiny_bert, tmp_path, python):
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)
    train = ["--steps", "2", "--batch-size", "4", "--precision", "fp32", "--device", "cpu", "-o", "run", "--json"]
    chain = [
        ["augment", "crops", "corpus.jsonl", "-o", "-"],
        ["augment", "mask", "-", "--encoder", str(tiny_bert), "--fraction", "0.2"],
        ["finetune", str(tiny_bert), "--data", "-", *train],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    for words in chain:
        before = processes[-1].stdout if processes else None
        command = [python, "-m", "retrokit", *words]
        processes.append(
            subprocess.Popen(command, stdin=before, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
        )
        if before is not None:
            before.close()
    out, err = processes[-1].communicate(timeout=300)
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0], err.decode()
    assert json.loads(out)["steps"] == 2
    assert processes[0].stderr is not None
    assert processes[0].stderr.read() == b"10 texts: 10 gave pairs\n"
    about = json.loads((tmp_path / "run" / "retrokit.json").read_text())
    assert about["data"][0]["records"] == 10


@pytest.mark.parametrize("name", ALL)
def test_a_reader_that_leaves_early_is_no_error(augment, commands, monkeypatch, name):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="utf-8"))
        code, _, err = augment(*commands[name])
        sys.stdout.flush()  # nothing is left that could fail at the interpreter's end
    assert code == 0
    assert "Broken pipe" not in err


# --- bad input


BROKEN = {
    "malformed": (b'{"text": "abc\n', "malformed JSON: "),
    "missing field": (b'{"note": "abc"}\n', "no field 'text'"),
    "no string": (b'{"text": 5}\n', "field 'text' should be a string, found a number"),
    "no object": (b'["abc"]\n', "expected a JSON object, found a list"),
    "mixed encodings": ('{"text": "café"}\n'.encode("latin-1"), "is not UTF-8 text (byte 0xe9 at position 14"),
    "half a character": (b'{"text": "\\ud800"}\n', "malformed JSON: \\ud800 is half of a surrogate pair"),
}


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_bad_line_in_the_middle_is_named_and_nothing_is_left(augment, commands, tmp_path, name, damage):
    line, problem = BROKEN[damage]
    whole = CORPUS.splitlines(keepends=True)
    (tmp_path / "corpus.jsonl").write_bytes(b"".join([*whole[:6], line, *whole[6:]]))
    (tmp_path / "old.jsonl").write_text("what was there before")
    before = names(tmp_path)
    for output in ("new.jsonl", "old.jsonl", "new.jsonl.gz"):
        code, out, err = augment(*commands[name], "-o", output)
        assert (code, out) == (2, "")
        assert err.startswith(f"retrokit: corpus.jsonl:7: {problem}")
        assert err.count("\n") == 1
    assert names(tmp_path) == before
    assert (tmp_path / "old.jsonl").read_text() == "what was there before"


def test_both_files_of_a_split_are_left_out(augment, tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS + b"{\n")
    code, _, err = augment("near-misses", "corpus.jsonl", "--split", 0.5, "-o", "near.jsonl")
    assert code == 2
    assert err.startswith("retrokit: corpus.jsonl:11: malformed JSON: ")
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}


TOO_LONG = "no text gives a pair: 2 texts (1: empty text; 1: too few chunks of 2 sentences of 100 to 250 characters); "
TOO_LONG += "other sentence counts, lengths or another splitter may keep more"
NOTHING = {
    **{"crops": TOO_LONG, "dropout": TOO_LONG},
    "mask": "no text gives a pair: 2 texts (1: empty text; 1: too few tokens for two maskings); "
    "a larger fraction may mask more",
    "near-misses": "gives no near-miss: 2 sentences gave none (1: over 60 words or 400 characters; "
    "1: empty, or a pair without a paraphrase)",
}


@pytest.mark.parametrize("name", OF_TEXTS)
def test_nothing_usable_says_which_rule_dropped_what(augment, commands, tmp_path, name):
    text = "cat" if name == "mask" else "no period " * 50
    (tmp_path / "corpus.jsonl").write_bytes(lines_of({"text": " "}, {"text": text}))
    code, out, err = augment(*commands[name], "-o", "new.jsonl")
    assert (code, out, err) == (2, "", f"retrokit: corpus.jsonl: {NOTHING[name]}\n")
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}


@pytest.mark.parametrize("name", OF_TEXTS)
def test_an_empty_file_and_an_enormous_line(augment, commands, tmp_path, name):
    (tmp_path / "corpus.jsonl").write_bytes(b"\n \n")
    code, _, err = augment(*commands[name])
    assert (code, err) == (2, 'retrokit: corpus.jsonl: is empty; expected texts, one {"text": …} a line\n')
    (tmp_path / "corpus.jsonl").write_bytes(lines_of({"text": " ".join(TEXTS * 40)}))
    code, out, _ = augment(*commands[name])
    assert code == 0
    assert out


WRONG = {
    "crops nowhere.jsonl": "nowhere.jsonl: does not exist",
    "crops .": ".: is a folder; expected a file",
    "crops corpus.jsonl --field body": "corpus.jsonl:1: no field 'body'; the fields are 'id', 'text'",
    "crops corpus.jsonl -o corpus.jsonl": "corpus.jsonl: is an input too (corpus.jsonl); write to another file",
    "crops corpus.jsonl -o .": ".: could not be written: it is a folder",
    "crops corpus.jsonl --splitter periods": (
        "unknown splitter 'periods' (did you mean period?); known: period, multilingual"
    ),
    "crops corpus.jsonl --min-chars 9 --max-chars 8": "no sentence has 9 or more and 8 or fewer characters",
    "crops corpus.jsonl --per-text 0": "--per-text 0 is out of range (at least 1)",
    "mask corpus.jsonl --encoder BERT --epochs 0": "--epochs 0 is out of range (at least 1)",
    "mask corpus.jsonl --encoder BERT --fraction 1": (
        "a fraction of 1 of the tokens: expected more than 0 and less than 1"
    ),
    "near-misses corpus.jsonl --families negation,bindings": (
        f"unknown family of edits 'bindings' (did you mean binding?); known: {', '.join(registry.names())}"
    ),
    "near-misses corpus.jsonl --positive other": "--positive other is none of anchor, paraphrase",
    "near-misses corpus.jsonl --positive paraphrase": "corpus.jsonl:1: no field 'anchor'; the fields are 'id', 'text'",
    "near-misses corpus.jsonl --split 0.8": "--split writes two files: give --output NAME.jsonl",
    "near-misses corpus.jsonl --split 1 -o x.jsonl": (
        "the share of the training split must lie between 0 and 1, not 1"
    ),
    "near-misses corpus.jsonl --per-family 0": "--per-family 0 is out of range (at least 1)",
    "mine pairs.jsonl --encoder BERT --margin 0,04": "--margin 0,04: expected a number or none",
    "mine pairs.jsonl --encoder BERT --margin -1": "--margin -1.0 is out of range (at least 0)",
    "mine pairs.jsonl --encoder BERT --last-rank 5": "7 negatives cannot come from 5 ranks; widen the range of ranks",
    "mix pairs.jsonl,count=51": "pairs.jsonl: has 50 rows, fewer than count=51; weight=1.02 would repeat some",
    "mix pairs.jsonl corpus.jsonl": "a mixture is of one kind: pairs.jsonl contains pairs, corpus.jsonl contains texts",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_use_is_one_line(augment, tiny_bert, tmp_path, words):
    before = (tmp_path / "pairs.jsonl").read_bytes()
    code, out, err = augment(*words.replace("BERT", str(tiny_bert)).split(), stdin=b"")
    assert (code, out, err) == (2, "", f"retrokit: {WRONG[words]}\n")
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}
    assert (tmp_path / "pairs.jsonl").read_bytes() == before


def test_all_wrong_names_at_once(augment):
    words = ("beir:x,splt=train", "--encoder", "mnilm", "--sim", "cosin", "--judge", "cross-encode:x")
    code, out, err = augment("mine", *words)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 4
    for line, near in zip(lines, ("minilm", "split", "cosine", "cross-encoder"), strict=True):
        assert line.startswith("retrokit: ")
        assert f"did you mean {near}?" in line


# --- a missing package


@pytest.fixture
def no_tagger_yet() -> Iterator[None]:
    """What earlier tests have loaded is forgotten, and what this one could not load as well."""
    loaders = [one for one in vars(sentence).values() if hasattr(one, "cache_clear")]
    for loader in loaders:
        loader.cache_clear()
    yield
    for loader in loaders:
        loader.cache_clear()


@pytest.mark.usefixtures("no_tagger_yet")
@pytest.mark.parametrize("package", ["HanTa", "lemminflect"])
def test_a_missing_package_is_named_with_its_extra(augment, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "corpus.jsonl").write_bytes(lines_of({"text": "The cat sees the dog under the table."}))
    code, out, err = augment("near-misses", "corpus.jsonl", "-o", "near.jsonl")
    message = "retrokit: negation needs an optional package: python -m pip install 'retrokit-ir[negatives]'\n"
    assert (code, out, err) == (3, "", message)
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}


# --- interruption


# a shell starts what runs in the background deaf to Ctrl-C
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("retrokit", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_leaves_no_half_file(tmp_path, python):
    command = [python, "-c", INTERRUPTIBLE, "augment", "crops", "-", "-o", "pairs.jsonl"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(CORPUS)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not names(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(names(tmp_path)) == 1  # the hidden file beside the output
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(timeout=60) == 130
    process.stdin.close()
    assert names(tmp_path) == set()


def test_mining_goes_on_after_ctrl_c_to_the_same_bytes(augment, commands, tmp_path, monkeypatch):
    words = [*commands["mine"], "--scores", "--precision", "fp32"]
    assert augment(*words, "-o", "whole.jsonl")[0] == 0
    embed, roles = SharedEmbeddings.embed, []

    def embed_or_stop(self: SharedEmbeddings, texts: Any, role: Any, chunks: bool = False) -> Any:
        roles.append(role)
        if len(roles) == 2:
            raise KeyboardInterrupt
        return embed(self, texts, role, chunks)

    monkeypatch.setattr(SharedEmbeddings, "embed", embed_or_stop)
    code, out, err = augment(*words, "-o", "hard.jsonl")
    assert (code, out) == (130, "")
    assert err.splitlines() == [
        f"retrokit: mining stopped; resume with: retrokit augment {' '.join(words)} -o hard.jsonl",
    ]
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl", "whole.jsonl"}
    assert augment(*words, "-o", "hard.jsonl")[0] == 0
    assert (tmp_path / "hard.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl", "whole.jsonl", "hard.jsonl"}


@pytest.mark.parametrize(
    "words",
    ["crops corpus.jsonl --sentences 1", "dropout corpus.jsonl --sentences 1", "mix pairs.jsonl", "split pairs.jsonl"],
)
def test_what_only_cuts_texts_takes_no_pytorch(tmp_path, words):
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)
    (tmp_path / "pairs.jsonl").write_bytes(lines_of(*PAIRS))
    program = "import sys; from retrokit.cli import run; print(run(sys.argv[1:]), 'torch' in sys.modules)"
    command = [light_python(), "-c", program, "augment", *words.split(), "-o", "made.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr


@pytest.mark.slow
def test_the_tour(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)
    script = Path(sys.executable).parent  # where this environment's commands are
    environment = {**os.environ, "PATH": f"{script}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    command = ["bash", str(ROOT / "examples" / "augment.sh"), "corpus.jsonl", "tour"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    left = {"crops.jsonl", "hard.jsonl", "near.train.jsonl", "near.test.jsonl", "run"}
    assert names(tmp_path / "tour") == left
    assert "near_miss/binding" in done.stdout
