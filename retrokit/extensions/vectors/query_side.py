"""``vectors train``: only the query side learns, against the stored vectors of an export.

A map of the query's embedding x is x + f(x), where f starts as 0: a matrix, a product of two narrow ones, or a layer
with ReLU between. Weight decay pulls it to the identity, and evaluations choose the share s of x + s·f(x). ``encoder``
trains a copy of the encoder. The loss is InfoNCE over prepared vectors, whose negatives are the batch's documents, the
given ones, and documents that the export itself ranks high. A model folder has a ``Router``: documents pass as before.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules import Router
from torch import Tensor, nn

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.data import exports
from retrokit.data.beir import corpus_file, retrieval_data
from retrokit.data.corpus import read_corpus
from retrokit.data.exports import Export, open_export
from retrokit.data.jsonl import strictly
from retrokit.data.pairs import Source, hold_out, part_of, read_source, texts_file
from retrokit.data.pairs import registry as source_registry
from retrokit.data.runs import TRAINING, Run
from retrokit.data.tables import read_rows
from retrokit.data.training_rows import WITHOUT_NAMES, Pair, pair_codes, text_id
from retrokit.encoders import engine
from retrokit.encoders.base import Encoder, Item
from retrokit.encoders.precision import name_of
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.encoders.towers import tower_of, with_modules
from retrokit.encoders.views import EncoderView, MemoizedEncoder
from retrokit.evaluation.tasks.base import SearchTask
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.extensions.vectors.checks import check_documents, check_whole, search_tasks
from retrokit.extensions.vectors.maps import VectorMap, check_rank
from retrokit.extensions.vectors.settings import VectorsConfig
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.retrieval.dense import Dense, DenseIndex, check_export, export_index
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from retrokit.similarities.base import Role, Similarity
from retrokit.training.batches import Batches, Example, Loader, TrainingSet
from retrokit.training.card import model_card
from retrokit.training.evaluations import HOLDOUT, Evaluations, task_names
from retrokit.training.history import Outcome
from retrokit.training.loss import InfoNCE
from retrokit.training.model import (
    as_encoder,
    build,
    check_weights,
    describe_parameters,
    export,
    learning_rate,
    merged,
)
from retrokit.training.preflight import SCALE_SAMPLE, Preflight, check_max_length, of_any_run
from retrokit.training.processes import ends_all, own_device, process_count
from retrokit.training.run import Job, carry_out, check_places, identity_of, provenance, training_precision
from retrokit.training.trainer import Options, RunTrainer

MAP_RATE = 1e-4
"""The default learning rate of a map."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""The shares of a map's change among which an evaluation chooses."""
MINED_AMONG, BLOCK, DEPTH = 32_768, 128, 32
"""Documents in which negatives are searched for, neighbours that are sampled together, and the nearest of a query among
which its negatives are drawn."""
HELD_OUT_AMONG = 100_000
"""Documents at most among which held-out pairs are ranked, a random sample."""


