"""Write what commands print with ``--json``, and what lies in files, as JSON Schema 2020-12.

    python docs/make_schemas.py [FOLDER]    default: docs/schemas, which is built and not kept in the repository

The shapes below are described in :mod:`retrokit.core.shapes`. Those of an extension are in its folder, in
``schemas.py``: ``OUTPUTS``, and where it needs them ``KINDS`` and ``FILES``.
"""

import argparse
import importlib
import inspect
import json
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from retrokit.augmentation.splitting import SplitCounts
from retrokit.core.shapes import But, Either, Printed, but
from retrokit.data.dtypes import DTYPES
from retrokit.data.exports import Canaries
from retrokit.data.overlap import Overlap
from retrokit.data.runs import FINISHED, TRAINING, Run
from retrokit.encoders.kept import Kept, Note
from retrokit.encoders.store import Held
from retrokit.evaluation.check import DataCheck
from retrokit.evaluation.comparison.comparison import BaselineChange, Comparison, Explanation, Gate, OverTasks
from retrokit.evaluation.comparison.correlations import Correlation
from retrokit.evaluation.result import Result
from retrokit.metrics.effect_size import EffectSize
from retrokit.metrics.significance import Draws
from retrokit.probing.fisher import Fisher, Information
from retrokit.probing.fragments import FragmentProbe
from retrokit.probing.magnitude import EffectChange, LengthCorrelation, LengthFinding
from retrokit.probing.near_miss import Blindness, Distribution
from retrokit.ranking.reranking.verify import Calibration
from retrokit.report import doctor
from retrokit.sure.build import Estimate
from retrokit.sure.variants import Call
from retrokit.training.history import Outcome
from retrokit.training.preflight import Preflight
from retrokit.training.rerankers.job import VerifierPreflight

EXTENSIONS = Path(__file__).resolve().parents[1] / "retrokit" / "extensions"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


CONCLUSION = (str, "What the numbers mean, in one sentence.")
SECONDS = (float, "Seconds.")
NUMBERS: Any = {"*": float | None}
COUNTS: Any = {"*": int}

