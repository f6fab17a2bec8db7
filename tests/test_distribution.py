"""What is built and installed: the files of wheel and sdist, a command of every group, what is said without an extra.

The environment of the tests stands in for the package index: a fresh one is made of links to what the wheel's metadata
ask for, and nothing else is there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import retrokit
from retrokit.core.errors import DISTRIBUTION
from tests.samples import EXTENSIONS, all_samples
from tests.test_docs import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD = """
import sys
from setuptools import build_meta

print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""
RUN = """
import contextlib, io, json, sys
from retrokit.cli import run

found = {}
for name, words in json.load(sys.stdin).items():
    if name == "llm":
        sys.modules["openai"] = None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(words)
    found[name] = [code, err.getvalue()]
print(json.dumps([sys.modules["retrokit"].__file__, found]))
"""
SAMPLES = all_samples()
ENCODER, TABLE = "model:bert", "static:dim=8,tokenizer=bert"
TRAIN = ["--data", "pairs.jsonl", "--steps", "1", "--batch-size", "4", "-o"]
WITHOUT = {
    "minilm": ["export", "minilm", "--on", "corpus.jsonl", "-o", "out"],
    "lora": ["finetune", ENCODER, "--lora", "2", *TRAIN, "unmade"],
    "bits": ["export", f"{ENCODER},bits=4", "--on", "corpus.jsonl", "-o", "out"],
    "beir": ["eval", TABLE, "--on", "beir:scifact"],
    "mteb": ["eval", TABLE, "--on", "mteb:SciFact"],
    "bm25": ["search", "bm25", "--corpus", "corpus.jsonl", "--query", "a cat"],
    "negatives": ["augment", "near-misses", "corpus.jsonl", "-o", "near.jsonl"],
    "faiss": ["search", TABLE, "--corpus", "corpus.jsonl", "--query", "a cat", "--index", "HNSW32"],
    "tensorboard": ["finetune", TABLE, "--track", "tensorboard", *TRAIN, "unmade"],
    "trackio": ["finetune", TABLE, "--track", "trackio", *TRAIN, "unmade"],
    "wandb": ["finetune", TABLE, "--track", "wandb", *TRAIN, "unmade"],
    "mlflow": ["finetune", TABLE, "--track", "mlflow", *TRAIN, "unmade"],
    "llm": ["build-sure", "task", "--llm", "openai:any,url=http://127.0.0.1:9/v1", "-o", "sure"],
    **SAMPLES.without_extra,
}
WITH = {
    "names": ["names"],
    "doctor": ["doctor"],
    "help": ["help", "finetune"],
    "cache": ["cache"],
    "check": ["check", "beir:task", "--metrics", "ndcg@10"],
    "augment crops": ["augment", "crops", "corpus.jsonl", "--sentences", "1", "-o", "pairs.jsonl"],
    "finetune": ["finetune", TABLE, *TRAIN, "run"],
    "eval": ["eval", "run", "--on", "beir:task", "--results", "results"],
    "probe magnitude": ["probe", "magnitude", "run", "--on", "beir:task"],
    "rerank": ["rerank", TABLE, "--on", "beir:task", "--with", "run"],
    "search": ["search", "run", "--corpus", "corpus.jsonl", "--query", "a cat"],
    "export": ["export", "run", "--on", "corpus.jsonl", "-o", "exported"],
    "build-sure": ["build-sure", "task", "--dry-run"],
    **SAMPLES.runs,
}


