"""What each command prints for people: every table and line, with all names and counts, but no figure."""

import json
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from tests.golden import write_inputs
from tests.samples import all_samples
from tests.test_cli_outputs import COMMANDS

PREPARED = """
finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --sim qnorm -o runs/qnorm
rerank train cnn in/bert --data in/triplets.jsonl --steps 1 --batch-size 4 -o runs/cnn
export static:16 --on beir:in/task -o exported
"""
REPORTS = {
    "augment crops in/texts.jsonl --sentences 1 -o crops.jsonl": """
16 texts: 16 gave pairs
""",
    "augment dropout in/texts.jsonl --sentences 1 -o dropout.jsonl": """
16 texts: 16 gave pairs
""",
    "augment mask in/texts.jsonl --encoder in/bert -o masked.jsonl": """
16 texts: 16 gave pairs
""",
    "augment near-misses in/sentences.jsonl -o near.jsonl": """
16 sentences: 20 near-misses (negation/train: 16; spatial/train: 4)
binding: none in these texts
""",
    "augment mix in/pairs.jsonl,weight=2 in/unrelated.jsonl -o mixed.jsonl": """
pairs: 118 of 59 rows, #% of the mixture
unrelated: 40 of 40 rows, #% of the mixture
158 rows of pairs
""",
    "augment split in/unrelated.jsonl -o split": """
split: queries: 32 in train, 4 in dev, 4 in test; they form 40 groups that share texts or …
""",
    "finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --eval beir:in/task -o runs/cosine": """
run | runs/cosine
steps | 4
task:ndcg@10 | # → # (step 0 → 4)
task:recall@100 | # → # (step 0 → 4)
task:mrr@10 | # → # (step 0 → 4)
task:map@100 | # → # (step 0 → 4)
task:precision@10 | # → # (step 0 → 4)
task:accuracy@1 | # → # (step 0 → 4)
gain over the start | # task:ndcg@10; …; `retrokit eval static:16 runs/cosine --on beir:in/task` tests it
converged (MAG, C.1) | not yet
training loss | # (mean of steps 1–4)
training data
source | records | anchors | documents | duplicates | weight
pairs | 59 | 59 | 59 | 0 | 1
tokens of a text (sample)
role | 50% | 90% | 99% | longest | limit | cut
query | 7 | 11 | 12 | 12 | none | #%
document | 8 | 11 | 12 | 12 | none | #%
plan
steps | 4 (14 an epoch)
trainable parameters | 488,352 of 488,352
scale | 20; starts as sharp as cosine at 20 (typical score 1)
encoder | static:16
device | …
eval | beir:in/task
best metric | task:ndcg@10
sim | cosine
loss | infonce
batch size | 4
lr | #
precision | …
tests in the training data
test | | in all | there | nearly
task | queries | 16 | 0 | 0
task | pairs | 16 | 0
task | documents | 16 | 0 | 0
""",
    "finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --dry-run": """
training data
source | records | anchors | documents | duplicates | weight
pairs | 59 | 59 | 59 | 0 | 1
tokens of a text (sample)
role | 50% | 90% | 99% | longest | limit | cut
query | 7 | 11 | 12 | 12 | none | #%
document | 8 | 11 | 12 | 12 | none | #%
plan
steps | 4 (14 an epoch)
trainable parameters | 488,352 of 488,352
scale | 20; starts as sharp as cosine at 20 (typical score 1)
encoder | static:16
device | …
sim | cosine
loss | infonce
batch size | 4
lr | #
precision | …
dry run: read all data, loaded static:16, measured samples of texts; nothing was trained, evaluated or written
""",
    "eval static:16 runs/qnorm --on beir:in/task --metrics ndcg@10": """
beir:in/task
system | similarity | ndcg@10
static:16 | cosine | #
runs/qnorm | qnorm | #
#
p=#
16 queries, 16 documents; difference from the first row, * where p < # (the larger of paired …
tests
task | system | metric | test | difference | 95% interval | p | randomisation p | Holm p
beir:in/task | runs/qnorm qnorm | ndcg@10 | paired t-test | # | # … # | # | # | #
difference from the first row of the task; randomisation: signs of the differences flipped, all …
means over tasks separately; * where it is below #
task (test): 16 queries, 16 documents, 16 judgements
""",
    "rerank run static:16 --on beir:in/task --with maxsim:encoder=static:8 --metrics ndcg@10": """
beir:in/task
system | similarity | ndcg@10
static:16 | cosine | #
static:16 | cosine + maxsim:static:8 | #
#*
p=#
16 queries, 16 documents; difference from the first row, * where p < # (the larger of paired …
tests
task | system | metric | test | difference | 95% interval | p | randomisation p | Holm p
beir:in/task | static:16 cosine + maxsim:static:8 | ndcg@10 | paired t-test | #* | # … # | # | # | #
difference from the first row of the task; randomisation: signs of the differences flipped, all …
means over tasks separately; * where it is below #
cost
task | first stage | reranker | pairs | computed now | seconds | ms a pair | ms a query | reachable recall
beir:in/task | static:16 | maxsim:static:8 | 256 | 256 | # | # | # | #
reachable recall: the share of relevant documents among those that are reranked; seconds: of the second stage
task (test): 16 queries, 16 documents, 16 judgements
""",
    "rerank train cnn in/bert --data in/triplets.jsonl --steps 3 --batch-size 4 --dry-run": """
training data
source | records | anchors | documents | duplicates | weight
triplets | 30 | 30 | 60 | 0 | 1
tokens of a text (sample)
role | 50% | 90% | 99% | longest | limit | cut
query | 9 | 11 | 11 | 11 | 64 | #%
document | 9 | 11 | 11 | 11 | 64 | #%
plan
steps | 3 (7 an epoch)
examples held out | 2
parameters of the verifier | 6,229
verifier | cnn
encoder | in/bert
device | …
in batch | 8
batch size | 4
lr | #
in/triplets.jsonl: columns not used: 'family'
dry run: read all data, loaded in/bert, measured samples of texts; nothing was trained, evaluated or written
""",
    "rerank calibrate runs/cnn in/triplets.jsonl --false-accept-rate 0.5": """
in/triplets.jsonl: target false-accept rate #%
value | 95% interval | pairs
threshold | # | # – #
false-accept rate | #% | #% – #% | 32
negation | #% | #% – #% | 32
true-accept rate | #% | #% – #% | 32
""",
    "rerank verify runs/cnn in/verify.jsonl -o verified.jsonl": """
… accepted, … rejected at #
""",
    "build-sure build in/task --dry-run": """
dry run
queries | 16
calls | 144
calls with all retries | 432
tokens of prompts, about | 26,336
tokens of answers, about | 4,872
""",
    "search static:16 --corpus in/texts.jsonl --query cat -k 2": """
cat
rank | document | text | score
1 | d3 | The cat sleeps under the mountain, and it eats, and it eats, and it eats, and it eats, …
2 | d1 | The cat sleeps under the tree, and it eats, and it eats, and it eats, and it eats, and …
""",
    "export static:16 --on beir:in/task -o exported/again": """
folder | exported/again
embeddings | 16 of 16 dimensions in float32, role document
similarity | cosine
metric | inner product, higher is better
a document x becomes | x / max(‖x‖, #)
a query x becomes | x / max(‖x‖, #)
queries from a file | retrokit export static:16 --role query --sim cosine --on queries.jsonl --output queries
""",
    "probe magnitude runs/qnorm --on beir:in/task": """
norms of embeddings: mean, and Cohen's d of relevant documents
encoder | data set | queries | CV | relevant | irrelevant | d (95%) | effect | ndcg@10 | gain
runs/qnorm | beir:in/task | # | #% | # | # | # (# to #) | negligible | # → # | #%
relevant: judged with a grade above 0; irrelevant: the others of a query's best 100 by angle; …
ndcg@10: cosine → qnorm
runs/qnorm on beir:in/task: document norms carry little about relevance (d = #); qnorm: #% …
task (test): 16 queries, 16 documents, 16 judgements
""",
    "probe fisher static:16 --on beir:in/task": """
Fisher information, log₁₀ of E[(∂s/∂·)²]
encoder | of | cosine | dot | qnorm | dnorm | learn
static:16 | document norm | none | # | # | none | #
static:16 | query norm | none | # | none | # | #
static:16 | angle | # | # | # | # | #
16 pairs of beir:in/task
none: exactly 0, by the closed form
condition number, log₁₀ κ
encoder | qnorm | dnorm | difference (95%) | lower | choice
static:16 | # | # | # (# to #) | qnorm | qnorm
κ: second-moment matrix of ∂s/∂(q, d) over 16 pairs, 32 dimensions; eigenvalues above # of the …
static:16: log₁₀ κ(qnorm) = #, log₁₀ κ(dnorm) = #: qnorm is predicted to train better than …
beir:in/task: 16 pairs, not 1,000: all are used
""",
    "probe fragments static:16 --on beir:in/task --size 8": """
ndcg@10 of the whole and of single fragments: beir:in/task
encoder | size | fragments | cosine | sfs | best alone | its number | median | worst | random …
static:16 | 8 | 2 | # | # | # | … | # | # | # to # | …
* differs from the whole, p < # (paired t-test, Bonferroni over fragments)
ndcg@10 of the first dimensions
encoder | dimensions | cosine | sfs:8
static:16 | 8 | # | #
static:16 | 16 | # | #
static:16: fragment … of 2 alone is best (#), the whole has #, the best random slice #; sfs:8 …
task (test): 16 queries, 16 documents, 16 judgements
""",
    "probe near-miss static:16 --on pairs:in/triplets.jsonl": """
scores of near-misses: in/triplets.jsonl
encoder | similarity | group | pairs | mean ± SD | ROC-AUC | above paraphrase | above random
static:16 | cosine | all | 32 | # ± # | # | #% | #%
static:16 | cosine | negation | 32 | # ± # | # | #% | #%
static:16 | cosine | positives | 32 | # ± #
static:16 | cosine | random pairs | 32 | # ± #
ROC-AUC: share of couples in which a positive, of any family, scores above a near-miss of this one
static:16: hardest near-misses negation, mean score #, ROC-AUC #, above paraphrase #%, above …
in/triplets.jsonl: 32 near-misses (32 negation), against 32 positives
""",
    "check in/task in/pairs.jsonl": """
beir:in/task (test)
fault | of | count | share | ndcg@10 | recall@100 | mrr@10
near-duplicates | documents | 16 | #% | # | # | #
16 documents, 16 queries, 16 judgements
a perfect system reaches ndcg@10 #, recall@100 #, mrr@10 #
near-duplicates: 96 copies of relevant documents are not judged relevant
in/pairs.jsonl (training)
fault | of | count | share
59 records, 59 anchors, 59 documents
no fault
""",
    "names similarities": """
Names: similarity (NAME, NAME:VALUE or NAME:KEY=VALUE,KEY=VALUE)
cosine angle alone
dot inner product: both magnitudes count
qnorm query normalised: document magnitude counts
dnorm document normalised: query magnitude counts
learn how much of each magnitude counts is learned
query=# document=#
sfs mean similarity of fragments of equal size
size=N base=cosine|dot|l2|l1 dims=N
l2 minus the Euclidean distance
l1 minus the Manhattan distance
""",
    **all_samples().reports,
}
"""By command lines: what they print, ``#`` for a figure with a point, and ``…`` for anything."""
ELSEWHERE = {
    "augment queries": "tests/extensions/weak_supervision/test_queries.py",
    "rerank shrink": "tests/training/test_verifier_training.py",
    "build-sure judge": "tests/extensions/sure_judging/test_commands.py",
    "build-sure agreement": "tests/extensions/sure_judging/test_commands.py",
    "cache": "tests/test_cli_cache.py",
    "doctor": "tests/test_cli_doctor.py",
    "help": "tests/test_cli_help.py",
    "abstain report": "tests/extensions/abstention/test_abstention.py",
    "report": "it prints nothing",
    "study which-similarity": "tests/extensions/studies/test_study_questions.py",
    "study is-it-better-than-bm25": "tests/extensions/studies/test_study_questions.py",
    "study does-it-see-near-misses": "as study run",
    "study why-this-figure": "tests/extensions/studies/test_study_why.py",
}
"""Commands whose reports are not compared here, with the file that does it."""


