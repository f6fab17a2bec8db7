"""Odd but valid data in the probes of embeddings."""

import pytest

from retrokit.extensions.representations.contrast import probe_contrast
from retrokit.extensions.representations.geometry import probe_geometry
from retrokit.extensions.representations.map import probe_map
from tests.probing.test_odd_probe_data import ENCODERS, SPEC, check_answer, data

PROBES = {
    "geometry": lambda d: probe_geometry(SPEC, f"beir:{d}/many", 4, neighbours=5),
    "contrast, two pairs": lambda d: probe_contrast(SPEC, f"pairs:{d}/two.jsonl,a=a,b=b", 4),
    "map, equal texts": lambda d: probe_map(SPEC, f"knn:{d}/equal.jsonl"),
}
REFUSED = ("map, equal texts",)  # by any encoder
__all__ = ["data"]


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_answers_or_says_why_not(probe, kind, data, tmp_path, monkeypatch):
    check_answer(PROBES[probe], probe in REFUSED, kind, data, tmp_path, monkeypatch)
