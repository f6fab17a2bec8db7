"""Question answering over what is found: prompts, readers, and values worked out by hand."""

import json
from pathlib import Path

import pytest

import retrokit
from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.extensions.rag.task import Rag, prompt_of, read_questions
from retrokit.llm.base import Completion, Prompt, Sampling
from tests.evaluation.fakes import GivenEncoder

VECTORS = {
    "Who purrs?": [1.0, 0.0],
    "Who barks?": [0.0, 1.0],
    "Nobody knows?": [1.0, 1.0],
    "Cats They purr.": [2.0, 1.0],
    "Dogs bark.": [0.0, 1.0],
    "Fish swim.": [1.0, 0.1],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [Document("c", "Cats", "They purr."), Document("d", "", "Dogs bark."), Document("f", "", "Fish swim.")]
    queries = [("q1", "Who purrs?"), ("q2", "Who barks?"), ("q3", "Nobody knows?")]
    answers = {"q1": ["The cat", "cats"], "q2": ["dogs"]}
    write_beir(tmp_path / "pets", documents, queries, {"test": {"q1": {"c": 1}}}, answers)
    return tmp_path / "pets"


class First:
    """Answers with the first word of the first passage, which is all that it can hold; remembers what it read."""

    spec = "first"
    identity = "first word"

    def __init__(self) -> None:
        self.read: list[str] = []
        self.fitted_to: set[int] = set()

    def fitted(self, prompt: Prompt, max_tokens: int) -> str:
        self.fitted_to.add(max_tokens)
        short = max_tokens < 5 and prompt.before.startswith("Question: Who purrs?")
        return prompt._replace(middle=prompt.middle[:8]).text if short else prompt.text

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        assert (system, sampling.temperature) == (None, 0)
        self.read.append(prompt)
        return Completion(prompt.splitlines()[2].split()[1] + "\nFor it is.", 1, 1)

    async def close(self) -> None:
        pass


def test_values_by_hand(folder: Path) -> None:
    reader = First()
    task = Rag(read_questions(folder), reader, k=2, new_tokens=4)
    encoder = GivenEncoder(VECTORS)
    cosine, dot = task.evaluate(Request(encoder, [retrokit.similarity("cosine"), retrokit.similarity("dot")]))
    # cosine: q1 finds fish (0.995) before cats (0.894); q2 dogs before cats
    # the shortest prompt is read first
    assert reader.read[:2] == [
        prompt_of("Who purrs?", ["Fish"]).text,
        prompt_of("Who barks?", ["Dogs bark.", "Cats They purr."]).text,
    ]
    assert reader.fitted_to == {4}
    assert cosine.per_query == {"exact_match": {"q1": 0.0, "q2": 1.0}, "f1": {"q1": 0.0, "q2": 1.0}}
    assert cosine.metrics == {"exact_match": 0.5, "f1": 0.5}
    # dot: q1 finds cats (2) before fish (1); q2 scores dogs and cats 1 each: the higher id comes first
    assert [list(ranked) for ranked in dot.run.values()] == [["c", "f"], ["d", "c"]]
    assert dot.metrics == {"exact_match": 1.0, "f1": 1.0}
    assert dot.counts == {
        "documents_cut": 0,
        "queries_cut": 0,
        "queries": 2,
        "queries_without_answers": 1,
        "documents": 3,
        "documents_without_text": 0,
        "prompts_shortened": 1,
    }
    assert (dot.configuration["reader"], dot.configuration["k"], dot.main_metric) == ("first", 2, "exact_match")
    assert [role for role, _, _ in encoder.embedded] == ["query", "document"]
    assert json.loads(json.dumps(dot.to_json(True), allow_nan=False))
    assert task.describe() == (
        "pets: 2 questions, 3 documents, the 2 best of which first reads; 1 queries without answers, left out"
    )
    assert task.digest().endswith(" first word, 4 tokens")


def test_wrong_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: is not a folder; expected corpus.jsonl, and queries.jsonl"):
        tasks.create(f"rag:{tmp_path / 'nowhere'},reader=x")
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "Who?"}\n')
    with pytest.raises(DataError, match=r"queries.jsonl: no query has answers; expected a field 'answers'"):
        read_questions(folder)
    (folder / "corpus.jsonl").unlink()
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "Who?", "answers": ["x"]}\n')
    with pytest.raises(DataError, match=r"contains no corpus.jsonl"):
        read_questions(folder)


def test_a_folder_without_a_task_may_be_one(folder: Path) -> None:
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(UsageError) as caught:
        tasks.parse(str(folder))
    names = ", ".join(f"{name}:{folder}" for name in ("beir", "bright", "sure"))
    assert str(caught.value) == f"write {names} or rag:{folder}, by its layout: a path needs the name of its task first"


@pytest.mark.parametrize("name", ["", "local:"])
def test_the_whole_task(folder: Path, tiny_t5: Path, name: str) -> None:
    task = tasks.create(f'rag:{folder},reader="{name}{tiny_t5},max_length=60",new_tokens=5,k=1')
    (result,) = task.evaluate(Request(GivenEncoder(VECTORS), [retrokit.similarity("cosine")]))
    assert result.configuration["reader"] == f"local:{tiny_t5},max_length=60"
    assert result.counts["prompts_shortened"] == 0
    assert set(result.per_query["f1"]) == {"q1", "q2"}
    assert all(len(ranked) == 1 for ranked in result.run.values())
