"""Training of verifiers on token maps (COMP, D.3) and of cross-encoders, by the trainer of every run."""
