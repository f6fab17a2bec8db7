"""The capabilities that are families of near-misses: negation, binding, relations."""

from functools import partial

from retrokit.augmentation import near_misses
from retrokit.augmentation.stress.capability import EDIT, Capability, of_sentence


def _of_family(name: str) -> Capability:
    family = near_misses.registry.create(name)
    return Capability(name, EDIT, of_sentence(lambda subject: family.edits(subject.tagged)))


negation = partial(_of_family, "negation")
binding = partial(_of_family, "binding")
spatial = partial(_of_family, "spatial")
