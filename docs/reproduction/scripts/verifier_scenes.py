"""Triplets about made-up scenes, to train a verifier that compares what two texts say and not how they say it.

A scene is a small fact in two versions, A and B: who did what to whom, which thing has which property, what lies where,
what came first, what is and what is not. Both are put into words in many ways, and from these an anchor, its positive
(the same version, in other words) and its near-misses (the other version) are drawn. So no construction, no order of
words and no overlap of words tells a positive from a near-miss: every text is an anchor, a positive and a near-miss
somewhere. Some near-misses share more words with the anchor than its positive does, some fewer.

    python docs/reproduction/scripts/verifier_scenes.py -o OUT.jsonl [--count 10000] [--kinds roles,looks]
"""

import argparse
import random
from collections.abc import Iterator
from itertools import product

from retrokit.augmentation.edits.sentence import inflected
from retrokit.data.jsonl import write_jsonl

Ways = list[str]
"""The clauses that say one version of a scene."""
Fact = tuple[str, Ways, Ways]
"""A family, and the ways to say version A and version B."""

# --- words

PERSONS = (
    "man woman boy girl teacher student doctor nurse lawyer farmer soldier king queen driver chef waiter singer dancer "
    "artist writer editor author actor pilot sailor baker banker clerk judge guard hunter neighbour visitor guest "
    "tourist officer manager engineer scientist mayor senator coach player bride groom priest child grandmother uncle "
    "burglar detective witness tenant landlord customer cashier passenger prisoner reporter minister secretary plumber"
).split()
ANIMALS = "dog cat fox wolf bear horse monkey lion tiger zebra rabbit cow goat snake eagle duck mouse shark".split()
NAMES = (
    "Anna Peter Maria John Alice Bob Kate Tom Susan Bill Laura David Emma Paul Julia Mark Sarah Henry Nina Oscar Ivan "
    "Fatima Ahmed Wei Yuki Carlos Lucia Omar Priya Hans Ingrid Pierre"
).split()
FIRMS = (
    "Google Amazon Siemens Toyota Nokia Shell Intel Boeing Airbus Pfizer Bayer Sony Samsung Ford Tesla Adobe".split()
)
LANDS = (
    "France Germany Spain Italy Brazil Argentina China Japan India Canada Mexico Egypt Kenya Norway Sweden Poland "
    "Greece Turkey Chile Peru England Portugal Austria Denmark"
).split()
TOWNS = "Paris Lyon Berlin Munich London Oxford Madrid Rome Milan Tokyo Osaka Boston Chicago Denver Cairo Oslo".split()
AGENTS = (
    "insulin glucose aspirin cortisol dopamine calcium the enzyme|the protein|the receptor|the virus|the drug|the gene|"
    "the hormone|the mutation|the antibody|the vitamin|the ligand|the kinase"
)
SUBSTANCES = [*"insulin glucose aspirin cortisol dopamine calcium serotonin".split(), *AGENTS.split("|")[1:]]
CAUSES = (
    "smoking stress poverty inflation obesity pollution unemployment conflict erosion corrosion insomnia infection "
    "inflammation fatigue deforestation flooding overheating congestion"
).split()
THINGS = (
    "box ball cup table chair lamp book pen car bus train bicycle house tower bridge tree bush flower bottle plate "
    "bowl knife spoon bag hat coat shoe clock mirror sofa bed desk shelf door window fence statue bench boat truck "
    "van phone laptop camera vase basket bucket ladder carpet pillow picture sign fountain suitcase umbrella guitar "
    "piano newspaper key coin ring scarf kettle drawer cabinet fireplace stove fridge"
).split()
PLACES = (
    (
        "bank bakery school library station museum hotel restaurant church hospital theatre market park square airport "
        "harbour castle village lake river hill forest beach factory stadium pharmacy post|office town|hall car|park"
    )
    .replace("|", "_")
    .split()
)
LOOKS = (
    "red blue green yellow black white brown purple orange pink grey large small tall short round square old new heavy "
    "light wooden metal plastic broken clean dirty empty expensive cheap striped wet dry soft hard shiny rusty"
).split()
TRAITS = "young old tall short fat thin rich poor blind deaf tired angry happy drunk famous injured bald quiet".split()
COLOURS = "red blue green yellow black white brown purple orange pink grey".split()
CLOTHES = "shirt dress coat hat jacket sweater scarf skirt suit cap uniform".split()
HELD = "kite umbrella suitcase backpack guitar camera bicycle dog bottle ball flag map newspaper ladder".split()
EVENTS = (
    "the concert|the dinner|the meeting|the operation|the storm|the wedding|the war|the election|the exam|the match|"
    "the speech|the strike|the earthquake|the merger|the accident|the trial|the harvest|the party|the lecture|the "
    "parade"
).split("|")
ACTS = {
    "people": (
        "help see follow push pull praise blame thank greet call warn teach hire visit attack defeat rescue invite "
        "admire carry kick bite scare watch interview arrest accuse trust marry hug photograph ignore love hate hit "
        "chase feed draw pay meet miss forgive insult fire sue betray support criticize mention remember recognize "
        "question threaten punish shoot wash tease comfort obey surprise impress annoy protect guide catch free"
    ).split(),
    "animals": "chase bite follow attack scare catch kill see watch smell ignore hurt lick hunt bury".split(),
    "firms": "buy sue acquire overtake finance supply praise copy accuse defeat fund advise".split(),
    "lands": "invade attack support defeat visit conquer threaten occupy recognize supply sanction help".split(),
    "substances": "inhibit activate regulate increase block bind reduce stimulate suppress replace degrade".split(),
}
OTHER_WORDS = {
    "help": "assist", "see": "notice", "defeat": "beat", "rescue": "save", "scare": "frighten", "buy": "purchase",
    "inhibit": "suppress", "activate": "stimulate", "reduce": "lower", "chase": "run after", "hire": "employ",
    "criticize": "find fault with", "shoot": "fire at", "fund": "finance", "occupy": "take over", "hit": "strike",
    "mention": "refer to", "catch": "capture", "call": "phone", "punish": "penalize", "annoy": "irritate",
}  # fmt: skip
VERB_PHRASES = (
    "eat dinner|read the letter|clean the kitchen|lock the door|water the plants|pay the bill|call the office|take "
    "a walk|write the report|feed the horses|sign the contract|paint the wall|open the window|sell the car|close "
    "the shop|answer the question|approve the budget|accept the offer|support the plan|repair the roof|win the race|"
    "finish the project|send the invitation|cross the river|pass the test|attend the meeting|leave the country|keep "
    "the promise|buy a ticket|find the key|cook the soup|visit the museum|drink coffee|tell the truth|change the "
    "password|save the file|return the book|receive the parcel|notice the mistake|hear the alarm|use the lift|"
    "publish the results|renew the licence|respond to the treatment|improve the model|reduce the error|confirm the "
    "hypothesis|cancel the flight"
).split("|")
STATES = (
    "open/closed alive/dead present/absent asleep/awake possible/impossible legal/illegal honest/dishonest "
    "certain/uncertain complete/incomplete safe/unsafe true/false married/unmarried visible/invisible guilty/innocent "
    "reliable/unreliable available/unavailable healthy/ill significant/insignificant accurate/inaccurate "
    "stable/unstable effective/ineffective necessary/unnecessary successful/unsuccessful able|to|swim/unable|to|swim "
    "satisfied/dissatisfied known/unknown equal/unequal sober/drunk relevant/irrelevant correct/incorrect"
).split()
STATE_OWNERS = [
    "the plan", "the answer", "the offer", "the road", "the witness", "the method", "the museum", "the medicine",
    "the contract", "the result", "the patient", "the device", "the bridge", "the water", "the shop", "the software",
]  # fmt: skip
GRADES = (
    "taller/shorter older/younger heavier/lighter faster/slower richer/poorer stronger/weaker bigger/smaller "
    "louder/quieter happier/sadder braver/shyer warmer/colder deeper/shallower longer/shorter wider/narrower "
    "cheaper/more|expensive easier/more|difficult safer/more|dangerous thicker/thinner brighter/darker newer/older"
).split()
RELATIONS = [
    (("above", "over"), ("below", "beneath", "under", "underneath")),
    (("in front of", "before"), ("behind", "at the back of")),
    (("to the left of", "left of", "on the left of"), ("to the right of", "right of", "on the right of")),
    (("north of", "to the north of"), ("south of", "to the south of")),
    (("east of", "to the east of"), ("west of", "to the west of")),
    (("ahead of", "in front of"), ("behind", "at the rear of")),
]
MUTUAL = ["next to", "beside", "near", "close to", "opposite", "far from"]
ENDS = [
    ("the left side of the", "the right side of the"), ("the top of the", "the bottom of the"),
    ("the front of the", "the back of the"), ("the upper part of the", "the lower part of the"),
    ("the inside of the", "the outside of the"), ("the northern end of the", "the southern end of the"),
    ("the beginning of the", "the end of the"),
]  # fmt: skip
MOVES = [
    (("walked into", "entered", "went into"), ("walked out of", "left", "went out of")),
    (("ran towards", "ran in the direction of", "rushed to"), ("ran away from", "fled from")),
    (("climbed up", "went up"), ("climbed down", "came down")),
    (("arrived at", "came to", "reached"), ("departed from", "left")),
    (("stayed inside", "remained in"), ("stayed outside", "remained out of")),
    (("got on", "boarded"), ("got off", "stepped off")),
]
CHANGES = [
    (("increased", "rose", "went up", "grew"), ("decreased", "fell", "went down", "declined", "dropped")),
    (("was higher than before", "had risen"), ("was lower than before", "had fallen")),
    (("got better", "improved"), ("got worse", "deteriorated")),
    (("was moved to an earlier date", "was brought forward"), ("was moved to a later date", "was postponed")),
    (("came first", "was at the start"), ("came last", "was at the end")),
    (("opened early", "opened ahead of time"), ("opened late", "opened behind time")),
]
MEASURES = (
    "the temperature|the price of oil|unemployment|the rent|the pressure|blood pressure|demand|the error rate|the "
    "number of visitors|the noise|his weight|the share price|the water level|mortality|the quality|the volume|the "
    "risk|accuracy"
).split("|")
CONTEXTS = (
    "yesterday|last week|in 2006|in the garden|on Monday|during the holidays|in the morning|at the station|after the "
    "storm|in the semifinal|in this study|in most cases|at midnight|near the border|in the city|this year|in London"
).split("|")
NUMBERS = "two three four five six seven eight nine ten twelve twenty".split()


