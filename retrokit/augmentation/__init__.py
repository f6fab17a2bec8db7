"""Training data without labels: crops, dropout, masking, structural negatives, mixing.

The registry lists the augmentations of ``retrokit finetune --augment``, which create pairs in training.
"""

from retrokit.augmentation.crops import CropSettings
from retrokit.core.registry import Entry, Param, SpecRegistry
from retrokit.core.settings import params_of

_CROPPING = params_of(CropSettings)
_ONLINE = "retrokit.augmentation.online"

registry = SpecRegistry(
    "augmentation",
    "retrokit.augmentations",
    [
        Entry(
            *("crops", "two chunks of consecutive sentences of a text (CROP 3.1)", f"{_ONLINE}:Crops", _CROPPING),
            positional="sentences",
        ),
        Entry(
            *("dropout", "one chunk, encoded twice with different dropout (SimCSE)", f"{_ONLINE}:Dropout", _CROPPING),
            positional="sentences",
        ),
        Entry(
            "mask",
            "a share of the tokens masked, on top of another, or of the whole text twice (CROP A.1)",
            f"{_ONLINE}:Mask",
            (Param("fraction", 0.15, minimum=0.0, maximum=1.0, help="share of the tokens"),),
            positional="fraction",
        ),
    ],
)
