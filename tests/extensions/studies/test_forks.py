"""Commands that are forked print, end and are stopped as those with a Python of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.studies.forks import ADDRESS, ForkedCommand, forking
from tests.models import sentences

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no file of a process")
FINETUNE = ["finetune", "static:8", "--data", "pairs.jsonl", "--batch-size", "4", "-o"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a process that forks."""
    log_path = tmp_path_factory.mktemp("forks") / "log"
    with open(log_path, "w", encoding="utf-8") as log, forking(os.environ, log) as environment:
        for _ in range(600):
            if os.path.exists(environment[ADDRESS]):
                break
            time.sleep(0.1)
        else:
            pytest.fail(log_path.read_text(encoding="utf-8"))
        yield environment[ADDRESS]


@pytest.fixture(autouse=True)
def folder(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ADDRESS, address)
    monkeypatch.chdir(tmp_path)
    write_jsonl("pairs.jsonl", [{"anchor": text, "positive": f"so {text}"} for text in sentences(16)])
    return tmp_path


def forked(words: Sequence[str], log_path: str = "log") -> tuple[int | None, str]:
    with open(log_path, "wb") as log:
        command = ForkedCommand(words, log)
        assert command.communicate() == (b"", b"")
    return command.returncode, Path(log_path).read_text(encoding="utf-8")


def test_a_command_prints_to_its_log_and_its_exit_code_is_known():
    code, printed = forked(["names", "similarities"])
    assert code == 0
    assert "qnorm" in printed
    code, printed = forked(["finetune", "static:8", "--data", "absent.jsonl", "-o", "run"])
    assert (code, printed.count("\n")) == (2, 1)
    assert "absent.jsonl" in printed


def test_a_forked_training_gives_the_bytes_of_another():
    assert forked([*FINETUNE, "forked", "--steps", "3"])[0] == 0
    subprocess.run([sys.executable, "-m", "retrokit", *FINETUNE, "own", "--steps", "3"], check=True, timeout=300)
    weights = [path.relative_to("own") for path in Path("own").rglob("*.safetensors")]
    assert weights
    for path in weights:
        assert Path("forked", path).read_bytes() == Path("own", path).read_bytes()


def test_a_signal_stops_it(folder: Path) -> None:
    os.mkfifo("texts.jsonl")
    with open("log", "wb") as log:
        command = ForkedCommand(["augment", "crops", "texts.jsonl", "-o", "crops.jsonl"], log)
    with open("texts.jsonl", "w") as texts:  # once the command reads
        command.terminate()
        command.communicate()
        texts.flush()
    assert command.returncode == 143
    assert not Path("crops.jsonl").exists()


def test_a_command_that_nobody_waits_for_is_killed(folder: Path) -> None:
    os.mkfifo("texts.jsonl")
    with open("log", "wb") as log:
        command = ForkedCommand(["augment", "crops", "texts.jsonl", "-o", "crops.jsonl"], log)
    pipe = os.open("texts.jsonl", os.O_WRONLY)  # once the command reads
    command._forking.close()
    assert is_closed(pipe)


def is_closed(pipe: int) -> bool:
    """Whether the process that reads from a pipe ends."""
    for _ in range(3000):
        try:
            os.write(pipe, b"\n")
        except BrokenPipeError:
            return True
        time.sleep(0.01)
    return False


def test_without_a_process_that_forks_it_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ADDRESS)
    with open("log", "wb") as log, pytest.raises(OSError, match=r"\[Errno"):
        ForkedCommand(["names"], log)