def _form(verb: str, tag: str) -> str:
    head, _, rest = verb.partition(" ")
    return f"{inflected(head, tag)} {rest}".strip()


def _past(verb: str) -> str:
    return _form(verb, "VBD")


def _pairs(words: str) -> tuple[str, str]:
    one, other = words.replace("|", " ").split("/")
    return one, other


def _two(r: random.Random) -> tuple[str, str, str]:
    """Two that can act on each other, and what they do."""
    kind = r.choices(["people", "names", "animals", "firms", "lands", "substances"], [5, 3, 1, 1, 1, 2])[0]
    if kind in ("people", "animals"):
        a, b = r.sample(PERSONS if kind == "people" else ANIMALS, 2)
        det = r.choice(["the", "the", "a"])
        one, other = f"{_article(a) if det == 'a' else det} {a}", f"the {b}"
    else:
        pool = {"names": NAMES, "firms": FIRMS, "lands": LANDS, "substances": SUBSTANCES}[kind]
        one, other = r.sample(pool, 2)
    return one, other, r.choice(ACTS["people" if kind == "names" else kind])


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" and not noun.startswith(("uni", "use", "eu")) else "a"


def _somebody(r: random.Random) -> str:
    return r.choice([f"the {r.choice(PERSONS)}", r.choice(NAMES), f"the {r.choice(PERSONS)}"])


