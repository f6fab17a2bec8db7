"""A finished model as it is uploaded: its files, and a card of its data and results.

Paths become names, and ``retrokit.json`` contains only what loads the model. The card has no training text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, eval_result_entries_to_yaml
from huggingface_hub.utils import yaml_dump

from retrokit.core.errors import UsageError
from retrokit.core.files import LARGEST_TOML, read_text
from retrokit.data.jsonl import read_json
from retrokit.data.pairs import registry as training_data
from retrokit.data.runs import Run, write_run
from retrokit.encoders.folders import CARD, check_folder
from retrokit.evaluation.comparison.results_folder import Record
from retrokit.extensions.publishing.cards import complete, copy, read_card, without_folders
from retrokit.extensions.publishing.measured import card_results, hub_results
from retrokit.extensions.publishing.names import data_set_of, hub_id, is_on_hub
from retrokit.extensions.publishing.settings import PushSettings
from retrokit.ranking.reranking.verifier import UPDATE_FILE, WEIGHTS_FILE
from retrokit.training.card import data_section

_LOSSES = {
    "infonce": "MultipleNegativesRankingLoss",
    "kl": "DistillKLDivLoss",
    "margin-mse": "MarginMSELoss",
    "binary": "BinaryCrossEntropyLoss",
    "lambda": "LambdaLoss",
    "ranknet": "RankNetLoss",
}
"""Losses by the names that the cards of sentence-transformers have."""


def check_model(settings: PushSettings, run: Run) -> None:
    """Raise :class:`UsageError` for a model that cannot be uploaded, :class:`DataError` for a damaged one."""
    if run.verifier is None:
        check_folder(settings.folder)
        if run.files is None:
            raise UsageError(f"{settings.folder} does not list the files of an encoder; train it again")
        return
    for name in ("results", "mteb"):
        if getattr(settings, name):
            raise UsageError(f"`{name}=` is for encoders, and {settings.folder} is a reranker; leave it out")


def stage_model(settings: PushSettings, run: Run, records: Sequence[Record], staged: Path) -> None:
    """Write what is uploaded of a model into the folder ``staged``."""
    names = run.files or [WEIGHTS_FILE, UPDATE_FILE]  # of a small copy of a verifier
    for name in names:
        copy(Path(settings.folder, name), staged / name)
    notes = {name: value for name, value in run.notes.items() if name in ("retrokit", "versions")}
    published = Run(run.status, run.similarity, steps=run.steps, files=run.files, notes=notes)
    if run.verifier is not None:
        threshold = {"threshold": run.calibration["threshold"]} if run.calibration else None
        encoder = _published_encoder(settings, run)
        published = replace(published, verifier=run.verifier, made_for=encoder, calibration=threshold)
    write_run(published, staged)
    if (adapter := staged / "adapter_config.json").is_file():
        _name_base(settings, adapter)
    if not (staged / CARD).is_file():
        (staged / CARD).write_text(_verifier_card(settings, published, run), encoding="utf-8")
    _write_card(settings, run, records, staged / CARD)
    for name, entries in hub_results(records).items():
        path = staged / ".eval_results" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml_dump(eval_result_entries_to_yaml(entries)), encoding="utf-8")


def _published_encoder(settings: PushSettings, run: Run) -> dict[str, Any] | None:
    """Whose token embeddings a verifier reads, by a name that others have; none for a cross-encoder."""
    if run.made_for is None:
        return None
    encoder = str(run.made_for["encoder"])
    if hub_id(encoder) is None:
        if settings.base_model is None and not run.made_for["in_folder"]:
            local = f"{settings.folder} reads the embeddings of {encoder}, which is not on the Hub"
            raise UsageError(f"{local}; give its Hub id as `base_model=`, or train with `end_to_end=`")
        encoder = settings.base_model or Path(encoder).name
    return {**run.made_for, "encoder": encoder}


def _name_base(settings: PushSettings, config: Path) -> None:
    """Name the base of an adapter by its id on the Hub."""
    described = read_json(config, "the configuration of an adapter", nan=True)
    base = str(described.get("base_model_name_or_path"))
    if not is_on_hub(base):
        if settings.base_model is None:
            local = f"{settings.folder} is an adapter of {base}, which is not on the Hub"
            raise UsageError(f"{local}; give its Hub id as `base_model=`, or train with `lora=` RANK,merge=true")
        described["base_model_name_or_path"] = settings.base_model
        config.write_text(json.dumps(described, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_card(settings: PushSettings, run: Run, records: Sequence[Record], path: Path) -> None:
    """Complete the model's card, which its owner may have changed, under its name on the Hub."""
    card = read_card(ModelCard, read_text(path, LARGEST_TOML), Path(settings.folder, CARD))
    name = Path(settings.folder).resolve().name
    data_sets = [data_set_of(training_data, spec) for spec in run.identity.get("data", ())]
    entries = {
        "base_model": settings.base_model or hub_id(run.encoder),
        "datasets": [name for name in data_sets if name is not None],
        "language": settings.card_languages,
        "license": settings.license,
        "model_name": settings.repo,
        "eval_results": card_results(run, records),
    }
    complete(card, entries, _tags(run))
    text = card.text.replace(f'load("{name}")', f'encoder("{settings.repo}")')
    text = text.replace(f'("{name}"', f'("{settings.repo}"')
    text = text.replace(f"--with cross-encoder:{name}`", f"--with cross-encoder:{settings.repo}`")
    text = re.sub(rf"^# {re.escape(name)}$", f"# {settings.repo.partition('/')[2]}", text, flags=re.MULTILINE)
    card.text = without_folders(text)
    path.write_text(str(card), encoding="utf-8")


def _tags(run: Run) -> Iterator[str]:
    """The tags that sentence-transformers gives to a trained model."""
    yield "generated_from_trainer"
    if size := sum(source.get("records", 0) for source in run.notes.get("data", ())):
        yield f"dataset_size:{size}"
    for summand in filter(None, (run.identity.get("loss") or "").split("+")):
        name = re.split("[:,]", summand)[0]
        yield f"loss:{_LOSSES.get(name, name)}"


def _verifier_card(settings: PushSettings, published: Run, run: Run) -> str:
    """The card of a verifier on token maps, which has none in its folder."""
    name = settings.repo.partition("/")[2]
    encoder = (published.made_for or {})["encoder"]
    return f"""---
library_name: retrokit
pipeline_tag: text-ranking
tags:
- reranker
- retrokit
---

# {name}

A verifier: `{run.verifier}` reads the token embeddings of `{encoder}` for two texts and scores the pair.

{data_section(run.notes["data"])}

## Use

```bash
hf download {settings.repo} --local-dir {name}
retrokit rerank {encoder} --on TASK --with verifier:{name}
```
"""