RESULT = but(
    Result,
    *("per_query", "run", "resampled", "own_scale"),
    **{
        "per_query?": ({"*": NUMBERS}, "With --per-query: by metric and id."),
        "metrics": (NUMBERS, "By name; null: undefined."),
    },
)
COMPARED = but(
    Comparison,
    precisions=(list[str] | None, "What the baseline and the result were computed in, if not the same."),
)
NEAR_MISS_ROW = {
    **{"task": str, "scorer": str, "similarity": str, "family": str, "near_misses": int},
    "near_miss": (float, "Mean score of near-misses, on the scorer's own scale."),
    "positive": (float | None, "Mean score of positives."),
    "*": float | None,
}
EVALUATION: dict[str, Any] = {
    "results": ([RESULT], "One of each encoder, similarity and task."),
    "seeds": (
        [
            {
                **{
                    "task": str,
                    "name": str,
                    "encoders": [str],
                    "similarity": str,
                    "similarities": [str],
                    "seeds": [str],
                },
                "metrics": {"*": {"mean": float | None, "deviation": float | None}},
            }
        ],
        "Results that differ in their seed alone, averaged.",
    ),
    "comparisons": ([COMPARED], "Of each task's systems with its first one."),
    "explanations": ([Explanation], "Queries that changed most (--explain)."),
    "changes": (
        [
            but(
                BaselineChange,
                before=float | None,
                after=float | None,
                comparison=Either([COMPARED, None]),
                visible=(float | None, "The least change that would have been seen, of 80% power."),
            )
        ],
        "Since the stored baseline (--baseline).",
    ),
    "gates": ([Gate], "The gates that were set, and whether they hold."),
    "near_misses": ([NEAR_MISS_ROW], "A row per scorer and family, where near-misses test a gate."),
    "overlaps": ([Overlap], "What of the tests stands in training data."),
    "over_tasks": ([but(OverTasks, comparison=Either([COMPARED, None]))], "Means over tasks of one main metric."),
    "correlations": ([Correlation], "Of SURE's metrics over the systems (--correlations)."),
    "shown": ({"*": [str]}, "The metrics shown in tables, by task."),
    "data": ({"*": str | None}, "Digest of each task's data; null where there is none."),
    "trained_with": ({"*": str | None}, "The similarity that a run was trained with, by encoder."),
    "cross": (
        [
            {
                **{"task": str, "metric": str, "similarities": [str]},
                "encoders": [
                    {
                        **{"encoder": str, "trained_with": str | None},
                        "values": ([float | None], "The metric under each of the similarities."),
                        "deviations": [float | None],
                    }
                ],
            }
        ],
        "Similarities of training against those of evaluation (--cross).",
    ),
}
PREFLIGHT = but(Preflight, sources=[dict[str, Any]], overlaps=[Overlap])
DIMENSIONS = {"document": float | None, "query": float | None, "angle": float | None}
CALLS = (COUNTS, "Of the language model: calls, those answered from the store, tokens.")
SURE_RECORD = {
    "testbeds": ({"*": {"kept": int, "dropped": COUNTS}}, "Queries of each testbed; the cause of each drop."),
    "kinds": (
        {"*": {"tried": int, "at_once": int, "after_retries": int, "dropped": int, "rejections": COUNTS}},
        "How each kind of variant went.",
    ),
    "statistics": (
        {
            "*": {
                **{"texts": int, "type_token_ratio": float, "entropy": (float, "Bits.")},
                **{"average_sentence": (float, "Words."), "longest_sentence": (int, "Words.")},
            }
        },
        "SURE, Table 3, by kind.",
    ),
    **{"data": str, "queries": int, "skipped": COUNTS, "tried": int, "positions": COUNTS, "model": str},
    "*": Any,
}
BY_ROLE = {"query": str, "document": str}
EXPORT = {
    **{"count": (int, "Rows."), "documents?": (int, "Texts, where one may have several rows."), "dimension": int},
    **{"dtype": Literal[tuple(DTYPES)], "role": Literal["query", "document"], "metric": str},
    "similarity": {"spec": str, "learned": (NUMBERS, "γ, of a similarity that learns.")},
    "transform": (BY_ROLE, "What becomes of an embedding x."),
    "one_length": (bool, "Whether all rows have one length (--one-length)."),
    "encoder": {
        **{"spec": str, "fingerprint": str, "dimension": int, "dims": int, "precision": str, "device": str},
        **{"prompts": {"*": str | None}, "max_length": {"*": int | None}},
    },
    "prepare_queries": ({"python": str, "command": str}, "How queries are put through the same."),
    "retrokit": str,
    "notes?": (dict[str, Any], "What else made the vectors."),
    "shard": Either([{"number": int, "of": int, "first": int}, None]),
    "source": {"spec": str, "digest": (str | None, "null: a pipe, which is read once.")},
}
SELECTION = {"steps": int, "task": str, "overlap": Either([COUNTS, None]), "test": str}
TRAINED = but(Outcome, evaluations=[dict[str, Any]], losses=[NUMBERS], selection=Either([SELECTION, None]))

OUTPUTS: dict[str, Any] = {
    "augment-split": Either([SplitCounts, {"train": int, "test": int}]),
    "build-sure-build": Either([Estimate, {**SURE_RECORD, "calls": CALLS}]),
    "cache": {
        **{"folder": str, "limit": (int, "Bytes."), "size": (int, "Bytes of embeddings.")},
        "encoders": [but(Held, last_used=(str, "ISO 8601, UTC."))],
        "folders": [Kept],
    },
    "check": DataCheck,
    "doctor": {
        "findings": [doctor.Finding],
        "broken": (int, "How many findings are broken: above 0, the exit code is 1."),
    },
    "eval": EVALUATION,
    "export": {"folder": str, **EXPORT},
    "finetune": Either([PREFLIGHT, TRAINED]),
    "probe-fisher": {
        "results": [but(Fisher, information=[but(Information, log10=(DIMENSIONS, "log₁₀; null of 0."))])],
        "conclusion": CONCLUSION,
    },
    "probe-fragments": FragmentProbe,
    "probe-magnitude": {
        "results": [
            but(LengthFinding, effect=but(EffectSize, **dict.fromkeys(("value", "low", "high"), float | None)))
        ],
        "correlations": [LengthCorrelation],
        "changes": [EffectChange],
        "gamma": ([NUMBERS], "γ by step of a run."),
        "notes": [str],
        "conclusion": CONCLUSION,
    },
    "probe-near-miss": {
        **{"data": str, "reference": (str | None, "The task whose texts make random pairs.")},
        "families": [Blindness],
        "distributions": [
            but(
                Distribution,
                scores=([float], "Of every pair."),
                **dict.fromkeys(("mean", "deviation", "lower_quartile", "median", "upper_quartile"), float),
                pairs=int,
            )
        ],
        "conclusion": CONCLUSION,
    },
    "rerank-calibrate": Calibration,
    "rerank-run": EVALUATION,
    "rerank-train": Either([but(VerifierPreflight, sources=[dict[str, Any]]), TRAINED]),
}
"""By command, its words with dashes between."""

