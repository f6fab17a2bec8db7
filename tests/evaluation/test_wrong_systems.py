"""Systems that cannot be compared, joined or gated: one line that names the place, exit code 2, before any work."""

from pathlib import Path

import pytest

from retrokit import cli
from retrokit.evaluation.tasks.base import SearchTask
from tests.evaluation.fakes import write_folder, write_lines

PLACES = range(6)
FILES = {
    "good": "".join(f"q{q} Q0 d{d} 1 {9 - d} x\n" for q in PLACES for d in PLACES),
    "unknown": "q0 Q0 d1 1 3 x\nq1 Q0 nowhere 2 2 x\nq2 Q0 neither 1 1 x\n",
    "others": "z0 Q0 d1 1 3 x\n",
    "short": "q0 Q0 d1 1 3 x\nq0 d1 3\n",
    "twice": "q0 Q0 d1 1 3 x\nq0 Q0 d1 2 2 x\n",
    "base.json": '{"format": 1, "systems": []}',
}
UNKNOWN = "{}/unknown:2: document 'nowhere' is not among those that are searched"
ITSELF = "with itself is"
SPACED = "could not be written: the document id 'd 0' is empty or contains white space"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    documents, queries = ({f"{side}{place}": f"word{place} {side}" for place in PLACES} for side in "dq")
    write_folder(tmp_path / "data", documents, queries, {f"q{place}": {f"d{place}": 1} for place in PLACES})
    write_folder(tmp_path / "no-ids", documents, queries, {"q0": {"d0": 1}})
    write_lines(tmp_path / "no-ids" / "corpus.jsonl", [{"_id": "d0", "text": "a"}, {"text": "b"}])
    write_folder(tmp_path / "spaced", {"d 0": "a"}, queries, {"q0": {"d 0": 1}})
    write_folder(tmp_path / "sets" / "a b", documents, queries, {"q0": {"d0": 1}})
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("eval static run:{}/unknown --on beir:{}/data --strict", UNKNOWN),
        ("eval static hybrid:a=bm25,b=run:{}/unknown --on beir:{}/data --strict", UNKNOWN),
        ("eval static two-stage:run:{}/unknown,reranker=static --on beir:{}/data --strict", UNKNOWN),
        ("rerank static run:{}/unknown --with static --on beir:{}/data --strict", UNKNOWN),
        ("rerank --run {}/unknown --with static --on beir:{}/data --strict", UNKNOWN),
        ("eval static run:{}/others --on beir:{}/data", "{}/others: none of its queries is among those searched for"),
        ("eval static run:{}/short --on beir:{}/data", "{}/short:2: expected 6 columns"),
        ("eval static run:{}/twice --on beir:{}/data", "{}/twice:2: query 'q0' has document 'd1' on an earlier line"),
        ("eval static run:{}/nowhere --on beir:{}/data", "{}/nowhere: does not exist"),
        ("eval static hybrid:a=bm25,b=bm25:k1=1.5 --on beir:{}/data", ITSELF),
        ("eval hybrid:a=static,b=dense:static --on beir:{}/data", ITSELF),
        ("eval hybrid:a=run:{}/good,b=run:{}/./good --on beir:{}/data", ITSELF),
        ("rerank hybrid:a=static,b=static --with static --on beir:{}/data", ITSELF),
        ("search hybrid:a=static,b=static --corpus {}/data --query x", ITSELF),
        ("eval hybrid:a=bm25,b=static,weight=1.01 --on beir:{}/data", "weight=1.01 is out of range (0 to 1)"),
        ("eval hybrid:a=bm25,b=static,weight=-0 --on beir:{}/data,split=x", "has no split 'x'"),
        ("eval hybrid:a=bm25,b=static,weight=0.5+0.6 --on beir:{}/data", "weight=0.5+0.6 is not a number"),
        (
            "eval hybrid:a=bm25,b=static,weights=1 --on beir:{}/data",
            "has no parameter 'weights' (did you mean weight?)",
        ),
        ("eval static --on beir:{}/no-ids", "{}/no-ids/corpus.jsonl:2: no field 'id' or '_id'"),
        ("rerank bm25 --with static --on beir:{}/no-ids", "{}/no-ids/corpus.jsonl:2: no field 'id' or '_id'"),
        ("search bm25 --corpus {}/no-ids --query x", "{}/no-ids/corpus.jsonl:2: no field 'id' or '_id'"),
        ("search run:{}/good --corpus {}/no-ids/corpus.jsonl --queries {}/data", "{}/no-ids/corpus.jsonl:2: no field"),
        (
            "eval static --on beir:{}/data --explain 2",
            "--explain compares systems with the first, and only one is given",
        ),
        ("eval static bm25 --on beir:{}/data --fail-if-idle", "--fail-if-idle is about rerankers, and no system here"),
        ("eval static --on beir:{}/spaced --save-run {}/new", f"{{}}/new: {SPACED}"),
        ("rerank bm25 --with static --on beir:{}/spaced --save-run {}/new", f"{{}}/new: {SPACED}"),
        ("search bm25 --corpus {}/spaced --query x -o {}/new", f"{{}}/new: {SPACED}"),
        ("eval static --on beir:{}/sets --save-run {}/new", "the query id 'a b/q0' is empty or contains white space"),
        ("eval static --on beir:{}/data --baseline {}/nowhere", "{}/nowhere: does not exist"),
        ("rerank bm25 --with static --on beir:{}/data --baseline {}/good", "{}/good"),
    ],
)
def test_what_is_wrong_is_one_line_before_any_work(words, told, place, monkeypatch, capsys):
    monkeypatch.setattr(SearchTask, "evaluate", lambda *_: pytest.fail("work was begun"))
    assert cli.run([word.replace("{}", str(place)) for word in words.split()]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("retrokit: ")]
    assert (out, len(lines)) == ("", 1)
    assert told.replace("{}", str(place)) in lines[0]


def test_a_baseline_of_other_data_or_of_nothing_alike_is_refused_before_any_work(place, monkeypatch, capsys):
    kept = place / "kept.json"
    data = ["--on", f"beir:{place / 'data'}"]
    assert cli.run(["eval", "bm25", *data, "--save-baseline", str(kept)]) == 0
    with (place / "data" / "queries.jsonl").open("a") as stream:
        stream.write('{"_id": "new", "text": "more"}\n')
    monkeypatch.setattr(SearchTask, "evaluate", lambda *_: pytest.fail("work was begun"))
    for command in (["eval", "bm25"], ["rerank", "bm25", "--with", "static"]):
        capsys.readouterr()
        assert cli.run([*command, *data, "--baseline", str(kept), "--max-drop", "0.1"]) == 2
        assert f"{kept}: was measured on other data of" in capsys.readouterr().err
    assert cli.run(["eval", "bm25", *data, "--baseline", str(place / "base.json")]) == 2
    assert f"{place / 'base.json'}: is not a baseline" in capsys.readouterr().err
