"""A results folder: what is used again, what never is, and what a damaged or stale file does."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import retrokit
from retrokit import encoders
from retrokit.core.errors import DataError
from retrokit.core.notices import listening
from retrokit.core.registry import Entry, Param
from retrokit.data import jsonl
from retrokit.evaluation.comparison import results_folder
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics import significance
from retrokit.ranking import reranking
from retrokit.ranking.retrieval.base import Searcher, Shared
from retrokit.ranking.retrieval.hybrid import Hybrid
from retrokit.ranking.retrieval.two_stage import Fusion, TwoStage, store_at
from tests.evaluation.fakes import GivenEncoder, Notices, hashed, piped, write_folder, write_lines
from tests.models import sentences

Run = Callable[..., Evaluation]


class Counted:
    """Makes encoders, and counts the models made and the texts embedded."""

    def __init__(self) -> None:
        self.models: list[GivenEncoder] = []
        self.fingerprint = "print"

    def __call__(self, number: int, device: str | None = None) -> GivenEncoder:
        made = hashed(number)
        made.fingerprint = lambda: self.fingerprint  # type: ignore[method-assign]
        self.models.append(made)
        return made

    @property
    def texts(self) -> int:
        return sum(len(texts) for model in self.models for _, texts, _ in model.embedded)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setitem(globals(), "COUNTED", made)
    monkeypatch.setattr(significance, "RESAMPLES", 100)
    entry = Entry("counted", "", f"{__name__}:counted_encoder", (Param("number", int, required=True),), "number")
    monkeypatch.setitem(encoders.registry._entries, "counted", entry)
    return made


COUNTED = Counted()


def counted_encoder(number: int, device: str | None = None) -> GivenEncoder:
    return COUNTED(number, device)


TEXTS = sentences(50, seed=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = {f"d{i}": text for i, text in enumerate(TEXTS[:30])}
    queries = {f"q{i}": text for i, text in enumerate(TEXTS[30:])}
    return write_folder(tmp_path / "data", documents, queries, {q: {f"d{i}": 1} for i, q in enumerate(queries)})


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "labels.jsonl", [{"text": t, "label": i % 2} for i, t in enumerate(TEXTS)])


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [{"sentence1": TEXTS[i], "sentence2": TEXTS[i + 1], "score": i % 5} for i in range(40)]
    return write_lines(tmp_path / "pairs.jsonl", rows)


@pytest.fixture
def run(counted: Counted, folder: Path, tmp_path: Path) -> Run:
    def evaluated(
        *similarities: str, encoder: str = "counted:1", task: str | None = None, **options: Any
    ) -> Evaluation:
        specs = [task or f"beir:{folder}"]
        return evaluate([encoder], specs, similarities, results=str(tmp_path / "results"), **options)

    return evaluated


def plain(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [result.to_json(with_queries=True) for result in evaluation.results]


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "results").iterdir())


def test_the_same_again_embeds_nothing_and_loads_the_model_once(run: Run, counted: Counted, tmp_path: Path) -> None:
    first = run("cosine", "dot")
    assert counted.texts == 50
    assert len(files(tmp_path)) == 2
    with listening(heard := Notices()):
        again = run("cosine", "dot")
    assert counted.texts == 50
    assert len(counted.models) == 2  # one a command
    assert repr(plain(again)) == repr(plain(first))  # whole counts stay whole
    assert again.comparisons == first.comparisons
    assert heard.messages[-1] == f"{tmp_path / 'results'}: 2 results used again, 0 computed"


def test_a_new_similarity_alone_is_computed(run: Run, counted: Counted) -> None:
    run("cosine")
    with listening(heard := Notices()):
        found = run("cosine", "dot", "cosine")
    assert heard.messages[-1].endswith(": 1 results used again, 1 computed")
    assert [result.similarity for result in found.results] == ["cosine", "dot"]
    assert plain(found) == plain(evaluate_anew(found, "cosine", "dot"))


def evaluate_anew(like: Evaluation, *similarities: str) -> Evaluation:
    found = evaluate(["counted:1"], like.tasks, similarities)
    for result, other in zip(found.results, like.results, strict=True):
        result.configuration["encoding_seconds"] = other.configuration["encoding_seconds"]
    return found


@pytest.mark.parametrize(
    "what", ["weights", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "__version__", "_package_source", "code"]
)
def test_what_else_decides_a_result(
    run: Run, counted: Counted, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run()
    if what == "weights":
        counted.fingerprint = "trained a little more"
    elif what == "code":
        monkeypatch.setattr(GivenEncoder, "code", lambda encoder: {"source": "changed"})
    elif what.startswith("_"):
        monkeypatch.setattr(results_folder, what, "99" if what == "__version__" else lambda: "changed")
    else:
        text = (folder / what).read_text()
        (folder / what).write_text(text.replace("the", "a") if what != "qrels/test.tsv" else "q0\td5\t1\n")
    before = counted.texts
    run()
    assert counted.texts > before
    assert len(files(tmp_path)) == 1  # the old result is of no use


def test_a_result_depends_on_extensions_which_a_system_may_contain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sources() -> tuple[str, str | None]:
        return results_folder.software(), results_folder._source(Counted())

    def written(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    written("core.py", "core = 1\n")
    written("cli/entry.py", "shown = 1\n")
    written("extensions/graphs/onnx.py", "onnx = 1\n")
    monkeypatch.setattr(results_folder, "_PACKAGE", tmp_path)
    monkeypatch.setattr(results_folder, "_package_source", results_folder._package_source.__wrapped__)
    before = sources()
    written("cli/entry.py", "shown = 2\n")
    assert sources() == before
    written("extensions/graphs/onnx.py", "onnx = 2\n")
    with_other_graphs = sources()
    assert not set(with_other_graphs) & set(before)
    written("core.py", "core = 2\n")
    assert not set(sources()) & set(with_other_graphs)


PLUGIN = """
from retrokit.ranking.retrieval.base import Searcher
class First(Searcher):
    spec = similarity = "first"
    def fingerprint(self): return "1"
    def index(self, documents): raise NotImplementedError
