"""A session: one answer for equal requests, a budget, patience, and answers that are stored before they are used."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit.core.calls import PromptRefused, ServerFailed
from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.notices import heard
from retrokit.llm import registry
from retrokit.llm.answers import Rejected
from retrokit.llm.base import Completion, Sampling
from retrokit.llm.session import IN_VAIN, BudgetSpent, Session, run_all
from retrokit.llm.store import ResponseStore


class Fake:
    """Answers with the prompt in capitals, 10 tokens each way, after the failures that it was given."""

    spec = "fake"
    identity = "fake"

    def __init__(self, failures: list[Exception] | None = None, delay: float = 0.0, answered: int = 0) -> None:
        self.failures = failures or []
        self.answered = answered  # before the failures
        self.delay = delay
        self.asked: list[tuple[str, str | None, Sampling]] = []
        self.at_once = self.most_at_once = 0
        self.closed = False

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        self.asked.append((prompt, system, sampling))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.answered, fails = self.answered - 1, self.answered < 1 and bool(self.failures)
            await asyncio.sleep(self.delay * (1 + fails))
            if fails:
                raise self.failures.pop(0)
            return Completion(prompt.upper(), 10, 10)
        finally:
            self.at_once -= 1

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def store(tmp_path: Path):
    with ResponseStore(tmp_path / "answers.db") as opened:
        yield opened


def run(session: Callable[[], Session], *prompts: str) -> tuple[list[str], dict[str, int]]:
    """The answers to the prompts, asked at once, and the counts."""

    async def asked() -> tuple[list[str], dict[str, int]]:
        async with session() as opened:
            found = await asyncio.gather(*(opened.ask(prompt) for prompt in prompts))
            return [completion.text for completion in found], opened.counts

    return asyncio.run(asked())


class Finishing(Fake):
    """Answers ``finish text`` prompts with that finish and text."""

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        finish, _, text = prompt.partition(" ")
        return Completion(text, 1, 1, finish)


def test_answers_that_are_cut_or_empty_are_counted() -> None:
    prompts = ("length a", "length b", "length", "stop", "other", "stop c")
    with heard() as said:
        run(lambda: Session(Finishing(), None, sampling=Sampling(max_tokens=256)), *prompts)
        run(lambda: Session(Finishing(), None), "stop c")
    assert said == ["fake: 5 answers were cut at 256 tokens or have no text; allow longer answers"]


def test_a_second_time_makes_no_call(store: ResponseStore) -> None:
    llm = Fake()
    texts, counts = run(lambda: Session(llm, store), "a", "b", "a")
    assert texts == ["A", "B", "A"]
    assert len(llm.asked) == 2  # equal requests at once make one call
    assert counts == {
        **{"calls": 2, "from_store": 0},
        **{"prompt_tokens": 20, "completion_tokens": 20},
    }
    again, counts = run(lambda: Session(llm, store), "b", "a")
    assert again == ["B", "A"]
    assert len(llm.asked) == 2
    assert (counts["calls"], counts["from_store"], counts["prompt_tokens"]) == (0, 2, 0)
    assert llm.closed


def test_what_makes_another_request() -> None:
    async def asked() -> list[tuple[str, str | None, Sampling]]:
        llm = Fake()
        async with Session(llm, None, sampling=Sampling(seed=5)) as session:
            for options in ({}, {"system": "s"}, {"attempt": 1}, {"sampling": Sampling(temperature=1.0)}):
                await session.ask("p", **options)
        return llm.asked

    assert asyncio.run(asked()) == [
        ("p", None, Sampling(seed=5)),
        ("p", "s", Sampling(seed=5)),
        ("p", None, Sampling(seed=6)),  # other draws
        ("p", None, Sampling(temperature=1.0)),
    ]


def test_concurrency_is_kept(store: ResponseStore) -> None:
    llm = Fake(delay=0.01)
    run(lambda: Session(llm, store, concurrency=3), *map(str, range(12)))
    assert llm.most_at_once == 3


def test_failures(store: ResponseStore) -> None:
    with pytest.raises(ServiceError, match=r"^hiccup$"):
        run(lambda: Session(Fake([ServiceError("hiccup")]), store), "a")

    async def one_after_the_other() -> None:
        async with Session(Fake([ServiceError("hiccup")], answered=1), store) as opened:
            await opened.ask("a")
            await opened.ask("b")

    with pytest.raises(ServiceError, match=r"^hiccup; the answers so far are stored: rerun the same command"):
        asyncio.run(one_after_the_other())
    llm = Fake([PromptRefused("too long")])
    with pytest.raises(PromptRefused, match="too long"):
        run(lambda: Session(llm, store), "c")
    assert len(llm.asked) == 1


def test_a_prompt_that_the_server_fails_on_is_refused_if_others_were_answered() -> None:
    async def asked() -> list[Completion | BaseException]:
        async with Session(Fake([ServerFailed("NaN")], delay=0.05, answered=1), None) as session:
            return await asyncio.gather(*map(session.ask, "ab"), return_exceptions=True)

    good, bad = asyncio.run(asked())
    assert isinstance(good, Completion)
    assert isinstance(bad, PromptRefused)


def test_the_budget_is_never_exceeded(store: ResponseStore) -> None:
    # a call may take 1 token of prompt and 40 of answer, and takes 20: the third fits (40 + 41), a fourth does not
    sampling = Sampling(max_tokens=40)
    llm = Fake(delay=0.01)

    def session(budget: int) -> Session:
        return Session(llm, store, max_tokens=budget, sampling=sampling)

    with pytest.raises(BudgetSpent, match=r"the budget of 90 tokens is used up: 60 are used, .* may take 41; the"):
        run(lambda: session(90), *"abcdef")
    assert llm.most_at_once == 2
    assert len(store) == 3
    texts, counts = run(lambda: session(120), *"abcdef")  # a larger one, or the same again, goes on
    assert texts == list("ABCDEF")
    assert (counts["calls"], counts["from_store"]) == (3, 3)
    assert run(lambda: session(1), *"abcdef")[1]["from_store"] == 6  # what is stored costs nothing


def test_answers_that_are_cut_are_too_many_only_where_none_has_ended() -> None:
    cut, ended = Completion("a", 1, 1, "length"), Completion("b", 1, 1, "stop")
    session, other = Session(Fake(), None), Session(Fake(), None)
    assert other.whole(ended) == "b"
    for number in range(1, 2 * IN_VAIN):
        with pytest.raises(Rejected, match="cut off"):
            other.whole(cut)
        if number < IN_VAIN:
            with pytest.raises(Rejected, match="cut off"):
                session.whole(cut)
    with pytest.raises(ServiceError, match=f"none of the first {IN_VAIN} answers ended"):
        session.whole(cut)


def test_run_all_is_in_order_and_holds_few() -> None:
    taken: list[int] = []
    held: list[int] = []

    async def worker(item: int) -> int:
        await asyncio.sleep(0.001 * (item % 3))
        return item * item

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    async def collected() -> list[int]:
        found = []
        async for square in run_all(worker, items(), 7):
            found.append(square)
            held.append(len(taken) - len(found))
        return found

    assert asyncio.run(collected()) == [item * item for item in range(50)]
    assert max(held) <= 7


def recorded(folder: Path, *rows: dict[str, str | None]) -> str:
    (folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"replay:{folder / 'r.jsonl'}"


def complete(spec: str, prompt: str, system: str | None = None) -> Completion:
    return asyncio.run(registry.create(spec).complete(prompt, system, Sampling()))


def test_answers_by_prompt_and_system(tmp_path: Path) -> None:
    spec = recorded(
        tmp_path,
        {"prompt": "Who purrs?", "answer": "<think>Hm.</think> Cats."},
        {"prompt": "Who purrs?", "system": "Shout.", "answer": "CATS!"},
        {"prompt": "Who purrs?", "system": None, "answer": "<think>Hm.</think> Cats."},  # the same again
    )
    assert complete(spec, "Who purrs?") == Completion("Cats.", 3, 6, "stop", estimated=True)
    assert complete(spec, "Who purrs?", "Shout.").text == "CATS!"
    assert registry.create(spec).spec == spec
    identity = registry.create(spec).identity
    assert registry.create(recorded(tmp_path, {"prompt": "p", "answer": "a"})).identity != identity


def test_what_is_not_recorded(tmp_path: Path) -> None:
    spec = recorded(tmp_path, {"prompt": "Who purrs?", "answer": "Cats."})
    with pytest.raises(DataError, match=r"r.jsonl: contains no answer to the prompt 'Who purrs\?'$"):
        complete(spec, "Who purrs?", "Shout.")
    with pytest.raises(DataError, match=r"r.jsonl: contains no answer to the prompt 'a\b.{78}…'$"):
        complete(spec, "a\n" * 100)


def test_files_that_are_no_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.jsonl: does not exist"):
        registry.create(f"replay:{tmp_path / 'nowhere.jsonl'}")
    with pytest.raises(DataError, match=r"r.jsonl:1: no field 'answer'; the fields are 'prompt'"):
        registry.create(recorded(tmp_path, {"prompt": "p"}))
    rows = [{"prompt": "p", "answer": "a"}, {"prompt": "q", "answer": "a"}, {"prompt": "p", "answer": "b"}]
    with pytest.raises(DataError, match=r"r.jsonl:3: another answer to the prompt of line 1$"):
        registry.create(recorded(tmp_path, *rows))
    with pytest.raises(UsageError, match="replay needs path"):
        registry.create("replay")
