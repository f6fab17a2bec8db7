"""The commands of the command line: a registry like any other. Listing them imports only the standard library.

The core's are in the table below; a third party adds its own through the entry-point group ``retrokit.commands``. A
command's target is a function whose parameters are settings; it is imported when the command runs or shows
its own help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from retrokit.core.errors import UsageError
from retrokit.core.registry import Entry, WordRegistry, extensions

CARD = "Train, stress-test and rerank"
NEXT = "Search, check and look up"
MORE = "More"


Value = str | int | Callable[[], str | list[str]]


@dataclass(frozen=True)
class LeftOut:
    """What a command takes for a parameter that is left out. In an output or a command, ``{NAME}`` stands for the value
    of a parameter. An output gets a number if it exists.

    Attributes:
        name: the parameter.
        value: its value, or a function that returns that.
        about: what the help says of it.
        remark: what to know of it.
        more: values of other parameters that come with it, unless they are given.
        unless: parameters that make it needless.
        is_needed: whether it is needed next to the values that are given.
        beside: a parameter and its value in a second run, to compare with, unless it has that value. The second
            output is ``{beside}``. There is none in several processes.
        resets: parameters that have their defaults in the second run.
        then: a command that runs afterwards; ``then_beside`` after two runs. A word ``{NAME}`` becomes all values of
            the parameter, each after the flag that precedes the word. None runs if a value is missing.
        next: a command that is named at the end.
    """

    name: str
    value: Value
    about: str = ""
    remark: str = ""
    more: Mapping[str, Value] = field(default_factory=dict)
    unless: tuple[str, ...] = ()
    is_needed: Callable[[Mapping[str, Any]], bool] = lambda values: True
    beside: tuple[str, str] | None = None
    resets: tuple[str, ...] = ()
    then: str = ""
    then_beside: str = ""
    next: str = ""


def encoder_here() -> str:
    """``minilm`` if its weights are installed, else ``static``."""
    from retrokit.encoders.folders import MINILM_ID, minilm_path

    return "static" if minilm_path() == MINILM_ID else "minilm"


def systems_here() -> list[str]:
    """The encoder, and if ``bm25`` is installed that and both as a hybrid."""
    from importlib.util import find_spec

    encoder = encoder_here()
    return [encoder, "bm25", f"hybrid:a={encoder},b=bm25"] if find_spec("bm25s") else [encoder]


def reranker_here() -> str:
    """MaxSim over the encoder's token embeddings."""
    encoder = encoder_here()
    return "maxsim" if encoder == "minilm" else f"maxsim:{encoder}"


def ranks_documents(values: Mapping[str, Any]) -> bool:
    """Whether some task ranks documents; ``pairs:FILE`` needs no first stage.

    >>> ranks_documents({"on": ["pairs:near.jsonl"]}), ranks_documents({"on": None})
    (False, True)
    """
    tasks = values.get("on")
    return not tasks or any(not task.startswith("pairs:") for task in tasks)


def recorded(name: str = "") -> str:
    """A file of the package with queries, passages, and answers of a language model about them; or its folder."""
    from importlib.resources import files

    return str(files("retrokit.sure") / "recorded" / name)


DOCSTRINGS = "docstrings"
ENCODER = "minilm if installed, else static"
ENCODERS = LeftOut("encoders", encoder_here, ENCODER)
TASK = LeftOut("on", DOCSTRINGS, DOCSTRINGS)


@dataclass(frozen=True)
class CommandEntry(Entry):
    """A command.

    Attributes:
        name: one word, or two: that of its group, and its own.
        summary: the first line of its help.
        target: ``"module:function"``; the function's parameters are its options.
        panel: the heading under which the help page lists it.
        processes: which processes of a distributed run execute it: the ``first``, for which the others encode, or
            ``every`` one.
        prints: its result is text: ``json``, the object that it prints with ``--json``; or ``lines``, JSON lines, which
            ``--output`` writes. Empty: what ``--output`` or ``--results`` names.
        left_out: what it takes for parameters that are left out.
    """

    panel: str = MORE
    processes: Literal["first", "every"] = "first"
    prints: Literal["", "json", "lines"] = ""
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class GroupEntry(CommandEntry):
    """A group of commands, whose names begin with its own.

    Attributes:
        default: the command that is meant if the next word names none of the group.
        about: what its help says below the summary.
        members: ``"module:function"``, which returns the entries of commands that are no entries here; or empty.
    """

    default: str | None = None
    about: str = ""
    members: str = ""


