"""``vectors identify``: which candidate, treated how, gave each vector of a table.

Data flow: (1) the table is read and checked. Norms, zeros at the end and grids of numbers are read off all rows. (2) A
random sample is embedded by each candidate as it is. A row is explained if the cosine distance is within the rounding
that fp32 and bf16 differ by on these texts. (3) Rows without an explanation are tried with one change of the input at a
time (prompt, role, pooling, length); what explains one of them is computed for all of them. (4) Outside the sample,
a discriminant, learned from the sample's texts under the changes, infers the explanation of rows of which it is sure.
Some of these are embedded, and all explanations of a variant are dropped if they disagree.
(5) Of the rest, the rows whose vector a ridge regression on the words of their texts predicts worst are embedded, up to
a budget. Other rows have no explanation, and the output says which rows these are.

Statistics: flagged rows are counted; for the rest the sample gives Clopper and Pearson's exact interval. Runs of rows
that differ are the segment of largest excess, with a permutation test. Decisions: the first candidate, as documents, is
expected; rounding and quantisation do not count as different, another norm than most rows have does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from scipy.stats import binomtest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import HashingVectorizer

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.files import writing
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Spec, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Column
from retrokit.data.jsonl import write_jsonl
from retrokit.data.records import PrintedRecord
from retrokit.encoders.base import Encoder
from retrokit.evaluation.comparison.comparison import FAILED, Gate
from retrokit.evaluation.comparison.gates import write_junit
from retrokit.evaluation.comparison.names import for_machines
from retrokit.evaluation.tasks.base import SearchTask
from retrokit.extensions.vectors.canaries import can_compute_in
from retrokit.extensions.vectors.checks import retrieval_tasks
from retrokit.extensions.vectors.settings import IdentifySettings
from retrokit.extensions.vectors.stored import StoredTable, read_table
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList
from retrokit.ranking.retrieval.embeddings import prepared_rows
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Role

NONE = "none of these"
BUDGET = 5000  # texts that are embedded of a larger table, unless the candidates are tables of token embeddings
TRIED = 48  # rows without an explanation on which a change is tried
EXACT, SERVICE, COARSE = 1e-5, 5e-4, 1e-3
"""Cosine distances within which a vector is the same: at least; by a service, whose rounding cannot be measured; and of
a row in int8."""
ROUNDING = 3  # times the largest distance between precisions
TIED = 3  # explanations whose distances are within this ratio are both named
UNIT = 0.01  # difference of a norm from 1
LENGTHS = (64, 128, 256, 384, 512)
POOLINGS = ("mean", "cls", "last")
PROMPTS = (
    *("query: ", "passage: ", "search_query: ", "search_document: "),
    "Represent this sentence for searching relevant passages: ",
    "title: none | text: ",
)
"""Prompts of models in use (E5, Nomic, BGE, EmbeddingGemma)."""
WORDS = 4096  # features of a text
LEARNED, VERIFIED, SURE, AGREEING = 200, 200, 0.99, 0.99
"""Texts that a discriminant learns a change from; inferred rows that are embedded to verify it; the least posterior of
an inferred explanation; and the least share of rows on which it must be right."""
NEIGHBOURS, COMPARED = 10, 2000  # of a row; rows of the sample that are compared
DRAWS, ALPHA = 200, 0.01  # permutations of ten times as many rows at most

Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Variant:
    """A candidate as it is, or with one change of its input; ``embed`` gives raw vectors."""

    name: str
    embed: Embed


@dataclass(frozen=True)
class ExplainedShare:
    """How many rows of the table an explanation has: ``low`` to ``high`` with 95% confidence; both are ``share`` if
    all rows were embedded. ``embedded`` rows were compared."""

    explanation: Annotated[str, Column("explanation")]
    embedded: Annotated[int, Column("rows embedded", ",")]
    share: Annotated[float, Column("share", ".2%")]
    low: Annotated[float, Column("at least", ".2%")]
    high: Annotated[float, Column("at most", ".2%")]


@dataclass(frozen=True)
class Stretch:
    """Rows that differ in one stretch of an order: by ``order`` in the table, ``id`` or ``length``. Of ``rows`` of the
    sample there, ``differing`` differ; ``p`` is that of a permutation test."""

    by: Annotated[str, Column("rows that differ, by")]
    first: Annotated[str, Column("from")]
    last: Annotated[str, Column("to")]
    rows: Annotated[int, Column("rows of the sample", ",")]
    differing: Annotated[int, Column("differ", ",")]
    p: Annotated[float, Column("p", ".3f")]


@dataclass(frozen=True)
class Cost:
    """The metric of a task with the stored vectors, and with those of the first candidate where rows differ."""

    task: Annotated[str, Column("task")]
    metric: Annotated[str, Column("metric")]
    stored: Annotated[float, Column("stored", ".4f")]
    repaired: Annotated[float, Column("repaired", ".4f")]


@dataclass(frozen=True)
class Identification(PrintedRecord):
    """What gave the vectors of a table.

    Attributes:
        embedded: rows that were embedded; ``inferred``: others that have an explanation; the rest have none.
        tolerance: cosine distance within which a vector is explained.
        tried: changes that were tried, by name.
        overlap: share of ten nearest neighbours in the sample that stay when rows that differ are embedded again.
        overlap_differing: the same of the rows that differ; ``None``: there are none.
        again: rows to embed again.
        gates: ``fail_under``, if it was given.
    """

    table: str
    expected: str
    rows: int
    dimension: int
    embedded: int
    inferred: int
    tolerance: float
    tried: list[str]
    shares: list[ExplainedShare]
    groups: list[Stretch]
    overlap: float
    overlap_differing: float | None
    costs: list[Cost]
    again: int
    conclusion: str = ""
    gates: list[Gate] = field(default_factory=list)


@taking(IdentifySettings)
def identify(settings: IdentifySettings) -> Identification:
    """Explain the vectors of a table.

    Raises:
        UsageError: no texts, wrong names, or a candidate with fewer dimensions than the table.
        DataError: a table that cannot be read, or has a row without a vector.
    """
    check_settings(settings)
    specs = [*dict.fromkeys(parse_all([(encoders.registry, spec) for spec in settings.candidates]))]
    table = read_table(settings.table, settings.texts)
    searched = [(task, _rows_of(task, table)) for task in retrieval_tasks(settings.on, "on", settings.device)]
    evidence = _Evidence(settings, table, specs)
    random = np.random.default_rng(settings.seed)
    count = len(table.ids)
    sample = np.sort(random.permutation(count)[: count if count <= BUDGET or evidence.embeds_all else settings.sample])
    evidence.explain(sample)
    flagged = sample[:0]
    inferred: dict[int, int] = {}
    if len(sample) < count:
        flagged, inferred = _outside(evidence, sample)
        _verify(evidence, inferred, random)
        evidence.explain(flagged)
    return _Report(settings, evidence, sample, flagged, inferred).write(searched)


def _rows_of(task: SearchTask, table: StoredTable) -> list[int]:
    """The rows of the documents of a task."""
    rows = {id: row for row, id in enumerate(table.ids)}
    missing = [id for id in task.documents.ids if id not in rows]
    if missing:
        raise UsageError(f"{table.path}: lacks {len(missing):,} documents of {task.spec}, the first {missing[0]!r}")
    return [rows[id] for id in task.documents.ids]


class _Stored(Searcher, Index):
    """Vectors that are searched by their inner product with those of ``ask``."""

    spec = "stored vectors"

    def __init__(self, ask: Embed, vectors: np.ndarray) -> None:
        self._ask, self._vectors = ask, vectors

    def index(self, documents: TextList) -> "_Stored":
        return self

    def fingerprint(self) -> str:
        return self.spec

    def search(self, queries: TextList, k: int) -> list[Ranking]:
        rankings = []
        for query in self._ask(queries):
            scores = self._vectors @ query
            best = np.argsort(-scores, kind="stable")[:k]
            rankings.append((scores[best], best))
        return rankings

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        raise UsageError("stored vectors have no scores of other texts")


class _Evidence:
    """Cosine distances between stored vectors and what candidates give, as far as rows were embedded."""

    def __init__(self, settings: IdentifySettings, table: StoredTable, specs: Sequence[Spec]) -> None:
        self.table = table
        self.texts_embedded = 0
        self.variants: list[Variant] = []
        self.untried: list[Variant] = []
        self.dimension = table.vectors.shape[1]
        loaded: list[Encoder] = [encoders.registry.create(spec, device=settings.device) for spec in specs]
        for spec, encoder in zip(specs, loaded, strict=True):
            if encoder.dimension < self.dimension:
                problem = f"gives {encoder.dimension} dimensions, and {table.path} has {self.dimension}"
                raise UsageError(f"{encoder.spec}: {problem}; leave it out")
            self.variants.append(Variant(encoder.name, _embedding(encoder)))
            changes = _changes(spec, encoder, settings.device)
            self.untried += [Variant(f"{encoder.name}, {change}", embed) for change, embed in changes]
        self._ask = _embedding(loaded[0], "query")
        self.embeds_all = all(  # tables of token embeddings, which take no time
            encoder.max_length("document") is None and can_compute_in(encoder, "fp32") for encoder in loaded
        )
        self.tolerance = _rounding(loaded[0], table.texts)
        self.candidates = len(specs)
        self.tried = [variant.name for variant in self.untried]
        self.traits = Traits.read(table.vectors)
        coarse = max(COARSE, self.tolerance)
        self._tolerances = np.where(self.traits.storage == "int8", coarse, self.tolerance)
        self.units = _unit(table.vectors)
        self.distances = [np.full(len(table.ids), np.inf) for _ in self.variants]
        self.expected: dict[int, np.ndarray] = {}
        self._random = np.random.default_rng(settings.seed)

    def explain(self, rows: np.ndarray) -> None:
        """Embed ``rows`` by all candidates, and those without an explanation with changes."""
        for index in range(self.candidates):
            self.measure(index, rows)
        while True:
            unexplained = self._unexplained(rows)
            for index in range(self.candidates, len(self.variants)):
                self.measure(index, unexplained)
            unexplained = self._unexplained(unexplained)
            if not unexplained.size or not self._try(unexplained):
                break

    def _try(self, rows: np.ndarray) -> bool:
        """Take in the changes that explain one of ``rows``; whether there are any."""
        tried = self._random.permutation(rows)[:TRIED]
        count = len(self.variants)
        for variant in [*self.untried]:
            distances = self._measure(variant, tried)
            if (distances <= self._tolerances[tried]).any():
                self.untried.remove(variant)
                self.variants.append(variant)
                self.distances.append(np.full(len(self.table.ids), np.inf))
                self.distances[-1][tried] = distances
        return len(self.variants) > count

    def _unexplained(self, rows: np.ndarray) -> np.ndarray:
        least = np.min([distances[rows] for distances in self.distances], axis=0)
        return rows[least > self._tolerances[rows]]

    def measure(self, index: int, rows: np.ndarray) -> None:
        """Embed ``rows`` by a variant, unless they were."""
        rows = rows[np.isinf(self.distances[index][rows])]
        if rows.size:
            self.distances[index][rows] = self._measure(self.variants[index], rows)

    def _measure(self, variant: Variant, rows: np.ndarray) -> np.ndarray:
        """The distances of ``rows`` from what a variant gives for their texts."""
        embedded = self.embed(variant, rows)
        if variant is self.variants[0]:
            self.expected.update(zip(rows.tolist(), embedded, strict=True))
        widths = self.traits.widths[rows]
        within = np.arange(embedded.shape[1]) < widths[:, None]
        return 1 - np.einsum("nd,nd->n", _unit(embedded * within), self.units[rows])

    def embed(self, variant: Variant, rows: np.ndarray) -> np.ndarray:
        """What a variant gives for the texts of ``rows``, ``[n, d]``, prepared as the table's vectors are."""
        self.texts_embedded += len(rows)
        return self._prepared(variant.embed([self.table.texts[row] for row in rows.tolist()]), "document")

    def ask(self, queries: Sequence[str]) -> np.ndarray:
        """The vectors of queries by the first candidate, ``[n, d]``."""
        return self._prepared(self._ask(queries), "query")

    def _prepared(self, raw: np.ndarray, role: Role) -> np.ndarray:
        raw = raw[:, : self.dimension]
        if self.table.similarity is None:
            return raw
        return prepared_rows(similarities.registry.create(self.table.similarity), raw, role)

    def explaining(self) -> np.ndarray:
        """Whether a variant explains a row, bool ``[variants, n]``: its distance is within the tolerance, and not well
        above the least."""
        distances = np.stack(self.distances)
        nearest = distances.min(axis=0)
        return (distances <= self._tolerances) & (distances <= np.maximum(TIED * nearest, EXACT / 10))

    def source_rows(self, rows: np.ndarray) -> dict[int, int]:
        """Of ``rows`` without an explanation, those whose vector is of another embedded row's text, and that row."""
        owners = [*self.expected]
        expected = np.stack([*self.expected.values()])
        scores, nearest = top_k(similarities.registry.create("cosine"), self.units[rows], expected, 1)
        is_source = 1 - scores[:, 0] <= self._tolerances[rows]
        return {row: owners[owner] for row, owner in zip(rows[is_source].tolist(), nearest[is_source, 0], strict=True)}


