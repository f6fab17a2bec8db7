"""Tables of commands: training, calibration, export, search, build-sure, the embedding cache."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from retrokit.core.notices import harmless
from retrokit.core.sheet import Sheet, digits, facts
from retrokit.data.jsonl import to_json
from retrokit.ranking.reranking import kind_of
from retrokit.report.sheets import SHOWN, overlap_sheets
from retrokit.training.config import TrainingConfig

if TYPE_CHECKING:  # showing what is there takes no trainer
    from retrokit.encoders.store import EmbeddingCache
    from retrokit.metrics.significance import Share
    from retrokit.ranking.export import Export
    from retrokit.ranking.reranking.verify import Calibration
    from retrokit.ranking.retrieval.files import Hits
    from retrokit.sure.build import Built, Estimate
    from retrokit.training.history import Outcome
    from retrokit.training.preflight import Preflight
    from retrokit.training.rerankers.job import VerifierPreflight


def steps_of(steps: Mapping[str, float]) -> str:
    """Planned steps, in words."""
    planned = f"{steps['total']:,}" if "total" in steps else f"as many as fit into {steps['time_budget']:g} s"
    text = f"{planned} ({steps['per_epoch']:,} an epoch)"
    if "seconds_each" not in steps:
        return text
    each = f"{text}, {steps['seconds_each']:.3g} s each here"
    return f"{each}: {steps['seconds_each'] * steps['total']:,.0f} s of training" if "total" in steps else each


def preflight_sheets(preflight: Preflight, kind: type[TrainingConfig]) -> list[Sheet]:
    """What a run with options of that ``kind`` will do."""
    parameters, scale = preflight.parameters, preflight.scale
    learned = f", {parameters['similarity']:,} of them the similarity's" if parameters["similarity"] else ""
    starting = f"{scale['effective_scale']:.4g} (typical score {scale['typical_score']:.4g})"
    rows = {
        "steps": steps_of(preflight.steps),
        "trainable parameters": f"{parameters['trainable']:,} of {parameters['total']:,}{learned}",
        "scale": f"{scale['scale']:.4g}; starts as sharp as cosine at {starting}",
    }
    if preflight.memory is not None:
        rows["memory of a step"] = memory_in_words(preflight.memory)
    return [
        *_data_sheets(preflight),
        facts("plan", rows | _chosen(preflight.configuration, kind, "scale")),
        *overlap_sheets(preflight.overlaps),
    ]


def memory_in_words(memory: Mapping[str, int]) -> str:
    """What a step of training takes (:func:`~retrokit.training.memory.step_memory`)."""
    total = sum(memory[name] for name in ("weights", "gradients", "optimizer", "activations"))
    batch = f"{memory['texts']:,} texts of {memory['tokens']:,} tokens"
    return f"{decimal(total)}, activations of {batch} {decimal(memory['activations'])}"


def _data_sheets(preflight: Preflight | VerifierPreflight) -> list[Sheet]:
    """Sizes of the sources of training data, and lengths of the texts of each role."""
    counts = ("records", "anchors", "documents", "duplicates")
    sources = [
        [source["name"], *(f"{source[key]:,}" for key in counts), f"{source['weight']:g}"]
        for source in preflight.sources
    ]
    lengths = [
        [role, *map(str, tokens["percentiles"].values()), str(tokens["limit"] or "none"), f"{tokens['share_cut']:.1%}"]
        for role, tokens in preflight.lengths.items()
    ]
    columns = ["role", "50%", "90%", "99%", "longest", "limit", "cut"]
    sheets = [Sheet("training data", ["source", *counts, "weight"], 1, sources)]
    return sheets + ([Sheet("tokens of a text (sample)", columns, 1, lengths)] if lengths else [])


_MATTERS = ("encoder", "sim", "loss", "batch_size")
_ELSEWHERE = ("data", "dev", "output", "overwrite", "resume", "steps", "epochs", "time_budget")


def _chosen(configuration: Mapping[str, Any], kind: type[TrainingConfig], *elsewhere: str) -> dict[str, str]:
    """The options that matter always, and those that are not their defaults; a run's folder has all of them."""
    usual = {"processes": 1, **{option.name: option.default for option in fields(kind)}}
    rows = {}
    for name, value in configuration.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        default = usual.get(name)
        is_usual = values == [*default] if isinstance(default, (list, tuple)) else value == default
        if value is not None and name not in (*_ELSEWHERE, *elsewhere) and (name in _MATTERS or not is_usual):
            rows[name.replace("_", " ")] = ", ".join(map(str, values))
    if "warmup" in rows and (count := configuration["warmup"]) >= 1:
        rows["warmup"] = f"{count:,.0f} step{'s' * (count != 1)}"
    return rows


