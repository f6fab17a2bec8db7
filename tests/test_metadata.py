"""LICENSE, CITATION.cff and what pyproject.toml says of the project."""

import ast
import hashlib
import sys
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import retrokit
from retrokit.core.errors import _MODULES

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
DISTRIBUTIONS = {
    "PIL": "pillow",
    "Stemmer": "PyStemmer",
    "faiss": "faiss-cpu",
    "pytrec_eval": "pytrec-eval-terrier",
    "sklearn": "scikit-learn",
}
PAPERS = {
    "MAG": ("Unit Hypersphere", ["Feng", "Watanabe"], 2026),
    "SFS": ("Semantic Fragment Similarity", ["Anonymous authors"], None),
    "CROP": ("Cropping outperforms dropout", ["González-Márquez", "Berens", "Kobak"], 2026),
    "COMP": ("Compositional Sensitivity", ["Ralev", "Baral", "Zhechev", "Agarwal", "Rajamohan"], 2026),
    "SURE": ("SURE or Not?", ["Kong", "Chen", "He", "Sun"], 2026),
}


def test_the_licence_is_the_whole_of_apache_2():
    text = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())
    digest = "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"
    assert hashlib.sha256(text.encode()).hexdigest() == digest  # of its words, as apache.org has them
    assert (PROJECT["license"], PROJECT["license-files"], CITATION["license"]) == (
        "Apache-2.0",
        ["LICENSE"],
        "Apache-2.0",
    )


def test_what_the_package_imports_is_declared():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "retrokit").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"retrokit"}
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras.values() for line in extra)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    assert DISTRIBUTIONS.keys() < packages
    assert {canonicalize_name(DISTRIBUTIONS.get(name, name)) for name in packages} - declared == set()


def test_the_modules_of_an_extra_are_those_of_its_packages():
    for extra, modules in _MODULES.items():
        names = {canonicalize_name(Requirement(line).name) for line in PROJECT["optional-dependencies"][extra]}
        assert {canonicalize_name(DISTRIBUTIONS.get(module, module)) for module in modules} == names


def test_the_citation_is_of_this_version():
    assert (CITATION["cff-version"], CITATION["version"]) == ("1.2.0", retrokit.__version__)
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert len(CITATION["references"]) == len(PAPERS)
