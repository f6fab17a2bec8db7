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
                Param("encoder", required=True, help="its spec, with parameters in quotes"),
                Param("margin", 0.0, minimum=0, maximum=1e6, help="distance below the positive"),
                Param("type", "absolute", choices=("absolute", "relative"), help="margin as a score or as a share"),
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
                Param("rank", int, required=True, minimum=1, help="rank of an update"),
                Param(
                    "alpha", float, minimum=1e-6, maximum=1e6, help="scales updates by alpha / rank; default: 2 rank"
                ),
                Param("dropout", 0.0, minimum=0, maximum=0.99, help="dropout of the updates' input"),
                Param("targets", "all-linear", help="names of linear layers, with + between"),
                Param("last", int, minimum=1, help="number of last layers to update; default: all"),
            ),
            positional="rank",
        )
    ],
    fallback="lora",
)
