"""Build a small, real retrieval benchmark from the docstrings that every Python environment holds.

    python docs/reproduction/scripts/docstring_benchmark.py OUTPUT_FOLDER [--documents 3000] [--seed 0]
    python docs/reproduction/scripts/docstring_benchmark.py pairs.jsonl --pairs

A query is the first sentence of a docstring, its document the rest: the same pairing of a summary with its text that
Contriever-style training takes from web pages. Sources are read with ``ast`` and never imported: the standard
library and the packages that a retrieval toolkit brings along anyway. The result is a BEIR folder with a train and a
test split. The two share no source file, near-duplicates are removed before the split, and names of functions and
modules stand only in the ids. The same environment and seed give the same files, byte for byte.

Only the standard library is needed.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import sys
import sysconfig
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

STDLIB = "the standard library"
PACKAGES = (
    "accelerate anyio click datasets dateutil dill filelock fontTools fsspec httpx huggingface_hub hypothesis jinja2 "
    "joblib markdown_it matplotlib mpmath multiprocess networkx numpy packaging pandas peft PIL psutil pyarrow "
    "pydantic pygments pyparsing requests rich safetensors scipy sentence_transformers setuptools sklearn sympy "
    "tokenizers torch tqdm transformers typer urllib3"
).split()
FILES_PER_SOURCE = 250
FILES_OF_STDLIB = 400
LARGEST_FILE = 250_000  # bytes; larger ones are mostly generated
DOCSTRINGS_PER_FILE = 6  # so that no single file sets the tone
SKIPPED_FOLDERS = frozenset(
    "test tests testing conftest benchmarks examples vendor vendored externals extern site-packages dist-packages "
    "encodings lib2to3 idlelib turtledemo ensurepip models".split()
)  # `models`: in transformers, one text many times over

QUERY_WORDS = range(4, 41)
QUERY_CHARACTERS = 25
DOCUMENT_WORDS = 25
DOCUMENT_CUT = 120
SHINGLE = 5
SMALLEST = 200  # documents, so that whole files fit the shares below
SPLITS = {"test": 3 / 8, "train": 3 / 5}  # shares of the documents; a test query has the train documents as distractors

FUNCTION_WORDS = frozenset(
    "a an and are as at be by can each for from has have if in into is it its may not of on one only or other so such "
    "that the their then there these they this to used using was when where which will with you your".split()
)


@dataclass(frozen=True)
class Pair:
    """A docstring: its first sentence, the rest, and where it stands."""

    name: str
    file: str
    query: str
    document: str


# --- from files to docstrings ----------------------------------------------------------------------------------------


def source_folders() -> dict[str, Path]:
    """Name → folder of each source that is installed here, found without importing anything."""
    site = list(dict.fromkeys(sysconfig.get_path(key) for key in ("purelib", "platlib")))
    folders = {STDLIB: Path(sysconfig.get_path("stdlib"))}
    for package in PACKAGES:
        spec = PathFinder.find_spec(package, site)
        if spec is not None and spec.submodule_search_locations:
            folders[package] = Path(next(iter(spec.submodule_search_locations)))
    return folders


def python_files(folder: Path) -> Iterator[Path]:
    """The source files under a folder, sorted, without tests, examples and private or vendored folders."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f.lower() not in SKIPPED_FOLDERS and not f.startswith(("_", ".")))
        for file in sorted(files):
            path = Path(parent, file)
            # A private file such as scipy's _optimize.py is kept: packages define public functions there and export
            # them elsewhere. Private names inside it are skipped below.
            wanted = file.endswith(".py") and not re.search(r"(^|_)tests?(_|\.)|conftest", file)
            if wanted and path.stat().st_size <= LARGEST_FILE:
                yield path


def docstrings(node: ast.Module | ast.ClassDef, name: str) -> Iterator[tuple[str, str]]:
    """Qualified name and docstring of a module and of everything public in it."""
    text = ast.get_docstring(node)
    if text:
        yield name, text
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from docstrings(child, f"{name}.{child.name}")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            text = ast.get_docstring(child)
            if text:
                yield f"{name}.{child.name}", text


def pairs_of_file(path: Path, root: Path, rng: random.Random) -> list[Pair]:
    """At most DOCSTRINGS_PER_FILE usable pairs of one file."""
    try:
        source = path.read_text(encoding="utf-8")
        if '"""' not in source:
            return []
        tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError, RecursionError):
        return []
    file = path.relative_to(root).as_posix()
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found = []
    for name, text in dict(docstrings(tree, module)).items():  # a name defined twice counts once
        query, document = query_and_document(text)
        if usable(query, document):
            found.append(Pair(name, file, query, document))
    rng.shuffle(found)
    return found[:DOCSTRINGS_PER_FILE]


# --- from docstrings to clean text -----------------------------------------------------------------------------------


