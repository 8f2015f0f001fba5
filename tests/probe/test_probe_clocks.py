"""Batches and steps of real trainings: two clocks, and which programs teach nothing by them."""

import json
from typing import Any

import pytest

from slurm_ext.core.trainings import trainings
from slurm_ext.core.unsupported_loader import clocks_disagree
from tests.probe.conftest import Environment, Python
from tests.probe.programs_clocked import AGREE, DISAGREE


@pytest.fixture(scope="module")
def summaries(
    environment: Environment, python: Python, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The summary of each program."""
    run_dir = tmp_path_factory.mktemp("clocked") / "run"
    done = python(["-m", "tests.probe.programs_clocked"], environment(run_dir))
    assert done.returncode == 0, done.stderr
    pids = json.loads(done.stdout)
    return {n: json.loads((run_dir / f"summary-{pid}.json").read_text()) for n, pid in pids.items()}


def marked(summary: dict[str, Any]) -> bool:
    """The judgement of a process's training loader; none is as good as a doubted one."""
    training = next(trainings([summary]), None)
    return training is None or clocks_disagree(*training.members[0])


@pytest.mark.parametrize("program", AGREE, ids=lambda program: program.__name__)
def test_ordinary_programs_have_two_clocks_that_agree(summaries: Any, program: Any) -> None:
    """Validation, checkpoints, added-up gradients, a compiler, several optimisers: no doubt."""
    assert not marked(summaries[program.__name__])


@pytest.mark.parametrize("program", DISAGREE, ids=lambda program: program.__name__)
def test_a_loader_that_does_not_feed_the_steps_is_marked(summaries: Any, program: Any) -> None:
    """Read ahead into memory, all of it or a part: its rate is not the training's.

    So it teaches nothing.
    """
    assert marked(summaries[program.__name__])
