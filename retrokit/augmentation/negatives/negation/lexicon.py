"""The words of the rules of negation, from ``words.txt``."""

from retrokit.augmentation.negatives.data import lexicon

_LEXICON = lexicon(__package__)
WORDS, PAIRS = _LEXICON.words, _LEXICON.pairs
