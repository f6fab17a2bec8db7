"""Edits of texts that change the meaning or keep it, and the registry of their families.

A family is a rule from a text to edits of it (:mod:`.family`). Near-misses are sentences with another meaning
(COMP 3.1, D.1); a stress test takes both kinds (Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with
CheckList", ACL 2020). The families of COMP are folders of rules over one view of one tagged sentence
(:mod:`.sentence`), with their words in data files and a prompt for a language model.
"""

from retrokit.core.registry import Entry, Registry

NEAR_MISSES = ("negation", "binding", "spatial")
"""The families of COMP, which have a prompt for a language model too."""


def _family(name: str, summary: str, module: str, extra: str | None = None) -> Entry:
    return Entry(name, summary, f"retrokit.augmentation.edits.{module}:{name.replace('-', '_')}", extra=extra)


_RELATIONS = "relations", "negatives"  # the module, and the extra that it needs

registry = Registry(
    "family of edits",
    "retrokit.edits",
    [
        _family("negation", "edit: a negation put in, taken away or moved", "negation", "negatives"),
        _family("binding", "edit: arguments, attributes or names change places", "binding", "negatives"),
        _family("spatial", "edit: a relation of place, direction or order in space turned round", *_RELATIONS),
        _family("time", "edit: before and after, early and late, first and last", *_RELATIONS),
        _family("degree", "edit: more and less, large and small, strongly and weakly, often and rarely", *_RELATIONS),
        _family("action", "edit: increase and decrease, allow and prevent, accept and reject", *_RELATIONS),
        _family("cause", "edit: because of and despite, leads to and results from", *_RELATIONS),
        _family("numbers", "edit: another number", "quantities"),
        _family("units", "edit: another unit: mg and g, days and weeks", "quantities"),
        _family("dates", "edit: another year, month or day", "quantities"),
        _family("quantities", "edit: at least and at most, majority and minority", "quantities"),
        _family("entities", "edit: another name of the same kind from the corpus", "entities"),
        _family("codes", "edit: another digit in a code or identifier", "entities"),
        _family("modality", "edit: may and will, suggest and prove", "modality"),
        _family("position", "edit: a long document without the answer; it is first, middle or last", "documents"),
        _family("stuffing", "edit: unrelated text stuffed with the query's keywords", "documents"),
        _family("instruction", "edit: unrelated text with an instruction to rank it first", "documents"),
        _family("padding", "control: unrelated text before or behind the answer", "documents"),
        _family("typos", "control: slips of the keyboard and of character recognition", "typos", "negatives"),
        _family("case", "control: capitals or lower case only", "surface"),
        _family("diacritics", "control: letters without their accents", "surface"),
        _family("spacing", "control: other white space, words divided at a line's end", "surface"),
        _family("unicode", "control: ligatures, no-break spaces, soft hyphens, decomposed letters", "surface"),
        _family("synonyms", "control: words exchanged for synonyms", "paraphrase", "negatives"),
        _family("word-order", "control: clauses or coordinates in another order", "paraphrase", "negatives"),
        _family("keywords", "control: the query's keywords in place of the query", "paraphrase"),
        _family("language", "control: the query in another language, if translations are given", "paraphrase"),
    ],
)
