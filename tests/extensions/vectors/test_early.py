"""What files tell is checked before a model loads: its weights are damaged here, and the data are reported first."""

import shutil
from pathlib import Path

import pytest

from retrokit import cli, encoders
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.vectors.query_side import plan
from retrokit.extensions.vectors.settings import VectorsConfig
from retrokit.ranking.export import export
from tests.evaluation.fakes import write_folder
from tests.models import sentences

TEXTS = sentences(40)
IDS = [f"d{number}" for number in range(40)]


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs, among them ``damaged``, an encoder whose weights do not load, and an export of ``bert``'s vectors."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bert, tmp_path / "bert")
    write_jsonl(tmp_path / "corpus.jsonl", ({"id": id, "text": text} for id, text in zip(IDS, TEXTS, strict=True)))
    export("bert", "corpus.jsonl", "documents", precision="fp32")
    shutil.copytree(tiny_bert, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"damaged")
    texts = sentences(40, seed=3)
    pairs = [{"anchor": one, "positive": other} for one, other in zip(texts[:20], texts[20:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    by_id = [{"anchor": text, "positive": id} for text, id in zip(texts[:20], IDS, strict=False)]
    write_jsonl(tmp_path / "by-id.jsonl", by_id)
    crops = [{"anchor": text, "positive": f"crop {text}", "id": id} for text, id in zip(texts, IDS, strict=False)]
    write_jsonl(tmp_path / "crops.jsonl", crops)
    write_jsonl(tmp_path / "foreign.jsonl", [*crops[:5], {"anchor": "a", "positive": "b", "id": "elsewhere"}])
    write_folder(tmp_path / "task", {"d": "a cat"}, {"q": "cats"}, {"q": {"d": 1}})
    return tmp_path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--data by-id.jsonl --batch-size 64", "a batch of 64 is larger than its 20 records"),
        ("--data pairs.jsonl", "20 of 20 documents are no ids or texts of documents"),
        ("--data foreign.jsonl", "foreign.jsonl:6: document 'elsewhere' is not in documents"),
        ("--data by-id.jsonl --eval beir:task --batch-size 4", "documents: lacks 1 of 1 documents"),
        ("--data by-id.jsonl --holdout 4 --best-metric p@0 --batch-size 4", "precision@0"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_data_are_refused_before_weights_load(
    words: str, problem: str, dry_run: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--dry-run"] if dry_run else ["-o", "run"]
    assert cli.run(["vectors", "train", "documents", "--encoder", "damaged", *words.split(), *more]) == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]
    assert not Path("run").exists()


def test_a_dry_run_embeds_a_sample_of_the_queries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchors = sentences(200, seed=5)
    write_jsonl(folder / "many.jsonl", ({"anchor": text, "positive": IDS[i % 40]} for i, text in enumerate(anchors)))
    config = VectorsConfig("documents", ["many.jsonl"], batch_size=8, precision="fp32")
    encoder = encoders.registry.create("bert", device="cpu")
    embedded: list[int] = []
    embed = type(encoder).embed

    def counted(self, items, role, precision="auto"):
        embedded.append(len(items))
        return embed(self, items, role, precision)

    monkeypatch.setattr(type(encoder), "embed", counted)
    plan(config, dry_run=True)
    assert sum(embedded) == 64
    plan(config)
    assert sum(embedded) == 64 + 200