KINDS = {
    "augment-split": ["split"],
    "build-sure-build": ["estimate", "build-sure"],
    "doctor": ["diagnosis"],
    "eval": ["evaluation"],
    "finetune": ["preflight", "training"],
    "rerank-calibrate": ["calibration"],
    "rerank-run": ["evaluation"],
    "rerank-train": ["preflight", "training"],
}
"""The ``kind`` of what a command prints, if it is not the command's own name."""

KEPT_RESULT = but(
    Result,
    "run",
    metrics=NUMBERS,
    per_query={"*": NUMBERS},
    resampled={"*": but(Draws, drawn=[float | None])},
)
ROLE = str | dict[str, str]
FILES: dict[str, tuple[str, Any]] = {
    "run": (
        "retrokit.json, at the top of a run's folder and of its checkpoints.",
        {
            "status": (Literal[TRAINING, FINISHED], "finished: the model is in place."),  # type: ignore[valid-type]
            **{
                f"{one.name}?": get_type_hints(Run)[one.name]
                for one in fields(Run)
                if one.name not in ("status", "notes")
            },
            "*": Any,
        },
    ),
    "prepare": (
        "NUMBER_Prepare/config.json, in a model's folder: the similarity's transform.",
        {"similarity_spec": str, "prefixes": (list[int] | None, "Matryoshka sizes, each prepared separately.")},
    ),
    "token-pooling": (
        "NUMBER_TokenPooling/config.json, in a model's folder.",
        {
            "embedding_dimension": int,
            "position": (int | None, "Of the token, from 0."),
            "token_id": (int | None, "Of the separator, whose last embedding is taken."),
        },
    ),
    "metrics": (
        "A line of metrics.jsonl: logged steps, and evaluations.",
        {
            "step": (int, "Optimizer steps made; 0 is the encoder as it came."),
            "seconds": (float, "Since the start of this process's training."),
            "epoch?": float,
            "loss?": (float, "Mean since the last line."),
            "evaluation?": (NUMBERS, "Metrics by name."),
            "*": Any,
        },
    ),
    "result": (
        "A file of a results folder (eval --results).",
        {
            **{"checksum": str, "key": (dict[str, Any], "What decides the result."), "asked": [str]},
            **{"shown": [str], "training": dict[str, Any] | None, "added": str, "made": str},
            **{"label": (str, "The name given last; empty: none."), "spec": str},
            "result": KEPT_RESULT,
        },
    ),
    "baseline": (
        "A file of eval --save-baseline.",
        {
            **{"retrokit": str, "libraries": ({"*": str}, "Versions of those that decide a result.")},
            "systems": [
                {
                    "data": (str | None, "Digest of the task's data."),
                    "seeds": (
                        [str],
                        "Of several seeds that are averaged; of a first stage and a reranker, joined by +.",
                    ),
                    "trained_with": str | None,
                    "distinction": str,
                    "results": [KEPT_RESULT],
                }
            ],
        },
    ),
    "build-sure": ("build-sure.json, in the folder of a SURE benchmark.", SURE_RECORD),
    "sure-manifest": (
        "A line of manifest.jsonl, in the folder of a SURE benchmark.",
        {
            **{"query": str, "passage": str, "model": str},
            "prompts": ({"*": str}, "Digest of each prompt that was asked."),
            "kept": ([str], "Testbeds that the query is in."),
            "dropped": {"*": {"kind": str, "cause": str}},
            "position": (str | None, "Where the key sentences stand in their noise."),
            "keywords": [str],
            "calls": [but(Call, "rejected", **{"rejected?": str})],
        },
    ),
    "export": ("export.json, in the folder of an export.", EXPORT),
    "unfinished-export": (
        "unfinished.json, in the folder of an export that was interrupted: what resumes it.",
        {"about": Any, "rows": int, "texts": int, "ids": (int, "Bytes of ids.jsonl.")},
    ),
    "canaries": (
        "canaries.json, in the folder of an export: a few texts and their raw embeddings.",
        but(Canaries),
    ),
    "ids": (
        "A line of ids.jsonl, in the folder of an export: the row of the same number.",
        {"id": str, "document?": (str, "Of a chunk; its id is DOCUMENT#NUMBER.")},
    ),
    "index-recall": (
        "index-NAME.json, in the folder of an export: the recall of its approximate index.",
        {"recall": ({"*": float}, "By depth."), "queries": (int, "How many it was measured with.")},
    ),
    "kept": ("kept.json, in the cache: what a folder contains.", Note),
    "mteb-queries": (
        "retrokit/results/MODEL/REVISION/TASK.json, in mteb's cache: metrics of each query, by metric and id.",
        {"metrics": {"*": {"*": float}}},
    ),
    "hits": (
        "A line of what retrokit search writes as jsonl, in a file or between questions.",
        {
            **{"id": (str, "Of the query."), "query": str},
            "documents": ([{"id": str, "score": float, "text?": str}], "Best first."),
            "empty?": (str, "Why there is no document, if the searcher has a reason."),
        },
    ),
    "verdict": (
        "A line of what retrokit rerank verify writes: that of the pair, and its score and verdict.",
        {"score": float, "accepted": bool, "remarks?": [str], "*": Any},
    ),
    "pairs": (
        "A line of what retrokit augment writes: pairs, triplets, near-misses.",
        {
            **{"anchor": ROLE, "positive": ROLE, "negatives?": [ROLE]},
            **{"id?": str | int, "family?": str, "edit?": str, "type?": str, "source?": str},
            **{"positive_score?": float, "negative_scores?": [float], "grade?": float},
            "*": Any,
        },
    ),
}
"""By name: what the file is, and a shape."""


