"""A searcher and rerankers of a third party: evaluated, composed, reranked with; nothing but their package."""

import json
import os
import subprocess

import pytest

from retrokit.data.jsonl import write_jsonl
from tests import forked_python
from tests.evaluation.fakes import write_folder
from tests.plugins import install

ENTRIES = """
from retrokit.core.registry import Entry, Param

CAUTIOUS = Entry(
    "cautious",
    "nothing for a query of one letter",
    "elsewhere_impl:cautious",
    (Param("searcher", required=True),),
    positional="searcher",
)
LONGEST = Entry("longest", "the longest documents first", "elsewhere_impl:Longest")
SHARED = Entry("shared", "how many letters query and document share", "elsewhere_impl:shared")
BACKWARDS = Entry("backwards", "a list from its end to its top", "elsewhere_impl:backwards")
"""
IMPLEMENTATION = """
import dataclasses

import numpy as np

from retrokit.ranking import retrieval
from retrokit.ranking.reranking.base import PairwiseReranker, Reranker
from retrokit.ranking.retrieval.base import FilteredIndex, Index, Searcher, account_of


class Lengths(Index):
    def __init__(self, documents):
        self.documents = documents

    def search(self, queries, k):
        lengths = np.array([len(document) for document in self.documents], dtype=np.float32)
        order = np.argsort(-lengths, kind="stable")[:k]
        return [(lengths[order], order)] * len(queries)

    def score_pairs(self, queries, texts):
        return np.array([len(text) for text in texts], dtype=np.float32)


class Longest(Searcher):
    spec = "longest"

    def index(self, documents):
        return Lengths(documents)

    def fingerprint(self):
        return "longest"


class Cautious(Searcher):
    def __init__(self, inner):
        self.inner = inner
        self.similarity = inner.similarity

    def index(self, documents):
        return CautiousIndex(self.inner, self.inner.index(documents))

    def over(self, export):
        return CautiousIndex(self.inner, self.inner.over(export))

    def fingerprint(self):
        return f"cautious {self.inner.fingerprint()}"


class CautiousIndex(FilteredIndex):
    def __init__(self, searcher, index):
        self.searcher, self.inner = searcher, index

    def search_without(self, queries, k, left_out):
        rankings = self.inner.search_without(queries, k, left_out)
        self.empty = {query: "the query is too short" for query in queries if len(query) == 1}
        nothing = np.empty(0, np.float32), np.empty(0, np.int64)
        return [
            nothing if query in self.empty else ranking for query, ranking in zip(queries, rankings, strict=True)
        ]

    def score_pairs(self, queries, texts):
        return self.inner.score_pairs(queries, texts)

    def account(self):
        account = account_of(self.searcher, self.inner)
        refused = {"queries_too_short": len(self.empty)}
        note = f"{len(self.empty)} queries were too short"
        return dataclasses.replace(account, counts=account.counts | refused, notes=(note,))


def cautious(searcher, device=None):
    return Cautious(retrieval.create(searcher, device))


class Shared(PairwiseReranker):
    def score_pairs(self, queries, documents):
        return np.array([len({*a} & {*b}) for a, b in zip(queries, documents)], dtype=np.float32)

    def fingerprint(self):
        return "shared"


class Backwards(Reranker):
    def rank(self, query, documents):
        return np.arange(len(documents), dtype=np.float32)

    def fingerprint(self):
        return "backwards"


def shared(device=None):
    return Shared()


def backwards(device=None):
    return Backwards()
"""
RUN = """
import contextlib, io, json, sys

from retrokit import cli

for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
DOCUMENTS = {"a": "xyz", "b": "cat", "c": "a long one", "d": "longer than all"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Every command of the plugin's names: exit code, standard output, standard error."""
    folder = tmp_path_factory.mktemp("plugin")
    install(
        folder / "site",
        "elsewhere",
        {"elsewhere": ENTRIES, "elsewhere_impl": IMPLEMENTATION},
        "[retrokit.searchers]\nlongest = elsewhere:LONGEST\ncautious = elsewhere:CAUTIOUS\n"
        "[retrokit.rerankers]\nshared = elsewhere:SHARED\nbackwards = elsewhere:BACKWARDS\n",
    )
    data = write_folder(folder / "data", DOCUMENTS, {"q": "cat"}, {"q": {"b": 1}})
    write_jsonl(folder / "pairs.jsonl", [{"anchor": "cat", "positive": "cat"}])
    write_jsonl(folder / "near.jsonl", [{"anchor": "a cat", "positive": "the cat", "negatives": ["no cat"]}])
    beir = f"beir:{data}"
    short = write_folder(folder / "short", DOCUMENTS, {"q": "cat", "x": "c"}, {"q": {"b": 1}, "x": {"b": 1}})
    search = ["search", "--corpus", f"{short}/corpus.jsonl", "--queries", f"{short}/queries.jsonl", "-k", "2"]
    two_stage = "two-stage:cautious:longest,reranker=shared"
    over = ["search", "--index-folder", "exported", "--queries", f"{short}/queries.jsonl", "--format", "jsonl"]
    asked = {
        "exported": ["export", "static:8", "--on", str(short), "-o", "exported"],
        "over an export": [*over, "static:8"],
        "cautious over an export": [*over, "cautious:static:8"],
        "a searcher of texts over an export": [*over, "cautious:longest"],
        "another encoder over an export": [*over, "cautious:static:16"],
        "searched": ["eval", "longest", "--on", beir, "--json", "--per-query"],
        "composed": ["eval", "two-stage:longest,reranker=shared,depth=3", "--on", beir, "--json", "--save-run", "run"],
        "reranked": ["rerank", "longest", "--on", beir, "--with", "shared", "--with", "backwards", "--json"],
        "near-misses": ["rerank", "--on", "pairs:near.jsonl", "--with", "shared", "--json"],
        "no lists": ["rerank", "--on", "pairs:near.jsonl", "--with", "backwards", "--json"],
        "no embeddings": ["eval", "longest", "--on", "pairs:near.jsonl", "--json"],
        "reasons": [*search, "cautious:longest", "--format", "jsonl"],
        "reasons in a table": [*search, "cautious:longest"],
        "reasons of two stages": [*search, two_stage, "--format", "jsonl"],
        "reasons of a hybrid": [*search, "hybrid:a=cautious:longest,b=cautious:bm25", "--format", "jsonl"],
        "notes": ["eval", "cautious:longest", two_stage, "--on", f"beir:{short}"],
        "counts": ["eval", "cautious:longest", two_stage, "--on", f"beir:{short}", "--json"],
        "no index": ["eval", "longest", "--on", beir, "--index", "Flat", "--json"],
    }
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [forked_python.python(), "-c", RUN],
        input=json.dumps(list(asked.values())),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = {name: tuple(json.loads(line)) for name, line in zip(asked, done.stdout.splitlines(), strict=True)}
    found["run"] = (0, (folder / "run").read_text(), "")
    return found


