"""Edits of texts that change the meaning or keep it, and the registry of their families.

A family is a rule from a text to edits of it (:mod:`.family`). Near-misses are sentences with another meaning
(COMP 3.1, D.1); a stress test takes both kinds (Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with
CheckList", ACL 2020). The families of COMP are folders of rules over one view of one tagged sentence
(:mod:`.sentence`), with their words in data files and a prompt for a language model.
"""

from retrokit.core.registry import Entry, Registry

NEAR_MISSES = ("negation", "binding", "spatial")
"""The families of COMP, which have a prompt for a language model too."""


def family_entry(name: str, summary: str, module: str, extra: str | None = None) -> Entry:
    """The entry of a family, which ``module`` names with underscores."""
    return Entry(name, summary, f"{module}:{name.replace('-', '_')}", extra=extra)


_HERE = "retrokit.augmentation.edits"
_RELATIONS = f"{_HERE}.relations", "negatives"  # the module, and the extra that it needs

registry = Registry(
    "family of edits",
    "retrokit.edits",
    [
        family_entry("negation", "edit: a negation put in, taken away or moved", f"{_HERE}.negation", "negatives"),
        family_entry("binding", "edit: arguments, attributes or names change places", f"{_HERE}.binding", "negatives"),
        family_entry("spatial", "edit: a relation of place, direction or order in space turned round", *_RELATIONS),
        family_entry("time", "edit: before and after, early and late, first and last", *_RELATIONS),
        family_entry(
            "degree", "edit: more and less, large and small, strongly and weakly, often and rarely", *_RELATIONS
        ),
        family_entry("action", "edit: increase and decrease, allow and prevent, accept and reject", *_RELATIONS),
        family_entry("cause", "edit: because of and despite, leads to and results from", *_RELATIONS),
    ],
)
