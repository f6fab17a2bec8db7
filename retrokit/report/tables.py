"""Tables of a training run, of a verifier's calibration and of an export for people, and strict JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from retrokit.core.notices import harmless
from retrokit.report.overlaps import overlap_sheets
from retrokit.report.sheets import Table, facts, noted, table, to_rich
from retrokit.training.config import FinetuneConfig, TrainingConfig
from retrokit.training.rerankers.config import VerifierConfig

if TYPE_CHECKING:  # showing what is there takes no trainer
    from rich.console import Group

    from retrokit.ranking.export import Export
    from retrokit.ranking.reranking.calibrate import Calibration, Share
    from retrokit.ranking.retrieval.files import Hits
    from retrokit.training.history import Outcome
    from retrokit.training.preflight import Preflight
    from retrokit.training.rerankers.job import VerifierPreflight


SHOWN = 100  # characters of a text that was found


def steps_of(steps: Mapping[str, float]) -> str:
    """Planned steps, in words."""
    planned = f"{steps['total']:,}" if "total" in steps else f"as many as fit into {steps['time_budget']:g} s"
    text = f"{planned} ({steps['per_epoch']:,} an epoch)"
    if "seconds_each" not in steps:
        return text
    each = f"{text}, {steps['seconds_each']:.3g} s each here"
    return f"{each}: {steps['seconds_each'] * steps['total']:,.0f} s of training" if "total" in steps else each


def preflight_tables(preflight: Preflight) -> list[Table | Group]:
    """What a run will do."""
    plan = [source_table(preflight.sources), length_table(preflight.lengths), _plan_table(preflight)]
    overlapping = map(to_rich, overlap_sheets(preflight.overlaps))
    return [*plan, *overlapping, *(memory_tables(preflight.memory) if preflight.memory else ())]


def memory_tables(memory: Mapping[str, Any]) -> list[Table]:
    """What a step of training takes (:class:`~retrokit.training.step_memory.Memory`)."""
    always = {name: memory[name] for name in ("weights", "copies", "gradients", "optimizer")}
    fixed = facts("memory of any batch", {name: _size(size) for name, size in always.items()}, "right")
    columns = ["batch", "tokens", "activations", "in all", "with gradient checkpointing", "in all"]
    grows = table("memory of a batch whose texts all have so many tokens", [], columns)
    for row in memory["activations"]:
        sizes = [row["kept"], row["checkpointed"]]
        cells = [text for size in sizes for text in (_size(size), _size(size and size + sum(always.values())))]
        grows.add_row(f"{row['batch']:,}", f"{row['tokens']:,}", *cells)
    return [fixed, grows]


def _size(size: int | None) -> str:
    if size is None:
        return "–"
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def source_table(sources: list[dict[str, Any]]) -> Table:
    """What each source of training data holds."""
    counts = ("records", "anchors", "documents", "duplicates")
    result = table("training data", ["source"], [*counts, "weight"])
    for source in sources:
        result.add_row(source["name"], *(f"{source[key]:,}" for key in counts), f"{source['weight']:g}")
    return result


def length_table(lengths: dict[str, dict[str, Any]]) -> Table:
    """How long the texts of each role are."""
    tokens = table("tokens of a text (sample)", ["role"], ["50%", "90%", "99%", "longest", "limit", "cut"])
    for role, summary in lengths.items():
        percentiles = [str(value) for value in summary["percentiles"].values()]
        tokens.add_row(role, *percentiles, str(summary["limit"] or "none"), f"{summary['share_cut']:.1%}")
    return tokens


def _plan_table(preflight: Preflight) -> Table:
    parameters, scale, steps = preflight.parameters, preflight.scale, preflight.steps
    own = f", {parameters['similarity']:,} of them the similarity's" if parameters["similarity"] else ""
    starting = f"{scale['effective_scale']:.4g} (typical score {scale['typical_score']:.4g})"
    rows = {
        "steps": steps_of(steps),
        "trainable parameters": f"{parameters['trainable']:,} of {parameters['total']:,}{own}",
        "scale": f"{scale['scale']:.4g}; starts as sharp as cosine at {starting}",
    }
    return facts("plan", rows | _chosen(preflight.configuration, FinetuneConfig, "scale"))


_MATTERS = ("encoder", "sim", "loss", "batch_size")
_ELSEWHERE = ("data", "dev", "output", "overwrite", "resume", "steps", "epochs", "time_budget")


def _chosen(configuration: Mapping[str, Any], kind: type[TrainingConfig], *elsewhere: str) -> dict[str, str]:
    """The options that matter always, and those that are not their defaults; a run's folder has all of them."""
    usual = {"processes": 1, **{option.name: option.default for option in fields(kind)}}
    rows = {}
    for name, value in configuration.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        default = usual.get(name)
        is_usual = values == [*default] if isinstance(default, (list, tuple)) else value in (None, default)
        if name not in (*_ELSEWHERE, *elsewhere) and (name in _MATTERS or not is_usual):
            rows[name.replace("_", " ")] = ", ".join(map(str, values))
    return rows


