"""Mixing: exact counts and shares, rows untouched, determinism, flat memory, and what is refused."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.augmentation.mixing import Part, mix
from retrokit.core.errors import DataError, UsageError


def pairs(name: str, count: int) -> list[dict]:
    return [{"anchor": f"{name} q{i}", "positive": f"{name} p{i}", "negatives": [f"{name} n{i}"]} for i in range(count)]


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def bag(rows: list[dict]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(("weight", "each", "more"), [(2, 2, 0), (0.5, 0, 5), (2.5, 2, 5), (1, 1, 0), (0.25, 0, 3)])
def test_a_weight_is_how_many_times_the_rows_are_taken(tmp_path, weight, each, more):
    a, b = write(tmp_path / "a.jsonl", pairs("a", 10)), write(tmp_path / "b.jsonl", pairs("b", 4))
    made = mix([f"{a},weight={weight}", str(b)], str(tmp_path / "out.jsonl"))
    times = Counter(row["anchor"] for row in read(tmp_path / "out.jsonl") if row["source"] == "a")
    assert sorted(times.values()) == sorted([each + 1] * more + [each] * (10 - more if each else 0))
    assert made.parts[0].taken == 10 * each + more
    assert [p.taken for p in made.parts][1] == 4


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 30), st.floats(0.1, 3)), min_size=1, max_size=4),
    seed=st.integers(0, 2**31 - 1),
    packed=st.booleans(),
)
def test_the_rows_are_those_of_a_naive_mixture(tmp_path_factory, sizes, seed, packed):
    folder = tmp_path_factory.mktemp("mix")
    parts, expected = [], Counter()
    for number, (size, weight) in enumerate(sizes):
        rows = [{"text": f"{number}/{i} ü\u2028 " + "x" * (i % 7), "extra": [i, None, 1.5e-7]} for i in range(size)]
        path = write(folder / f"part{number}.jsonl", rows)
        if packed and number % 2:
            path = folder / f"part{number}.jsonl.gz"
            path.write_bytes(gzip.compress((folder / f"part{number}.jsonl").read_bytes()))
        part = Part(str(path), f"part{number}", weight=weight)
        if not int(weight * size + 0.5):
            continue
        chosen = part.sample(size, seed, len(parts)).tolist()
        parts.append(part)
        assert len(chosen) == int(weight * size + 0.5)
        assert set(Counter(chosen).values()) <= {int(weight), int(weight) + 1}
        expected += bag([rows[i] | {"source": part.name} for i in chosen])
    if parts:
        specs = [f"{part.path},name={part.name},weight={part.weight}" for part in parts]
        mix(specs, str(folder / "out.jsonl"), seed=seed)
        lines = (folder / "out.jsonl").read_text(encoding="utf-8").split("\n")
        assert bag([json.loads(line) for line in lines[:-1]]) == expected


def test_the_seed_decides_and_a_part_does_not_depend_on_the_others(tmp_path):
    a, b = write(tmp_path / "a.jsonl", pairs("a", 50)), write(tmp_path / "b.jsonl", pairs("b", 50))

    def made(name: str, *parts: str, seed: int = 0) -> bytes:
        mix(parts, str(tmp_path / name), seed=seed)
        return (tmp_path / name).read_bytes()

    first = made("1.jsonl", f"{a},count=20", f"{b},count=20")
    assert made("2.jsonl", f"{a},count=20", f"{b},count=20") == first
    assert made("3.jsonl", f"{a},count=20", f"{b},count=20", seed=1) != first

    def of(name: str, source: str) -> set[str]:
        return {row["anchor"] for row in read(tmp_path / name) if row["source"] == source}

    made("4.jsonl", f"{a},count=20", f"{b},count=50")
    assert of("4.jsonl", "a") == of("1.jsonl", "a")
    made("5.jsonl", f"{a},count=30")
    assert of("1.jsonl", "a") < of("5.jsonl", "a"), "a larger sample goes on from the smaller"
    assert of("3.jsonl", "a") != of("1.jsonl", "a")
    same = [int(name[3:]) for name in of("1.jsonl", "a")], [int(name[3:]) for name in of("1.jsonl", "b")]
    assert sorted(same[0]) != sorted(same[1]), "the parts' samples are independent"


def test_all_kinds_can_be_mixed_each_with_itself(tmp_path):
    scored = write(tmp_path / "s.jsonl", [{"sentence1": "a", "sentence2": "b", "score": 3}])
    texts = write(tmp_path / "t.jsonl", [{"_id": 1, "text": "a", "label": "x"}])
    other = write(tmp_path / "o.jsonl", [{"query": "a", "answer": "b", "negative_1": "c"}])
    kinds = [mix([str(path)], str(tmp_path / "out.jsonl")).kind for path in (scored, texts, other)]
    assert kinds == ["scored", "texts", "pairs"]
    with pytest.raises(UsageError, match=r"one kind: .*o\.jsonl contains pairs, .*s\.jsonl contains scored pairs"):
        mix([str(other), str(scored)], str(tmp_path / "no.jsonl"))
    assert not (tmp_path / "no.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"anchor": "a", "positive": "b"}\n{"anchor": "a"\n', r"bad\.jsonl:2: malformed JSON"),
        ('{"anchor": "a", "positive": "b"}\n\n{"anchor": "a"}\n', r"bad\.jsonl:3: no field 'positive'"),
        ('{"anchor": "a", "positive": "b"}\n{"anchor": " ", "positive": "b"}\n', r"bad\.jsonl:2: .*is empty"),
        ('{"anchor": "a", "positive": "b"}\n{"text": "t"}\n', r"bad\.jsonl:2: no field 'anchor'"),
        ('{"title": "a"}\n', r"bad\.jsonl:1: expected a pair .*the fields are 'title'"),
        ("\n\n", r"bad\.jsonl: is empty; expected rows"),
        ('["a"]\n', r"bad\.jsonl:1: expected a JSON object, found a list"),
    ],
)
def test_bad_lines_are_named(tmp_path, content, message):
    good, bad = write(tmp_path / "good.jsonl", pairs("a", 3)), tmp_path / "bad.jsonl"
    bad.write_text(content)
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    with pytest.raises(DataError, match=message):
        mix([str(good), str(bad)], str(out))
    assert out.read_text() == "before"


@pytest.mark.parametrize(
    ("parts", "output", "error", "message"),
    [
        (["a.jsonl,count=4"], "out.jsonl", UsageError, r"has 3 rows, fewer than count=4; weight=1\.33 would repeat"),
        (["a.jsonl,weight=0.1"], "out.jsonl", UsageError, "weight=0.1 of 3 rows takes none"),
        (["a.jsonl,weight=2,count=2"], "out.jsonl", UsageError, "give one"),
        (["a.jsonl,count=0"], "out.jsonl", UsageError, "out of range"),
        (["a.jsonl,wieght=2"], "out.jsonl", UsageError, "did you mean weight"),
        (["a.jsonl", "b.jsonl"], "b.jsonl", UsageError, "b.jsonl: is an input too"),
        (["a.jsonl"], "link.jsonl", UsageError, "is an input too"),
        (["-", "-"], "out.jsonl", UsageError, "once only"),
        ([], "out.jsonl", UsageError, "at least one part"),
        (["no.jsonl"], "out.jsonl", DataError, "does not exist"),
        (["folder"], "out.jsonl", DataError, "is a folder"),
        (
            ["hf:folder"],
            "out.jsonl",
            UsageError,
            "hf:folder: a mixture is of files; finetune takes such data with --data",
        ),
        (["a.jsonl"], "a.jsonl/out.jsonl", DataError, "could not be written"),
    ],
)
def test_wrong_use_is_refused(tmp_path, monkeypatch, parts, output, error, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", pairs(name, 3))
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "folder").mkdir()
    before = (tmp_path / "b.jsonl").read_bytes()
    with pytest.raises(error, match=message):
        mix(parts, output)
    assert (tmp_path / "b.jsonl").read_bytes() == before
    assert not (tmp_path / "out.jsonl").exists()
