"""The command lines and files of ``retrokit study``."""

from pathlib import Path

from retrokit import cli
from tests.samples import Samples

STUDY = '[eval]\nencoders = ["static:dim=16", "bm25"]\non = "beir:beir"\n'


def make_study() -> dict[str, str]:
    """Run a study; returns the name of a step, which its digest ends."""
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    assert cli.run(["study", "run", "study.toml", "-o", "study"]) == 0
    step = min(path.name for path in Path("study/steps").glob("*.begun.json")).removesuffix(".begun.json")
    return {"STEP.json": f"{step}.json"}


REPORTS = {
    "study plan in/study.toml -o planned --estimate": """
# augment-crops.5d433e
retrokit augment crops in/texts.jsonl --output planned/augment-crops/5d433e.jsonl
# 1 step
about 0:00:00, without steps that have no estimate yet (1 of augment-crops)
""",
    "study run in/study.toml -o studied\nstudy status studied\nstudy report studied": """
Of 1 steps: 0 done, 1 failed, 0 missing (augment-crops.5d433e).
augment-crops.5d433e failed in … s: retrokit: in/texts.jsonl: no text gives a pair: 16 texts …
report: studied/report.html
retrokit: augment-crops.5d433e failed, see …
retrokit: 1 of 1 steps failed
step | state | seconds | last word
augment-crops.5d433e | failed | … | retrokit: in/texts.jsonl: no text gives a pair: 16 texts …
Of 1 steps: 0 done, 1 failed, 0 missing (augment-crops.5d433e).
report: studied/report.html
""",
}
SAMPLES = Samples(
    runs={"study plan": ["study", "plan", "study.toml", "-o", "out"]},
    without_extra={"study": ["study", "run", "study.toml", "-o", "out"]},
    inputs={
        "study run": "in/study.toml",
        "study plan": "in/study.toml",
        "study which-similarity": "--data in/pairs.jsonl --encoder in/bert",
        "study is-it-better-than-bm25": "--on beir:in/beir --encoder in/bert",
        "study does-it-see-near-misses": "--texts in/texts.jsonl --encoder in/bert",
    },
    preloads={"study": ["snakemake.cli", "retrokit.extensions.studies.engine"]},
    makers={"study": make_study},
    damaged={
        "plan": ("study/plan.json", "study status study"),
        "step": ("study/steps/STEP.json", "study status study"),
    },
    file_schemas={
        r"plan\.json": "file-plan",
        r"states\.json": "file-steps",
        r"steps/[^/]*\.begun\.json": "file-begun",
        r"steps/[^/]*\.json": "file-step",
    },
    reports=REPORTS,
)
