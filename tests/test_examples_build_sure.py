"""``examples/build_sure.sh`` asks the service that it started, and no other."""

import os
import subprocess
from pathlib import Path

from tests.llm.server import ChatServer

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "build_sure.sh"


def test_where_the_port_is_taken_nothing_is_asked(tmp_path: Path) -> None:
    with ChatServer() as other:
        done = subprocess.run(
            ["bash", SCRIPT, tmp_path / "no-data", tmp_path / "out"],
            env={**os.environ, "PORT": str(other.port)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not other.log.bodies
    assert done.returncode == 1
    assert done.stderr.startswith(f"port {other.port} of 127.0.0.1 cannot be listened on: ")
    assert len(done.stderr.splitlines()) == 1
    assert not list((tmp_path / "out").iterdir())