"""


@pytest.mark.parametrize("name", ["hybrid", "two-stage", "shared"])
def test_a_result_depends_on_the_plugin_within_a_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / f"plugin_in_{name.replace('-', '_')}.py"
    file.write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    first = importlib.import_module(file.stem).First()
    system: Searcher = Hybrid(first, first, "rrf", 0.5, 10)
    if name == "two-stage":
        system = TwoStage(system, reranking.create("maxsim:static:8", "cpu"), Fusion(), store_at(None))
    elif name == "shared":
        system = Shared(first)

    def source() -> str | None:
        task: Any = object.__new__(Retrieval)
        about = results_folder._key_without_encoder(Request(searcher=system), task, {})
        (key,) = about.values()
        return key["source"]

    before = source()
    file.write_text(f"{PLUGIN}# changed")
    assert source() != before


@pytest.fixture
def bright(tmp_path: Path) -> Path:
    """A folder of BRIGHT's with two domains; the queries of either exclude a document."""
    for domain in ("biology", "pony"):
        (tmp_path / "bright" / domain).mkdir(parents=True)
        write_lines(
            tmp_path / "bright" / domain / "documents.jsonl",
            [{"id": f"d{i}", "content": text} for i, text in enumerate(TEXTS[:20])],
        )
        rows = [
            {"id": f"q{i}", "query": TEXTS[30 + i], "gold_ids": [f"d{i}"], "excluded_ids": [f"d{i + 1}"]}
            for i in range(10)
        ]
        write_lines(tmp_path / "bright" / domain / "examples.jsonl", rows)
    return tmp_path / "bright"