class CommandRegistry(WordRegistry):
    """Commands by their words. Third parties' are loaded when all are listed, or for a name that the core lacks."""

    form = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)?")

    def add(self, entry: Entry) -> None:
        """Register ``entry``; a name that is taken is an error, and so is one whose group does not exist."""
        group, _, _ = entry.name.rpartition(" ")
        if group and not isinstance(self._entries.get(group), GroupEntry):
            raise UsageError(f"command {entry.name!r} ({entry.target}): there is no group of commands {group!r}")
        super().add(entry)

    def _scan(self) -> None:
        if not self._scanned:
            for name, problem in extensions().broken.items():
                self._refuse(name, problem)
            commands = [entry for extension in extensions().loaded for entry in extension.commands]
            for entry in sorted(commands, key=lambda entry: " " in entry.name):  # a group is there before its commands
                self._add_or_refuse(entry)
        super()._scan()

    def below(self, group: str) -> list[Entry]:
        """The entries of a group, or those at the top for an empty name."""
        return [entry for entry in self.entries() if entry.name.rpartition(" ")[0] == group] + self._members(group)

    def _members(self, group: str) -> list[Entry]:
        """The entries of a group that are none here."""
        parent = self._entries.get(group)
        if isinstance(parent, GroupEntry) and parent.members:
            members: list[Entry] = replace(parent, target=parent.members).load()()
            return members
        return []

    def find(self, name: str) -> Entry | None:
        """The entry of that name, or ``None``. Entry points are loaded only if the core has no such command."""
        if name in self._entries:
            return self._entries[name]
        for member in self._members(name.rpartition(" ")[0]):
            if member.name == name:
                return member
        self.check_loaded(name)
        return self._entries.get(name)


