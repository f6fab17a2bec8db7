"""Declarations of settings: values, and what goes with what."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from retrokit.core.errors import UsageError
from retrokit.core.registry import Entry, Registry
from retrokit.core.settings import COMMON, Param, Settings, common, param_of, params_of, setting

HERE = "tests.core.test_settings"


@dataclass(frozen=True)
class Work(Settings):
    data: Sequence[str] = setting((), missing="give `data=`")
    loss: str = setting("plain", choices=("plain", "taught", "both"))
    every: int | None = setting(None)
    share: float | None = setting(None, above=0, below=1)
    patience: int | None = setting(None, needs=("every", "share"))
    heat: float = setting(1.0, above=0, needs=("loss=taught",))
    steps: int | None = setting(None, excludes=("every",))
    names: Sequence[str] = setting((), excludes=("loss=taught",))
    other: bool = setting(False, needs=("nowhere=x",), excludes=("nowhere",))
    seed: int = common("seed", default=7, help="Seed of the work.")

    def values_of(self, name: str) -> Sequence[str]:
        return ["plain", "taught"] if self.loss == "both" else super().values_of(name)


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({"data": ()}, ["give `data=`"]),
        ({"patience": 2}, ["`patience=` needs `every=` or `share=`"]),
        ({"patience": 2, "share": 0.5}, []),
        ({"heat": 2.0}, ["`heat=` needs `loss=` taught"]),
        ({"heat": 1.0}, []),
        ({"heat": 2.0, "loss": "both"}, []),
        ({"steps": 3, "every": 2}, ["`steps=` and `every=` exclude each other"]),
        ({"names": ["a"], "loss": "taught"}, ["`names=` and `loss=` taught exclude each other"]),
        ({"names": [], "loss": "taught"}, []),
        ({"share": 1.0}, ["`share=` 1.0 must be below 1"]),
        ({"share": 0.0, "every": 0}, ["`every=` 0 is out of range (at least 1)", "`share=` 0.0 must be above 0"]),
        ({"seed": -1, "loss": "none"}, ["`loss=` none is none of plain, taught, both", "`seed=` -1 is out of range"]),
        ({"other": True}, []),
        ({"data": [Path("x")]}, []),
    ],
)
def test_all_problems_are_said_at_once(given, problems):
    given = {"data": ["x"], **given}
    if not problems:
        Work(**given)
        return
    with pytest.raises(UsageError) as caught:
        Work(**given)
    lines = str(caught.value).split("\n")
    assert len(lines) == len(problems)
    assert all(line.startswith(problem) for line, problem in zip(lines, problems, strict=True))


def test_a_zero_is_given_and_a_default_is_not():
    work = Work(["x"], share=0.5)
    assert [work.has(name) for name in ("data", "share", "seed", "loss=plain", "loss=taught", "names")] == [
        *(True, True, False, True, False, False)
    ]

    @dataclass(frozen=True)
    class Rate(Settings):
        rate: float | None = setting(None)

    assert Rate(0.0).has("rate")


def test_a_common_setting_keeps_what_is_not_changed():
    seed = {field.name: param_of(field) for field in fields(Work)}["seed"]
    assert (seed.default, seed.help, seed.minimum, seed.required) == (7, "Seed of the work.", 0, False)
    assert COMMON["seed"].default == 0
    assert COMMON["output"].required
    assert not param_of(common("output", default=None)).required


def test_a_parameter_takes_its_type_from_its_default():
    assert [Param("a", 1.5).type, Param("a", int).type, Param("a").type, Param("a", True).type] == [
        float,
        int,
        str,
        bool,
    ]
    assert Param("a", int).default is None


def test_settings_are_the_parameters_of_an_entry():
    registry = Registry(
        "work", "retrokit.tests.none", [Entry("work", "does it", f"{HERE}:Work", params_of(Work), "loss")]
    )
    assert registry.parse("work:taught,heat=2,seed=3").params == {"loss": "taught", "heat": 2.0, "seed": 3}
    with pytest.raises(UsageError, match="heat=0 must be above 0"):
        registry.parse("work:heat=0")


def test_a_whole_number_of_a_setting_with_a_point_has_no_least():
    from retrokit.augmentation.settings import SplitSettings

    assert SplitSettings(("a.jsonl",), "o", shares=(1, 0, 0)).shares == (1, 0, 0)


def test_patience_of_a_verifier_needs_no_interval():
    from retrokit.training.rerankers.config import VerifierConfig

    assert VerifierConfig("cnn", "minilm", ("a.jsonl",), "out", patience=3).patience == 3
