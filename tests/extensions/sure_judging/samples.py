"""The command lines of ``retrokit build-sure audit``, ``judge`` and ``agreement``."""

from pathlib import Path

from retrokit import cli
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.samples import Samples
from tests.sure.pretending import by_rules
from tests.sure_folders import small_folder


def make_verdicts() -> dict[str, str]:
    """Let two annotators judge a benchmark."""
    small_folder(Path("judged"))
    with ChatServer(Plan(lambda body: by_rules(prompt_of(body)))) as server:
        words = ["build-sure", "judge", "judged", "--llm", f"openai:m,url={server.url}", "--store", "judged.sqlite"]
        for annotator, output in (("A", "verdicts.jsonl"), ("B", "other.jsonl")):
            assert cli.run([*words, "--sample", "3", "--annotator", annotator, "-o", output]) == 0
    return {}


SAMPLES = Samples(
    inputs={
        "build-sure audit": "in/beir",
        "build-sure judge": "in/beir --llm openai:x,url=http://127.0.0.1:9/v1",
    },
    makers={"verdicts.jsonl": make_verdicts},
    damaged={"verdicts": ("verdicts.jsonl", "build-sure agreement verdicts.jsonl other.jsonl")},
    line_schemas={"build-sure-judge": "file-sure-verdict"},
    reports={
        "build-sure audit in/sure --sample 3 -o page.html": """
page.html: 15 variants of 3 queries; open it in a browser
""",
    },
)
