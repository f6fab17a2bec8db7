"""What a retriever does not understand: pass rates by capability, over edits of a user's texts (CheckList; COMP 3.2).

An *edit* changes the meaning. It passes if the original scores above it by more than the spread: the largest change of
the score over harmless edits of the same text. A *control* does not change the meaning. It passes if the original
scores above unrelated texts, and the control costs at most ``tolerance`` of that distance. Without judged queries, a
sentence is its own query. A text counts once, however many edits it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from retrokit.augmentation.draws import bits
from retrokit.augmentation.edits import registry
from retrokit.augmentation.edits.by_model import with_model
from retrokit.augmentation.edits.family import EDIT, Family, load_families
from retrokit.augmentation.edits.generator import EditCase, EditSet, TextToEdit, edit_set, sample_of
from retrokit.augmentation.settings import BUDGET
from retrokit.augmentation.texts import Text, Texts
from retrokit.core.errors import DataError, MissingExtra, RetrokitError, UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Column, Sheet, grouped, record_sheet
from retrokit.data.jsonl import write_jsonl
from retrokit.data.sure import TESTBEDS
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import FAILED, PASSED, Gate
from retrokit.evaluation.comparison.correlations import MEASURES
from retrokit.evaluation.comparison.gates import write_junit
from retrokit.evaluation.comparison.names import for_machines
from retrokit.evaluation.evaluate import evaluate_systems
from retrokit.evaluation.settings import EvaluationSettings, parse_gate
from retrokit.extensions.stress.settings import StressSettings
from retrokit.metrics.ranking import mean
from retrokit.metrics.significance import holm, paired_t_test, randomisation_test, wilson
from retrokit.probing.base import Findings, read_retrieval
from retrokit.probing.edits import ScoredEdit, Scores, score_edits
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import Searcher, TextList

TESTED = 30
"""Edits of a capability from which on it is tested."""
RANDOM, BM25, NONE, DEFAULT = "random", "bm25", "none", "default"
REFERENCE, SYSTEM = "reference", "system"
SIGNIFICANT = 0.05
WORST = 3
RERANKED = 50
"""Edits of a capability that are reranked at most."""
_ROUNDING = 1e-6
_CONTEXT = 40

Outcomes = Mapping[str, Sequence["EditOutcome"]]
"""The outcomes of edits by their families."""


@dataclass(frozen=True)
class PassRate:
    """How one system does in one capability.

    Attributes:
        role: ``system``, or ``reference`` (bm25, random).
        texts, edits: how many it was measured on.
        rate: mean over texts of the share of edits that pass, with its 95% interval ``low`` to ``high`` by texts.
        cost: median fall of the score, as a share of the distance to unrelated texts.
        caught: share of the edits that the first system fails and the reranker passes; ``None``: no such edit.
        difference: from the first system; ``p`` of the paired test with Holm's correction. ``None``: not tested.
    """

    capability: str
    kind: str
    system: str
    role: str
    texts: int
    edits: int
    rate: float
    low: float
    high: float
    cost: float
    caught: float | None = None
    difference: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class FailedEdit:
    """An edit that a system fails by most: its score fell by ``fall``, and the bound was ``bound``. ``edited_query`` is
    the query that the edited document is scored for."""

    system: str
    capability: Annotated[str, Column("capability")]
    edit: Annotated[str, Column("edit")]
    id: Annotated[str, Column("id")]
    query: str
    original: Annotated[str, Column("original → edited", _difference)]
    edited: str
    edited_query: str
    fall: float
    bound: float


@dataclass(frozen=True)
class EditCount:
    """The number of edits of one capability, and of texts that have them."""

    capability: Annotated[str, Column("capability")]
    kind: Annotated[str, Column("kind")]
    texts: Annotated[int, Column("texts", ",")]
    edits: Annotated[int, Column("edits", ",")]


@dataclass(frozen=True)
class SureRow:
    """SURE's rank consistencies of one system in one testbed; ``mean``: over the testbeds."""

    system: str
    testbed: str
    rdc: float
    roc: float


