"""The model card of a run: what it is, what it was trained on, how well it does, how to use it. No user's texts."""

from __future__ import annotations

from typing import Any

from retrokit.similarities.base import Similarity
from retrokit.training.preflight import Preflight

_SAVED_AS = {
    "normalize": "It is saved with a Normalize layer.",
    "raw": "Embeddings are saved as they are, magnitudes included.",
    "prepared": "Embeddings come out prepared: their inner product is the similarity.",
}


def model_card(
    name: str, similarity: Similarity, preflight: Preflight, history: list[dict[str, Any]], outcome: dict[str, Any]
) -> str:
    """The card as Markdown."""
    configuration = preflight.configuration
    parts = [
        _front_matter(),
        f"# {name}\n\nA dense text retriever: `{configuration['encoder']}` fine-tuned by retrokit.\n",
        _similarity_section(similarity),
        _data_section(preflight),
        _results_section(history, configuration),
        _use_section(name, similarity),
        _training_section(configuration, preflight, outcome),
    ]
    return "\n".join(parts)


def _front_matter() -> str:
    tags = "\n".join(f"- {tag}" for tag in ("sentence-transformers", "sentence-similarity", "retrokit"))
    return f"---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags:\n{tags}\n---\n"


def _similarity_section(similarity: Similarity) -> str:
    learned = ", ".join(f"{key} = {value:.4f}" for key, value in similarity.statistics().items())
    lines = [
        "## Similarity\n",
        f"Trained with `{similarity.spec}`{f' ({learned})' if learned else ''}. {_SAVED_AS[similarity.export]}",
        f"In sentence-transformers its similarity is set to `{similarity.library_name}`"
        + (
            ", which ranks documents as the trained similarity does."
            if similarity.library_exact
            else ", which does **not** rank as the trained similarity does: score with retrokit."
        ),
    ]
    return "\n".join(lines) + "\n"


def _data_section(preflight: Preflight) -> str:
    rows = [
        f"| {source['name']} | {source['records']:,} | {source['anchors']:,} | {source['documents']:,} |"
        for source in preflight.sources
    ]
    head = "## Training data\n\n| data set | records | anchors | documents |\n|---|---:|---:|---:|"
    return "\n".join([head, *rows]) + "\n"


def _results_section(history: list[dict[str, Any]], configuration: dict[str, Any]) -> str:
    evaluations = [row for row in history if "evaluation" in row]
    if not evaluations:
        return "## Results\n\nNot evaluated during training.\n"
    names = list(evaluations[0]["evaluation"])
    head = f"## Results on `{configuration['eval']}`\n\n| step | {' | '.join(names)} |\n|---:|{'---:|' * len(names)}"
    rows = [
        f"| {row['step']} | " + " | ".join(f"{row['evaluation'][n]:.4f}" for n in names) + " |" for row in evaluations
    ]
    return "\n".join([head, *rows]) + "\n"


def _use_section(name: str, similarity: Similarity) -> str:
    trust = ", trust_remote_code=True" if similarity.export == "prepared" else ""
    return f"""## Use

```python
import retrokit

encoder = retrokit.load("{name}")
queries = encoder.embed(["a question"], "query")
documents = encoder.embed(["a passage", "another passage"], "document")
scores = encoder.similarity.score(queries, documents)  # [queries, documents], higher is better
```

or, with sentence-transformers alone{" (and retrokit installed)" if trust else ""}:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}"{trust})
scores = model.similarity(model.encode_query(["a question"]), model.encode_document(["a passage", "another passage"]))
```
"""


def _training_section(configuration: dict[str, Any], preflight: Preflight, outcome: dict[str, Any]) -> str:
    shown = {
        **{key: value for key, value in configuration.items() if value not in (None, [], ())},
        "scale": preflight.scale["scale"],
        **outcome,
    }
    hidden = ("encoder", "data", "output", "overwrite", "resume", "device", "eval")
    rows = [f"| {key.replace('_', ' ')} | {value} |" for key, value in shown.items() if key not in hidden]
    return "\n".join(["## Training\n\n| option | value |\n|---|---|", *rows]) + "\n"