def schemas_of(extension: str) -> dict[str, Any]:
    """What ``schemas.py`` in the folder of an extension has; nothing if there is no such file."""
    if not (EXTENSIONS / extension / "schemas.py").is_file():
        return {}
    return vars(importlib.import_module(f"retrokit.extensions.{extension}.schemas"))


def document(name: str, about: str, shape: Any, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """The whole schema of a shape, which says that it is of one of ``kinds``, if there are any."""
    parts: dict[str, Any] = {}
    made = _schema(shape, parts)
    made = _of_kinds(made, parts, kinds) if kinds else made
    head = {"$schema": DRAFT, "$id": f"{name}.json", "title": name, "description": about}
    return {**head, **made, **({"$defs": dict(sorted(parts.items()))} if parts else {})}


def _of_kinds(made: dict[str, Any], parts: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    if "$ref" in made:
        name = made["$ref"].rpartition("/")[2]
        parts[name] = _of_kinds(parts[name], parts, kinds)
        return made
    if "anyOf" in made:
        return {**made, "anyOf": [_of_kinds(one, parts, kinds) for one in made["anyOf"]]}
    if "items" in made:
        return {**made, "items": _of_kinds(made["items"], parts, kinds)}
    about = {"kind": {"enum": [*kinds]}, "version": {"const": 1, "description": "Of this form."}}
    required = [*about, *made.get("required", ())]
    return {**made, "properties": {**about, **made.get("properties", {})}, "required": required}


def documents() -> dict[str, str]:
    """All schemas as JSON text, by the name of their file."""
    extensions = [schemas_of(path.name) for path in sorted(EXTENSIONS.glob("*/"))]
    outputs, kinds, files = dict(OUTPUTS), dict(KINDS), dict(FILES)
    for schemas in extensions:
        outputs |= schemas.get("OUTPUTS", {})
        kinds |= schemas.get("KINDS", {})
        files |= schemas.get("FILES", {})
    found = {}
    for name, shape in outputs.items():
        about = f"What retrokit {name.replace('-', ' ', 2)} --json prints.".replace("build sure", "build-sure")
        found[name] = document(name, about, shape, kinds.get(name, [name]))
    for name, (about, shape) in files.items():
        own = [] if name in ("prepare", "token-pooling") or "A line of" in about else [name]
        found[f"file-{name}"] = document(f"file-{name}", about, shape, own)
    return {f"{name}.json": json.dumps(one, indent=2, ensure_ascii=False) + "\n" for name, one in found.items()}


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", None: "null"}


def _schema(shape: Any, parts: dict[str, Any]) -> dict[str, Any]:
    if isinstance(shape, tuple):
        inner = _schema(shape[0], parts)
        return {**inner, "description": shape[1]} if "$ref" not in inner else {"description": shape[1], **inner}
    if shape is Any:
        return {}
    if shape in (dict, Mapping):
        return {"type": "object"}
    if isinstance(shape, dict):
        return _object(shape, parts)
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0], parts)}
    if isinstance(shape, Either):
        return {"anyOf": [_schema(one, parts) for one in shape.shapes]}
    if isinstance(shape, Printed):
        return _schema(OUTPUTS[shape.command], parts)
    if isinstance(shape, But) or is_dataclass(shape):
        return _record(shape if isinstance(shape, But) else But(shape), parts)  # type: ignore[arg-type]
    if shape in _PLAIN:
        return {"type": _PLAIN[shape]}
    return _hinted(shape, parts)


