"""Capabilities of a retriever, each with edits that must lower a score or controls that must not, and their registry.

A capability is a rule from a text to edits of it, by seed and text only (Ribeiro et al., "Beyond Accuracy: Behavioral
Testing of NLP Models with CheckList", ACL 2020). A file has the capabilities of one kind of edit, with its words in
``words.txt``; :mod:`retrokit.probing.stress` measures them.
"""

from retrokit.core.registry import Entry, Registry


def _rule(name: str, summary: str, place: str, extra: str | None = None) -> Entry:
    return Entry(name, summary, f"retrokit.augmentation.stress.{place}:{name.replace('-', '_')}", extra=extra)


registry = Registry(
    "capability",
    "retrokit.capabilities",
    [
        _rule("negation", "edit: a negation put in, taken away or moved", "families", "negatives"),
        _rule("binding", "edit: arguments, attributes or names change places", "families", "negatives"),
        _rule("spatial", "edit: a relation of place, time, degree or cause turned round", "families", "negatives"),
        _rule("numbers", "edit: another number", "quantities"),
        _rule("units", "edit: another unit: mg and g, days and weeks", "quantities"),
        _rule("dates", "edit: another year, month or day", "quantities"),
        _rule("quantities", "edit: at least and at most, majority and minority", "quantities"),
        _rule("entities", "edit: another name of the same kind from the corpus", "entities"),
        _rule("codes", "edit: another digit in a code or identifier", "entities"),
        _rule("degree", "edit: strongly and weakly, often and rarely", "degree", "negatives"),
        _rule("modality", "edit: may and will, suggest and prove", "degree"),
        _rule("position", "edit: a long document without the answer; it is first, middle or last", "documents"),
        _rule("stuffing", "edit: unrelated text stuffed with the query's keywords", "documents"),
        _rule("instruction", "edit: unrelated text with an instruction to rank it first", "documents"),
        _rule("padding", "control: unrelated text before or behind the answer", "documents"),
        _rule("typos", "control: slips of the keyboard and of character recognition", "typos", "negatives"),
        _rule("case", "control: capitals or lower case only", "surface"),
        _rule("diacritics", "control: letters without their accents", "surface"),
        _rule("spacing", "control: other white space, words divided at a line's end", "surface"),
        _rule("unicode", "control: ligatures, no-break spaces, soft hyphens, decomposed letters", "surface"),
        _rule("synonyms", "control: words exchanged for synonyms", "paraphrase", "negatives"),
        _rule("word-order", "control: clauses or coordinates in another order", "paraphrase", "negatives"),
        _rule("keywords", "control: the query's keywords in place of the query", "paraphrase"),
        _rule("language", "control: the query in another language, if translations are given", "paraphrase"),
    ],
)
