"""Data as they are uploaded: ``datasets``, mteb and retrokit itself read the upload."""

import json

import pytest
from datasets import get_dataset_config_names, load_dataset
from huggingface_hub import DatasetCard

from retrokit import cli
from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import read_beir
from retrokit.data.pairs import read_source
from retrokit.data.sure import read_sure
from retrokit.evaluation import registry as tasks
from retrokit.extensions.publishing import names, push
from retrokit.extensions.publishing.cards import copy
from tests.evaluation.fakes import write_folder
from tests.sure_folders import small_folder


def loaded(upload, cache) -> dict[str, dict[str, list[dict]]]:
    """Configuration, split and rows, as the datasets package loads them."""
    tables = {}
    for name in get_dataset_config_names(str(upload)):
        splits = load_dataset(str(upload), name, cache_dir=str(cache))
        tables[name] = {split: list(rows) for split, rows in splits.items()}
    return tables


def test_a_sure_set(tmp_path, service, capsys):
    small_folder(tmp_path / "sure")
    (tmp_path / "sure" / "README.md").write_text("# SURE benchmark of mine\n\nWritten by `/home/me/models/writer`.\n")
    (tmp_path / "sure" / "manifest.jsonl").write_text('{"query": "q0", "calls": [{"step": 1}, {"step": "two"}]}\n')
    (tmp_path / "sure" / "notes.txt").write_text("a secret")
    words = ["push", str(tmp_path / "sure"), "me/sure", "--license", "mit", "--languages", "eng-Latn", "--json"]
    assert cli.run(words) == 0
    assert json.loads(capsys.readouterr().out)["url"] == "https://hub.test/datasets/me/sure"
    (_, created), (_, uploaded) = service.calls
    assert created["repo_type"] == uploaded["repo_type"] == "dataset"
    files = service.files()
    assert "manifest.jsonl" in files
    assert "notes.txt" not in files
    card = DatasetCard(files["README.md"].decode())
    assert (card.data.license, card.data.language) == ("mit", ["eng"])
    assert "Written by `writer`." in card.text
    assert not any(text in card.text for text in ("query 0", "passage 1", "summary 2"))
    for name, content in files.items():
        path = tmp_path / "upload" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    original, copy = read_sure(tmp_path / "sure"), read_sure(tmp_path / "upload")
    assert (copy.queries, copy.originals, copy.variants) == (original.queries, original.originals, original.variants)
    tables = loaded(tmp_path / "upload", tmp_path / "cache")
    assert {row["id"]: row["text"] for row in tables["queries"]["test"]} == original.queries
    assert {row["query-id"]: row["corpus-id"] for row in tables["qrels"]["test"]} == original.originals
    assert {row["id"]: row["contents"] for row in tables["summaries"]["test"]} == original.variants["summary"]


def test_a_beir_folder_loads_in_datasets_and_mteb(tmp_path):
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

    documents, queries = {"007": "a spy", "d2": 'a "cat"'}, {"1": "who", "02": "what"}
    write_folder(tmp_path / "mine", documents, queries, {"1": {"007": 2}, "02": {"d2": 1}})
    upload = tmp_path / "upload"
    push(str(tmp_path / "mine"), "me/mine", license="mit", dry_run=str(upload))
    assert read_beir(upload).qrels == {"1": {"007": 2}, "02": {"d2": 1}}
    tables = loaded(upload, tmp_path / "cache")
    assert tables["default"]["test"][0] == {"query-id": "1", "corpus-id": "007", "score": 2}
    theirs = RetrievalDatasetLoader(hf_repo=str(upload), revision=None, split="test").load()
    assert dict(zip(theirs["corpus"]["id"], theirs["corpus"]["text"], strict=True)) == documents
    assert theirs["relevant_docs"] == {"1": {"007": 2}, "02": {"d2": 1}}


