"""Steps that begin without the seconds of imports: one process has imported what training needs, and forks for each.

Linux has what this takes. Where there is a GPU, a step has a Python of its own: a driver does not outlive a fork. So
has one on another machine of a cluster, which does not see the process.
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
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from retrokit.core.registry import importing

IMPORTED = (
    "retrokit.cli.entry",
    "retrokit.training.finetune",
    "retrokit.training.callback",
    "retrokit.training.table_trainer",
    "retrokit.encoders.saving",
)
ADDRESS = "RETROKIT_STUDY_FORKS"
"""Environment variable: the socket of the process that forks."""
MOST_BYTES = 1 << 17
"""Of a command line."""


class ForkedCommand:
    """A running command, as :class:`subprocess.Popen` has it; its output goes to the file ``log``.

    Raises:
        OSError: no process forks for this one.
    """

    returncode: int | None = None

    def __init__(self, words: Sequence[str], log: IO[bytes]) -> None:
        self._forking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._forking.connect(os.environ.get(ADDRESS, ""))
        message = json.dumps({"words": words, "folder": os.getcwd()}).encode()
        socket.send_fds(self._forking, [message], [log.fileno()])

    def poll(self) -> int | None:
        """Its exit code once :meth:`communicate` has seen its end."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        self._forking.send(bytes([number]))

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def communicate(self) -> tuple[bytes, bytes]:
        """Wait for its end; it has printed nothing elsewhere."""
        self.returncode = int(self._forking.recv(MOST_BYTES) or -signal.SIGKILL)
        return b"", b""


@contextmanager
def forking(environment: Mapping[str, str], log: IO[str]) -> Iterator[dict[str, str]]:
    """A process that forks for steps; the environment by which they find it."""
    if not hasattr(os, "pidfd_open"):
        yield dict(environment)
        return
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "forks"))
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, address],
            stdin=subprocess.PIPE,  # it ends when this one does
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        with process:
            yield {**environment, ADDRESS: address}


def serve(address: str) -> None:
    """Fork for each command that is sent to ``address``, until the standard input ends. Returns in a child that is to
    run one, with its words in ``sys.argv``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(address)
        door.listen()
        with importing():
            for name in IMPORTED:
                importlib.import_module(name)
        import torch

        if torch.cuda.is_available():
            sys.exit()
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            client, _ = door.accept()
            if os.fork() == 0:
                door.close()
                _become(client)
                return
            client.close()
    sys.exit()


def _become(client: socket.socket) -> None:
    """Fork the command that ``client`` asks for, and return in it; the other one waits for its end, or kills it once
    nobody waits for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, (log,), _, _ = socket.recv_fds(client, MOST_BYTES, 1)
    command = os.fork()
    if command == 0:
        client.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for stream, file in enumerate((nothing, log, log)):
            os.dup2(file, stream)
        request = json.loads(message)
        os.chdir(request["folder"])
        sys.argv = ["retrokit", *request["words"]]
        return
    os.close(log)
    end = os.pidfd_open(command)
    sources: list[Any] = [client, end]
    while end not in select.select(sources, [], [])[0]:
        os.kill(command, int.from_bytes(client.recv(1)) or signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    client.send(str(code).encode())
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
    runpy.run_module("retrokit", run_name="__main__", alter_sys=True)
