"""The model card of an encoder: description, data, results, usage. It contains no texts of a user."""

from collections.abc import Iterable, Mapping
from typing import Any

from retrokit.core.sheet import digits
from retrokit.similarities.base import Similarity
from retrokit.training.preflight import Preflight

_SAVED_AS = {
    "normalize": "It is saved with a Normalize layer.",
    "raw": "Embeddings are saved as they are, magnitudes included.",
    "prepared": "Embeddings come out prepared: their inner product is the similarity.",
}
_HIDDEN = ("encoder", "data", "export", "output", "overwrite", "resume", "device", "eval", "dev")


def model_card(
    name: str,
    similarity: Similarity,
    preflight: Preflight,
    history: list[dict[str, Any]],
    outcome: dict[str, Any],
    more: str = "",
) -> str:
    """The card of a fine-tuned encoder, as Markdown; ``more`` follows its first sentence."""
    configuration = preflight.configuration
    options = {**configuration, "scale": preflight.scale["scale"], **outcome}
    return f"""{FRONT}
# {name}

A dense text retriever: `{configuration["encoder"]}` fine-tuned by retrokit.{more}

{similarity_section(similarity, "Trained with")}

{data_section(preflight.sources)}

{results_section(history, preflight.evaluated)}

{use_section(name, similarity)}

{options_section(options)}
"""


FRONT = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- retrokit
---
"""


def similarity_section(similarity: Similarity, verb: str) -> str:
    """The similarity, which the model was trained or scores with (``verb``), and how it is saved."""
    learned = ", ".join(f"{key} = {value:.4f}" for key, value in similarity.statistics().items())
    ranks = "does **not** rank as the trained similarity does: score with retrokit."
    if similarity.library_exact:
        ranks = "ranks documents as the trained similarity does."
    return f"""## Similarity

{verb} `{similarity.spec}`{f" ({learned})" if learned else ""}. {_SAVED_AS[similarity.export]}
In sentence-transformers its similarity is set to `{similarity.library_name}`, which \
{ranks}"""


def use_section(name: str, similarity: Similarity) -> str:
    """Code that embeds and scores with the model folder of that name."""
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
```"""


def data_section(sources: Iterable[Mapping[str, Any]]) -> str:
    """The sources of the training data by name, with counts."""
    counts = ("records", "anchors", "documents")
    rows = []
    for source in sources:
        rows.append([source["name"], *[f"{source[count]:,}" for count in counts]])
    return "## Training data\n\n" + table({"data set": "---", **dict.fromkeys(counts, "---:")}, rows)


def options_section(options: Mapping[str, Any]) -> str:
    """The options of the training."""
    rows = []
    for key, value in options.items():
        if value not in (None, [], ()) and key not in _HIDDEN:
            rows.append([key.replace("_", " "), value])
    return "## Training\n\n" + table({"option": "---", "value": "---"}, rows)


def results_section(history: list[dict[str, Any]], tasks: Mapping[str, str]) -> str:
    """The metrics of each evaluation."""
    evaluations = [row for row in history if "evaluation" in row]
    if not evaluations:
        return "## Results\n\nNot evaluated during training."
    sections = []
    for task, spec in tasks.items():
        names = [name for name in evaluations[0]["evaluation"] if name.rpartition(":")[0] == task]
        columns = ["step"] + [name.rpartition(":")[2] for name in names]
        rows = []
        for row in evaluations:
            rows.append([row["step"], *[digits(row["evaluation"].get(name), absent="") for name in names]])
        sections.append(f"## Results on `{spec}`\n\n" + table(dict.fromkeys(columns, "---:"), rows))
    return "\n\n".join(sections)


def table(columns: dict[str, str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as Markdown; ``columns`` are names with alignments."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in [columns, *rows]]
    return "\n".join([lines[0], f"|{'|'.join(columns.values())}|", *lines[1:]])
