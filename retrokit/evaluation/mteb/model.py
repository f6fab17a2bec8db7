"""An encoder and a similarity as MTEB asks for a model: through its encoder protocol and its search protocol.

An object with the methods of both is asked for its own search, which is how a ranking under any similarity enters
MTEB's retrieval and reranking tasks; the tasks over pairs ask for ``similarity`` and ``similarity_pairwise``.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from mteb._create_dataloaders import create_dataloader  # where MTEB's own search wrapper takes it from
from mteb.models import ModelMeta
from mteb.types import PromptType

from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.scoring import prepared
from retrokit.evaluation.tasks.knn import majority
from retrokit.retrieval.exact import top_k
from retrokit.similarities.base import Role, Similarity

FED_TO_A_LEARNER = frozenset({"Classification", "MultilabelClassification", "Clustering", "Regression"})
"""Types of tasks that hand embeddings to scikit-learn, and so get them as the similarity prepares documents."""


class Embeddings:
    """Raw embeddings of an encoder, kept until they are dropped, so that several similarities share them."""

    def __init__(self, encoder: Encoder, precision: str, dims: int | None) -> None:
        self.encoder, self.precision, self.dims = MemoizedEncoder(encoder), precision, dims

    def of(self, texts: Sequence[str], role: Role) -> np.ndarray:
        """Float32 ``[n, dims]``, in the order of ``texts``."""
        return self.encoder.embed(texts, role, self.precision)[:, : self.dims]

    def drop(self) -> None:
        """Forget all of them."""
        self.encoder.forget()


class MtebModel:
    """What MTEB evaluates: raw embeddings, scored and searched under ``similarity``.

    It must never have a method ``predict``: MTEB would take it for a cross-encoder.

    Args:
        embeddings: of the encoder.
        similarity: what scores.
        task_prompts: put the prompt that MTEB has for a task before its texts, in the form ``Instruct: …``.
        by_neighbours: tasks of classification are decided by :class:`Neighbours`.
        identity: what else decides a result, such as the digest of local data.

    Attributes:
        runs: what was searched, by split and subset: ``{query: {document: score}}``.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        similarity: Similarity,
        task_prompts: bool,
        by_neighbours: bool,
        identity: Mapping[str, Any],
    ) -> None:
        self.embeddings = embeddings
        self.scorer = copy.deepcopy(similarity).cpu()
        self.task_prompts = task_prompts
        self._device = embeddings.encoder.device
        self._documents: Any = None
        self.runs: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        self._fed_to_a_learner = FED_TO_A_LEARNER - ({"Classification"} if by_neighbours else set())
        options = {"task_prompts": task_prompts, "by_neighbours": by_neighbours}
        self.mteb_model_meta = _meta(embeddings, similarity, {**options, **identity})

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Embeddings float32 ``[n, d]`` of batches of texts: raw, or prepared for the tasks that feed a learner."""
        raw = self._raw(inputs, task_metadata, prompt_type)
        return prepared(self.scorer, raw) if task_metadata.type in self._fed_to_a_learner else raw

    def _raw(self, inputs: Iterable[Mapping[str, Any]], task_metadata: Any, prompt_type: PromptType | None) -> Any:
        role: Role = "query" if prompt_type == PromptType.query else "document"
        prefix = _prompt(task_metadata.prompt, prompt_type) if self.task_prompts else ""
        return self.embeddings.of([prefix + text for batch in inputs for text in batch["text"]], role)

    @torch.inference_mode()
    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Scores ``[n, m]``; the first embeddings count as queries."""
        return self.scorer.score(embeddings1, embeddings2)

    @torch.inference_mode()
    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Scores ``[n]`` of row i with row i."""
        return self.scorer.score_pairs(embeddings1, embeddings2)

    def index(
        self,
        corpus: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: Mapping[str, Any],
        num_proc: int | None,
        **kwargs: Any,
    ) -> None:
        """Keep the documents to search; they are encoded with the queries, which say which of them are needed."""
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
        """The ``top_k`` best documents of each query with their scores; of ``top_ranked``'s alone where it is given."""
        documents, ids = self._documents, list(self._documents["id"])
        # in descending order of ids, so that equal scores rank as trec_eval ranks them
        order = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
        if top_ranked is not None:
            wanted = {document for candidates in top_ranked.values() for document in candidates}
            order = [i for i in order if ids[i] in wanted]
        ids = [ids[i] for i in order]
        found = [
            self._raw(
                create_dataloader(
                    dataset,
                    task_metadata=task_metadata,
                    prompt_type=prompt_type,
                    batch_size=encode_kwargs.get("batch_size", 32),
                    num_proc=num_proc,
                ),
                task_metadata,
                prompt_type,
            )
            for dataset, prompt_type in ((queries, PromptType.query), (documents.select(order), PromptType.document))
        ]
        run: dict[str, dict[str, float]] = {}
        if top_ranked is None:
            run = self._ranked(list(queries["id"]), ids, found[0], found[1], top_k)
        else:
            position = {identifier: i for i, identifier in enumerate(ids)}
            for row, query in enumerate(queries["id"]):
                rows = sorted({position[document] for document in top_ranked.get(query, ()) if document in position})
                run |= self._ranked([query], [ids[i] for i in rows], found[0][row : row + 1], found[1][rows], top_k)
        self.runs[hf_split, hf_subset] = run
        return run

    def _ranked(
        self, query_ids: list[str], document_ids: list[str], queries: np.ndarray, documents: np.ndarray, depth: int
    ) -> dict[str, dict[str, float]]:
        if not document_ids:
            return {query: {} for query in query_ids}
        scores, indices = top_k(self.scorer, queries, documents, depth, self._device)
        return {
            query: {document_ids[i]: score for i, score in zip(row_indices, row_scores, strict=True)}
            for query, row_scores, row_indices in zip(query_ids, scores.tolist(), indices.tolist(), strict=True)
        }


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
        found: np.ndarray = self._classes[majority(self._labels[nearest])]
        return found

    def get_params(self) -> dict[str, Any]:
        """None that MTEB could set."""
        return {}


def _prompt(prompts: Any, prompt_type: PromptType | None) -> str:
    """MTEB's prompt of a task as the prefix of a text; documents of a retrieval task have one only by name."""
    if isinstance(prompts, Mapping):
        prompts = prompts.get(prompt_type.value if prompt_type else "query")
    elif prompt_type == PromptType.document:
        prompts = None
    return f"Instruct: {prompts}\nQuery: " if prompts else ""


def _meta(embeddings: Embeddings, similarity: Similarity, identity: Mapping[str, Any]) -> ModelMeta:
    """MTEB names its result files by a model's name and revision: all that decides a result is in the two."""
    encoder = embeddings.encoder
    decides = {
        "encoder": encoder.key(embeddings.precision),
        "mteb": version("mteb"),
        "similarity": similarity.spec,
        "learned": {name: value.tolist() for name, value in sorted(similarity.state_dict().items())},
        "dims": embeddings.dims,
        **identity,
    }
    revision = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:40]
    name = re.sub(r"[^A-Za-z0-9.=_-]+", "_", f"{encoder.spec}--{similarity.spec}").strip("_")
    return ModelMeta.create_empty(
        {
            "name": f"retrokit/{name}",
            "revision": revision,
            "embed_dim": embeddings.dims or encoder.dimension,
        }
    )