@dataclass(frozen=True)
class StressProbe(Findings):
    """What ``probe stress`` measured."""

    pictures: ClassVar = {"stress": "Pass rates: capability by system"}

    data: str
    texts: int
    tolerance: float
    seed: int
    rates: list[PassRate]
    counts: list[EditCount]
    worst: list[FailedEdit] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    sure: list[SureRow] = field(default_factory=list)

    @property
    def verdicts(self) -> Sequence[Gate]:
        return self.gates

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {name: rows for name, rows in super().rows().items() if rows}

    @property
    def conclusion(self) -> str:
        parts = []
        for system, rows in grouped((row for row in self.rates if row.role == SYSTEM), "system").items():
            tested = sorted((row for row in rows if row.edits >= TESTED), key=lambda row: row.rate)
            weakest = ", ".join(f"{row.capability} {row.rate:.2f}" for row in tested[:3])
            parts.append(f"{system}: lowest pass rates {weakest or 'of nothing tested'}")
        counted = f"{sum(row.edits for row in self.counts):,} edits of {self.texts:,} texts"
        return f"{'; '.join(parts) or counted}."

    def sheets(self) -> list[Sheet]:
        if not self.rates:
            return [record_sheet(f"edits: {self.data}", self.counts)]
        return [self._rates_sheet(), *self._sure_sheets(), *self._worst_sheets()]

    def _rates_sheet(self) -> Sheet:
        systems = list(dict.fromkeys(row.system for row in self.rates))
        columns = ["capability", "kind", "texts", *systems]
        notes = [
            "edit: share of texts whose score falls by more than harmless edits move it",
            f"control: share of texts whose score falls by at most {self.tolerance:.0%} of the way to unrelated texts",
            f"* differs from {systems[0]} (p < {SIGNIFICANT}, Holm); in brackets: under {TESTED} edits, not tested",
        ]
        shows_caught = any(row.caught is not None for row in self.rates)
        if shows_caught:
            columns.append("caught")
            notes.append(f"caught: share of what {systems[0]} fails that the reranker passes")
        cells: list[list[Any]] = []
        for kind, of_kind in grouped(self.rates, "kind").items():
            for capability, rows in grouped(of_kind, "capability").items():
                line = [capability, kind, f"{rows[0].texts:,}", *map(_cell, rows)]
                if shows_caught:
                    line.append("" if rows[0].caught is None else f"{rows[0].caught:.0%}")
                cells.append(line)
            cells.append([])
        return Sheet(f"pass rates: {self.data}", columns, 2, cells, notes)

    def _sure_sheets(self) -> Iterator[Sheet]:
        if self.sure:
            systems = list(dict.fromkeys(row.system for row in self.sure))
            cells = []
            for testbed, rows in grouped(self.sure, "testbed").items():
                for measure in MEASURES:
                    cells.append([testbed, measure, *(f"{getattr(row, measure):.3f}" for row in rows)])
            yield Sheet("SURE: rank consistency with the reference", ["testbed", "measure", *systems], 2, cells)

    def _worst_sheets(self) -> Iterator[Sheet]:
        of_first = [row for row in self.worst if row.system == self.rates[0].system]
        worst = [rows[0] for rows in grouped(of_first, "capability").values()]
        if worst:
            yield record_sheet(f"failed by most: {worst[0].system}", worst)

    def plot(self, folder: str | Path) -> list[Path]:
        """A heat map: a row per capability, a column per system."""
        from retrokit.core.figures import PANELS, fitting, panels, save, shown, told_in_cells

        if not self.rates:
            return []
        systems = fitting(list(dict.fromkeys(row.system for row in self.rates)), PANELS, "systems", "stress")
        ordered = sorted(self.rates, key=lambda row: row.kind != EDIT)
        names = {row.capability: f"{row.capability} ({row.kind}, {row.texts:,} texts)" for row in ordered}
        rates = {(row.capability, row.system): row.rate for row in self.rates}
        values = np.array([[rates.get((capability, system), np.nan) for system in systems] for capability in names])
        figure, (axes,) = panels(1, 1.2 + 0.26 * len(names))
        axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        told_in_cells(axes, values, 0.5, ".2f", "–", fontsize=8)
        axes.set_xticks(range(len(systems)), [shown(system, 24) for system in systems], fontsize=8, rotation=20)
        axes.set_yticks(range(len(names)), names.values(), fontsize=8)
        axes.set_title("pass rate", fontsize=9)
        return save(figure, folder, "stress")


