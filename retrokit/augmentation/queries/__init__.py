"""Queries of several types that a language model writes for the passages of a corpus: training data without labels.

Bonifacio et al., "InPars", 2022, and Dai et al., "Promptagator", 2022 (the round trip: a query is kept if a search with
it brings its passage back); the judge grades as in Upadhyay et al., "UMBRELA", 2024.
"""
