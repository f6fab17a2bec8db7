"""Sets of C5 tags that the rules ask for, and what they are in the Penn treebank's set."""

BE = frozenset(("VBZ", "VBB", "VBD"))
HAVE = frozenset(("VHZ", "VHB", "VHD"))
DO = frozenset(("VDZ", "VDB", "VDD"))
LEXICAL = frozenset(("VVZ", "VVB", "VVD"))
FINITE = BE | HAVE | DO | LEXICAL | {"VM0"}
BASE = frozenset(("VVI", "VBI", "VHI", "VDI"))
PARTICIPLE = frozenset(("VVN", "VBN", "VHN", "VDN"))
NOUN = frozenset(("NN1", "NN2", "NN0", "NP0"))
NAME_LIKE = frozenset(("UNC", "ZZ0"))  # formulae and foreign words stand where nouns do
ADJECTIVE = frozenset(("AJ0", "AJC", "AJS"))
PHRASE = NOUN | NAME_LIKE | ADJECTIVE | {"AT0", "DT0", "DPS", "CRD", "ORD", "POS", "VVN", "PRF", "PRP", "AV0", "CJC"}
OBJECT = NOUN | {"AT0", "DPS", "CRD", "PNP", "CJT"}
OPENS_CLAUSE = frozenset(("PUN", "PUL", "PUR", "PUQ", "CJS", "CJT", "PNQ", "DTQ", "AVQ"))
SUBJECT_OF_CLITIC = frozenset(("PNP", "EX0", "PNQ", "DT0"))
BEGINS_PHRASE = frozenset(("AT0", "DPS", "PNP"))
NO_VERB_PHRASE = frozenset(("PUN", "PUL", "PUR", "PUQ", "PNP", "EX0", "CJC", "CJS", ""))

PENN = {
    **{"VVB": "VB", "VVI": "VB", "VVZ": "VBZ", "VVD": "VBD", "VVN": "VBN", "VVG": "VBG"},
    **{"VHZ": "VBZ", "VHD": "VBD", "VDZ": "VBZ", "VDD": "VBD"},
}