class QueryMap(nn.Module):
    """x + s·f(x), the identity at the start: ``map`` f = A, ``low-rank:r`` f = B·A, ``mlp`` f = B·ReLU(A·)."""

    def __init__(self, dimension: int, kind: str, seed: int) -> None:
        super().__init__()
        name, _, rank = kind.partition(":")
        self.share, self.bends = 1.0, name == "mlp"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first = None if name == "map" else nn.Linear(dimension, int(rank or dimension), bias=False)
        self.last = nn.Linear(dimension if self.first is None else self.first.out_features, dimension, bias=False)
        nn.init.zeros_(self.last.weight)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace ``features["sentence_embedding"]`` by its image."""
        embeddings = features["sentence_embedding"]
        inner = embeddings if self.first is None else self.first(embeddings)
        change = self.last(inner.relu() if self.bends else inner)
        return {**features, "sentence_embedding": embeddings + self.share * change}

    @torch.no_grad()
    def layers(self) -> list[nn.Module]:
        """The same as stock layers, so that plain sentence-transformers loads it."""
        change = self.share * self.last.weight.double().cpu().numpy().T
        identity, bias = np.eye(change.shape[1]), np.zeros(change.shape[1])
        if self.first is None:
            return VectorMap(identity + change, bias).layers()
        first = self.first.weight.double().cpu().numpy().T
        mapped = VectorMap(identity, bias, first, change) if self.bends else VectorMap(identity + first @ change, bias)
        return mapped.layers()


class MappedEncoder(EncoderView):
    """An encoder whose queries go through a map."""

    def __init__(self, encoder: Encoder, query_map: QueryMap) -> None:
        super().__init__(encoder)
        self._map = query_map

    @torch.no_grad()
    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        rows = super().embed(items, role, precision)
        if role == "document":
            return rows
        mapped: np.ndarray = self._map({"sentence_embedding": torch.tensor(rows)})["sentence_embedding"].numpy()
        return mapped


class QuerySide(nn.Module):
    """The module under training: features of queries to prepared embeddings. Those of documents are prepared already.
    The similarity does not learn: what it has learned is in the documents."""

    def __init__(self, learns: nn.Module, similarity: Similarity) -> None:
        super().__init__()
        self.learns = learns
        self._similarity = [copy.deepcopy(similarity).requires_grad_(False)]

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        if features["task"] == "document":
            return features
        raw = self.learns(features)["sentence_embedding"]
        if not isinstance(self.learns, QueryMap):  # an encoder ends in Prepare
            return {"sentence_embedding": raw}
        return {"sentence_embedding": self._similarity[0].to(raw.device).prepare(raw, "query")}


@dataclass(frozen=True)
class QueryCollator:
    """Examples to features of queries, and to ``rows`` of the export: positives, then all given negatives. ``features``
    are those of texts."""

    features: Any
    rows: Mapping[str, int]

    def __call__(self, examples: list[Example]) -> dict[str, Any]:
        pairs = [example.record for example in examples if isinstance(example.record, Pair)]
        documents = [pair.positive for pair in pairs] + [text for pair in pairs for text in pair.negatives]
        ids = torch.tensor([example.anchor_id for example in examples])
        query = {**self.features([pair.anchor for pair in pairs]), "task": "query", "text_ids": ids}
        return {"query": query, "rows": torch.tensor([self.rows[id] for id in documents]), "batch": pairs}


def asked_by(encoder: Encoder, index: DenseIndex) -> DenseIndex:
    """The same vectors of an export for the queries of another encoder, read once for both."""
    searcher = index.searcher
    embeddings = SharedEmbeddings(encoder, [searcher.scorer], searcher.embeddings.precision)
    asking = Dense(embeddings, searcher.scorer, searcher.faiss, searcher.quantize)
    asking.export = searcher.export
    return DenseIndex(asking, index.source)


class MinedNegatives:
    """Documents near each anchor. Every ``every`` steps they are searched for again, in another sample of the
    export ``stored``, once an anchor is in a batch."""

    def __init__(
        self, searcher: Dense, stored: Export, anchors: Iterable[str], every: int, count: int, seed: int
    ) -> None:
        self.searcher, self.stored = searcher, stored
        self.every, self.count, self.seed = every, count, seed
        self.number = {anchor: number for number, anchor in enumerate(dict.fromkeys(anchors))}
        self.nearest = torch.full((len(self.number), min(DEPTH, stored.note["count"])), -1)
        self.turn = torch.full((len(self.number),), -1)
        self._sample: tuple[int, np.ndarray, DenseIndex] | None = None

    def draw(self, anchors: Sequence[str], step: int, encoder: Encoder) -> Tensor:
        """Rows of ``count`` documents for each anchor, which the step's own random numbers choose."""
        turn, numbers = step // self.every, [self.number[anchor] for anchor in anchors]
        outdated = {}
        for anchor, number in zip(anchors, numbers, strict=True):
            if self.turn[number] != turn:
                outdated[anchor] = number
        if outdated:
            changed = list(outdated.values())
            sample, index = self._sample_of(turn)
            rankings = asked_by(encoder, index).search(TextList(outdated), self.nearest.shape[1])
            nearest = np.stack([positions for _, positions in rankings])
            self.nearest[changed] = torch.from_numpy(sample[nearest])
            self.turn[changed] = turn
        random = np.random.default_rng([self.seed, step, text_id(anchors[0])])
        columns = random.random((len(numbers), self.nearest.shape[1])).argsort(axis=1)[:, : self.count]
        return self.nearest[torch.tensor(numbers)[:, None], torch.from_numpy(columns)].flatten()

    def _sample_of(self, turn: int) -> tuple[np.ndarray, DenseIndex]:
        """Rows of the sample of a turn, and their index: all documents, or blocks of neighbours, which are read from
        disk together."""
        if self._sample is None or self._sample[0] != turn:
            count, random = self.stored.note["count"], np.random.default_rng([self.seed, turn])
            blocks = np.arange(0, count, BLOCK)
            chosen = np.sort(random.permutation(blocks)[: MINED_AMONG // BLOCK])
            rows = (chosen[:, None] + np.arange(BLOCK)).flatten()
            rows = rows[rows < count]
            self._sample = turn, rows, self.searcher.over_rows(self.stored, rows)
        return self._sample[1:]


class QueryTrainer(RunTrainer):
    """Trains a :class:`QuerySide`, and measures it on tasks by search in the export."""

    def __init__(self, *shared: Any, plan: "QueryPlan") -> None:
        super().__init__(*shared)
        self.plan = plan
        self.loss = plan.loss().to(self.args.device)
        self.mined = plan.negatives()
        self._indexes: dict[str, DenseIndex] = {}

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch, with negatives from the index."""
        rows = inputs["rows"].cpu()
        if self.mined is not None:
            anchors = [pair.anchor for pair in inputs["batch"]]
            if self.prefetcher is not None:
                self.prefetcher.wait()  # a tokenizer serves one thread at a time
            self.model.eval()
            rows = torch.cat([rows, self.mined.draw(anchors, self.state.global_step, self.plan.query_encoder())])
            self.model.train()
        vectors = self.plan.documents_at(rows.numpy())
        document = {"sentence_embedding": vectors, "text_ids": rows, "task": "document"}
        self.loss.model = model
        with self.accelerator.autocast():
            return self.loss([inputs["query"], self.on_device(document)])

    def measure(self) -> dict[str, float]:
        """The metrics of all tasks, of a map those of the best share of its change."""
        tasks, decides, learns = self.plan.evaluations.tasks, self.plan.metric, self.plan.model.learns
        shares = SHARES if isinstance(learns, QueryMap) and self.state.global_step else (1.0,)
        self.model.eval()
        measured = {share: self._measured_at(share) for share in shares} if tasks else {1.0: {}}
        best = max(measured, key=lambda share: self.history.worth(measured[share].get(decides, 0.0)))
        self.evaluation_notes = {"share": best} if isinstance(learns, QueryMap) else {}
        return measured[best]

    def _measured_at(self, share: float) -> dict[str, float]:
        encoder, metrics = self.plan.query_encoder(share), dict[str, float]()
        for name, task in self.plan.evaluations.tasks.items():
            assert isinstance(task, SearchTask)
            names, searcher = self.plan.evaluations.metrics_of(name), self.plan.searcher
            if name not in self._indexes:
                self._indexes[name] = searcher.index(task.documents)
            index = asked_by(encoder, self._indexes[name])
            measured = task.measure_index(index, names, task.depth(names), searcher)
            metrics |= {f"{name}:{metric}": measured.value(metric) for metric in names}
        return metrics

    def write_model(self, folder: Path) -> bool:
        """Nothing: the weights of the query side are in the checkpoint already."""
        return False

    def further_state(self) -> dict[str, Any]:
        return {} if self.mined is None else {"nearest": self.mined.nearest, "turn": self.mined.turn}

    def restore(self, further_state: dict[str, Any]) -> None:
        if self.mined is not None:
            self.mined.nearest, self.mined.turn = further_state["nearest"], further_state["turn"]


@dataclass(frozen=True)
class QueryPlan(Job):
    """The training of a query side. ``encoder`` embedded the documents of the export ``stored``, in which ``searcher``
    searches; ``rows`` are those of the ids in the data, and ``digest`` is the export's."""

    config: VectorsConfig
    preflight: Preflight
    encoder: Encoder
    model: QuerySide
    searcher: Dense
    stored: Export
    similarity: Similarity
    rows: Mapping[str, int]
    evaluations: Evaluations
    digest: str

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @property
    def precision(self) -> torch.dtype:
        is_map = isinstance(self.model.learns, QueryMap)
        return torch.float32 if is_map else training_precision(self.config, self.model.learns, self.device)

    @property
    def records(self) -> list[Pair]:
        """All pairs, with ids in place of documents."""
        return _pairs(self.batches.data.sources)

    def describe(self) -> Run:
        notes = {**self.preflight.notes(), **provenance()}
        return Run(TRAINING, self.similarity.spec, self.config.start, self.identity, notes=notes)

    def loss(self) -> InfoNCE:
        """InfoNCE; documents are known by their rows."""
        codes = torch.tensor([(text_id(pair.anchor), self.rows[pair.positive]) for pair in self.records])
        positives = pair_codes(codes[:, 0], codes[:, 1]).unique()
        return InfoNCE(
            self.model,
            self.similarity,
            self.preflight.scale["scale"],
            positives=positives,
            directions=self.config.directions,
        )

    def negatives(self) -> MinedNegatives | None:
        """What mines negatives, if any are wanted."""
        config, anchors = self.config, (pair.anchor for pair in self.records)
        if not config.mined:
            return None
        return MinedNegatives(self.searcher, self.stored, anchors, config.mine_every, config.mined, config.seed)

    def documents_at(self, rows: np.ndarray) -> Tensor:
        """Prepared embeddings of documents, as :func:`documents_at`."""
        return documents_at(self.stored, self.similarity, rows)

    def query_encoder(self, share: float = 1.0) -> Encoder:
        """What embeds queries now, with a share of a map's change."""
        learns = self.model.learns
        if not isinstance(learns, QueryMap):
            return as_encoder(learns, self.config.start)
        shared = copy.deepcopy(learns).cpu()
        shared.share = share
        return MappedEncoder(self.encoder, shared)

    def trainer(self, options: Options) -> RunTrainer:
        config, learns = self.config, self.model.learns
        features = self._embedded if isinstance(learns, QueryMap) else self._tokenised
        loader = Loader(self.batches.data, self.batches, QueryCollator(features, self.rows))
        assert config.lr is not None  # a plan has one
        return QueryTrainer(self.model, options, loader, {"": config.lr}, plan=self)

    def _embedded(self, texts: list[str]) -> dict[str, Any]:
        return {"sentence_embedding": torch.tensor(self.encoder.embed(texts, "query", self.config.precision))}

    def _tokenised(self, texts: list[str]) -> dict[str, Any]:
        limit = {} if self.config.max_length is None else {"max_length": self.config.max_length}
        learns: Any = self.model.learns
        return dict(engine.preprocess(learns, texts, prompt=self.encoder.prompts["query"], task="query", **limit))

    def intervals(self, steps: int) -> tuple[int | None, int]:
        config = self.config
        save_every = config.save_every or config.eval_every or max(50, steps // 10)
        every = config.eval_every or max(1, steps // 10)
        return every if self.evaluations.tasks else None, save_every

    def selection(self, folder: Path) -> dict[str, Any]:
        return self.evaluations.selection(self.config, self.preflight.overlaps, folder)

    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        check_weights(trainer.model, trainer.folder.target)
        if export_digest(self.stored) != self.digest:
            raise DataError(self.stored.folder, "changed while the query side was trained; export again")
        start, learns = self.encoder.to_train().model, self.model.learns
        facts: dict[str, Any] = {"steps made": outcome.steps, "best step": outcome.best_step}
        if isinstance(learns, QueryMap):
            chosen = [row["share"] for row in outcome.evaluations if row["step"] == outcome.best_step]
            learns.share = facts["share of the change"] = chosen[0] if chosen else 1.0
            modules = [*start, _router(learns.layers(), [])]
        else:
            *query, _ = list(learns)  # type: ignore[call-overload] # a model that ends in Prepare
            modules = [_router([merged(query[0]), *query[1:]], tower_of(start, "document"))]
        last = copy.deepcopy(list(build(self.encoder, self.similarity.spec)[0])[-1])
        export(with_modules(start, [*modules, last]), staged)
        name, encoder = trainer.folder.target.name, self.config.start
        documents = f"documents are embedded as by `{encoder}`, whose stored vectors it searches"
        more = f" Only its query side was trained: {documents}."
        card = model_card(name, self.similarity, self.preflight, trainer.history.rows, facts, more)
        (staged / "README.md").write_text(card, encoding="utf-8")
        return {}


def documents_at(stored: Export, similarity: Similarity, rows: np.ndarray) -> Tensor:
    """Prepared embeddings of documents, without the dimension that gives them one norm; signs are at the length of what
    they stand for if that is 1."""
    vectors = torch.from_numpy(stored.take(rows))
    if stored.note["one_length"]:
        vectors = vectors[:, :-1]
    is_binary = stored.note["dtype"] == "binary"
    return vectors / vectors.shape[1] ** 0.5 if is_binary and similarity.unit_length else vectors


def _router(query: Iterable[nn.Module], documents: Iterable[nn.Module]) -> Router:
    return Router({"query": [*query], "document": [*documents]}, default_route="document")


def export_digest(folder: Export) -> str:
    """The digest of all files of an export."""
    names = [(shard.folder / name).relative_to(folder.folder) for shard in folder.parts for name in exports.FILES]
    return digest(folder.folder, [str(name) for name in names if (folder.folder / name).is_file()])


@taking(VectorsConfig)
def train(config: VectorsConfig) -> Outcome:
    """Train a query side, and leave a finished model folder; raises as :func:`plan` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan(config))


@ends_all
def plan(config: VectorsConfig, *, dry_run: bool = False) -> QueryPlan:
    """Read and check everything, as the plan of any fine-tuning. A ``dry_run`` embeds a sample of the queries only.

    Raises:
        UsageError: also an export of another encoder or similarity, or of chunks; documents that it does not have.
        DataError: as there.
    """
    stored, device = _opened(config), own_device(config.device)
    with strictly(config.strict):
        sources, held_out, rows, digests = read_by_id(config, stored)
        data = TrainingSet(sources, seed=config.seed)
        batches = Batches(data, config.batch_size, config.seed, no_duplicates=config.no_duplicates, mix=config.mix)
        evaluations = evaluations_of(config, stored, held_out, device)
    searcher = _searcher_of(config, stored, device)
    config = replace(config, encoder=config.encoder or stored.note["encoder"]["spec"])
    encoder, similarity = MemoizedEncoder(searcher.embeddings.encoder), searcher.scorer
    learns: Any
    if config.query_side == "encoder":
        learns = _trained_queries(config, similarity, device)
    else:
        check_whole(encoder)
        learns = QueryMap(encoder.dimension, config.query_side, config.seed).to(encoder.device)
    is_map = isinstance(learns, QueryMap)
    config = replace(config, lr=config.lr or (MAP_RATE if is_map else learning_rate(learns)))
    texts = _texts_of(evaluations.tasks.values())
    model, documents_digest = QuerySide(learns, similarity), export_digest(stored)
    resolved = {"sim": similarity.spec, "best_metric": evaluations.decides or None}
    if not is_map:
        resolved["precision"] = name_of(training_precision(config, learns, encoder.device))
    return QueryPlan(
        config=config,
        batches=batches,
        metric=evaluations.decides,
        preflight=Preflight(
            **of_any_run(config, batches, encoder.device, {}, **resolved),
            parameters=describe_parameters(model),
            scale=_scale(config, stored, encoder, similarity, sources, rows, embed_all=is_map and not dry_run),
            evaluated={name: task.spec for name, task in evaluations.tasks.items()},
            overlaps=evaluations.overlaps(_with_texts(sources, texts)),
        ),
        identity=identity_of(
            config,
            encoder.device,
            computes_in=encoder.computes_in(config.precision),
            fingerprint=encoder.fingerprint(),
            digests={**digests, "documents_digest": documents_digest},
        ),
        encoder=encoder,
        model=model,
        searcher=searcher,
        stored=stored,
        similarity=similarity,
        rows=rows,
        evaluations=evaluations,
        digest=documents_digest,
    )


def _opened(config: VectorsConfig) -> Export:
    """The export to train against, checked as far as its files go; raises as :func:`plan`."""
    if process_count() > 1:
        raise UsageError("a query side is trained in one process; start it without torchrun")
    check_places(config, config.data)
    stored = open_export(config.export)
    if stored.owners is not None:
        raise UsageError(f"{config.export}: contains chunks, and pairs are of documents; export without chunks")
    check_rank("query_side", config.query_side, stored.note["encoder"]["dimension"])
    if stored.note["encoder"]["dims"] != stored.note["encoder"]["dimension"]:
        raise UsageError(f"{config.export}: has the first dimensions only; export all of them")
    check_export(stored, None)
    return stored


def _searcher_of(config: VectorsConfig, stored: Export, device: str | None) -> Dense:
    """The searcher in the export, with the encoder, whose weights are loaded; raises as :func:`plan`."""
    quantize = "binary+rescore" if stored.note["dtype"] == "binary" else None
    index = export_index(stored, config.encoder, device, precision=config.precision, quantize=quantize)
    check_documents(index.searcher.embeddings.encoder)
    return index.searcher


def _scale(
    config: VectorsConfig,
    stored: Export,
    encoder: Encoder,
    similarity: Similarity,
    sources: Sequence[Source],
    rows: Mapping[str, int],
    embed_all: bool,
) -> dict[str, float]:
    """How sharp the softmax starts. ``embed_all``: the queries of a map, which are embedded once, all here."""
    anchors = list(dict.fromkeys(pair.anchor for pair in _pairs(sources)))
    sample = anchors if embed_all else anchors[:SCALE_SAMPLE]
    embedded = torch.from_numpy(encoder.embed(sample, "query", config.precision)[:SCALE_SAMPLE].copy())
    typical = 1.0
    if not similarity.unit_length:
        documents = documents_at(stored, similarity, np.array([*rows.values()][:SCALE_SAMPLE]))
        typical = similarity.typical_score(similarity.prepare(embedded, "query"), documents)
    used = config.fixed_scale / typical if config.scale == "auto" else config.fixed_scale
    return {"scale": used, "typical_score": typical, "effective_scale": used * typical}


def _texts_of(tasks: Iterable[Any]) -> dict[str, str]:
    """The documents of tasks that search, by id."""
    return {id: text for task in tasks for id, text in zip(task.documents.ids, task.documents, strict=True)}


def _with_texts(sources: Sequence[Source], texts: Mapping[str, str]) -> list[Source]:
    """The sources with texts in place of ids."""
    records = ([Pair(pair.anchor, *_named(pair, texts)) for pair in _pairs([source])] for source in sources)
    return [replace(source, records=pairs) for source, pairs in zip(sources, records, strict=True)]


def _trained_queries(config: VectorsConfig, similarity: Similarity, device: str | None) -> Any:
    """A model of its own weights to train, of the modules that embed queries."""
    copied: Encoder = encoders.registry.create(config.start, device=device)
    check_max_length(config, copied, "query")
    tower = TorchEncoder(copied.spec, tower_of(copied.to_train().model, "query"), similarity)
    model, query_similarity = build(
        tower,
        similarity.spec,
        freeze=config.freeze,
        lora=config.low_rank,
        dropout=config.dropout,
        seed=config.seed,
        merge_lora=True,
    )
    query_similarity.requires_grad_(False)  # what it has learned is in the documents
    return model


def read_by_id(
    config: VectorsConfig, stored: Export
) -> tuple[list[Source], list[Pair], dict[str, int], dict[str, list[str]]]:
    """The sources, with ids of the export in place of documents; held-out pairs; the rows of the ids; and digests.

    A document is named by its id, by its text if the export's texts are still there, or by the ``id`` of its row, as
    ``retrokit augment crops`` writes it.

    Raises:
        UsageError: a document that the export does not have, or prompts, which its queries have not.
    """
    sources = [read_source(spec, "pairs") for spec in config.data]
    for source in sources:
        if source.query_prompt is not None or source.document_prompt is not None:
            raise UsageError(f"{source.spec}: documents are exported with their prompts; leave prompts out")
    documents = list(dict.fromkeys(chain.from_iterable(map(_documents, _pairs(sources)))))
    ids, rows = _ids_and_rows(documents, stored, config.data)
    by_id = []
    for source in sources:
        records = [Pair(pair.anchor, *_named(pair, ids)) for pair in _pairs([source])]
        by_id.append(part_of(replace(source, records=records), np.ones(len(records), dtype=bool)))
    digests = {"data_digests": [source.digest for source in sources]}
    held_out: list[Source] = []
    if config.holdout is not None:
        by_id, held_out = hold_out(by_id, config.holdout, config.seed)
    return by_id, _pairs(held_out), rows, digests


def _ids_and_rows(
    documents: Sequence[str], stored: Export, specs: Sequence[str]
) -> tuple[dict[str, str], dict[str, int]]:
    """The id that each of the ``documents`` names in the export, and the rows of the ids."""
    rows = stored.rows_of(documents)
    ids = {text: text for text in rows}
    missing = {*documents} - ids.keys()
    if missing:
        ids |= _ids_of_texts(missing, stored, specs)
        ids |= _ids_of_crops(missing - ids.keys(), stored, specs)
        rows |= stored.rows_of(ids.values())
    absent = [text for text in documents if ids.get(text) not in rows]
    if absent:
        problem = f"{len(absent):,} of {len(documents):,} documents are no ids or texts of {stored.folder}"
        raise UsageError(f"{', '.join(specs)}: {problem}, the first {absent[0][:60]!r}")
    return ids, rows


def _pairs(sources: Iterable[Source]) -> list[Pair]:
    return [record for source in sources for record in source.records if isinstance(record, Pair)]


def _named(pair: Pair, names: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The positive and the negatives of a pair by other names, those that have one."""
    positive, *negatives = (names.get(text, text) for text in _documents(pair))
    return positive, tuple(negatives)


def _documents(record: Any) -> tuple[str, ...]:
    return (record.positive, *record.negatives)


def _ids_of_texts(texts: Iterable[str], stored: Export, data: Sequence[str]) -> dict[str, str]:
    """The ids of texts, from the file that was exported, or one like it to the bit in a BEIR folder of the ``data``."""
    source, text_of = stored.note["source"], {text_id(text): text for text in texts}
    for spec in (source["spec"], *data):
        try:
            path = texts_file(spec, corpus_file)
            if source["digest"] != digest(path):
                continue
        except (UsageError, DataError):
            continue
        corpus = ((text_id(document.full_text), document.id) for document in read_corpus(path))
        return {text_of[code]: id for code, id in corpus if code in text_of}
    return {}


def _ids_of_crops(texts: Set[str], stored: Export, data: Sequence[str]) -> dict[str, str]:
    """The document's id of each text that is a crop of it, from rows of ``anchor``, ``positive`` and ``id`` only.

    Raises:
        DataError: the row of a text names a document that the export does not have.
    """
    ids: dict[str, str] = {}
    for spec in map(source_registry.parse, data):
        path = spec.path
        if texts and spec.name == "jsonl" and path != "-":
            ids |= _ids_of_crops_in(path, texts, stored)
    return ids


def _ids_of_crops_in(path: str, texts: Set[str], stored: Export) -> dict[str, str]:
    ids, lines = dict[str, str](), dict[str, int]()
    for line, row in read_rows(path, columns=WITHOUT_NAMES["pairs"]):
        if row.keys() == {"anchor", "positive", "id"} and row["positive"] in texts:
            ids[row["positive"]] = str(row["id"])
            lines[row["positive"]] = line
    present = stored.rows_of({*ids.values()})
    for text, id in ids.items():
        if id not in present:
            problem = f"document {id!r} is not in {stored.folder}"
            raise DataError(path, f"{problem}; export the texts that were cropped", lines[text])
    if ids:
        notice(f"{path}: {len(ids):,} positives are crops; their `id` names the document to rank")
    return ids


def evaluations_of(config: VectorsConfig, stored: Export, held_out: Sequence[Pair], device: str | None) -> Evaluations:
    """The tasks, which must search, and the held-out pairs among documents of the export."""
    tasks = search_tasks(config.eval, stored, "eval", device)
    named: dict[str, Any] = dict(zip(task_names(config.eval), tasks, strict=True))
    if held_out:
        count = stored.note["count"]
        random = np.random.default_rng(config.seed)
        sample = random.choice(count, min(count, HELD_OUT_AMONG), replace=False, shuffle=False)
        among = {*stored.ids_at(sample.tolist()).values(), *(id for pair in held_out for id in _documents(pair))}
        qrels: dict[str, dict[str, int]] = {}
        for pair in held_out:
            qrels.setdefault(pair.anchor, {})[pair.positive] = 1
        task_texts = _texts_of(tasks)
        texts = {id: task_texts.get(id, id) for id in sorted(among)}
        task = Retrieval(retrieval_data(HOLDOUT, "held out", texts, {query: query for query in qrels}, qrels))
        task.spec, task.shown_metrics = HOLDOUT, (task.main_metric,)
        named[HOLDOUT] = task
    return Evaluations.of(named, config.best_metric)
