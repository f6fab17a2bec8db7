"""A Python that has imported all: ``python -m …`` and ``python -c …`` as always, without the seconds of imports.

One process imports the libraries, and listens. The script that stands for Python hands it the command line, the folder,
the environment and the three streams; it forks, and its child runs the command. Signals that the script gets are passed
on to the child and its group, and the child's end becomes the script's.
What is imported when, what is read of the environment at import and what hashing is seeded with need a Python of
their own.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from tests.samples import all_samples

PRELOADED = [
    *("retrokit.cli.entry", "retrokit.training.finetune", "retrokit.evaluation.tasks.retrieval"),
    *("retrokit.training.table_trainer", "retrokit.training.callback", "retrokit.encoders.saving"),
    *("retrokit.encoders.loading", "retrokit.core.figures"),
    *(module for modules in all_samples().preloads.values() for module in modules),
]

LIGHT = ["retrokit.cli.entry", "typer.rich_utils"]
"""What shows help, and none of the libraries."""

BASE = Path()
"""Where the tests of all workers have their folders; set before the first test."""

KILL = signal.SIGUSR1
"""To the script: kill the child, so that both have ended when the script has."""

_SCRIPT = """#!{python} -IS
import json, os, signal, socket, sys
told = json.dumps({{"words": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
server = socket.socket(socket.AF_UNIX)
os.chdir({folder!r})  # the name of a socket must be short
server.connect("socket")
socket.send_fds(server, [len(told).to_bytes(8, "big")], [0, 1, 2])
server.sendall(told)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
nothing = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):  # the child's alone: its readers are to see when it ends, its writers when it leaves
    os.dup2(nothing, stream)
code = int(server.recv(64) or 70)
if code < 0:
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def python() -> str:
    """Stands for ``sys.executable`` where what is imported is not the point."""
    return _shared("forked-python", PRELOADED)


def light_python() -> str:
    """As :func:`python`, but it has imported the command line alone: where the point is that no more is."""
    return _shared("light-python", LIGHT)


def _shared(name: str, preloaded: Sequence[str]) -> str:
    """The one of that name, for all workers."""
    if not hasattr(os, "pidfd_open"):  # Linux has it
        return sys.executable
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = BASE / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            start(folder, os.getppid() if is_worker else os.getpid(), preloaded)
    return str(folder / "python")


def start(folder: Path, watched: int, preloaded: Sequence[str]) -> Path:
    """The script that stands for Python that has imported ``preloaded``; it serves until ``watched`` has ended."""
    folder.mkdir()
    script, place = folder / "python", folder / "socket"
    script.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_python", script, str(watched), *preloaded],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"},
            **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True},
        )
    while not place.exists():
        try:
            server.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError((folder / "log").read_text())
    return script


def serve(folder: str, watched: int, preloaded: Sequence[str]) -> tuple[dict, list[int]]:
    """Wait for commands until ``watched`` has ended; returns, in a child of its own each, what it is asked for."""
    for name in preloaded:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.freeze()
    watching = os.pidfd_open(watched)
    with socket.socket(socket.AF_UNIX) as door:
        os.chdir(folder)
        door.bind("soon")
        door.listen(64)
        os.rename("soon", "socket")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while watching not in select.select([door, watching], [], [])[0]:
            client, _ = door.accept()
            if os.fork() == 0:
                door.close()
                return _asked(client)
            client.close()
    os._exit(0)


def _asked(client: socket.socket) -> tuple[dict, list[int]]:
    """What the client asks for, in a child; the process that forks it waits for its end, or for the client's."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(client, 8, 3)
    told = b""
    while len(told) < int.from_bytes(length, "big"):
        told += client.recv(1 << 16)
    child = os.fork()
    os.setpgid(child, child)  # by both, whichever is first
    if child == 0:
        client.close()
        return json.loads(told), streams
    for stream in streams:
        os.close(stream)
    ending = os.pidfd_open(child)
    while ending not in select.select([client, ending], [], [])[0]:
        numbers = client.recv(64)
        for number in numbers:
            os.kill(child, signal.SIGKILL) if number == KILL else os.killpg(child, number)
        if not numbers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(0)
    client.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def become(script: str, asked: dict, streams: list[int]) -> None:
    """Run what is asked for, as Python would."""
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = script
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 # until the process ends
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [os.getcwd(), *(path for path in more if path not in sys.path)]
    _, kind, what, *sys.argv[1:] = asked["words"]
    sys.argv[0] = kind
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(what, "<string>", "exec"), module.__dict__)
    else:
        raise ValueError(f"{kind}: a Python of its own is needed")


if __name__ == "__main__":
    become(sys.argv[1], *serve(os.path.dirname(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
