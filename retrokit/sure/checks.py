"""Checks of variants that need no language model: what a variant of each kind must and must not hold.

The bounds were set on the published FiQA and MS MARCO sets: nearly all that is sound there passes
(docs/reproduction/scripts/check_published_sure.py).
"""

from collections.abc import Sequence
from itertools import combinations

from retrokit.core.errors import shortened
from retrokit.llm.answers import Rejected, holds_run, share_within, words_of

NEARLY = 0.8
"""Minimum share of a text that another text must contain word for word to count as containing it."""

KEPT = 0.5
"""How many of the key sentences' words stay when their pronouns are replaced; up to half may have been pronouns."""

SUMMARY_LONGEST, SUMMARY_MORE = 1.2, 10
"""A summary has at most this many times the passage's words, and this many more."""

EXPANSION_LEAST, EXPANSION_MOST = 5, 150
"""How many words an expansion by two sentences adds."""

PARAPHRASE_SHORTEST, PARAPHRASE_LONGEST = 0.5, 3.0
"""A paraphrase's words over the passage's: definitions take more room than the words they stand for."""

NOISE_LEAST, NOISE_MOST = 3, 60
"""Words of a sentence that does not answer the query."""

TELLING = 5
"""A key sentence of fewer words, such as a name, may stand in a sentence that does not answer."""

CAUSES: dict[str, str] = {
    "off_format": "the answer is not in the form that was asked for",
    "cut_off": "the answer is cut off at its longest",
    "refused": "the model does not take the prompt",
    "not_verbatim": "key sentences that are not in the passage",
    "content_changed": "more than pronouns was replaced in the key sentences",
    "repeated": "the two sentences that should not answer are the same",
    "holds_key_sentence": "a sentence that should not answer contains a key sentence",
    "content_missing": "an expansion without all of the passage",
    "no_keyword": "none of the named keywords is in the query",
    "keyword_left": "a keyword of the query is still in the paraphrase",
    "unchanged": "the variant is the passage",
    "too_short": "too short",
    "too_long": "too long",
    "verdict": "the model's own verification failed",
}
"""Why a variant is rejected, by the name that it is counted under."""


def check_key_sentences(sentences: Sequence[str], passage: str) -> None:
    """Each key sentence is nearly word for word in the passage, and all together are no longer than it.

    Raises:
        Rejected: ``not_verbatim``, ``too_long``.
    """
    passage_words = words_of(passage)
    for sentence in sentences:
        if share_within(words_of(sentence), passage_words) < NEARLY:
            raise Rejected("not_verbatim", f"{_shown(sentence)} does not stand in the passage word for word")
    if sum(len(words_of(sentence)) for sentence in sentences) > len(passage_words):
        raise Rejected("too_long", "the key sentences are longer than the passage")


def check_pronouns(replaced: str, sentences: str, passage: str, query: str) -> None:
    """With pronouns replaced the key sentences keep their other words; what is new is the passage's or the query's.

    Raises:
        Rejected: ``content_changed``, ``too_long``.
    """
    before, after = words_of(sentences), words_of(replaced)
    if share_within(before, after, 1) < KEPT:
        raise Rejected("content_changed", "more than pronouns was replaced or left out")
    old = set(before)
    added = [word for word in after if word not in old]
    if len(added) > 5 and share_within(added, words_of(passage) + words_of(query), 1) < 0.5:
        raise Rejected("content_changed", "what takes the pronouns' place is not in the passage")
    if len(after) > 2 * len(before) + 10:
        raise Rejected("too_long", "the sentences have grown by more than the pronouns' referents")


def check_noise(noise: Sequence[str], key_sentences: Sequence[str]) -> None:
    """Two different sentences that do not answer hold no key sentence, nor does a key sentence hold one of them.

    Raises:
        Rejected: ``holds_key_sentence``, ``repeated``, ``too_short``, ``too_long``.
    """
    keys = [words for words in map(words_of, key_sentences) if len(words) >= TELLING]
    for sentence in noise:
        words = words_of(sentence)
        if len(words) < NOISE_LEAST:
            raise Rejected("too_short", f"{_shown(sentence)} is not a sentence")
        if len(words) > NOISE_MOST:
            raise Rejected("too_long", f"a sentence of {len(words)} words is too long; use at most {NOISE_MOST}")
        for key in keys:
            short, long = sorted((key, words), key=len)
            if share_within(short, long) >= NEARLY:
                raise Rejected("holds_key_sentence", f"{_shown(sentence)} contains what answers the query")
    for first, second in combinations(map(words_of, noise), 2):
        short, long = sorted((first, second), key=len)
        if share_within(short, long) >= NEARLY:
            raise Rejected("repeated", f"{_shown(noise[0])} stands twice; write two different sentences")


def check_summary(summary: str, passage: str) -> None:
    """A summary is not the passage, and not much longer.

    Raises:
        Rejected: ``unchanged``, ``too_long``.
    """
    short, passage_words = words_of(summary), words_of(passage)
    _check_changed(short, passage_words)
    if len(short) > SUMMARY_LONGEST * len(passage_words) + SUMMARY_MORE:
        raise Rejected("too_long", "the summary is longer than the passage")


def check_expansion(expansion: str, passage: str) -> None:
    """An expansion contains the passage nearly word for word, and about two sentences more.

    Raises:
        Rejected: ``content_missing``, ``too_short``, ``too_long``.
    """
    long, passage_words = words_of(expansion), words_of(passage)
    if share_within(passage_words, long) < NEARLY:
        raise Rejected("content_missing", "the expansion does not keep all of the passage as it is")
    # a passage may say things twice, which its expansion need not: what is new counts, not what is more
    if (1 - share_within(long, passage_words)) * len(long) < EXPANSION_LEAST - 0.5:
        raise Rejected("too_short", "nothing was added to the passage")
    if len(long) > len(passage_words) + EXPANSION_MOST:
        raise Rejected("too_long", "more than two sentences were added to the passage")


def check_paraphrase(paraphrase: str, passage: str, keywords: Sequence[str]) -> None:
    """A paraphrase differs from the passage, is about as long, and contains none of the keywords.

    Raises:
        Rejected: ``unchanged``, ``keyword_left``, ``too_short``, ``too_long``.
    """
    other, passage_words = words_of(paraphrase), words_of(passage)
    _check_changed(other, passage_words)
    repeated = [keyword for keyword in keywords if holds_run(other, words_of(keyword))]
    if repeated:
        named = ", ".join(_shown(keyword) for keyword in repeated[:5])
        raise Rejected("keyword_left", f"the paraphrased passage still has {named}")
    if len(other) < PARAPHRASE_SHORTEST * len(passage_words):
        raise Rejected("too_short", "the paraphrased passage leaves out too much of the passage")
    if len(other) > PARAPHRASE_LONGEST * len(passage_words) + 10:
        raise Rejected("too_long", "the paraphrased passage is much longer than the passage")


def keywords_in_query(named: Sequence[str], query: str) -> list[str]:
    """Those of the named keywords that stand in the query.

    Raises:
        Rejected: ``no_keyword``: none does.
    """
    words = words_of(query)
    matches = [keyword for keyword in named if holds_run(words, words_of(keyword))]
    if not matches:
        raise Rejected("no_keyword", "the keywords have to be words of the query, as they stand there")
    return matches


def _check_changed(variant: Sequence[str], passage: Sequence[str]) -> None:
    if list(variant) == list(passage):
        raise Rejected("unchanged", "the text is the passage, unchanged")


def _shown(text: str) -> str:
    return repr(shortened(text, 60))
