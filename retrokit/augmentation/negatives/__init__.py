"""Structural near-misses: minimal edits of a sentence that change its meaning (COMP 3.1, D.1)."""
