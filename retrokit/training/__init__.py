"""Fine-tuning on the sentence-transformers trainer: loss, batches, run folders, and how they come together.

Start at :mod:`retrokit.training.finetune`; :mod:`retrokit.training.config` has every option.
"""

from retrokit.registry import Entry, Param, Registry

guides = Registry(
    "guide",
    "retrokit.guides",
    [
        Entry(
            "guide",
            "an encoder that tells false negatives (GISTEmbed)",
            "retrokit.training.guide:Guide",
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
