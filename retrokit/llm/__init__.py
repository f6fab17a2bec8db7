"""The registry of language models that write text: the table of names. One client for all of them is in
:mod:`retrokit.llm.session`."""

from retrokit.core.registry import Entry, Param, SpecRegistry

registry = SpecRegistry(
    "llm",
    "retrokit.llms",
    [
        Entry(
            "openai",
            "any service that speaks OpenAI's chat protocol: vLLM, llama.cpp, Ollama, hosted ones",
            "retrokit.llm.openai:openai_llm",
            (
                Param("model", str, required=True, summary="as the service calls it"),
                Param("url", str, summary="up to /v1; default: $OPENAI_BASE_URL, else OpenAI's own"),
                Param("key_env", str, "OPENAI_API_KEY", summary="environment variable that holds the key, if any"),
                Param("timeout", float, 300.0, minimum=0.1, maximum=86_400, summary="seconds that a call may take"),
            ),
            positional="model",
            extra="llm",
        ),
        Entry(
            "local",
            "a model computed here: a folder or a hub id of a causal or sequence-to-sequence checkpoint",
            "retrokit.llm.local:local_llm",
            (
                Param("path", str, required=True, summary="folder or hub id"),
                Param(
                    "max_length",
                    int,
                    minimum=1,
                    maximum=10_000_000,
                    summary="tokens of a prompt at most; default: what fits",
                ),
                Param("batch", int, 8, minimum=1, maximum=4096, summary="prompts computed at once"),
                Param("device", str, summary="cpu, cuda, …; default: a GPU if there is one"),
            ),
            positional="path",
        ),
        Entry(
            "replay",
            "recorded answers: a JSONL file of prompt, answer and, where there was one, system",
            "retrokit.llm.replay:ReplayLLM",
            (Param("path", str, required=True, summary="the file"),),
            positional="path",
        ),
    ],
)
