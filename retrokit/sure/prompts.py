"""The prompts of SURE's protocol (SURE, A).

There are three wordings: ``ours``, the ``paper``'s own of its Appendix A, and ``few-shot`` for base language models.
The last two have no prompt for retries or for judging, so ours are used there. They contain texts without tags.
"""

from pathlib import Path

from retrokit.data.sure import VARIANT_FILES
from retrokit.llm import prompts
from retrokit.llm.prompts import FEW_SHOT, OURS, PromptShape, PromptTemplate

_GENERATED = ("marker",)
_JUDGED = ("yes", "no")
SHAPES: dict[str, PromptShape] = {
    "key-sentences": PromptShape(("query", "passage"), _GENERATED),
    "pronouns": PromptShape(("sentences", "passage"), _GENERATED),
    "noise": PromptShape(("query",), _GENERATED),
    "summary": PromptShape(("query", "passage"), _GENERATED),
    "expansion": PromptShape(("passage",), _GENERATED),
    "paraphrase": PromptShape(("query", "passage"), ("keywords", *_GENERATED)),
    "verify-key-sentences": PromptShape(("query", "sentences"), _JUDGED),
    "verify-summary": PromptShape(("query", "summary"), _JUDGED),
    "verify-paraphrase": PromptShape(("query", "passage"), _JUDGED),
    "retry": PromptShape(("reason",)),
    "judge": PromptShape(("query", "passage", "variant", "requirement"), (*_JUDGED, *VARIANT_FILES)),
}
"""The prompts by name; each is a file NAME.toml."""

PAPER = "paper"
WORDINGS = (OURS, PAPER, FEW_SHOT)


def load_prompts(named: str | Path = OURS) -> dict[str, PromptTemplate]:
    """The prompts of a wording, or ours but for those of a folder (:func:`retrokit.llm.prompts.load_prompts`)."""
    return prompts.load_prompts(named, SHAPES, "retrokit.sure", WORDINGS)
