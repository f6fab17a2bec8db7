"""A trained verifier's folder: its weights, its description, and the fingerprint of the encoder that it was made for.

Scores of one encoder's maps mean nothing for another's, so a verifier refuses any other encoder. One that was trained
end to end brings its encoder in the same folder, which loads as any run does.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.registry import Spec
from retrokit.data.runs import RUN_FILE, Run, is_run, read_run
from retrokit.encoders.base import Encoder
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.reranking.cross_encoder import cross_encoder
from retrokit.ranking.reranking.encoder_update import add_update
from retrokit.ranking.reranking.judging import Verifier
from retrokit.ranking.reranking.maps import MapScorer

WEIGHTS_FILE = "verifier.safetensors"
DEFAULT = "default"
"""The verifier that comes with the package."""


def folder_of(path: str) -> str:
    """The folder that ``path`` names, which is the package's for ``default``."""
    return str(Path(__file__).with_name(DEFAULT)) if path == DEFAULT else path


def card_of(path: str) -> str:
    """What the card of a verifier says; raises :class:`UsageError` where there is none."""
    card = Path(folder_of(path), "README.md")
    if not card.is_file():
        raise UsageError(f"{path} has no card (README.md); its {RUN_FILE} says how it was trained")
    return card.read_text(encoding="utf-8")


def save_weights(scorer: MapScorer, folder: Path) -> None:
    """Write the verifier's weights into a folder."""
    path = folder / WEIGHTS_FILE
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        save_file({name: tensor.cpu().contiguous() for name, tensor in scorer.state_dict().items()}, temporary)
        os.replace(temporary, path)


def load_weights(scorer: MapScorer, folder: str | Path) -> None:
    """Put back what :func:`save_weights` wrote; raises :class:`DataError` if it is damaged or another verifier's."""
    path = Path(folder) / WEIGHTS_FILE
    try:
        scorer.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(path, f"holds no weights of this verifier: {str(error).splitlines()[0]}") from error


def read_verifier(folder: str | Path) -> Run:
    """The description of what ``rerank train`` has finished; raises :class:`UsageError` if the folder holds none."""
    if not is_run(folder) and Path(folder).exists():
        raise UsageError(f"{folder} is not a verifier: it has no {RUN_FILE}; rerank train makes one")
    run = read_run(folder, what="verifier")
    if run.verifier is None:
        raise UsageError(f"{folder} is a run, but no verifier; rerank train makes one")
    return run.finished(folder)


def load_verifier(
    path: str,
    encoder: str | None = None,
    precision: str = "fp32",
    cache: str | None = None,
    device: str | None = None,
    kind: str | None = None,
) -> PairwiseReranker:
    """The reranker of a verifier's folder, or of a cross-encoder's; ``encoder`` is the spec of the one that it was made
    for, where that is not as the folder says, and ``kind`` what the verifier must be, such as ``cnn``. Raises
    :class:`UsageError` for another kind or another encoder."""
    named, path = path, folder_of(path)
    spec = reranking.verifiers.parse(str(read_verifier(path).verifier))
    if kind is not None and spec.name != kind:
        raise UsageError(f"{path} is not a {kind}, but {spec}: write {_reranker_of(spec.name)}:{path}")
    if spec.name == reranking.CROSS_ENCODER:
        if encoder is not None or cache is not None:
            raise UsageError(f"{path} is a cross-encoder, which has no token embeddings: leave out encoder and cache")
        return cross_encoder(path, None, precision, device)
    spec, whose = made_for(path)
    own = str(Path(path)) if whose["in_folder"] else str(whose["encoder"])
    loaded: Encoder = encoders.registry.create(encoder or _spec_of(own), device=device)
    if "begins_with" in whose:
        add_update(loaded, Path(path), whose)
    else:
        _check_encoder(path, whose, loaded)
    scorer: MapScorer = reranking.verifiers.create(spec)
    load_weights(scorer, path)
    shown = named if named == DEFAULT else f"{_reranker_of(spec.name)}:{path}"
    english = read_run(path).notes.get("language") == "en"
    return Verifier(shown, loaded, scorer, precision, cache, english=english)


def start_from(scorer: MapScorer, verifier: str, path: str, encoder: Encoder, end_to_end: bool) -> None:
    """Give ``scorer``, which is to be trained on the maps of ``encoder``, the weights of a finished verifier of the
    same spec, made for the same encoder; to the encoder, the update that a small copy holds, which must then be trained
    ``end_to_end`` to be saved."""
    named, path = path, folder_of(path)
    spec, whose = made_for(path)
    if str(spec) != str(reranking.verifiers.parse(verifier)):
        raise UsageError(f"`start=` {named} is {spec}, and cannot go on as {verifier}")
    if "begins_with" not in whose:
        _check_encoder(path, whose, encoder)
    elif end_to_end:
        add_update(encoder, Path(path), whose)
    else:
        raise UsageError(f"`start=` {named} changes its encoder: give `end_to_end=`, which saves both")
    load_weights(scorer, path)


def made_for(path: str) -> tuple[Spec, dict[str, Any]]:
    """The spec of a folder's verifier, and what it was made for: ``encoder``, ``fingerprint``, ``in_folder``."""
    run = read_verifier(path)
    return reranking.verifiers.parse(str(run.verifier)), read_run(path, "made_for").made_for or {}


def _check_encoder(path: str, needed: dict[str, Any], encoder: Encoder) -> None:
    fingerprint, whose = needed["fingerprint"], "its own" if needed["in_folder"] else needed["encoder"]
    if encoder.fingerprint() != fingerprint:
        raise UsageError(
            f"{path} was made for another encoder ({whose}, fingerprint {fingerprint[:12]}) than {encoder.spec} "
            f"({encoder.fingerprint()[:12]}): train it anew for that one"
        )


def _spec_of(named: str) -> str:
    """A folder's path may read like a name."""
    return f"model:{json.dumps(named, ensure_ascii=False)}" if os.path.isdir(named) else named


def _reranker_of(name: str) -> str:
    """The reranker that takes a folder of this verifier."""
    entry = next((entry for entry in reranking.registry.entries() if entry.name == name), None)
    return name if entry is not None and entry.positional == "path" else "verifier"


verifier = load_verifier
default = partial(load_verifier, DEFAULT)
cnn = partial(load_verifier, kind="cnn")
transformer = partial(load_verifier, kind="transformer")
