"""The words that decide which arguments, attributes and names may change places: the lexicon of :mod:`.binding`.

Verbs are lemmas; prepositional relations are written ``lemma preposition``. A relation is listed only if it is
asymmetric (*A causes B* is not *B causes A*) and if its two places take words of the same kind, so that the swapped
sentence is a statement that someone could make.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> frozenset[str]:
    return frozenset(" ".join(pair.split()) for pair in text.split(","))


# Heads of noun phrases that act by themselves: people, animals, bodies of people.
ANIMATE = _words("""
    man woman men women boy girl child children kid baby people person guy lady gentleman adult teenager youth
    toddler father mother parent son daughter brother sister husband wife uncle aunt cousin friend neighbour
    neighbor family player team actor actress singer dancer musician artist painter writer author poet reader editor
    publisher journalist reporter teacher student pupil professor scientist researcher scholar librarian engineer
    programmer developer user doctor nurse surgeon patient physician clinician dentist lawyer judge jury prosecutor
    attorney defendant victim suspect witness criminal thief robber killer murderer gunman attacker terrorist rebel
    militant protester protestor demonstrator activist soldier officer policeman police cop guard general troop
    troops army king queen prince princess emperor president minister senator governor mayor politician candidate
    voter citizen resident leader chief official spokesman spokeswoman ambassador diplomat delegate worker employee
    employer boss manager executive director chairman ceo owner founder investor shareholder trader broker banker
    lender borrower creditor debtor buyer seller customer client consumer vendor merchant dealer supplier landlord
    tenant farmer fisherman hunter driver pilot sailor passenger tourist rider cyclist biker skier surfer swimmer
    runner climber hiker athlete coach referee chef cook waiter waitress carpenter priest monk pope bishop agent
    opponent competitor rival partner volunteer applicant participant subject adviser advisor speaker listener
    caller visitor guest host stranger crowd couple pair enemy hero company firm bank government agency court
    congress senate parliament party union committee organization organisation university school department ministry
    council board regulator insurer airline hospital dog cat puppy kitten horse cow bull pig sheep lamb goat deer
    elephant lion tiger bear wolf fox monkey ape panda rabbit hamster mouse mice rat squirrel bird eagle owl parrot
    duck goose chicken rooster hen snake lizard frog turtle crocodile alligator fish shark whale dolphin bee ant
    spider butterfly insect animal predator prey donkey camel zebra giraffe kangaroo koala parasite robot human
    adversary attacker defender learner community
    country nation occupant inhabitant household
""")

# Heads that one can see and touch, and that carry, hit, cover or stand on one another.
CONCRETE = _words("""
    car truck bus train plane airplane aeroplane helicopter boat ship canoe motorcycle motorbike bicycle bike
    scooter van taxi tractor wagon cart trailer ambulance tank rocket skateboard surfboard sled ball frisbee toy
    doll balloon kite stick rope chain net bat racket gun rifle pistol sword knife fork spoon plate bowl cup glass
    bottle can jar pot pan tray table chair bench desk couch sofa bed stool shelf box bag basket suitcase backpack
    bucket crate barrel cabinet drawer lamp candle mirror clock keyboard camera book newspaper magazine letter card
    picture painting poster sign flag hat cap helmet coat jacket shirt dress shoe boot glove scarf blanket pillow
    towel curtain carpet rug door window wall fence gate roof ladder stairs bridge tower statue tree bush branch
    leaf flower log rock stone pole post brick board piano guitar violin flute drum trumpet apple banana orange
    lemon potato tomato onion carrot cucumber pepper egg bread cake sandwich pizza cheese cookie pumpkin mushroom
    fruit vegetable hammer saw axe drill screwdriver shovel broom brush wheel tire engine umbrella stroller carriage
    raft paddle hose vehicle
