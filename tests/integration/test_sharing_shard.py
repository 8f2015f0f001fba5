"""Sharing by shard on the real Slurm, on the nodes that a site prefers for it."""

import pytest

from slurm_ext.sandbox import Sandbox
from slurm_ext.training.promotion import install
from tests.conftest import MakeSandbox
from tests.integration.test_sharing_submit import SHARING, WAITING, learned, shares
from tests.whole import WHOLE, until

pytestmark = pytest.mark.slurm

FEATURE = "packs"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """Two nodes with a GPU of four shards each; the second has the feature."""
    slurm = make_module_sandbox(
        **{**WHOLE, "nodes": 2},
        gpus=1,
        gpu_type="a100",
        sharing="shard",
        settings={**SHARING, "sharing.gres": "shard", "sharing.prefer": FEATURE},
    )
    node = slurm.nodes[1]
    features = (f"availablefeatures={FEATURE}", f"activefeatures={FEATURE}")
    slurm.run(["scontrol", "update", f"nodename={node}", *features])
    slurm.restart("advisor")  # it reads nodes once a minute
    install(slurm.path("dlqueue/models/slowdown"), "s-test", learned())
    until(lambda: shares(slurm), "the advisor does not share")
    return slurm


def runs_on(slurm: Sandbox, job_id: int) -> str:
    """The job's node, once it runs."""
    until(lambda: slurm.job(job_id).get("JobState") == "RUNNING", f"job {job_id} does not run")
    return slurm.job(job_id)["NodeList"]


def test_jobs_share_by_shard_where_the_site_prefers_it(slurm: Sandbox) -> None:
    """Two meet on the preferred node's GPU; the third, which has no room there, goes elsewhere.

    Each asked for a GPU; the job sees one, without a limit of MPS, and no step asks for it again.
    """
    go, jobs = slurm.path("out/go"), []
    try:
        for _ in range(3):
            # A name of their own: what the fixture only asked about might have become them.
            job_id, said = slurm.sbatch("--gres=gpu:1", "-c1", "-Jpacked", script=WAITING)
            assert "at most" in said
            jobs.append((job_id, runs_on(slurm, job_id)))
        asked_for = {
            slurm.job(job_id)["TresPerNode"].replace("gres/", "gres:") for job_id, _ in jobs
        }
    finally:
        go.touch()
    first, second = slurm.nodes
    assert [node for _, node in jobs] == [second, second, first]
    assert asked_for == {"gres:shard:2"}
    assert {slurm.wait(job_id) for job_id, _ in jobs} == {"COMPLETED"}
    assert [slurm.output(job_id) for job_id, _ in jobs] == ["batch 0 all 0\n"] * 3
