"""Settings of stress tests, for Python and as the options of ``retrokit probe stress``."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FILE, common, listed, setting
from retrokit.probing.settings import ProbeSettings


@dataclass(frozen=True)
class StressSettings(ProbeSettings):
    """Find what a retriever does not understand, by edits that must lower its scores and edits that must not.

    retrokit probe stress minilm runs/mine --texts corpus.jsonl

    retrokit probe stress runs/mine --on beir:data/scifact --fail-under negation=0.3 --junit stress.xml
    """

    first = (
        *("texts", "on", "capabilities", "with_", "limit", "all_", "save_edits", "fail_under", "junit", "plot", "seed"),
        "as_json",
    )

    encoders: Sequence[str] = setting(
        (), "Encoders or searchers; the first is compared with.", argument=True, names="encoders,searchers"
    )
    texts: str | None = setting(None, "JSON lines of texts: a sentence is its own query.", reads=FILE)
    on: str | None = setting(None, "Judged queries instead of texts, e.g. beir:data/scifact.", names="tasks")
    _: KW_ONLY
    capabilities: Sequence[str] = setting(
        (), "Capabilities, comma-separated. Default: all.", read=listed, names="edits"
    )
    with_: str | None = setting(
        None,
        "Reranker of what the first fails; none: skip. Default: default.",
        flags=("--with",),
        names="rerankers,encoders",
    )
    limit: int = setting(300, "Texts or queries, a random sample.", minimum=2)
    per_capability: int = setting(100, "Texts of each capability that systems are measured on.", minimum=2)
    all_: bool = setting(False, "Measure all edits, instead of --per-capability.", flags=("--all",))
    tolerance: float = setting(
        0.1, "Share of the way to an unrelated text that a control may cost.", minimum=0, maximum=1
    )
    seed: int = common("seed", help="Random seed of the sample and the edits.")
    field: str = common("field", help="Field of the text in `texts=`.", needs=("texts",))
    translations: str | None = setting(None, "JSON lines of the same texts or queries, by id, in another language.")
    llm: str | None = setting(None, "Language model for more edits of negation, binding, spatial.", names="llms")
    store: str | None = setting(None, "Answer cache of the model. Default: none.", writes=FILE, needs=("llm",))
    max_tokens: int | None = common(
        "max_tokens", help="Budget in tokens, prompts and answers. Default: 10,000,000.", needs=("llm",)
    )
    sure: str | None = setting(None, "SURE next to the rates: FOLDER,reference=RERANKER.", needs=("encoders",))
    save_edits: str | None = setting(None, "Write the edits as JSON lines; systems may be left out.", writes=FILE)
    fail_under: Sequence[str] = setting(
        (), "Exit 1 if a pass rate is below, e.g. negation=0.3. Repeatable.", metavar="NAME=X", needs=("encoders",)
    )
    junit: str | None = setting(None, "Write gate results as JUnit XML.", writes=FILE, needs=("fail_under",))

    def problems(self) -> Iterator[str]:
        """As the base class, and options that contradict each other."""
        yield from super().problems()
        if (self.texts is None) == (self.on is None):
            yield "give `texts=` or `on=`, one of them"
        yield from self._translation_problems()
        if len(set(self.encoders)) < len(self.encoders):
            yield f"a system is named twice: {', '.join(self.encoders)}"
        if self.with_ not in (None, "none") and not self.encoders:
            yield "`with_=` reranks what a system fails: give one"
        if not self.encoders and self.save_edits is None:
            yield "give systems, or `save_edits=` to write only the edits"

    def _translation_problems(self) -> Iterator[str]:
        tests_language = "language" in self.capabilities
        if self.translations is None and tests_language:
            yield "the capability language takes `translations=`, which is not given"
        if self.translations is not None and self.capabilities and not tests_language:
            yield "`translations=` are of the capability language, which is not given"
