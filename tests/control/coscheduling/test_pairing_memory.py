"""Companions are judged by the memory that jobs hold, not by what they asked for."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.control.coscheduling.co_scheduling_loop import CoScheduler
from slurm_ext.control.coscheduling.jobs import key_of, room
from slurm_ext.control.coscheduling.pair_memory import PairMemory
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor, remember
from slurm_ext.slurm import NodeInfo
from tests.control.coscheduling.test_pairing_rounds import SCRIPTS, Disk, Here, job, runs

GIB = 2.0**30
NODE = NodeInfo(name="n1", cpus=2, mem_mib=16 * 1024, state="MIXED")


def here(tmp_path: Path, held_gib: float = 0.0, earlier_gib: float = 0.0) -> Here:
    """A node of 16 GiB; job 3 was seen to hold so much, live and in earlier runs."""
    found = Here(tmp_path)
    found.client = replace(found.client, known_nodes=(NODE,))
    key = key_of(job(3), SCRIPTS[3])
    memory = found.folder.load(PairMemory.from_json)
    reading = {"sample_s": ("clock", 9.0), "mem_held_peak": ("cgroup/v2", held_gib * GIB)}
    watch = SpeedMonitor(
        lambda name: reading if held_gib and name == "3.0" else {},
        memory.solo_rates,
        20.0,
        memory.held_bytes,
    )
    found.pairing = CoScheduler(
        found.settings,
        found.client,
        found.folder,
        memory,
        slowdowns=Disk,
        monitor=watch,
        held_bytes=lambda asked: earlier_gib * GIB if asked == key else 0.0,
        clock=lambda: found.now_s,
    )
    return found


def reason(found: Here, asked_mib: int) -> tuple[bool, str]:
    """Whether job 1 starts beside job 3, which asked for so much, and why not."""
    liar = runs(3, mem_mib=asked_mib)
    found.jobs(liar)
    found.pairing.round()  # what a round reads counts from the next one on
    found.jobs(liar, job(1, mem_mib=8 * 1024))
    (step,) = found.pairing.round()
    return step.start or step.free, step.reason


@pytest.mark.parametrize(
    ("asked_mib", "held_gib", "earlier_gib", "starts"),
    [
        (100, 0.0, 0.0, True),
        (100, 10.0, 0.0, False),
        (100, 0.0, 10.0, False),
        (100, 7.0, 7.5, True),
        (10 * 1024, 0.5, 0.0, False),
    ],
    ids=["nothing measured", "holds more now", "held more before", "fits", "asked for more"],
)
def test_who_lies_about_its_memory_is_judged_by_what_it_holds(
    tmp_path: Path, asked_mib: int, held_gib: float, earlier_gib: float, starts: bool
) -> None:
    """16 GiB in all, of which the newcomer asks for 8; the reason names both figures."""
    started, said = reason(here(tmp_path, held_gib, earlier_gib), asked_mib)
    assert started is starts
    assert starts or "GiB of memory are needed, 16.0 GiB are there" in said


def test_what_was_held_is_remembered(tmp_path: Path) -> None:
    """The next controller knows it before any run has ended."""
    found = here(tmp_path, held_gib=10.0)
    reason(found, 100)
    found.folder.keep(found.pairing.memory.as_json())
    assert list(found.folder.load(PairMemory.from_json).held_bytes.values()) == [10 * GIB]


def test_nodes_that_do_not_say_how_much_they_have_forbid_nothing() -> None:
    """Slurm's default RealMemory is 1 MiB: that is no size."""
    assert room([NODE, replace(NODE, mem_mib=8 * 1024)]) == 8 * GIB
    assert room([NODE, replace(NODE, mem_mib=1)]) is None
    assert room([]) is None


def test_what_is_known_of_jobs_has_an_end() -> None:
    """Years of ever new scripts do not fill the memory that each round writes."""
    known = {"a": 1.0, "b": 2.0}
    remember(known, "a", 3.0, most=3)
    remember(known, "c", 4.0, most=3)
    remember(known, "d", 5.0, most=3)
    assert list(known.items()) == [("a", 3.0), ("c", 4.0), ("d", 5.0)]
