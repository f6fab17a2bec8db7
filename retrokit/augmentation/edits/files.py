"""Near-misses from a file into files: reading texts or pairs, writing training and held-out triplets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from retrokit.augmentation.edits.by_model import CAUSES, CallEstimate, estimate, open_writer, prompts_of, rejections
from retrokit.augmentation.edits.family import Family, load_families
from retrokit.augmentation.edits.generator import SPLITS, Split, Text, near_misses
from retrokit.augmentation.edits.running_text import RULES
from retrokit.augmentation.settings import BUDGET, NearMissSettings
from retrokit.augmentation.texts import Rows, Texts
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named, writing
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE, taking
from retrokit.data.jsonl import json_line
from retrokit.llm import registry as llms
from retrokit.llm.prompts import OURS, wording_for
from retrokit.llm.store import default_store


@dataclass(frozen=True)
class Written:
    """The ``files``, the ``counts`` of :func:`near_misses`, and a summary of a language model's calls."""

    files: tuple[str, ...]
    counts: Counter[str]
    calls: str | None = None

    def summary(self) -> list[str]:
        """Near-misses by family, sentences dropped by rule, and quotas that the texts did not fill."""
        counts = self.counts
        by_kind = {key: number for key, number in counts.items() if "/" in key and not key.startswith("missing:")}
        lines = [
            f"{counts['sentences']:,} sentences: {sum(by_kind.values()):,} near-misses "
            f"({'; '.join(f'{key}: {number:,}' for key, number in sorted(by_kind.items()))})"
        ]
        dropped = sorted(((counts[rule], rule) for rule in RULES if counts[rule]), reverse=True)
        if dropped:
            reasons = "; ".join(f"{number:,}: {RULES[rule]}" for number, rule in dropped)
            lines.append(f"{sum(number for number, _ in dropped):,} sentences gave none ({reasons})")
        rejected = sum(counts[f"rejected:{cause}"] for cause in CAUSES)
        if rejected:
            lines.append(f"{rejected:,} answers of the model were rejected ({rejections(counts)})")
        if self.calls is not None:
            lines.append(self.calls)
        missing = {key.partition(":")[2]: number for key, number in counts.items() if key.startswith("missing:")}
        if missing:
            short = ", ".join(f"{number:,} of {key}" for key, number in missing.items())
            lines.append(f"the texts did not fill every quota: {short} are missing")
        return lines


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
    families = near_miss_families(settings.families)
    prompts = [] if settings.llm is None else prompts_of(families, settings.prompts or OURS)
    texts, store = _texts(settings), settings.store
    files = _files(settings.output, settings.split)
    check_outputs([(file, FILE) for file in (*files.values(), *([] if store is None else [store]))], [settings.path])
    with ExitStack() as stack:
        writer = None
        if settings.llm is not None:
            if store is None and settings.output != "-":
                store = str(default_store(settings.output))
            model = llms.create(settings.llm)
            prompts = prompts_of(families, wording_for(model)) if settings.prompts is None else prompts
            max_tokens = settings.max_tokens or BUDGET
            writer = stack.enter_context(
                open_writer(model, families, prompts, store, max_tokens, settings.concurrency, counts)
            )
            families, texts = writer.families, writer.ahead(texts)
        triplets = near_misses(
            texts,
            families,
            seed=settings.seed,
            per_family=settings.per_family,
            split=settings.split,
            counts=counts,
        )
        streams = {split: stack.enter_context(writing(file)) for split, file in files.items()}
        for split, near_miss in triplets:
            streams[split].write(json_line(near_miss.to_json()))
        written = Written(tuple(files.values()), counts, writer.session.summary() if writer is not None else None)
        if not any("/" in key and not key.startswith("missing:") for key in counts):
            if writer is not None:
                writer.check()
            raise DataError(named(settings.path), f"gives no near-miss: {'; '.join(written.summary()[1:])}")
    return written


def near_miss_families(names: Sequence[str]) -> tuple[Family, ...]:
    """The named families. Raises :class:`UsageError` as :func:`load_families`, and for one that keeps the meaning."""
    families = load_families(names)
    controls = [family.name for family in families if not family.changes_meaning]
    if controls:
        raise UsageError(f"{', '.join(controls)}: keeps the meaning, and so makes no near-misses; name other families")
    return families


@taking(NearMissSettings)
def estimate_of(settings: NearMissSettings) -> CallEstimate:
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
