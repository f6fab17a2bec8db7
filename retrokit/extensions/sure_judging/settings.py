"""What of a SURE benchmark is judged, and by which model."""

from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FILE, FOLDER, Settings, common, setting
from retrokit.llm.settings import Asking


@dataclass(frozen=True)
class SampleConfig(Settings):
    """Which variants of a benchmark are judged (SURE 4.1)."""

    folder: str = setting(help="SURE folder: a built one, or the release's.", argument=True, reads=FOLDER)
    _: KW_ONLY
    output: str = common("output", help="HTML file to write.", writes=FILE)
    sample: int = setting(50, "Queries to sample, each with all its variants.", minimum=1)
    seed: int = common("seed", help="Seed of the sample, the same for all annotators.")
    prompts: str | None = setting(None, "Folder whose judge.toml replaces the built-in prompt.")


@dataclass(frozen=True)
class JudgeConfig(Asking, SampleConfig):
    """Which model judges them, and how it is prompted."""

    _: KW_ONLY
    llm: str = setting(help="Language model as annotator.", names="llms")
    output: str = common("output", help="JSON lines of verdicts to write (-: standard output).", writes=FILE)
    annotator: str | None = setting(None, "Annotator's name in the verdicts. Default: the model's.")
