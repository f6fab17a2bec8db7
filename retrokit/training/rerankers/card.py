"""The model card of a cross-encoder: what it is, what it was trained on, how well it does, how to use it."""

from __future__ import annotations

from typing import Any

from retrokit.training.card import data_section, options_section, results_section
from retrokit.training.history import Outcome
from retrokit.training.rerankers.job import VerifierPreflight

_SCORES = {"binary": "Scores lie between 0 and 1: how likely two texts belong together."}
_OTHERWISE = "Scores are logits: only their order counts."


def cross_encoder_card(name: str, preflight: VerifierPreflight, history: list[dict[str, Any]], outcome: Outcome) -> str:
    """The card as Markdown."""
    configuration = preflight.configuration
    steps = {"steps made": outcome.steps, "best step": outcome.best_step}
    return f"""---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags:
- sentence-transformers
- cross-encoder
- reranker
- retrokit
---

# {name}

A cross-encoder, which reads two texts together and scores the pair: `{configuration["encoder"]}` trained by retrokit \
with the loss `{configuration["loss"]}`. {_SCORES.get(configuration["loss"], _OTHERWISE)}

{data_section(preflight.sources)}

{results_section(history, {"": "examples held out"})}

## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("{name}")
scores = model.predict([("a question", "a passage"), ("a question", "another passage")])  # higher is better
```

or, behind a first stage: `retrokit rerank ENCODER --on TASK --with cross-encoder:{name}`.

{options_section({**configuration, **steps})}
"""
