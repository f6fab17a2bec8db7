"""The command line: each command parses, makes one library call, renders.

Nothing heavy is imported before a command runs: ``--help`` must stay fast.
"""

from importlib import import_module

from retrokit.cli.common import app
from retrokit.cli.entry import main, run

__all__ = ["app", "main", "run"]

for _name in ("augment", "build_sure", "cache", "evaluate", "export", "finetune", "names", "probe", "rerank", "search"):
    import_module(f"retrokit.cli.{_name}")  # which registers its commands
import_module("retrokit.cli.rerank_train")
