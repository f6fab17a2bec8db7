"""The command lines of ``retrokit probe stress``."""

from tests.samples import Samples

SAMPLES = Samples(
    inputs={"probe stress": "in/bert --texts in/texts.jsonl --with in/bert"},
    printed={"stress": "probe stress static:dim=16,tokenizer=bert --texts texts.jsonl --json"},
    damaged={"probe stress --json": ("probe-stress.json", "report probe-stress.json -o out")},
    reports={
        "probe stress static:16 --texts in/sentences.jsonl --capabilities negation,case --with maxsim:in/bert": """
pass rates: in/sentences.jsonl
capability | kind | texts | static:16 | bm25 | random | caught
negation | edit | 16 | (#) | (#) | (#) | …%
case | control | 16 | # | # | #*
#–# | #–# | #–#
edit: share of texts whose score falls by more than harmless edits move it
control: share of texts whose score falls by at most 10% of the way to unrelated texts
* differs from static:16 (p < #, Holm); in brackets: under 30 edits, not tested
caught: share of what static:16 fails that the reranker passes
failed by most: static:16
capability | edit | id | original → edited
negation | remove-not | … | The … is [not → ] under the … in the night.
static:16: lowest pass rates case #.
""",
    },
)
