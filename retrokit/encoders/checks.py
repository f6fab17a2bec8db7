"""Whether the parts of a model's folder fit together.

The libraries give random weights to what is missing, and a default tokenizer to a folder without one. They pass on
settings unchecked, and at most log a line. Here each of these problems is a :class:`ValueError` that names it.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import nn
from transformers import PreTrainedModel

from retrokit.core.notices import notice
from retrokit.encoders import engine
from retrokit.encoders.modules import Prepare
from retrokit.encoders.towers import towers

LISTED = 3  # names in a message
UNUSED = ("pooler",)  # what pools here is a module of its own, behind the transformer

PROBES = ["a", "a b c d e"]
"""Texts that each model is tried on: of different lengths, for which a tokenizer needs a padding token."""


@contextmanager
def whole_weights(unused: Collection[str] = (), head: bool = True) -> Iterator[None]:
    """Within the block, a transformer is loaded with all of its weights or not at all.

    Args:
        unused: names of modules that may lack their weights, for nothing asks for their output; they become 0, where
            random ones would make another model of a checkpoint each time that it is loaded.
        head: whether the head on top of the base model is checked too.
    """
    plain = vars(PreTrainedModel)["from_pretrained"]

    def from_pretrained(kind: type[PreTrainedModel], *args: Any, **options: Any) -> Any:
        tells = options.pop("output_loading_info", False)
        options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # so that they can be named
        model, info = plain.__func__(kind, *args, **options)
        _check_weights(model, info, unused, head)
        weights = model.state_dict()
        for name in info["missing_keys"]:
            if _is_within(name, unused):
                weights[name].zero_()
        return (model, info) if tells else model

    PreTrainedModel.from_pretrained = classmethod(from_pretrained)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = plain


def _check_weights(model: PreTrainedModel, info: dict[str, Any], unused: Collection[str], head: bool) -> None:
    mismatched = []
    for name, shape, expected in info["mismatched_keys"]:
        mismatched.append(f"{name} ({_shape(shape)} for {_shape(expected)})")
    names_by_problem = {
        "lack": _missing(model, info["missing_keys"], unused, head),
        "have no place for": [name for name in info["unexpected_keys"] if _belongs(model, name)],
        "have another shape in": mismatched,
    }
    problems = [f"its weights {problem} {listed(names)}" for problem, names in names_by_problem.items() if names]
    problems += [f"its weights cannot be read: {message}" for message in info.get("error_msgs", ())]
    if problems:
        raise ValueError("; ".join(problems))


def _missing(model: PreTrainedModel, names: Iterable[str], unused: Collection[str], head: bool) -> list[str]:
    """The missing weights that are used; those of a head only if there is to be one."""
    missing = [name for name in names if not _is_within(name, unused)]
    if head:
        return missing
    return [name for name in missing if name.startswith(f"{model.base_model_prefix}.")]


def _is_within(name: str, modules: Collection[str]) -> bool:
    """Whether a weight is one of a module of such a name."""
    return not set(name.split(".")).isdisjoint(modules)


def _belongs(model: PreTrainedModel, name: str) -> bool:
    """Whether a weight that the model has no place for is one of its own, and not of a head for another task."""
    words = name.removeprefix(f"{model.base_model_prefix}.").split(".")
    is_part = isinstance(getattr(model.base_model, words[0], None), nn.Module)
    return is_part and words[-1] in ("weight", "bias")


def _shape(size: Any) -> str:
    return " × ".join(map(str, size))


def listed(names: Collection[str]) -> str:
    """The first few names, and how many more there are."""
    line = ", ".join(sorted(names)[:LISTED])
    return f"{line} and {len(names) - LISTED} more" if len(names) > LISTED else line


def check_parts(loaded: SentenceTransformer, path: str) -> None:
    """Check tokenizer, settings and table of a model that was loaded from ``path``, and try it on one text."""
    for tower in towers(loaded):
        _check_tokenizer(tower, path)
        check_positions(tower, path)
        for module in tower:
            _check_lengths(module)
    prompts = loaded.prompts
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ValueError("its prompts are not texts by name")
    dimension = loaded.get_embedding_dimension()
    for role in ("query", "document"):
        width = engine.plainly(loaded, PROBES, role).shape[-1]
        if width != dimension and not isinstance(loaded[-1], Prepare):  # which may take some of them
            raise ValueError(f"its {role} embeddings have {width} dimensions, and it says {dimension}")


def _check_lengths(module: nn.Module) -> None:
    for name in ("max_seq_length", "query_length", "document_length"):
        length = getattr(module, name, None)
        if length is None:
            continue
        if isinstance(length, bool) or not isinstance(length, int | float) or length < 1:
            raise ValueError(f"its {name} is {length!r}, and no number of tokens")


def _check_tokenizer(loaded: SentenceTransformer, path: str) -> None:
    tokenizer = loaded.tokenizer
    names = {*getattr(tokenizer, "vocab_files_names", {}).values(), "tokenizer.json"}
    is_whole = os.path.isdir(path) and not os.path.isfile(Path(path) / "adapter_config.json")  # else a base has it
    if is_whole and not any(next(Path(path).rglob(name), None) for name in names):
        raise ValueError(f"it has no tokenizer (none of {', '.join(sorted(names))})")
    ids = tokenizer.get_vocab().values()
    first = loaded[0]
    if isinstance(first, Transformer):
        embedding = getattr(first.model, "text_model", first.model).get_input_embeddings()  # of two towers, or of one
    else:
        embedding = getattr(first, "embedding", None)
    table = getattr(embedding, "weight", None)
    if table is not None and ids and max(ids) >= len(table):
        raise ValueError(f"its tokenizer numbers tokens up to {max(ids)}, and its table has {len(table)} rows")


def positions_of(first: nn.Module) -> tuple[int, int] | None:
    """Rows of the table of positions of a model's first module, and how many of them a text may use, for RoBERTa's kind
    begins behind the padding's; ``None`` if it has no table."""
    for name, table in first.named_modules():
        if isinstance(table, nn.Embedding) and name.endswith("position_embeddings"):
            unused = 0 if table.padding_idx is None else table.padding_idx + 1
            return table.num_embeddings, table.num_embeddings - unused
    return None


def check_positions(loaded: Any, path: str) -> None:
    """A table of positions must be as long as the longest text. A limit that counts the rows that no text uses is
    lowered, with a notice."""
    limit, positions = loaded.max_seq_length, positions_of(loaded[0])
    if limit is None or positions is None or limit <= positions[1]:
        return
    if limit > positions[0]:
        raise ValueError(f"its max_seq_length of {limit} is more than its {positions[1]} positions")
    loaded.max_seq_length = positions[1]
    notice(f"{path}: reads {positions[1]} tokens: its max_seq_length of {limit} counts positions that no text uses")