# --- scenes: who did what to whom


def roles(r: random.Random) -> Fact:
    """A and B exchange their parts: active, passive, cleft, another verb."""
    a, b, verb = _two(r)
    tense = r.choice(["past", "past", "present", "perfect", "future"])

    def ways(a: str, b: str) -> Ways:
        found = []
        for word in (verb, *([OTHER_WORDS[verb]] if verb in OTHER_WORDS else [])):
            did, done = _form(word, "VBD"), _form(word, "VBN")
            active = {"past": did, "present": _form(word, "VBZ"), "perfect": f"has {done}", "future": f"will {word}"}
            passive = {"past": "was", "present": "is", "perfect": "has been", "future": "will be"}[tense]
            found += [
                f"{a} {active[tense]} {b}",
                f"{b} {passive} {done} by {a}",
                f"it {'was' if tense == 'past' else 'is'} {a} that {active[tense]} {b}",
                f"it {'was' if tense == 'past' else 'is'} {b} that {a} {active[tense]}",
                f"{b} is the one that {a} {active[tense]}",
                f"{a} is the one that {active[tense]} {b}",
            ]
        return found

    return "binding", ways(a, b), ways(b, a)


def converse(r: random.Random) -> Fact:
    """Words for the same event or relation from either side: *won against* and *lost to*, *owns* and *belongs to*."""
    (a, b), words = r.choice(
        [
            (r.sample(LANDS, 2), [("defeated", "lost to"), ("won against", "was beaten by"), ("beat", "lost against")]),
            (_people(r), [("employs", "works for"), ("is the boss of", "is an employee of")]),
            (_people(r), [("is the parent of", "is the child of"), ("has adopted", "was adopted by")]),
            (_people(r), [("taught", "learned from"), ("was the teacher of", "was a pupil of")]),
            (
                r.sample(CAUSES, 2),
                [("causes", "results from"), ("leads to", "is caused by"), ("triggers", "follows from")],
            ),
            (_events(r), [("preceded", "followed"), ("came before", "came after"), ("was before", "took place after")]),
            (r.sample(FIRMS, 2), [("owns", "belongs to"), ("bought", "was acquired by"), ("supplies", "buys from")]),
            (_things(r), [("contains", "is inside"), ("holds", "is contained in")]),
            (_things(r), [("supports", "rests on"), ("covers", "is covered by")]),
            (_people(r), [("is older than", "is younger than"), ("was born before", "was born after")]),
        ]
    )
    forth = [one for one, _ in words]
    back = [other for _, other in words]
    return (
        "binding",
        [*(f"{a} {word} {b}" for word in forth), *(f"{b} {word} {a}" for word in back)],
        [*(f"{b} {word} {a}" for word in forth), *(f"{a} {word} {b}" for word in back)],
    )