def without_code(text: str) -> str:
    """The docstring without doctests (and their output), code blocks, directives and underlines."""
    kept: list[str] = []
    in_doctest = False
    block_indent: int | None = None
    for line in text.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if block_indent is not None:
            if not stripped or indent > block_indent:
                continue
            block_indent = None
        if stripped.startswith("```"):
            in_doctest = not in_doctest
            continue
        if stripped.startswith(">>>"):
            in_doctest = True
        elif not stripped and not text.count("```"):
            in_doctest = False
        if in_doctest or re.fullmatch(r"[-=~^*#+|_\s]{3,}", stripped):
            continue
        if stripped.startswith("..") and not stripped.startswith("..."):
            if not re.match(r"\.\. (note|warning|seealso|important|tip)::", stripped):
                block_indent = indent
            continue
        if stripped.endswith("::"):
            block_indent = indent
            line = line.rstrip()[:-1]
        kept.append(line)
    return "\n".join(kept)


def plain(text: str) -> str:
    """One line of text without reStructuredText roles, backticks, emphasis and links' addresses."""
    text = re.sub(r":[\w:+-]+:`~?\.?([^`<]+?)\s*(?:<[^`>]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]+?)\s*<[^`>]*>`_+", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "", text)
    text = re.sub(r"`+|\*\*|\[\d+\]_", "", text)
    return " ".join(text.split())


