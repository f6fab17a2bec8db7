"""Every command that calls a language model, against services that misbehave: exit code 4 and one line, nothing left
but the answers, no key and no control characters in what is printed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.core.notices import UNSAFE
from tests.evaluation.fakes import write_folder
from tests.llm.hostile import KEY, REPLIES, skip_waits
from tests.llm.server import ChatServer, Log, Plan, completion, message, prompt_of
from tests.sure.pretending import by_rules, write_beir_folder

pytest.importorskip("HanTa", reason="of the extra negatives")

SERVICES = {
    "nonsense": message(200, completion("colourless green ideas")),
    "control": message(200, completion("\x1b[J\x07\x00\u202e")),
    "empty": message(200, completion("")),
    **{
        name: REPLIES[name]
        for name in (
            *("400", "429-past", "moved-307", "deep-answer-200000", "tokens-1", "escapes-in-a-failure"),
            *("key-in-an-answer", "key-in-a-failure"),
        )
    },
}
ANSWERS = ("nonsense", "control", "tokens-1", "key-in-an-answer")
"""Replies that a reader's answer may well be: it is counted as wrong."""
NUMBERS = [
    f"The {animal} sees the number {i} above the house." for i, animal in enumerate(("cat", "dog", "fish", "bird"))
]


@pytest.fixture(scope="module")
def service() -> Iterator[ChatServer]:
    with ChatServer(Plan(lambda body: by_rules(prompt_of(body)))) as server:
        yield server


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, service: ChatServer) -> Path:
    """What the commands read: a BEIR folder with answers, a run, texts, and a SURE folder."""
    folder = tmp_path_factory.mktemp("data")
    write_beir_folder(folder / "law", 4)
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in NUMBERS))
    documents = {f"d{i}": text for i, text in enumerate(NUMBERS)}
    write_folder(folder / "beir", documents, {"q": "cat", "r": "dog", "s": "bird"}, {key: {"d0": 1} for key in "qrs"})
    (folder / "run.trec").write_text("".join(f"{query} Q0 d{i} {i} {-i} x\n" for query in "qrs" for i in range(4)))
    (folder / "questions").mkdir()
    (folder / "questions" / "corpus.jsonl").write_text((folder / "beir" / "corpus.jsonl").read_text())
    rows = [{"_id": f"q{i}", "text": f"Who sees {i}?", "answers": ["cat"]} for i in range(3)]
    (folder / "questions" / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["build-sure", f"{folder}/law", "--llm", f"openai:m,url={service.url}", "-o", f"{folder}/sure"]
    assert cli.run([*words, "--store", f"{folder}/s.sqlite"]) == 0
    return folder


COMMANDS = {
    "build-sure": "build-sure {data}/law --llm {llm} -o out/sure",
    "judge": "build-sure judge {data}/sure --sample 3 --llm {llm} -o out/verdicts.jsonl",
    "negatives": "augment near-misses {data}/texts.jsonl --llm {llm} -o out/near.jsonl",
    "rerank": 'rerank --run {data}/run.trec --on beir:{data}/beir --with llm:"{llm}" --save-run out/run.trec',
    "rag": 'eval {bert} --on rag:{data}/questions,reader="{llm}",store=out/s.sqlite --save-run out/runs',
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_misbehaves(
    name: str,
    command: str,
    service: ChatServer,
    data: Path,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    skip_waits(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    service.plan, service.log = Plan(reply=lambda body: SERVICES[name]), Log()
    words = COMMANDS[command].split()
    given = [word.format(data=data, bert=tiny_bert, llm=f"openai:m,url={service.url}") for word in words]
    code = cli.run(given)
    shown, said = capfd.readouterr()
    if name in ANSWERS and command == "rag":
        assert code == 0
        assert "0.0000" in shown
    else:
        assert code == 4, said
        assert shown == ""
        assert said.splitlines()[-1].startswith("retrokit: ")
    assert not UNSAFE.search((shown + said).replace("\n", ""))
    assert KEY not in shown + said
    assert len(service.log.bodies) < 1000
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert code == 0 or all("sqlite" in path.name for path in left)
    assert not [path for path in left if KEY.encode() in path.read_bytes()]