def _people(r: random.Random) -> list[str]:
    return r.sample(NAMES, 2) if r.random() < 0.5 else [f"the {word}" for word in r.sample(PERSONS, 2)]


def _events(r: random.Random) -> list[str]:
    return r.sample(EVENTS, 2)


def _things(r: random.Random) -> list[str]:
    return [f"the {word}" for word in r.sample(THINGS, 2)]


def giving(r: random.Random) -> Fact:
    """Giver and receiver change places."""
    a, b = _people(r)
    thing = r.choice(["the", "a"]) + f" {r.choice([word for word in THINGS if word[0] not in 'aeiou'])}"
    verb, back = r.choice(
        [("gave", "got"), ("sold", "bought"), ("lent", "borrowed"), ("sent", "received"), ("handed", "took")]
    )

    def ways(a: str, b: str) -> Ways:
        return [
            f"{a} {verb} {thing} to {b}",
            f"{a} {verb} {b} {thing}",
            f"{b} {back} {thing} from {a}",
            f"it was {a} who {verb} {thing} to {b}",
            f"it was from {a} that {b} {back} {thing}",
        ]

    return "binding", ways(a, b), ways(b, a)


def looks(r: random.Random) -> Fact:
    """Two things exchange their properties."""
    (a, b), (x, y) = r.sample(THINGS, 2), r.sample(LOOKS, 2)
    opening = r.choice(["there was", "there is", "I saw", "she bought", "we found", "he photographed", "they sell"])

    def ways(x: str, y: str) -> Ways:
        one, other = f"{_article(x)} {x} {a}", f"{_article(y)} {y} {b}"
        one_that, other_that = f"{_article(a)} {a} that is {x}", f"{_article(b)} {b} that is {y}"
        return [
            f"{opening} {one} and {other}",
            f"{opening} {other} and {one}",
            f"{opening} {one_that} and {other_that}",
            f"{opening} {other_that} and {one}",
            f"{opening} {other} as well as {one}",
            f"{opening} {one} together with {other}",
        ]

    return "binding", ways(x, y), ways(y, x)


def states(r: random.Random) -> Fact:
    """The same in two clauses: *the hotel is cheap, but the restaurant is dear*."""
    if r.random() < 0.3:
        a, b = r.sample(MEASURES, 2)
        x, y = r.choice(
            [("rose", "fell"), ("went up", "went down"), ("grew", "shrank"), ("stayed the same", "doubled")]
        )
    else:
        a, b = (f"the {word.replace('_', ' ')}" for word in r.sample([*PLACES, *THINGS], 2))
        x, y = (f"is {word}" for word in r.sample(LOOKS, 2))

    def ways(x: str, y: str) -> Ways:
        return [
            *(f"{a} {x}{link} {b} {y}" for link in (", but", " and", " while", ", whereas")),
            *(f"{b} {y}{link} {a} {x}" for link in (", but", " and", " while", ", whereas")),
            f"while {a} {x}, {b} {y}",
            f"while {b} {y}, {a} {x}",
        ]

    return "binding", ways(x, y), ways(y, x)


