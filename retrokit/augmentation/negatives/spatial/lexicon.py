"""The words of the rules of spatial, from ``words.txt``."""

from retrokit.augmentation.negatives.data import lexicon

_LEXICON = lexicon(__package__)
WORDS, PAIRS, TABLES = _LEXICON.words, _LEXICON.pairs, _LEXICON.tables
