"""Language models that tests can see through: by rules, and by a script of answers for each prompt."""

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from retrokit.llm.base import Completion, Sampling, estimated_tokens
from retrokit.sure.prompts import SHAPES, load_prompts

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


by_rules: Callable[[str], str] = script("examples/pretend_llm.py").answer

TAGGED = re.compile(r"<([a-z]+)-([0-9a-f]{8})>\n(.*?)\n</\1-\2>", re.DOTALL)


def step_of(prompt: str) -> str:
    """Which of the package's prompts this is, told by its last line; a retry's reason is left out."""
    asked = TAGGED.sub("", prompt)
    for name, known in load_prompts().items():
        if name == "retry":
            continue
        last = re.sub(r"\{([a-z-]+)\}", lambda match, known=known: known.words.get(match[1], ".*?"), known.template)
        tail = last.split(".*?")[-1].strip()
        if tail in asked and (name != "noise" or "new sentences" not in asked):
            return name
    raise AssertionError(asked)


def fields_of(prompt: str) -> dict[str, str]:
    """What stands between the tags."""
    return {name: text for name, _, text in TAGGED.findall(prompt)}


class ScriptedLLM:
    """Answers by rules, but for the steps that ``script`` names: those get its answers in turn, the last one for ever.

    A ``Completion`` in the script is given as it is, an exception is raised.
    """

    def __init__(self, script: Mapping[str, Sequence[str | Completion | Exception]] | None = None) -> None:
        assert set(script or {}) <= set(SHAPES)
        self.spec, self.identity = "scripted", "scripted"
        self.prompts: list[tuple[str, str, str | None]] = []
        self.asked: Counter[str] = Counter()
        self._script = dict(script or {})

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """The next answer of the step."""
        step = step_of(prompt)
        self.prompts.append((step, prompt, system))
        turn = self.asked[step]
        self.asked[step] += 1
        if step not in self._script:
            return Completion(by_rules(prompt), estimated_tokens(system, prompt), 10)
        given = self._script[step][min(turn, len(self._script[step]) - 1)]
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, Completion) else Completion(given, 1, 1)

    async def close(self) -> None:
        """Nothing to close."""


TOPICS = ("otters", "lanterns", "harbours", "violins", "glaciers", "orchards", "kites", "anchors", "beacons", "canals")


def query_of(number: int) -> str:
    """The text of query ``number``."""
    return f"Where do {TOPICS[number % 10]} of type {number} rest?"


def passage_of(number: int) -> str:
    """The text of passage ``number``, three sentences of which the second answers."""
    topic = TOPICS[number % 10]
    return (
        f"Much has been written about {topic} in the north. "
        f"Usually {topic} of type {number} rest under the old stone bridge by the mill. "
        "In the summer months many visitors come and look for them with great patience."
    )


def write_beir_folder(folder: Path, count: int = 6) -> Path:
    """Queries q0, q1, … each with the passage p0, p1, … that answers it."""
    (folder / "qrels").mkdir(parents=True)

    def lines(rows: Sequence[Mapping[str, str]]) -> str:
        return "".join(json.dumps(row) + "\n" for row in rows)

    corpus = [{"_id": f"p{i}", "title": "", "text": passage_of(i)} for i in range(count)]
    (folder / "corpus.jsonl").write_text(lines(corpus))
    (folder / "queries.jsonl").write_text(lines([{"_id": f"q{i}", "text": query_of(i)} for i in range(count)]))
    judged = "".join(f"q{i}\tp{i}\t1\n" for i in range(count))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
