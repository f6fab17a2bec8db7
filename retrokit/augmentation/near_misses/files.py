"""Near-misses from a file into files: reading texts or pairs, writing training and held-out triplets."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from retrokit.augmentation.near_misses.by_model import CAUSES, CallEstimate, Writer, estimate, prompts_of, rejections
from retrokit.augmentation.near_misses.family import load_families
from retrokit.augmentation.near_misses.generator import RULES, SPLITS, Split, near_misses
from retrokit.augmentation.settings import BUDGET, NearMissSettings
from retrokit.augmentation.texts import Rows, Texts
from retrokit.core.errors import DataError
from retrokit.core.files import named, writing
from retrokit.core.outputs import check_outputs
from retrokit.core.registry import estimating
from retrokit.core.settings import FILE, taking
from retrokit.data.jsonl import json_line
from retrokit.llm import registry as llms
from retrokit.llm.prompts import OURS, wording_for
from retrokit.llm.store import ResponseStore, default_store


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
    chosen = load_families(settings.families)
    prompts = [] if settings.llm is None else prompts_of(chosen, settings.prompts or OURS)
    texts, store = _texts(settings), settings.store
    files = _files(settings.output, settings.split)
    check_outputs([(file, FILE) for file in (*files.values(), *([] if store is None else [store]))], [settings.path])
    with ExitStack() as stack:
        writer = None
        if settings.llm is not None:
            if store is None and settings.output != "-":
                store = str(default_store(settings.output))
            model = llms.create(settings.llm)
            prompts = prompts_of(chosen, wording_for(model)) if settings.prompts is None else prompts
            responses = None
            if store is not None:
                responses = stack.enter_context(ResponseStore(store))
                stack.enter_context(responses.going_on())
            writer = stack.enter_context(
                Writer(model, chosen, prompts, responses, settings.max_tokens or BUDGET, settings.concurrency, counts)
            )
            chosen, texts = writer.families, writer.ahead(texts)
        split, per_family = settings.split, settings.per_family
        edits = near_misses(texts, chosen, seed=settings.seed, per_family=per_family, split=split, counts=counts)
        streams = {part: stack.enter_context(writing(file)) for part, file in files.items()}
        for part, near_miss in edits:
            streams[part].write(json_line(near_miss.to_json()))
        written = Written(tuple(files.values()), counts, writer.session.summary() if writer is not None else None)
        if not any("/" in key and not key.startswith("missing:") for key in counts):
            if writer is not None:
                writer.check()
            raise DataError(named(settings.path), f"gives no near-miss: {'; '.join(written.summary()[1:])}")
    return written


@taking(NearMissSettings)
@estimating()
def estimate_of(settings: NearMissSettings) -> CallEstimate:
    """The calls of a language model for the texts, or the pairs' anchors, in ``path``; raises as
    :func:`write_near_misses` does before the first call."""
    model = None if settings.llm is None else llms.create(settings.llm)
    prompts = prompts_of(load_families(settings.families), settings.prompts or wording_for(model))
    return estimate(_texts(settings), prompts)


def _texts(settings: NearMissSettings) -> Iterable[str | tuple[str, str]]:
    if settings.positive == "paraphrase":
        return ((row.text("anchor"), row.text("positive")) for _, row in Rows(settings.path))
    return (text.text for text in Texts(settings.path, settings.field))


def _files(output: str, split: float | None) -> dict[Split, str]:
    if split is None:
        return {"train": output}
    path = Path(output)
    packed = ".gz" if path.suffix == ".gz" else ""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return {part: str(path.with_name(f"{stem}.{part}.jsonl{packed}")) for part in SPLITS}
