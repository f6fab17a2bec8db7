"""The command line: each command parses, makes one library call, renders.

Nothing heavy is imported before a command runs: ``--help`` must stay fast.
"""

from retrokit.cli import augment as _augment
from retrokit.cli import build_sure as _build_sure
from retrokit.cli import cache as _cache
from retrokit.cli import evaluate as _evaluate
from retrokit.cli import export as _export
from retrokit.cli import finetune as _finetune
from retrokit.cli import names as _names
from retrokit.cli import probe as _probe
from retrokit.cli import rerank as _rerank
from retrokit.cli import rerank_train as _rerank_train
from retrokit.cli.common import app
from retrokit.cli.entry import main, run

__all__ = ["app", "main", "run"]

# importing them registers them
_COMMANDS = (
    _augment,
    _build_sure,
    _cache,
    _evaluate,
    _export,
    _finetune,
    _names,
    _probe,
    _rerank,
    _rerank_train,
)
