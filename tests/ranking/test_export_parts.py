"""Exports that are broken off, in other types of numbers, and in shards."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import retrokit
from retrokit import cli, encoders
from retrokit.core.errors import Interrupted, UsageError
from retrokit.core.notices import listening
from retrokit.data import exports
from retrokit.data.dtypes import DTYPES
from retrokit.data.exports import Export, open_export
from retrokit.ranking.export import Prepared, export
from retrokit.ranking.retrieval.files import exported_texts
from tests.close import assert_rounded
from tests.evaluation.fakes import Notices, write_lines
from tests.models import sentences
from tests.processes import retrokit_in

TEXTS = sentences(70, seed=21)
CHUNK = 16  # of which 70 texts make five portions


@pytest.fixture(autouse=True)
def portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "CHUNK", CHUNK)
    monkeypatch.setattr(exports, "SAMPLE", CHUNK)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [{"id": f"d{number:02}", "text": text} for number, text in enumerate(TEXTS)]
    return write_lines(tmp_path_factory.mktemp("data") / "corpus.jsonl", lines)


@pytest.fixture(scope="module")
def whole(tiny_bert: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Export]:
    """An export of each type that nothing has interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exports, "CHUNK", CHUNK)
        patch.setattr(exports, "SAMPLE", CHUNK)
        folder = tmp_path_factory.mktemp("whole")
        made = {dtype: export(str(tiny_bert), str(corpus), str(folder / dtype), dtype=dtype) for dtype in DTYPES}
    return made


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(made: Export) -> np.ndarray:
    return np.concatenate([part.embeddings() for part in made.parts])


class Breaks:
    """Encodes ``portions``, and then does ``act``; counts what it has encoded."""

    def __init__(self, portions: int, act: Any) -> None:
        self.left, self.act, self.texts = portions, act, 0
        self.real = Prepared.of_chunks

    def __call__(self, texts: Any) -> Any:
        if not self.left:
            self.act()
        self.left -= 1
        self.texts += len(texts)
        return self.real(self.prepared, texts)

    def put_in(self, patch: Any) -> Breaks:
        def call(prepared: Prepared, texts: Any) -> Any:
            self.prepared = prepared
            return self(texts)

        patch(Prepared, "of_chunks", call)
        return self


def interrupt() -> None:
    raise KeyboardInterrupt


def die(rank: int) -> None:
    """In a process of its own: be killed at the fourth portion."""
    exports.CHUNK = exports.SAMPLE = CHUNK
    Breaks(3, lambda: os.kill(os.getpid(), signal.SIGKILL)).put_in(setattr)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_export_that_was_killed_goes_on(tiny_bert, corpus, whole, tmp_path, monkeypatch, dtype):
    words = ["export", tiny_bert, "--on", corpus, "-o", "out", "--dtype", dtype]
    (ended,) = retrokit_in(1, tmp_path, words, die)
    assert ended.code == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    unfinished = tmp_path / ".out.retrokit-tmp"
    with open(unfinished / "embeddings.npy", "ab") as rows, open(unfinished / "ids.jsonl", "a") as ids:
        rows.write(b"half a row")  # as a kill may leave it
        ids.write('{"id": ')
    counted = Breaks(-1, interrupt).put_in(monkeypatch.setattr)
    heard = Notices()
    with listening(heard):
        made = export(str(tiny_bert), str(corpus), str(tmp_path / "out"), dtype=dtype)
    earlier = 32 if dtype == "int8" else 48
    assert any(said.startswith(f"resuming after {earlier} embeddings") for said in heard.messages)
    display = next(display for display in heard.displays if display[0][0] == "exporting embeddings")
    assert display[0][1:] == (sum(1 + len(text) for text in TEXTS), "characters")
    assert display[1] == (sum(1 + len(text) for text in TEXTS[:earlier]), True)  # no part of the rate
    assert sum(count for count, _ in display[1:]) == display[0][1]
    assert counted.texts == (38 if dtype == "int8" else 22)  # int8 had embedded its sample too
    assert content(made.folder) == content(whole[dtype].folder)
    assert {path.name for path in tmp_path.iterdir() if "retrokit" in path.name} == set()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_numbers_are_those_of_float32(whole, dtype):
    exact, made = whole["float32"].embeddings(), whole[dtype]
    stored = "uint8" if dtype == "binary" else dtype
    assert (made.embeddings().dtype, made.note["dtype"]) == (stored, dtype)
    assert made.vectors().shape == exact.shape == (70, made.note["dimension"])
    step = {"float32": 0, "float16": np.abs(exact).max() * 2**-11}.get(dtype)
    if dtype == "binary":
        assert made.embeddings().shape == (70, 2)
        assert np.array_equal(made.vectors(), np.where(exact > 0, 1, -1))
    elif step is None:
        ranges = made.quantization().ranges
        assert ranges is not None
        assert_rounded(ranges, [exact[::5].min(axis=0), exact[::5].max(axis=0)])  # of 14 texts, taken evenly
        inside = (exact >= ranges[0]) & (exact <= ranges[1])
        assert 14 / 70 <= inside.mean() < 1
        assert np.isin(made.embeddings()[~inside], [-128, 127]).all()
        assert (np.abs(made.vectors() - exact) <= np.ptp(ranges, axis=0) / 510 * 1.001)[inside].all()
    else:
        assert np.abs(made.vectors() - exact).max() <= step
    table = pyarrow.parquet.read_table(made.folder / exports.TABLE)
    value_type = {"float16": "halffloat", "float32": "float"}.get(dtype, stored)
    assert str(table.schema.field("embedding").type.value_type) == value_type
    assert np.array_equal(np.array(table["embedding"].to_pylist(), dtype=stored), made.embeddings())
    assert table["id"].to_pylist() == made.ids()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_shards_are_read_as_one(tiny_bert, corpus, whole, tmp_path, count, dtype):
    for number in range(count, 0, -1):
        export(str(tiny_bert), str(corpus), str(tmp_path / "out"), dtype=dtype, shard=f"{number}/{count}")
    made = open_export(tmp_path / "out")
    assert [part.note["shard"]["number"] for part in made.parts] == list(range(1, count + 1))
    assert np.array_equal(rows_of(made), rows_of(whole[dtype]))  # to the bit: shards are whole portions
    assert np.array_equal(made.vectors(), whole[dtype].vectors())
    assert made.ids() == whole[dtype].ids()
    assert made.ids_at([3, 69, 40]) == {3: "d03", 40: "d40", 69: "d69"}
    assert made.note["count"] == 70
    first = [part.note["shard"]["first"] for part in made.parts]
    assert first == list(np.cumsum([0, *(len(part.ids()) for part in made.parts)])[:-1])


