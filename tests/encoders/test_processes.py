"""Two processes as torchrun starts them against one: the same result, once."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.core.notices import listening, unseen
from retrokit.data.jsonl import write_jsonl
from retrokit.encoders import engine
from retrokit.encoders.processes import help_first, helped
from tests.close import assert_rounded
from tests.models import sentences
from tests.processes import in_processes, retrokit_in


class Noting:
    def notice(self, message: str) -> None:
        print(message)

    def progress(self, label: str, total: int | None, unit: str):
        return nullcontext(unseen)


def encode(spec: str, away: str | None) -> None:
    """What a process of a program does: the first embeds, the other helps; ``away`` is where the model is moved to,
    once the first has read it. Written: the embeddings, and the texts that each has encoded."""
    engine.CHUNK = 8
    real, encoded = engine.batches, []

    def counted(model, texts, *rest, **options):
        encoded.extend(texts)
        return real(model, texts, *rest, **options)

    engine.batches = counted
    if os.environ["RANK"] == "0":
        with listening(Noting()), helped():
            encoder = retrokit.encoder(spec, device="cpu")
            if away is not None:
                os.rename(spec, away)
            made = [encoder.embed(sentences(50), role, "fp32") for role in ("document", "query")]
            np.save("made.npy", np.concatenate([*made, encoder.embed(["cat"], "document", "fp32")]))
    else:
        help_first()
    Path(f"encoded-{os.environ['RANK']}").write_text("\n".join(encoded))


def embed(tmp_path: Path, spec: str, away: str | None = None) -> tuple[np.ndarray, list[list[str]], str]:
    """Embeddings, which texts each process has encoded, and what was said."""
    ended = in_processes(2, tmp_path, encode, (spec, away))
    assert [process.code for process in ended] == [0, 0], ended
    encoded = [(tmp_path / f"encoded-{rank}").read_text().splitlines() for rank in (0, 1)]
    return np.load(tmp_path / "made.npy"), encoded, ended[0].out


def test_each_process_encodes_its_share(tiny_bert, tmp_path):
    spec = f'{tiny_bert},document_prompt="find ",pooling=cls'
    found, encoded, notes = embed(tmp_path, spec)
    texts, alone = sentences(50), retrokit.encoder(spec, device="cpu")
    expected = [alone.embed(texts, "document", "fp32"), alone.embed(texts, "query", "fp32")]
    expected.append(alone.embed(["cat"], "document", "fp32"))
    assert_rounded(found, np.concatenate(expected))
    assert [len(share) for share in encoded] == [51, 50]
    assert sorted(encoded[0] + encoded[1]) == sorted([*texts, *texts, "cat"])
    assert notes == ""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    texts = sentences(60, seed=4)
    write_jsonl(folder / "corpus.jsonl", [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)])
    write_jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": text[:12]} for i, text in enumerate(texts[:20])])
    rows = "".join(f"q{i}\td{i}\t1\n" for i in range(20))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def with_cache(rank: int) -> None:
    """The first process keeps what it encodes in the folder that it runs in."""
    os.environ["RETROKIT_CACHE"] = str(Path("cache").resolve())


def test_a_command_prints_one_result_that_is_a_single_processs(tiny_bert, corpus, tmp_path, monkeypatch, capsys):
    words = ["eval", str(tiny_bert), "--on", f"beir:{corpus}", "--precision", "fp32", "--device", "cpu", "--json"]
    assert cli.run(words) == 0
    one = json.loads(capsys.readouterr().out)
    ended = retrokit_in(2, tmp_path, words, with_cache)
    assert [process.code for process in ended] == [0, 0], ended
    two = json.loads(ended[0].out)
    assert ended[1].out == ""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    assert cli.run(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert metrics(two) == pytest.approx(metrics(one), abs=1e-6)
    assert metrics(again) == metrics(two)
    assert metrics(one)["ndcg@10"] > 0


def metrics(printed: dict) -> dict[str, float]:
    return printed["results"][0]["metrics"]