def dressed(r: random.Random) -> Fact:
    """Two people with marks, in one event: marks exchanged, or parts exchanged."""
    a, b = r.sample([*PERSONS, *ANIMALS], 2)
    kind = r.choice(["trait", "clothes", "held"])
    if kind == "trait":
        x, y = r.sample(TRAITS, 2)
        said = [lambda n, m: f"the {m} {n}", lambda n, m: f"the {n} who is {m}", lambda n, m: f"the {n} that is {m}"]
    elif kind == "clothes":
        (x, y), (c, d) = r.sample(COLOURS, 2), r.sample(CLOTHES, 2)
        worn = {a: c, b: d} if r.random() < 0.6 else {a: c, b: c}
        said = [
            lambda n, m: f"the {n} in the {m} {worn[n]}",
            lambda n, m: f"the {n} wearing a {m} {worn[n]}",
            lambda n, m: f"the {n} who wears a {m} {worn[n]}",
        ]
    else:
        x, y = r.sample(HELD, 2)
        said = [
            lambda n, m: f"the {n} with the {m}",
            lambda n, m: f"the {n} who has the {m}",
            lambda n, m: f"the {n} that is holding the {m}",
        ]
    verb = r.choice(ACTS["people"])
    did, done, doing = _past(verb), _form(verb, "VBN"), _form(verb, "VBG")

    def ways(a: str, x: str, b: str, y: str) -> Ways:
        found = []
        for one, other in product(said, said):
            first, second = one(a, x), other(b, y)
            found += [f"{first} {did} {second}", f"{second} was {done} by {first}", f"{first} is {doing} {second}"][:2]
        return found

    if r.random() < 0.5:
        return "binding", ways(a, x, b, y), ways(a, y, b, x)
    return "binding", ways(a, x, b, y), ways(b, y, a, x)


def counted(r: random.Random) -> Fact:
    """Two kinds of things exchange their numbers."""
    a, b = (inflected(word, "NNS") for word in r.sample(r.choice([PERSONS, THINGS, ANIMALS]), 2))
    x, y = r.sample(NUMBERS, 2)
    opening = r.choice(["there were", "we counted", "I saw", "they sent", "the report mentions", "she photographed"])

    def ways(x: str, y: str) -> Ways:
        return [
            *(f"{opening} {x} {a} {link} {y} {b}" for link in ("and", "as well as", "but")),
            *(f"{opening} {y} {b} {link} {x} {a}" for link in ("and", "as well as", "but")),
        ]

    return "binding", ways(x, y), ways(y, x)


# --- scenes: where, when, more or less


def places(r: random.Random) -> Fact:
    """One thing lies to one side of another."""
    forth, back = r.choice(RELATIONS)
    if "north of" in forth or "east of" in forth:
        a, b = r.sample(TOWNS, 2) if r.random() < 0.4 else [f"the {w.replace('_', ' ')}" for w in r.sample(PLACES, 2)]
        verb = r.choice(["is", "lies"])
    else:
        a, b = (f"the {w.replace('_', ' ')}" for w in r.sample(r.choice([THINGS, PLACES, PERSONS]), 2))
        verb = r.choice(["is", "was", "stands", "is located"])

    def ways(forth: tuple[str, ...], back: tuple[str, ...]) -> Ways:
        return [
            *(f"{a} {verb} {word} {b}" for word in forth),
            *(f"{b} {verb} {word} {a}" for word in back),
            f"{forth[0]} {b} {verb} {a}",
            f"{back[0]} {a} {verb} {b}",
        ]

    return "relations", ways(forth, back), ways(back, forth)


def parts(r: random.Random) -> Fact:
    """Something is at one end of a thing, or at the other."""
    thing, end = r.choice(THINGS), r.choice(ENDS)
    whole = r.choice([*THINGS, *PLACES]).replace("_", " ")
    verb, lying = r.choice(
        [("is", "is"), ("was found", "was found"), ("was put", "was put"), ("can be seen", "can be seen")]
    )

    def ways(end: str) -> Ways:
        short = end.removeprefix("the ").removesuffix(" of the")
        return [
            f"the {thing} {verb} at {end} {whole}",
            f"at {end} {whole} {lying} the {thing}",
            f"the {thing} {verb} at the {whole}'s {short}",
            f"it is at {end} {whole} that the {thing} {verb}",
        ]

    return "relations", ways(end[0]), ways(end[1])


