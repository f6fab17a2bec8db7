"""Processes of their own, one alone or several as ``torchrun`` starts them, forked from one that has imported all."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.forked_python import KILL, python

_CALL = """
import pickle, sys
sys.path += sys.argv[2:]  # where pytest has put the folders of tests
target, given = pickle.loads(bytes.fromhex(sys.argv[1]))
target(*given)
"""


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it wrote."""

    code: int | None
    out: str
    err: str


def in_processes(
    count: int,
    folder: Path,
    target: Callable[..., object],
    given: Sequence[object] | Callable[[int], Sequence[object]] = (),
    stdin: bytes = b"",
    timeout: float = 240,
) -> list[Ended]:
    """Call ``target(*given)`` in ``count`` processes that know of each other, in ``folder``; by rank how they ended.

    ``given`` may be a function of the rank; ``target`` must be importable. ``stdin`` is what the first process reads.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(count):
        several = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        several |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        told = {name: str(value) for name, value in several.items()} if count > 1 else {}
        (folder / f"stdin-{rank}").write_bytes(stdin if rank == 0 else b"")
        with (
            open(folder / f"stdin-{rank}", "rb") as read,
            open(folder / f"stdout-{rank}", "wb") as out,
            open(folder / f"stderr-{rank}", "wb") as err,
        ):
            arguments = tuple(given(rank) if callable(given) else given)
            command = [python(), "-c", _CALL, pickle.dumps((target, arguments)).hex(), *sys.path]
            environment = {**os.environ, **told, "OMP_NUM_THREADS": "1", "RETROKIT_CACHE": "off"}
            streams = {"stdin": read, "stdout": out, "stderr": err}
            processes.append(subprocess.Popen(command, cwd=folder, env=environment, **streams))
    ended = []
    for rank, process in enumerate(processes):
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(KILL)
            process.wait()
        ended.append(_ended(folder, str(rank), process.returncode))
    return ended


def retrokit_in(
    count: int,
    folder: Path,
    words: Sequence[object] | Callable[[int], Sequence[object]],
    prepare: Callable[[int], None] | None = None,
    stdin: bytes = b"",
    timeout: float = 240,
) -> list[Ended]:
    """Run ``retrokit WORDS`` as :func:`in_processes` does; ``prepare`` is called before, with the rank."""

    def given(rank: int) -> Sequence[object]:
        return prepare, [str(word) for word in (words(rank) if callable(words) else words)]

    return in_processes(count, folder, _command, given, stdin, timeout)


def torchrun(count: int, folder: Path, words: Sequence[object], timeout: float = 240) -> list[Ended]:
    """Run ``retrokit WORDS`` in ``count`` processes that torchrun's agent starts, watches and ends, in ``folder``.

    How the agent ended, and after it what each process wrote.
    """
    agent = in_processes(1, folder, _agent, (count, folder, [str(word) for word in words]), timeout=timeout)
    return agent + [_ended(folder, f"{rank}-of-agent", agent[0].code) for rank in range(count)]


def _agent(count: int, folder: Path, words: list[str]) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    meeting = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": "tests", "max_restarts": 0}
    try:
        elastic_launch(LaunchConfig(1, 1, count, start_method="fork", **meeting), _member)(folder, words)
    except ChildFailedError:
        sys.exit(1)


def _member(folder: Path, words: list[str]) -> None:
    from retrokit.cli import entry

    for number, name in enumerate(("stdout", "stderr"), start=1):
        with open(folder / f"{name}-{os.environ['RANK']}-of-agent", "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 # until the process ends
    if code := entry.run(words):
        sys.exit(code)


def make_folder_of_pictures(folder: str | Path) -> None:
    """In place of drawing what is in a run."""
    (Path(folder) / "plots").mkdir(exist_ok=True)


def _command(prepare: Callable[[int], None] | None, words: list[str]) -> None:
    from retrokit.cli import main
    from retrokit.report import plots
    from tests import schemas

    schemas.watch()
    plots.training_plots = make_folder_of_pictures
    sys.argv = ["retrokit", *words]
    if prepare is not None:
        prepare(int(os.environ.get("RANK", "0")))
    main()


def _ended(folder: Path, name: str, code: int | None) -> Ended:
    return Ended(code, *((folder / f"{stream}-{name}").read_text() for stream in ("stdout", "stderr")))
