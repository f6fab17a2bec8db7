"""The words of the rules of binding, from ``words.txt`` and ``terms.txt``."""

from retrokit.augmentation.negatives.data import lexicon

_LEXICON = lexicon(__package__)
WORDS, TABLES, GROUPS = _LEXICON.words, _LEXICON.tables, _LEXICON.groups
TERMS = lexicon(__package__, "terms.txt").words