def build(folder: Path, kind: str, target: Path) -> Path:
    """What the build backend makes of a folder."""
    words = [sys.executable, "-c", BUILD, f"build_{kind}", str(target)]
    made = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return target / made.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of the project, and the wheel of that sdist."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "copy"
    shutil.copytree(
        ROOT, copy, ignore=lambda place, names: {n for n in names if n in OTHER or n.endswith((".pyc", ".egg-info"))}
    )
    sdist = build(copy, "sdist", folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return sdist, build(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder)


OTHER = {".git", "__pycache__", "build", "runs", "quickstart", "pictures"}


def base(wheel: Path) -> set[str]:
    """The distributions that come with the wheel where no extra is asked for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        waiting = metadata.PathDistribution(zipfile.Path(archive, f"{Path(name).parent}/")).requires or []
        needed: set[str] = set()
        asked = [(line, "") for line in waiting]
        while asked:
            line, extra = asked.pop()
            one = Requirement(line)
            if one.marker is not None and not one.marker.evaluate({"extra": extra}):
                continue
            found = metadata.distribution(one.name)
            new = f"{canonicalize_name(one.name)}[{','.join(sorted(one.extras))}]"
            if new not in needed:
                needed.add(new)
                asked += [(more, extra) for extra in ("", *one.extras) for more in found.requires or []]
    return {name.partition("[")[0] for name in needed}


@pytest.fixture(scope="module")
def python(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it needs."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    for name in base(built[1]):
        for file in metadata.distribution(name).files or []:
            link = site / file.parts[0]
            if ".." not in file.parts and file.parts[0] != "__pycache__" and not link.exists():
                link.symlink_to(metadata.distribution(name).locate_file(file.parts[0]))
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(home / "bin" / "python"),
        "install",
        "--no-deps",
        "--ignore-installed",
    ]
    subprocess.run([*install, "--no-index", "--no-compile", "--quiet", str(built[1])], check=True)
    return home / "bin" / "python"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A folder with an encoder, texts, pairs, labels, a benchmark and a study."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "bert").symlink_to(tiny_bert)
    texts = [
        f"The {animal} sleeps under the {place}, {'and it eats, ' * 11}as it did before. It likes the {place}, "
        f"{'and the others, ' * 8}and nobody else."
        for animal, place in PLACES
    ]
    write(folder / "corpus.jsonl", [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)])
    write(folder / "pairs.jsonl", [{"anchor": text[:20], "positive": text} for text in texts])
    write(folder / "labelled.jsonl", [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(texts)])
    (folder / "task" / "qrels").mkdir(parents=True)
    write(folder / "task" / "corpus.jsonl", [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)])
    write(folder / "task" / "queries.jsonl", [{"_id": f"q{i}", "text": text[:20]} for i, text in enumerate(texts)])
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(len(texts)))
    (folder / "task" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    (folder / "study.toml").write_text('[augment.crops]\ninput = "corpus.jsonl"\n')
    return folder


PLACES = [(animal, place) for animal in ("cat", "dog", "bird", "fish") for place in ("house", "tree", "river")]


def write(path: Path, lines: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def results(python: Path, place: Path, commands: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """Exit code and messages of each command, all from one process of the fresh environment."""
    own = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "PYTHONPYCACHEPREFIX") if name in os.environ}
    own |= {"PATH": str(python.parent), "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hub")}
    done = subprocess.run(
        [python, "-c", RUN],
        input=json.dumps(commands),
        cwd=place,
        env={**own, "RETROKIT_CACHE": str(place / "cache"), "HOME": str(place)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    file, found = json.loads(done.stdout.splitlines()[-1])
    assert Path(file).is_relative_to(python.parents[1])
    return {name: tuple(one) for name, one in found.items()}


def test_what_is_in_wheel_and_sdist(built):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        held = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
        (about,) = [name for name in installed if name.endswith("/METADATA")]
        described = metadata.PathDistribution(zipfile.Path(archive, f"{Path(about).parent}/"))
        name, points = described.metadata["Name"], list(described.entry_points)
    code = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "retrokit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in installed if name.startswith("retrokit/")} == code
    assert {name for name in held if re.match(r"retrokit/.*\.\w+$", name)} == code
    assert {name.partition("/")[0] for name in installed} == {"retrokit", str(Path(about).parent)}
    assert {"README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml"} <= held
    assert f"{Path(about).parent}/licenses/LICENSE" in installed
    assert not [name for name in held if name.startswith(("tests", "docs", "examples"))]
    assert (name, points[0].name) == (DISTRIBUTION, "retrokit")
    assert {point.name: point.value for point in points[1:]} == PROJECT.get("entry-points", {}).get(
        "retrokit.extensions", {}
    )


LIGHT = {"names", "cache", "augment crops", "study plan", "study", "negatives"}
"""What needs no torch: it is run with every suite, the rest with the slow tests."""


@pytest.mark.parametrize("chosen", [LIGHT, pytest.param({*WITH, *WITHOUT}, marks=pytest.mark.slow, id="all")])
def test_every_command_runs_or_names_its_extra(python, place, chosen):
    assert {name.split()[0] for name in WITH} == {name.split()[0] for name in COMMANDS}
    extras = set(PROJECT["optional-dependencies"]) - {"test", "docs", "stores"}
    assert set(WITHOUT) == extras if EXTENSIONS else set(WITHOUT) < extras
    helps = {f"{name} --help-all": [*name.split(), "--help-all"] for name in COMMANDS}
    found = results(python, place, {name: words for name, words in (WITH | WITHOUT).items() if name in chosen} | helps)
    for name, (code, said) in found.items():
        assert code == (3 if name in WITHOUT and name != "map" else 0), (name, said)
        if name in WITHOUT:
            assert said.splitlines()[-1].endswith(f"python -m pip install '{DISTRIBUTION}[{name}]'"), said
    version = subprocess.run([python.with_name("retrokit"), "--version"], capture_output=True, text=True)
    assert retrokit.__version__ in version.stdout
