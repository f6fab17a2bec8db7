"""Reading answers of the protocol's own forms (SURE, A)."""

import re

from retrokit.llm.answers import LIST_MARK, Rejected, after, bare, place_of, read_sentences, read_text
from retrokit.llm.words import words_of
from retrokit.sure.words import sentences_of

_INLINE_MARK = re.compile(r"(?:^|(?<=[.!?\"”])\s+)\(?[12][.)]\s+(?=\S)")


def read_two_sentences(answer: str, marker: str, language: str) -> list[str]:
    """The two sentences after ``marker``: two lines, or one line of two sentences.

    Raises:
        Rejected: there are not two, or there is no marker.
    """
    sentences = read_sentences(answer, marker)
    if len(sentences) == 1:
        parts = [part for part in (bare(part) for part in _INLINE_MARK.split(sentences[0])) if words_of(part)]
        sentences = parts if len(parts) == 2 else sentences_of(sentences[0], language)
    if len(sentences) != 2:
        raise Rejected("off_format", f"two sentences were asked for, here are {len(sentences)}")
    return sentences


def read_paraphrase(answer: str, keywords_marker: str, marker: str) -> tuple[list[str], str]:
    """The keywords that the model names, and the passage after ``marker``.

    Raises:
        Rejected: one of the two parts is missing.
    """
    passage = read_text(answer, marker)
    before = after(answer[: place_of(answer, marker)[0]], keywords_marker)
    parts = [
        part
        for line in before.splitlines()
        for part in re.split(r"[,;、，；]|\s/\s|\s->\s.*|\s→\s.*", LIST_MARK.sub("", line.strip().strip("[]")))
    ]
    keywords = [bare(re.sub(r"\([^)]*\)\s*$", "", part.strip()).strip().rstrip(".:")) for part in parts]
    named = [keyword for keyword in dict.fromkeys(keywords) if words_of(keyword)]
    if not named:
        raise Rejected("off_format", f"no keyword stands after {keywords_marker!r}")
    return named, passage
