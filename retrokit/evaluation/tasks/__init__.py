"""The tasks: retrieval, SURE, question answering, similarity of sentences, labels, clusters, near-misses."""
