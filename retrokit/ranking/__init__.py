"""What orders documents: searchers, rerankers, and exports that searchers read."""
