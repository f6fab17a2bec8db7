"""What is put before a text: the user's prompt, else the model's own, else that of its family, else nothing.

A family is known by the Hub id of a model, by the name of its folder, or by the name in its card. What a model was
trained from (``base_model``, ``_name_or_path``) says nothing: others may train it on without prompts. The prompts are
those of mteb 2.26 (``tests/encoders/test_prompts.py`` compares them), or of the named model card where mteb has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from retrokit.data.prompted import WEB_SEARCH
from retrokit.data.runs import is_run
from retrokit.encoders.folders import CARD
from retrokit.similarities.base import Role


class ModelFamily(NamedTuple):
    """Models that are used in one way.

    Attributes:
        name: in messages.
        pattern: a regular expression of a model's name without its owner, in small letters.
        query, document: what its authors put before texts; ``None``: nothing. An instruction in them is the default.
        source: the Hub id of the model card that says so.
        tasks: prompts by the type of a task of MTEB.
    """

    name: str
    pattern: str
    query: str | None
    document: str | None
    source: str
    tasks: Mapping[str, str] = {}


_CLASSIFIED = ("Classification", "MultilabelClassification", "PairClassification", "Reranking", "STS", "Summarization")
_SEARCH = "Represent this sentence for searching relevant passages: "
_INSTRUCT = f"Instruct: {WEB_SEARCH}\nQuery: "
FAMILIES = (
    ModelFamily(
        "E5 instruct",
        r"(multilingual-)?e5-(large|mistral-7b)-instruct",
        _INSTRUCT,
        None,
        "intfloat/multilingual-e5-large-instruct",
    ),
    ModelFamily(
        "E5",
        r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?",
        "query: ",
        "passage: ",
        "intfloat/e5-base-v2",
    ),
    ModelFamily("BGE, English", r"bge-(small|base|large)-en(-v1\.5)?", _SEARCH, None, "BAAI/bge-base-en-v1.5"),
    ModelFamily(
        "BGE, Chinese",
        r"bge-(small|base|large)-zh(-v1\.5)?",
        "为这个句子生成表示以用于检索相关文章：",
        None,
        "BAAI/bge-base-zh-v1.5",
    ),
    ModelFamily("GTE-Qwen", r"gte-qwen[\d.]+-[\d.]+b-instruct", _INSTRUCT, None, "Alibaba-NLP/gte-Qwen2-1.5B-instruct"),
    ModelFamily(
        "GTE",
        r"gte-(small|base|large)(-zh|-en-v1\.5)?|gte-(multilingual|modernbert)-base",
        None,
        None,
        "thenlper/gte-base",
    ),
    ModelFamily(
        "Nomic",
        r"nomic-embed-text-v[\d.]+(-moe|-ablated|-unsupervised)?|modernbert-embed-(base|large)",
        "search_query: ",
        "search_document: ",
        "nomic-ai/nomic-embed-text-v1",
        {"Clustering": "clustering: ", **dict.fromkeys(_CLASSIFIED, "classification: ")},
    ),
    ModelFamily(
        "Qwen3-Embedding",
        r"qwen3-embedding-[\d.]+b",
        _INSTRUCT.rstrip(" "),
        None,
        "Qwen/Qwen3-Embedding-0.6B",
    ),
    ModelFamily(
        "Instructor",
        r"instructor-(base|large|xl)",
        "Represent the question for retrieving supporting documents: ",
        "Represent the document for retrieval: ",
        "hkunlp/instructor-large",
    ),
    ModelFamily("Jina v2", r"jina-embeddings-v2-.+", None, None, "jinaai/jina-embeddings-v2-base-en"),
    ModelFamily(
        "Jina v3",
        r"jina-embeddings-v3",
        "Represent the query for retrieving evidence documents: ",
        "Represent the document for retrieval: ",
        "jinaai/jina-embeddings-v3",
    ),
    ModelFamily(
        "Snowflake Arctic v2",
        r"snowflake-arctic-embed-[ml]-v2\.0",
        "query: ",
        None,
        "Snowflake/snowflake-arctic-embed-l-v2.0",
    ),
    ModelFamily(
        "Snowflake Arctic",
        r"snowflake-arctic-embed-(xs|s|m|l|m-long|m-v1\.5)",
        _SEARCH,
        None,
        "Snowflake/snowflake-arctic-embed-m-v1.5",
    ),
    ModelFamily(
        "EmbeddingGemma",
        r"embeddinggemma-300m(-.+)?",
        "task: search result | query: ",
        "title: none | text: ",
        "google/embeddinggemma-300m",
    ),
    ModelFamily("mxbai", "mxbai-embed-large-v1", _SEARCH, None, "mixedbread-ai/mxbai-embed-large-v1"),
    ModelFamily("UAE", "uae-large-v1", _SEARCH, None, "WhereIsAI/UAE-Large-V1"),
    ModelFamily(
        "Stella",
        r"stella_en_(400m|1\.5b)_v5",
        f"Instruct: {WEB_SEARCH}.\nQuery: ",
        None,
        "NovaSearch/stella_en_400M_v5",
    ),
    ModelFamily("SFR-Embedding", "sfr-embedding-(mistral|2_r)", _INSTRUCT, None, "Salesforce/SFR-Embedding-Mistral"),
    ModelFamily("Linq-Embed", "linq-embed-mistral", _INSTRUCT, None, "Linq-AI-Research/Linq-Embed-Mistral"),
    ModelFamily("NV-Embed", "nv-embed-v[12]", _INSTRUCT, None, "nvidia/NV-Embed-v2"),
)

DEFAULT_TEMPLATE = "Instruct: {instruction}\nQuery: "
"""Of a model without any prompt."""
_TEMPLATES = (r"(Instruct: ).+(\s*\n\s*Query: ?)", r"(task: ).+( \| query: )", rf"(.*){re.escape(WEB_SEARCH)}(.*)")
_NAMES: dict[Role, tuple[str, ...]] = {
    "query": ("query", "search_query", "retrieval.query", "retrieval_query", "s2p_query", "web_search_query"),
    "document": (
        *("document", "passage", "corpus", "search_document", "retrieval.passage", "retrieval.document"),
        *("retrieval_passage", "retrieval_document", "s2p_document", "s2p_passage"),
    ),
}
"""What models call the prompt of each role in their settings, the library's own names first."""
_SIMILAR_NAMES = {
    "E5": "e5",
    "BGE": "bge(?!-(m3|reranker))",
    "GTE-Qwen": r"gte-qwen[\d.]*",
    "Nomic": "nomic|modernbert-embed",
    "Qwen3-Embedding": "qwen3-embedding",
    "Instructor": "instructor",
    "Jina v3": "jina-embeddings-v3",
    "Snowflake Arctic": "arctic-embed",
    "EmbeddingGemma": "embeddinggemma",
    "mxbai": "mxbai",
    "UAE": "uae",
    "Stella": "stella",
    "SFR-Embedding": "sfr-embedding",
    "Linq-Embed": "linq-embed",
    "NV-Embed": "nv-embed",
}
"""Families with prompts, by what their derivatives usually have in their names."""
_IN_CARD = r"^model-index:\s*-\s*name:\s*(\S+)"


