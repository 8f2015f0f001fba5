"""Files of QOS: what `sacctmgr -P show qos` prints, and dumps; what is wrong in them is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.qos import Qos
from slurm_ext.simulate.limits.qos_file import read_qos

DUMP = """\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxNodesPerJob=50
QOS - 'normal':Description='Normal: QOS default':Priority=0:UsageFactor=1.000000
QOS - 'short':Flags='DenyOnLimit,NoReserve':MaxJobsPerUser=2:GrpTRES=gres/gpu=4,mem=1024:\
MaxWallDurationPerJob=90:UsageFactor=0.500000

Cluster - 'alpha':DefaultQOS='normal':Fairshare=1:QOS='normal,short'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='physics':DefaultQOS='short'
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=1:DefaultQOS='normal'
"""


def test_a_dump_is_read(tmp_path: Path) -> None:
    """Names of limits are the long ones there; a user's default QOS goes before the account's."""
    path = tmp_path / "dump.cfg"
    path.write_text(DUMP)
    table = read_qos(path)
    assert table.qos["normal"] == Qos(name="normal")
    assert table.qos["short"] == Qos(
        name="short",
        flags=frozenset({"denyonlimit", "noreserve"}),
        sums={("MaxJobsPU", "jobs"): 2, ("GrpTRES", "gres/gpu"): 4},
        each={("MaxWall", "seconds"): 5400},
        usage_factor=0.5,
        left_out=("GrpTRES mem", "flag noreserve"),
    )
    assert table.usual_of("physics", "ann") == "normal"
    assert table.usual_of("physics", "ben") == "short"
    assert table.usual_of("chemistry", "ben") == "normal"


DATA = Path(__file__).parents[2] / "slurm" / "data"
REAL = {
    "normal": Qos(name="normal"),
    "short": Qos(
        name="short",
        priority=100,
        flags=frozenset({"denyonlimit", "overpartqos"}),
        sums={
            ("MaxTRESPU", "cpu"): 8,
            ("MaxTRESPU", "gres/gpu"): 4,
            ("MaxTRESPA", "gres/gpu"): 8,
            ("MaxJobsPU", "jobs"): 4,
            ("MaxJobsPA", "jobs"): 6,
            ("MaxSubmitPU", "submitted"): 10,
            ("MaxSubmitPA", "submitted"): 20,
        },
        each={("MaxWall", "seconds"): 5400},
    ),
    "group": Qos(
        name="group",
        sums={
            ("GrpTRES", "cpu"): 64,
            ("GrpTRES", "gres/gpu"): 16,
            ("GrpJobs", "jobs"): 10,
            ("GrpSubmit", "submitted"): 30,
            ("GrpTRESMins", "cpu"): 1_000_000,
        },
        each={("MaxTRES", "gres/gpu"): 2, ("MinTRES", "cpu"): 1},
        preempts=frozenset({"short"}),
        usage_factor=0.5,
        grace_s=60.0,
        left_out=("GrpTRES mem",),
    ),
}


@pytest.mark.parametrize("path", sorted(DATA.glob("*/qos.txt")), ids=lambda path: path.parent.name)
def test_a_real_listing_is_read(path: Path) -> None:
    """As sacctmgr of each release prints it."""
    found = {name: in_order(one) for name, one in read_qos(path).qos.items()}
    assert found == REAL


def test_a_real_dump_is_read() -> None:
    """The newest release dumps QOS; whoever has an older one is told which command to take."""
    table = read_qos(DATA / "26.05" / "qos_dump.cfg")
    assert {name: in_order(one) for name, one in table.qos.items()} == REAL
    assert table.usual_of("physics", "root") == "group"
    assert table.usual_of("physics", "ann") == "short"
    assert table.usual_of("root", "root") == "normal"
    with pytest.raises(InputError, match="sacctmgr -P show qos"):
        read_qos(DATA / "22.05" / "qos_dump.cfg")


def in_order(qos: Qos) -> Qos:
    """A QOS whose names of what is left out are sorted."""
    return replace(qos, left_out=tuple(sorted(qos.left_out)))


HEAD = "Name|Priority|Flags|MaxTRESPU|MaxJobsPU|MaxWall\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no QOS"),
        ("normal|0||||\n", ":1: 'normal|0||||': expected Name|Priority|... (sacctmgr"),
        (HEAD, "has no QOS (older sacctmgr dump none): give what"),
        (HEAD + "q|0|||\n", ":2: 5 fields, expected 6 as in line 1"),
        (HEAD + "q|0||||\nq|0||||\n", ":3: QOS 'q': expected a new name"),
        (HEAD + "q|high||||\n", ":2: QOS 'q': Priority is 'high': expected a whole number"),
        (HEAD + "q|0|||two|\n", ":2: QOS 'q': MaxJobsPU is 'two'"),
        (HEAD + "q|0||gres/gpu=x||\n", ":2: QOS 'q': MaxTRESPU gres/gpu is 'x'"),
        (HEAD + "q|0||gpus||\n", ":2: QOS 'q': MaxTRESPU: 'gpus' is not a TRES list"),
        (HEAD + "q|0||||soon\n", ":2: QOS 'q': MaxWall: 'soon' is not a Slurm time"),
        ("Cluster - 'alpha':DefaultQOS='normal'\n", "has no QOS (older sacctmgr dump none)"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    """File, line and column are named, and what is expected."""
    path = tmp_path / "qos.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_qos(path)
    assert told in str(error.value)


def test_modes_that_no_replay_has_are_named(tmp_path: Path) -> None:
    """A QOS's own SUSPEND, and preemption within it; the mode beside it is kept."""
    path = tmp_path / "qos.txt"
    path.write_text("Name|PreemptMode|GraceTime\na|suspend|00:00:00\nb|requeue,within|00:01:00\n")
    a, b = read_qos(path).qos.values()
    assert (a.preempt_mode, a.left_out) == ("suspend", ("PreemptMode=suspend",))
    assert (b.preempt_mode, b.left_out) == ("requeue", ("PreemptMode=within",))
    assert (a.grace_s, b.grace_s) == (0, 60)
