"""The test sets that can be judged: BEIR folders."""

from __future__ import annotations

from dataclasses import dataclass

from retrokit.core.errors import DataError
from retrokit.core.registry import head_of
from retrokit.data.beir import RetrievalData, has_judgements, is_beir, read_beir
from retrokit.evaluation import registry as tasks

BEIR = "beir"


def completed(spec: str) -> str:
    """The spec of a BEIR folder that is named by its path; any other as it is."""
    return f"{BEIR}:{spec}" if is_beir(spec) else spec


def is_test_set(spec: str) -> bool:
    """Whether a completed spec is a BEIR folder."""
    return head_of(spec) == BEIR


@dataclass(frozen=True)
class JudgedSplit:
    """A split of a BEIR folder; see :func:`~retrokit.data.beir.read_beir`."""

    path: str
    split: str
    level: int
    titles: bool

    @classmethod
    def of_spec(cls, spec: str) -> JudgedSplit:
        """The one that the completed spec of a task names."""
        options = tasks.options(tasks.parse(spec))
        return cls(str(options["path"]), str(options["split"]), int(options["level"]), bool(options["titles"]))

    def read(self) -> RetrievalData:
        """Its data.

        Raises:
            DataError: no judgements, or as :func:`~retrokit.data.beir.read_beir` does.
        """
        if is_beir(self.path) and not has_judgements(self.path):
            raise DataError(self.path, "contains no qrels/; give a test set with judgements")
        return read_beir(self.path, self.split, images=True, level=self.level, titles=self.titles)
