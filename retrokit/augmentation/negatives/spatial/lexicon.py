"""The words of the rules of spatial, from ``words.txt``."""

from retrokit.augmentation.negatives.data import lexicon

LEXICON = lexicon(__package__)
WORDS, PAIRS, TABLES = LEXICON.words, LEXICON.pairs, LEXICON.tables
