"""An encoder and a similarity as MTEB asks for a model: through its encoder protocol and its search protocol.

An object with the methods of both uses its own search, which is how a ranking under any similarity enters
MTEB's retrieval and reranking tasks; the tasks over pairs ask for ``similarity`` and ``similarity_pairwise``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from typing import Any

import numpy as np
import torch
from mteb._create_dataloaders import create_dataloader
from mteb.abstasks.abstask import get_abstask_prompt
from mteb.models import ModelMeta
from mteb.types import PromptType

from retrokit.data.jsonl import digest_of_json
from retrokit.data.prompted import Prompted
from retrokit.encoders.prompts import DEFAULT_TEMPLATE
from retrokit.evaluation.tasks.base import run_of
from retrokit.evaluation.tasks.labelled import majority
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList
from retrokit.ranking.retrieval.dense import Dense
from retrokit.ranking.retrieval.embeddings import prepared_rows
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Role, Similarity

FED_TO_A_LEARNER = frozenset({"Classification", "MultilabelClassification", "Clustering", "Regression"})
"""Types of tasks that hand embeddings to scikit-learn, and so get them as the similarity prepares documents."""


class MtebSearch:
    """What MTEB evaluates on tasks that search: any searcher.

    It must never have a method ``predict``: MTEB would take it for a cross-encoder. With ``task_prompts`` its texts
    bring MTEB's instruction for the task, and each encoder puts it into its own template. ``identity`` is what else
    decides a result, such as the digest of local data. ``runs`` has the rankings, by split and subset.
    """

    def __init__(self, searcher: Searcher, task_prompts: bool, identity: Mapping[str, Any]) -> None:
        self.searcher = searcher
        self.task_prompts = task_prompts
        self._documents: Any = None
        self.runs: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        decided_by = {"searcher": searcher.fingerprint(), "mteb": version("mteb"), **identity}
        self.mteb_model_meta = model_meta(searcher, {"task_prompts": task_prompts, **decided_by})

    def index(self, corpus: Any, **kwargs: Any) -> None:
        """Keep the documents to search; they are indexed with the queries, which say which of them are needed."""
        self._documents = corpus

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        encode_kwargs: Mapping[str, Any],
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        num_proc: int | None,
        **kwargs: Any,
    ) -> dict[str, dict[str, float]]:
        """The ``top_k`` best documents of each query with their scores; only of ``top_ranked`` if given."""
        ids = list(self._documents["id"])
        # in descending order of ids, so that equal scores rank as trec_eval ranks them
        order = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
        if top_ranked is not None:
            listed = set(chain.from_iterable(top_ranked.values()))
            order = [i for i in order if ids[i] in listed]

        def read(dataset: Any, kind: PromptType) -> TextList:
            options = {"batch_size": encode_kwargs.get("batch_size", 32), "num_proc": num_proc}
            batches = create_dataloader(dataset, task_metadata=task_metadata, prompt_type=kind, **options)
            return TextList(self._texts(batches, task_metadata, kind), list(dataset["id"]))

        query_texts = read(queries, PromptType.query)
        documents = read(self._documents.select(order), PromptType.document)
        index = self.searcher.index(documents)
        rankings: Sequence[Ranking]
        if top_ranked is not None:
            rankings = _best_of(index, query_texts, documents, top_ranked, top_k)
        elif documents:
            rankings = index.search(query_texts, top_k)
        else:
            rankings = [(np.empty(0), np.empty(0, dtype=np.int64))] * len(query_texts)
        run = self.runs[hf_split, hf_subset] = run_of(rankings, query_texts.ids, documents.ids)
        return run

    def _texts(
        self, inputs: Iterable[Mapping[str, Any]], task_metadata: Any, prompt_type: PromptType | None
    ) -> list[str]:
        """Texts, which bring MTEB's instruction for the task unless they are its documents."""
        texts = list(chain.from_iterable(batch["text"] for batch in inputs))
        if not self.task_prompts:
            return texts
        instruction, default = _instruction_of(task_metadata, prompt_type), ""
        if prompt_type != PromptType.document:
            default = get_abstask_prompt(task_metadata.name)
        names: list[str] = []
        for owner in (task_metadata.name, task_metadata.type):
            if prompt_type is not None:
                names.append(f"{owner}-{prompt_type.value}")
            names.append(owner)
        prefix = DEFAULT_TEMPLATE.format(instruction=instruction) if instruction else ""
        return [Prompted(prefix, text, instruction, default, names) for text in texts]


def _instruction_of(task_metadata: Any, prompt_type: PromptType | None) -> str:
    """MTEB's instruction of a task for texts of that type; empty if there is none. One for the task as a whole is not
    for its documents."""
    instruction = task_metadata.prompt
    if isinstance(instruction, Mapping):
        instruction = instruction.get(prompt_type.value if prompt_type else "query")
    elif prompt_type == PromptType.document:
        instruction = None
    return instruction or ""


