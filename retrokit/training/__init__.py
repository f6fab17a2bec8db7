"""Fine-tuning on the sentence-transformers trainer: loss, batches, model folders.

Start at :mod:`retrokit.training.finetune`; :mod:`retrokit.training.config` has every option.
"""

from retrokit.core.registry import Entry, Param, Registry

_WEIGHT = Param("weight", 1.0, above=0, help="weight in a sum")

losses = Registry(
    "loss",
    None,
    [
        Entry(
            "infonce",
            "contrasts a pair with the other documents of the batch",
            "retrokit.training.loss:InfoNCE",
            (
                _WEIGHT,
                Param(
                    "directions",
                    "query-to-document",
                    choices=("query-to-document", "document-to-query", "both"),
                    help="ranks in this direction",
                ),
                Param("unmasked", False, help="counts an anchor's other positives as negatives (MAG, Eq. 2)"),
                Param("guide", help="encoder that masks false negatives (GISTEmbed); with parameters in quotes"),
                Param("margin", 0.0, minimum=0, maximum=1e6, help="distance below the positive, for guide"),
                Param(
                    "margin_type", "absolute", choices=("absolute", "relative"), help="margin as a score or as a share"
                ),
            ),
            "weight",
        ),
        Entry(
            "kl",
            "divergence from a teacher's scores of the texts of a row",
            "retrokit.training.loss:Taught",
            (_WEIGHT, Param("temperature", 1.0, above=0, help="divides the teacher's scores")),
            "weight",
        ),
        Entry(
            "margin-mse",
            "squared error of a teacher's margins",
            "retrokit.training.loss:Taught",
            (_WEIGHT,),
            "weight",
        ),
        Entry(
            "mse",
            "squared error of scored pairs, in no sum",
            "retrokit.training.loss:ScoredMSE",
            (Param("max_score", float, above=0, help="score that counts as 1; default: the highest"),),
            "max_score",
        ),
    ],
)

lora = Registry(
    "lora",
    None,
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
                Param("load", choices=("4bit", "8bit"), extra="bits", help="finetune: bits of loaded weights (QLoRA)"),
                Param("merge", False, help="finetune: saves a whole model, the updates merged"),
            ),
            positional="rank",
        )
    ],
    fallback="lora",
)