def outcome_sheet(outcome: Outcome) -> Sheet:
    """What a finished run yielded."""
    stopped = f" ({outcome.stopped_because})" if outcome.stopped_because else ""
    rows = {"run": outcome.folder, "steps": f"{outcome.steps:,}{stopped}"}
    if outcome.evaluations:
        rows |= _measured(outcome)
        rows["converged (MAG, C.1)"] = "not yet" if outcome.converged_at is None else f"at step {outcome.converged_at}"
    if outcome.losses:
        rows["training loss"] = outcome.loss_change
    return facts(None, rows)


def _measured(outcome: Outcome) -> dict[str, str]:
    """Metrics before and after, those of the encoder as it came, and the gain. Undefined metrics are left out."""
    rows = {}
    first, best = outcome.evaluations[0], outcome.best
    for metric, before in first["evaluation"].items():
        after = best["evaluation"].get(metric)
        if before is not None and after is not None:
            rows[metric] = f"{before:.4f} → {after:.4f} (step {first['step']} → {best['step']})"
    if outcome.baseline is not None:
        metrics = [f"{metric} {digits(value)}" for metric, value in outcome.baseline["evaluation"].items()]
        rows[f"as it came, under its own {outcome.baseline['similarity']}"] = ", ".join(metrics)
    if outcome.gain is not None:
        rows["gain over the start"] = "; ".join([f"{outcome.gain:+.4f} {outcome.metric}", *_what_chose(outcome)])
    return rows


def _what_chose(outcome: Outcome) -> Iterator[str]:
    """What the gain of a run is, since its steps were chosen on the set that measures it; and how to test it."""
    from retrokit.training.evaluations import HOLDOUT, lower_is_better

    selection = outcome.selection
    if selection is None:
        return
    if outcome.gain is not None and outcome.gain <= 0:
        yield f"no gain, and step {outcome.best_step} is saved all the same"
    elif selection["steps"] == 1:
        yield "the only step evaluated"
    else:
        extreme = "lowest" if lower_is_better(outcome.metric) else "highest"
        yield f"{extreme} of {selection['steps']:,} steps, on the set that chose it"
    overlap = selection["overlap"]
    if overlap is None:
        yield "its near-duplicates of training texts were not counted"
    else:
        sides = [f"{overlap[f'{side}_in_training']:,} of {overlap[side]:,} {side}" for side in ("queries", "documents")]
        yield f"near-duplicates of training texts: {' and '.join(sides)}"
    test = f"`{selection['test']}` tests it"
    if selection["task"] == HOLDOUT:
        test = f"to test it, train on a split that `retrokit augment split` writes, then `{selection['test']}`"
    yield test


def export_sheet(export: Export) -> Sheet:
    """The contents of an export, and the transforms that its queries need."""
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


def hits_sheets(hits: Hits) -> list[Sheet]:
    """The hits of a search, a table a query."""
    sheets = []
    for query, ranking in zip(hits.queries, hits.hits, strict=True):
        texts = ["text"] if any(hit.text is not None for hit in ranking) else []
        rows = []
        for rank, hit in enumerate(ranking, start=1):
            beginning = [harmless(textwrap.shorten(hit.text or "", SHOWN, placeholder="…"))] if texts else []
            rows.append([str(rank), harmless(hit.id), *beginning, f"{hit.score:.4f}"])
        columns = ["rank", "document", *texts, "score"]
        empty = hits.empty.get(query, "nothing was found")
        sheets.append(Sheet(harmless(query), columns, len(columns) - 1, rows, () if rows else empty))
    return sheets


def verifier_preflight_sheets(preflight: VerifierPreflight, kind: type[TrainingConfig]) -> list[Sheet]:
    """What a run with options of that ``kind`` will do, and the size of what it trains."""
    parameters = preflight.parameters
    rows = {
        "steps": steps_of(preflight.steps),
        "examples held out": f"{preflight.held_out:,}",
        f"parameters of the {kind_of(preflight.configuration['verifier'])}": f"{parameters['verifier']:,}",
    }
    if parameters["trainable"] != parameters["verifier"]:
        rows["trainable parameters"] = f"{parameters['trainable']:,}"
    return [*_data_sheets(preflight), facts("plan", rows | _chosen(preflight.configuration, kind))]


