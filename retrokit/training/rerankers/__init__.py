"""Training of verifiers on token maps, by the trainer of every run (COMP, D.3)."""
