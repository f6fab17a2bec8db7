"""retrokit: train, stress-test and rerank with dense text retrievers.

The Python API, loaded lazily (importing retrokit imports no torch)::

    retrokit.similarity("sfs:16")     # a Similarity: prepare, score, score_pairs
    retrokit.encoder("minilm")        # an Encoder: embed(texts, role)
    retrokit.open_image("a.jpg")      # an item as a text is, for an encoder that takes images
    retrokit.load("runs/qnorm")       # a finished run as an Encoder, its similarity with it

    retrokit.augment.crops("corpus.jsonl", "pairs.jsonl")
    retrokit.finetune("minilm", ["pairs.jsonl"], "runs/qnorm", sim="qnorm", scale="auto")
    retrokit.evaluate(["minilm", "runs/qnorm"], ["beir:data/scifact"])
    retrokit.check_gates(evaluation.gates)
    retrokit.check(["beir:data/scifact", "pairs.jsonl"])
    retrokit.probe.magnitude(["runs/qnorm"], ["beir:data/scifact"])
    retrokit.search("runs/qnorm", documents, ["a query"], k=10)
    retrokit.rerank("runs/qnorm", ["beir:data/scifact"], ["maxsim"])
    retrokit.build_sure("data/scifact", "openai:MODEL,url=http://localhost:8000/v1", "sure/scifact")

What goes wrong for want of a name, a file or a service is a :class:`RetrokitError`, whose message names the parameter.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import RetrokitError
from retrokit.core.version import __version__ as __version__

if TYPE_CHECKING:
    from retrokit import augment as augment
    from retrokit import probe as probe
    from retrokit.core.errors import GateFailed as GateFailed
    from retrokit.core.registry import Entry
    from retrokit.data.images import open_image as open_image
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.check import check as check
    from retrokit.evaluation.comparison.gates import check_gates as check_gates
    from retrokit.evaluation.evaluate import evaluate as evaluate
    from retrokit.evaluation.settings import EvaluationSettings as EvaluationSettings
    from retrokit.evaluation.settings import TwoStageOptions as TwoStageOptions
    from retrokit.evaluation.two_stage import rerank as rerank
    from retrokit.ranking.retrieval import search as search
    from retrokit.similarities.base import Similarity
    from retrokit.sure.build import build_sure as build_sure
    from retrokit.sure.build import estimate_sure as estimate_sure
    from retrokit.sure.config import SureConfig as SureConfig
    from retrokit.training.config import FinetuneConfig as FinetuneConfig
    from retrokit.training.finetune import finetune as finetune
    from retrokit.training.rerankers.config import VerifierConfig as VerifierConfig
    from retrokit.training.rerankers.verifier import train_verifier as train_verifier

_LAZY = {
    "augment": "retrokit.augment",
    "probe": "retrokit.probe",
    "check": "retrokit.evaluation.check",
    "evaluate": "retrokit.evaluation.evaluate",
    "EvaluationSettings": "retrokit.evaluation.settings",
    "check_gates": "retrokit.evaluation.comparison.gates",
    "GateFailed": "retrokit.core.errors",
    "open_image": "retrokit.data.images",
    "search": "retrokit.ranking.retrieval",
    "rerank": "retrokit.evaluation.two_stage",
    "TwoStageOptions": "retrokit.evaluation.settings",
    "SureConfig": "retrokit.sure.config",
    "build_sure": "retrokit.sure.build",
    "estimate_sure": "retrokit.sure.build",
    "FinetuneConfig": "retrokit.training.config",
    "finetune": "retrokit.training.finetune",
    "VerifierConfig": "retrokit.training.rerankers.config",
    "train_verifier": "retrokit.training.rerankers.verifier",
}
"""Name → the module that it is in; a verb with several ways to do it is a module."""

__all__ = ["RetrokitError", "encoder", "load", "register", "similarity", *_LAZY]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'retrokit' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name])
    return module if _LAZY[name] == f"retrokit.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


def similarity(spec: str) -> Similarity:
    """The similarity that ``spec`` names, e.g. ``"qnorm"`` or ``"sfs:16"``."""
    from retrokit.similarities import registry

    return registry.create(spec)


def encoder(spec: str, device: str | None = None) -> Encoder:
    """The encoder that ``spec`` names: a registered name, a local folder, or a hub id."""
    from retrokit.encoders import registry

    return registry.create(spec, device=device)


def load(folder: str, device: str | None = None) -> Encoder:
    """A finished run as an encoder; ``load(folder).similarity`` is what it was trained with, γ included.

    Raises:
        UsageError: the folder is no run, or its training is not finished.
    """
    from retrokit.encoders.opening import load_run

    return load_run(folder, device=device)


def register(kind: str, entry: Entry) -> None:
    """Add an entry to the registry of a kind, such as ``"similarities"``, in this process; ``retrokit names`` lists the
    kinds, of which ``commands`` and ``records`` take entries of installed packages only. In a notebook the entry's
    target is ``"__main__:FUNCTION"``.

    Raises:
        UsageError: an unknown kind, or a name that is registered already, by an installed plugin for example.
    """
    from retrokit.kinds import named

    registry = named(kind)
    registry.names()  # loads those of plugins
    registry.add(entry)
