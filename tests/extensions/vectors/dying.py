"""What a job of a data engine calls in a test: one worker is killed after its first batch, before it returns."""

import os
import signal
from pathlib import Path
from typing import Any

from retrokit.encoders.base import Encoder
from retrokit.extensions import vectors


def embed_batches(encoder: Encoder, table: Any, **options: Any) -> Any:
    """As the real one. The process that is the first to write the file of ``DYING`` dies."""
    embedded = vectors.embed_batches(encoder, table, **options)
    try:
        Path(os.environ["DYING"]).touch(exist_ok=False)
    except FileExistsError:
        return embedded
    os.kill(os.getpid(), signal.SIGKILL)
