"""Checks of test sets and training data: faults of the files, and what the judgements do not know."""
