"""A similarity of a third party: seen in help, made by the API, trained with, loaded again; nothing but its package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrokit.data.jsonl import write_jsonl
from tests import plugins
from tests.evaluation.fakes import write_folder
from tests.models import sentences

MODULE = '''
"""A similarity that a third party wrote."""

from retrokit.core.registry import Entry, Param

ENTRY = Entry(
    "{name}",
    "inner product divided by a power of the document's length, from elsewhere",
    "{module}_impl:make",
    (Param("power", 0.25, minimum=0.0, maximum=1.0),),
    positional="power",
)
'''
IMPLEMENTATION = """
from retrokit.similarities.base import Similarity, as_rows, length


class Tilted(Similarity):
    symmetric = False
    export = "prepared"

    def __init__(self, power):
        super().__init__()
        self.power = power

    def prepare(self, embeddings, role):
        embeddings = as_rows(embeddings)
        return embeddings if role == "query" else embeddings / length(embeddings) ** self.power


def make(power):
    return Tilted(power)
"""


def install(folder: Path, module: str, name: str) -> None:
    """The similarity ``name``, from the package ``module``."""
    modules = {module: MODULE.format(name=name, module=module), f"{module}_impl": IMPLEMENTATION}
    plugins.install(folder, module, modules, f"[retrokit.similarities]\n{name} = {module}:ENTRY\n")


@pytest.fixture
def run(tmp_path, python):
    """Runs Python, which has imported all or is its own, where what lies in ``tmp_path/site`` is installed, writing
    nowhere but in ``tmp_path``."""
    caches = {name: str(tmp_path / "cache") for name in ("HF_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME")}
    environment = os.environ | caches | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])

    def run(*arguments, own=False):
        command = [sys.executable if own else python, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)

    return run


HELP = """
import runpy, sys
sys.argv = ["retrokit", "names", "similarities"]
try:
    runpy.run_module("retrokit", run_name="__main__")
finally:
    print(*(name for name in sys.modules if name.startswith("tilted") or name == "torch"), file=sys.stderr)
"""
USE = """
import json, sys, torch, retrokit
similarity = retrokit.similarity("tilted:0.5")
scores = similarity.score(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 4.0]]))
loaded = retrokit.load(sys.argv[1], device="cpu")
query, document = (loaded.embed(["the cat sleeps"], role, "fp32") for role in ("query", "document"))
print(json.dumps({
    "spec": similarity.spec,
    "default": retrokit.similarity("tilted:0.25").spec,
    "scores": scores.tolist(),
    "loaded": loaded.similarity.spec,
    "power": loaded.similarity.power,
    "score": loaded.similarity.score(torch.tensor(query), torch.tensor(document)).item(),
    "expected": float((query * document).sum() / (document**2).sum() ** 0.125),
}))
"""


def test_a_similarity_from_elsewhere(run, tmp_path, tiny_bert):
    install(tmp_path / "site", "tilted_similarity", "tilted")
    done = run("-c", HELP, own=True)
    assert done.returncode == 0, done.stderr
    assert "tilted" in done.stdout
    assert "from elsewhere" in done.stdout
    assert "power=0.25" in done.stdout
    assert done.stderr.split() == ["tilted_similarity"]  # the entry is imported for help, what it makes is not

    texts = sentences(24)
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:12], texts[12:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    options = ["--steps", "3", "--batch-size", "4", "--precision", "fp32", "--device", "cpu", "--lr", "1e-3"]
    done = run(
        *("-m", "retrokit", "finetune", tiny_bert, "--data", "pairs.jsonl", "--sim", "tilted", *options, "-o", "run")
    )
    assert done.returncode == 0, done.stderr
    described = json.loads((tmp_path / "run" / "retrokit.json").read_text(encoding="utf-8"))
    assert (described["similarity"], described["status"]) == ("tilted", "finished")

    done = run("-c", USE, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["spec"] == "tilted:0.5"
    assert told["default"] == told["loaded"] == "tilted"
    assert told["power"] == 0.25
    assert told["scores"] == [[pytest.approx(11 / 5**0.5), pytest.approx(8 / 4**0.5)]]
    assert told["score"] == pytest.approx(told["expected"], rel=1e-5)


REGISTERED = """
import torch, retrokit
from retrokit.core.registry import Entry
from retrokit.similarities.magnitude import cosine

