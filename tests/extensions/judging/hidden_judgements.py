"""Do the intervals of `retrokit judge estimate --verdicts` cover the figures of the whole test set?

    python tests/extensions/judging/hidden_judgements.py ../shared/data/cisi --verdicts 100 --draws 500

Each draw hides 30% of the judgements, has `--verdicts` of the pairs that are then unjudged judged by the whole test
set, and counts the intervals that contain its figures. Queries stay that lose all their judgements.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

import retrokit
from retrokit.data.beir import RetrievalData, read_beir
from retrokit.extensions.judging.estimate import Predictor, draw_pairs, estimate
from retrokit.extensions.judging.prediction_powered import PoweredEstimate
from retrokit.extensions.judging.unjudged import Runs, pool_of
from retrokit.metrics.ranking import evaluate_run, mean

SHARE = 0.3


@dataclass
class Coverage:
    """The intervals of one figure."""

    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def add(self, estimated: PoweredEstimate, truth: float) -> None:
        self.inside.append(estimated.low <= truth <= estimated.high)
        self.widths.append(estimated.high - estimated.low)
        self.errors.append(estimated.value - truth)

    @property
    def row(self) -> str:
        inside, width, error = (np.mean(values) for values in (self.inside, self.widths, self.errors))
        return f"{inside:.1%} | {width / 2:.4f} | {error:+.4f} | {np.std(self.errors):.4f}"


def hidden(data: RetrievalData, rng: np.random.Generator) -> set[tuple[str, str]]:
    """A share of the pairs judged relevant."""
    pairs = [
        (query, document) for query, grades in data.qrels.items() for document, grade in grades.items() if grade > 0
    ]
    return {pairs[place] for place in rng.choice(len(pairs), round(SHARE * len(pairs)), replace=False)}


def coverage(
    data: RetrievalData, runs: Runs, metrics: list[str], verdicts: int, draws: int, depth: int
) -> dict[str, Coverage]:
    """The coverage of each figure: of systems, of their differences, and of the share of relevant pairs."""
    figures = {system: evaluate_run(data.qrels, run, metrics, data.level) for system, run in runs.items()}
    truths = {(name, system): mean(figures[system][name]) for system in runs for name in metrics}
    result: dict[str, Coverage] = {}
    for seed in range(draws):
        out = hidden(data, np.random.default_rng(seed))
        left = {q: {d: g for d, g in grades.items() if (q, d) not in out} for q, grades in data.qrels.items()}
        pool = pool_of(replace(data, qrels=left), runs, depth)
        predictor = Predictor(pool, metrics, np.empty((0, len(pool.query))))
        drawn, probabilities = draw_pairs(predictor, verdicts, seed)
        truth = np.array([(pool.queries[pool.query[p]], pool.documents[p]) in out for p in pool.open.tolist()], float)
        of = estimate(predictor, drawn, truth[drawn], probabilities, len(drawn))
        for (name, place), estimated in of.metrics.items():
            system = pool.systems[place]
            result.setdefault(f"{name} of {system}", Coverage()).add(estimated, truths[name, system])
        for (name, place), estimated in of.differences.items():
            system, first = pool.systems[place], pool.systems[0]
            difference = truths[name, system] - truths[name, first]
            result.setdefault(f"{name}, {system} − {first}", Coverage()).add(estimated, difference)
        result.setdefault("share of relevant pairs", Coverage()).add(of.relevant, float(truth.mean()))
    return result


def rankings(folder: str, systems: list[str], depth: int) -> Runs:
    """The first documents of each system."""
    found = retrokit.evaluate(systems, [f"beir:{folder}"], metrics=[f"recall@{depth}"], keep_runs=True)
    return {result.encoder: result.run for result in found.results}


def rows(of: Mapping[str, Coverage]) -> Iterator[str]:
    yield "| figure | covered | half the width | mean error | SD of errors |\n|---|---:|---:|---:|---:|"
    yield from (f"| {name} | {one.row} |" for name, one in of.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--systems", nargs="+", default=["bm25", "minilm"])
    parser.add_argument("--metrics", nargs="+", default=["ndcg@10", "precision@10", "recall@10"])
    parser.add_argument("--verdicts", type=int, nargs="+", default=[100])
    parser.add_argument("--draws", type=int, default=500)
    given = parser.parse_args()
    depth = max(int(name.partition("@")[2]) for name in given.metrics)
    for folder in given.folders:
        runs = rankings(folder, given.systems, depth)
        for verdicts in given.verdicts:
            print(f"\n{folder}, {verdicts} verdicts, {given.draws} draws\n")
            of = coverage(read_beir(folder), runs, given.metrics, verdicts, given.draws, depth)
            print("\n".join(rows(of)), flush=True)


if __name__ == "__main__":
    main()
