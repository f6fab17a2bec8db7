"""The words and tags that the rules of negation know."""

NEGATIVE = frozenset(
    "not n't no never neither nor none nobody nothing nowhere cannot hardly scarcely barely rarely seldom few little "
    "fail fails failed failing lack lacks lacked lacking without unless refuse refuses refused unlikely unable "
    "impossible insufficient unwilling".split()
)

# Tags.
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
INVERTING = frozenset(("what", "how", "where", "whose", "here", "there", "only"))
OPENS_CLAUSE = frozenset(("PUN", "PUL", "PUR", "PUQ", "CJS", "CJT", "PNQ", "DTQ", "AVQ"))
PENN = {"VVZ": "VBZ", "VVD": "VBD", "VHZ": "VBZ", "VHD": "VBD", "VDZ": "VBZ", "VDD": "VBD", "VVN": "VBN"}
DO_FOR = {"Z": "does", "B": "do", "D": "did"}  # by the last letter of the verb's tag

BEGINS_PHRASE = frozenset(("AT0", "DPS", "PNP"))
NO_VERB_PHRASE = frozenset(("PUN", "PUL", "PUR", "PUQ", "PNP", "EX0", "CJC", "CJS", ""))

# Verbs and what negates them.
CONTRACTED = {
    **{word: word + "n't" for word in "is are was were has have had could should would does do did".split()},
    "can": "can't",
    "will": "won't",
}
WHOLE = {"ca": "can", "wo": "will", "sha": "shall"}  # what stands before n't
CLITIC_NEGATED = {
    "'s": "'s not",
    "'re": "'re not",
    "'m": "'m not",
    "'ve": " haven't",
    "'ll": " won't",
    **{"VM0": " wouldn't", "VHD": " hadn't"},  # what 'd stands for
}

NOMINATIVE = {"he": 1, "she": 1, "it": 1, "i": 2, "we": 2, "they": 2, "you": 2}  # 1 takes "does", 2 takes "do"

# Adverbs that stand before "not", and those after which a negated verb would not be English or would not be negated.
BEFORE_NOT = frozenset(
    "also still probably likely certainly definitely perhaps possibly therefore thus hence however consequently "
    "generally usually typically currently now often clearly apparently actually really then obviously surely "
    "presumably unfortunately simply largely mostly".split()
)
# Other adverbs that may stand between "does not" and the verb, besides those in -ly.
BEFORE_VERB = BEFORE_NOT | frozenset("always first further thereby better best just only even well ever never".split())
NO_NOT_WITH = frozenset(
    "only just even almost nearly merely hardly already too rather pretty never not both either neither as so more "
    "most all each every no than best better solely about over around approximately roughly up at "
    "slightly somewhat fairly quite".split()
)
UNIVERSAL = frozenset(
    "all every each both everyone everything everybody any anyone anything either only many most some several less "
    "more enough much as".split()
)
# "Whether it is not" asks the same as "whether it is"; "until it does not" is rarely said.
NO_NOT_UNDER = frozenset("how whether until till before after once since as".split())
ONCE = frozenset("when if while".split())  # "when it never does" is rarely said either
NO_NEVER_WITH = frozenset("mainly primarily chiefly mostly largely partly again".split())

# Words of polarity, and those that no negative may stand before.
PARTICULAR = {"some": "any", "something": "anything", "someone": "anyone", "somebody": "anybody"}
POLAR = {"any": "some", "anything": "something", "anyone": "someone", "anybody": "somebody", "anywhere": "somewhere"}
NEGATIVE_ONLY = frozenset(
    "ever yet either nor neither until till whatsoever anymore necessarily unless let alone nevertheless rather "
    "instead much long even bother budge slightest".split()
)
NOT_AFTER_SOME = frozenset(("more", "longer", "other", "of", "way", "one"))
NOT_AFTER_NOT = frozenset(
    "only just merely simply solely even so least until necessarily too unless all every everyone everything one a "
    "much many enough always long very that exactly quite both sure but for because".split()
)

# Verbs after which "not that P" and "that not P" differ: those that report or establish, never those that suppose.
FACTIVE = frozenset(
    "show demonstrate prove reveal find confirm report establish observe note discover conclude know explain realize "
    "realise mention state acknowledge verify illustrate recognize recognise remember notice".split()
)
REPORTING = frozenset(
    "add admit announce argue believe claim explain fear guess hope insist know note predict report say state suggest "
    "suppose think vow warn".split()
)
NO_DO = frozenset("let please thank welcome be need dare suffice become ought wish hope lest say".split())
# Nouns before which the tagger reads a plural noun as a verb ("main outcome measures").
NOT_SUBJECTS = frozenset(("outcome", "outcomes"))
NO_FAIL = frozenset(
    "have need want know like mean seem appear depend belong consist live remain think believe be come go say use "
    "fail lack refuse avoid get stay cost weigh equal require tend try aim seek hope wish relate involve differ feel "
    "love hate originate arise occur star feature".split()
)
# Authors seldom write that they never did a thing; what they may fail to do is to show or to find.
AUTHORS = frozenset("we paper work study article report chapter thesis results experiments".split())
AUTHORS_FAIL = FACTIVE | frozenset("detect replicate reproduce identify provide achieve obtain improve solve".split())
BEARS_NO = frozenset("have show find observe report see offer provide give reveal exhibit produce cause cite".split())

# Nouns.
AMOUNT = frozenset(
    "few lot little bit number variety great total majority set series range couple pair host wide while part piece "
    "large long good way handful plethora multitude need lots deal fraction small look chance kind type sort".split()
)
COUNTED = frozenset(
    "difference effect association correlation relationship change increase decrease reduction improvement impact "
    "influence benefit interaction reason way guarantee problem role link limit solution answer trend advantage "
    "history tendency threat indication requirement restriction attempt mention mechanism response".split()
)
NO_IDIOM = frozenset(
    "doubt question matter wonder way longer more less such other better different good fewer later sooner small mean "
    "ordinary easy need use sense means account idea exception one stranger time . further".split()
)
UNITS = frozenset(
    "year month week day hour minute second mile kilometer kilometre meter metre foot inch km cm mm kg pound ounce "
    "dollar euro cent percent point gram g mg ml times time degree % half third quarter acre ton tonne mph".split()
)
FIXED_AFTER = frozenset(
    "day year week month night time times kind kinds sort sorts way ways other right over but single now else about "
    "morning hours days years together".split()
)

# A noun or a verb that "with" belongs to: "without" would not be English, or not its opposite.
TAKES_WITH = (
    "associat compar combin correlat relat interact contact agree accord collab conjunct contrast consist deal contend "
    "provid supply suppli equip present replac fill fac infect treat help charg endow mix integrat coupl shar align "
    "work meet met talk discuss problem experienc line interview war contract issu concern compl cope struggl familiar "
    "connect link along start begin began begun end cover coincid overlap compet communic identif identic confus "
    "consult continu credit cross diagnos disagree differ don done doing engag entrust exchang fight fought fit go "
    "goes involv join liv live marri match merg negotiat obsess part pair play pleas relationship satisf dissatisf "
    "speak sat sit stick stay stand strik tamper team tie trust vary vari wrong togeth similar analog equal analys fus "
    "coexist"
).split()

AFFIRMATIVE = {
    "able": "unable",
    "likely": "unlikely",
    "possible": "impossible",
    "sufficient": "insufficient",
    "willing": "unwilling",
}
PAIRED = AFFIRMATIVE | {negative: word for word, negative in AFFIRMATIVE.items()}
WH = frozenset("what who whom which whose how why where when".split())