def query_and_document(docstring: str) -> tuple[str, str]:
    """The first sentence of a docstring, and the rest of it, cut after DOCUMENT_CUT words."""
    first, _, rest = without_code(docstring).strip().partition("\n\n")
    first = plain(first)
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)(?<!et al)[.!?](?=\s+[A-Z\"'(])", first)
    if end:
        query, remainder = first[: end.end()], first[end.end() :]
    else:
        query, remainder = first, ""
    if not query.endswith((".", "!", "?")) and rest[:1].islower():
        return "", ""  # a formula or a blank line cut the sentence in two
    return query.strip(), " ".join(f"{remainder} {plain(rest)}".split()[:DOCUMENT_CUT])


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def usable(query: str, document: str) -> bool:
    """Whether both sides are English prose of sensible length and the query tells something."""
    query_words, document_words = words_of(query), words_of(document)
    return (
        len(query.split()) in QUERY_WORDS
        and len(query) >= QUERY_CHARACTERS
        and len(document.split()) >= DOCUMENT_WORDS
        and len(set(query_words) - FUNCTION_WORDS) >= 3
        and not re.search(r"[={}<>|\\]|\w\(|->|[:,]$|deprecated|copyright|licen[cs]e", query, re.IGNORECASE)
        and is_prose(document, document_words)
        and " ".join(query_words) not in " ".join(document_words)
    )


def is_prose(text: str, words: list[str]) -> bool:
    function_words = sum(word in FUNCTION_WORDS for word in words)
    code = len(re.findall(r"[={}<>|\\()\[\]_@#$%]", text))
    return text.isascii() and function_words >= 0.22 * len(words) and code <= 0.04 * len(text)


# --- no duplicates, no leaks -----------------------------------------------------------------------------------------


def shingles(words: list[str], size: int = SHINGLE) -> set[int]:
    """Hashes of all runs of `size` words. Hashes of ints in a tuple do not depend on the interpreter's hash seed."""
    codes = [int.from_bytes(word.encode()[:12], "big") for word in words]
    return {hash(tuple(codes[i : i + size])) for i in range(max(1, len(codes) - size + 1))}


class Kept:
    """What was taken so far, indexed so that a repetition of any of it is recognised."""

    def __init__(self) -> None:
        self.queries: set[frozenset[str]] = set()
        self.sizes: list[int] = []
        self.bodies: dict[int, list[int]] = defaultdict(list)  # shingle of a document → documents
        self.openings: dict[int, list[str]] = defaultdict(list)  # first four words of a query → queries
        self.fours: dict[int, list[int]] = defaultdict(list)  # every four words of a document → documents
        self.texts: list[str] = []

    def add(self, pair: Pair) -> bool:
        """Take the pair, or return False if it repeats a query, half a document, or has one inside the other."""
        query, words = words_of(pair.query), words_of(pair.document)
        query_key, query_text, text = frozenset(query) - FUNCTION_WORDS, f" {' '.join(query)} ", f" {' '.join(words)} "
        body, fours, opening = shingles(words), shingles(words, 4), min(shingles(query[:4], 4))
        if query_key in self.queries:
            return False
        overlaps = Counter(other for shingle in body for other in self.bodies.get(shingle, ()))
        if any(count >= 0.5 * min(len(body), self.sizes[other]) for other, count in overlaps.items()):
            return False
        if any(query_text in self.texts[other] for other in self.fours.get(opening, ())):
            return False
        if any(other in text for four in fours for other in self.openings.get(four, ())):
            return False
        number = len(self.sizes)
        self.queries.add(query_key)
        self.sizes.append(len(body))
        self.texts.append(text)
        self.openings[opening].append(query_text)
        for shingle in body:
            self.bodies[shingle].append(number)
        for four in fours:
            self.fours[four].append(number)
        return True


def pairs_of_source(name: str, folder: Path, seed: int) -> Iterator[list[Pair]]:
    """The pairs of each file, over a random sample of the files of one source."""
    rng = random.Random(f"{seed} {name}")
    files = list(python_files(folder))
    root = folder if name == STDLIB else folder.parent
    for path in rng.sample(files, min(len(files), FILES_OF_STDLIB if name == STDLIB else FILES_PER_SOURCE)):
        pairs = pairs_of_file(path, root, rng)
        if pairs:
            yield pairs


def collect(documents: int, seed: int) -> list[list[Pair]]:
    """Groups of pairs, one group a file, taken from the sources in turn so that none dominates."""
    queues = [pairs_of_source(name, folder, seed) for name, folder in source_folders().items()]
    kept, groups, total = Kept(), [], 0
    while queues and total < documents:
        for queue in list(queues):
            pairs = next(queue, None)
            if pairs is None:
                queues.remove(queue)
                continue
            group = [pair for pair in pairs if kept.add(pair)][: max(0, documents - total)]
            if group:
                groups.append(group)
                total += len(group)
    return groups


def split(groups: list[list[Pair]], seed: int) -> tuple[list[Pair], dict[str, list[Pair]]]:
    """The corpus, and the pairs of each split. Whole files go to one split; the last file's excess only distracts."""
    groups = list(groups)
    random.Random(seed).shuffle(groups)
    corpus = [pair for group in groups for pair in group]
    splits: dict[str, list[Pair]] = {}
    remaining = iter(groups)
    for name, share in SPLITS.items():
        wanted = round(share * len(corpus))
        splits[name] = []
        while len(splits[name]) < wanted:
            splits[name].extend(next(remaining)[: wanted - len(splits[name])])
    return sorted(corpus, key=lambda pair: pair.name), splits


# --- the BEIR folder -------------------------------------------------------------------------------------------------


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_beir(folder: Path, corpus: list[Pair], splits: dict[str, list[Pair]]) -> None:
    """Write everything under a temporary name beside the folder, then move it into place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        asked = sorted((pair for pairs in splits.values() for pair in pairs), key=lambda pair: pair.name)
        documents = ({"_id": pair.name, "title": "", "text": pair.document} for pair in corpus)
        queries = ({"_id": f"q:{pair.name}", "text": pair.query} for pair in asked)
        write_lines(partial / "corpus.jsonl", map(json.dumps, documents))
        write_lines(partial / "queries.jsonl", map(json.dumps, queries))
        for name, pairs in splits.items():
            rows = (f"q:{pair.name}\t{pair.name}\t1" for pair in sorted(pairs, key=lambda pair: pair.name))
            write_lines(partial / "qrels" / f"{name}.tsv", ("query-id\tcorpus-id\tscore", *rows))
        partial.chmod(0o755)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_pairs(path: Path, splits: dict[str, list[Pair]]) -> None:
    """The pairs of all splits as training data, a JSON object a line."""
    pairs = [pair for name in ("train", "test") for pair in sorted(splits[name], key=lambda pair: pair.name)]
    write_lines(path, (json.dumps({"anchor": pair.query, "positive": pair.document}) for pair in pairs))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a BEIR folder from the docstrings of this environment.")
    parser.add_argument("output", type=Path, metavar="OUTPUT_FOLDER", help="a folder that does not exist yet")
    parser.add_argument("--documents", type=int, default=3000, help="size of the corpus (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and the split (default: %(default)s)")
    parser.add_argument("--pairs", action="store_true", help="write a file of pairs instead of a BEIR folder")
    options = parser.parse_args()
    if options.documents < SMALLEST:
        parser.error(f"--documents must be at least {SMALLEST}, not {options.documents}")
    if options.output.exists():
        print(f"{options.output} exists already; name a new folder or remove it first", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")  # other people's escape sequences
    groups = collect(options.documents, options.seed)
    found = sum(map(len, groups))
    if found < SMALLEST:
        print(f"only {found} usable docstrings in this environment; at least {SMALLEST} are needed", file=sys.stderr)
        return 2
    corpus, splits = split(groups, options.seed)
    if options.pairs:
        write_pairs(options.output, splits)
        print(f"{options.output}: {sum(map(len, splits.values()))} pairs", file=sys.stderr)
        return 0
    write_beir(options.output, corpus, splits)
    packages = {group[0].file.split("/")[0] for group in groups} & set(PACKAGES)
    few = "" if found == options.documents else f" (fewer than the {options.documents} requested)"
    print(
        f"{options.output}: {len(corpus)} documents{few}, {len(splits['train'])} train and {len(splits['test'])} test "
        f"queries, from {len(groups)} files of {STDLIB} and {len(packages)} packages",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
