"""Results side by side: cached in a folder, averaged over seeds, tested, correlated, gated."""