def _hinted(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [*inner]}
    if origin in (Union, types.UnionType):
        several = [_schema(one, parts) for one in inner]
        if all([*one] == ["type"] for one in several):
            return {"type": [one["type"] for one in several]}
        return {"anyOf": several}
    if origin in (dict, Mapping) or getattr(origin, "__name__", "") in ("Mapping", "Counter"):
        return {
            "type": "object",
            **({"additionalProperties": _schema(inner[-1], parts)} if inner[-1] is not Any else {}),
        }
    if origin is tuple and inner[-1] is not ...:
        return {
            "type": "array",
            "prefixItems": [_schema(one, parts) for one in inner],
            "items": False,
            "minItems": len(inner),
        }
    if origin in (list, tuple) or getattr(origin, "__name__", "") == "Sequence":
        return {"type": "array", "items": _schema(inner[0], parts)}
    raise TypeError(f"no schema of {hint!r}")


def _object(keys: Mapping[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    others = _schema(keys["*"], parts) if "*" in keys else False
    named = {name: shape for name, shape in keys.items() if name != "*"}
    made: dict[str, Any] = {"type": "object"}
    if named:
        made["properties"] = {name.removesuffix("?"): _schema(shape, parts) for name, shape in named.items()}
        made["required"] = [name for name in named if not name.endswith("?")]
    return {**made, "additionalProperties": others if others != {} else True}


def _record(shape: But, parts: dict[str, Any]) -> dict[str, Any]:
    name = shape.kind.__name__
    if name not in parts:
        parts[name] = {}  # of a shape that holds itself
        about, told = _told(shape.kind)
        hints = get_type_hints(shape.kind)
        keys: dict[str, Any] = {}
        names = [one.name for one in fields(shape.kind) if one.compare]  # type: ignore[arg-type]
        for name_of_property in getattr(shape.kind, "derived", ()):
            value: property = getattr(shape.kind, name_of_property)
            names.append(name_of_property)
            hints[name_of_property] = get_type_hints(value.fget)["return"]
            told[name_of_property] = _sentence((inspect.getdoc(value) or "").partition("\n\n")[0])
        for field in names:
            if field not in shape.without:
                given = shape.changed.get(field, hints[field])
                described = field in told and not isinstance(given, tuple)
                keys[field] = (given, told[field]) if described else given
        keys |= {key: given for key, given in shape.changed.items() if key not in keys}
        parts[name] = {"description": about, **_object(keys, parts)}
    return {"$ref": f"#/$defs/{name}"}


def _told(kind: type) -> tuple[str, dict[str, str]]:
    """What a dataclass's docstring says of it, and of its fields."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", inspect.getdoc(kind) or "").replace("``", "`")
    about, _, attributes = text.partition("\nAttributes:\n")
    told: dict[str, str] = {}
    for names, words in re.findall(r"^ {4}([a-z_]+(?:, [a-z_]+)*): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE):
        told |= dict.fromkeys(names.split(", "), _sentence(words))
    return " ".join(about.split()), told


def _sentence(words: str) -> str:
    joined = " ".join(words.split())
    return joined[0].upper() + joined[1:]


def main() -> None:
    """Write the schemas."""
    parser = argparse.ArgumentParser(description="Write what --json prints and what lies in files as JSON Schemas.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parent / "schemas")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
