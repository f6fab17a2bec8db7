"""Queries that a base language model writes after examples (InPars, Promptagator), against crops of the same abstracts.

    python docs/reproduction/scripts/base_model_queries.py SCIFACT MODEL OUT [PASSAGES] [ENCODER ...]

Few-shot claims for some abstracts of SciFact, kept if BM25 brings their abstract back; crops of the same abstracts;
each encoder is fine-tuned on either with three seeds and evaluated on SciFact's test. Answers and results are cached:
the same command resumes.
"""

import json
import sys
from pathlib import Path

from retrokit.cli import run

SEEDS = (0, 1, 2)


def step(*words: object) -> None:
    """Run a command line, shown as it would be typed."""
    print("$ retrokit", *words, flush=True)
    code = run([str(word) for word in words])
    if code:
        sys.exit(code)


def main(scifact: str, model: str, out: Path, passages: str = "150", *encoders: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    claims, crops, abstracts = (out / f"{name}.jsonl" for name in ("claims", "crops", "abstracts"))
    asked = ["--llm", f"local:{model},batch=16", "--prompts", "few-shot", "--types", "claim", "--concurrency", 32]
    if not claims.exists():
        kept = ["--encoder", "bm25", "--judge", "none", "--limit", passages]
        step("augment", "queries", scifact, *asked, *kept, "-o", claims)
    texts = [json.loads(line)["positive"] for line in claims.read_text().splitlines()]
    abstracts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    step("augment", "crops", abstracts, "-o", crops)
    for place, encoder in enumerate(encoders or ("static:384",)):
        folders = []
        for data in (claims, crops):
            for seed in SEEDS:
                folders.append(out / f"{place}-{data.stem}-{seed}")
                if not folders[-1].exists():
                    how = ["--epochs", 10, "--batch-size", 32, "--seed", seed]
                    step("finetune", encoder, "--data", data, *how, "-o", folders[-1])
        results = ["--on", f"beir:{scifact}", "--metrics", "ndcg@10,recall@100", "--results", out / f"results-{place}"]
        step("eval", *folders, encoder, *results)
        step("eval", *folders[len(SEEDS) :], encoder, *results)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
