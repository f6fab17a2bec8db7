"""``rerank train``: a verifier on token maps (COMP, D.3), or a cross-encoder."""

from __future__ import annotations

from retrokit.training.history import Outcome
from retrokit.training.processes import ends_all, join, own_device
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.cross_encoder import plan_cross_encoder
from retrokit.training.rerankers.job import RerankerJob, read_material
from retrokit.training.rerankers.verifier import plan_maps
from retrokit.training.run import carry_out, check_output


@ends_all
def plan_verifier(config: VerifierConfig) -> RerankerJob:
    """Read and check everything: data, model, options; measure lengths and speed.

    Raises:
        UsageError, DataError: whatever is wrong, before a step is made; in any of several processes.
    """
    config = config.resolved()
    join()
    device = own_device(config.device)
    check_output(config)
    material = read_material(config)
    return (plan_cross_encoder if config.reads_pairs else plan_maps)(config, material, device)


def train_verifier(config: VerifierConfig) -> Outcome:
    """Plan and train, and leave a finished verifier's folder; raises as :func:`plan_verifier` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan_verifier(config))
