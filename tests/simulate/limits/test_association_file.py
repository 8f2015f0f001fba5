"""Files of associations: `sacctmgr -P show assoc tree`, and dumps; what is wrong is told."""

from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.association_file import read_associations
from slurm_ext.simulate.limits.limit import Limit

TREE = """\
Cluster|Account|User|Partition|GrpJobs|GrpTRES|GrpTRESMins|MaxJobs|MaxSubmit|MaxWall|QOS|Def QOS
alpha|root||||||||||
alpha| root|root|||||||||
alpha| science|||4|gres/gpu=16,mem=1T||2||01:00:00|normal|normal
alpha|  physics|||||cpu=600|||||
alpha|  physics|ann|||||3|||short,normal|short
alpha|  physics|ben|gpu|||||5|||
"""

DUMP = """\
Cluster - 'alpha':Fairshare=1:GrpJobs=50:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'science':Description='s':Organization='s':GrpJobs=4:GrpTRES=gres/gpu=16,mem=1T:\
MaxJobs=2:MaxWallDurationPerJob=60
Parent - 'science'
Account - 'physics':GrpTRESMins=cpu=600
Parent - 'physics'
User - 'ann':DefaultAccount='physics':MaxJobs=3:DefaultQOS='short'
User - 'ben':Partition='gpu':DefaultAccount='physics':MaxSubmitJobs=5
"""

GROUP: dict[Limit, int] = {("GrpJobs", "jobs"): 4, ("GrpTRES", "gres/gpu"): 16}


@pytest.mark.parametrize(("text", "root"), [(TREE, {}), (DUMP, {("GrpJobs", "jobs"): 50})])
def test_who_is_below_whom_is_known(tmp_path: Path, text: str, root: dict[Limit, int]) -> None:
    """A user has limits of its own, inherits those of an account, and counts in each sum above."""
    path = tmp_path / "assoc.txt"
    path.write_text(text)
    table = read_associations(path)
    ann = table.path("physics", "ann", "")
    assert [one.label for one in ann] == [
        "user ann of physics",
        "account physics",
        "account science",
        "account root",
    ]
    assert ann[0].sums == {("MaxJobs", "jobs"): 3}
    assert ann[0].each == {("MaxWall", "seconds"): 3600}
    assert [one.sums for one in ann[1:]] == [{("GrpTRESMins", "cpu"): 600}, GROUP, root]
    assert table.path("physics", "ben", "gpu")[0].sums == {
        ("MaxJobs", "jobs"): 2,
        ("MaxSubmit", "submitted"): 5,
    }
    assert table.path("physics", "ben", "cpu")[0].sums == {("MaxJobs", "jobs"): 2}
    assert table.path("chemistry", "ann", "") == ()
    assert table.account_of("", "ann") == "physics"
    assert table.usual_qos["physics", "ann"] == "short"
    assert table.by["science", "", ""].left_out == ("GrpTRES mem",)


HEAD = "Cluster|Account|User|MaxJobs\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no user: give what `sacctmgr -P show assoc tree` prints"),
        (HEAD + "a|root||\n", "has no user"),
        (HEAD + "a|root|ann\n", ":2: 3 fields, expected 4 as in line 1"),
        (HEAD + "a|root|ann|two\n", ":2: root ann: MaxJobs is 'two'"),
        (HEAD + "a|root|ann|\nb|root|ann|\n", ":3: is of several clusters"),
        (HEAD + "a|root|ann|\na|root|ann|\n", ":3: root ann is there twice"),
        ("Name|Priority\n", ":1: 'Name|Priority': expected Cluster|Account|User|..."),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    """File, line and column are named, and what is expected."""
    path = tmp_path / "assoc.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_associations(path)
    assert told in str(error.value)
