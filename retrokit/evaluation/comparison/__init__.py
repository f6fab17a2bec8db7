"""Results beside each other: kept in a folder, averaged over seeds, tested, correlated, gated."""
