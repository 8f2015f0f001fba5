"""Live and replay: one day of a cluster, slot by slot, decided by both."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.control.energy.energy_loop import EnergyLoop, rules_of
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.core.settings.document import Settings, parse
from slurm_ext.model.demand.model import PEAK_SLOTS, SLOT_S
from slurm_ext.policy.energy import EnergyNode, PowerState, decide
from slurm_ext.simulate.energy.replay import DemandSeries, needs_at
from slurm_ext.slurm import MemoryClient, NodeInfo

NODES = 12
START = 1_700_000_400.0 // SLOT_S * SLOT_S
WORDS = {PowerState.ON: "IDLE", PowerState.ASLEEP: "IDLE+POWERED_DOWN"}
SETTINGS = """
energy.mode = "shadow"
energy.partitions = ["*"]
energy.buffer = 0.1
energy.spare = 0.1
energy.least = 0.1
energy.settle_s = 3600.0
energy.min_off_s = 0.0
energy.min_idle_s = 0.0
energy.history_h = 0.0
"""


def settings_of(folder: str) -> Settings:
    """Small shares of a small cluster; demand need not be known for long."""
    return parse(f'paths.state_dir = "{folder}"\n{SETTINGS}', "test")


def served(nodes: list[EnergyNode], need: int, now_s: float) -> list[EnergyNode]:
    """The first nodes that are on have the work; who has none is idle since it had some."""
    told = []
    for node in nodes:
        busy = node.power is PowerState.ON and need > 0
        need -= busy
        since_s = now_s if node.busy and not busy else node.since_s
        told.append(replace(node, busy=busy, since_s=since_s))
    return told


def as_slurm_tells(nodes: list[EnergyNode], lacking: int) -> tuple[NodeInfo, ...]:
    """A job that lacks a node is given a sleeper by Slurm, which wakes it."""
    told = []
    for node in nodes:
        state = "ALLOCATED" if node.busy else WORDS[node.power]
        if node.power is PowerState.ASLEEP and lacking > 0:
            state, lacking = "ALLOCATED+POWERING_UP", lacking - 1
        told.append(NodeInfo(name=node.name, cpus=4, mem_mib=99, state=state))
    return tuple(told)


@settings(max_examples=40)
@given(st.lists(st.integers(0, NODES), min_size=2, max_size=PEAK_SLOTS))
def test_every_slot_of_a_day_is_decided_alike(needs: list[int]) -> None:
    """The same number of nodes sleeps and wakes; the live loop leaves to Slurm what Slurm wakes.

    Until six hours are known the bound is today's need, for the replay and for the live loop.
    """
    series = DemandSeries(
        np.array(needs), np.full(len(needs), NODES), np.array(needs, dtype=np.float64)
    )
    nodes = [
        EnergyNode(name=f"n{at:02}", power=PowerState.ON, since_s=START) for at in range(NODES)
    ]
    wakes: list[float] = []
    with TemporaryDirectory() as folder:
        site, client = settings_of(folder), MemoryClient()
        rules, place = rules_of(site), cluster_state(Path(folder), "energy")
        place.path.mkdir(parents=True)
        live = EnergyLoop(site, client, place)
        for slot, need in enumerate(needs):
            now_s = START + slot * SLOT_S
            nodes = served(nodes, need, now_s)
            lacking = need - sum(node.busy for node in nodes)
            client.known_nodes = as_slurm_tells(nodes, lacking)
            planned = live.plan(now_s)
            asked = needs_at(series, slot, rules, tuple(wakes))
            aim, steps = decide(nodes, asked, now_s=now_s, rules=rules)
            assert live.status()["pools"]["*"]["aim"] == aim.nodes
            slept = [one for one in planned if one.done == "POWER_DOWN"]
            assert len(slept) == sum(step.sleep for step in steps)
            woken = len(planned) - len(slept)
            assert woken <= sum(not step.sleep for step in steps) <= woken + lacking
            if aim.wake:
                wakes.append(now_s)
            powers = {
                step.node: PowerState.ASLEEP if step.sleep else PowerState.ON for step in steps
            }
            nodes = [
                replace(node, power=powers[node.name], since_s=now_s, busy=False)
                if node.name in powers
                else node
                for node in nodes
            ]
