"""A trained verifier, and its folder: weights, description, and the fingerprint of the encoder that it was made for.

Scores of one encoder's maps mean nothing for another's, so a verifier refuses any other encoder. One that was trained
end to end brings its encoder in the same folder, which loads as any run does.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.files import replaced
from retrokit.core.registry import Spec
from retrokit.data.runs import RUN_FILE, Run, is_run, read_run
from retrokit.encoders.base import Encoder
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.reranking.cross_encoder import cross_encoder
from retrokit.ranking.reranking.encoder_update import add_update
from retrokit.ranking.reranking.maps import MapReranker, MapScorer
from retrokit.ranking.reranking.remarks import CUT, FOREIGN, UNFAMILIAR, decided, is_foreign, of_texts, told
from retrokit.similarities.base import Role

WEIGHTS_FILE = "verifier.safetensors"
DEFAULT = "default"
"""The verifier that comes with the package."""


class Verifier(MapReranker):
    """Scores token maps with what was trained. A pair of identical texts has the score 1, one with an empty text the
    lowest; ``english``: it knows no other language."""

    def __init__(self, *arguments: Any, english: bool = False) -> None:
        super().__init__(*arguments)
        self._english = english
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
        of_text: dict[str, list[str]] = defaultdict(list)
        roles: tuple[tuple[Role, Sequence[str]], ...] = ("query", queries), ("document", documents)
        for role, texts in roles:
            if distinct := list(dict.fromkeys(texts[row] for row in undecided)):
                cut = self.encoder.cut(distinct, role)
                for text, is_cut, unknown in zip(
                    distinct, repeat(False) if cut is None else cut, self._unknown_shares(distinct), strict=False
                ):
                    of_text[text] += [CUT] * bool(is_cut) + [UNFAMILIAR] * (unknown >= 0.5)
                    of_text[text] += [FOREIGN] * (self._english and is_foreign(text))
        for row in undecided:
            results[row] += dict.fromkeys([*of_text[queries[row]], *of_text[documents[row]]])
        return results

    def _unknown_shares(self, texts: Sequence[str]) -> list[float]:
        """The share of each text's tokens that the vocabulary lacks."""
        tokenizer = self.encoder.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        unknown = getattr(tokenizer, "unk_token", None) or getattr(getattr(backend, "model", None), "unk_token", None)
        if unknown is None or not hasattr(backend, "encode_batch"):
            return [0.0] * len(texts)
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.tokens.count(unknown) / max(1, sum(encoding.attention_mask)) for encoding in encodings]

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    def describe(self) -> str:
        summary = told(self._counts, self._pairs)
        return f"{self.spec}: {summary}" if summary else ""

    def fingerprint(self) -> str:
        return f"{super().fingerprint()} settled"


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
    with replaced(path) as new, disk_errors(path):
        save_file({name: tensor.cpu().contiguous() for name, tensor in scorer.state_dict().items()}, new)


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
    whose = made_for(path)[1]
    own = str(Path(path)) if whose["in_folder"] else str(whose["encoder"])
    if os.path.isdir(own):  # whose path may read like a name
        own = f"model:{json.dumps(own, ensure_ascii=False)}"
    loaded: Encoder = encoders.registry.create(encoder or own, device=device)
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


def _reranker_of(name: str) -> str:
    """The reranker that takes a folder of this verifier."""
    entry = next((entry for entry in reranking.registry.entries() if entry.name == name), None)
    return name if entry is not None and entry.positional == "path" else "verifier"


verifier = load_verifier
default = partial(load_verifier, DEFAULT)
cnn = partial(load_verifier, kind="cnn")
transformer = partial(load_verifier, kind="transformer")
