"""The tables of the commands ``retrokit vectors``."""

from retrokit.core.sheet import Sheet, facts
from retrokit.extensions.vectors.bridging import Bridged
from retrokit.extensions.vectors.canaries import CanaryReport
from retrokit.extensions.vectors.identification import Identification
from retrokit.report.evaluation import evaluation_sheets


def canary_sheet(report: CanaryReport) -> Sheet:
    """A row for the encoder as it is, and for each change that was tried."""
    prompt = "without a prompt" if not report.prompt else f"with the prompt {report.prompt!r}"
    rows = [
        [
            trial.change,
            f"{trial.cosine:.5f}",
            "{:.3f} to {:.3f}".format(*trial.norms),
            f"{trial.order:.3f}",
            f"{trial.agreeing} of {report.texts}",
        ]
        for trial in report.trials
    ]
    title = f"{report.encoder} against {report.export} ({report.texts} texts as {report.role}, {prompt})"
    columns = ("change", "least cosine", "norm / export's", "order (τ)", "texts that agree")
    return Sheet(title, columns, 1, rows, report.verdict)


def identify_sheets(result: Identification) -> list[Sheet]:
    """The explanations of a table, the rows that were embedded, and where rows differ."""
    rows = {
        "expected": result.expected,
        "rows embedded": f"{result.embedded:,} of {result.rows:,}",
        "rows inferred": f"{result.inferred:,}, from vectors and words of their texts",
        "tolerance": f"{result.tolerance:.2g} (cosine distance)",
        "ten nearest neighbours": f"{result.overlap:.1%} stay when rows that differ are embedded again",
        "rows to embed again": f"{result.again:,}",
        "verdict": result.conclusion,
    }
    if result.overlap_differing is not None:
        rows["ten nearest neighbours"] += f"; of those rows {result.overlap_differing:.1%}"
    title = f"{result.table} ({result.rows:,} rows of {result.dimension} dimensions)"
    return [facts(title, rows), *result.sheets()]


def bridge_sheets(bridged: Bridged) -> list[Sheet]:
    """What a bridge is worth, how many texts it takes, and what it finds on the tasks."""
    gained = {
        f"of the gain, {task}": "no gain is shown" if share is None else f"{share:.0%}"
        for task, share in bridged.gained.items()
    }
    written = "" if bridged.bytes_saved is None else f", {bridged.bytes_saved / 1e6:,.1f} MB to write"
    rows = {
        "folder": bridged.folder,
        "map": f"{bridged.map}, into the {bridged.into} space",
        "texts in the sample": f"{bridged.texts:,}; {bridged.enough:,} are enough",
        "known-item MRR": f"{bridged.mrr:.4f}; without a bridge {bridged.mrr_unmapped:.4f}",
        "saved": f"{bridged.minutes_saved:,.1f} minutes of embedding{written}",
        **gained,
        "verdict": bridged.verdict,
    }
    curve = [[f"{at['texts']:,}", f"{at['mrr']:.4f}"] for at in bridged.curve]
    return [
        facts("bridge", rows),
        Sheet("texts that the map is fitted to", ["texts", "known-item MRR"], 0, curve),
        *([] if bridged.evaluation is None else evaluation_sheets(bridged.evaluation)),
    ]
