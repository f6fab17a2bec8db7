"""The word tables of the near-misses of relation: what is swapped for what, and the company that forbids it."""

from __future__ import annotations

import re


def pairs(text: str) -> dict[str, str]:
    """``a/b`` swaps both ways, ``a>b`` one way; an underscore stands for a space."""
    pairs: dict[str, str] = {}
    for entry in text.split():
        left, mark, right = re.split(r"([/>])", entry.replace("_", " "), maxsplit=1)
        pairs[left] = right
        if mark == "/":
            pairs[right] = left
    return pairs


TRANSITIVE = pairs(
    "increase/decrease reduce>increase lower>raise improve>worsen enhance>impair strengthen/weaken maximize/minimize "
    "maximise/minimise inhibit/promote suppress>promote accelerate>slow simplify/complicate outperform>underperform "
    "exceed>fall_below surpass>fall_short_of precede>follow underestimate/overestimate accept/reject include/exclude "
    "encourage/discourage confirm>refute buy>sell sell>buy import/export enter>leave win>lose gain>lose "
    "remember/forget love/hate facilitate/hinder alleviate>aggravate mitigate>aggravate shorten/lengthen "
    "widen>narrow praise/criticize stabilize/destabilize contain>lack lack>have cause>prevent prevent>cause "
    "push/pull upload/download activate/deactivate preserve>destroy upregulate/downregulate "
    "boost>reduce diminish>increase speed>slow raise>lower exacerbate>alleviate impair>enhance attract>repel "
    "uncover>conceal connect/disconnect tighten/loosen inflate/deflate load>unload encrypt/decrypt ascend/descend"
)
INTRANSITIVE = pairs(
    "rise/fall increase/decrease climb>fall drop>rise decline>rise grow>shrink surge/plunge plummet>soar soar>plummet "
    "jump>fall improve>worsen deteriorate>improve succeed/fail accelerate>slow tumble>surge dip>rise "
    "worsen>improve disagree/agree"
)
# These are no nouns and no adjectives in any form that ends in -s or none, whatever the tagger says.
ALWAYS_VERBS = frozenset(
    "reduce improve enhance strengthen weaken maximize minimize inhibit suppress accelerate simplify complicate "
    "outperform exceed surpass precede underestimate overestimate facilitate hinder alleviate mitigate prevent allow "
    "enable include contain accept reject".split()
)
NO_PASSIVE = frozenset("outperform lack contain enter win gain cause prevent raise speed lower accelerate".split())
VERB_ENDS = {"VVB": "VB", "VVI": "VB", "VVZ": "VBZ", "VVD": "VBD", "VVN": "VBN", "VVG": "VBG"}
RAISED = frozenset("risk chance level price cost rate tax temperature probability likelihood odds limit bar".split())
OPPOSITE_OF_CHANGE = frozenset(
    "increase decrease rise fall climb drop decline grow surge plunge plummet soar jump gain lose reduce raise lower "
    "tumble dip improve boost".split()
)