""")

# Light nouns, and what a study measures or claims: they stand on one side only ("improves accuracy", "in the form of").
MEASURES = _words("""
    performance accuracy risk number rate level amount cost time quality efficiency ability need probability
    likelihood use usage quantity size degree extent value score recall precision error loss speed odds chance
    possibility potential capacity capability frequency percentage percent proportion majority lot fact way problem
    issue question attention evidence insight importance understanding knowledge role difference result results
    study paper work article research section table figure experiment analysis approach point case example kind type
    sort part set range variety series improvement gain increase decrease reduction change effect term form response
    comparison case presence absence face light favour favor context course addition contrast accordance event field
    area fashion means hand end view sense place top practice reference respect regard relation charge account order
    setting world future past action step one ones other conjunction combination collaboration agreement accordance
    line spite search need name detail reason purpose aim goal objective basis manner year month day week hour
    minute second
""")

# Relations between any two things, people or facts.
RELATING = _words("""
    affect influence determine predict control drive follow precede replace require need support oppose contradict
    threaten protect dominate shape change attract outperform beat defeat exceed surpass outweigh outnumber outlive
    surround contain include cover cause trigger induce provoke activate inhibit suppress regulate modulate
    stimulate promote block prevent destroy damage harm hurt enable constrain restrict complicate explain imply
    entail subsume dominate generate produce encode target attack phosphorylate antagonize antagonise recruit
    deplete degrade underlie mediate govern facilitate impair disrupt stabilize stabilise limit reflect inform
    motivate guide supplement undermine justify overlook overestimate underestimate mimic imitate resist attenuate
    repress bound dominate supersede lag trail lead increase decrease reduce improve enhance accelerate boost
    alleviate strengthen weaken hinder alter extend involve finance fund feed host
""")

# Relations whose places are measures as well ("accuracy affects speed").
OF_MEASURES = _words(
    "affect influence determine predict exceed surpass outweigh drive precede follow limit reflect govern"
)

# What one body does to another.
PHYSICAL = _words("""
    play use open hit push pull carry lift drag chase follow touch hold kick catch throw ride drive eat bite lick
    sniff cut slice chop peel break smash crush cover hide block strike knock squeeze grab paint wash clean kiss hug
    pet feed watch smell wrap shake attack scratch climb pass tow steer crack tear bump swallow surround rub roll
    drop move turn
""")

# Verbs for two animate arguments: what people and animals do to one another.
PERSONAL = PHYSICAL | _words("""
    accuse admire advise applaud arrest assault assist attack avoid bar beat believe betray blame bribe call catch
    challenge charge cheat chase comfort condemn consult contact convict convince criticize criticise defeat defend
    deceive detain dismiss distract doubt educate elect employ encourage endorse evict examine execute exploit
    extradite face fight find fire fool forgive free frighten greet guard haunt hate hear help hire hug hunt hurt
    ignore impress inform injure insult interrogate interview invite join judge kidnap kill know lead leave like love
    miss mock murder need notify nominate obey observe oppose outrun outscore outsmart outvote overpower oversee
    overtake pay persuade please poison praise prosecute protect protest punch punish pursue question raise recognize
    recognise refer reject release remember replace represent rescue respect reward rob satisfy save scare scold see
    serve shoot stab stop sue supervise support surprise suspect tackle target teach thank threaten tolerate torture
    track train treat trick trust urge visit warn watch welcome worship wound acquire buy overrule audit lobby
    sanction subsidize subsidise fund finance sponsor insure bail
""")

# Intransitive relations: verb and preposition.
VERB_PREPOSITION = _pairs("""
    depend on, depend upon, rely on, rely upon, lead to, result in, result from, originate from, derive from, arise
    from, stem from, emerge from, contribute to, belong to, consist of, converge to, respond to, react to, adapt to,
    turn into, evolve into, evolve from, develop into, transform into, translate into, descend from, listen to,
    shout at, bark at, stare at, point at, look at, lie to, lose to, crash into, bump into, run after, run into,
    interfere with, account for, act on, act upon, build on, build upon, rest on, feed on, prey on, hinge on, apply
    to, generalize to, generalise to, compensate for, benefit from, suffer from, learn from, borrow from,
    differentiate into, map to, map onto, report to, apologize to, apologise to, object to, escape from, flee from,
    hide from, care for, vote for, work for, complain about, live off, prevail over, triumph over, rule over,
    preside over, cater to, escalate into, follow from
