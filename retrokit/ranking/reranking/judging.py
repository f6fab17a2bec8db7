"""A trained verifier as a reranker: of some pairs its score is certain, and of others it is told what it cannot see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from retrokit.ranking.reranking.maps import MapReranker
from retrokit.ranking.reranking.remarks import CUT, FOREIGN, UNFAMILIAR, VERDICTS, decided, is_foreign, of_texts, told


class Verifier(MapReranker):
    """Scores token maps with what was trained. A pair of identical texts has the score 1, one with an empty text the
    lowest; ``english``: it knows no other language."""

    def __init__(self, *of_any: Any, english: bool = False) -> None:
        super().__init__(*of_any)
        self._english = english
        self._counted: Counter[str] = Counter()
        self._pairs = 0

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        return self.judge(queries, documents)[0]

    def judge(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[np.ndarray, list[list[str]]]:
        scores = super().score_pairs(queries, documents)
        remarks = self.remarks(queries, documents)
        for row, verdict in enumerate(map(decided, remarks)):
            if verdict is not None:
                scores[row] = 1.0 if verdict else self.scorer.lowest
        self._counted.update(remark for of_pair in remarks for remark in of_pair)
        self._pairs += len(remarks)
        return scores, remarks

    def remarks(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[str]]:
        results = of_texts(queries, documents)
        open_rows = [row for row, remarks in enumerate(results) if not VERDICTS.keys() & set(remarks)]
        about: dict[str, list[str]] = {}
        for role, texts in (("query", queries), ("document", documents)):
            distinct = list(dict.fromkeys(texts[row] for row in open_rows))
            if distinct:
                cut = self.encoder.cut(distinct, role)  # type: ignore[arg-type]
                strange = self._strange(distinct)
                about |= {text: [] for text in distinct if text not in about}
                for row, text in enumerate(distinct):
                    about[text] += [CUT] * bool(cut is not None and cut[row]) + strange[row]
        for row in open_rows:
            results[row] += dict.fromkeys([*about[queries[row]], *about[documents[row]]])
        return results

    def _strange(self, texts: Sequence[str]) -> list[list[str]]:
        tokenizer = self.encoder.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        unknown = getattr(tokenizer, "unk_token", None) or getattr(getattr(backend, "model", None), "unk_token", None)
        if unknown is None or not hasattr(backend, "encode_batch"):
            shares = [0.0] * len(texts)
        else:
            cut = backend.encode_batch(list(texts), add_special_tokens=False)
            shares = [encoding.tokens.count(unknown) / max(1, sum(encoding.attention_mask)) for encoding in cut]
        return [
            [UNFAMILIAR] * (share >= 0.5) + [FOREIGN] * (self._english and is_foreign(text))
            for text, share in zip(texts, shares, strict=True)
        ]

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self._counted)

    def describe(self) -> str:
        said = told(self._counted, self._pairs)
        return f"{self.spec}: {said}" if said else ""

    def fingerprint(self) -> str:
        return f"{super().fingerprint()} settled"