COMPARATIVES = pairs(
    "higher>lower larger/smaller better/worse faster/slower longer>shorter shorter>longer older>younger younger>older "
    "stronger/weaker earlier/later greater>smaller bigger>smaller deeper/shallower richer>poorer "
    "poorer>better cheaper>costlier "
    "easier/harder heavier/lighter warmer/cooler hotter/colder wider/narrower taller>shorter closer>farther "
    "thicker/thinner safer>riskier simpler>costlier brighter>darker nearer>farther lower>higher"
)
SUPERLATIVES = pairs(
    "highest/lowest largest/smallest best/worst fastest/slowest longest/shortest oldest/youngest strongest/weakest "
    "earliest>latest greatest>smallest biggest>smallest deepest/shallowest richest/poorest cheapest>costliest "
    "easiest/hardest heaviest/lightest hottest/coldest tallest>shortest closest>farthest nearest>farthest"
)
DEGREES = pairs(
    "high/low large/small big>small long/short strong/weak early/late young>old wide/narrow shallow>deep fast/slow "
    "cheap/expensive tall>short heavy>light hot/cold rich>poor poor>good increased/decreased reduced>increased "
    "increasing/decreasing elevated>reduced thick/thin"
)
_NOT_BEFORE = {
    "high": "school schools schooler court street priest tech five speed end seas sea jump profile "
    "commissioner grade ground",
    "low": "key rank tech energy",
    "long": "run way haul standing ago division list beach island shot",
    "short": "of story stories circuit sale selling film films sellers seller squeeze call put selling interest text",
    "large": "intestine language hadron",
    "small": "talk business businesses claims print intestine cap letter arms",
    "big": "data bang deal brother apple bird time city",
    "strong": "suit convexity duality",
    "weak": "supervision convergence learner labels interaction learners",
    "early": "stopping bird adopters adopter childhood retirement",
    "late": "fee fees night payment payments model fusion",
    "hot": "dog dogs topic spot spots spring springs air rod tub",
    "cold": "war start shower storage call blood sweat",
    "fast": "food fourier forward track ethernet",
    "wide": "web receiver receivers angle range variety array spectrum",
    "light": "bulb",
    "heavy": "metal water industry rain chain",
    "young": "adults adult girl girls boy boys child children lady ladies",
    "rich": "text",
    "poor": "man",
    "thin": "film films air",
    "best": "practice practices friend friends interest interests buy seller sellers wishes man "
    "known practical way regards",
    "higher": "education power order court ground",
    "lower": "case house class",
    "better": "half understanding",
    "greater": "good",
    "closer": "examination look inspection scrutiny attention analysis study reading integration relationship",
}
BANNED_NOUNS = {word: frozenset(nouns.split()) for word, nouns in _NOT_BEFORE.items()}

RELATIONAL_ADJECTIVES = pairs(
    "upper>lower inner/outer internal/external forward/backward ascending/descending positive/negative initial/final "
    "maximum/minimum maximal/minimal northern/southern eastern/western northeastern>southwestern "
    "southeastern>northwestern previous>subsequent subsequent>previous indoor/outdoor rightmost/leftmost "
    "topmost>bottommost future>past preceding>following inward/outward upward/downward "
    "incoming/outgoing input/output favorable>unfavorable optimistic/pessimistic rear>front anterior>posterior "
    "dorsal/ventral proximal/distal upstream/downstream senior/junior prior>subsequent"
)
RELATIONAL_BANS = {
    "positive": "definite semidefinite semi-definite predictive unlabeled pairs samples examples "
    "sample example attitude",
    "negative": "definite binomial log-likelihood sampling samples examples pairs predictive sample "
    "example transfer numbers",
    "upper": "case",
    "internal": "revenue medicine combustion",
    "final": "four version fantasy rule",
    "western": "world blot blotting culture union hemisphere",
    "eastern": "time standard",
    "northern": "lights ireland",
    "prior": "to knowledge distribution distributions",
    "minimum": "wage description spanning",
    "senior": "citizens citizen",
    "junior": "college",
}
SIDES = frozenset(
    "side sides hand hands arm arms leg legs foot feet eye eyes ear ears lung lungs knee ankle "
    "shoulder hip wrist thumb "
    "breast kidney atrium ventricle hemisphere ventricular atrial coronary wing corner lane column button edge bank "
    "panel turn half wall end image click margin temporal frontal parietal hippocampus hippocampal amygdala limb limbs "
    "subclavian carotid upper lower front rear".split()
)
NOUNS = pairs(
    "increase/decrease increases/decreases reduction>increase reductions>increases rise/fall decline>rise drop>rise "
    "gain>loss gains>losses growth>decline improvement>decline improvements>declines "
    "advantage/disadvantage advantages/disadvantages strengths/weaknesses maximum/minimum beginning/end start>end "
    "presence/absence lack>abundance majority>minority success/failure buyer/seller buyers/sellers lender/borrower "
    "lenders/borrowers employer/employee employers/employees teacher/student teachers/students parent/child "
    "parents/children causes>effects input/output inputs/outputs encoder/decoder encoders/decoders sender/receiver "
    "winner/loser winners/losers importer/exporter importers/exporters top/bottom entrance/exit arrival/departure "
    "inclusion/exclusion predecessor/successor north/south east/west northeast>southwest southeast>northwest "
    "northwest>southeast southwest>northeast interior/exterior acceptance/rejection victory/defeat victim/perpetrator "
    "optimism/pessimism inflow/outflow deterioration>improvement inhibition>activation activation>inhibition "
    "landlord/tenant landlords/tenants creditor/debtor creditors/debtors doctors>patients"
)
NEED_OF = frozenset(
    "beginning end start presence absence lack majority success failure top bottom causes interior exterior acceptance "
    "rejection inhibition activation inclusion exclusion arrival departure maximum minimum entrance "
    "exit victory".split()
)
NEED_IN = frozenset(
    "increase increases decrease decreases reduction reductions rise fall decline drop improvement improvements "
    "gain gains growth deterioration".split()
)
COMPASS = frozenset("north south east west northeast southeast northwest southwest".split())
COMPASS_NAMES = frozenset("North South East West Northern Southern Eastern Western".split())
TWIN_PLACES = frozenset(
    "korea carolina dakota africa america asia coast london europe california texas florida".split()
)

