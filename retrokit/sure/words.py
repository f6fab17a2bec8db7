"""What counts as a sentence, for the checks of variants and for their statistics."""

from retrokit.llm.words import words_of


def sentences_of(text: str, language: str) -> list[str]:
    """The sentences of ``text`` without the white space around them, by the rules of ``language``; lines end them."""
    from retrokit.augmentation.crops import Multilingual

    splitter = Multilingual(language)
    cut = (sentence.strip() for line in text.splitlines() for sentence in splitter.cut(line))
    return [sentence for sentence in cut if words_of(sentence)]