def order(r: random.Random) -> Fact:
    """One event came before another."""
    if r.random() < 0.3:
        x, y = r.sample(EVENTS, 2)
        forth, back = ("came before", "took place before", "preceded"), ("came after", "took place after", "followed")
        same = [*(f"{x} {word} {y}" for word in forth), *(f"{y} {word} {x}" for word in back)]
        return "relations", same, [*(f"{y} {word} {x}" for word in forth), *(f"{x} {word} {y}" for word in back)]
    who = _somebody(r)
    if r.random() < 0.5:
        x, y = (f"{who} {_past(verb)}" for verb in r.sample(VERB_PHRASES, 2))
    else:
        x, y = f"{who} {_past(r.choice(VERB_PHRASES))}", f"{_somebody(r)} {_past(r.choice(VERB_PHRASES))}"

    def ways(x: str, y: str) -> Ways:
        return [
            f"{x} before {y}",
            f"{y} after {x}",
            f"before {y}, {x}",
            f"after {x}, {y}",
            f"{x}, and then {y}",
            f"first {x}, then {y}",
            f"once {x}, {y}",
        ]

    return "relations", ways(x, y), ways(y, x)


def grades(r: random.Random) -> Fact:
    """One has more of something than the other."""
    more, less = _pairs(r.choice(GRADES))
    a, b = r.choice([_people(r), _things(r), r.sample(TOWNS, 2), [f"the {w}" for w in r.sample(PLACES[:20], 2)]])

    def ways(a: str, b: str) -> Ways:
        return [
            f"{a} is {more} than {b}",
            f"{b} is {less} than {a}",
            f"compared with {b}, {a} is {more}",
            f"of the two, {a} is {more} than {b}",
            f"{b} is {less} when compared with {a}",
        ]

    return "relations", ways(a, b), ways(b, a)


def moves(r: random.Random) -> Fact:
    """Into or out of, towards or away from, up or down."""
    who, where = _somebody(r), f"the {r.choice(PLACES).replace('_', ' ')}"
    forth, back = r.choice(MOVES)
    how = r.choice(["", " quickly", " at noon", " alone", " with the children"])
    return "relations", [f"{who} {way} {where}{how}" for way in forth], [f"{who} {way} {where}{how}" for way in back]


def changes(r: random.Random) -> Fact:
    """Something went up or down, came first or last."""
    what = r.choice([*MEASURES, *MEASURES, *EVENTS])
    forth, back = r.choice(CHANGES[:3] if what in MEASURES else CHANGES[3:])
    when = r.choice(["", " during the night", " in the second year", " among elderly patients", " in the north"])
    fronted = when.strip()

    def ways(words: tuple[str, ...]) -> Ways:
        found = [f"{what} {word}{when}" for word in words]
        return found + ([f"{fronted}, {what} {word}" for word in words] if fronted else [])

    return "relations", ways(forth), ways(back)


def path(r: random.Random) -> Fact:
    """From here to there, or from there to here."""
    who, verb = r.choice(
        [
            (_somebody(r), "walked"),
            (_somebody(r), "travelled"),
            ("the train", "runs"),
            ("the river", "flows"),
            ("the bus", "goes"),
        ]
    )
    a, b = r.sample(TOWNS, 2) if r.random() < 0.5 else [f"the {w}" for w in r.sample(PLACES[:20], 2)]

    def ways(a: str, b: str) -> Ways:
        return [f"{who} {verb} from {a} to {b}", f"from {a}, {who} {verb} to {b}", f"{who} {verb} to {b} from {a}"]

    return "relations", ways(a, b), ways(b, a)


# --- scenes: what is, and what is not


def denial(r: random.Random) -> Fact:
    """Somebody did something, or did not."""
    who, doing = _somebody(r), r.choice(VERB_PHRASES)
    did = _past(doing)
    no = [
        f"{who} did not {doing}",
        f"{who} didn't {doing}",
        f"{who} never {did}",
        f"{who} failed to {doing}",
        f"it is not true that {who} {did}",
        f"it is not the case that {who} {did}",
    ]
    yes = [
        f"{who} {did}",
        f"{who} did {doing}",
        f"{who} managed to {doing}",
        f"it is true that {who} {did}",
        f"{who} did not fail to {doing}",
    ]
    return "negation", yes, no


