"""The command line: each command parses, makes one library call, renders.

Nothing heavy is imported before a command runs: ``--help`` must stay fast.
"""

from importlib import import_module

from retrokit.cli.common import app
from retrokit.cli.entry import main, run

__all__ = ["app", "main", "run"]

_MODULES = (
    *("augment", "build_sure", "cache", "distil", "doctor", "evaluate", "export", "finetune", "merge", "names"),
    *("probe", "push", "rerank", "rerank_train", "report", "search", "study"),
)
for _name in _MODULES:
    import_module(f"retrokit.cli.{_name}")  # which registers its commands
