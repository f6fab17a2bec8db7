"""The tables of the commands ``retrokit vectors``."""

from retrokit.cli.api import Sheet
from retrokit.extensions.vectors.canaries import CanaryReport


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
