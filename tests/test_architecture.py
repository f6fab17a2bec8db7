"""The house: imports point one way, names of similarities stay in their table, and the command line is light."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import retrokit
from retrokit.cli.entry import _all_commands, _options_of
from retrokit.cli.root import application
from retrokit.encoders import registry as encoders
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.retrieval.base import Index, Searcher
from retrokit.similarities import registry as similarities
from tests.evaluation.fakes import write_folder
from tests.forked_python import light_python, python
from tests.models import sentences
from tests.samples import EXTENSIONS

PACKAGE = Path(retrokit.__file__).parent
FILES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}

ORDER = [
    *(
        "extensions",
        "__main__",
        "cli",
        "__init__",
        "augment",
        "probe",
        "kinds",
        "report",
        "training",
        "sure",
        "probing",
    ),
    *("evaluation", "augmentation", "ranking", "llm", "encoders", "data", "metrics", "similarities", "core"),
]
"""The parts of the house from the top down (the API is three modules): each imports from those behind it alone."""
GROUP = "retrokit.extensions"
"""The group of entry points, which the core's loader names; a module of an extension is below it."""
HEAVY = {
    *("torch", "transformers", "sentence_transformers", "pandas", "numpy", "scipy", "matplotlib", "datasets"),
    *("tokenizers", "safetensors", "accelerate", "peft", "pytrec_eval", "huggingface_hub", "openai"),
    *("sklearn", "HanTa", "lemminflect", "inflect", "sentencex", "bm25s", "Stemmer", "faiss"),
    "PIL",
    *(module for entry in encoders.entries() for module in entry.modules),
}


def imported(tree: ast.AST, package: str = "retrokit") -> set[str]:
    """The parts of the package that a file imports anywhere in it, also lazily, under TYPE_CHECKING, or by a string
    such as ``"retrokit.encoders:registry"``."""
    parts = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they point"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = re.fullmatch(rf"({package}\.(\w+)(\.\w+)*)(:\w+)?", node.value)
            names = [path[1]] if path and path[2] in ORDER and path[1] != GROUP else []
        for name in names:
            root, _, rest = name.partition(".")
            part = rest.partition(".")[0]
            parts |= {part if part in ORDER else "__init__"} if root == package else set()
    return parts