def test_what_a_similarity_has_learned_counts(run: Run, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    own = retrokit.similarity("learn")
    make = COUNTED.__class__.__call__

    def with_own(self: Counted, number: int, device: str | None = None) -> GivenEncoder:
        made = make(self, number)
        made.similarity = own
        return made

    monkeypatch.setattr(Counted, "__call__", with_own)
    first = run()
    assert counted.texts == 50
    run()
    assert counted.texts == 50
    with torch.no_grad():
        for parameter in own.parameters():
            parameter += 1.5
    second = run()
    assert counted.texts == 100
    assert first.results[0].configuration != second.results[0].configuration


def test_fewer_metrics_are_there_already_and_more_are_added(run: Run, counted: Counted) -> None:
    run(metrics=["mrr@10", "recall@5"])
    fewer = run(metrics=["recall@5"])
    assert counted.texts == 50
    assert list(fewer.results[0].metrics) == list(fewer.results[0].per_query) == ["ndcg@10", "recall@5"]
    more = run(metrics=["map@7"])
    assert counted.texts == 100
    assert list(more.results[0].metrics) == ["ndcg@10", "map@7"]
    both = run(metrics=["mrr@10", "map@7"], fail_under=["recall@5=0"])
    assert counted.texts == 100
    assert set(both.results[0].metrics) == {"ndcg@10", "mrr@10", "map@7", "recall@5"}


LABELLED = [[{"text": t, "label": i // each % 2} for i, t in enumerate(TEXTS)] for each in (1, 3)]
TWINS = list(zip(TEXTS[:25], TEXTS[25:], strict=True))
SCORED = [[{"sentence1": a, "sentence2": b, "score": sign * i} for i, (a, b) in enumerate(TWINS)] for sign in (1, -1)]
NEAR = [[{"text": a, "near_miss": b} for a, b in zip(TEXTS[:n], TEXTS[25:], strict=False)] for n in (20, 10)]


@pytest.mark.parametrize(
    ("task", "contents"),
    [
        *(("knn:{}", LABELLED), ("classify:{}", LABELLED), ("cluster:{},seeds=1", LABELLED)),
        *(("sts:{}", SCORED), ("pairs:{}", NEAR)),
    ],
)
def test_what_a_pipe_held_is_what_counts(
    task: str, contents: list[list[dict]], counted: Counted, tmp_path: Path
) -> None:
    """Two pipes may have one name, as with ``<(…)`` of a shell; what was in them tells their results apart."""
    results = []
    with piped() as give:
        for rows in (contents[0], contents[1], contents[0]):
            spec = task.format(give("".join(json.dumps(row) + "\n" for row in rows)))
            found = evaluate(["counted:1"], [spec], results=str(tmp_path / "results"))
            direct = evaluate(["counted:1"], [task.format(write_lines(tmp_path / "file.jsonl", rows))])
            assert found.results[0].metrics == direct.results[0].metrics
            assert found.results[0].counts == direct.results[0].counts
            results.append(evaluate(results=str(tmp_path / "results")).results[0])
        spent = counted.texts
        assert give(json.dumps(contents[0][0]) + "\n") in spec  # the name again
        spec = task.format(give("".join(json.dumps(row) + "\n" for row in contents[0])))
        evaluate(["counted:1"], [spec], results=str(tmp_path / "results"))
        assert counted.texts == spent  # the same content is the same task
    assert results[0].per_query == results[2].per_query
    assert results[0].metrics != results[1].metrics


def test_what_is_written_is_strict_json_with_a_checksum(run: Run, tmp_path: Path) -> None:
    run()
    (file,) = files(tmp_path)
    content = json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    names = {
        "checksum",
        "kind",
        "version",
        "key",
        "asked",
        "shown",
        "training",
        "added",
        "made",
        "result",
        "label",
        "spec",
    }
    assert set(content) == names
    assert set(content["key"]) == {
        *("encoder", "similarity", "task", "precision", "dims", "fingerprint", "learned", "data", "device"),
        *("index", "quantize", "retrokit", "libraries", "source", "code"),
    }
    assert content["result"]["metrics"]["ndcg@10"] == run().results[0].metrics["ndcg@10"]
    assert file.name.startswith("counted_1-cosine-beir_")


@pytest.mark.parametrize("damage", ["cut", "empty", "digit", "other", "list"])
def test_a_damaged_file_is_noticed_and_computed_again(run: Run, counted: Counted, tmp_path: Path, damage: str) -> None:
    first = run()
    (file,) = files(tmp_path)
    text = file.read_text()
    value = json.loads(text)["result"]["metrics"]["ndcg@10"]
    file.write_text(
        {
            "cut": text[: len(text) // 2],
            "empty": "",
            "digit": text.replace(str(value), str(value + 0.1), 1),
            "other": json.dumps({"checksum": "x", "key": 1}),
            "list": "[1, 2]",
        }[damage]
    )
    with pytest.raises(DataError, match="contains no results"), listening(shown := Notices()):
        evaluate(results=str(tmp_path / "results"))
    (message,) = shown.messages
    assert message.startswith(f"{file}:")
    assert message.endswith("; left out: evaluate its encoder again")
    with listening(heard := Notices()):
        again = run()
    assert counted.texts == 100
    assert any(message.startswith(f"{file}:") and message.endswith("; computed again") for message in heard.messages)
    assert again.results[0].metrics == first.results[0].metrics
    assert run().results[0].metrics == first.results[0].metrics
    assert counted.texts == 100


def test_a_write_that_fails_leaves_what_was_there(
    run: Run, counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    (file,) = files(tmp_path)
    before = file.read_bytes()
    counted.fingerprint = "other"

    def broken(*_: Any) -> None:
        raise RuntimeError("the machine stops")

    monkeypatch.setattr(jsonl, "to_json", broken)
    with pytest.raises(RuntimeError):
        run()
    assert files(tmp_path) == [file]
    assert file.read_bytes() == before


# --- showing what is there


def test_everything_is_shown_again_without_a_model(counted: Counted, folder: Path, pairs: Path, tmp_path: Path) -> None:
    specs = [f"sts:{pairs}", f"beir:{folder}"]
    kept = str(tmp_path / "results")
    first = evaluate(["counted:2", "counted:1"], specs, results=kept)
    models = len(counted.models)
    shown = evaluate(results=kept)
    assert len(counted.models) == models
    assert plain(shown) == plain(first)
    assert (shown.comparisons, shown.over_tasks, shown.shown) == (first.comparisons, first.over_tasks, first.shown)


def test_files_of_other_kinds_are_no_damaged_results(tmp_path: Path) -> None:
    study = tmp_path / "study"
    (study / "eval").mkdir(parents=True)
    (study / "plan.json").write_text(json.dumps({"kind": "plan", "version": 1, "steps": []}))
    with pytest.raises(DataError, match="contains no results, but") as caught, listening(shown := Notices()):
        evaluate(results=str(study))
    assert str(study / "eval") in str(caught.value)
    assert shown.messages == []