def future(r: random.Random) -> Fact:
    """What will, can or may be done, or not."""
    who, doing = _somebody(r), r.choice(VERB_PHRASES)
    yes, no = r.choice(
        [
            (["will", "is going to"], ["will not", "won't", "is not going to"]),
            (["can", "is able to", "is capable enough to"], ["cannot", "can't", "is unable to", "is not able to"]),
            (
                ["may", "is allowed to", "is permitted to"],
                ["may not", "is not allowed to", "is forbidden to", "is prohibited from trying to"],
            ),
            (["has to", "must", "is required to"], ["does not have to", "need not", "is not required to"]),
            (["wants to", "would like to"], ["does not want to", "doesn't want to", "would not like to"]),
            (["remembered to", "did not forget to"], ["forgot to", "did not remember to"]),
            (["agreed to", "was willing to"], ["refused to", "declined to", "was unwilling to"]),
        ]
    )
    return "negation", [f"{who} {word} {doing}" for word in yes], [f"{who} {word} {doing}" for word in no]


def state(r: random.Random) -> Fact:
    """Something is so, or is not."""
    who = r.choice([*STATE_OWNERS, *STATE_OWNERS, _somebody(r)])
    x, y = _pairs(r.choice(STATES))
    if r.random() < 0.3:
        x, y = r.choice(LOOKS), ""
    yes = [f"{who} is {x}", f"it is true that {who} is {x}", f"{who} really is {x}"]
    no = [f"{who} is not {x}", f"{who} isn't {x}", f"{who} is by no means {x}", f"it is not true that {who} is {x}"]
    if y:
        yes += [f"{who} is not {y}"]
        no += [f"{who} is {y}", f"it is the case that {who} is {y}"]
    return "negation", yes, no


def amount(r: random.Random) -> Fact:
    """All, some or none of them."""
    who, did = inflected(r.choice(PERSONS), "NNS"), _past(r.choice(VERB_PHRASES))
    whole = [
        f"all of the {who} {did}", f"all the {who} {did}", f"every one of the {who} {did}", f"the {who} all {did}",
        f"each of the {who} {did}",
    ]  # fmt: skip
    none = [
        f"none of the {who} {did}",
        f"no {who} {did}",
        f"not one of the {who} {did}",
        f"not a single one of the {who} {did}",
    ]
    some = [f"some of the {who} {did}", f"a few of the {who} {did}", f"several of the {who} {did}"]
    most = [f"most of the {who} {did}", f"the majority of the {who} {did}"]
    first, second = r.sample([whole, none, some, most], 2)
    return "negation", first, second


def presence(r: random.Random) -> Fact:
    """There is something, or nothing; with or without."""
    if r.random() < 0.5:
        a, b = (
            inflected(r.choice(THINGS), "NNS"),
            r.choice([*PLACES[:20], "room", "garden", "report", "box", "kitchen"]),
        )
        yes = [
            f"there are {a} in the {b}",
            f"there are some {a} in the {b}",
            f"the {b} has {a} in it",
            f"in the {b} there are {a}",
        ]
        no = [
            f"there are no {a} in the {b}", f"there aren't any {a} in the {b}", f"the {b} has no {a} in it",
            f"the {b} is without {a}", f"in the {b} there are no {a}",
        ]  # fmt: skip
        return "negation", yes, no
    who, did = _somebody(r), _past(r.choice(VERB_PHRASES))
    what = r.choice(["help", "permission", "hesitation", "a map", "money", "glasses", "difficulty", "errors"])
    return "negation", [f"{who} {did} with {what}", f"with {what}, {who} {did}"], [
        f"{who} {did} without {what}", f"without {what}, {who} {did}", f"{who} {did} with no {what.removeprefix('a ')}",
    ]  # fmt: skip


def frequency(r: random.Random) -> Fact:
    """Always, often, rarely, never."""
    who, doing = _somebody(r), _form(r.choice(VERB_PHRASES), "VBZ")
    kinds = [
        ["always", "invariably"],
        ["often", "frequently"],
        ["rarely", "seldom", "hardly ever"],
        ["never"],
    ]
    one, other = r.sample(kinds, 2)

    def ways(words: list[str]) -> Ways:
        return [f"{who} {word} {doing}" for word in words]

    return "negation", ways(one), ways(other)


