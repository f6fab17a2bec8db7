"""What the probes of fragments, contrasts, near-misses, layers, geometry and maps found, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrokit.core.sheet import Sheet, grouped
from retrokit.probing.contrast import ContrastProbe, FragmentContrast
from retrokit.probing.fragments import SIGNIFICANCE, FragmentProbe
from retrokit.probing.geometry import GeometryProbe
from retrokit.probing.layers import LayerProbe
from retrokit.probing.map import MapProbe
from retrokit.probing.near_miss import POSITIVES, RANDOM, NearMissProbe

ALL_FRAGMENTS = 12  # of an encoder, up to which a table shows them all


def fragment_sheets(probe: FragmentProbe) -> list[Sheet]:
    """The whole and the fragments by size; then prefixes."""
    rows = []
    for (encoder, size), own in grouped(probe.fragments, "encoder", "size").items():
        ranked = sorted(own, key=lambda row: -row.value)
        best, worst = ranked[0], ranked[-1]
        is_clear = best.p is not None and best.p < SIGNIFICANCE
        rows.append(
            [
                *(encoder, str(size), str(len(own))),
                *(f"{probe.whole(encoder, similarity):.4f}" for similarity in ("cosine", f"sfs:{size}")),
                f"{best.value:.4f}{'*' if is_clear else ' '}",
                str(best.fragment),
                *(f"{row.value:.4f}" for row in (ranked[len(own) // 2], worst)),
                " to ".join(f"{end(probe.at_random(encoder, size)):.4f}" for end in (min, max)),
                str(sum(row.difference > 0 for row in own)),
            ]
        )
    columns = ["encoder", "size", "fragments", "cosine", "sfs", "best alone", "its number", "median", "worst"]
    columns += ["random slices", "above the whole"]
    notes = [f"* differs from the whole under cosine, p < {SIGNIFICANCE} (paired t-test, Bonferroni over fragments)"]
    for encoder, (whole, *_) in grouped(probe.wholes, "encoder").items():  # under cosine
        if whole.guess is not None:
            text = f"always the most frequent label: {whole.guess:.4f}"
            notes.append(f"{encoder}, {text}; the whole differs from that with p = {whole.p:.2g}")
    title = f"{probe.metric} of the whole and of single fragments: {probe.task}"
    sizes = list(dict.fromkeys(row.size for row in probe.prefixes))
    prefixes = []
    for encoder, of_encoder in grouped(probe.prefixes, "encoder").items():
        for dims, alike in sorted(grouped(of_encoder, "dims").items()):
            by_size = {row.size: f"{row.as_fragments:.4f}" for row in alike}
            prefixes.append([encoder, str(dims), f"{alike[0].as_one:.4f}", *(by_size.get(size, "") for size in sizes)])
    names = ["encoder", "dimensions", "cosine", *(f"sfs:{size}" for size in sizes)]
    return [
        Sheet(title, columns, 1, rows, notes),
        Sheet(f"{probe.metric} of the first dimensions", names, 1, prefixes),
    ]


def contrast_sheets(probe: ContrastProbe) -> list[Sheet]:
    """A row per fragment; of many fragments, those that stand out."""
    rows = []
    for own in grouped(probe.fragments, "encoder").values():
        for row in own if len(own) <= ALL_FRAGMENTS else _outstanding(own):
            cells = [f"{value:.4f}" for value in (row.mean_cosine, row.deviation, row.largest_deviation)]
            cells += [f"{row.outliers}", f"{row.shift:.3f}"]
            rows.append([row.encoder, str(row.fragment), f"{row.first}-{row.last}", *cells])
    note = (
        f"{probe.pairs:,} pairs; deviation: of the difference over pairs, by dimension; outliers: dimensions that "
        "stand out of all (Tukey's rule); shift: 1 where all pairs move alike"
    )
    if hidden := len(probe.fragments) - len(rows):
        note += f"; {hidden} more fragments are in the CSV and the JSON"
    columns = ["encoder", "fragment", "dimensions", "mean cosine", "median deviation", "largest", "outliers", "shift"]
    return [Sheet(f"{probe.a} against {probe.b}: {probe.data}", columns, 1, rows, note)]


def _outstanding(rows: Sequence[FragmentContrast]) -> list[FragmentContrast]:
    """The rows of lowest and highest cosine, of largest deviation and of largest shift, in order of fragments."""
    by_cosine = sorted(rows, key=lambda row: row.mean_cosine)
    by_deviation = sorted(rows, key=lambda row: -row.largest_deviation)
    by_shift = sorted(rows, key=lambda row: -row.shift)
    chosen = {row.fragment for row in (*by_cosine[:3], *by_cosine[-2:], *by_deviation[:3], *by_shift[:3])}
    return [row for row in rows if row.fragment in chosen]


def near_miss_sheets(probe: NearMissProbe) -> list[Sheet]:
    """A row per encoder and family, and next to it what pairs that mean the same and random pairs score."""
    shares = (
        ("AUC", "auc", ".3f"),
        ("above paraphrase", "above_paraphrase", ".1%"),
        ("above random", "over_random", ".1%"),
    )
    known = [share for share in shares if any(getattr(row, share[1]) is not None for row in probe.families)]
    spreads = {(row.encoder, row.group): row.summary() for row in probe.distributions}
    rows: list[list[str]] = []
    for encoder, own in grouped(probe.families, "encoder").items():
        for row in own:
            mean = f"{row.mean:.3f} ± {row.deviation:.3f}"
            values = [(getattr(row, name), form) for _, name, form in known]
            cells = ["" if value is None else f"{value:{form}}" for value, form in values]
            rows.append([encoder, row.similarity, row.family, f"{row.near_misses:,}", mean, *cells])
        for group in (POSITIVES, RANDOM):
            if spread := spreads.get((encoder, group)):
                mean = f"{spread['mean']:.3f} ± {spread['deviation']:.3f}"
                rows.append([encoder, own[0].similarity, group, f"{spread['pairs']:,}", mean, *[""] * len(known)])
        rows.append([])
    columns = ["encoder", "similarity", "group", "pairs", "mean ± deviation", *(title for title, _, _ in known)]
    note = "AUC: share of couples in which a positive, of any family, scores above a near-miss of this one"
    missing = "no positives: every positive is its anchor; --reference gives some"
    return [Sheet(f"scores of near-misses: {probe.data}", columns, 3, rows, note if "AUC" in columns else missing)]


def layer_sheets(probe: LayerProbe) -> list[Sheet]:
    """A row per layer, two columns per encoder: its quality, and how far the layer moved."""
    by_encoder = grouped(probe.layers, "encoder")
    columns = ["layer"]
    for encoder, own in by_encoder.items():
        columns += [encoder, *(["moved"] if own[0].moved is not None else [])]
    rows = []
    for k in range(max(map(len, by_encoder.values()))):
        row = ["0 (embedding)" if k == 0 else str(k)]
        for own in by_encoder.values():
            row += [f"{own[k].value:.4f}" if k < len(own) else ""]
            if own[0].moved is not None:
                row += [f"{own[k].moved:.3%}" if k < len(own) else ""]
        rows.append(row)
    starts = {row.encoder: row.start for row in probe.layers if row.start is not None}
    note = f"scored with {', '.join(dict.fromkeys(row.similarity for row in probe.layers))}"
    if starts:
        note += f"; {'; '.join(f'moved: {encoder} from {start}' for encoder, start in starts.items())}"
        note += " (‖W − W₀‖ / ‖W₀‖)"
    return [Sheet(f"{probe.metric} after each layer on {probe.task}", columns, 1, rows, note)]


def geometry_sheets(probe: GeometryProbe) -> list[Sheet]:
    """A row per encoder, and below it the range of its fragments."""
    forms = {"anisotropy": ".4f", "effective_rank": ".1f", "hubness": ".2f", "largest_hub": ".1%"}
    rows = []
    for encoder, (whole, *fragments) in grouped(probe.parts, "encoder").items():
        cells = [f"{getattr(whole, name):{form}}" for name, form in forms.items()]
        rows.append([encoder, "whole", str(whole.dimensions), *cells])
        if fragments:
            cells = []
            for name, form in forms.items():
                values = [getattr(part, name) for part in fragments]
                cells.append(f"{min(values):{form}} to {max(values):{form}}")
            part = f"{len(fragments)} fragments, lowest to highest"
            rows.append([encoder, part, str(fragments[0].dimensions), *cells])
    note = (
        f"anisotropy: mean cosine of two texts; effective rank: of at most the dimensions; hubness: skewness of how "
        f"often a text is among the {probe.neighbours} nearest; largest hub: share of texts that have it there"
    )
    columns = ["encoder", "part", "dimensions", "anisotropy", "effective rank", "hubness", "largest hub"]
    return [Sheet(f"geometry of {probe.texts:,} texts: {probe.data}", columns, 2, rows, note)]


def map_sheets(probe: MapProbe) -> list[Sheet]:
    """A row per encoder."""
    return [map_sheet(probe.to_json())]


def map_sheet(content: Mapping[str, Any]) -> Sheet:
    """A row per encoder, from what the probe's JSON holds."""
    columns = ["encoder", "laid out by", f"kNN accuracy (k = {content['neighbours']})", "within the picture"]
    rows = [
        [entry["encoder"], entry["algorithm"], f"{entry['accuracy']:.1%}", f"{entry['map_accuracy']:.1%}"]
        for entry in content["maps"]
    ]
    note = f"{content['texts']:,} texts, {content['counts']['labels']:,} labels"
    return Sheet(f"map of {content['data']}", columns, 2, rows, note)
