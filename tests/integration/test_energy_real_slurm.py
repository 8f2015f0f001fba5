"""Energy saving on a real Slurm: nodes whose slurmd Slurm's own power saving stops and starts."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox, control
from tests.as_unit import dlqueue_as_unit
from tests.conftest import MakeSandbox
from tests.whole import dlqueue, until

pytestmark = pytest.mark.slurm
AT_ONCE = {
    "energy.mode": "shadow",
    "energy.partitions": ["main"],
    "energy.buffer": 0.3,
    "energy.least": 0.0,
    "energy.min_idle_s": 0.0,
    "energy.history_h": 0.0,
    "energy.settle_s": 0.0,
}


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """Three nodes that can be suspended."""
    return make_module_sandbox(nodes=3, cpus=2, power_saving=True, settings=AT_ONCE)


def energy(slurm: Sandbox, *argv: str) -> dict[str, Any]:
    """One round, or a look, as its unit runs it."""
    words = ("control", "--energy", "--json", *argv)
    unit = dlqueue_as_unit("dlqueue-energy", [slurm.layout.root], *words)
    return dict(json.loads(slurm.run(unit).stdout))


def states(slurm: Sandbox) -> dict[str, set[str]]:
    """Every node's, with its flags."""
    told = slurm.run(["scontrol", "--oneliner", "show", "node"]).stdout.splitlines()
    fields = [dict(pair.partition("=")[::2] for pair in line.split(" ")) for line in told]
    return {one["NodeName"]: set(one["State"].split("+")) for one in fields}


def sleepers(slurm: Sandbox) -> set[str]:
    """Nodes that are powered down, and not on their way up."""
    return {name for name, said in states(slurm).items() if "POWERED_DOWN" in said}


def running(slurm: Sandbox) -> set[str]:
    """Daemons that run."""
    return set(control.ask(slurm.layout, "status")["daemons"])


def moves(slurm: Sandbox) -> list[dict[str, Any]]:
    """What the ledger holds of energy."""
    files = sorted(slurm.path("dlqueue/moves").glob("energy-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def mode(slurm: Sandbox, name: str) -> None:
    """From now on."""
    path = slurm.path("etc/dlqueue.toml")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("energy.mode")]
    path.write_text("\n".join([f'energy.mode = "{name}"', *lines, ""]))


def asleep(slurm: Sandbox, names: set[str]) -> Callable[[], bool]:
    """Whether just these sleep."""
    return lambda: sleepers(slurm) == names


def test_shadow_tells_who_would_sleep_and_touches_nothing(slurm: Sandbox) -> None:
    """A look leaves no trace; a round in shadow leaves moves; every node stays as it is."""
    look = energy(slurm, "--dry-run")
    assert [one["subject"] for one in look["moves"]] == ["n1", "n2"]
    assert moves(slurm) == []
    assert energy(slurm, "--once")["moves"] == look["moves"]
    assert {(one["subject"], one["mode"], one["outcome"]) for one in moves(slurm)} == {
        ("n1", "shadow", None),
        ("n2", "shadow", None),
    }
    assert set.union(*states(slurm).values()) == {"IDLE"}
    text = dlqueue(slurm, "control", "--energy", "--dry-run")
    assert "POWER_DOWN" in text
    assert "partition main: 3 on; 0 needed" in text


def test_an_idle_node_sleeps_and_wakes_for_the_job_that_needs_it(slurm: Sandbox) -> None:
    """Act: Slurm stops two slurmds; a job of three nodes has them started, and runs on all.

    By then the kill file is there and nobody of ours works: a sleeper is Slurm's to wake.
    """
    mode(slurm, "act")
    told = energy(slurm, "--once")
    assert {one["outcome"] for one in told["moves"]} == {"done"}
    until(asleep(slurm, {"n1", "n2"}), "nobody sleeps")
    assert "suspend n[1-2]" in slurm.log("power")
    until(lambda: {"n1", "n2"}.isdisjoint(running(slurm)), "their slurmd still run")
    slurm.path("etc/off").touch()
    written = moves(slurm)
    energy(slurm, "--once")
    assert moves(slurm) == written
    job_id, _ = slurm.sbatch("-N3", "-t9", script="#!/bin/sh\nsrun sh -c 'echo $SLURMD_NODENAME'\n")
    until(asleep(slurm, set()), "nobody was woken")
    assert slurm.wait(job_id) == "COMPLETED"
    assert sorted(slurm.output(job_id).split()) == ["n1", "n2", "n3"]
    acted = [(one["subject"], one["done"]) for one in written if one["mode"] == "act"]
    assert acted == [("n1", "POWER_DOWN"), ("n2", "POWER_DOWN")]
