"""Nodes that the site keeps awake, by its settings and by slurm.conf, and nodes of reservations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.slurm import JobInfo, MemoryClient
from tests.control.energy.test_energy_loop import (
    NOW_S,
    SAVING,
    cluster,
    done,
    loop_of,
    settings_of,
)

IDLE = cluster(*["IDLE"] * 4)


def ordered_down(tmp_path: Path, config: dict[str, str] = SAVING, **more: Any) -> list[str]:
    """Names that are told to power down, of four idle nodes that nobody needs."""
    client = MemoryClient(known_nodes=IDLE, known_config=config)
    settings = settings_of(tmp_path, energy__buffer=0.0, **more)
    return [name for name, _ in done(loop_of(client, settings).plan(NOW_S))]


@pytest.mark.parametrize("exclude", [["n[0-1]"], ["n0,n1"], ["n0", "n1"]])
def test_a_list_of_nodes_in_the_settings_is_kept_awake(tmp_path: Path, exclude: list[str]) -> None:
    """In Slurm's way of writing it, or name by name."""
    assert ordered_down(tmp_path, energy__exclude=exclude) == ["n2", "n3"]
    assert ordered_down(tmp_path, energy__exclude=["*"]) == []


@pytest.mark.parametrize(
    ("key", "value", "down"),
    [
        ("SuspendExcNodes", "n[0-1]", ["n2", "n3"]),
        ("SuspendExcNodes", "n[0-1]:1,n3", ["n2"]),
        ("SuspendExcNodes", "(null)", ["n0", "n1", "n2", "n3"]),
        ("SuspendExcParts", "other,main", []),
        ("SuspendExcParts", "other", ["n0", "n1", "n2", "n3"]),
        ("SuspendExcStates", "CLOUD,IDLE", []),
        ("SuspendExcStates", "CLOUD", ["n0", "n1", "n2", "n3"]),
    ],
)
def test_nodes_that_slurm_conf_never_suspends_are_kept_awake(
    tmp_path: Path, key: str, value: str, down: list[str]
) -> None:
    """An order to power down passes by these keys, so the loop gives none."""
    assert ordered_down(tmp_path, {**SAVING, key: value}) == down


@pytest.mark.parametrize(
    ("config", "exclude", "says"),
    [
        ({}, ["n[0-"], "energy.exclude: 'n[0-' is no list of hosts"),
        ({"SuspendExcNodes": "n[0-x]"}, [], "SuspendExcNodes of slurm.conf: [0-x] is no range"),
        ({"SuspendExcNodes": "rack1"}, [], "slurm.conf names rack1, which is no node"),
    ],
)
def test_nothing_sleeps_where_a_list_of_exceptions_cannot_be_read(
    tmp_path: Path, config: dict[str, str], exclude: list[str], says: str
) -> None:
    """In act and in shadow, and the status says which list."""
    for mode in ("act", "shadow"):
        client = MemoryClient(known_nodes=IDLE, known_config={**SAVING, **config})
        loop = loop_of(client, settings_of(tmp_path, mode, energy__exclude=exclude))
        assert loop.plan(NOW_S) == ()
        assert says in loop.status()["hindered"]


def test_an_excluded_name_that_no_node_has_is_told(tmp_path: Path) -> None:
    """It may be a typing error; the other nodes sleep all the same."""
    client = MemoryClient(known_nodes=IDLE, known_config=SAVING)
    loop = loop_of(client, settings_of(tmp_path, energy__exclude=["n[3-5]", "login"]))
    assert len(loop.plan(NOW_S)) == 3
    assert loop.status()["unknown"] == ["login", "n4", "n5"]


def test_idle_nodes_of_a_reservation_are_no_buffer(tmp_path: Path) -> None:
    """Others may not have them: of four nodes for all, two stay, and the next job wakes one."""
    held, busy, idle = ["IDLE+RESERVED"] * 10, ["MIXED"] * 6, ["IDLE"] * 4
    client = MemoryClient(known_nodes=cluster(*held, *busy, *idle), known_config=SAVING)
    settings = settings_of(tmp_path, energy__buffer=0.2)
    loop = loop_of(client, settings)
    assert done(loop.plan(NOW_S)) == [("n16", "POWER_DOWN"), ("n17", "POWER_DOWN")]
    asleep = ["MIXED"] * 8 + ["IDLE+POWERED_DOWN"] * 2
    waits = JobInfo(job_id=1, state="PENDING", reason="Resources", node_count=1, partition="main")
    client = replace(client, known_nodes=cluster(*held, *asleep), known_jobs=(waits,))
    assert ("n18", "POWER_UP") in done(loop_of(client, settings).plan(NOW_S))