class MtebModel(MtebSearch):
    """What MTEB evaluates on any task: embeddings, scored and searched under a similarity; with ``by_neighbours``,
    tasks of classification are decided by :class:`Neighbours`."""

    def __init__(self, searcher: Dense, task_prompts: bool, by_neighbours: bool, identity: Mapping[str, Any]) -> None:
        super().__init__(searcher, task_prompts, identity)
        self.embeddings = searcher.embeddings
        self.scorer = copy.deepcopy(searcher.scorer).cpu()
        self._fed_to_a_learner = FED_TO_A_LEARNER - ({"Classification"} if by_neighbours else set())
        decided_by = {
            "encoder": self.embeddings.encoder.key(self.embeddings.precision),
            "mteb": version("mteb"),
            "similarity": self.scorer.spec,
            "learned": {name: value.tolist() for name, value in sorted(self.scorer.state_dict().items())},
            "dims": self.embeddings.dims,
            "index": searcher.faiss,
            "quantize": searcher.quantize,
            "task_prompts": task_prompts,
            "by_neighbours": by_neighbours,
        }
        if task_prompts and (named := self.embeddings.encoder.task_prompts):
            decided_by["named"] = dict(named)
        self.mteb_model_meta = model_meta(searcher, {**decided_by, **identity}, self.embeddings.dims)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Embeddings float32 ``[n, d]`` of batches of texts: raw, or prepared for the tasks that feed a learner."""
        role: Role = "query" if prompt_type == PromptType.query else "document"
        raw = self.embeddings.embed(self._texts(inputs, task_metadata, prompt_type), role)
        return prepared_rows(self.scorer, raw, "document") if task_metadata.type in self._fed_to_a_learner else raw

    @torch.inference_mode()
    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Scores ``[n, m]``; the first embeddings count as queries."""
        return self.scorer.score(embeddings1, embeddings2)

    @torch.inference_mode()
    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Scores ``[n]`` of row i with row i."""
        return self.scorer.score_pairs(embeddings1, embeddings2)


def _best_of(
    index: Index, queries: TextList, documents: TextList, candidates: Mapping[str, Sequence[str]], k: int
) -> list[Ranking]:
    """The ``k`` best of the candidates of each query; equal scores in the order of the documents."""
    position_of = {identifier: position for position, identifier in enumerate(documents.ids)}
    positions_by_query = []
    query_rows: list[int] = []
    for row, query in enumerate(queries.ids):
        positions = sorted({position_of[id] for id in candidates.get(query, ()) if id in position_of})
        positions_by_query.append(np.array(positions, dtype=np.int64))
        query_rows += [row] * len(positions)
    flat = np.concatenate(positions_by_query).tolist()
    scores = index.score_pairs(queries.at(query_rows), documents.at(flat))
    ends = np.cumsum([len(positions) for positions in positions_by_query])
    rankings = []
    for query_positions, query_scores in zip(positions_by_query, np.split(scores, ends[:-1]), strict=True):
        order = np.argsort(-query_scores, kind="stable")[:k]
        rankings.append((query_scores[order], query_positions[order]))
    return rankings


class Neighbours:
    """The majority label of the nearest texts under a similarity, behind scikit-learn's interface (SFS, C).

    ``predict`` takes raw embeddings as queries, ``fit`` as documents.
    """

    def __init__(self, similarity: Similarity, device: torch.device, k: int = 3) -> None:
        self.similarity, self.device, self.k = similarity, device, k

    def fit(self, embeddings: np.ndarray, labels: Sequence[Any]) -> Neighbours:
        """Keep raw embeddings ``[n, d]`` and their labels ``[n]``."""
        self._embeddings = embeddings
        self._classes, self._labels = np.unique(np.asarray(labels), return_inverse=True)
        return self

    def predict(self, embeddings: np.ndarray) -> np.ndarray:
        """A label for each row of raw embeddings ``[n, d]``."""
        _, nearest = top_k(self.similarity, embeddings, self._embeddings, self.k, self.device)
        labels: np.ndarray = self._classes[majority(self._labels[nearest])]
        return labels

    def get_params(self) -> dict[str, Any]:
        """None that MTEB could set."""
        return {}


def model_meta(searcher: Searcher, decides: Mapping[str, Any], dimensions: int | None = None) -> ModelMeta:
    """MTEB names its result files by a model's name and revision: all that decides a result is in the two."""
    revision = digest_of_json(decides)[:40]
    name = re.sub(r"[^A-Za-z0-9.=_-]+", "_", f"{searcher.spec}--{searcher.similarity}").strip("_")
    return ModelMeta.create_empty({"name": f"retrokit/{name}", "revision": revision, "embed_dim": dimensions})