def role_prompts(saved: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """The prompt of each role among those that a model's settings name."""
    prompts: dict[str, str | None] = {}
    for role, names in _NAMES.items():
        texts = [saved[name] for name in names if saved and saved.get(name)]
        prompts[role] = texts[0] if texts else None
    return prompts


def other_prompts(saved: Mapping[str, str | None] | None) -> dict[str, str]:
    """Those for tasks, or types of tasks."""
    role_names = set(chain.from_iterable(_NAMES.values()))
    return {name: text for name, text in (saved or {}).items() if text and name not in role_names}


def template_of(prompts: Mapping[str, str | None]) -> str | None:
    """A query's prompt with ``{instruction}`` in place of its instruction; ``None`` where it has none.

    >>> template_of({"query": "Instruct: Find what cures.\\nQuery:"})
    'Instruct: {instruction}\\nQuery:'
    """
    query = prompts.get("query")
    if query is None:
        return None if any(prompts.values()) else DEFAULT_TEMPLATE
    matches = (re.fullmatch(pattern, query, re.DOTALL) for pattern in _TEMPLATES)
    return next((f"{match[1]}{{instruction}}{match[2]}" for match in matches if match), None)


def resolve_prompts(
    saved: Mapping[str, str | None] | None, user: Mapping[str, str | None], family: ModelFamily | None
) -> dict[str, str]:
    """All prompts of a model, those of both roles under ``query`` and ``document`` too, which the library reads.

    Args:
        saved: the prompts in the model's settings, by name.
        user: a user's prompts, by role, which replace those under all names of the role.
        family: the model's family; ``None`` if ``saved`` has a prompt for a role.

    >>> resolve_prompts({"s2p_query": "Ask: ", "passage": "Read: "}, {"document": ""}, None)
    {'s2p_query': 'Ask: ', 'passage': '', 'query': 'Ask: ', 'document': ''}
    """
    prompts = {name: text or "" for name, text in (saved or {}).items()}
    if family is not None:
        prompts |= {**family.tasks, "query": family.query or "", "document": family.document or ""}
    for role, names in _NAMES.items():
        text = user.get(role)
        if text is None:
            prompts[role] = role_prompts(prompts)[role] or ""
        else:
            prompts |= dict.fromkeys(prompts.keys() & {*names}, text)  # all stay: one may be the default
            prompts[role] = text
    return prompts


def family_of(path: str) -> tuple[ModelFamily | None, str]:
    """The family of a Hub id or a folder, and in words what it was known by. What retrokit has trained has none: its
    prompts are those of its training."""
    if _is_trained_here(path):
        return None, ""
    for where, name in _called(path):
        for family in FAMILIES:
            if re.fullmatch(rf"(.*(/|_|--))?({family.pattern})/?", name.lower()):
                return family, f"{where} {name}"
    return None, ""


def similar_family(path: str) -> tuple[str, str]:
    """The family with prompts that the name of a model without a family resembles, and in words where the name is;
    two empty texts if there is none."""
    if _is_trained_here(path) or family_of(path)[0] is not None:
        return "", ""
    for where, name in _called(path):
        for family, pattern in _SIMILAR_NAMES.items():
            if re.search(rf"(?<![a-z0-9])({pattern})(?![a-z0-9])", name.lower().replace("_", "-")):
                return family, f"{where} {name}"
    return "", ""


def _is_trained_here(path: str) -> bool:
    """Whether a folder is a run of retrokit or one of its checkpoints."""
    folder = Path(path).resolve()
    return is_run(folder) or (folder.name.startswith("checkpoint-") and is_run(folder.parent.parent))


def _called(path: str) -> Iterator[tuple[str, str]]:
    """Names of the model, and where each was read, the surest first."""
    if not os.path.isdir(path):
        yield "Hub id", path
        return
    folder = Path(path)
    if (folder / CARD).is_file():
        front = re.match(r"---\n.*?\n---", (folder / CARD).read_text(encoding="utf-8", errors="replace"), re.DOTALL)
        for names in re.findall(_IN_CARD, front[0] if front else "", re.MULTILINE):
            yield f"{CARD}:", names.strip("\"'")
    absolute = folder.resolve()
    in_hub_cache = [name for name in absolute.parts if name.startswith("models--")]
    if in_hub_cache:
        yield "folder's name", in_hub_cache[0].removeprefix("models--").replace("--", "/")
    else:
        yield "folder's name", absolute.name
