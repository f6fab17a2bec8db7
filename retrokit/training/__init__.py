"""Fine-tuning on the sentence-transformers trainer: loss, batches, model folders.

Start at :mod:`retrokit.training.finetune`; :mod:`retrokit.training.config` has every option.
"""

from retrokit.core.registry import Entry, Param, Registry

guides = Registry(
    "guide",
    "retrokit.guides",
    [
        Entry(
            "guide",
            "an encoder that masks false negatives (GISTEmbed)",
            "retrokit.training.loss:Guide",
            (
                Param("encoder", required=True, summary="its spec, with parameters in quotes"),
                Param("margin", float, 0.0, minimum=0, maximum=1e6, summary="distance below the positive"),
                Param(
                    "type", str, "absolute", choices=("absolute", "relative"), summary="margin as a score or as a share"
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
                Param("rank", int, required=True, minimum=1, summary="rank of an update"),
                Param(
                    "alpha", float, minimum=1e-6, maximum=1e6, summary="scales updates by alpha / rank; default: 2 rank"
                ),
                Param("dropout", float, 0.0, minimum=0, maximum=0.99, summary="dropout of the updates' input"),
                Param("targets", str, "all-linear", summary="names of linear layers, with + between"),
                Param("last", int, minimum=1, summary="number of last layers to update; default: all"),
            ),
            positional="rank",
        )
    ],
    fallback="lora",
)
