"""Judge a built SURE benchmark: a page for people, a language model as annotator, and how far annotators agree."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.sure_judging.annotators import agreement as agreement
    from retrokit.extensions.sure_judging.annotators import read_verdicts as read_verdicts
    from retrokit.extensions.sure_judging.audit import draw_sample as draw_sample
    from retrokit.extensions.sure_judging.audit import judge_prompts as judge_prompts
    from retrokit.extensions.sure_judging.audit import judge_sample as judge_sample
    from retrokit.extensions.sure_judging.audit import write_audit_page as write_audit_page

_HERE = "retrokit.extensions.sure_judging"
EXTENSION = Extension(
    "sure_judging",
    "Judge a built SURE benchmark: by people, by a language model, and how far they agree.",
    commands=(
        CommandEntry(
            "build-sure audit",
            "Write an HTML page on which people judge a sample of variants (SURE 4.1).",
            f"{_HERE}.cli:audit",
        ),
        CommandEntry(
            "build-sure judge",
            "Have a language model judge the sample of the audit page (SURE 4.1).",
            f"{_HERE}.cli:judge",
            prints="lines",
        ),
        CommandEntry(
            "build-sure agreement",
            "Compare annotators: verdicts, Cohen's and Fleiss' kappa (SURE, Table 2).",
            f"{_HERE}.cli:agreement",
            prints="json",
        ),
    ),
    entries={"retrokit.records": {"agreement": f"{_HERE}.records:AGREEMENT"}},
    python={
        "agreement": f"{_HERE}.annotators:agreement",
        "draw_sample": f"{_HERE}.audit:draw_sample",
        "judge_prompts": f"{_HERE}.audit:judge_prompts",
        "judge_sample": f"{_HERE}.audit:judge_sample",
        "read_verdicts": f"{_HERE}.annotators:read_verdicts",
        "write_audit_page": f"{_HERE}.audit:write_audit_page",
    },
)
__getattr__ = EXTENSION.attribute
