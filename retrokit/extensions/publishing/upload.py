"""A finished model on the Hub, with a card of its data and results, in one commit.

Nothing of the machine is uploaded: paths become names, and ``retrokit.json`` contains only what loads the model.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import EvalResult, HfApi, ModelCard
from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError
from huggingface_hub.utils import disable_progress_bars, validate_repo_id

from retrokit import encoders
from retrokit.core.errors import DataError, ServiceError, UsageError, disk_errors, first_line, redacted
from retrokit.core.files import LARGEST_TOML, read_text
from retrokit.core.notices import notice
from retrokit.core.outputs import folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.jsonl import read_json
from retrokit.data.runs import Run, read_run, write_run
from retrokit.encoders.folders import MINILM_ID, check_folder
from retrokit.evaluation.comparison.results_folder import Record, ResultsFolder
from retrokit.extensions.publishing.settings import PushSettings

CARD = "README.md"
_STALE = ["*.safetensors*", "*.bin", "*.json", "[0-9]*_*/*"]
"""Files of an earlier model in the repository, which are deleted."""
_FOLDERS = re.compile(r"(?<![\w/.])/(?!/)(?:[^\s`|,/\"]+/)*")


@dataclass(frozen=True)
class Pushed:
    """An upload: its address and commit, which are empty in a dry run, and the names of the files."""

    url: str
    commit: str
    files: list[str]


@taking(PushSettings)
def push(settings: PushSettings) -> Pushed:
    """Upload a finished model, or write the upload to a folder.

    Raises:
        UsageError: no finished model, a wrong name of a repository, no login, or results of other encoders.
        DataError: a model, a card or results that cannot be read, or a folder that cannot be written.
        ServiceError: the Hub refuses or cannot be reached; nothing was uploaded then.
    """
    _check_repository(settings.repo)
    run = read_run(settings.folder).finished(settings.folder)
    check_folder(settings.folder)
    if run.files is None or run.verifier is not None:
        raise UsageError(f"{settings.folder} does not list the files of an encoder; train it again")
    records = _measured(settings)
    folder: AbstractContextManager[Path | str]
    if settings.dry_run is None:
        folder = tempfile.TemporaryDirectory()
    else:
        folder = folder_in_the_making(settings.dry_run)
    mteb = folder_in_the_making(settings.mteb) if settings.mteb is not None else nullcontext()
    with mteb as submission, folder as folder_path:
        staged = Path(folder_path)
        with disk_errors(staged):
            _stage(settings, run, records, staged)
        files = sorted(path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file())
        url, commit = ("", "") if settings.dry_run is not None else _upload(settings, staged)
        if submission is not None:
            _write_submission(settings, records, commit, Path(submission))
    return Pushed(url, commit, files)


def _check_repository(name: str) -> None:
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UsageError(f"`repo` {name}: {first_line(error)}") from None
    if "/" not in name:
        raise UsageError(f"`repo` {name}: expected OWNER/NAME")


def _copy(source: Path, target: Path) -> None:
    for path in (source, *source.rglob("*")):
        if path.is_symlink():
            raise DataError(path, "is a link; replace it by the file")
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _name_base(settings: PushSettings, config: Path) -> None:
    """Name the base of an adapter by its id on the Hub."""
    described = read_json(config, "the configuration of an adapter", nan=True)
    base = str(described.get("base_model_name_or_path"))
    if not _on_hub(base):
        if settings.base_model is None:
            local = f"{settings.folder} is an adapter of {base}, which is not on the Hub"
            raise UsageError(f"{local}; give its Hub id as `base_model=`, or train with `lora=` RANK,merge=true")
        described["base_model_name_or_path"] = settings.base_model
        config.write_text(json.dumps(described, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _stage(settings: PushSettings, run: Run, records: Sequence[Record], staged: Path) -> None:
    """Write what is uploaded into the folder ``staged``."""
    for name in run.files or ():
        _copy(Path(settings.folder, name), staged / name)
    notes = {name: value for name, value in run.notes.items() if name in ("retrokit", "versions")}
    write_run(Run(run.status, run.similarity, steps=run.steps, files=run.files, notes=notes), staged)
    if (adapter := staged / "adapter_config.json").is_file():
        _name_base(settings, adapter)
    _write_card(settings, run, records, staged / CARD)


def _data_sets(run: Run) -> list[str]:
    """The training data that are on the Hub."""
    from retrokit.data.pairs import registry as sources

    specs = (sources.parse(spec) for spec in run.identity.get("data", ()))
    names = [str(spec.params.get("name", "")) for spec in specs if spec.name == "hf"]
    return [name for name in names if _on_hub(name)]


def _write_card(settings: PushSettings, run: Run, records: Sequence[Record], path: Path) -> None:
    """Complete the model's card, which its owner may have changed, under its name on the Hub."""
    try:
        card = ModelCard(read_text(path, LARGEST_TOML))
    except Exception as error:  # the library raises anything
        raise DataError(Path(settings.folder, CARD), f"is not a model card: {first_line(error)}") from error
    name = Path(settings.folder).resolve().name
    entries = {
        "base_model": settings.base_model or _hub_id(run.encoder),
        "datasets": _data_sets(run),
        "license": settings.license,
        "model_name": settings.repo,
        "eval_results": [_result(*result) for result in (*_of_training(run), *_of_records(records))],
    }
    for key, value in entries.items():
        if value:
            card.data[key] = value
    if "license" not in card.data:
        notice("the card names no licence, so nobody may use the model; give a `license=`")
    text = card.text.replace(f'load("{name}")', f'encoder("{settings.repo}")')
    text = text.replace(f'("{name}"', f'("{settings.repo}"')
    text = re.sub(rf"^# {re.escape(name)}$", f"# {settings.repo.partition('/')[2]}", text, flags=re.MULTILINE)
    card.text = _FOLDERS.sub("", text)
    path.write_text(str(card), encoding="utf-8")