def test_shards_that_do_not_belong_together(tiny_bert, corpus, tmp_path):
    out = tmp_path / "out"

    def make(shard: str, **options: Any) -> None:
        export(str(tiny_bert), str(corpus), str(out), shard=shard, overwrite=True, **options)

    make("1/2")
    with pytest.raises(UsageError, match="out: shard 2 of 2 is missing"):
        open_export(out)
    make("2/2", dtype="int8")
    with pytest.raises(UsageError, match=r"shard-00002-of-00002: does not belong to .*: another dtype"):
        open_export(out)
    make("2/2", sim="dot")
    with pytest.raises(UsageError, match="another similarity"):
        open_export(out)
    make("2/2")
    assert open_export(out).note["count"] == 70
    whole = export(str(tiny_bert), str(corpus), str(out), overwrite=True)  # in the place of all shards
    assert {path.name for path in out.iterdir()} == set(exports.FILES) - {exports.RANGES}
    assert open_export(out).note == whole.note
    shutil.rmtree(out)
    for shard in ("1/2", "2/2"):
        make(shard)
    with pytest.raises(UsageError, match="out: contains shards of 2; name another folder for shards of 3"):
        make("3/3")
    (out / "shard-00002-of-00002").rename(out / "shard-00002-of-00003")
    note = json.loads((out / "shard-00002-of-00003" / exports.NOTE).read_text())
    note["shard"]["of"] = 3
    (out / "shard-00002-of-00003" / exports.NOTE).write_text(json.dumps(note))
    with pytest.raises(UsageError, match="contains shards of 2 and of 3"):
        open_export(out)
    for shard in ("0/2", "3/2", "1", "a/b", "1/-2"):
        with pytest.raises(UsageError, match=f"`shard=` '{shard}': expected i/n with i from 1 to n"):
            make(shard)
    with pytest.raises(UsageError, match="`shard=`: the texts must be in a file"):
        export(str(tiny_bert), "-", str(tmp_path / "piped"), shard="1/2")
    with pytest.raises(UsageError, match="`dtype=` int4 is none of float32, float16, int8"):
        make("1/2", dtype="int4")
    export(str(tiny_bert), str(corpus), str(tmp_path / "one"))
    with pytest.raises(UsageError, match="contains a whole export"):
        export(str(tiny_bert), str(corpus), str(tmp_path / "one"), shard="1/2")


def small_portions(rank: int) -> None:
    exports.CHUNK = exports.SAMPLE = CHUNK


@pytest.mark.parametrize("given", [(), ("--shard", "2/3")])
def test_processes_of_torchrun_make_a_shard_each(tiny_bert, corpus, whole, tmp_path, given):
    words = ["export", tiny_bert, "--on", corpus, "-o", "out", "--dtype", "float16", *given]
    ended = retrokit_in(2, tmp_path, words, small_portions)
    assert [one.code for one in ended] == [0, 0], ended
    assert ended[1].out == ""
    if given:  # which they encode together
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["shard-00002-of-00003"]
    else:
        made = open_export(tmp_path / "out")
        assert len(made.parts) == 2
        assert np.array_equal(rows_of(made), whole["float16"].embeddings())


