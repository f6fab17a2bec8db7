"""The probe ``stress``, and its families of edits in addition to those of COMP."""

from retrokit.augmentation.edits import family_entry
from retrokit.extensions.stress.settings import StressSettings
from retrokit.probing import probe_entry

STRESS = probe_entry("stress", "retrokit.extensions.stress.stress", "probe_stress", "StressProbe", StressSettings)

_FAMILIES = "retrokit.extensions.stress.families"
NUMBERS = family_entry("numbers", "edit: another number", f"{_FAMILIES}.quantities")
UNITS = family_entry("units", "edit: another unit: mg and g, days and weeks", f"{_FAMILIES}.quantities")
DATES = family_entry("dates", "edit: another year, month or day", f"{_FAMILIES}.quantities")
QUANTITIES = family_entry("quantities", "edit: at least and at most, majority and minority", f"{_FAMILIES}.quantities")
ENTITIES = family_entry("entities", "edit: another name of the same kind from the corpus", f"{_FAMILIES}.entities")
CODES = family_entry("codes", "edit: another digit in a code or identifier", f"{_FAMILIES}.entities")
MODALITY = family_entry("modality", "edit: may and will, suggest and prove", f"{_FAMILIES}.modality")
POSITION = family_entry(
    "position", "edit: a long document without the answer; it is first, middle or last", f"{_FAMILIES}.documents"
)
STUFFING = family_entry("stuffing", "edit: unrelated text stuffed with the query's keywords", f"{_FAMILIES}.documents")
INSTRUCTION = family_entry(
    "instruction", "edit: unrelated text with an instruction to rank it first", f"{_FAMILIES}.documents"
)
PADDING = family_entry("padding", "control: unrelated text before or behind the answer", f"{_FAMILIES}.documents")
TYPOS = family_entry(
    "typos", "control: slips of the keyboard and of character recognition", f"{_FAMILIES}.typos", "negatives"
)
CASE = family_entry("case", "control: capitals or lower case only", f"{_FAMILIES}.surface")
DIACRITICS = family_entry("diacritics", "control: letters without their accents", f"{_FAMILIES}.surface")
SPACING = family_entry("spacing", "control: other white space, words divided at a line's end", f"{_FAMILIES}.surface")
UNICODE = family_entry(
    "unicode", "control: ligatures, no-break spaces, soft hyphens, decomposed letters", f"{_FAMILIES}.surface"
)
SYNONYMS = family_entry("synonyms", "control: words exchanged for synonyms", f"{_FAMILIES}.paraphrase", "negatives")
WORD_ORDER = family_entry(
    "word-order", "control: clauses or coordinates in another order", f"{_FAMILIES}.paraphrase", "negatives"
)
KEYWORDS = family_entry("keywords", "control: the query's keywords in place of the query", f"{_FAMILIES}.paraphrase")
LANGUAGE = family_entry(
    "language", "control: the query in another language, if translations are given", f"{_FAMILIES}.paraphrase"
)
