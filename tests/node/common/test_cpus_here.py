"""CPUs on a node, of the list that each node of a job is given."""

import pytest

from slurm_ext.node.common.cpus_here import cpus_here
from slurm_ext.slurm.hostlist import expand


@pytest.mark.parametrize(
    ("listed", "nodes", "cpus"),
    [
        ("2", "n1", [2]),
        ("8(x2)", "n[1-2]", [8, 8]),
        ("4(x2),2", "n[08-10]", [4, 4, 2]),
        ("2,4(x2)", "n[9-11]", [2, 4, 4]),
        ("1,2,3,4", "r[1-2]n[1-2]", [1, 2, 3, 4]),
        ("5,6(x2),7", "a,n[1,3]-ib,m7", [5, 6, 6, 7]),
    ],
)
def test_each_node_has_its_own_entry(listed: str, nodes: str, cpus: list[int]) -> None:
    """The list is in the order of the job's nodes, however their names are folded."""
    env = {"SLURM_JOB_CPUS_PER_NODE": listed, "SLURM_JOB_NODELIST": nodes}
    assert [cpus_here({**env, "SLURMD_NODENAME": name}) for name in expand(nodes)] == cpus
    older = {"SLURM_JOB_CPUS_PER_NODE": listed, "SLURM_NODELIST": nodes}
    assert [cpus_here({**older, "SLURMD_NODENAME": name}) for name in expand(nodes)] == cpus


@pytest.mark.parametrize(
    ("listed", "nodes", "cpus"),
    [
        ("8(x2)", "", 8),
        ("4(x2),2", "", 3),
        ("4(x2),3", "m[1-3]", 3),
        ("9,1", "n[a-b]", 5),
        ("3(x0)", "n1", 0),
        ("", "n1", None),
        ("many", "n1", None),
        ("4(x2),", "n1", None),
        ("4(xx2)", "n1", None),
        ("4,-2", "n1", None),
        ("4(x9999999999999)", "n1", None),
    ],
)
def test_a_node_of_no_known_place_has_the_mean(listed: str, nodes: str, cpus: int | None) -> None:
    """Where all have the same, no place is needed; what is no list of counts tells nothing."""
    env = {"SLURM_JOB_CPUS_PER_NODE": listed, "SLURM_JOB_NODELIST": nodes}
    assert cpus_here({**env, "SLURMD_NODENAME": "n1"}) == cpus