def test_documents_in_chunks_are_rows_that_a_store_can_group(tiny_bert, tmp_path, monkeypatch):
    texts = [" ".join(sentences(count, seed=count)) for count in [1, 9, 3, 14, 1, 1, 8, 5, 2, 11] * 4]
    lines = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    source = str(write_lines(tmp_path / "corpus.jsonl", lines))
    spec, query = f"{tiny_bert},chunks=16,overlap=4", ["a cat runs", "two birds"]
    whole = export(spec, source, str(tmp_path / "whole"), dtype="float16")
    expected = retrokit.search(spec, texts, query, k=4, quantize="float16")
    chunks, counts = retrokit.encoder(spec).split(texts)
    assert (whole.note["count"], whole.note["documents"]) == (len(chunks), len(texts))
    table = pyarrow.parquet.read_table(whole.folder / "embeddings.parquet").to_pydict()
    assert table["document"] == [f"d{row}" for row, count in enumerate(counts) for _ in range(count)]
    assert table["id"] == [f"d{row}#{n}" for row, count in enumerate(counts) for n in range(count)] == whole.ids()
    for number in (1, 2):
        export(spec, source, str(tmp_path / "shards"), dtype="float16", shard=f"{number}/2")
    with monkeypatch.context() as patch:
        Breaks(2, interrupt).put_in(patch.setattr)
        with pytest.raises(Interrupted):
            export(spec, source, str(tmp_path / "again"), dtype="float16")
    again = export(spec, source, str(tmp_path / "again"), dtype="float16")
    assert content(again.folder) == content(whole.folder)
    for folder in ("whole", "shards"):
        made = open_export(tmp_path / folder)
        assert made.note["documents"] == len(texts)
        for (scores, places), (other, others) in zip(retrokit.search("", made, query, k=4), expected, strict=True):
            assert places.tolist() == others.tolist()
            assert scores == pytest.approx(other, rel=1e-5)
        assert made.ids_at([0, 13]) == {0: "d0", 13: "d13"}
    words = ["search", "--index-folder", str(tmp_path / "whole"), "--query", query[0], "-k", "4", "--format", "trec"]
    assert cli.run([*words, "-o", str(tmp_path / "run")]) == 0
    run = (tmp_path / "run").read_text().split()
    assert sorted(run[2::6]) == sorted(f"d{place}" for place in expected[0][1].tolist())


def test_only_the_texts_of_these_ids_are_embedded(tiny_bert, corpus, whole, tmp_path):
    ids = [f"d{number:02}" for number in range(3, 70, 7)]
    (tmp_path / "again.txt").write_text("\n".join([*reversed(ids), ids[0], ""]))
    options: dict[str, Any] = {"only": str(tmp_path / "again.txt")}
    result = export(str(tiny_bert), str(corpus), str(tmp_path / "out"), **options)
    assert result.ids() == ids
    assert_rounded(rows_of(result), rows_of(whole["float32"])[3::7])
    assert list(exported_texts(result, {*ids}).values()) == TEXTS[3::7]
    for shard in ("1/2", "2/2"):
        export(str(tiny_bert), str(corpus), str(tmp_path / "shards"), shard=shard, **options)
    assert open_export(tmp_path / "shards").ids() == ids


def test_a_run_with_other_ids_does_not_resume(tiny_bert, corpus, tmp_path):
    lists = {}
    for name, first in (("even", 0), ("odd", 1)):
        lists[name] = str(tmp_path / name)
        (tmp_path / name).write_text("".join(f"d{number:02}\n" for number in range(first, 70, 2)))
    with pytest.MonkeyPatch.context() as patch:
        Breaks(1, interrupt).put_in(patch.setattr)
        with pytest.raises(Interrupted):
            export(str(tiny_bert), str(corpus), str(tmp_path / "out"), only=lists["even"])
    result = export(str(tiny_bert), str(corpus), str(tmp_path / "out"), only=lists["odd"])
    assert result.ids() == [f"d{number:02}" for number in range(1, 70, 2)]


@pytest.mark.parametrize(
    ("ids", "source", "message"),
    [
        ("d01\nd70\nd99\n", "corpus.jsonl", "corpus.jsonl: lacks 2 ids of --only, the first 'd70'"),
        ("d01\n", "-", "--only: the texts must be in a file, and - can be read once only"),
        ("", "corpus.jsonl", "again.txt: is empty"),
        (None, "corpus.jsonl", "again.txt: does not exist"),
    ],
)
def test_ids_that_the_texts_lack_are_refused_before_a_model_loads(
    ids, source, message, corpus, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(corpus, "corpus.jsonl")
    if ids is not None:
        Path("again.txt").write_text(ids)
    monkeypatch.setattr(encoders.registry, "create", lambda *_, **__: pytest.fail("a model is loaded"))
    assert cli.run(["export", "minilm", "--on", source, "--only", "again.txt", "-o", "out"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.removeprefix("retrokit: ").startswith(message)
    assert not Path("out").exists()