def _cell(row: PassRate) -> tuple[str, ...]:
    if row.edits < TESTED:
        return (f"({row.rate:.2f})",)
    star = "*" if row.p is not None and row.p < SIGNIFICANT else ""
    return f"{row.rate:.2f}{star}", f"{row.low:.2f}–{row.high:.2f}"


def _difference(row: FailedEdit) -> str:
    """Where the edited text differs, or the edited query, with a few words around it.

    >>> _difference(FailedEdit("s", "c", "e", "1", "q", "A drug may help.", "A drug will help.", "q", 0.0, 0.1))
    'A drug [may → will] help.'
    >>> _difference(FailedEdit("s", "keywords", "query", "1", "Is it a drug?", "It is.", "It is.", "drug", 0.1, 0.0))
    '[Is it a drug? → drug]'
    """
    is_of_query = row.edited == row.original
    texts = (row.query, row.edited_query) if is_of_query else (row.original, row.edited)
    old, new = (text.split() for text in texts)
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    middle = [_shortened(" ".join(words[start : len(words) - end])) for words in (old, new)]
    before, after = " ".join(old[:start]), " ".join(old[len(old) - end :])
    before = f"…{before[-_CONTEXT:]}" if len(before) > _CONTEXT else before
    after = f"{after[:_CONTEXT]}…" if len(after) > _CONTEXT else after
    return " ".join(part for part in (before, f"[{' → '.join(middle)}]", after) if part)


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of words that both begin with."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _shortened(text: str) -> str:
    return text if len(text) <= 2 * _CONTEXT else f"{text[:_CONTEXT]} … {text[-_CONTEXT:]}"


@dataclass(frozen=True)
class EditOutcome:
    """What a system makes of an edit: whether it passes, the bound of its fall, and the distance between the original
    and unrelated texts."""

    edit: ScoredEdit
    passed: bool
    bound: float
    distance: float

    @property
    def case(self) -> EditCase:
        return self.edit.case

    @property
    def excess(self) -> float:
        """By how much the fall is above the bound, as a share of the distance."""
        return (self.edit.fall - self.bound) / max(self.distance, 1e-12)


def outcomes_of(score: Scores, cases: Sequence[EditCase], tolerance: float, name: str = "system") -> Outcomes:
    """The outcomes of the edits by their families, by a function of scores. Raises :class:`UsageError` if a pair has no
    score."""
    outcomes = [_outcome(edit, tolerance) for edit in score_edits(score, cases, name)]
    return grouped(outcomes, "case.edit.family")


def _outcome(edit: ScoredEdit, tolerance: float) -> EditOutcome:
    original, fall = edit.original, edit.fall
    distance = 0.0
    if edit.unrelated:
        distance = original - sum(edit.unrelated) / len(edit.unrelated)
    rounding = _ROUNDING * max(1.0, abs(original))
    if edit.case.edit.changes_meaning:
        bound = max((abs(original - score) for score in edit.harmless), default=0.0)
        return EditOutcome(edit, fall > bound + rounding, bound, distance)
    bound = tolerance * max(distance, 0.0)
    return EditOutcome(edit, fall <= bound + rounding and distance > 0, bound, distance)


def random_scores(queries: Sequence[str], texts: Sequence[str]) -> np.ndarray:
    """Cosines ``[n]`` of an encoder that gives every text a random direction: what chance passes."""
    vectors = {text: np.random.default_rng(bits(text)).standard_normal(64) for text in {*queries, *texts}}
    units = {text: vector / np.linalg.norm(vector) for text, vector in vectors.items()}
    return np.array([units[query] @ units[text] for query, text in zip(queries, texts, strict=True)])


@dataclass(frozen=True)
class StressedSystem:
    """A system with its role and its outcomes."""

    name: str
    role: str
    outcomes: Outcomes


