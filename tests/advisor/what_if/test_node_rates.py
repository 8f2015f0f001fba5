"""Rates on whole nodes of other sizes, from runs of a training."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slurm_ext.advisor.what_if.node_rates import NodeRates, RunFacts, node_rates
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.policy.node_shapes import NodeType
from tests.advisor.what_if.drafts import RUN

ONE = NodeType(name="one", gpu="a100", gpus=1, cores=8, price_per_hour=1.0, most_nodes=1)
EIGHT = replace(ONE, name="eight", gpus=8, cores=64)


def rated(runs: Sequence[LoaderRun], *table: NodeType) -> NodeRates:
    """The shapes that these runs tell of, with any batch; nobody else ran anything."""
    known = RunFacts(evidence={Level.SCRIPT_ARGS: runs}, most_batch=1 << 20)
    return node_rates(known, table, lambda here, there: None)


@pytest.mark.parametrize(("gpus", "ranks"), [(4, 1), (1, 2), (2, 4)])
def test_runs_with_other_than_one_rank_a_gpu_tell_of_no_node(gpus: int, ranks: int) -> None:
    """They are left out: beside others they change nothing, and alone they are the reason."""
    other = replace(RUN, gpus=gpus, ranks=ranks, samples_per_s=9.0, fetch_wall_s=0.1)
    assert rated([other, RUN], ONE, EIGHT) == rated([RUN], ONE, EIGHT)
    why = f"no run with one rank on each GPU: it had {ranks} ranks on {gpus}"
    assert rated([other], ONE, EIGHT) == NodeRates((), {"one": why, "eight": why})


def test_ranks_of_one_node_share_what_its_storage_gave_one() -> None:
    """A disk that holds one rank at 500 samples/s gives eight of them no more in all."""
    few = replace(
        RUN,
        samples_per_s=500.0,
        accel_samples_per_s=5000.0,
        workers=4,
        cores=8.0,
        batch_size=64.0,
        fetch_wall_s=4 / 500,
        fetch_cpu_s=0.0005,
    )
    held = [replace(few, workers=8, fetch_wall_s=8 / 500), few]
    one, eight = rated(held, ONE, EIGHT).shapes
    assert eight.samples_per_s <= 1.2 * one.samples_per_s
