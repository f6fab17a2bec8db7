"""Near-misses that a language model writes: what it is asked, what it would cost, and what is taken of its answers."""