@taking(StressSettings)
def probe_stress(settings: StressSettings) -> StressProbe:
    """Edit texts by every capability, and measure in which of them each system passes.

    Raises:
        UsageError: an unknown name, a system without scores of pairs, a gate on a capability that is not tested, or an
            output that is an input.
        DataError: a wrong line, no text with a sentence that a rule can edit, or files that cannot be written.
        MissingExtra: the tagger is not installed.
    """
    check_settings(settings)
    limits = _checked(settings)
    searchers, reranker = _searchers(settings), _reranker(settings)
    families = load_families(settings.capabilities or None)
    corpus = _read(settings)
    cases, sentences = _edited(settings, families, corpus)
    if settings.save_edits is not None:
        write_jsonl(settings.save_edits, (case.to_json() for case in cases))
    if settings.encoders and not settings.all_:
        cases = _of_few_texts(cases, settings.per_capability)
    names = [family.name for family in families]
    cases.sort(key=lambda case: names.index(case.edit.family))
    counts = list(_counts(cases))
    _check_gated(limits, counts)
    documents = TextList(sentences) if corpus.documents is None else corpus.documents
    systems = list(_measured(settings, searchers, documents, cases))
    rates = _rates(systems, _caught(settings, reranker, systems))
    gates = list(_gates(rates, limits, corpus.name))
    if settings.junit is not None:
        write_junit(for_machines(gates), settings.junit)
    return StressProbe(
        data=corpus.name,
        texts=len({case.key for case in cases}),
        tolerance=settings.tolerance,
        seed=settings.seed,
        rates=rates,
        counts=counts,
        worst=list(_worst(systems)),
        gates=gates,
        sure=list(_sure(settings)),
    )


def _checked(settings: StressSettings) -> list[tuple[str, float]]:
    """The gates. Raises, before any work, :class:`UsageError` for all wrong names at once, and as SURE's task does."""
    requests = [(retrieval.registry_of(spec), spec) for spec in settings.encoders]
    if settings.with_ not in (None, NONE):
        requests.append((reranking.registry_of(settings.with_), settings.with_))
    if settings.sure is not None:
        requests.append((tasks, f"sure:{settings.sure}"))
    limits = [parse_gate(text) for text in settings.fail_under]
    for name, limit in limits:
        if not 0 <= limit <= 1:
            raise UsageError(f"`fail_under=` {name}={limit:g}: a pass rate is from 0 to 1")
    requests += [(registry, name) for name in (*settings.capabilities, *dict(limits))]
    parse_all(requests)
    if settings.capabilities:
        _check_tested(limits, settings.capabilities)
    if settings.sure is not None:
        tasks.create(f"sure:{settings.sure}")
    return limits


def _check_tested(limits: Sequence[tuple[str, float]], capabilities: Sequence[str]) -> None:
    for name, _ in limits:
        if name not in capabilities:
            raise UsageError(f"`fail_under=` {name}: `capabilities=` leaves it out")


def _searchers(settings: StressSettings) -> dict[str, Searcher]:
    """The systems that are no encoders. Raises :class:`UsageError`, before any work, for one without scores of pairs
    of texts."""
    searchers = {
        spec: retrieval.create(spec, settings.device, precision=settings.precision)
        for spec in settings.encoders
        if retrieval.registry_of(spec) is retrieval.registry
    }
    for spec, searcher in searchers.items():
        if searcher.by_ids:
            raise UsageError(f"{spec}: ranks by ids, and has no scores of pairs of texts")
        searcher.index(TextList()).score_pairs(TextList(), TextList())
    return searchers


def _reranker(settings: StressSettings) -> Reranker | None:
    """What reranks, if anything does. Raises :class:`UsageError`, before any work, for one without scores of pairs."""
    if settings.with_ == NONE or not settings.encoders:
        return None
    try:
        reranker = reranking.create(settings.with_ or DEFAULT, settings.device)
    except RetrokitError as error:
        if settings.with_ is not None:
            raise
        notice(f"without the default verifier: {error}")
        return None
    reranker.score_pairs((), ())
    return reranker


class Corpus(NamedTuple):
    """What is edited: its name, its texts, and the documents of an index if there are any."""

    name: str
    texts: Iterator[TextToEdit]
    documents: TextList | None


def _read(settings: StressSettings) -> Corpus:
    """The texts, or the judged queries with the best document of each."""
    translations: dict[str, str] = {}
    if settings.translations is not None:
        translations = {_id(row): row.text for row in Texts(settings.translations, settings.field)}
    if settings.on is None:
        assert settings.texts is not None
        rows = Texts(settings.texts, settings.field)
        texts = (TextToEdit(_id(row), row.text, None, translations.get(_id(row))) for row in rows)
        return Corpus(rows.name, texts, None)
    task = read_retrieval(settings.on)
    notice(task.describe())
    data = task.data
    best: dict[str, str] = {}
    for query, document in sorted(data.pairs(), key=lambda pair: -data.qrels[pair[0]][pair[1]]):
        best.setdefault(query, document)
    judged = (
        TextToEdit(query, data.documents_by_id[document], data.queries_by_id[query], translations.get(query))
        for query, document in best.items()
    )
    return Corpus(settings.on, judged, task.documents)


