"""Finished models and data on the Hugging Face Hub, each in one commit with a card; and the MTEB submission."""

import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError
from huggingface_hub.utils import disable_progress_bars, validate_repo_id

from retrokit.core.errors import ServiceError, UsageError, disk_errors, first_line, redacted
from retrokit.core.outputs import folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.runs import is_run, read_run
from retrokit.extensions.publishing.data_sets import stage_data
from retrokit.extensions.publishing.measured import measured
from retrokit.extensions.publishing.models import check_model, stage_model
from retrokit.extensions.publishing.settings import PushSettings
from retrokit.extensions.publishing.submission import model_meta, write_submission

_STALE = {
    "model": ["*.safetensors*", "*.bin", "*.json", "[0-9]*_*/*"],
    "dataset": ["*.jsonl", "*.jsonl.*", "*.tsv", "*.json"],
}
"""Files of an earlier upload in the repository, which are deleted."""


@dataclass(frozen=True)
class Pushed:
    """An upload: its address and commit, which are empty in a dry run, and the names of the files."""

    url: str
    commit: str
    files: list[str]


@taking(PushSettings)
def push(settings: PushSettings) -> Pushed:
    """Upload a finished model or data, or write the upload to a folder.

    Raises:
        UsageError: no finished model and no data, a wrong name of a repository, no login, or results of other encoders.
        DataError: a model, data, a card or results that cannot be read, or a folder that cannot be written.
        ServiceError: the Hub refuses or cannot be reached; nothing was uploaded then.
    """
    _check_repository(settings.repo)
    folder: AbstractContextManager[Path | str]
    if settings.dry_run is None:
        folder = tempfile.TemporaryDirectory()
    else:
        folder = folder_in_the_making(settings.dry_run)
    if is_run(settings.folder):
        return _push_model(settings, folder)
    with folder as folder_path:
        staged = Path(folder_path)
        with disk_errors(staged):
            stage_data(settings, staged)
        return _sent(settings, staged, "dataset")


def _push_model(settings: PushSettings, folder: AbstractContextManager[Path | str]) -> Pushed:
    run = read_run(settings.folder).finished(settings.folder)
    check_model(settings, run)
    records = measured(settings)
    meta = model_meta(settings, run) if settings.mteb is not None else None
    mteb = folder_in_the_making(settings.mteb) if settings.mteb is not None else nullcontext()
    with mteb as submission, folder as folder_path:
        staged = Path(folder_path)
        with disk_errors(staged):
            stage_model(settings, run, records, staged)
        pushed = _sent(settings, staged, "model")
        if submission is not None and meta is not None:
            revision = pushed.commit or meta.revision
            write_submission(meta.model_copy(update={"revision": revision}), records, Path(submission))
    return pushed


def _check_repository(name: str) -> None:
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UsageError(f"`repo` {name}: {first_line(error)}") from None
    if "/" not in name:
        raise UsageError(f"`repo` {name}: expected OWNER/NAME")


def _sent(settings: PushSettings, staged: Path, kind: str) -> Pushed:
    """The upload of a staged folder, or a dry run of it."""
    files = sorted(path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file())
    if settings.dry_run is not None:
        return Pushed("", "", files)
    api = HfApi()
    disable_progress_bars()
    try:
        api.create_repo(settings.repo, repo_type=kind, private=settings.private or None, exist_ok=True)
        commit = api.upload_folder(
            repo_id=settings.repo,
            repo_type=kind,
            folder_path=staged,
            commit_message=f"Upload a {kind} by retrokit",
            delete_patterns=_STALE[kind],
        )
    except LocalTokenNotFoundError:
        raise UsageError("not logged in to the Hub; run `hf auth login`, or set HF_TOKEN") from None
    except Exception as error:  # the hub client's own errors and its transport's share no base class
        raise ServiceError(f"{settings.repo} was not uploaded: {first_line(error)}") from error
    folder = "datasets/" if kind == "dataset" else ""
    return Pushed(redacted(f"{api.endpoint}/{folder}{settings.repo}"), commit.oid, files)
