"""The registry of language models that write text: the table of names. One client for all of them is in
:mod:`retrokit.llm.session`."""

from retrokit.core.registry import Entry, Param, SpecRegistry
from retrokit.core.settings import service_params

_STOP = Param("stop", help="text that ends an answer, \\n for a line's end; default: the model's own end")

registry = SpecRegistry(
    "llm",
    "retrokit.llms",
    [
        Entry(
            "openai",
            "any service that speaks OpenAI's chat protocol: vLLM, llama.cpp, Ollama, hosted ones",
            "retrokit.llm.openai:openai_llm",
            (
                *service_params(timeout=300.0),
                _STOP,
            ),
            positional="model",
            extra="llm",
        ),
        Entry(
            "local",
            "a local causal or sequence-to-sequence checkpoint: a folder or a hub id",
            "retrokit.llm.local:local_llm",
            (
                Param("path", required=True, help="folder or hub id"),
                Param(
                    "max_length",
                    int,
                    minimum=1,
                    maximum=10_000_000,
                    help="tokens of a prompt (of a decoder: and its answer); default: what fits",
                ),
                Param("batch", 8, minimum=1, maximum=4096, help="prompts per batch"),
                Param("device", help="cpu, cuda, …; default: a GPU if there is one"),
                _STOP,
            ),
            positional="path",
        ),
        Entry(
            "replay",
            "recorded answers: a JSONL file of prompt, answer and, where there was one, system",
            "retrokit.llm.replay:ReplayLLM",
            (Param("path", required=True, help="the file"), _STOP),
            positional="path",
        ),
    ],
)
