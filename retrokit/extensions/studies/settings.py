"""Settings of the question why a figure differs from a published one, and what the extra of studies installs."""

from dataclasses import dataclass

from retrokit.core.settings import Settings, common, setting

MODULES = ("snakemake",)


@dataclass(frozen=True)
class WhySettings(Settings):
    """A model, a task, and the figure that was published for it."""

    first = ("on", "published", "sample", "most")

    model: str = setting(help="Encoder whose figure differs.", argument=True, names="encoders")
    on: str = common("on", help="Retrieval task of the figure, e.g. beir:data/scifact.")
    published: str = setting(help="Published figure, e.g. ndcg@10=0.645.")
    sample: int = setting(100, "Queries on which every change is tried first.", minimum=2)
    most: int = setting(8, "Most changes measured on the whole task.", minimum=1)
    device: str | None = common("device")