def halved():
    similarity = cosine()
    similarity.scale = 0.5
    return similarity

retrokit.register("similarities", Entry("halved", "half of the cosine", "__main__:halved"))
print(retrokit.similarity("halved").spec)
for kind in ("similarities", "similarity"):
    try:
        retrokit.register(kind, Entry("cosine", "taken", "__main__:halved"))
    except retrokit.RetrokitError as error:
        print(error)
"""


def test_an_entry_is_registered_in_a_session(run):
    done = run("-c", REGISTERED)
    assert done.returncode == 0, done.stderr
    spec, taken, unknown = done.stdout.splitlines()
    assert spec == "halved"
    assert "'cosine' is registered twice" in taken
    assert unknown.startswith("unknown kind 'similarity' (did you mean similarities")


def test_a_crash_of_a_plugin_names_it(run, tmp_path):
    folder = write_folder(tmp_path / "beir", {"d": "a cat", "e": "a dog"}, {"q": "cat"}, {"q": {"d": 1}})
    install(tmp_path / "site", "tilted_similarity", "tilted")
    file = tmp_path / "site" / "tilted_similarity_impl.py"
    file.write_text(file.read_text(encoding="utf-8").replace('role == "query"', "1 / 0"), encoding="utf-8")
    done = run("-m", "retrokit", "eval", "static:8", "--on", f"beir:{folder}", "--sim", "tilted")
    assert done.returncode == 70
    *_, error, note = done.stderr.splitlines()
    assert error == "ZeroDivisionError: division by zero"
    assert note.startswith("This is a bug of the plugin tilted_similarity_impl,")


def test_a_crash_of_retrokit_below_a_plugin_is_not_that_plugins(run, tmp_path):
    folder = write_folder(tmp_path / "beir", {"d": "a cat", "e": "a dog"}, {"q": "cat"}, {"q": {"d": 1}})
    install(tmp_path / "site", "tilted_similarity", "tilted")
    file = tmp_path / "site" / "tilted_similarity_impl.py"
    file.write_text(file.read_text(encoding="utf-8").replace('role == "query"', "length(None)"), encoding="utf-8")
    done = run("-m", "retrokit", "eval", "static:8", "--on", f"beir:{folder}", "--sim", "tilted")
    assert done.returncode == 70
    assert "tilted_similarity_impl.py" in done.stderr
    assert "bug of the plugin" not in done.stderr


TAKEN = """
import retrokit
from retrokit.core.registry import Entry

try:
    retrokit.register("similarities", Entry("tilted", "taken", "__main__:tilted"))
except retrokit.RetrokitError as error:
    print(error)
