"""What the probes of fragments, contrasts, near-misses, layers, geometry and maps found, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group

from retrokit.probing.contrast import ContrastProbe, FragmentContrast
from retrokit.probing.fragments import SIGNIFICANCE, FragmentProbe, WholeScore
from retrokit.probing.geometry import WHOLE, GeometryProbe
from retrokit.probing.layers import LayerProbe
from retrokit.probing.map import MapProbe
from retrokit.probing.near_miss import POSITIVES, RANDOM, NearMissProbe
from retrokit.report import sheets
from retrokit.report.sheets import Table, grouped, noted

ALL_FRAGMENTS = 12  # of an encoder, up to which a table shows them all


def fragment_tables(probe: FragmentProbe) -> list[Group | Table]:
    """The whole and the fragments by size; then prefixes."""
    columns = [
        "size",
        "fragments",
        "cosine",
        "sfs",
        "best alone",
        "its number",
        "median",
        "worst",
        "random slices",
        "above the whole",
    ]
    sizes = sheets.table(f"{probe.metric} of the whole and of single fragments: {probe.task}", ["encoder"], columns)
    for (encoder, size), own in grouped(probe.fragments, "encoder", "size").items():
        ranked = sorted(own, key=lambda row: -row.value)
        is_clear = ranked[0].p is not None and ranked[0].p < SIGNIFICANCE
        sizes.add_row(
            *(encoder, str(size), str(len(own))),
            *(f"{probe.whole(encoder, similarity):.4f}" for similarity in ("cosine", f"sfs:{size}")),
            f"{ranked[0].value:.4f}{'*' if is_clear else ' '}",
            str(ranked[0].fragment),
            *(f"{row.value:.4f}" for row in (ranked[len(own) // 2], ranked[-1])),
            " to ".join(f"{end(probe.at_random(encoder, size)):.4f}" for end in (min, max)),
            str(sum(row.difference > 0 for row in own)),
        )
    notes = [f"* differs from the whole under cosine, p < {SIGNIFICANCE} (paired t-test, Bonferroni over fragments)"]
    wholes = [own[0] for own in grouped(probe.wholes, "encoder").values()]  # under cosine
    notes += [_guess_note(row) for row in wholes if row.guess is not None]
    return [noted(sizes, *notes), _prefix_table(probe)]


def _guess_note(whole: WholeScore) -> str:
    """What the whole is worth beside a guess."""
    text = f"always the most frequent label: {whole.guess:.4f}"
    return f"{whole.encoder}, {text}; the whole differs from that with p = {whole.p:.2g}"


def _prefix_table(probe: FragmentProbe) -> Table:
    """A row per encoder and number of dimensions, a column per fragment size."""
    sizes = list(dict.fromkeys(row.size for row in probe.prefixes))
    columns = ["dimensions", "cosine", *(f"sfs:{size}" for size in sizes)]
    table = sheets.table(f"{probe.metric} of the first dimensions", ["encoder"], columns)
    for encoder, of_encoder in grouped(probe.prefixes, "encoder").items():
        for dims, own in sorted(grouped(of_encoder, "dims").items()):
            by_size = {row.size: f"{row.as_fragments:.4f}" for row in own}
            table.add_row(encoder, str(dims), f"{own[0].as_one:.4f}", *(by_size.get(size, "") for size in sizes))
    return table


def contrast_tables(probe: ContrastProbe) -> list[Group]:
    """A row per fragment; of many fragments, those that stand out."""
    columns = ["fragment", "dimensions", "mean cosine", "median deviation", "largest", "outliers", "shift"]
    table = sheets.table(f"{probe.a} against {probe.b}: {probe.data}", ["encoder"], columns)
    hidden = 0
    for own in grouped(probe.fragments, "encoder").values():
        shown = own if len(own) <= ALL_FRAGMENTS else _outstanding(own)
        hidden += len(own) - len(shown)
        for row in shown:
            cells = [f"{value:.4f}" for value in (row.mean_cosine, row.deviation, row.largest_deviation)]
            cells.append(f"{row.outliers}")
            table.add_row(row.encoder, str(row.fragment), f"{row.first}-{row.last}", *cells, f"{row.shift:.3f}")
    note = (
        f"{probe.pairs:,} pairs; deviation: of the difference over pairs, by dimension; outliers: dimensions that "
        "stand out of all (Tukey's rule); shift: 1 where all pairs move alike"
    )
    rest = f"; {hidden} more fragments are in the CSV and the JSON" if hidden else ""
    return [noted(table, note + rest)]


def _outstanding(rows: Sequence[FragmentContrast]) -> list[FragmentContrast]:
    """The rows of lowest and highest cosine, of largest deviation and of largest shift, in order of fragments."""
    by_cosine = sorted(rows, key=lambda row: row.mean_cosine)
    by_deviation = sorted(rows, key=lambda row: -row.largest_deviation)
    by_shift = sorted(rows, key=lambda row: -row.shift)
    chosen = {row.fragment for row in (*by_cosine[:3], *by_cosine[-2:], *by_deviation[:3], *by_shift[:3])}
    return [row for row in rows if row.fragment in chosen]


def near_miss_tables(probe: NearMissProbe) -> list[Group]:
    """A row per encoder and family, and beside it what pairs that mean the same and random pairs score."""
    known = {
        title: (name, form)
        for title, name, form in (
            ("AUC", "auc", ".3f"),
            ("above paraphrase", "above_paraphrase", ".1%"),
            ("above random", "over_random", ".1%"),
        )
        if any(getattr(row, name) is not None for row in probe.families)
    }
    columns = ["pairs", "mean ± deviation", *known]
    table = sheets.table(f"scores of near-misses: {probe.data}", ["encoder", "similarity", "group"], columns)
    spreads = {(row.encoder, row.group): row.summary() for row in probe.distributions}
    for encoder, own in grouped(probe.families, "encoder").items():
        for row in own:
            mean = f"{row.mean:.3f} ± {row.deviation:.3f}"
            values = [(getattr(row, name), form) for name, form in known.values()]
            shares = ["" if value is None else f"{value:{form}}" for value, form in values]
            table.add_row(encoder, row.similarity, row.family, f"{row.near_misses:,}", mean, *shares)
        for group in (POSITIVES, RANDOM):
            if (encoder, group) in spreads:
                spread = spreads[encoder, group]
                mean = f"{spread['mean']:.3f} ± {spread['deviation']:.3f}"
                table.add_row(encoder, own[0].similarity, group, f"{spread['pairs']:,}", mean, *[""] * len(known))
        table.add_section()
    note = "AUC: share of couples in which a positive, of any family, scores above a near-miss of this one"
    missing = "no positives: every positive is its anchor; --reference gives some"
    return [noted(table, note if "AUC" in known else missing)]


def layer_tables(probe: LayerProbe) -> list[Group]:
    """A row per layer, two columns per encoder: its quality, and how far the layer moved."""
    encoders = list(dict.fromkeys(row.encoder for row in probe.layers))
    columns: list[str] = []
    for encoder in encoders:
        columns += [encoder, *(["moved"] if probe.of(encoder)[0].moved is not None else [])]
    table = sheets.table(f"{probe.metric} after each layer on {probe.task}", ["layer"], columns)
    for k in range(max(row.layer for row in probe.layers) + 1):
        cells = []
        for encoder in encoders:
            rows = probe.of(encoder)
            has_moved = rows[0].moved is not None
            cells += [f"{rows[k].value:.4f}" if k < len(rows) else ""]
            cells += [f"{rows[k].moved:.3%}" if k < len(rows) else ""] if has_moved else []
        table.add_row("0 (embedding)" if k == 0 else str(k), *cells)
    starts = {row.encoder: row.start for row in probe.layers if row.start is not None}
    note = "; ".join(f"moved: {encoder} from {start}" for encoder, start in starts.items())
    used = ", ".join(dict.fromkeys(f"{row.similarity}" for row in probe.layers))
    return [noted(table, f"scored with {used}" + (f"; {note} (‖W − W₀‖ / ‖W₀‖)" if note else ""))]


def geometry_tables(probe: GeometryProbe) -> list[Group]:
    """A row per encoder, and below it the range of its fragments."""
    columns = ["dimensions", "anisotropy", "effective rank", "hubness", "largest hub"]
    table = sheets.table(f"geometry of {probe.texts:,} texts: {probe.data}", ["encoder", "part"], columns)
    for encoder, own in grouped(probe.parts, "encoder").items():
        whole = own[0]
        values = [f"{whole.anisotropy:.4f}", f"{whole.effective_rank:.1f}", f"{whole.hubness:.2f}"]
        table.add_row(encoder, "whole", str(whole.dimensions), *values, f"{whole.largest_hub:.1%}")
        fragments = [part for part in own if part.fragment != WHOLE]
        if fragments:
            forms = {"anisotropy": ".4f", "effective_rank": ".1f", "hubness": ".2f", "largest_hub": ".1%"}
            ranges = [_range([getattr(part, name) for part in fragments], form) for name, form in forms.items()]
            name = f"{len(fragments)} fragments, lowest to highest"
            table.add_row(encoder, name, str(fragments[0].dimensions), *ranges)
    note = (
        f"anisotropy: mean cosine of two texts; effective rank: of at most the dimensions; hubness: skewness of how "
        f"often a text is among the {probe.neighbours} nearest; largest hub: share of texts that have it there"
    )
    return [noted(table, note)]


def _range(values: Sequence[float], form: str) -> str:
    return f"{min(values):{form}} to {max(values):{form}}"


def map_tables(probe: MapProbe) -> list[Group]:
    """A row per encoder."""
    return [map_table(probe.to_json())]


def map_table(content: Mapping[str, Any]) -> Group:
    """A row per encoder, from what the probe's JSON holds."""
    columns = [f"kNN accuracy (k = {content['neighbours']})", "within the picture"]
    table = sheets.table(f"map of {content['data']}", ["encoder", "laid out by"], columns)
    for entry in content["maps"]:
        table.add_row(entry["encoder"], entry["algorithm"], f"{entry['accuracy']:.1%}", f"{entry['map_accuracy']:.1%}")
    return noted(table, f"{content['texts']:,} texts, {content['counts']['labels']:,} labels")
