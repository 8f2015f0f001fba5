"""What the history writer tells of the jobs that Slurm lists: who shares GPUs, who is elastic."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.advisor.history_writer.telling import MOST_NAMES
from slurm_ext.advisor.sharing.gpu_sharers import read
from slurm_ext.core import elastic_requests
from slurm_ext.core.job_keys import job_signature
from slurm_ext.core.records import Level
from tests.advisor.history_writer.a_cluster import ENDED, JOB, NOW_S, World

HALF = replace(JOB, gres="gres:mps:50", partition="gpu")


def sharers(folder: Path) -> dict[str, set[str | None]]:
    """Each job that shares, and the scripts that it can be."""
    told: dict[str, set[str | None]] = {}
    for one in read(folder).jobs:
        told.setdefault(one.job, set()).add(one.key)
    return told


def script(number: int) -> str | None:
    """The name by which sharing knows a script."""
    return job_signature({Level.SCRIPT: number})


@pytest.fixture
def sharing(tmp_path: Path) -> World:
    """A world in which GPUs are shared."""
    return World(tmp_path, **{"sharing.mode": "shadow"})


def test_who_shares_is_told_with_the_name_of_its_script(sharing: World, tmp_path: Path) -> None:
    """A sweep's jobs cannot be told apart, and need not be: they are one script."""
    sharing.propose("d1-a", "d1-b", name="sweep", script=1)
    jobs = [
        *(replace(HALF, job_id=n, name="sweep") for n in (1, 2)),
        replace(JOB, job_id=5, gres="gres:gpu:1"),
        replace(HALF, job_id=6, name="theirs"),
    ]
    sharing.look(*jobs, later_s=5)
    assert read(tmp_path).at_s == NOW_S + 5
    assert sharers(tmp_path) == {"1": {script(1)}, "2": {script(1)}, "6": {None}}


def test_a_job_that_can_be_several_scripts_is_told_as_each(sharing: World, tmp_path: Path) -> None:
    """Whoever would share with it has to get on with all of them."""
    sharing.propose("d1-c", script=2)
    sharing.propose("d1-d", script=3)
    sharing.look(HALF, replace(HALF, job_id=8), later_s=5)
    assert sharers(tmp_path) == {job: {script(2), script(3)} for job in "78"}


def test_a_job_that_can_be_too_many_scripts_is_unknown(sharing: World, tmp_path: Path) -> None:
    """The list does not grow with the square of what somebody submits at once."""
    for number in range(MOST_NAMES + 1):
        sharing.propose(f"d1-{number}", script=number)
    sharing.look(HALF, later_s=5)
    assert sharers(tmp_path) == {"7": {None}}


@pytest.mark.parametrize("decided_s", [NOW_S - 0.5, NOW_S + 0.5])
def test_a_job_decided_on_a_moment_ago_is_told(
    sharing: World, tmp_path: Path, decided_s: float
) -> None:
    """Slurm lists it while its proposal is still in the journal, be it made since we asked."""
    sharing.propose("d1-a", script=1, decided_s=decided_s)
    sharing.look(HALF)
    assert sharers(tmp_path) == {"7": {script(1)}}


def test_a_tied_job_shares_under_the_name_of_its_own_decision(
    sharing: World, tmp_path: Path
) -> None:
    """Other proposals of the same user and name change nothing for a job that is tied."""
    for token, number in (("d1-mine", 1), ("d1-late", 2)):
        sharing.propose(token, script=number)
        sharing.look(HALF, later_s=5.0)
    assert sharing.state("d1-mine") == ("claimed", 7)
    assert sharers(tmp_path) == {"7": {script(1)}}


def test_whose_environment_lets_its_size_change_is_told(tmp_path: Path) -> None:
    """Of jobs that are alive, tied or not; where two could be meant that differ, of neither."""
    world = World(tmp_path, **{"elastic.mode": "shadow"})
    world.propose("d1-one", elastic="1-8")
    waits = replace(JOB, state="PENDING", nodes="", start_time_s=None)
    world.look(waits)
    assert elastic_requests.read(tmp_path) == {7: "1-8"}
    world.look(waits, later_s=5.0)
    assert world.state("d1-one") == ("claimed", 7)
    sweep = [replace(waits, job_id=n, name="sweep") for n in (8, 9)]
    world.propose("d1-a", "d1-b", name="sweep", elastic="2-4")
    unlike = [replace(waits, job_id=n, name="unlike") for n in (10, 11)]
    world.propose("d1-c", name="unlike", elastic="2-4")
    world.propose("d1-d", name="unlike")
    world.look(waits, *sweep, *unlike, later_s=6.0)
    assert elastic_requests.read(tmp_path) == {7: "1-8", 8: "2-4", 9: "2-4"}
    for other in (replace(waits, user_id=1001), replace(waits, name="other.sh")):
        world.look(other, later_s=6.5)  # ids begin anew where slurmctld lost its state
        assert elastic_requests.read(tmp_path) == {}
    world.look(ENDED, later_s=7.0)
    assert elastic_requests.read(tmp_path) == {}


def test_while_nobody_is_resized_nothing_is_told(world: World, tmp_path: Path) -> None:
    """The loop is off: no file."""
    world.propose("d1-one", elastic="1-8")
    world.look(JOB)
    assert not (tmp_path / elastic_requests.NAME).exists()
