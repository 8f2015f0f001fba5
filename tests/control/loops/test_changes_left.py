"""Changes that cannot be put back when a loop stops acting are put back when they can be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops.control_loop import LoopKind
from slurm_ext.control.loops.runner import LoopRunner
from slurm_ext.slurm import PowerCommand
from tests.control.loop_sites import LoopSite, elastic, energy, queue


def changed(site: LoopSite, number: int = 1, **fields: Any) -> None:
    """Something happens to one job."""
    site.client.known_jobs = tuple(
        replace(job, **fields) if job.job_id == number else job for job in site.client.known_jobs
    )


def acted(make: Callable[[Path], LoopSite], folder: Path) -> LoopSite:
    """A site whose loop has changed something."""
    site = make(folder)
    turns(site, "act").turn()
    assert site.changed()
    return site


def turns(site: LoopSite, mode: str) -> LoopRunner:
    """A runner as a SIGHUP makes it."""
    settings = site.settings(mode)
    state = site.kind.state(settings, True)
    state.path.mkdir(parents=True, exist_ok=True)
    return LoopRunner(site.kind, settings, site.client, state)


@pytest.mark.parametrize("mode", ["off", "shadow"])
@pytest.mark.parametrize("make", [queue, elastic], ids=["queue", "elastic"])
def test_a_job_that_runs_on_is_put_back_when_slurm_requeues_it(
    tmp_path: Path, make: Callable[[Path], LoopSite], mode: str
) -> None:
    """Its nice, or the number of its GPUs, was ours, and nobody else would ever change it."""
    site = acted(make, tmp_path)
    changed(site, state="RUNNING", reason="None")
    rounds = turns(site, mode)
    asked = len(site.client.asked)
    rounds.turn()
    changed(site, state="COMPLETING", restarts=1)
    rounds.turn()
    assert site.changed()
    changed(site, state="PENDING", reason="BeginTime")
    for _ in range(3):
        rounds.turn()
    assert not site.changed()
    assert len(site.client.asked) == asked + 1


@pytest.mark.parametrize("make", [queue, elastic], ids=["queue", "elastic"])
def test_nothing_is_left_when_the_job_has_ended(
    tmp_path: Path, make: Callable[[Path], LoopSite]
) -> None:
    """Slurm is not asked again then."""
    site = acted(make, tmp_path)
    settings = site.settings("off")
    loop = site.kind.make(settings, site.client, site.kind.state(settings, True))
    changed(site, state="RUNNING", reason="None")
    assert loop.undo() == 0
    assert loop.left() in (
        "running jobs with a nice of ours (1)",
        "running jobs at a size of ours (1)",
    )
    changed(site, state="COMPLETED")
    assert (loop.undo(), loop.left()) == (0, "")


FALLING = ["IDLE+POWER_DOWN", "IDLE+POWERING_DOWN", "MIXED+POWER_DOWN"]


@pytest.mark.parametrize("state", FALLING)
def test_a_node_on_its_way_to_sleep_is_woken_when_it_sleeps(tmp_path: Path, state: str) -> None:
    """With wake_at_end, the loop wakes all of its own, and each once."""
    site = acted(energy, tmp_path)
    asleep = {node.name for node in site.client.known_nodes if "POWERED_DOWN" in node.state}
    powered(site, asleep, state)
    rounds = turns(site, "off")
    ordered = noted(site)
    rounds.turn()
    assert ordered == []
    powered(site, asleep, "IDLE+POWERED_DOWN")
    for _ in range(3):
        rounds.turn()
    assert sorted(ordered) == sorted((name, PowerCommand.UP) for name in asleep)
    powered(site, asleep, "IDLE+POWERED_DOWN")  # by Slurm's own SuspendTime
    turns(site, "off").turn()
    assert len(ordered) == len(asleep)


def powered(site: LoopSite, names: set[str], state: str) -> None:
    """Nodes are in another state."""
    site.client.known_nodes = tuple(
        replace(node, state=state) if node.name in names else node
        for node in site.client.known_nodes
    )


def noted(site: LoopSite) -> list[tuple[str, PowerCommand]]:
    """Orders from now on, as they are given."""
    orders: list[tuple[str, PowerCommand]] = []
    power = site.client.power

    def ordered(nodes: Any, state: PowerCommand) -> None:
        orders.extend((name, state) for name in nodes)
        power(nodes, state)

    site.client.power = ordered  # type: ignore[method-assign]
    return orders


def test_what_is_left_of_nodes_is_named(tmp_path: Path) -> None:
    """None is, where the site does not want them woken."""
    site = acted(energy, tmp_path)
    powered(site, {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}, "IDLE+POWERING_DOWN")
    kind: LoopKind = site.kind
    for wake, words in ((True, "nodes on their way to sleep (n"), (False, "")):
        settings = site.settings("off", **{"energy.wake_at_end": wake})
        loop = kind.make(settings, site.client, kind.state(settings, True))
        assert loop.undo() == 0
        assert loop.left().startswith(words)
        assert bool(loop.left()) is wake
