"""``python -m retrokit``, and ``torchrun -m retrokit``."""

from retrokit.cli import main

main()
