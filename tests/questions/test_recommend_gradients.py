"""What a history tells of gradients: the training's own bytes, and the seconds of others'."""

from dataclasses import replace

import pytest

from slurm_ext.core.records import Level, SyncRun
from slurm_ext.history.views.sync_rows import SyncRow
from slurm_ext.questions.recommend.gradients import gradients_of

RUN = SyncRun(
    signature="s",
    ranks=4,
    nodes=1,
    backend="nccl",
    accelerator="NVIDIA A100-SXM4-40GB",
    takes_lists=True,
    caps=None,
    left_alone=None,
    user_caps=False,
    comm_hook=None,
    batch_size=32.0,
    data_key=None,
    step_s=0.1,
    waiting=0.0,
    syncs=0.5,
    exposed_s=0.02,
    bucket_bytes=(4e6, 6e6),
    ready_bytes=(1e7,),
    ready_s=(0.0,),
)
MINE = {Level.SCRIPT: 1}


def test_own_bytes_and_others_seconds() -> None:
    """The newest own run's size; a byte takes others as much as a step's passes expose."""
    rows = [
        SyncRow(3, 1, replace(RUN, bucket_bytes=(8e6,))),
        SyncRow(2, 1, RUN),
        SyncRow(1, 2, RUN),
    ]
    found = gradients_of(rows, MINE, None)
    assert found is not None
    assert found.size == 8e6
    (other,) = found.others
    assert (other.training, other.ranks, other.nodes) == ("2", 4, 1)
    assert other.seconds == pytest.approx(0.5 * 0.02 / 1e7)
    assert found.is_gpu("a100", other.gpu)


def test_each_users_run_of_a_script_counts_as_that_users() -> None:
    """Two users of one script are two trainings, and each is known by its user."""
    rows = [SyncRow(2, 2, RUN, "ada"), SyncRow(1, 2, RUN, "bob")]
    found = gradients_of(rows, MINE, 1e6)
    assert found is not None
    assert {(one.user, one.training) for one in found.others} == {("ada", "2"), ("bob", "2")}


def test_the_newest_of_a_layout_counts() -> None:
    """A training that ran a hundred times is one."""
    rows = [SyncRow(2, 2, replace(RUN, exposed_s=0.04)), SyncRow(1, 2, RUN)]
    found = gradients_of(rows, MINE, 1e6)
    assert found is not None
    assert found.size == 1e6
    assert [one.seconds for one in found.others] == [pytest.approx(0.5 * 0.04 / 1e7)]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [SyncRow(1, 1, RUN)],
        [SyncRow(1, 2, replace(RUN, comm_hook="fp16"))],
        [SyncRow(1, 2, replace(RUN, accelerator=None))],
        [SyncRow(1, 2, replace(RUN, bucket_bytes=()))],
    ],
)
def test_nothing_is_told_where_nothing_is_known(rows: list[SyncRow]) -> None:
    """No other training, or one whose bytes or GPU nobody knows."""
    assert gradients_of(rows, MINE, 1e6) is None


def test_without_a_size_bytes_tell_nothing() -> None:
    """A training of one GPU whose user says nothing."""
    assert gradients_of([SyncRow(1, 2, RUN)], MINE, None) is None