def calibration_sheet(calibration: Calibration) -> Sheet:
    """The threshold, and its false-accept rate."""

    def row(name: str, share: Share) -> list[str]:
        return [name, f"{share.value:.1%}", f"{share.low:.1%} – {share.high:.1%}", f"{share.pairs:,}"]

    low, high = calibration.interval
    rows = [
        ["threshold", f"{calibration.threshold:.6f}", f"{low:.6f} – {high:.6f}", ""],
        row("false-accept rate", calibration.false_accepts),
        *(row(f"  {family}", share) for family, share in calibration.families.items()),
        row("true-accept rate", calibration.true_accepts),
        *([["  of them identical texts", "", "", f"{calibration.identical:,}"]] if calibration.identical else []),
    ]
    title = f"{calibration.pairs['path']}: target false-accept rate {calibration.target:.1%}"
    return Sheet(title, ["", "value", "95% interval", "pairs"], 1, rows)


def build_sheets(built: Built) -> list[Sheet]:
    """How many queries stay in each testbed, how each kind went, and what it took."""
    testbeds = [
        [testbed, f"{counts['kept']:,}", f"{sum(counts['dropped'].values()):,}", _listed(counts["dropped"])]
        for testbed, counts in built.record["testbeds"].items()
    ]
    how = ("tried", "at_once", "after_retries", "dropped")
    kinds = [
        [kind, *(f"{stats[name]:,}" for name in how), _listed(stats["rejections"])]
        for kind, stats in built.record["kinds"].items()
    ]
    counts = built.counts
    tokens = counts["prompt_tokens"] + counts["completion_tokens"]
    took = f"{counts['calls']:,} calls ({tokens:,} tokens), {counts['from_store']:,} answers from the answer cache"
    notes = [f"{built.folder}: {took}" if built.folder.name else took]
    if not any(counts["kept"] for counts in built.record["testbeds"].values()):
        notes.append("no query is left in any testbed: the manifest contains every answer and why it was rejected")
    columns = ["kind", "tried", "at once", "after retries", "dropped", "rejections by cause"]
    return [
        Sheet("testbeds", ["testbed", "queries", "dropped", "dropped because of"], 1, testbeds, last_words=1),
        Sheet("variants", columns, 1, kinds, notes, last_words=1),
    ]


def estimate_sheet(estimate: Estimate) -> Sheet:
    """What a build would take."""
    rows = {
        "queries": estimate.queries,
        "calls": estimate.calls,
        "calls with all retries": estimate.most_calls,
        "tokens of prompts, about": estimate.prompt_tokens,
        "tokens of answers, about": estimate.completion_tokens,
    }
    return facts("dry run", {name: f"{count:,}" for name, count in rows.items()}, are_numbers=True)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in counts.items()) or "–"


def cache_json(cache: EmbeddingCache) -> list[str]:
    """Sizes in bytes; the last use in ISO 8601, UTC."""
    from retrokit.encoders.kept import kept_in

    held = cache.held()
    encoders = [
        {**asdict(encoder), "last_used": datetime.fromtimestamp(encoder.last_used, UTC).isoformat(timespec="seconds")}
        for encoder in held
    ]
    folders = [asdict(folder) for folder in kept_in(cache.folder)]
    about = {"folder": str(cache.folder), "limit": cache.limit, "size": sum(encoder.size for encoder in held)}
    return [to_json({**about, "encoders": encoders, "folders": folders}, kind="cache")]


def cache_table(cache: EmbeddingCache) -> list[Any]:
    """A row per encoder, the last used first; a line per cached folder; and where they lie."""
    from retrokit.encoders.kept import kept_in

    held = cache.held()
    rows = []
    for encoder in held:
        numbers = [f"{encoder.dimension:,}", f"{encoder.rows:,}", decimal(encoder.size)]
        used = f"{datetime.fromtimestamp(encoder.last_used):%Y-%m-%d %H:%M}"
        names = [encoder.spec, encoder.kind, encoder.precision, encoder.device]
        rows.append([*names, *numbers, used, encoder.fingerprint[:8]])
    columns = ["encoder", "kind", "precision", "device", "dimensions", "embeddings", "size", "last used", "fingerprint"]
    return [
        *([Sheet(None, columns, 4, rows, last_words=2)] if rows else []),
        *(f"{folder.name}: {decimal(folder.size)}; {folder.said}" for folder in kept_in(cache.folder)),
        f"{decimal(sum(encoder.size for encoder in held))} of at most {decimal(cache.limit)} in {cache.folder}",
    ]