def _id(row: Text) -> str:
    return f"{row.line}" if row.id is None else row.id


def _edited(settings: StressSettings, families: Sequence[Family], corpus: Corpus) -> EditSet:
    """The edits of a sample of the texts. Raises :class:`DataError` for too few."""
    sample = sample_of(corpus.texts, settings.limit, settings.seed)
    if settings.translations is not None and not any(text.translation for text in sample):
        raise DataError(settings.translations, "has none of the ids of the texts, or queries, that are edited")
    if settings.llm is None:
        edits = edit_set(sample, families, settings.seed)
    else:
        with with_model(families, settings.llm, settings.store, settings.max_tokens or BUDGET) as model:
            edits = edit_set(sample, model.families, settings.seed, model.ahead)
    if not edits.cases:
        raise DataError(corpus.name, "contains no sentence that a rule can edit")
    edited = {case.edit.family for case in edits.cases}
    if absent := [family.name for family in families if family.name not in edited]:
        notice(f"no edits in these texts: {', '.join(absent)}")
    if settings.encoders and not any(case.unrelated for case in edits.cases):
        raise DataError(corpus.name, "contains one text that a rule can edit; systems need a second, unrelated one")
    return edits


def _of_few_texts(cases: Sequence[EditCase], most: int) -> list[EditCase]:
    """The edits of at most ``most`` texts of each capability: the first, because the order of texts is random."""
    texts: dict[str, set[str]] = {}
    few = []
    for case in cases:
        keys = texts.setdefault(case.edit.family, set())
        if case.key in keys or len(keys) < most:
            keys.add(case.key)
            few.append(case)
    if len(few) < len(cases):
        notice(f"{len(few):,} of {len(cases):,} edits: at most {most:,} texts a capability; `all_=` measures all")
    return few


def _sure(settings: StressSettings) -> Iterator[SureRow]:
    """SURE's measures of the systems, over all testbeds and in each."""
    if settings.sure is None:
        return
    options = EvaluationSettings(
        settings.encoders,
        [f"sure:{settings.sure}"],
        precision=settings.precision,
        device=settings.device,
    )
    prefixes = {"mean": ""} | {testbed: f"{testbed}_" for testbed in TESTBEDS}
    for result in evaluate_systems(options).results:
        for testbed, prefix in prefixes.items():
            if f"{prefix}rdc" in result.metrics:
                yield SureRow(
                    system=result.encoder,
                    testbed=testbed,
                    rdc=result.metrics[f"{prefix}rdc"],
                    roc=result.metrics[f"{prefix}roc"],
                )


def _counts(cases: Sequence[EditCase]) -> Iterator[EditCount]:
    for family, of_family in grouped(cases, "edit.family").items():
        texts = {case.key for case in of_family}
        yield EditCount(family, of_family[0].edit.kind, len(texts), len(of_family))


def _check_gated(limits: Sequence[tuple[str, float]], counts: Sequence[EditCount]) -> None:
    edits = {row.capability: row.edits for row in counts}
    for name, _ in limits:
        count = edits.get(name, 0)
        if count < TESTED:
            raise UsageError(f"`fail_under=` {name}: {count} edits are too few to test; give texts for {TESTED}")


def _measured(
    settings: StressSettings, searchers: Mapping[str, Searcher], documents: TextList, cases: Sequence[EditCase]
) -> Iterator[StressedSystem]:
    """The systems, then what they are compared with."""
    for spec in settings.encoders:
        searcher = searchers.get(spec) or retrieval.create(spec, settings.device, precision=settings.precision)
        name = retrieval.stages_of(spec).label or str(retrieval.registry_of(spec).parse(spec))
        score = searcher.index(documents).score_pairs
        yield StressedSystem(name, SYSTEM, outcomes_of(score, cases, settings.tolerance, name))
    if settings.encoders and BM25 not in settings.encoders:
        try:
            score = retrieval.create(BM25).index(documents).score_pairs
            yield StressedSystem(BM25, REFERENCE, outcomes_of(score, cases, settings.tolerance))
        except MissingExtra as error:
            notice(f"without the reference {BM25}: {error}")
    if settings.encoders:
        yield StressedSystem(RANDOM, REFERENCE, outcomes_of(random_scores, cases, settings.tolerance))


