"""Near-misses from a file into files: reading texts or pairs, writing training and held-out triplets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from retrokit.augmentation.edits.by_model import (
    CAUSES,
    Writer,
    estimate,
    open_writer,
    prompts_of,
    rejections,
)
from retrokit.augmentation.edits.family import Family, load_families
from retrokit.augmentation.edits.generator import SPLITS, Split, Text, near_misses
from retrokit.augmentation.edits.running_text import RULES, reasons
from retrokit.augmentation.settings import BUDGET, NearMissSettings
from retrokit.augmentation.texts import Rows, Texts
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import writing
from retrokit.core.outputs import check_outputs
from retrokit.core.registry import estimating
from retrokit.core.settings import FILE, taking
from retrokit.data.jsonl import json_line
from retrokit.llm import registry as llms
from retrokit.llm.prompts import OURS, wording_for
from retrokit.llm.store import default_store


@dataclass(frozen=True)
class Written:
    """The ``files``, the ``counts`` of :func:`near_misses`, the ``families``, and a summary of a model's calls."""

    files: tuple[str, ...]
    counts: Counter[str]
    families: tuple[str, ...] = ()
    calls: str | None = None

    @property
    def by_family(self) -> dict[str, int]:
        """The near-misses by ``FAMILY/SPLIT``."""
        return {key: number for key, number in sorted(self.counts.items()) if "/" in key and ":" not in key}

    def summary(self) -> list[str]:
        """Near-misses by family, sentences dropped by rule, and quotas that the texts did not fill."""
        counts, by_family = self.counts, self.by_family
        families = "; ".join(f"{family}: {number:,}" for family, number in by_family.items())
        lines = [f"{counts['sentences']:,} sentences: {sum(by_family.values()):,} near-misses ({families})"]
        if dropped := sum(counts[rule] for rule in RULES):
            lines.append(f"{dropped:,} sentences gave none ({reasons(counts, RULES, most=3)})")
        if rejected := sum(counts[f"rejected:{cause}"] for cause in CAUSES):
            lines.append(f"{rejected:,} answers of the model were rejected ({rejections(counts)})")
        if self.calls is not None:
            lines.append(self.calls)
        lines += [f"{family}: none in these texts" for family in self.families if not self._number_of(family)]
        if missing := self._missing():
            lines.append(f"the texts did not fill every quota: {', '.join(missing)} are missing")
        return lines

    def _number_of(self, family: str) -> int:
        return sum(self.counts[f"{family}/{split}"] for split in SPLITS)

    def _missing(self) -> list[str]:
        """What quotas miss: how many, of which family and split."""
        return [
            f"{number:,} of {key.removeprefix('missing:')}" for key, number in self.counts.items() if "missing:" in key
        ]


@taking(NearMissSettings)
def write_near_misses(settings: NearMissSettings) -> Written:
    """Write near-misses of the texts, or of the pairs' anchors, in ``path`` as JSONL; with ``split`` as two files,
    ``NAME.train.jsonl`` and ``NAME.test.jsonl``; with ``llm`` by a language model, with the answer cache ``store``.

    Raises:
        UsageError: a wrong family, number or combination.
        DataError: a line that is wrong, or no near-miss at all (the message counts the rules that dropped sentences).
        ServiceError: the model failed, or wrote no near-miss.
        BudgetSpent, Interrupted: the budget does not suffice, or Ctrl-C. The answers are cached.
    """
    counts: Counter[str] = Counter()
    files = _files(settings.output, settings.split)
    with ExitStack() as stack:
        families, texts, writer = stack.enter_context(_sources(settings, list(files.values()), counts))
        triplets = near_misses(
            texts,
            families,
            seed=settings.seed,
            per_family=settings.per_family,
            split=settings.split,
            counts=counts,
            ahead=iter if writer is None else writer.ahead,
        )
        streams = {split: stack.enter_context(writing(file)) for split, file in files.items()}
        for split, near_miss in triplets:
            streams[split].write(json_line(near_miss.to_json()))
        names = tuple(family.name for family in families)
        calls = writer.session.summary() if writer is not None else None
        written = Written(tuple(files.values()), counts, names, calls)
        if not written.by_family:
            if writer is not None:
                writer.check()
            raise DataError(settings.path, f"gives no near-miss: {'; '.join(written.summary()[1:])}")
    return written


@contextmanager
def _sources(
    settings: NearMissSettings, files: Sequence[str], counts: Counter[str]
) -> Iterator[tuple[Sequence[Family], Iterable[Text], Writer | None]]:
    """The families, the texts, and what requests the edits of a model, if there is one."""
    families, texts, store = near_miss_families(settings.families), _texts(settings), settings.store
    if settings.llm is not None:
        prompts_of(families, settings.prompts or OURS)
    check_outputs([(file, FILE) for file in (*files, store) if file is not None], [settings.path])
    if settings.llm is None:
        yield families, texts, None
        return
    if store is None and settings.output != "-":
        store = str(default_store(settings.output))
    model = llms.create(settings.llm)
    prompts = prompts_of(families, settings.prompts or wording_for(model))
    max_tokens = settings.max_tokens or BUDGET
    with open_writer(model, families, prompts, store, max_tokens, settings.concurrency, counts) as writer:
        yield writer.families, texts, writer


def near_miss_families(names: Sequence[str]) -> tuple[Family, ...]:
    """The named families. Raises :class:`UsageError` as :func:`load_families`, and for one that keeps the meaning, or
    that needs a corpus: a sentence is edited on its own here."""
    families = load_families(names)
    controls = [family.name for family in families if not family.changes_meaning]
    if controls:
        raise UsageError(f"{', '.join(controls)}: keeps the meaning, and so makes no near-misses; name other families")
    of_corpus = [family.name for family in families if family.needs_corpus]
    if of_corpus:
        problem = "takes words or names from other texts, which only probe stress has"
        raise UsageError(f"{', '.join(of_corpus)}: {problem}; name other families")
    return families


@taking(NearMissSettings)
@estimating()
def estimate_of(settings: NearMissSettings) -> str:
    """The calls of a language model for the texts, or the pairs' anchors, in ``path``; raises as
    :func:`write_near_misses` does before the first call."""
    model = None if settings.llm is None else llms.create(settings.llm)
    prompts = prompts_of(near_miss_families(settings.families), settings.prompts or wording_for(model))
    return estimate(_texts(settings), prompts)


def _texts(settings: NearMissSettings) -> Iterable[Text]:
    if settings.positive == "paraphrase":
        return ((row.text("anchor"), row.text("positive")) for _, row in Rows(settings.path))
    return (text.text for text in Texts(settings.path, settings.field))


def _files(output: str, split: float | None) -> dict[Split, str]:
    if split is None:
        return {"train": output}
    path = Path(output)
    packed = ".gz" if path.suffix == ".gz" else ""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return {name: str(path.with_name(f"{stem}.{name}.jsonl{packed}")) for name in SPLITS}