def _on_hub(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and not Path(name).exists()


def _hub_id(encoder: str) -> str | None:
    """The Hub id of an encoder, if it is no folder."""
    try:
        spec = encoders.registry.parse(encoder)
    except UsageError:
        return None
    path = MINILM_ID if spec.name == "minilm" else str(spec.params.get("path", ""))
    return path if _on_hub(path) else None


def _result(task: str, metric: str, value: float) -> EvalResult:
    kind = "sentence-similarity" if re.match("pearson|spearman", metric) else "information-retrieval"
    return EvalResult(
        task_type=kind, dataset_type=task, dataset_name=task, metric_type=metric, metric_value=round(value, 6)
    )


def _of_training(run: Run) -> Iterator[tuple[str, str, float]]:
    """The evaluation of the saved weights."""
    outcome = run.outcome or {}
    for row in outcome.get("evaluations", ()):
        if row["step"] == outcome.get("best_step"):
            for name, value in row["evaluation"].items():
                task, _, metric = name.rpartition(":")
                yield task or "evaluation", metric, value


def _of_records(records: Sequence[Record]) -> Iterator[tuple[str, str, float]]:
    for record in records:
        for metric in record.shown:
            value = record.result.metrics.get(metric)
            if value is not None and value == value:  # NaN is none
                yield _FOLDERS.sub("", record.result.task), metric, value


def _measured(settings: PushSettings) -> list[Record]:
    """The results of this encoder in the folders of results."""
    if not settings.results:
        if settings.mteb is not None:
            raise UsageError("`mteb=` needs `results=`")
        return []
    fingerprint = encoders.registry.create_on(settings.folder, "cpu").fingerprint()
    records: list[Record] = []
    for folder in settings.results:
        records += ResultsFolder(folder).read()
    mine = [record for record in records if record.result.configuration.get("fingerprint") == fingerprint]
    if not mine:
        others = ", ".join(dict.fromkeys(record.result.encoder for record in records))
        raise UsageError(f"`results=`: none of {settings.folder} in its present state; they are of {others}")
    if settings.mteb is not None and not _files_of_mteb(mine):
        raise UsageError("`mteb=`: `results=` contain none of MTEB")
    return mine


def _files_of_mteb(records: Sequence[Record]) -> list[Path]:
    files = []
    for record in records:
        configuration = record.result.configuration
        if {"mteb_cache", "mteb_results"} <= configuration.keys():
            files += [Path(configuration["mteb_cache"], name) for name in configuration["mteb_results"]]
    return files


def _write_submission(settings: PushSettings, records: Sequence[Record], commit: str, folder: Path) -> None:
    """``results/OWNER__NAME/COMMIT/TASK.json`` and ``model_meta.json``, by mteb's own code."""
    from mteb import ResultCache, TaskResult
    from mteb.models import ModelMeta

    encoder = encoders.registry.create_on(settings.folder, "cpu")
    metadata = {
        "name": settings.repo,
        "revision": commit or "no_revision_available",
        "license": settings.license,
        "embed_dim": encoder.dimension,
        "max_tokens": encoder.max_length("document"),
        "open_weights": True,
        "framework": ["Sentence Transformers", "PyTorch"],
        "reference": f"https://huggingface.co/{settings.repo}",
    }
    meta, cache = ModelMeta.create_empty(metadata), ResultCache(folder)
    for file in _files_of_mteb(records):
        try:
            result = TaskResult.from_disk(file)
        except (OSError, ValueError) as error:
            raise DataError(file, f"is not a result of MTEB: {first_line(error)}; evaluate again") from error
        cache.save_to_cache(result, meta)


def _upload(settings: PushSettings, staged: Path) -> tuple[str, str]:
    """Upload the folder; its address and commit."""
    api = HfApi()
    disable_progress_bars()
    try:
        api.create_repo(settings.repo, private=settings.private or None, exist_ok=True)
        commit = api.upload_folder(
            repo_id=settings.repo,
            folder_path=staged,
            commit_message="Upload an encoder trained by retrokit",
            delete_patterns=_STALE,
        )
    except LocalTokenNotFoundError:
        raise UsageError("not logged in to the Hub; run `hf auth login`, or set HF_TOKEN") from None
    except Exception as error:  # the hub client's own errors and its transport's share no base class
        raise ServiceError(f"{settings.repo} was not uploaded: {first_line(error)}") from error
    return redacted(f"{api.endpoint}/{settings.repo}"), commit.oid
