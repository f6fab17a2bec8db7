"""The training source that goes through the ``datasets`` package; no network, no machine-wide cache."""

from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair, ScoredPair
from tests.codes import codes


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with its caches in the test's own folder."""
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache" / "datasets"))
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "cache" / "modules"))
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", str(tmp_path / "cache" / "downloads"))
    return datasets


COLUMNS = {"question": ["a", "a"], "answer": ["b", "c"], "negative_1": ["x", None], "image": [b"", b""]}


def test_one_saved_split(tmp_path: Path, datasets: Any) -> None:
    folder = tmp_path / "saved"
    datasets.Dataset.from_dict(COLUMNS).save_to_disk(str(folder))
    source = read_source(f"hf:{folder}", "pairs")
    assert list(source.records) == [Pair("a", "b", ("x",)), Pair("a", "c")]
    assert source.positives.tolist() == codes({"a": "bc"}).tolist()
    assert source.name == "saved"
    again = tmp_path / "again"
    datasets.Dataset.from_dict({**COLUMNS, "image": [b"1", b"2"]}).save_to_disk(str(again))
    assert read_source(f"hf:{again}", "pairs").digest == source.digest
    datasets.Dataset.from_dict({**COLUMNS, "answer": ["b", "d"]}).save_to_disk(str(tmp_path / "other"))
    assert read_source(f"hf:{tmp_path / 'other'}", "pairs").digest != source.digest


def test_saved_splits(tmp_path: Path, datasets: Any) -> None:
    rows = {"sentence1": ["a"], "sentence2": ["b"], "label": [3]}
    splits = {"train": datasets.Dataset.from_dict(rows), "dev": datasets.Dataset.from_dict({**rows, "label": [4]})}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    assert list(read_source(f"hf:{tmp_path / 'saved'},split=dev", "scored").records) == [ScoredPair("a", "b", 4.0)]
    with pytest.raises(UsageError, match=r"saved: has no split 'test'; its splits are 'train', 'dev'$"):
        read_source(f"hf:{tmp_path / 'saved'},split=test", "scored")
    with pytest.raises(UsageError, match=r"has no configurations; leave config=en out$"):
        read_source(f"hf:{tmp_path / 'saved'},config=en", "scored")


def test_a_folder_of_data_files(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"query": "a", "pos": ["b", "c"]}\n{"query": "d", "pos": ["e"]}\n')
    source = read_source(f"hf:{folder}", "pairs")
    assert list(source.records) == [Pair("a", "b"), Pair("a", "c"), Pair("d", "e")]
    assert list(read_source(f"hf:{folder},split=train[1:]", "pairs").records) == [Pair("d", "e")]
    with pytest.raises(UsageError, match=r"files: Unknown split \"dev\"\. Should be one of \['train'\]\.$"):
        read_source(f"hf:{folder},split=dev", "pairs")
    with pytest.raises(UsageError, match=r"files: BuilderConfig 'en' not found\. Available: \['default'\]$"):
        read_source(f"hf:{folder},config=en", "pairs")


def test_wrong_columns_and_rows(tmp_path: Path, datasets: Any) -> None:
    folder = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"anchor": ["a", ""], "positive": ["b", "b"]}).save_to_disk(folder)
    with pytest.raises(DataError) as caught:
        read_source(f"hf:{folder}", "pairs")
    assert str(caught.value) == f"{folder}, split train:2: field 'anchor' is empty"
    with pytest.raises(DataError) as caught:
        read_source(f"hf:{folder}", "scored")
    problem = "no field 'sentence1' (or sentence_A, sentence_a, text1, query) for the first sentence; the "
    problem += "fields are 'anchor', 'positive'"
    assert str(caught.value) == f"{folder}, split train: {problem}"


def test_what_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: does not exist; expected a folder with a data set, or a hub id"):
        read_source(f"hf:{tmp_path / 'none'}", "pairs")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(UsageError, match="is a file; write jsonl:"):
        read_source(f"hf:{tmp_path / 'a.jsonl'}", "pairs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: is not a data set that can be read: The directory at"):
        read_source(f"hf:{tmp_path / 'empty'}", "pairs")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_dict.json").write_text("{")
    with pytest.raises(DataError, match="saved: the saved data set could not be read: ") as caught:
        read_source(f"hf:{tmp_path / 'saved'}", "pairs")
    assert len(str(caught.value).splitlines()) == 1
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.jsonl").write_text('{"anchor": "a\n')
    with pytest.raises(DataError, match="broken: is not a data set that can be read: JSON parse error") as caught:
        read_source(f"hf:{tmp_path / 'broken'}", "pairs")
    assert len(str(caught.value).splitlines()) == 1


def test_a_hub_out_of_reach(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Couldn't reach 'org/name' on the Hub (ConnectTimeout)\nsecond line")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(ServiceError) as caught:
        read_source("hf:org/name", "pairs")
    assert str(caught.value) == (
        "hf:org/name: no folder 'org/name' here, and loading it from the hub failed: "
        "Couldn't reach 'org/name' on the Hub (ConnectTimeout)"
    )


def test_name_config_and_split_reach_the_library(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def load(name: str, config: str | None, split: str) -> Any:
        asked.extend((name, config, split))
        return datasets.Dataset.from_dict({"anchor": ["a"], "positive": ["b"]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    source = read_source("hf:org/name,config=en,split=train[:10%],weight=2", "pairs")
    assert asked == ["org/name", "en", "train[:10%]"]
    assert (source.name, source.weight, source.spec) == (
        "name",
        2.0,
        "hf:org/name,config=en,split=train[:10%],weight=2.0",
    )
