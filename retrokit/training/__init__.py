"""Fine-tuning on the sentence-transformers trainer: loss, batches, run folders, and how they come together.

Start at :mod:`retrokit.training.finetune`; :mod:`retrokit.training.config` has every option.
"""

from retrokit.core.registry import Entry, Param, Registry

guides = Registry(
    "guide",
    "retrokit.guides",
    [
        Entry(
            "guide",
            "an encoder that tells false negatives (GISTEmbed)",
            "retrokit.training.loss:Guide",
            (
                Param("encoder", required=True, summary="which; with parameters in quotes"),
                Param("margin", float, 0.0, minimum=0, maximum=1e6, summary="how far below the positive counts too"),
                Param(
                    "type", str, "absolute", choices=("absolute", "relative"), summary="of margin: a score or a share"
                ),
            ),
            positional="encoder",
        )
    ],
    fallback="guide",
)

lora = Registry(
    "lora",
    "retrokit.lora",
    [
        Entry(
            "lora",
            "low-rank updates of linear layers (LoRA)",
            "retrokit.training.model:LowRank",
            (
                Param("rank", int, required=True, minimum=1, summary="of an update"),
                Param("alpha", float, minimum=1e-6, maximum=1e6, summary="updates count alpha / rank; default: 2 rank"),
                Param("dropout", float, 0.0, minimum=0, maximum=0.99, summary="of what the updates take in"),
                Param("targets", str, "all-linear", summary="names of linear layers, with + between"),
                Param("last", int, minimum=1, summary="of so many of the last layers alone; default: all"),
            ),
            positional="rank",
        )
    ],
    fallback="lora",
)