def compared_names(tree: ast.AST) -> set[str]:
    """Names of similarities that a file compares something with: ``==``, ``in``, ``match``, ``startswith``."""
    found: set[str] = set()

    def strings(node: ast.AST) -> set[str]:
        constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
        return {value.partition(":")[0] for value in constants if isinstance(value, str)}

    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            found |= strings(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            found |= set().union(*map(strings, node.args))
    return found & set(similarities.names())


def loads(tree: ast.AST) -> set[str]:
    """Calls by which a file loads a model from a path."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        keywords = {keyword.arg for keyword in node.keywords}
        is_from_path = bool(node.args) or "model_name_or_path" in keywords or "modules" not in keywords
        if name in ("from_pretrained", "_load_with_module_classes") or (name == "SentenceTransformer" and is_from_path):
            found.add(name)
    return found


@cache
def parse(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(module: str) -> str:
    return module.partition(".")[0]


def files_imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Those of the files ``known`` (``encoders.base``, ``encoders.__init__``) that a file imports, lazily or not."""
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *parts = name.split(".")
            if package == "retrokit":
                ends = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
                candidates = [file for end in ends for file in (end, f"{end}.__init__")]
                found.add(next((file for file in candidates if file in known), "__init__"))
    return found


def test_imports_make_no_circle():
    graph = {module: files_imported(parse(path), set(FILES)) for module, path in FILES.items()}
    graph["__init__"] = set()  # the API, which loads nothing before it is used; the others take the version from there
    TopologicalSorter(graph).prepare()  # raises CycleError with the files of one


def test_a_class_has_a_name_of_its_own():
    names = [node.name for path in FILES.values() for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1} == set()


def test_every_part_of_the_house_has_its_place():
    assert {part_of(module) for module in FILES} | {"extensions"} == set(ORDER)


def test_imports_point_one_way():
    place = {part: number for number, part in enumerate(ORDER)}
    wrong = {
        module: parts
        for module, path in FILES.items()
        if (parts := {part for part in imported(parse(path)) if place[part] < place[part_of(module)]})
    }
    assert wrong == {}, "what they must not import"


def test_report_is_used_by_the_command_line_alone():
    users = {part_of(module) for module, path in FILES.items() if "report" in imported(parse(path))}
    assert users - {"report", "extensions"} == {"cli"}


def extensions_named(text: str) -> set[str]:
    """The extensions whose modules a file names, in imports, strings or comments."""
    return set(re.findall(r"retrokit[./]extensions[./](\w+)", text))


def test_the_core_names_no_extension():
    assert extensions_named('"retrokit.extensions.own:EXTENSION"') == {"own"}
    texts = {module: path.read_text(encoding="utf-8") for module, path in FILES.items()}
    core = {module: text for module, text in texts.items() if part_of(module) != "extensions"}
    assert {module: names for module, text in core.items() if (names := extensions_named(text))} == {}
    with_group = [module for module, text in core.items() if f'"{GROUP}"' in text]
    assert with_group == ["core.registry"], "one loader"


def test_no_extension_imports_what_is_inside_another():
    wrong = {}
    for module, path in FILES.items():
        if part_of(module) == "extensions" and module != "extensions.__init__":
            others = extensions_named(path.read_text(encoding="utf-8")) - {module.split(".")[1]}
            if others:
                wrong[module] = others
    assert wrong == {}


def test_every_extension_is_declared_and_has_its_files():
    folders = sorted({module.split(".")[1] for module in FILES if re.match(r"extensions\.\w+\.", module)})
    assert folders == EXTENSIONS, "each has tests/extensions/NAME/samples.py"
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if folders:
        declared = project["entry-points"]["retrokit.extensions"]
        assert declared == {name: f"retrokit.extensions.{name}:EXTENSION" for name in folders}
    for name in folders:
        extension = importlib.import_module(f"retrokit.extensions.{name}").EXTENSION
        assert extension.name == name
        assert all(callable(extension.attribute(public)) for public in extension.python)
        modules = {path.stem for path in (PACKAGE / "extensions" / name).iterdir()}
        assert not modules & extension.python.keys(), "a module that is imported would take the place of the function"
        assert (PACKAGE / "extensions" / name / "page.md").is_file()


def test_nothing_branches_on_a_similaritys_name():
    found = {module: names for module, path in FILES.items() if (names := compared_names(parse(path)))}
    assert {part_of(module) for module in found} <= {"similarities"}, found


def test_models_are_loaded_in_two_parts_alone():
    found = {module: names for module, path in FILES.items() if (names := loads(parse(path)))}
    assert {part_of(module) for module in found} <= {"encoders", "llm"}, found


def test_nothing_feels_for_what_a_contract_names():
    """Of what searches and reranks, everything asks its contract: no ``hasattr``, no ``getattr`` with a default."""
    contracts = {name for kind in (Searcher, Index, PairwiseReranker) for name in dir(kind) if not name.startswith("_")}
    assert {"search_without", "listwise", "rank_lists", "describe"} <= contracts
    wrong = [
        f"{module}: {node.args[1].value}"
        for module, path in FILES.items()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr") and len(node.args) > 1
        if isinstance(node.args[1], ast.Constant) and node.args[1].value in contracts
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["core.registry", "core.errors", "core.interrupts", "core.notices"])
def test_the_lowest_parts_need_the_standard_library_alone(module):
    roots = set()
    for node in ast.walk(parse(FILES[module])):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(node.module.split(".")[0])
    assert roots <= {*sys.stdlib_module_names, "retrokit"}


# --- what a process has imported

REPORT = "import sys; print('IMPORTED', *sorted({name.split('.')[0] for name in sys.modules}))"
RUN = f"""
import runpy, sys
sys.argv = ["retrokit", *sys.argv[1:]]
try:
    runpy.run_module("retrokit", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
{REPORT}
"""


def imports_of(code: str, *arguments: str) -> tuple[set[str], str]:
    done = subprocess.run([light_python(), "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    output, _, modules = done.stdout.rpartition("IMPORTED ")
    return set(modules.split()), output


@pytest.mark.parametrize(
    "module",
    [
        "retrokit",
        "retrokit.cli",
        "retrokit.core.registry",
        "retrokit.similarities",
        "retrokit.encoders",
        "retrokit.evaluation",
        "retrokit.llm",
        "retrokit.sure.build",
        "retrokit.report.records",
    ],
)
def test_importing_is_light(module):
    names, _ = imports_of(f"import {module}; {REPORT}")
    assert "retrokit" in names
    assert names & HEAVY == set()


@pytest.mark.parametrize("command", [["finetune", "minilm"], ["rerank", "train", "cnn", "minilm"]])
def test_a_missing_file_is_told_before_anything_heavy_is_imported(command, tmp_path):
    code = RUN.replace("assert not end.code, end.code", "assert end.code == 2")
    gone = str(tmp_path / "gone.jsonl")
    names, _ = imports_of(code, *command, "--data", gone, "-o", str(tmp_path / "run"))
    assert names & HEAVY == set()


def test_messages_mark_their_parameters():
    """``in_options`` replaces the mark ```name=``` alone, for other backticks are quoted from services and files."""
    plain = []
    options = {name for command in _all_commands(application()) for name in _options_of(command)}
    for path in FILES.values():
        tree = parse(path)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                names = set(re.findall(r"(?<!`)`([a-z][a-z0-9_]*)`(?!`)", node.value)) & options
                plain += [f"{path}:{node.lineno}: write `{name}=` for `{name}`" for name in sorted(names)]
    assert plain == []


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (["--help"], "finetune"),
        (["--version"], retrokit.__version__),
        (["finetune", "--help"], "--holdout"),
        (["eval", "--help-all"], "qnorm"),
        (["finetune", "--help-all"], "sfs"),
        (["probe", "near-miss", "--help-all"], "paraphrases.jsonl"),
        (["augment", "--help"], "mixtures"),
        (["build-sure", "--help-all"], "replay"),
        (["augment", "crops", "--help-all"], "multilingual"),
        (["augment", "dropout", "--help-all"], "multilingual"),
        (["augment", "mask", "--help-all"], "scratch"),
        (["augment", "near-misses", "--help-all"], "negation,binding,spatial"),
        (["augment", "mix", "--help-all"], "mixture"),
        (["rerank", "run", "--help-all"], "cross-encoder"),
        (["export", "--help-all"], "qnorm"),
        (["names"], "language=en"),
        (["names", "splitters", "tasks"], "beir"),
        ([], "finetune"),
    ],
)
def test_help_imports_nothing_heavy(arguments, shows):
    code = RUN.replace("assert not end.code", "assert end.code in (None, 0) or not sys.argv[1:]")
    names, output = imports_of(code, *arguments)
    assert shows in output
    assert names & HEAVY == set()


# --- what a command imports to compute

CACHE = {"torch", "numpy"}
EVALUATED = CACHE | {"pytrec_eval"}
TABLE = CACHE | {"transformers", "tokenizers", "huggingface_hub", "PIL"}
TRANSFORMER = TABLE | {"safetensors", "accelerate", "scipy"}
USED = {
    "eval {bert} --on beir:{data}": EVALUATED,
    "eval static:8 --on beir:{data}": EVALUATED,
    "search {bert} --corpus {data} --queries {data}": CACHE,
    "rerank static:8 --on beir:{data} --with {bert}": EVALUATED | {"scipy"},
    "probe magnitude {bert} --on beir:{data}": EVALUATED,
    "search static:8 --corpus {data} --query new": TABLE,
    "search {bert} --corpus {data} --query new": TRANSFORMER,
    "finetune static:8 --data {data}/pairs.jsonl --batch-size 8 --dry-run": TABLE | {"safetensors"},
    "augment crops {data}/texts.jsonl --keep-short": {"numpy"},
}
"""Of those that are slow to import, what a command may load whose vectors are in the cache, but for a ``new`` query."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder, with texts and pairs to train on."""
    texts = sentences(24, seed=1)
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    queries = {f"q{number}": " ".join(text.split()[:4]) for number, text in enumerate(texts)}
    judgements = {f"q{number}": {f"d{number}": 1} for number in range(len(texts))}
    folder = write_folder(tmp_path_factory.mktemp("data") / "small", documents, queries, judgements)
    pairs = [{"anchor": text, "positive": f"so {text}"} for text in texts]
    for name, rows in (
        ("texts", [{"text": f"Once more {text} there. Then {text} once again."} for text in texts]),
        ("pairs", pairs),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def warm(small: Path, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cache has the traits of the encoders, and their vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETROKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        command = [python(), "-m", "retrokit", "rerank", "static:8", "--on", f"beir:{small}", "--with", str(tiny_bert)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        command = [python(), "-m", "retrokit", "eval", str(tiny_bert), "--on", f"beir:{small}"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        yield


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("command", USED)
def test_a_command_imports_what_it_uses(command, small, tiny_bert):
    names, _ = imports_of(RUN, *command.format(bert=tiny_bert, data=small).split())
    assert names & HEAVY <= USED[command]


def test_a_table_is_trained_without_the_library(small, tmp_path):
    stop = f"""
import os
from retrokit.training.table_trainer import TableTrainer

def stop(*_):
    {REPORT}
    sys.stdout.flush()
    os._exit(0)

TableTrainer.training_step = stop
"""
    code = RUN.replace("import runpy, sys\n", f"import runpy, sys\n{stop}")
    command = ["finetune", "static:8", "--data", str(small / "pairs.jsonl"), "--batch-size", "8"]
    names, _ = imports_of(code, *command, "-o", str(tmp_path / "run"))
    assert "accelerate" in names, "it has come to the first step"
    assert not names & {"sentence_transformers", "sklearn"}
