"""What other trainings taught about growing with GPUs reaches a what-if, and never breaks it."""

from pathlib import Path

import pytest

from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.layout import JobLayout
from slurm_ext.advisor.what_if.serving_family import scaling_family
from slurm_ext.advisor.what_if.speed import LayoutRate, LayoutSpeed
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import Settings, parse
from slurm_ext.history.views.columns import TRAINING_COLUMNS
from slurm_ext.training.scaling.challenge import challenge
from slurm_ext.training.scaling.history_runs import rows
from tests.training.scaling.test_scaling_challenge import history, run


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A site whose history taught what its network costs."""
    challenge(rows(history(6), TRAINING_COLUMNS), tmp_path / "models")
    return parse(f'[paths]\nstate_dir = "{tmp_path}"\n', "test")


def rate(settings: Settings) -> LayoutRate:
    """Eight GPUs on two nodes, of a training that ran on one GPU only."""
    known = DecisionContext(
        settings=settings,
        evidence={Level.SCRIPT_ARGS: [run(1, 1, 100.0)]},
        family=scaling_family(settings),
    )
    layout = JobLayout(cpus_per_task=8, num_workers=4, tasks=8, nodes=2, gpus=8, ranks=8)
    told = LayoutSpeed(known, lambda _: None, 1).at(layout)
    assert isinstance(told, LayoutRate), told
    return told


def test_a_new_training_is_foretold_by_what_others_lost(settings: Settings) -> None:
    """All of them lost three quarters over two nodes: so will this one, about."""
    assert 100 < rate(settings).samples_per_s < 400


def test_a_damaged_family_serves_nobody(settings: Settings, tmp_path: Path) -> None:
    """The answer is as if nothing had been learnt, and no traceback."""
    (tmp_path / "models" / "scaling" / "current" / "scaling.npz").write_bytes(b"torn")
    assert scaling_family(settings) is None


def test_a_site_that_has_learnt_nothing(tmp_path: Path) -> None:
    """No folder, no family."""
    assert scaling_family(parse(f'[paths]\nstate_dir = "{tmp_path}"\n', "test")) is None