registry = CommandRegistry(
    "command",
    "retrokit.commands",
    [
        GroupEntry(
            "augment",
            "Create training data: pairs from texts, near-misses, mixtures.",
            "",
            panel=CARD,
        ),
        CommandEntry(
            "augment crops",
            "Create pairs of two chunks of the same text (CROP 3.1).",
            "retrokit.cli.augment:crops",
            prints="lines",
            left_out=(
                LeftOut(
                    "source",
                    DOCSTRINGS,
                    DOCSTRINGS,
                    more={"output": "crops.jsonl", "sentences": 1, "min_chars": 30},
                    then="check {output}",
                    next="finetune --data {output}",
                ),
            ),
        ),
        CommandEntry(
            "augment dropout",
            "Create pairs of a chunk with itself, which dropout makes differ (SimCSE, CROP 3.1).",
            "retrokit.cli.augment:dropout",
            prints="lines",
        ),
        CommandEntry(
            "augment mask",
            "Mask tokens in both texts of a pair, or in two copies of a text (CROP A.1).",
            "retrokit.cli.augment:mask",
            prints="lines",
        ),
        CommandEntry(
            "augment split",
            "Split pairs into a BEIR folder of train, dev and test; pairs that share a text are in one split.",
            "retrokit.cli.augment:split",
        ),
        CommandEntry(
            "augment near-misses",
            "Create near-misses: minimal edits of sentences that change their meaning (COMP D.1).",
            "retrokit.cli.augment:near_misses",
            prints="lines",
        ),
        CommandEntry(
            "augment mix",
            "Join data sets by weight or count, shuffled (COMP D.1).",
            "retrokit.cli.augment:mix",
            prints="lines",
        ),
        CommandEntry(
            "finetune",
            "Fine-tune an encoder with any similarity.",
            "retrokit.cli.finetune:finetune",
            panel=CARD,
            processes="every",
            left_out=(
                LeftOut("encoder", encoder_here, ENCODER),
                LeftOut(
                    "data",
                    DOCSTRINGS,
                    DOCSTRINGS,
                    more={"scale": "auto", "batch_size": 16, "max_length": 64},
                    beside=("sim", "cosine"),
                    resets=("sim_lr", "resume", "overwrite"),
                    then=f"eval {{encoder}} {{output}} --on {DOCSTRINGS}",
                    then_beside=f"eval {{beside}} {{output}} {{encoder}} --on {DOCSTRINGS}",
                    next="probe magnitude {encoder} {output}",
                ),
                LeftOut("output", "runs/{sim}", "a new one in runs", unless=("resume", "dry_run")),
            ),
        ),
        CommandEntry(
            "eval",
            "Evaluate systems on tasks, with paired tests and means over seeds.",
            "retrokit.cli.evaluate:evaluate",
            panel=CARD,
            left_out=(
                LeftOut(
                    "encoders",
                    systems_here,
                    f"{ENCODER}; bm25 and the hybrid if installed",
                    unless=("results",),
                    next="finetune --sim qnorm",
                ),
                replace(TASK, unless=("results",)),
            ),
        ),
        GroupEntry(
            "probe",
            "Analyse a system: stress tests, norms, fragments, layers, geometry, near-misses.",
            "",
            panel=CARD,
            members="retrokit.cli.probe:commands",
        ),
        GroupEntry(
            "rerank",
            "Rerank first-stage results; train and apply verifiers.",
            "",
            panel=CARD,
            default="run",
            about="retrokit rerank ENCODER --on TASK --with RERANKER is short for retrokit rerank run.",
        ),
        CommandEntry(
            "rerank run",
            "Rerank first-stage results and evaluate both stages; test rerankers on near-misses.",
            "retrokit.cli.rerank:run_two_stages",
            prints="json",
            left_out=(
                replace(ENCODERS, unless=("run",), is_needed=ranks_documents),
                TASK,
                LeftOut(
                    "with_",
                    reranker_here,
                    "maxsim",
                    more={"depth": 20},
                    next="rerank {encoders} --on {on} --with {with_} --depth {depth} --blend 0.5",
                ),
            ),
        ),
        CommandEntry(
            "rerank train",
            "Train a verifier on token maps, a cross-encoder or a decoder that answers yes or no.",
            "retrokit.cli.rerank_train:train",
            processes="every",
        ),
        CommandEntry(
            "rerank calibrate",
            "Calibrate and store the acceptance threshold of a verifier or cross-encoder.",
            "retrokit.cli.rerank_train:calibrate",
            prints="json",
        ),
        CommandEntry(
            "rerank shrink",
            "Copy a verifier trained end to end, with a low-rank update in place of its encoder.",
            "retrokit.cli.rerank_train:shrink",
        ),
        CommandEntry(
            "rerank verify",
            "Accept or reject pairs of texts; adds a score and a verdict to each line.",
            "retrokit.cli.rerank_train:verify",
            prints="lines",
        ),
        GroupEntry(
            "build-sure",
            "Build and judge a SURE benchmark from any queries and passages. Defaults to `build`.",
            "",
            panel=CARD,
            default="build",
        ),
        CommandEntry(
            "build-sure build",
            "Build a benchmark: verified variants of each query's passage (SURE 3.2).",
            "retrokit.cli.build_sure:build",
            left_out=(
                LeftOut(
                    "llm",
                    lambda: f"replay:{recorded('answers.jsonl.gz')}",
                    "without DATA, recorded answers",
                    remark="the answers are recorded ones of a language model: give --llm and DATA for your own",
                    unless=("data", "queries", "passages"),
                ),
                LeftOut(
                    "data",
                    recorded,
                    "a few recorded passages",
                    unless=("queries", "passages"),
                    then="eval {systems} --on sure:{output},reference={reranker}",
                    next="build-sure audit {output} -o {output}.html",
                ),
                LeftOut("output", "sure/{data}", "a new one in sure", unless=("dry_run",)),
            ),
        ),
        CommandEntry(
            "search",
            "Search documents, or the embeddings that retrokit export wrote.",
            "retrokit.cli.search:search",
            panel=NEXT,
        ),
        CommandEntry(
            "export",
            "Export embeddings whose inner product reproduces the ranking of the similarity.",
            "retrokit.cli.export:export",
            panel=NEXT,
            processes="every",
        ),
        CommandEntry(
            "check",
            "Check test sets and training data for faults.",
            "retrokit.cli.check:check",
            panel=NEXT,
            prints="json",
        ),
        CommandEntry(
            "names",
            "List registered names with descriptions and parameters, including those of plugins.",
            "retrokit.cli.names:names",
            panel=NEXT,
        ),
        CommandEntry(
            "cache",
            "Show the size of the embedding cache by encoder, or reduce it.",
            "retrokit.cli.cache:cache",
            panel=NEXT,
        ),
        CommandEntry(
            "doctor",
            "Diagnose the installation.",
            "retrokit.cli.doctor:doctor",
            panel=NEXT,
        ),
        CommandEntry("help", "Show the help of a command.", "retrokit.cli.help:show_help", panel=NEXT),
    ],
)
