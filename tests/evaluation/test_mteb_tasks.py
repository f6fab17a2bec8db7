"""Tasks of MTEB on local data: the same figures as ours, results in mteb's files, and never another model's."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import DataError, MissingExtra, ServiceError, UsageError
from retrokit.core.notices import listening
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import GivenEncoder, Notices, hashed, write_lines
from tests.models import sentences

mteb = pytest.importorskip("mteb", reason="the extra mteb is not installed")

from retrokit.evaluation.mteb.data import use_hub  # noqa: E402 - they import mteb
from retrokit.evaluation.mteb.model import MtebModel  # noqa: E402
from retrokit.ranking.retrieval.dense import Dense  # noqa: E402
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings  # noqa: E402

TEXTS = sentences(60, seed=7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BEIR folder: titles, graded and zero judgements, a query without a relevant document."""
    documents = [Document(f"d{i}", "title" if i % 3 else "", text) for i, text in enumerate(TEXTS[:40])]
    queries = [(f"q{i}", text) for i, text in enumerate(TEXTS[40:50])]
    random = np.random.default_rng(0)
    qrels = {
        query: {f"d{i}": int(random.integers(0, 3)) for i in random.choice(40, size=4, replace=False)}
        for query, _ in queries
    }
    qrels["q3"] = {"d1": 0, "d2": 0}
    write_beir(tmp_path / "made", documents, queries, {"test": qrels})
    return tmp_path / "made"


def evaluate(spec: str, encoder: Any, similarities: Sequence[str] = ("cosine",), **options: Any) -> list[Result]:
    return tasks.create(spec).evaluate(Request(encoder, [retrokit.similarity(s) for s in similarities], **options))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "qnorm", "sfs:4,base=l2"])
def test_retrieval_as_with_beir(folder: Path, tmp_path: Path, similarity: str) -> None:
    encoder = hashed(1)
    names = ["ndcg@10", "recall@100", "map@100", "mrr@10"]
    (ours,) = evaluate(f"beir:{folder}", encoder, [similarity], metrics=names)
    (theirs,) = evaluate(f"mteb:SciFact,data={folder},cache={tmp_path / 'cache'}", encoder, [similarity], metrics=names)
    assert theirs.main_metric == "ndcg@10"
    assert theirs.metrics == pytest.approx(ours.metrics, abs=1e-5)
    assert 0.05 < theirs.metrics["ndcg@10"] < 0.9
    for name in names:
        assert theirs.per_query[name] == pytest.approx(ours.per_query[name], abs=1e-9)


def test_results_are_mtebs_own(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    results = evaluate(f"mteb:SciFact,data={folder},cache={cache}", hashed(1), ["cosine", "sfs:4"])
    files = sorted((cache / "results").rglob("SciFact.json"))
    assert [path.parts[-3] for path in files] == ["retrokit__given--cosine", "retrokit__given--sfs_4"]
    for path, result in zip(files, results, strict=True):
        written = json.loads(path.read_text())
        assert written["task_name"] == "SciFact"
        assert written["dataset_revision"].startswith("sha256:")
        assert written["scores"]["test"][0]["ndcg_at_10"] == result.metrics["ndcg@10"]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "qnorm"])
def test_sts_under_the_similarity_beside_cosine(tmp_path: Path, similarity: str) -> None:
    rows = [
        {"sentence1": TEXTS[i], "sentence2": TEXTS[i + 30], "score": float(np.sin(i) * 2.5 + 2.5)} for i in range(30)
    ]
    (tmp_path / "data").mkdir()
    path = write_lines(tmp_path / "data" / "test.jsonl", rows)
    with listening(heard := Notices()):
        (theirs,) = evaluate(f"mteb:STSBenchmark,data={tmp_path / 'data'},cache={tmp_path}", hashed(1), [similarity])
    (ours,) = evaluate(f"sts:{path}", hashed(1), [similarity])
    assert theirs.main_metric == "spearman"
    shared = ("spearman", "pearson", "cosine_spearman", "cosine_pearson")
    assert {name: theirs.metrics[name] for name in shared} == pytest.approx(ours.metrics, abs=1e-5)
    assert "euclidean_spearman" in theirs.metrics
    assert (theirs.metrics["spearman"] == pytest.approx(theirs.metrics["cosine_spearman"])) == (similarity == "cosine")
    said = [message for message in heard.messages if "is asymmetric" in message]
    assert len(said) == (similarity == "qnorm")
    assert tasks.create(f"mteb:STSBenchmark,data={tmp_path / 'data'}").symmetric