""")

# One thing done with two: verb, its object, a preposition, another object ("convert A into B", "A was added to B").
VERB_OBJECT_PREPOSITION = _pairs("""
    convert to, convert into, transform into, transform to, turn into, translate to, translate into, change into,
    change to, substitute for, replace with, replace by, exchange for, swap for, trade for, switch for, prefer to,
    prefer over, choose over, favor over, favour over, select over, attribute to, reduce to, add to, apply to, map
    to, map onto, map into, send to, embed in, embed into, project onto, project to, derive from, infer from,
    predict from, extract from, remove from, reconstruct from, estimate from, generate from, synthesize from, learn
    from, recover from, deduce from, protect from, protect against, hide from, expose to, assign to,
    subtract from, integrate into, incorporate into, merge into, import from, export to, transfer to, transfer from,
    borrow from, lend to, sell to, condition on, regress on, base on, generalize to, extend to, adapt to, use as,
    treat as, represent as, express as, interpret as, view as, regard as, mistake for, precede by, follow by,
    evaluate on, train on, test on, fine-tune on, finetune on, investigate in, express in, detect in, observe in,
    inject into, insert into, place in, place on, place under, put on, put in, deduct from, explain by, nest in,
    dissolve in, immerse in, dip in, hide in, hide behind, hide under, refer to, subordinate to, withdraw from,
    isolate from, obtain from
""")

# Intransitive verbs that place one body in relation to another.
VERBS_OF_PLACE = _words("""
    sit stand lie lay rest lean hang jump climb run walk sleep perch hide crouch kneel land crawl float fall swim
    leap hop roll
""")

# Nouns of things done or seen with *of*, whose object may change places with that of another preposition.
VIEWED_NOUNS = _words("""
    use study analysis development evaluation application design implementation investigation detection
    identification treatment expression measurement review discussion distribution concentration accumulation
    localization localisation location storage survey model transfer integration recognition prediction
    classification estimation generation representation extraction retrieval optimization optimisation training
    understanding modeling modelling introduction collection production control regulation function exploration
    examination simulation theory description assessment selection management planning teaching release uptake
    delivery activity synthesis structure pattern adoption creation search availability validation inclusion
""")

# Relational nouns with two places, by their prepositions: "the effect of A on B".
NOUN_PLACES = {
    ("of", "on"): _words("effect impact influence dependence action reliance attack dependency"),
    ("of", "to"): _words(
        "application contribution response sensitivity reduction ratio relevance transfer conversion translation "
        "addition exposure resistance adaptation generalization generalisation extension susceptibility importance "
        "superiority mapping reaction transition opposition"
    ),
    ("of", "into"): _words("conversion transformation translation integration incorporation insertion injection"),
    ("of", "over"): _words("advantage superiority preference improvement benefit victory dominance"),
    ("of", "in"): _words("role importance presence prevalence involvement incidence significance"),
    ("of", "by"): _words("replacement inhibition regulation activation suppression modulation control"),
    ("of", "for"): _words("substitution usefulness importance"),
    ("of", "from"): _words("inference prediction reconstruction separation extraction removal"),
    ("for", "over"): _words("preference"),
    ("from", "to"): _words(
        "transition translation mapping transfer shift move change switch conversion movement transmission migration "
        "path progression map flow trip flight journey transformation signal message letter"
    ),
}

# "A is a cause of B": nouns that put one thing in an asymmetric relation to another.
COPULAR_NOUNS = _words("""
    cause consequence part component subset superset generalization generalisation marker predictor precursor
    determinant regulator inhibitor activator extension variant derivative descendant ancestor parent child son
    daughter member prerequisite precondition product by-product result source symptom sign indicator function
    subsidiary inhibitor successor predecessor supporter critic student teacher fan
""")

# Verbs and nouns of change, for "from A to B"; ranges ("from birth to death") stand the same either way round.
CHANGING = _words("""
    translate transfer move convert change switch travel increase decrease rise fall go drive fly migrate shift
    transition map progress grow improve reduce drop jump climb slip decline raise lower cut shrink swing walk run
    sail ride send carry ship transform upgrade downgrade relocate propagate flow spread adapt turn evolve
    generalize generalise advance plunge surge soar widen narrow expand extend transport commute return boost slash
    generalization transmission reduction increase decrease rise drop decline improvement translation shift jump