print(retrokit.similarity("tilted").spec)
"""


def test_a_session_cannot_take_the_name_of_a_plugin(run, tmp_path):
    install(tmp_path / "site", "tilted_similarity", "tilted")
    done = run("-c", TAKEN)
    assert done.returncode == 0, done.stderr
    both = "tilted_similarity_impl:make and __main__:tilted"
    assert done.stdout.splitlines() == [f"similarity 'tilted' is registered twice ({both})", "tilted"]


def test_a_name_that_is_taken_is_refused_where_it_is_used(run, tmp_path):
    install(tmp_path / "site", "first_similarity", "cosine")
    both = "retrokit.similarities.magnitude:cosine and first_similarity_impl:make"
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "cosine")
    assert (done.returncode, done.stderr) == (2, f"retrokit: similarity 'cosine' is registered twice ({both})\n")
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "dot")
    assert done.stderr.startswith("retrokit: nowhere: does not exist")


def test_a_broken_entry_point_with_a_name_of_the_core_is_no_obstacle(run, tmp_path):
    install(tmp_path / "site", "broken_similarity", "cosine")
    (tmp_path / "site" / "broken_similarity.py").write_text("ENTRY = 3\n", encoding="utf-8")
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "cosine")
    assert done.stderr.startswith("retrokit: nowhere: does not exist")
    done = run("-m", "retrokit", "names", "similarities")
    assert "similarity 'cosine': entry point 'cosine' of retrokit.similarities is not a" in " ".join(
        done.stdout.split()
    )


def test_losses_are_those_of_the_core(run, tmp_path):
    source = 'from retrokit.core.registry import Entry\nENTRY = Entry("focal", "from elsewhere", "nowhere:Focal")\n'
    plugins.install(tmp_path / "site", "focal", {"focal": source}, "[retrokit.losses]\nfocal = focal:ENTRY\n")
    done = run("-m", "retrokit", "finetune", "static:8", "--data", "pairs.jsonl", "--loss", "focal", "-o", "run")
    assert (done.returncode, done.stderr) == (
        2,
        "retrokit: unknown loss 'focal'; known: infonce, kl, margin-mse, mse\n",
    )


BROKEN = {
    "ENTRY = 'tilted'\n": "entry point 'tilted' of retrokit.similarities is not a retrokit.core.registry.Entry",
    "import nowhere_to_be_found\n": "entry point 'tilted' (broken_similarity:ENTRY) does not load: "
    "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
}


@pytest.mark.parametrize("source", BROKEN, ids=["no entry", "no module"])
def test_a_broken_entry_point_is_refused_where_it_is_named(run, tmp_path, source):
    install(tmp_path / "site", "broken_similarity", "tilted")
    (tmp_path / "site" / "broken_similarity.py").write_text(source, encoding="utf-8")
    done = run("-m", "retrokit", "names", "similarities")
    assert (done.returncode, done.stderr) == (0, "")
    assert BROKEN[source] in " ".join(done.stdout.split())
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "tilted:0.5")
    assert done.returncode == 2
    assert f"retrokit: similarity 'tilted': {BROKEN[source]}\n" in done.stderr
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "cosine")
    assert done.stderr.startswith("retrokit: nowhere: does not exist")


EXTENSION = """
from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Extension

EXTENSION = Extension(
    "tilting",
    "From elsewhere.",
    commands=(
        CommandEntry("tilt once", "Tilt once.", "tilting_impl:once", extra="study", modules=("nowhere_to_be_found",)),
        GroupEntry("tilt", "Tilt texts.", ""),
        CommandEntry("tilt show", "Show a number.", "tilting_impl:show_number"),
    ),
    entries={
        "retrokit.similarities": {"tilted": "tilted_entry:ENTRY"},
        "retrokit.registries": {"tilts": "tilting_impl:KIND"},
    },
    python={"number": "tilting_impl:number"},
)
__getattr__ = EXTENSION.attribute
"""
COMMANDS = """
from retrokit.cli.api import show
from retrokit.core.registry import Entry, Registry

number = 3
tilts = Registry("tilt", "retrokit.tilts", [Entry("left", "to the left", "nowhere:left")])
KIND = Entry("tilts", "Tilts", "tilting_impl:tilts")


def show_number():
    \"\"\"Show a number.\"\"\"
    show(f"the number {number}")


def once():
    \"\"\"Tilt once.\"\"\"
