"""Capabilities of a retriever, each with edits that must lower a score or controls that must not, and their registry.

A capability is a rule from a text to edits of it, by seed and text only (Ribeiro et al., "Beyond Accuracy: Behavioral
Testing of NLP Models with CheckList", ACL 2020). A file has the capabilities of one kind of edit, with its words in
``words.txt``; :mod:`retrokit.probing.stress` measures them.
"""

from retrokit.core.registry import Entry, Registry

_HERE = "retrokit.augmentation.stress"

registry = Registry(
    "capability",
    "retrokit.capabilities",
    [
        Entry(
            "negation", "edit: a negation put in, taken away or moved", f"{_HERE}.families:negation", extra="negatives"
        ),
        Entry(
            "binding",
            "edit: arguments, attributes or names change places",
            f"{_HERE}.families:binding",
            extra="negatives",
        ),
        Entry(
            "spatial",
            "edit: a relation of place, time, degree or cause turned round",
            f"{_HERE}.families:spatial",
            extra="negatives",
        ),
        Entry("numbers", "edit: another number", f"{_HERE}.quantities:numbers"),
        Entry("units", "edit: another unit: mg and g, days and weeks", f"{_HERE}.quantities:units"),
        Entry("dates", "edit: another year, month or day", f"{_HERE}.quantities:dates"),
        Entry("quantities", "edit: at least and at most, majority and minority", f"{_HERE}.quantities:quantities"),
        Entry("entities", "edit: another name of the same kind from the corpus", f"{_HERE}.entities:entities"),
        Entry("codes", "edit: another digit in a code or identifier", f"{_HERE}.entities:codes"),
        Entry("degree", "edit: strongly and weakly, often and rarely", f"{_HERE}.degree:degree", extra="negatives"),
        Entry("modality", "edit: may and will, suggest and prove", f"{_HERE}.degree:modality"),
        Entry(
            "position",
            "edit: a long document without the answer; it is first, middle or last",
            f"{_HERE}.documents:position",
        ),
        Entry("stuffing", "edit: unrelated text stuffed with the query's keywords", f"{_HERE}.documents:stuffing"),
        Entry(
            "instruction", "edit: unrelated text with an instruction to rank it first", f"{_HERE}.documents:instruction"
        ),
        Entry("padding", "control: unrelated text before or behind the answer", f"{_HERE}.documents:padding"),
        Entry(
            "typos",
            "control: slips of the keyboard and of character recognition",
            f"{_HERE}.typos:typos",
            extra="negatives",
        ),
        Entry("case", "control: capitals or lower case only", f"{_HERE}.surface:case"),
        Entry("diacritics", "control: letters without their accents", f"{_HERE}.surface:diacritics"),
        Entry("spacing", "control: other white space, words divided at a line's end", f"{_HERE}.surface:spacing"),
        Entry(
            "unicode",
            "control: ligatures, no-break spaces, soft hyphens, decomposed letters",
            f"{_HERE}.surface:unicode",
        ),
        Entry("synonyms", "control: words exchanged for synonyms", f"{_HERE}.paraphrase:synonyms", extra="negatives"),
        Entry(
            "word-order",
            "control: clauses or coordinates in another order",
            f"{_HERE}.paraphrase:word_order",
            extra="negatives",
        ),
        Entry("keywords", "control: the query's keywords in place of the query", f"{_HERE}.paraphrase:keywords"),
        Entry("language", "control: the query in another language (`translations=`)", f"{_HERE}.paraphrase:language"),
    ],
)