@dataclass(frozen=True)
class Traits:
    """What can be read off each row without a text, ``[n]``: dimensions before zeros at the end; whether its norm is 1;
    and the type whose grid its numbers are on, ``float16``, ``bfloat16``, ``int8`` or empty."""

    widths: np.ndarray
    is_unit: np.ndarray
    storage: np.ndarray

    @classmethod
    def read(cls, vectors: np.ndarray) -> "Traits":
        """The traits of float32 ``[n, d]``."""
        dimension = vectors.shape[1]
        widths = dimension - (vectors[:, ::-1] != 0).argmax(axis=1)
        widths[dimension - widths < max(2, dimension // 16)] = dimension
        norms = np.linalg.norm(vectors, axis=1)
        is_unit = np.abs(norms - 1) <= UNIT
        if UNIT < abs(np.median(norms) - 1) < 0.5:
            is_unit[:] = False  # a norm of 1 is usual without normalising
        bits = np.ascontiguousarray(vectors).view(np.uint32)
        with np.errstate(over="ignore"):
            is_half = (vectors.astype(np.float16) == vectors).all(axis=1)
        storage = np.where(_is_quantised(vectors, widths), "int8", "").astype("<U8")
        storage[is_half] = "float16"
        storage[(bits & 0xFFFF == 0).all(axis=1)] = "bfloat16"
        return cls(widths, is_unit, storage)


def _is_quantised(vectors: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Which rows are on a grid of 8 bits: multiples of the largest number's 127th part; or numbers that other rows have
    in the same dimension, which float32 hardly ever repeats."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    steps = vectors * np.divide(127, largest, out=np.zeros_like(largest), where=largest > 0)
    is_scaled = (np.abs(steps - steps.round()) < 0.01).all(axis=1)
    repeats = np.zeros(len(vectors), dtype=np.int64)
    _, first_rows = np.unique(vectors, axis=0, return_index=True)
    for column in vectors[first_rows].T:
        _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
        repeats[first_rows] += (counts[inverse] > 1) & (column != 0)
    return is_scaled | (repeats >= np.maximum(3, widths // 50))


def _embedding(encoder: Encoder, role: Role = "document") -> Embed:
    precision = "fp32" if can_compute_in(encoder, "fp32") else "auto"
    return lambda texts: encoder.embed(texts, role, precision)


def _changes(spec: Spec, encoder: Encoder, device: str | None) -> Iterator[tuple[str, Embed]]:
    """The changes of a candidate's input, and what embeds with them."""
    names = {param.name for param in encoders.registry.entry(spec.name).params}

    def opened(**params: Any) -> Embed:
        """What loads the encoder when it is first used."""
        loaded: list[Embed] = []

        def embed(texts: Sequence[str]) -> np.ndarray:
            if not loaded:
                loaded.append(_embedding(encoders.registry.create(spec.changed(**params), device=device)))
            return loaded[0](texts)

        return embed

    prompts = encoder.prompts
    if prompts["query"] != prompts["document"] or encoder.max_length("query") != encoder.max_length("document"):
        yield "as queries", _embedding(encoder, "query")
    bare = _embedding(encoder)
    if prompts["document"]:
        bare = opened(document_prompt="")
        yield "without its prompt", bare
    for prompt in PROMPTS:
        if prompt not in prompts.values():
            yield f"prompt {prompt!r}", _with_prompt(bare, prompt)
    for pooling in POOLINGS:
        if "pooling" in names and spec.params.get("pooling") != pooling:
            yield f"pooling {pooling}", opened(pooling=pooling)
    longest = encoder.max_length("document")
    for length in LENGTHS:
        if "max_length" in names and (longest is None or length < longest):
            yield f"cut at {length} tokens", opened(max_length=length)


def _with_prompt(embed: Embed, prompt: str) -> Embed:
    return lambda texts: embed([prompt + text for text in texts])


def _rounding(encoder: Encoder, texts: Sequence[str]) -> float:
    """The cosine distance within which two servers of an encoder agree, from what fp32 and bf16 differ by."""
    if not can_compute_in(encoder, "bf16"):
        return SERVICE
    texts = texts[:: max(1, len(texts) // 32)]
    rows = [_unit(encoder.embed(texts, "document", precision)) for precision in ("fp32", "bf16")]
    largest = float((1 - np.einsum("nd,nd->n", *rows)).max())
    return max(EXACT, ROUNDING * largest)


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of norm 1, float64; zeros stay."""
    wide = rows.astype(np.float64)
    return wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-30)


def _outside(evidence: _Evidence, sample: np.ndarray) -> tuple[np.ndarray, dict[int, int]]:
    """Rows outside the sample that are in doubt, to be embedded, and the variants that are inferred for others."""
    words = HashingVectorizer(n_features=WORDS, alternate_sign=False).transform(evidence.table.texts)
    gram = (words.T @ words).toarray()
    gram[np.diag_indices(WORDS)] += 1
    predicted = words @ np.linalg.solve(gram, words.T @ evidence.units)
    surprise = 1 - np.einsum("nd,nd->n", _unit(predicted), evidence.units)
    posteriors = _posteriors(evidence, sample, predicted)
    doubt = posteriors[1:].max(axis=0, initial=0)
    is_sure = doubt >= SURE
    remaining = BUDGET - evidence.texts_embedded
    order = np.argsort(np.where(is_sure, 0, -surprise - doubt))
    flagged = order[np.cumsum(~np.isin(order, sample)) <= remaining // len(evidence.variants)]
    rows = np.setdiff1d(np.flatnonzero(is_sure), np.union1d(flagged, sample))
    return flagged, dict(zip(rows.tolist(), posteriors[:, rows].argmax(axis=0).tolist(), strict=True))


def _verify(evidence: _Evidence, inferred: dict[int, int], random: np.random.Generator) -> None:
    """Embed some of the rows of each inferred variant. Leaves only rows of variants that are right, not embedded."""
    for index in {*inferred.values()}:
        rows = [row for row, variant in inferred.items() if variant == index]
        embedded = random.permutation(rows)[:VERIFIED]
        evidence.measure(0, embedded)
        evidence.measure(index, embedded)
        is_right = evidence.explaining()[index, embedded].mean() >= AGREEING
        for row in embedded.tolist() if is_right else rows:
            del inferred[row]


def _posteriors(evidence: _Evidence, sample: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The posterior of each variant for each row, ``[variants, n]``, from the vector less what its text predicts."""
    explaining = evidence.explaining()[:, sample]
    truth = np.where(explaining.any(axis=0), explaining.argmax(axis=0), -1)
    posteriors = np.zeros((len(evidence.variants), len(predicted)))
    classes = [index for index in range(len(evidence.variants)) if index == 0 or (truth == index).any()]
    if len(classes) < 2:
        return posteriors
    features, labels = [], []
    for index in classes:
        rows = sample if index == 0 else sample[:: max(1, len(sample) // LEARNED)]
        features.append(_unit(evidence.embed(evidence.variants[index], rows)) - predicted[rows])
        labels += [index] * len(rows)
    priors = np.array([np.mean(truth == index) + 1 / len(sample) for index in classes])
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=priors / priors.sum())
    model.fit(np.concatenate(features), labels)
    posteriors[classes] = model.predict_proba(evidence.units - predicted).T
    return posteriors


class _Report:
    """The result, and the files that the settings name."""

    def __init__(
        self,
        settings: IdentifySettings,
        evidence: _Evidence,
        sample: np.ndarray,
        flagged: np.ndarray,
        inferred: dict[int, int],
    ) -> None:
        self._settings, self._table, self._evidence = settings, evidence.table, evidence
        self._sample, self._flagged = sample, flagged
        self._inferred = inferred
        self._embedded = np.isfinite(evidence.distances[0])
        self._explaining = evidence.explaining()
        self._variants = np.where(self._explaining.any(axis=0), self._explaining.argmax(axis=0), -1)
        unexplained = np.flatnonzero(self._embedded & (self._variants < 0))
        self._sources = evidence.source_rows(unexplained)
        traits = evidence.traits
        self._is_unit = np.mean(traits.is_unit) >= 0.5  # of most rows
        self._is_odd = (traits.is_unit != self._is_unit) | (traits.widths < evidence.dimension)
        self._differs = self._is_odd | (self._embedded & (self._variants != 0))
        self._differs[[*inferred]] = True

    def write(self, tasks: Sequence[tuple[SearchTask, list[int]]]) -> Identification:
        """The result; writes the files."""
        evidence, table = self._evidence, self._table
        names = {row: self._name(row) for row in np.flatnonzero(self._embedded).tolist()}
        encoder = evidence.variants[0].name
        self._write_rows(names)
        as_expected = self._share(f"as {encoder}", ~self._differs)
        shares = [as_expected]
        labels = np.array([names.get(row) for row in range(len(table.ids))], dtype=object)
        for name, _ in Counter(names.values()).most_common():
            shares.append(self._share(name, labels == name))
        is_raw = table.similarity is not None
        stored = table.vectors if is_raw or self._is_unit else evidence.units
        repaired = stored.copy()
        for row in np.flatnonzero(self._differs & self._embedded).tolist():
            expected = evidence.expected[row]
            repaired[row] = expected if is_raw else expected / np.linalg.norm(expected)
        overlap, overlap_differing = self._overlaps(stored, repaired)
        again = np.flatnonzero(self._differs).tolist()
        if self._settings.again is not None:
            with writing(self._settings.again) as stream:
                stream.writelines(f"{table.ids[row]}\n" for row in again)
        embedded = int(self._embedded.sum())
        verdict = f"{as_expected.share:.2%} of the rows of {table.path} are as {encoder} gives them"
        if embedded < len(table.ids):
            interval = f"{as_expected.low:.2%} to {as_expected.high:.2%}"
            verdict += f" ({interval}; {embedded:,} of {len(table.ids):,} rows were embedded)"
        return Identification(
            table=table.path,
            expected=encoder,
            rows=len(table.ids),
            dimension=evidence.dimension,
            embedded=embedded,
            inferred=len(self._inferred),
            tolerance=evidence.tolerance,
            tried=evidence.tried,
            shares=shares,
            groups=self._groups(),
            overlap=overlap,
            overlap_differing=overlap_differing,
            costs=[self._cost(task, stored[rows], repaired[rows]) for task, rows in tasks],
            again=len(again),
            conclusion=verdict,
            gates=self._gates(encoder, as_expected.share, verdict),
        )

    def _name(self, row: int, variant: int | None = None) -> str:
        """The explanation of a row, with what can be read off its numbers."""
        variant = int(self._variants[row]) if variant is None else variant
        if variant >= 0:
            name = self._evidence.variants[variant].name
        elif row in self._sources:
            name = f"{self._evidence.variants[0].name}, the text of another row"
        else:
            name = NONE
        traits = self._evidence.traits
        if traits.widths[row] < self._evidence.dimension:
            name += f", first {traits.widths[row]} dimensions"
        if traits.is_unit[row] != self._is_unit:
            name += ", norm 1" if traits.is_unit[row] else ", not normalised"
        return f"{name}, {traits.storage[row]}" if traits.storage[row] else name

    def _write_rows(self, names: dict[int, str]) -> None:
        if self._settings.rows is None:
            return

        def lines() -> Iterator[dict[str, Any]]:
            for row, id in enumerate(self._table.ids):
                line: dict[str, Any] = {"id": id, "differs": bool(self._differs[row])}
                if row in names:
                    nearest = min(distances[row] for distances in self._evidence.distances)
                    line |= {"explanation": names[row], "by": "embedding", "cosine": 1 - float(nearest)}
                    others = np.flatnonzero(self._explaining[:, row])[1:].tolist()
                    if others:
                        line["also"] = [self._evidence.variants[other].name for other in others]
                    if row in self._sources:
                        line["text_of"] = self._table.ids[self._sources[row]]
                elif row in self._inferred:
                    line |= {"explanation": self._name(row, self._inferred[row]), "by": "inference"}
                else:
                    line |= {"explanation": None, "by": "not embedded"}
                yield line

        write_jsonl(self._settings.rows, lines())

    def _share(self, explanation: str, has: np.ndarray) -> ExplainedShare:
        """The share of an explanation, bool ``[n]``: flagged rows are counted, and the sample stands for the rest."""
        drawn = np.setdiff1d(self._sample, self._flagged)
        counted, hits = int(has[self._flagged].sum()), int(has[drawn].sum())
        rest = len(has) - len(self._flagged)
        if len(drawn) == rest:
            low = high = hits / rest
        else:
            low, high = binomtest(hits, len(drawn)).proportion_ci(0.95, method="exact")
        shares = [(counted + rest * share) / len(has) for share in (hits / len(drawn), low, high)]
        return ExplainedShare(explanation, counted + hits, *shares)

    def _gates(self, encoder: str, share: float, verdict: str) -> list[Gate]:
        """The gate, which is also written as JUnit's XML."""
        least = self._settings.fail_under
        if least is None:
            return []
        gate = Gate("fail_under", self._table.path, encoder, "share", f"at least {least:g}", share)
        if share < least:
            gate = replace(gate, verdict=FAILED, message=f"{verdict}; required {least:.2%}")
        if self._settings.junit is not None:
            write_junit(for_machines([gate]), self._settings.junit)
        return [gate]

    def _cost(self, task: SearchTask, *vectors: np.ndarray) -> Cost:
        metric = task.main_metric
        values = []
        for rows in vectors:
            searcher = _Stored(self._evidence.ask, rows)
            values.append(task.measure_index(searcher, [metric], task.depth([metric]), searcher).value(metric))
        return Cost(task.spec, metric, *values)

    def _overlaps(self, stored: np.ndarray, repaired: np.ndarray) -> tuple[float, float | None]:
        """Shares of the ten nearest neighbours in the sample that stay when rows that differ are embedded again."""
        rows = self._sample[:COMPARED]
        k = max(1, min(NEIGHBOURS, len(rows) - 1))
        neighbours = []
        for vectors in (stored[rows], repaired[rows]):
            scores = vectors @ vectors.T
            np.fill_diagonal(scores, -np.inf)
            neighbours.append(np.argpartition(-scores, k - 1)[:, :k])
        before, after = neighbours
        overlaps = (before[:, :, None] == after[:, None]).any(axis=2).mean(axis=1)
        differs = self._differs[rows]
        return float(overlaps.mean()), float(overlaps[differs].mean()) if differs.any() else None

    def _groups(self) -> list[Stretch]:
        """The stretches in which rows of the sample differ."""
        rows = self._sample[:: 1 + len(self._sample) // (10 * COMPARED)].tolist()
        ids = self._table.ids
        texts = self._table.texts
        orders = {
            "order": rows,
            "id": sorted(rows, key=lambda row: (len(ids[row]), ids[row])),
            "length": sorted(rows, key=lambda row: len(texts[row])),
        }
        groups = []
        for by, order in orders.items():
            if by == "id" and order == rows:
                continue
            segment = _densest(self._differs[order])
            if segment is not None:
                start, stop, p = segment
                ends = [order[start], order[stop - 1]]
                first, last = [f"{len(texts[row])} characters" if by == "length" else ids[row] for row in ends]
                groups.append(Stretch(by, first, last, stop - start, int(self._differs[order[start:stop]].sum()), p))
        return groups


def _densest(differs: np.ndarray) -> tuple[int, int, float] | None:
    """The segment of ``differs``, bool ``[n]``, with the largest excess over its mean, as start and stop, and the p of
    a permutation test; ``None``: no segment is significant."""
    excess = differs - differs.mean()
    random = np.random.default_rng(0)
    drawn = random.permuted(np.tile(excess, (DRAWS, 1)), axis=1)
    sums = np.cumsum(np.vstack([excess, drawn]), axis=1)
    sums = np.pad(sums, [(0, 0), (1, 0)])
    lowest = np.minimum.accumulate(sums, axis=1)
    rises = (sums - lowest).max(axis=1)
    p = float((rises >= rises[0] - 1e-9).sum() / (DRAWS + 1))
    if p > ALPHA or not differs.any():
        return None
    stop = int((sums[0] - lowest[0]).argmax())
    return int(sums[0, :stop].argmin()), stop, p
