"""Near-misses: small edits of a sentence with another meaning (COMP 3.1, D.1), and the registry of their families.

A family is a folder of rules (:mod:`.negation`, :mod:`.binding`, :mod:`.spatial`) over one view of one tagged sentence
(:mod:`.sentence`), with its words in data files and its prompt for a language model.
"""

from retrokit.core.registry import Entry, Registry

_HERE = "retrokit.augmentation.near_misses"

registry = Registry(
    "family of near-misses",
    "retrokit.near_misses",
    [
        Entry("negation", "a negation put in, taken away or moved; all, no, some swapped", f"{_HERE}.negation:family"),
        Entry("binding", "arguments, attributes, numbers or names that change places", f"{_HERE}.binding:family"),
        Entry("spatial", "a relation of place, time, degree or cause turned round", f"{_HERE}.spatial:family"),
    ],
)