def test_repaired_data_and_mined_pairs(tmp_path):
    repaired = tmp_path / "repaired"
    repaired.mkdir()
    write_folder(repaired / "mine", {"d1": "a text"}, {"q1": "a query"}, {"q1": {"d1": 1}})
    change = {"data": "mine", "where": "test: q1 d2", "change": "judgement 1 left out", "reason": "absent-documents"}
    (repaired / "changes.jsonl").write_text(json.dumps(change) + "\n")
    pairs = [{"anchor": "a", "positive": "b"}, {"anchor": "c", "positive": "d", "negatives": ["e"]}]
    (repaired / "mined.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    push(str(repaired), "me/repaired", license="mit", dry_run=str(tmp_path / "upload"))
    assert "| absent-documents | 1 |" in (tmp_path / "upload" / "README.md").read_text()
    tables = loaded(tmp_path / "upload", tmp_path / "cache")
    assert tables["mine-qrels"]["test"] == [{"query-id": "q1", "corpus-id": "d1", "score": 1}]
    assert tables["changes"]["train"] == [change]
    push(str(repaired / "mined.jsonl"), "me/mined", license="mit", dry_run=str(tmp_path / "pairs"))
    (rows,) = loaded(tmp_path / "pairs", tmp_path / "cache").values()
    assert rows["train"] == [{"anchor": "a", "positive": "b", "negatives": None}, pairs[1]]
    assert len(read_source(str(tmp_path / "pairs" / "mined.jsonl"), "pairs").records) == 2


def test_a_second_upload_completes_the_card_of_the_first(tmp_path):
    write_folder(tmp_path / "data", {"d1": "a text"}, {"q1": "a query"}, {"q1": {"d1": 1}})
    push(str(tmp_path / "data"), "me/mine", license="mit", dry_run=str(tmp_path / "first"))
    push(str(tmp_path / "first"), "me/mine", dry_run=str(tmp_path / "second"))
    assert (tmp_path / "second" / "README.md").read_text() == (tmp_path / "first" / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("queries.jsonl", '{"_id": "q1", "text": "a"}\nno JSON\n', DataError, r"queries.jsonl:2: "),
        ("pairs.tsv", "a\tb\n", UsageError, "pairs.tsv: only queries and judgements may be TSV"),
        ("README.md", "---\n- a list\n---\n", DataError, "README.md: is not a card: "),
    ],
)
def test_wrong_data_are_one_line_and_nothing_is_written(tmp_path, name, content, error, message):
    write_folder(tmp_path / "data", {"d1": "a text"}, {"q1": "a query"}, {"q1": {"d1": 1}})
    (tmp_path / "data" / name).write_text(content)
    with pytest.raises(error, match=message) as caught:
        push(str(tmp_path / "data"), "me/mine", dry_run=str(tmp_path / "upload"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "upload").exists()


def test_a_folder_with_data_somewhere_below_is_not_uploaded(tmp_path, service):
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "project" / "data" / "private.jsonl").write_text('{"text": "a secret"}\n')
    with pytest.raises(UsageError, match="project is no data set; expected a model folder, a SURE or BEIR folder"):
        push(str(tmp_path / "project"), "me/mine")
    assert service.calls == []


def test_the_card_describes_tables_and_their_use(tmp_path):
    write_folder(tmp_path / "mine", {"d1": "a", "d2": "b"}, {"q1": "c"}, {"q1": {"d1": 1}})
    (tmp_path / "mine" / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    (tmp_path / "mine" / ".hidden.jsonl").write_text('{"text": "a secret"}\n')
    card = "---\ntags: [animals]\ntask_categories: [question-answering]\n---\n# Mine\n"
    (tmp_path / "mine" / "README.md").write_text(card)
    pushed = push(str(tmp_path / "mine"), "me/mine", dry_run=str(tmp_path / "upload"))
    names = {f"{part}.jsonl" for part in ("corpus", "queries", "qrels/dev", "qrels/test")}
    assert set(pushed.files) == {"README.md", "qrels/dev.tsv", "qrels/test.tsv", *names}
    assert pushed.files == sorted(pushed.files)
    written = DatasetCard((tmp_path / "upload" / "README.md").read_text())
    assert (written.data.tags, written.data.task_categories) == (["animals", "retrokit"], ["question-answering"])
    (judged,) = [entry for entry in written.data.configs if entry["config_name"] == "default"]
    assert [file["split"] for file in judged["data_files"]] == ["dev", "test"]
    assert "| default | dev | 1 | query-id, corpus-id, score |" in written.text
    assert "retrokit eval minilm --on beir:hf:me/mine\n" in written.text


def test_a_card_of_pairs_or_repaired_data_says_so(tmp_path, caplog):
    caplog.set_level("INFO", "retrokit")
    (tmp_path / "pairs.jsonl").write_text('{"anchor": "a", "positive": "b"}\n')
    push(str(tmp_path / "pairs.jsonl"), "me/pairs", dry_run=str(tmp_path / "one"))
    text = (tmp_path / "one" / "README.md").read_text()
    assert "# pairs\n\nTexts for training retrievers, in JSON lines.\n" in text
    assert "retrokit finetune minilm --data hf:me/pairs -o runs/pairs\n" in text
    assert caplog.messages == ["the card names no licence, so nobody may use the upload; give a `license=`"]
    (tmp_path / "repaired").mkdir()
    change = {"data": "pairs", "where": "1", "change": "left out", "reason": "labels"}
    for name, row in (("pairs", {"anchor": "a", "positive": "b"}), ("changes", change)):
        (tmp_path / "repaired" / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    push(str(tmp_path / "repaired"), "me/repaired", license="mit", dry_run=str(tmp_path / "two"))
    text = (tmp_path / "two" / "README.md").read_text()
    assert "Repaired copies of data. `changes.jsonl` lists each change.\n" in text
    assert "hf download me/repaired --repo-type dataset --local-dir repaired\n" in text
    assert len(caplog.messages) == 1


def test_a_link_is_not_uploaded(tmp_path):
    (tmp_path / "secret.txt").write_text("a secret")
    (tmp_path / "model" / "part").mkdir(parents=True)
    (tmp_path / "model" / "part" / "weights").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(DataError, match="model/part/weights: is a link; replace it by the file"):
        copy(tmp_path / "model", tmp_path / "copied")


def test_names_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names.is_on_hub("org/data")
    assert names.data_set_of(tasks, "beir:hf:org/data,split=dev") == "org/data"
    assert names.data_set_of(tasks, "beir:org/data") is None
    (tmp_path / "org" / "data").mkdir(parents=True)
    assert not names.is_on_hub("org/data")
    assert names.data_set_of(tasks, "beir:hf:org/data") is None
