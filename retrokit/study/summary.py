"""What of a study is there to report: its runs, what its steps printed, and each evaluation of all its systems."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from retrokit.core.errors import RetrokitError
from retrokit.core.outputs import check_own
from retrokit.data.runs import is_run
from retrokit.study.state import DONE, StudyPlan
from retrokit.study.steps import Step


def results_of(plan: StudyPlan) -> tuple[list[Path], bool]:
    """The paths of what is done, and whether the gates hold.

    The systems of an evaluation are compared by one command, which computes nothing anew; as JSON it lies beside the
    folder of results.
    """
    done = [state.step for state in plan.states() if state.state == DONE]
    evaluations: dict[str, list[Step]] = {}
    paths = []
    for step in done:
        if step.command[0] == "eval":
            evaluations.setdefault(step.table, []).append(step)
        elif step.prints or is_run(step.output):
            paths.append(Path(step.output))
    compared = {plan.folder / f"{table}.json": steps for table, steps in evaluations.items()}
    hold = [_compare(plan, steps, path) for path, steps in compared.items()]
    return [*compared, *paths], all(hold)


def _compare(plan: StudyPlan, steps: Iterable[Step], path: Path) -> bool:
    """Write the evaluation of all systems as JSON; whether the gates hold."""
    systems = [step.command[1] for step in steps]
    options = next(iter(steps)).command[2:]
    words = ["eval", *systems, *options, *plan.gates, "--json", "--per-query"]
    part_path = path.with_suffix(".part")
    check_own(part_path)
    with open(part_path, "wb") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "retrokit", *words], cwd=plan.started_in, stdout=file, stderr=subprocess.PIPE
        )
    if ended.returncode not in (0, 1):
        part_path.unlink()
        error = RetrokitError(ended.stderr.decode(errors="replace").strip().splitlines()[-1])
        error.exit_code = ended.returncode
        raise error
    os.replace(part_path, path)
    return ended.returncode == 0
