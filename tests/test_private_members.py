"""Private members of libraries that the package uses: each in one file, each still there, each library bounded above.

When a test fails here after an upgrade, that release broke what the file named relies on: adapt the file, or bound the
library below that release in pyproject.toml.
"""

import ast
import importlib
import inspect
import tomllib
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "retrokit"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = {
    (one := Requirement(line)).name: one
    for line in [
        *PROJECT["dependencies"],
        *(line for lines in PROJECT["optional-dependencies"].values() for line in lines),
    ]
}


class Private(NamedTuple):
    """A private member, where the library has it, which library that is, and the file of ours that uses it."""

    name: str
    home: str
    library: str
    file: str


TRAINER = ("transformers.trainer:Trainer", "transformers", "training/trainer.py")
OPERATORS = ("torch:ops.mkldnn", "torch", "encoders/onednn.py")
USED = [
    Private(
        "_load_with_module_classes",
        "sentence_transformers:SentenceTransformer",
        "sentence-transformers",
        "encoders/loading.py",
    ),
    Private("_attn_implementation", "transformers:PreTrainedConfig", "transformers", "encoders/fingerprint.py"),
    Private("_load_from_checkpoint", *TRAINER),
    Private("_is_mkldnn_bf16_supported", *OPERATORS),
    Private("_reorder_linear_weight", *OPERATORS),
    Private("_linear_pointwise", *OPERATORS),
    Private("_version", "torch:Tensor", "torch", "encoders/fingerprint.py"),
    Private("_softmax_backward_data", "torch:ops.aten", "torch", "training/fast.py"),
    Private("_forward_hooks", "torch.nn:Module", "torch", "encoders/packed.py"),
    Private("_forward_pre_hooks", "torch.nn:Module", "torch", "encoders/packed.py"),
    Private("_create_dataloaders", "mteb._create_dataloaders:create_dataloader", "mteb", "evaluation/mteb/model.py"),
]
STANDARD = {"_replace", "_exit"}
BROKE_US = {"peft", "faiss-cpu", "snakemake", "typer"}
"""Libraries of which a minor version has broken the package; their private members are not used."""


def _own_names(tree: ast.AST) -> set[str]:
    """Private names that a file itself gives to something."""
    given = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    given |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return given | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }


def _asked(tree: ast.AST) -> set[str]:
    """Private names that a file asks something else than ``self`` for, and private modules that it imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            found |= {
                one.value for one in node.args[1:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("retrokit"):
            found |= {*node.module.split("."), *(alias.name for alias in node.names)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_each_is_used_in_one_file():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    known = {one.name for one in USED}
    own = set().union(*map(_own_names, trees.values())) - known
    found = {
        (name, path.relative_to(PACKAGE).as_posix())
        for path, tree in trees.items()
        for name in _asked(tree) | (_own_names(tree) & {one.name for one in USED if one.home == TRAINER[0]})
        if name not in own | STANDARD
    }
    assert found == {(one.name, one.file) for one in USED}


@pytest.mark.parametrize("one", USED, ids=lambda one: one.name)
def test_it_is_still_there(one):
    module, _, name = one.home.partition(":")
    about = f"{one.library} {version(one.library)} has no {one.name} in {one.home}, which retrokit/{one.file} uses"
    pytest.importorskip(module.partition(".")[0], reason=f"{one.library} is not installed")
    try:
        home = reduce(getattr, name.split(".") if name else [], importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{about}: {error}")
    methods = [method for kind in getattr(home, "__mro__", ()) for method in vars(kind).values()]
    set_by_itself = any(one.name in method.__code__.co_names for method in methods if inspect.isfunction(method))
    assert hasattr(home, one.name) or one.name in module or set_by_itself, about


@pytest.mark.parametrize("library", sorted({one.library for one in USED} | BROKE_US))
def test_a_minor_version_that_was_not_tried_is_not_taken(library):
    specifier = REQUIRED[library].specifier
    (bound,) = [Version(one.version) for one in specifier if one.operator == "<"]
    assert version(library) in specifier
    assert len(bound.release) == 2, f"{library} <{bound} takes minor versions that nobody has tried"