def outline(text: str) -> list[str]:
    """Lines that are not a table's border, with bars between their cells and ``#`` for each figure with a point."""
    lines = []
    for line in re.sub("[┃│]", "|", re.sub("[─━┏┓┡┩├┤└┘┴┬┳╇┼╋┌┐]", "", text)).splitlines():
        cells = " ".join(line.split()).strip("| ")
        if cells and "is a bare checkpoint" not in cells:
            lines.append(re.sub(r"[-+]?\d+\.\d+(e-\d+)?|\d+e-\d+", "#", cells))
    return lines


def agreeing(lines: list[str], expected: list[str]) -> list[str]:
    """The lines, each as it is expected if it agrees with that; ``…`` stands for anything."""
    agreed = []
    for line, pattern in zip_longest(lines, expected, fillvalue=""):
        words = map(re.escape, pattern.split("…"))
        agreed.append(pattern if re.fullmatch(".*".join(words), line) else line)
    return agreed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs, and what the commands of ``PREPARED`` write."""
    folder = tmp_path_factory.mktemp("reports")
    write_inputs(folder / "in")
    texts = [json.loads(line)["text"] for line in (folder / "in" / "texts.jsonl").open(encoding="utf-8")]
    write_jsonl(folder / "in" / "own.jsonl", [{"anchor": text[:28], "positive": text} for text in texts])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in PREPARED.strip().splitlines():
            assert cli.run(line.split()) == 0
    return folder


@pytest.mark.parametrize("lines", REPORTS)
def test_a_report_is_what_it_was(
    lines: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "240")
    capsys.readouterr()
    printed = ""
    for line in lines.splitlines():
        cli.run(line.split())
        printed += "".join(capsys.readouterr())
    expected = REPORTS[lines].strip().splitlines()
    assert agreeing(outline(printed), expected) == expected


def test_the_report_of_every_command_is_compared() -> None:
    lines = [line for key in REPORTS for line in key.splitlines()]
    compared = {name for name in COMMANDS if any(line.startswith(f"{name} ") for line in lines)}
    assert COMMANDS.keys() - compared <= ELSEWHERE.keys()
