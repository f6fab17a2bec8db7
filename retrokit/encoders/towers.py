"""The towers of an asymmetric model: what embeds queries, and what embeds documents.

A ``Router`` of sentence-transformers, at any place of a model, sends each role (``task``), and each modality, through
modules of its own. A model without one has one tower, itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:  # whoever reads all embeddings from the cache does without the library
    from sentence_transformers import SentenceTransformer


def tower_of(model: SentenceTransformer, role: str, modality: str = "text") -> SentenceTransformer:
    """The modules that embed the texts (or images) of a role, one after another: of each router those of its route.

    Raises:
        ValueError: a router has no route for the role.
    """
    if not has_routes(model):
        return model
    modules: list[nn.Module] = []
    keywords_by_name: dict[str, Any] = {}
    for name, child in model.named_children():
        for module in _route(child, role, modality):
            keywords_by_name[str(len(modules))] = (model.module_kwargs or {}).get(name, [])
            modules.append(module)
    tower = with_modules(model, modules)
    tower.module_kwargs = keywords_by_name
    return tower


def towers(model: SentenceTransformer) -> list[SentenceTransformer]:
    """The tower of each role for texts, then for images if the model takes any; one if all of it serves both roles."""
    if not has_routes(model):
        return [model]
    modalities = [modality for modality in ("text", "image") if model.supports(modality)]
    return [tower_of(model, role, modality) for modality in modalities for role in ("query", "document")]


def has_routes(model: SentenceTransformer) -> bool:
    """Whether a module of the model is a router."""
    return any(_is_router(module) for module in model)


def _is_router(module: Any) -> bool:
    return hasattr(module, "sub_modules") and hasattr(module, "route_mappings")


def _route(module: Any, role: str, modality: str) -> Iterator[nn.Module]:
    """The modules of a router's route, in the library's order of preference, nested routers resolved."""
    if not _is_router(module):
        yield module
        return
    preferred = [(role, modality), (role, None), (None, modality), (None, None)]
    routes = [module.route_mappings[key] for key in preferred if key in module.route_mappings]
    routes += [name for name in (role, modality) if name in module.sub_modules]
    if not routes or routes[0] not in module.sub_modules:
        raise ValueError(f"its Router has no route for the task {role}, only {', '.join(module.sub_modules)}")
    for child in module.sub_modules[routes[0]]:
        yield from _route(child, role, modality)


def with_modules(model: SentenceTransformer, modules: Iterable[nn.Module]) -> SentenceTransformer:
    """A model of these modules, which are shared, with the device, prompts and settings of ``model``."""
    result = type(model)(
        modules=[nn.Identity()],  # to the type of its first module the library casts the others
        device=str(model.device),
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
        truncate_dim=model.truncate_dim,
    )
    del result[0]
    result.extend(modules)
    if model.module_kwargs:
        names = {id(module): name for name, module in model.named_children()}
        result.module_kwargs = {
            name: model.module_kwargs.get(names.get(id(module)), []) for name, module in result.named_children()
        }
    return result


def keywords(model: SentenceTransformer, index: int, role: str) -> dict[str, str]:
    """What the library passes to a module of ``model``, apart from the features: the role, if the module takes it."""
    names = {*getattr(model[index], "forward_kwargs", ())}
    if model.module_kwargs:
        module_name = list(dict(model.named_children()))[index]
        names |= {*model.module_kwargs.get(module_name, ())}
    return {"task": role} if "task" in names else {}