""")

# Adjectives that go with nearly any noun: their swap between two heads reads as written.
FREE_ADJECTIVES = _words("""
    abnormal abstract academic accurate active acute adequate administrative adult advanced adversarial adverse
    aerial african aggressive agricultural alternative amateur american analog analytical ancient angry annual
    appropriate arbitrary artificial asian attractive australian automated automatic autonomous bacterial bad basic
    beautiful behavioral bibliographic big binary biological biomedical black blond blonde blue brave brief bright
    british broad broken brown calm canadian careful causal cellular central centralized challenging cheap chemical
    chinese chronic civilian classical clean clear clinical closed coastal cognitive cold collaborative collective
    colorful commercial common compact comparative competitive complete complex comprehensive computational
    computerized conceptual conditional consistent constant contemporary contextual continuous
    conventional cool corporate correct costly creative critical crucial current dangerous dark deep dense
    descriptive desired detailed developmental diagnostic difficult digital direct dirty discrete distant distinct
    diverse domestic dominant dramatic dry dutch dynamic early eastern easy economic educational effective efficient
    egyptian elderly electric electrical electronic emotional empirical empty enormous environmental essential
    established european evolutionary exact excellent existing expensive experimental explicit extensive external
    fake famous fast federal female final financial fixed flat flexible foreign formal former fragile french
    frequent fresh friendly full-time functional fundamental funny future fuzzy generic genetic geographic geometric
    german giant global golden good graphical gray great greek green grey happy hard healthy heavy hidden
    hierarchical high high-dimensional high-level high-quality high-resolution high-risk historical hostile hot huge
    human hungry ideal illegal immediate imperfect implicit important inaccurate incorrect independent indian
    indirect industrial inefficient inferior informal inherent initial inner integrated intellectual intense
    intensive interactive intermediate internal international invalid invasive iranian iraqi irish irrelevant
    israeli italian japanese known korean labeled large large-scale late leather legal limited linear linguistic
    little local logical long long-term loud low low-cost low-dimensional low-level low-quality low-resolution
    low-risk lower magnetic major male manual marginal marine married massive mathematical meaningful mechanical
    medical mental metal mexican mild military minor missing mobile moderate modern molecular monthly moving narrow
    national natural nearby necessary negative nervous new noisy nonlinear normal northern novel nuclear numerical
    objective official old old-fashioned older online operational optimal orange organic organizational organized
    original outer palestinian part-time partial passive personal physical pink plastic polish political poor
    popular positive powerful practical precise predictive preliminary presidential primary printed prior private
    probabilistic professional profitable prolonged promising proposed protective psychological public pure purple
    qualitative quantitative quick quiet random rapid rare raw reactive real-time real-world realistic recent red
    regional regular relational relevant reliable religious remote representative residential retrospective rich
    rigid rigorous risky robotic robust rough round rural russian sad safe scalable scientific seasonal selective
    semantic sensory separate sequential serious severe sexual shallow sharp short short-term shy sick significant
    silver simple slow small small-scale smart smooth social soft solar solid sophisticated southern spanish sparse
    spatial special specialized spontaneous square stable standard static statistical stochastic strange
    strong structural stupid subjective substantial successful sufficient superior surgical swedish swiss symbolic
    synthetic syrian systematic tall tan targeted technical technological temporal tender textual theoretical
    therapeutic thick thin three-dimensional tiny tired toxic traditional tropical turkish two-dimensional typical
    ugly ukrainian undergraduate unexpected unified unique universal unknown unlabeled unrelated unstable
    unsuccessful unusual upper urban useful valid variable verbal viral visual volatile warm weak wealthy weekly
    western wet white wide widespread wooden yellow young
""")

# Adjectives of bodies, of living beings, of many things, of what can be counted, of what has a scale, of what goes on.
PHYSICAL_ADJECTIVES = _words("""
    black blond blonde blue brown dark empty gray green grey hairy leather metal muddy orange pink plastic purple red
    round shiny silver soft square striped tall tan tasty thick thin warm wet white wooden yellow cold hot dry dirty
    broken heavy