"""


def install_extension(site: Path) -> None:
    modules = {
        "tilting": EXTENSION,
        "tilting_impl": COMMANDS,
        "tilted_entry": MODULE.format(name="tilted", module="tilted"),
        "tilted_impl": IMPLEMENTATION,
    }
    plugins.install(site, "tilting", modules, "[retrokit.extensions]\ntilting = tilting:EXTENSION\n")


def test_an_extension_brings_commands_entries_kinds_of_names_and_python(run, tmp_path):
    install_extension(tmp_path / "site")
    done = run("-m", "retrokit", "--help")
    assert "Tilt texts." in done.stdout
    done = run("-m", "retrokit", "tilt", "show")
    assert (done.stdout, done.stderr) == ("the number 3\n", "")
    done = run("-m", "retrokit", "tilt", "once")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), "its modules are named by its entry"
    assert "retrokit-ir[study]" in done.stderr
    done = run("-m", "retrokit", "names", "tilts", "similarities", "commands")
    assert all(text in done.stdout for text in ("to the left", "from elsewhere", "tilt show"))
    done = run("-c", "from tilting import number; print(number); import tilting; tilting.nothing")
    assert done.stdout == "3\n"
    assert done.stderr.endswith("AttributeError: extension tilting has no attribute 'nothing'\n")


def test_a_command_with_options_of_typer_is_one_line_that_names_it(run, tmp_path):
    install_extension(tmp_path / "site")
    options = "times: int = typer.Option(1), text: str = 'a'"
    source = COMMANDS.replace("def show_number()", f"import typer\n\ndef show_number({options})")
    (tmp_path / "site" / "tilting_impl.py").write_text(source, encoding="utf-8")
    done = run("-m", "retrokit", "tilt", "show")
    expected = "expected a type of `Settings`, `= setting(…)` or `= common(…)`"
    problem = f"command tilting_impl:show_number: its parameter times is no setting; {expected}"
    assert (done.returncode, done.stderr) == (2, f"retrokit: {problem}\n")
    assert run("-m", "retrokit", "--help").returncode == 0


def test_an_extension_that_is_not_there_is_refused_by_name(run, tmp_path):
    install_extension(tmp_path / "site")
    (tmp_path / "site" / "tilting.py").unlink()
    problem = "extension 'tilting' is not installed"
    done = run("-m", "retrokit", "tilt", "show")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("retrokit: No such command 'tilt'; ")
    assert problem in done.stderr
    done = run("-m", "retrokit", "eval", "static:8", "--on", "beir:nowhere", "--sim", "tilted")
    assert (done.returncode, done.stderr.endswith(f"; {problem}\n")) == (2, True)
    done = run("-m", "retrokit", "eval", "wrapped:minilm", "--on", "beir:nowhere")
    assert (done.returncode, done.stderr.endswith(f"; {problem}\n")) == (2, True), "it may be no path"
    done = run("-m", "retrokit", "names", "commands")
    assert problem in done.stdout
    assert run("-m", "retrokit", "--help").returncode == 0


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nowhere_to_be_found\n", "does not load: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("EXTENSION = 3\n", "is not an Extension"),
    ],
)
def test_an_extension_that_does_not_load_is_no_obstacle(run, tmp_path, source, problem):
    install_extension(tmp_path / "site")
    (tmp_path / "site" / "tilting.py").write_text(source, encoding="utf-8")
    done = run("-m", "retrokit", "tilt")
    assert f"extension 'tilting' (tilting:EXTENSION) {problem}" in done.stderr
    assert run("-m", "retrokit", "names", "similarities").returncode == 0


def test_a_command_with_the_name_of_one_of_the_core_is_no_obstacle(run, tmp_path):
    install_extension(tmp_path / "site")
    source = EXTENSION.replace('"tilt show"', '"doctor"')
    (tmp_path / "site" / "tilting.py").write_text(source, encoding="utf-8")
    done = run("-m", "retrokit", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Tilt texts." in done.stdout
    done = run("-m", "retrokit", "doctor", "--json")
    statuses = [finding["status"] for finding in json.loads(done.stdout)["findings"] if finding["name"] == "plugin"]
    assert statuses == [
        "command 'doctor' is registered twice (retrokit.cli.doctor:doctor and tilting_impl:show_number)"
    ]