def bounds(r: random.Random) -> Fact:
    """At least or at most so many."""
    who, n = inflected(r.choice(PERSONS), "NNS"), r.choice(NUMBERS)
    did = _past(r.choice(VERB_PHRASES))
    yes = [f"at least {n} {who} {did}", f"no fewer than {n} {who} {did}", f"{n} or more {who} {did}"]
    no = [f"at most {n} {who} {did}", f"no more than {n} {who} {did}", f"{n} or fewer {who} {did}"]
    return "negation", yes, no


def mutual(r: random.Random) -> Fact:
    """What holds in either direction, so that exchanging the two changes nothing: but denying it does."""
    if r.random() < 0.4:
        a, b = _things(r)
        word = r.choice([*MUTUAL, "similar to", "as large as", "identical to"])
        yes = [f"{a} is {word} {b}", f"{b} is {word} {a}"]
        return "negation", yes, [f"{a} is not {word} {b}", f"{b} is not {word} {a}", f"{a} isn't {word} {b}"]
    a, b = _people(r)
    verb, base = r.choice(
        [("met", "meet"), ("married", "marry"), ("danced with", "dance with"), ("argued with", "argue with"),
         ("talked to", "talk to"), ("resembled", "resemble"), ("agreed with", "agree with")]
    )  # fmt: skip
    yes = [f"{a} {verb} {b}", f"{b} {verb} {a}"]
    return "negation", yes, [f"{a} did not {base} {b}", f"{b} did not {base} {a}", f"{a} never {verb} {b}"]


KINDS = {
    make.__name__: make
    for make in (
        roles, converse, giving, looks, states, dressed, counted, places, parts, order, grades, moves, changes, path,
        denial, future, state, amount, presence, frequency, bounds, mutual,
    )
}  # fmt: skip


# --- triplets


def scene(kinds: list[str], r: random.Random) -> tuple[str, str, Ways, Ways]:
    """Family, kind, and the two versions of a fact, or of two facts of which one stays."""
    kind = r.choice(kinds)
    family, same, other = KINDS[kind](r)
    draw = r.random()
    if draw < 0.25:  # a second fact, the same in both versions
        _, kept, _ = KINDS[r.choice(kinds)](r)
        same, other = (
            [
                text
                for way in r.sample(ways, min(4, len(ways)))
                for text in _joined(way, r.sample(kept, min(2, len(kept))))
            ]
            for ways in (same, other)
        )
    elif draw < 0.5:
        context = r.choice(CONTEXTS)
        same, other = (
            [text for way in ways for text in (f"{way} {context}", f"{context}, {way}")] for ways in (same, other)
        )
    return family, kind, same, other


def _joined(way: str, kept: Ways) -> Iterator[str]:
    for text in kept:
        yield f"{way}, and {text}"
        yield f"{text}, and {way}"
        yield f"{way}; {text}"


def triplet(kinds: list[str], r: random.Random) -> dict[str, object]:
    """One triplet of a scene: each text drawn from all ways to say its version."""
    family, kind, same, other = scene(kinds, r)
    if r.random() < 0.5:
        same, other = other, same
    anchor = r.choice(same)
    others = [way for way in dict.fromkeys(same) if way != anchor]
    positive = anchor if r.random() < 0.05 or not others else r.choice(others)
    wrong = [way for way in dict.fromkeys(other) if way not in same]
    nearest = max(wrong, key=lambda way: _overlap(anchor, way))
    near = [nearest if r.random() < 0.6 else r.choice(wrong), r.choice(wrong)]
    return {
        "anchor": _sentence(anchor),
        "positive": _sentence(positive),
        "negatives": [_sentence(way) for way in dict.fromkeys(near)],
        "family": family,
        "edit": kind,
        "kept": "scene",
    }


def _overlap(one: str, other: str) -> float:
    """How alike two clauses are: of neighbouring words in common."""
    first, second = (set(zip(text.split(), text.split()[1:], strict=False)) for text in (one, other))
    return len(first & second) / max(1, len(first | second))


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def main() -> None:
    """Write the triplets that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of scenes; default: all")
    parser.add_argument("--without", default="", help="kinds to leave out, to measure on them")
    asked = parser.parse_args()
    kinds = [kind for kind in asked.kinds.split(",") if kind not in asked.without.split(",")]
    draw = random.Random(asked.seed)
    written = write_jsonl(asked.output, (triplet(kinds, draw) for _ in range(asked.count)))
    print(f"{written:,} triplets in {asked.output}")


if __name__ == "__main__":
    main()