def test_classification_gets_prepared_embeddings(tmp_path: Path) -> None:
    # the label is the direction; lengths are noise a thousand times as large
    random = np.random.default_rng(0)
    vectors = {}
    rows = []
    for i, text in enumerate(TEXTS):
        angle = random.normal(scale=0.3) + (i % 2) * np.pi / 2
        vectors[text] = (10.0 ** random.uniform(-3, 0) * np.array([np.cos(angle), np.sin(angle)])).tolist()
        rows.append({"text": text, "label": i % 2})
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "train.jsonl", rows[:30])
    with pytest.raises(DataError, match=r"ImdbClassification needs test.jsonl too"):
        tasks.create(f"mteb:ImdbClassification,data={tmp_path / 'data'}")
    write_lines(tmp_path / "data" / "test.jsonl", rows[30:])
    spec = f"mteb:ImdbClassification,data={tmp_path / 'data'},cache={tmp_path}"
    cosine, dot = evaluate(spec, GivenEncoder(vectors), ["cosine", "dot"])
    assert cosine.main_metric == "accuracy"
    assert cosine.metrics["accuracy"] > dot.metrics["accuracy"]
    # by neighbours the similarity is asked itself, with raw embeddings
    knn, by_length = evaluate(f"{spec},classifier=knn", GivenEncoder(vectors), ["cosine", "dot"])
    assert knn.metrics["accuracy"] > by_length.metrics["accuracy"]
    assert len(list(tmp_path.rglob("ImdbClassification.json"))) == 4


class Metadata:
    """What the model is told of a task."""

    def __init__(self, kind: str, prompt: Any = None) -> None:
        self.type, self.prompt, self.modalities, self.name = kind, prompt, ["text"], "a task"

    def get_modalities(self, prompt_type: Any = None) -> list[str]:
        return self.modalities


def model(encoder: GivenEncoder, similarity: str = "cosine", task_prompts: bool = False) -> MtebModel:
    return MtebModel(
        Dense(SharedEmbeddings(encoder, [], "fp32"), retrokit.similarity(similarity)), task_prompts, False, {}
    )


def test_the_protocols() -> None:
    from mteb.models import CrossEncoderProtocol, EncoderProtocol, SearchProtocol

    made = model(hashed(1))
    assert isinstance(made, EncoderProtocol)
    assert isinstance(made, SearchProtocol)
    assert not isinstance(made, CrossEncoderProtocol)


def test_roles_and_prompts() -> None:
    from mteb.types import PromptType

    encoder = hashed(1)

    def encoded(prompt: Any, prompt_type: Any, task_prompts: bool = True) -> tuple[str, str]:
        made = model(encoder, task_prompts=task_prompts)
        made.encode(
            [{"text": ["x"]}],
            task_metadata=Metadata("Retrieval", prompt),
            hf_split="",
            hf_subset="",
            prompt_type=prompt_type,
        )
        role, texts, _ = encoder.embedded[-1]
        return role, texts[0]

    query, document = PromptType.query, PromptType.document
    assert encoded({"query": "Find"}, query) == ("query", "Instruct: Find\nQuery: x")
    assert encoded({"query": "Find"}, document) == ("document", "x")
    assert encoded("Find", document) == ("document", "x")
    assert encoded("Compare", None) == ("document", "Instruct: Compare\nQuery: x")
    assert encoded(None, query) == ("query", "x")
    assert encoded({"query": "Find"}, query, task_prompts=False) == ("query", "x")


def test_the_digest_follows_the_data(folder: Path) -> None:
    task = tasks.create(f"mteb:SciFact,data={folder}")
    before = task.digest()
    (folder / "qrels" / "test.tsv").write_text("q1\td5\t1\n")
    assert tasks.create(f"mteb:SciFact,data={folder}").digest() != before
    assert "SciFact=sha256:" in before


@pytest.mark.parametrize(
    ("spec", "kind", "problem"),
    [
        ("mteb:@sf", UsageError, "mteb:@sf: no such set; the sets are @sfs, @crop, @mag"),
        ("mteb:SciFact,data={}/nowhere", DataError, "nowhere: does not exist; expected the data of SciFact"),
        ("mteb:@sfs,data={}", DataError, "contains no folder of any task's name, such as NanoArguAna"),
        ("mteb:STS12,data={}/made", DataError, "is a BEIR folder, but STS12 is a task of type STS"),
    ],
)
def test_unknown_names(spec: str, kind: type[Exception], problem: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(kind, match=problem):
        tasks.create(spec.format(tmp_path))


def test_a_hub_that_gives_nothing() -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no network\nand more")

    task = mteb.get_task("SciFact")
    task.load_data = fail
    use_hub(task, "into FOLDER")
    with pytest.raises(ServiceError) as failure:
        task.load_data()
    assert failure.value.exit_code == 4
    assert str(failure.value) == (
        "mteb: SciFact is not available (no network); download https://huggingface.co/datasets/mteb/scifact into FOLDER"
    )


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("retrokit.evaluation.mteb")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrokit-ir\[mteb\]'"):
        tasks.create("mteb:SciFact")


@pytest.mark.shared_data
@pytest.mark.slow
@pytest.mark.parametrize(("spec", "figure"), [("static:dim=64", 0.18123), ("minilm", 0.64508)])
def test_scifact_through_both(shared_data: Path, tmp_path: Path, spec: str, figure: float) -> None:
    folder = shared_data / "scifact"
    encoder = retrokit.encoder(spec)
    measured = [
        tasks.create(name).evaluate(Request(encoder, [encoder.similarity], precision="fp32"))[0].metrics["ndcg@10"]
        for name in (f"beir:{folder}", f"mteb:SciFact,data={folder},cache={tmp_path}")
    ]
    assert measured == pytest.approx([figure, figure], abs=1e-4)
    assert measured[0] == pytest.approx(measured[1], abs=1e-4)