def results(ran: dict[str, tuple[int, str, str]], name: str) -> list[dict]:
    code, out, err = ran[name]
    assert code == 0, err
    return json.loads(out)["results"]


def test_a_searcher_is_evaluated(ran):
    (result,) = results(ran, "searched")
    assert (result["encoder"], result["similarity"]) == ("longest", "own")
    assert result["metrics"]["mrr@10"] == pytest.approx(1 / 3)  # d and c, and of equal lengths the higher id
    assert result["configuration"]["fingerprint"] == "longest"


def test_two_stages_are_a_searcher_again(ran):
    (result,) = results(ran, "composed")
    assert result["similarity"] == "own + shared, depth 3"
    # of d, c and b, b shares three letters, d two, c one; a lies below the depth
    assert [line.split()[2] for line in ran["run"][1].splitlines()] == ["b", "d", "c", "a"]
    assert result["metrics"]["mrr@10"] == 1


def test_both_kinds_of_rerankers_rerank(ran):
    first, shared, backwards = results(ran, "reranked")
    assert [one["similarity"] for one in (first, shared, backwards)] == ["own", "own + shared", "own + backwards"]
    assert shared["metrics"]["mrr@10"] == 1
    assert backwards["metrics"]["mrr@10"] == pytest.approx(1 / 2)
    assert shared["counts"]["reranked_pairs"] == 4


def test_near_misses_are_pairs(ran):
    assert results(ran, "near-misses")
    code, _, err = ran["no lists"]
    assert code == 2
    assert (
        err.strip().splitlines()[-1].startswith("retrokit: backwards is listwise and cannot score the pairs of pairs:")
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no embeddings", "needs embeddings: give an encoder in place of longest"),
        ("no index", "no encoder is evaluated, and nothing else has embeddings to search"),
        ("a searcher of texts over an export", "is searched with the encoder that wrote it, not with longest"),
        ("another encoder over an export", "was written by static:8, whose weights or settings"),
    ],
)
def test_what_it_lacks_is_said_in_a_line(ran, name, message):
    code, out, err = ran[name]
    assert (code, out) == (2, "")
    assert message in err.strip().splitlines()[-1]
