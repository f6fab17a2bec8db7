"""Which implementation of attention a configuration of transformers names: a private member of it, in one place."""

from typing import Any


def attention_of(config: Any) -> str | None:
    """The name, such as ``sdpa``; ``None`` where there is none."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name


def use_attention(config: Any, name: str) -> None:
    """Have a model of that configuration compute with the implementation ``name``."""
    config._attn_implementation = name
