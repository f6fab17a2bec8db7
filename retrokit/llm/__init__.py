"""The registry of language models that write text: the table of names. One client for all of them is in
:mod:`retrokit.llm.session`."""

from retrokit.core.registry import Entry, Param, SpecRegistry

_STOP = Param("stop", str, summary="text that ends an answer, \\n for a line's end; default: the model's own end")

registry = SpecRegistry(
    "llm",
    "retrokit.llms",
    [
        Entry(
            "openai",
            "any service that speaks OpenAI's chat protocol: vLLM, llama.cpp, Ollama, hosted ones",
            "retrokit.llm.openai:openai_llm",
            (
                Param("model", str, required=True, summary="model name at the service"),
                Param(
                    "url",
                    env="OPENAI_BASE_URL",
                    receives_texts=True,
                    summary="url=ADDRESS of the service up to /v1",
                ),
                Param("key_env", str, "OPENAI_API_KEY", summary="environment variable with the API key"),
                Param("timeout", float, 300.0, minimum=0.1, maximum=86_400, summary="seconds for a complete answer"),
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
                Param("path", str, required=True, summary="folder or hub id"),
                Param(
                    "max_length",
                    int,
                    minimum=1,
                    maximum=10_000_000,
                    summary="tokens of a prompt (of a decoder: and its answer); default: what fits",
                ),
                Param("batch", int, 8, minimum=1, maximum=4096, summary="prompts per batch"),
                Param("device", str, summary="cpu, cuda, …; default: a GPU if there is one"),
                _STOP,
            ),
            positional="path",
        ),
        Entry(
            "replay",
            "recorded answers: a JSONL file of prompt, answer and, where there was one, system",
            "retrokit.llm.replay:ReplayLLM",
            (Param("path", str, required=True, summary="the file"), _STOP),
            positional="path",
        ),
    ],
)