PREFIXES = pairs("long>short high/low large/small short>long upper>lower higher>lower lower>higher")
COMPOUNDS = (
    "long-term short-term high-dimensional low-dimensional large-scale small-scale high-level low-level high-quality "
    "low-quality high-resolution low-resolution high-risk low-risk long-range short-range high-dose low-dose high-fat "
    "low-fat high-income low-income high-frequency low-frequency high-performance long-lasting short-lived high-order "
    "low-order higher-order lower-order high-affinity low-affinity high-speed low-speed low-cost high-cost "
    "lower-dimensional higher-dimensional higher-level lower-level high-rank low-rank high-resource low-resource "
    "low-density high-density high-fidelity low-fidelity high-energy low-energy long-distance "
    "short-distance high-grade "
    "low-grade high-throughput low-power high-power low-light high-end low-end low-income higher-income lower-income"
).split()

MOTION = frozenset(
    "go goes going gone went come comes coming came walk walks walking walked run runs running ran jump jumps jumping "
    "jumped climb climbs climbing climbed fly flies flying flew drive drives driving drove ride rides riding rode swim "
    "swims swimming swam dive dives diving dove dived step steps stepping stepped crawl crawls crawling crawled "
    "hop hops hopping hopped leap leaps leaping leaped leapt travel travels traveling travelled traveled move moves "
    "moving moved flow flows flowing flowed march marches marching marched slide slides sliding slid "
    "roll rolls rolling "
    "rolled pour pours pouring poured race races racing raced rush rushes rushing rushed sail sails sailing sailed "
    "stroll strolls strolling strolled stumble stumbled get gets getting skate skates skating skated "
    "head heads heading "
    "headed cross crosses crossing migrate migrates migrating migrated drift drifts drifting drifted hike hikes hiking "
    "hiked ski skis skiing skied bike biking biked pass passes passing passed flee fled".split()
)
POSTURE = frozenset(
    "is are was were be been stand stands standing stood sit sits sitting sat lie lies lying lay hide hides hiding hid "
    "hidden park parked parking pose poses posing posed walk walks walking walked run runs running "
    "ran play plays playing "
    "kneel kneeling dance dancing place placed placing put located hang hangs hanging hung visible positioned".split()
)
CONTAINERS = frozenset("incorporate integrate introduce insert inject embed deposit".split())
CONVERTED = frozenset("convert converted converts converting translate translated translates translating".split())
UNITS = frozenset(
    "second seconds minute minutes hour hours day days week weeks month months year years decade decades century "
    "centuries % percent per dollars pounds miles feet meters metres inches kg g mg ml cm mm km points point".split()
)
TIME_UNITS = frozenset(
    "second seconds minute minutes min hour hours h day days week weeks month months year years yr decade decades "
    "century centuries time times while moment".split()
)
UNDERNEATH = frozenset(
    "table bed tree bridge water ground skin sea roof umbrella sky desk surface trees chair bench".split()
)
STATEMENTS = frozenset(
    "hypothesis hypotheses claim claims view views idea theory notion conclusion conclusions concept assumption".split()
)