def _caught(settings: StressSettings, reranker: Reranker | None, systems: Sequence[StressedSystem]) -> dict[str, float]:
    """By family, the share of edits that the first system fails and the reranker passes, of at most 50."""
    if reranker is None:
        return {}
    chosen: list[EditCase] = []
    for outcomes in systems[0].outcomes.values():
        failed = [outcome.case for outcome in outcomes if not outcome.passed and outcome.case.edit.changes_meaning]
        chosen += failed[:RERANKED]
    if not chosen:
        return {}
    reranked = outcomes_of(reranker.score_pairs, chosen, settings.tolerance, reranker.spec)
    return {family: _share(outcomes) for family, outcomes in reranked.items()}


def _share(outcomes: Sequence[EditOutcome]) -> float:
    """The share of edits that pass."""
    return sum(outcome.passed for outcome in outcomes) / len(outcomes)


def _rates(systems: Sequence[StressedSystem], caught: Mapping[str, float]) -> list[PassRate]:
    """A row for each family and system, with Holm's correction over all tests."""
    if not systems:
        return []
    rates: list[PassRate] = []
    for family in systems[0].outcomes:
        first: dict[str, float] = {}
        for system in systems:
            outcomes = system.outcomes[family]
            shares = {text: _share(of_text) for text, of_text in grouped(outcomes, "case.key").items()}
            rate = mean(shares)
            low, high = wilson(rate, len(shares))
            row = PassRate(
                capability=family,
                kind=outcomes[0].case.edit.kind,
                system=system.name,
                role=system.role,
                texts=len(shares),
                edits=len(outcomes),
                rate=rate,
                low=low,
                high=high,
                cost=_cost(outcomes),
            )
            if first:
                row = replace(row, difference=rate - mean(first))
                if len(outcomes) >= TESTED:
                    row = replace(row, p=max(paired_t_test(first, shares).p, randomisation_test(first, shares)))
            else:
                row = replace(row, caught=caught.get(family))
                first = shares
            rates.append(row)
    corrected = iter(holm([row.p for row in rates if row.p is not None]))
    return [row if row.p is None else replace(row, p=next(corrected)) for row in rates]


def _cost(outcomes: Sequence[EditOutcome]) -> float:
    shares = [outcome.edit.fall / outcome.distance for outcome in outcomes if outcome.distance > 0]
    return float(np.median(shares)) if shares else 0.0


def _worst(systems: Sequence[StressedSystem]) -> Iterator[FailedEdit]:
    """The edits of each system and family that fail by most, by the distance of the original to unrelated texts."""
    for system in systems:
        if system.role != SYSTEM:
            continue
        for outcomes in system.outcomes.values():
            failed = [outcome for outcome in outcomes if not outcome.passed]
            # an edit fails by too small a fall, a control by too large a one
            failed.sort(key=attrgetter("excess"), reverse=not outcomes[0].case.edit.changes_meaning)
            for outcome in failed[:WORST]:
                case = outcome.case
                yield FailedEdit(
                    system=system.name,
                    capability=case.edit.family,
                    edit=case.edit.name,
                    id=case.id,
                    query=case.query,
                    original=case.edit.before,
                    edited=case.edit.after,
                    edited_query=case.edited_query,
                    fall=outcome.edit.fall,
                    bound=outcome.bound,
                )


def _gates(rates: Sequence[PassRate], limits: Sequence[tuple[str, float]], source: str) -> Iterator[Gate]:
    for row in rates:
        for name, limit in limits:
            if row.role == SYSTEM and row.capability == name:
                failure = ""
                if row.rate < limit:
                    failure = f"{row.system} on {source}: {name} = {row.rate:.4f} is under {limit:g}"
                verdict = FAILED if failure else PASSED
                yield Gate("fail_under", source, row.system, name, f"at least {limit:g}", row.rate, verdict, failure)