""")
ANIMATE_ADJECTIVES = _words("angry brave elderly happy hungry married sad shy sick tired wealthy young")
PLURAL_ADJECTIVES = _words("diverse separate distinct disparate widespread numerous")
COUNT_ADJECTIVES = _words("large small big huge giant tiny little enormous compact")
SCALE_ADJECTIVES = _words("low high")
PROCESS_ADJECTIVES = _words("rapid quick fast slow intense prolonged")

# Comparatives that stand on one scale, and so may be said of the same things.
SCALES = tuple(
    _words(group)
    for group in (
        "higher lower",
        "larger smaller bigger greater lesser",
        "older younger newer",
        "faster slower quicker",
        "better worse",
        "longer shorter",
        "earlier later",
        "stronger weaker",
        "richer poorer",
        "easier harder",
        "heavier lighter",
        "wider narrower broader",
    )
)

# Nouns that make an adverb or an amount of their adjective: "in large measure", "a minimal number".
LIGHT_NOUNS = _words("number amount measure way extent degree manner fashion period quantity share")

# What has a scale, besides the measures: it can be low or high.
SCALED = _words("""
    temperature dose concentration price resolution dimension power energy income pressure density complexity latency
    throughput bias variance priority demand supply salary wage yield return frequency intensity consumption cost
    growth mortality prevalence incidence availability capacity interest inflation unemployment expression activity
    similarity confidence fidelity sensitivity specificity
""")

# Adjectives that say nothing of their noun alone, and so are never swapped.
UNBOUND_ADJECTIVES = _words("""
    mean total net average overall main only several various certain different many more most less least much
    particular specific general due able available likely possible entire whole so-called own same other such
    further additional corresponding respective individual single multiple key subsequent similar equal respective
    following given state-of-the-art real actual principal potential usual equal due proposed related united
    increased based fixed so called dimensional
""")

# Adjectives and nouns that say much the same: a swap among them changes next to nothing.
SYNONYMS = tuple(
    _words(group)
    for group in (
        "big large huge great enormous giant massive major significant substantial considerable extensive important "
        "critical crucial high strong good comprehensive deep broad wide vast immense remarkable notable tremendous "
        "central superior",
        "bigger larger greater higher stronger broader wider",
        "biggest best largest greatest highest strongest broadest widest",
        "small little tiny low minor slight",
        "smaller lower lesser",
        "smallest lowest least slightest",
        "new novel modern recent current",
        "old ancient elderly",
        "previous former prior early earlier initial",
        "simple easy",
        "difficult hard complex challenging",
        "fast quick rapid efficient",
        "good excellent promising favorable favourable",
        "effective useful powerful successful great",
        "usual normal common typical regular",
        "rare unusual abnormal",
        "empirical experimental",
        "textual verbal",
        "robust stable reliable",
        "accurate precise",
        "severe serious acute",
        "final last",
        "comprehensive complete detailed systematic full",
        "essential fundamental basic necessary",
        "conventional traditional standard classical classic",
        "adequate sufficient appropriate proper suitable",
        "correct exact precise accurate true appropriate proper",
        "social sociological societal",
        "human clinical",
        "automatic automated computerized electronic",
        "unique distinct separate special",
        "existing current present contemporary established previous",
        "optimal ideal superior best",
        "biological cellular molecular",
        "medical clinical biomedical therapeutic",
        "diverse broad wide",
        "proposed novel new",
        "frequent common widespread",
        "large-scale large big extensive",
        "mental psychological cognitive",
        "electric electrical electronic digital",
        "poor improper bad inadequate inaccurate weak inferior",
        "scientific academic scholarly",
        "narrative story",
        "picture image photo",
    )
)

# Symmetric relations: the two places may change without changing what is said.
SYMMETRIC = _words("""
    resemble meet marry equal match correlate differ compare combine interact overlap intersect cooperate
    collaborate compete share border accompany join divorce rival parallel complement contrast coincide alternate
    constitute comprise represent denote tie draw
""")
