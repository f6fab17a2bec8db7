"""What the two pull requests to MTEB need, by mteb's own code: the results, and ``model_meta.py``."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.pairs import registry as training_data
from retrokit.data.runs import Run
from retrokit.encoders.base import Encoder
from retrokit.encoders.folders import run_similarity
from retrokit.evaluation.comparison.results_folder import Record
from retrokit.extensions.publishing.measured import results_of_mteb
from retrokit.extensions.publishing.names import data_set_of, hub_id
from retrokit.extensions.publishing.settings import PushSettings

if TYPE_CHECKING:
    from mteb.models import ModelMeta

_IMPORTS = """from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper
from mteb.models.model_meta import ScoringFunction

"""


def write_submission(meta: "ModelMeta", records: Sequence[Record], folder: Path) -> None:
    """Write ``results/OWNER__NAME/COMMIT/TASK.json`` with ``model_meta.json``, and ``model_meta.py``; raises
    :class:`DataError` for a result that cannot be read."""
    from mteb import ResultCache

    cache = ResultCache(folder)
    for record in records:
        for result in results_of_mteb(record):
            cache.save_to_cache(result, meta)
    name = re.sub(r"\W", "_", meta.model_name_as_path())
    (folder / "model_meta.py").write_text(f"{_IMPORTS}{name} = {meta.to_python()}\n", encoding="utf-8")


def model_meta(settings: PushSettings, run: Run) -> "ModelMeta":
    """MTEB's description of the model, without a revision; raises :class:`UsageError` for a licence or language that
    mteb does not take."""
    from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper

    encoder = encoders.registry.create_on(settings.folder, "cpu")
    similarity = run_similarity(settings.folder)
    loading: dict[str, Any] = {}
    if similarity.export == "prepared":
        loading["trust_remote_code"] = True
    prompts = {role: prompt for role, prompt in encoder.prompts.items() if prompt}
    if prompts:
        loading["model_prompts"] = prompts
    metadata = {
        "loader": SentenceTransformerEncoderWrapper,
        "loader_kwargs": loading,
        "name": settings.repo,
        "revision": "no_revision_available",
        "release_date": datetime.now(UTC).date().isoformat(),
        "languages": list(settings.languages) or None,
        "license": settings.license,
        "embed_dim": encoder.dimension,
        "max_tokens": encoder.max_length("document"),
        "open_weights": True,
        "framework": ["Sentence Transformers", "PyTorch", "safetensors"],
        "reference": f"https://huggingface.co/{settings.repo}",
        "similarity_fn_name": similarity.library_name,
        "use_instructions": bool(prompts),
        "public_training_data": _public_data(run),
        "training_datasets": _training_tasks(run),
        "adapted_from": settings.base_model or hub_id(run.encoder),
        **_sizes(encoder),
    }
    try:
        return ModelMeta(**(vars(ModelMeta.create_empty()) | metadata))
    except ValueError as error:
        _, field, problem, *_ = map(str.strip, str(error).splitlines())
        raise UsageError(f"`mteb=`: MTEB does not take this model: {field.partition('.')[0]}: {problem}") from error


def _sizes(encoder: Encoder) -> dict[str, Any]:
    model = encoder.to_train().model
    parameters = list(model.parameters())
    megabytes = sum(value.numel() * value.element_size() for value in parameters) / 2**20
    sizes = {"n_parameters": sum(value.numel() for value in parameters), "memory_usage_mb": round(megabytes)}
    transformer = getattr(model[0], "auto_model", None)
    if transformer is not None:
        sizes["n_embedding_parameters"] = transformer.get_input_embeddings().weight.numel()
    return sizes


def _public_data(run: Run) -> str | bool | None:
    """The address of the training data; whether all are public, if there are several."""
    ids = [data_set_of(training_data, spec) for spec in run.identity.get("data", ())]
    if None in ids or not ids:
        return None
    return f"https://huggingface.co/datasets/{ids[0]}" if len(ids) == 1 else True


def _training_tasks(run: Run) -> set[str] | None:
    """MTEB's tasks whose data the model was trained on; ``None`` if other data may be of its tasks too."""
    from mteb import get_tasks

    tasks_by_data: dict[str, set[str]] = {}
    for task in get_tasks():
        tasks_by_data.setdefault(task.metadata.dataset["path"].lower(), set()).add(task.metadata.name)
    tasks: set[str] = set()
    unknown = []
    for spec in run.identity.get("data", ()):
        path = training_data.parse(spec).path
        names = tasks_by_data.get((data_set_of(training_data, spec) or f"mteb/{path}").lower(), set())
        tasks |= names
        if not names:
            unknown.append(Path(path).name or spec)
    if unknown:
        others = ", ".join(unknown)
        notice(f"`training_datasets` in model_meta.py: complete it if {others} have data of MTEB's tasks")
    return tasks if tasks or not unknown else None
