"""The command lines of ``retrokit report``."""

from tests.samples import Samples

PROBES = "magnitude checkpoints fragments near-miss fisher".split()
PRINTED = {
    "eval --json": "eval.json",
    "eval of several --json": "several.json",
    "rerank --json": "rerank.json",
    "check --json": "check.json",
    "build-sure --json": "built.json",
    **{f"probe {name} --json": f"probe-{name}.json" for name in PROBES},
}

SAMPLES = Samples(
    runs={"report": ["report", "results", "-o", "page.html"]},
    inputs={"report": "in/baseline.json in/beir"},
    preloads={"page": ["retrokit.extensions.page.page"]},
    damaged={
        **{kind: (file, f"report {file} -o out") for kind, file in PRINTED.items()},
        "run, report": ("trained/retrokit.json", "report trained -o out"),
        "metrics, report": ("trained/metrics.jsonl", "report trained -o out"),
        "verifier, report": ("verifier/retrokit.json", "report verifier -o out"),
    },
)
