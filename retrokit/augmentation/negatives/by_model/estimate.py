"""What it takes to have a language model write near-misses, told from the texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retrokit.augmentation.negatives.by_model.answers import SYSTEM
from retrokit.augmentation.negatives.family import Family
from retrokit.augmentation.negatives.generator import sentences_of, why_not
from retrokit.llm.base import estimated_tokens


@dataclass(frozen=True)
class CallEstimate:
    """What a model would be asked: a call for each sentence and family.

    Attributes:
        texts, sentences: those that were read, and their sentences that are running text.
        prompt_tokens, completion_tokens: about, if an answer is as long as its sentence and nothing is thought.
        whole: whether all texts were read.
    """

    texts: int
    sentences: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    whole: bool = True

    def __str__(self) -> str:
        read = f"{self.texts:,} texts" if self.whole else f"the first {self.texts:,} texts"
        return (
            f"{read}: {self.sentences:,} sentences, at most {self.calls:,} calls, about {self.prompt_tokens:,} tokens "
            f"of prompts and {self.completion_tokens:,} of answers"
        )


def estimate(
    texts: Iterable[str | tuple[str, str]], families: Sequence[Family], most_texts: int | None = None
) -> CallEstimate:
    """Count the calls for ``texts``, or for the first ``most_texts``, and estimate their tokens.

    >>> from retrokit.augmentation.negatives.family import load_families
    >>> estimate(["The cat sleeps in the box. Hello."], load_families(["negation", "spatial"])).calls
    2
    """
    count = sentences = prompted = written = 0
    for text in texts:
        if count == most_texts:
            return CallEstimate(count, sentences, sentences * len(families), prompted, written, whole=False)
        count += 1
        for anchor, _ in sentences_of(text):
            if why_not(anchor) is None:
                sentences += 1
                length = estimated_tokens(anchor)
                prompted += length * len(families)
                written += length * len(families)
    prompted += sentences * sum(estimated_tokens(SYSTEM, family.prompt) for family in families)
    return CallEstimate(count, sentences, sentences * len(families), prompted, written)