def outcome_table(outcome: Outcome) -> Table:
    """What a finished run yielded."""
    stopped = f" ({outcome.stopped_because})" if outcome.stopped_because else ""
    rows = {"run": outcome.folder, "steps": f"{outcome.steps:,}{stopped}"}
    if outcome.evaluations:
        first, last = outcome.evaluations[0], outcome.evaluations[-1]
        best = next((row for row in outcome.evaluations if row["step"] == outcome.best_step), last)
        for metric in first["evaluation"]:
            change = f"{first['evaluation'][metric]:.4f} → {best['evaluation'][metric]:.4f}"
            rows[metric] = f"{change} (step {first['step']} → {best['step']})"
        if outcome.baseline is not None:
            own = ", ".join(f"{metric} {value:.4f}" for metric, value in outcome.baseline["evaluation"].items())
            rows[f"as it came, under its own {outcome.baseline['similarity']}"] = own
        if outcome.gain is not None:
            verdict = "better" if outcome.gain > 0 else "no better"
            rows["gain over the start"] = f"{outcome.gain:+.4f} {outcome.metric}: {verdict}"
        converged = f"at step {outcome.converged_at}" if outcome.converged_at is not None else "not yet"
        rows["converged (MAG, C.1)"] = converged
    if outcome.losses:
        rows["training loss"] = outcome.loss_change
    return facts(None, rows)


def export_table(export: Export) -> Table:
    """What an export holds, and what the other side must be put through."""
    note = export.note
    rows = {
        "folder": str(export.folder),
        "embeddings": f"{note['count']:,} of {note['dimension']:,} dimensions in {note['dtype']}, role {note['role']}",
        "similarity": note["similarity"]["spec"],
        "metric": note["metric"],
        **{f"a {role} x becomes": words for role, words in note["transform"].items()},
        "queries from a file": note["prepare_queries"]["command"],
    }
    return facts(None, rows)


def hits_tables(hits: Hits) -> list[Table | Group]:
    """What a search found, a table a query."""
    tables: list[Table | Group] = []
    for query, ranking in zip(hits.queries, hits.found, strict=True):
        texts = ["text"] if any(hit.text is not None for hit in ranking) else []
        shown = table(harmless(query), ["rank", "document", *texts], ["score"])
        for rank, hit in enumerate(ranking, start=1):
            beginning = [harmless(textwrap.shorten(hit.text, SHOWN, placeholder="…"))] if hit.text is not None else []
            shown.add_row(str(rank), harmless(hit.id), *beginning, f"{hit.score:.4f}")
        tables.append(shown if ranking else noted(shown, "nothing was found"))
    return tables


def verifier_preflight_tables(preflight: VerifierPreflight) -> list[Table]:
    """What a run will do, how large the verifier or the cross-encoder is and how fast."""
    parameters, steps = preflight.parameters, preflight.steps
    what, start = (
        ("cross-encoder", "the texts") if "pair" in preflight.lengths else ("verifier", "its token embeddings")
    )
    rows = {
        "steps": steps_of(steps),
        "examples held out": f"{preflight.held_out:,}",
        f"parameters of the {what}": f"{parameters['verifier']:,}",
    }
    if parameters["trainable"] != parameters["verifier"]:
        rows["trainable parameters"] = f"{parameters['trainable']:,}"
    rows["time of a pair"] = f"{preflight.microseconds_per_pair:,.0f} µs from {start}"
    rows |= _chosen(preflight.configuration, VerifierConfig)
    return [source_table(preflight.sources), length_table(preflight.lengths), facts("plan", rows)]


def calibration_table(calibration: Calibration) -> Table:
    """The threshold, and what it lets in."""
    title = f"{calibration.pairs['path']}: {calibration.target:.1%} false accepts asked for"
    result = table(title, [""], ["value", "95% interval", "pairs"])
    low, high = calibration.interval
    result.add_row("threshold", f"{calibration.threshold:.6f}", f"{low:.6f} – {high:.6f}", "")
    result.add_row("false accepts", *_cells(calibration.false_accepts))
    for family, share in calibration.families.items():
        result.add_row(f"  {family}", *_cells(share))
    result.add_row("true accepts", *_cells(calibration.true_accepts))
    if calibration.identical:
        result.add_row("  of them one text twice", "", "", f"{calibration.identical:,}")
    return result


def _cells(share: Share) -> list[str]:
    return [f"{share.value:.1%}", f"{share.low:.1%} – {share.high:.1%}", f"{share.pairs:,}"]
