"""A trained verifier, and its folder: weights, description, and the fingerprint of its encoder.

Scores of one encoder's maps mean nothing for another's, so a verifier refuses any other encoder. One that was trained
end to end brings its encoder in the same folder. A small copy of it has the encoder as an update of the one that it
began with: for each matrix the product of two thin ones, in half precision, 2 MB in place of 90."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.files import replaced
from retrokit.core.outputs import folder_in_the_making
from retrokit.core.registry import Spec
from retrokit.core.settings import taking
from retrokit.data.runs import RUN_FILE, Run, read_run, write_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import CUT, PairwiseReranker, decided, of_texts, summary_of
from retrokit.ranking.reranking.library import cross_encoder
from retrokit.ranking.reranking.maps import MapReranker, MapScorer
from retrokit.ranking.settings import ShrinkSettings
from retrokit.similarities.base import Role

WEIGHTS_FILE = "verifier.safetensors"
DEFAULT = "default"
"""The verifier that comes with the package."""


class Verifier(MapReranker):
    """Scores token maps with a trained scorer. A pair of identical texts has the score 1, one with an empty text the
    lowest."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._counts: Counter[str] = Counter()
        self._pairs = 0

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        return self.judge(queries, documents)[0]

    def judge(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[np.ndarray, list[list[str]]]:
        scores = super().score_pairs(queries, documents)
        remarks = self.remarks(queries, documents)
        for row, verdict in enumerate(map(decided, remarks)):
            if verdict is not None:
                scores[row] = 1.0 if verdict else self.scorer.lowest
        self._counts.update(chain.from_iterable(remarks))
        self._pairs += len(remarks)
        return scores, remarks

    def remarks(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[str]]:
        results = of_texts(queries, documents)
        undecided = [row for row, remarks in enumerate(results) if decided(remarks) is None]
        roles: tuple[tuple[Role, Sequence[str]], ...] = ("query", queries), ("document", documents)
        for role, texts in roles:
            long = self._cut_texts([texts[row] for row in undecided], role)
            for row in undecided:
                if texts[row] in long and not results[row]:
                    results[row].append(CUT)
        return results

    def _cut_texts(self, texts: Sequence[str], role: Role) -> set[str]:
        """The texts that are longer than the encoder reads."""
        distinct = list(dict.fromkeys(texts))
        cut = self.encoder.cut(distinct, role) if distinct else None
        if cut is None:
            return set()
        return {text for text, is_cut in zip(distinct, cut, strict=True) if is_cut}

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    def describe(self) -> str:
        summary = summary_of(self._counts, self._pairs)
        return f"{self.spec}: {summary}" if summary else ""

    def fingerprint(self) -> str:
        return f"{super().fingerprint()} settled"


def folder_of(path: str) -> str:
    """The folder that ``path`` names, which is the package's for ``default``."""
    return str(Path(__file__).with_name(DEFAULT)) if path == DEFAULT else path


def card_of(path: str) -> str:
    """The card of a verifier; raises :class:`UsageError` if there is none."""
    card = Path(folder_of(path), "README.md")
    if not card.is_file():
        raise UsageError(f"{path} has no card (README.md); see its {RUN_FILE}")
    return card.read_text(encoding="utf-8")


def save_weights(scorer: MapScorer, folder: Path) -> None:
    """Write the verifier's weights into a folder."""
    path = folder / WEIGHTS_FILE
    with replaced(path) as new, disk_errors(path):
        save_file({name: tensor.cpu().contiguous() for name, tensor in scorer.state_dict().items()}, new)


def load_weights(scorer: MapScorer, folder: str | Path) -> None:
    """Load the weights of :func:`save_weights`; raises :class:`DataError` for a damaged file or another verifier's."""
    path = Path(folder) / WEIGHTS_FILE
    try:
        scorer.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(path, f"contains no weights of this verifier: {str(error).splitlines()[0]}") from error


def read_verifier(folder: str | Path) -> Run:
    """The description of a finished verifier; raises :class:`UsageError` for another folder."""
    run = read_run(folder, what="verifier")
    if run.verifier is None:
        raise UsageError(f"{folder}: a model folder, but not a verifier; run retrokit rerank train")
    return run.finished(folder)


def load_verifier(
    path: str,
    encoder: str | None = None,
    precision: str = "fp32",
    cache: str | None = None,
    device: str | None = None,
    kind: str | None = None,
) -> PairwiseReranker:
    """The reranker of a verifier's folder, or of a cross-encoder's. ``encoder`` replaces the spec of its encoder, and
    ``kind`` is what the verifier must be. Raises :class:`UsageError` for another kind or encoder."""
    named, path = path, folder_of(path)
    spec = reranking.verifiers.parse(str(read_verifier(path).verifier))
    if kind is not None and spec.name != kind:
        raise UsageError(f"{path} is not a {kind}, but {spec}: write {_reranker_of(spec.name)}:{path}")
    if spec.name in reranking.pair_readers():
        if encoder is not None or cache is not None:
            raise UsageError(
                f"{path} is a {reranking.kind_of(spec)}, which has no token embeddings: leave out encoder and cache"
            )
        return cross_encoder(path, None, precision, device)
    whose = made_for(path)[1]
    loaded = encoders.create_for(path, encoder or _own_encoder(path, whose), device, _MOVED)
    if "begins_with" in whose:
        add_update(loaded, Path(path), whose)
    else:
        _check_encoder(path, whose, loaded)
    scorer: MapScorer = reranking.verifiers.create(spec)
    load_weights(scorer, path)
    shown = named if named == DEFAULT else f"{_reranker_of(spec.name)}:{path}"
    return Verifier(shown, loaded, scorer, precision, cache)


def start_from(scorer: MapScorer, verifier: str, path: str, encoder: Encoder, end_to_end: bool) -> None:
    """Start ``scorer`` with the weights of a verifier of the same spec and encoder, and ``encoder`` with the update of
    a small copy, which must then be trained ``end_to_end``."""
    named, path = path, folder_of(path)
    spec, whose = made_for(path)
    if str(spec) != str(reranking.verifiers.parse(verifier)):
        raise UsageError(f"`start=` {named} is {spec}, and cannot continue as {verifier}")
    if "begins_with" not in whose:
        _check_encoder(path, whose, encoder)
    elif end_to_end:
        add_update(encoder, Path(path), whose)
    else:
        raise UsageError(f"`start=` {named} changes its encoder: give `end_to_end=`, which saves both")
    load_weights(scorer, path)


def made_for(path: str) -> tuple[Spec, dict[str, Any]]:
    """The spec of a folder's verifier, and its ``encoder``, ``fingerprint``, ``in_folder``."""
    run = read_verifier(path)
    return reranking.verifiers.parse(str(run.verifier)), read_run(path, "made_for").made_for or {}


_MOVED = "if it has moved, give encoder=PATH"


def _own_encoder(path: str, whose: Mapping[str, Any]) -> str:
    """The spec of the encoder that a folder's verifier was trained with."""
    own = str(Path(path)) if whose["in_folder"] else str(whose["encoder"])
    if os.path.isdir(own):  # whose path may read like a name
        return f"model:{json.dumps(own, ensure_ascii=False)}"
    return own


def _check_encoder(path: str, needed: dict[str, Any], encoder: Encoder) -> None:
    fingerprint, whose = needed["fingerprint"], "its own" if needed["in_folder"] else needed["encoder"]
    if encoder.fingerprint() != fingerprint:
        raise UsageError(
            f"{path} belongs to another encoder ({whose}, fingerprint {fingerprint[:12]}) than {encoder.spec} "
            f"({encoder.fingerprint()[:12]}); train one for it"
        )


def _reranker_of(name: str) -> str:
    """The reranker that takes a folder of this verifier."""
    entry = next((entry for entry in reranking.registry.entries() if entry.name == name), None)
    return name if entry is not None and entry.positional == "path" else "verifier"


verifier = load_verifier
default = partial(load_verifier, DEFAULT)
cnn = partial(load_verifier, kind="cnn")
transformer = partial(load_verifier, kind="transformer")


UPDATE_FILE = "encoder-update.safetensors"
_UP, _DOWN, _WHOLE = ".up", ".down", ".change"


def low_rank(change: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The truncated SVD of ``change`` ``[a, b]`` as two matrices ``[a, rank]`` and ``[rank, b]``, or of its lower rank.

    >>> up, down = low_rank(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), rank=1)
    >>> (up @ down).round(decimals=4).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a whole decomposition takes seconds for a matrix
        left_vectors, sizes, right = torch.svd_lowrank(change.double(), min(rank + 8, *change.shape), niter=8)
    columns = min(rank, int((sizes > 1e-6 * sizes[0]).sum()))
    roots = sizes[:columns].sqrt()
    return (left_vectors[:, :columns] * roots).float(), (right[:, :columns] * roots).T.float()


def update_between(before: Mapping[str, Tensor], after: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The update of the weights ``before`` to those ``after``, float16: of a matrix ``NAME.up`` and ``NAME.down``, else
    ``NAME.change``."""
    update: dict[str, Tensor] = {}
    for name, old in before.items():
        change = after[name].float() - old.float()
        if change.any() and change.ndim == 2:
            update[name + _UP], update[name + _DOWN] = low_rank(change, rank)
        elif change.any():
            update[name + _WHOLE] = change
    return {name: tensor.half().contiguous() for name, tensor in update.items()}


def add_update(encoder: Encoder, folder: Path, made_for: Mapping[str, Any]) -> None:
    """Add the update in ``folder`` to the weights of ``encoder``, in place. Raises :class:`UsageError` for other
    weights than those it begins with, :class:`DataError` for a damaged file."""
    path = folder / UPDATE_FILE
    try:
        update = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(path, f"contains no update of an encoder: {str(error).splitlines()[0]}") from error
    weights = weights_of(encoder)
    if digest_of(weights, update) != made_for["begins_with"]:
        raise UsageError(f"{folder} changes the weights of {made_for['encoder']}, and {encoder.spec} has others")
    with torch.no_grad():
        for name, change in changes_of(update).items():
            weights[name] += change.to(weights[name])


def changes_of(update: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The change of each weight, float32, by its name."""
    unfactored = {name.removesuffix(_WHOLE): change.float() for name, change in update.items() if name.endswith(_WHOLE)}
    matrices = [name.removesuffix(_UP) for name in update if name.endswith(_UP)]
    return unfactored | {name: update[name + _UP].float() @ update[name + _DOWN].float() for name in matrices}


def weights_of(encoder: Encoder) -> dict[str, Tensor]:
    """The weights of an encoder's transformer, not copied."""
    transformer = getattr(encoder.to_train().model[0], "auto_model", None)
    if transformer is None:
        raise UsageError(f"{encoder.spec} has no transformer, whose weights an update could change")
    weights: dict[str, Tensor] = transformer.state_dict()
    return weights


def digest_of(weights: Mapping[str, Tensor], update: Iterable[str]) -> str:
    """The digest of the weights that an update changes; empty if one is missing."""
    names = {name.rpartition(".")[0] for name in update}
    if not names <= weights.keys():
        return ""
    return str(digest_of_weights({name: weights[name] for name in names}).hexdigest())


@taking(ShrinkSettings)
def shrink(settings: ShrinkSettings) -> float:
    """Write a small copy of a verifier that was trained end to end: its network, and the update of its encoder in
    matrices of ``rank``. Returns the share of the update that the copy keeps, of its squares.

    Raises:
        UsageError: no verifier with an encoder of its own, or ``output`` exists.
    """
    spec, whose = made_for(settings.folder)
    if not whose["in_folder"]:
        raise UsageError(f"{settings.folder} has no encoder of its own: train it with `end_to_end=`")
    whose["encoder"] = settings.encoder or whose["encoder"]
    before = weights_of(encoders.registry.create(whose["encoder"], device="cpu"))
    after = weights_of(encoders.registry.create(f'model:"{settings.folder}"', device="cpu"))
    update = update_between(before, after, settings.rank)
    if not update:
        raise UsageError(f"{settings.folder}: its encoder is that of {whose['encoder']}, unchanged")
    total = lost = 0.0
    for name, approximation in changes_of(update).items():
        change = after[name].float() - before[name].float()
        total, lost = total + float(change.square().sum()), lost + float((change - approximation).square().sum())
    scorer: MapScorer = reranking.verifiers.create(spec)
    load_weights(scorer, settings.folder)
    with folder_in_the_making(settings.output) as staged, disk_errors(settings.output):
        save_file(update, staged / UPDATE_FILE)
        save_weights(scorer, staged)
        whose |= {"in_folder": False, "begins_with": digest_of(before, update), "rank": settings.rank}
        run = read_run(settings.folder)
        outcome = {
            name: value for name, value in (run.outcome or {}).items() if name in ("steps", "best_step", "metric")
        }
        notes = {name: value for name, value in run.notes.items() if name != "configuration"}  # has paths
        write_run(replace(run, made_for=whose, outcome=outcome, notes=notes, files=None), staged)
    return 1 - lost / total
