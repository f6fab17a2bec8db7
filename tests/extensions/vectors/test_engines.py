"""Arrow to Arrow for data engines, and the vectors that a job wrote as an export."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow
import pyarrow.json
import pyarrow.parquet
import pytest
import torch

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError, RetrokitError, UsageError
from retrokit.data.exports import CHUNK, open_export
from retrokit.extensions.vectors import adopt, embed_batches
from retrokit.ranking.export import ExportedTexts, Texts, export
from tests.evaluation.fakes import write_lines
from tests.models import sentences

TEXTS = sentences(30, seed=5)
EXAMPLES = Path(__file__).parents[3] / "examples"
IMPORT = "from retrokit.extensions.vectors import embed_batches"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    titles = ["", " Title", "Another"]
    rows = [{"id": f"d{number}", "title": titles[number % 3], "text": f" {text}"} for number, text in enumerate(TEXTS)]
    return write_lines(tmp_path / "corpus.jsonl", rows)


@pytest.fixture
def table(corpus: Path) -> pyarrow.Table:
    return pyarrow.json.read_json(corpus)


def vectors_of(table: pyarrow.Table) -> np.ndarray:
    return np.array(table.column("embedding").to_pylist(), dtype=np.float32)


@pytest.mark.parametrize("sim", [None, "sfs:4", "qnorm"])
@pytest.mark.parametrize("role", ["document", "query"])
def test_a_batch_has_the_bits_of_an_export(tiny_bert, corpus, table, tmp_path, sim, role):
    expected = export(str(tiny_bert), str(corpus), str(tmp_path / "out"), sim=sim, role=role, precision="fp32")
    embedded = embed_batches(retrokit.encoder(str(tiny_bert)), table, role=role, sim=sim, precision="fp32")
    assert embedded.schema.names == ["id", "embedding"]
    assert embedded.column("id").to_pylist() == expected.ids()
    assert np.array_equal(vectors_of(embedded), expected.vectors())


def test_a_record_batch_gives_a_record_batch(tiny_bert, table):
    (batch,) = table.to_batches()
    embedded = embed_batches(retrokit.encoder(str(tiny_bert)), batch)
    assert isinstance(embedded, pyarrow.RecordBatch)
    assert embedded.num_rows == len(TEXTS)


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ({"id": ["a"], "body": ["b"]}, {}, "the table has no column 'text', only id, body; name it in the engine"),
        ({"text": ["a"]}, {}, "the table has no column 'id', only text"),
        ({"id": ["a", "b"], "text": ["b", None]}, {}, "the table has no text in row 2 of a batch"),
        (
            {"id": ["a"], "text": ["b"]},
            {"sim": "l2"},
            "l2 is not an inner product of prepared embeddings",
        ),
    ],
)
def test_a_batch_that_cannot_be_embedded(columns, options, problem):
    with pytest.raises(UsageError, match=problem):
        embed_batches(retrokit.encoder("static:8"), pyarrow.table(columns), **options)


def test_documents_in_chunks_are_refused(tiny_bert, table):
    with pytest.raises(UsageError, match="cuts documents into chunks; use 'retrokit export --shard'"):
        embed_batches(retrokit.encoder(f"{tiny_bert},chunks=8"), table)


def write_parts(table: pyarrow.Table, folder: Path) -> Path:
    """As an engine may: in parts, the rows in another order, and a file of its own."""
    folder.mkdir()
    rows = table.take(list(reversed(range(len(table)))))
    pyarrow.parquet.write_table(rows.slice(0, 11), folder / "part-1.parquet")
    pyarrow.parquet.write_table(rows.slice(11), folder / "part-0.parquet")
    (folder / "_temporary.parquet").write_bytes(b"")
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_adopted_vectors_are_the_export(tiny_bert, corpus, table, tmp_path, dtype):
    expected = export(
        *(str(tiny_bert), str(corpus), str(tmp_path / "expected")), sim="qnorm", precision="fp32", dtype=dtype
    )
    embedded = embed_batches(retrokit.encoder(str(tiny_bert)), table, sim="qnorm", precision="fp32")
    parts = write_parts(embedded, tmp_path / "parts")
    made = adopt(
        *(str(parts), str(tiny_bert), str(corpus), str(tmp_path / "out")), sim="qnorm", precision="fp32", dtype=dtype
    )
    assert made.note["notes"] == {"adopted": {"from": str(parts), "checked": 30, "difference": 0.0}}
    assert {name: value for name, value in made.note.items() if name != "notes"} == expected.note
    files = {file.name for file in (tmp_path / "expected").iterdir()}
    assert {file.name for file in (tmp_path / "out").iterdir()} == files
    for name in files - {"export.json"}:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()
    rankings = []
    for folder in ("expected", "out"):
        run = tmp_path / f"{folder}.trec"
        words = ["search", "--index-folder", str(tmp_path / folder), "--query", TEXTS[7], "-o", str(run)]
        assert cli.run(words) == 0
        rankings.append(run.read_text())
    assert rankings[0] == rankings[1]


def changed(table: pyarrow.Table, case: str) -> pyarrow.Table:
    ids, vectors = table.column("id").to_pylist(), vectors_of(table)
    match case:
        case "missing":
            return table.slice(0, 28)
        case "twice":
            return pyarrow.concat_tables([table, table.slice(4, 1)])
        case "unknown":
            ids[3] = "other"
        case "infinite":
            vectors[5, 2] = np.inf
        case "others":
            vectors[:, 0] += 0.1
        case "width":
            vectors = vectors[:, :4]
        case "null":
            return pyarrow.table({"id": ids, "embedding": [*vectors.tolist()[:-1], None]})
        case "column":
            return table.rename_columns(["id", "vector"])
    return pyarrow.table({"id": ids, "embedding": list(vectors)})


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("missing", r"vectors\.parquet: lacks 2 of 30 texts, the first of them 'd28'; run the job again"),
        ("twice", r"vectors\.parquet:31: the id 'd4' is there twice"),
        ("unknown", r"vectors\.parquet:4: the id 'other' is not in .*corpus\.jsonl"),
        ("infinite", r"vectors\.parquet:6: the embedding contains numbers that are not finite"),
        ("null", r"vectors\.parquet:30: expected an embedding of 8 numbers, without nulls"),
        ("others", r"vectors\.parquet: 'd\d+' embeds to another vector here .* name the encoder"),
        ("width", r"vectors\.parquet: the vectors have 4 numbers, and static:\S+ gives 8; name the encoder"),
        ("column", r"vectors\.parquet: has no column 'embedding', only id, vector"),
        ("damaged", r"vectors\.parquet: could not be read"),
    ],
)
def test_vectors_that_are_not_adopted(corpus, table, tmp_path, case, problem):
    file = tmp_path / "vectors.parquet"
    embedded = embed_batches(retrokit.encoder("static:8"), table)
    pyarrow.parquet.write_table(changed(embedded, case), file)
    if case == "damaged":
        file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(RetrokitError, match=problem) as raised:
        adopt(str(file), "static:8", str(corpus), str(tmp_path / "out"))
    assert isinstance(raised.value, (DataError, UsageError))
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name and path.is_dir()] == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, None),
        ({"dtype": "float16"}, None),
        (
            {"dtype": "int8"},
            "embeds to another vector here .* name the encoder, similarity and precision",
        ),
        ({"dims": 8}, "the vectors have 8 numbers, and .* gives 16; name the encoder and similarity of the job"),
        ({"one_length": True}, "the vectors have 17 numbers, and .* gives 16; name the encoder"),
        ({"chunks": 8}, r"the id 'd0#0' is not in .*corpus\.jsonl; give the file that was embedded"),
        ({"sim": "qnorm"}, None),
        ({"sim": "dnorm"}, "embeds to another vector here"),
    ],
)
def test_an_export_of_other_options_is_adopted_or_refused(tiny_bert, corpus, tmp_path, options, problem):
    """Documents of qnorm are those of the adopted dot; those of dnorm are not."""
    chunks = options.pop("chunks", None)
    encoder = str(tiny_bert) if chunks is None else f"{tiny_bert},chunks={chunks}"
    export(encoder, str(corpus), str(tmp_path / "exported"), precision="fp32", **{"sim": "dot", **options})
    arguments = (str(tmp_path / "exported"), str(tiny_bert), str(corpus), str(tmp_path / "out"))
    if problem is None:
        adopted = adopt(*arguments, sim="dot", precision="fp32")
        assert len(adopted.ids()) == len(TEXTS)
        return
    with pytest.raises(RetrokitError, match=problem) as raised:
        adopt(*arguments, sim="dot", precision="fp32")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_texts_are_read_twice(tiny_bert, corpus, table, tmp_path, monkeypatch):
    embedded = embed_batches(retrokit.encoder(str(tiny_bert)), table, precision="fp32")
    pyarrow.parquet.write_table(embedded, tmp_path / "vectors.parquet")
    readings = []
    read = ExportedTexts.read

    def counted(source: ExportedTexts) -> Texts:
        readings.append(source)
        return read(source)

    monkeypatch.setattr(ExportedTexts, "read", counted)
    adopt(str(tmp_path / "vectors.parquet"), str(tiny_bert), str(corpus), str(tmp_path / "out"), precision="fp32")
    assert len(readings) == 2


def test_images_are_not_adopted(tmp_path):
    PIL.Image.new("RGB", (24, 24)).save(tmp_path / "a.png")
    corpus = write_lines(tmp_path / "corpus.jsonl", [{"id": "d0", "image": "a.png"}])
    pyarrow.parquet.write_table(pyarrow.table({"id": ["d0"], "embedding": [[0.0] * 8]}), tmp_path / "v.parquet")
    with pytest.raises(UsageError, match="contains images; use 'retrokit export --shard' for these"):
        adopt(str(tmp_path / "v.parquet"), "static:8", str(corpus), str(tmp_path / "out"))


def test_a_folder_without_parquet_is_not_adopted(corpus, tmp_path):
    with pytest.raises(UsageError, match="contains no Parquet file; give a file or folder"):
        adopt(str(tmp_path), "static:8", str(corpus), str(tmp_path / "out"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "packages", "dies"),
    [("ray", ["ray"], True), ("daft", ["daft"], False), ("daft", ["daft", "ray"], True), ("spark", ["pyspark"], True)],
)
def test_an_engine_of_two_workers_has_the_bits_of_an_export(tiny_bert, tmp_path, engine, packages, dies):
    for package in packages:
        pytest.importorskip(package, reason="a data engine, for a slow test")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    texts = sentences(CHUNK + 300, seed=3)
    corpus = write_lines(
        tmp_path / "corpus.jsonl", [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    )
    expected = export(str(tiny_bert), str(corpus), str(tmp_path / "expected"), precision="fp32")
    example = (EXAMPLES / f"embed_with_{engine}.py").read_text(encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    marker = tmp_path / "a worker has died"
    if dies:
        assert IMPORT in example
        example = example.replace(IMPORT, "from tests.extensions.vectors.dying import embed_batches")
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "DYING": str(marker)}
    if "ray" in packages:
        environment["DAFT_RUNNER"] = "ray"
    script = tmp_path / "job.py"
    script.write_text(example, encoding="utf-8")
    subprocess.run(
        [sys.executable, script, corpus, tiny_bert, tmp_path / "vectors"], check=True, timeout=800, env=environment
    )
    assert marker.exists() == dies
    made = adopt(str(tmp_path / "vectors"), str(tiny_bert), str(corpus), str(tmp_path / "out"), precision="fp32")
    assert np.array_equal(made.vectors(), expected.vectors())
    assert open_export(tmp_path / "out").ids() == expected.ids()


def test_a_sample_of_a_job_on_queries_with_numbers_as_ids(tmp_path):
    corpus = write_lines(tmp_path / "queries.jsonl", [{"id": str(n), "text": text} for n, text in enumerate(TEXTS)])
    table = pyarrow.table({"id": list(range(30)), "text": TEXTS})
    embedded = embed_batches(retrokit.encoder("static:8"), table, role="query")
    (tmp_path / "parts").mkdir()
    pyarrow.parquet.write_table(embedded, tmp_path / "parts" / "a.parquet")
    (tmp_path / "parts" / ".b.parquet").write_bytes(b"of the engine")
    made = adopt(*(str(tmp_path / "parts"), "static:8", str(corpus), str(tmp_path / "out")), role="query", sample=5)
    assert (made.note["role"], made.note["notes"]["adopted"]["checked"]) == ("query", 5)
    assert made.ids() == [str(number) for number in range(30)]


def test_a_row_behind_the_first_portion_is_named_by_its_line(corpus, table, tmp_path, monkeypatch):
    monkeypatch.setattr("retrokit.extensions.vectors.adoption.CHUNK", 8)
    embedded = embed_batches(retrokit.encoder("static:8"), table)
    pyarrow.parquet.write_table(changed(embedded, "null"), tmp_path / "vectors.parquet")
    with pytest.raises(DataError, match=r"vectors\.parquet:30: expected an embedding of 8 numbers"):
        adopt(str(tmp_path / "vectors.parquet"), "static:8", str(corpus), str(tmp_path / "out"))


def test_files_of_two_widths_are_not_adopted(corpus, table, tmp_path):
    (tmp_path / "parts").mkdir()
    for number, start in ((8, 0), (4, 15)):
        embedded = embed_batches(retrokit.encoder(f"static:{number}"), table.slice(start, 15))
        pyarrow.parquet.write_table(embedded, tmp_path / "parts" / f"{start}.parquet")
    problem = r"15\.parquet:1: the vectors have 4 numbers, and 0\.parquet has 8$"
    with pytest.raises(DataError, match=problem):
        adopt(str(tmp_path / "parts"), "static:8", str(corpus), str(tmp_path / "out"))


def test_texts_of_a_pipe_are_not_adopted(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a"], "embedding": [[0.0] * 8]}), tmp_path / "v.parquet")
    with pytest.raises(UsageError, match="-: is a pipe, and its texts are read twice; give a file"):
        adopt(str(tmp_path / "v.parquet"), "static:8", "-", str(tmp_path / "out"))


def test_queries_of_an_encoder_that_cuts_documents_are_embedded(tiny_bert, table):
    embedded = embed_batches(retrokit.encoder(f"{tiny_bert},chunks=8"), table, role="query")
    assert embedded.num_rows == len(TEXTS)
