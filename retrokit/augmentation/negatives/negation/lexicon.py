"""The words of the rules of negation, from ``words.txt``."""

from retrokit.augmentation.negatives.data import lexicon

LEXICON = lexicon(__package__)
WORDS, PAIRS = LEXICON.words, LEXICON.pairs
