"""A small copy of a verifier that was trained end to end: its encoder as an update of the one that it began with."""

from dataclasses import replace

from safetensors.torch import save_file

from retrokit import encoders
from retrokit.core.errors import UsageError, disk_errors
from retrokit.core.outputs import folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.runs import read_run, write_run
from retrokit.ranking import reranking
from retrokit.ranking.reranking.encoder_update import UPDATE_FILE, changes_of, digest_of, update_between, weights_of
from retrokit.ranking.reranking.maps import MapScorer
from retrokit.ranking.reranking.settings import ShrinkSettings
from retrokit.ranking.reranking.verifier import load_weights, made_for, save_weights


@taking(ShrinkSettings)
def shrink(settings: ShrinkSettings) -> float:
    """Write a small copy of the verifier ``folder``, which was trained end to end, to ``output``: its network, and what
    training has changed of its encoder, in matrices of ``rank``. Returns the share of that change that the copy keeps,
    of its squares; 1 for updates that were trained in no higher rank (``lora``).

    Raises:
        UsageError: no verifier with an encoder of its own, or ``output`` exists.
    """
    spec, whose = made_for(settings.folder)
    if not whose["in_folder"]:
        raise UsageError(f"{settings.folder} has no encoder of its own: train it with `end_to_end=`")
    whose["encoder"] = settings.encoder or whose["encoder"]
    before = weights_of(encoders.registry.create(whose["encoder"], device="cpu"))
    after = weights_of(encoders.registry.create(f'model:"{settings.folder}"', device="cpu"))
    update = update_between(before, after, settings.rank)
    if not update:
        raise UsageError(f"{settings.folder}: its encoder is that of {whose['encoder']}, unchanged")
    whole = lost = 0.0
    for name, approximation in changes_of(update).items():
        change = after[name].float() - before[name].float()
        whole, lost = whole + float(change.square().sum()), lost + float((change - approximation).square().sum())
    scorer: MapScorer = reranking.verifiers.create(spec)
    load_weights(scorer, settings.folder)
    with folder_in_the_making(settings.output) as staged, disk_errors(settings.output):
        save_file(update, staged / UPDATE_FILE)
        save_weights(scorer, staged)
        whose |= {"in_folder": False, "begins_with": digest_of(before, update), "rank": settings.rank}
        run = read_run(settings.folder)
        outcome = {
            name: value for name, value in (run.outcome or {}).items() if name in ("steps", "best_step", "metric")
        }
        notes = {name: value for name, value in run.notes.items() if name != "configuration"}  # which has paths
        notes |= {"language": settings.language} if settings.language else {}
        write_run(replace(run, made_for=whose, outcome=outcome, notes=notes, files=None), staged)
    return 1 - lost / whole
