"""Slurm's multifactor priority in a replay: weights of a slurm.conf, fair shares that decay."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.cli import main
from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.usage import Usage
from slurm_ext.simulate.queue.multifactor import fair_shares
from slurm_ext.simulate.queue.priority_conf import Partition, PriorityConf, read_priorities

CONF = """
prioritytype = priority/multifactor   # as slurmctld reads it
PriorityWeightAge=1000 \\
PriorityWeightFairshare="2000"
PriorityWeightJobSize=30
PriorityWeightPartition=4
PriorityWeightQOS=5
PriorityWeightTRES=CPU=6,GRES/gpu=7,mem=0
PriorityDecayHalfLife=1-0
PriorityMaxAge=14-0
PriorityCalcPeriod=1
PriorityFavorSmall=YES
include parts/gpu.conf
"""
PARTITIONS = (
    "PartitionName=gpu Nodes=a[1-3] PriorityTier=2 PriorityJobFactor=10\nPartitionName=cpu\n"
)
USERS = """job,submit_s,duration_s,gpus,user,account,vc
1,0,100,8,ann,a,gpu
2,1,100,8,ann,a,gpu
3,2,10,8,bob,b,gpu
4,3,100,8,ann,a,gpu
5,150,10,8,cyd,b,cpu
"""
Order = Callable[[str], list[str]]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Which job starts when, under the lines of a slurm.conf."""

    def started(conf: str) -> list[str]:
        (tmp_path / "slurm.conf").write_text(conf)
        (tmp_path / "trace.csv").write_text(USERS)
        files = [str(tmp_path / name) for name in ("trace.csv", "slurm.conf", "jobs.csv")]
        options = ["--slurm-conf", files[1], "--jobs", files[2], "--policy", "multifactor+backfill"]
        assert main(["simulate", files[0], "--nodes", "1", *options]) == 0
        rows = [line.split(",") for line in Path(files[2]).read_text().splitlines()[1:]]
        return [row[1] for row in sorted(rows, key=lambda row: float(row[7]))]

    return started


def test_what_a_slurm_conf_says(tmp_path: Path) -> None:
    """Keys in any case, comments, continued lines and included files; what is left out is named."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/gpu.conf").write_text(PARTITIONS)
    (tmp_path / "slurm.conf").write_text(CONF)
    assert read_priorities(tmp_path / "slurm.conf") == PriorityConf(
        weights={"age": 1000, "fairshare": 2000, "job_size": 30, "partition": 4},
        gpu_weight=7,
        max_age_s=14 * 86400,
        half_life_s=86400,
        period_s=60,
        favours_small=True,
        partitions={"gpu": Partition(tier=2, factor=10), "cpu": Partition()},
        left_out=("PriorityWeightQOS", "PriorityWeightTRES cpu"),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("PriorityWeightAge=many", "priorityweightage is 'many': expected a number from 0 on"),
        ("PriorityMaxAge=a-week", "prioritymaxage is 'a-week': expected a time such as 7-0"),
        ("PriorityType=priority/basic", "PriorityType is priority/basic"),
        ("Include slurm.conf", "files include one another too deeply"),
        ("Include absent.conf", "absent.conf"),
    ],
)
def test_a_wrong_one_is_told(tmp_path: Path, line: str, told: str) -> None:
    """The key and its value are named, and what would be valid."""
    (tmp_path / "slurm.conf").write_text(line + "\n")
    with pytest.raises(InputError, match=told):
        read_priorities(tmp_path / "slurm.conf")


def test_each_weight_moves_what_it_should(order: Order) -> None:
    """Age: as they came. Fair share: whoever's account had less. A tier goes before all of it."""
    assert order("PriorityWeightAge=1000000\n") == ["1", "2", "3", "4", "5"]
    assert order("PriorityWeightFairshare=1000\nPriorityCalcPeriod=1\n") == list("13254")
    tier = "PartitionName=cpu PriorityTier=2\nPriorityWeightAge=1000000\n"
    assert order(tier) == ["1", "2", "5", "3", "4"]
    factor = "PriorityWeightPartition=9\nPartitionName=cpu\nPartitionName=gpu PriorityJobFactor=5\n"
    assert order(factor) == ["1", "2", "3", "4", "5"]


def test_it_wants_its_slurm_conf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the file the policy has no weights, and the command says which option it wants."""
    (tmp_path / "trace.csv").write_text(USERS)
    words = ["simulate", str(tmp_path / "trace.csv"), "--nodes", "1", "--policy", "multifactor"]
    assert main(words) == 2
    assert "wants --slurm-conf FILE" in capsys.readouterr().err


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.integers(0, 64)), max_size=8),
    st.sampled_from([0.0, 3600.0, 7 * 86400.0]),
)
def test_usage_is_the_decayed_integral(
    changes: list[tuple[float, int]], half_life_s: float
) -> None:
    """As if every second's GPUs had been added and halved one by one."""
    usage, gpus, now_s, summed = Usage(half_life_s), 0, 0.0, 0.0
    left = 0.5 ** (1 / half_life_s) if half_life_s else 1.0
    for wait_s, held in changes:
        seconds = int(wait_s) % 500
        for _ in range(seconds):
            summed = summed * left + gpus * (1 + left) / 2
        now_s += seconds
        usage.hold(held - gpus, now_s)
        gpus = held
        assert usage.at(now_s) == pytest.approx(summed, rel=1e-4, abs=1e-6)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")),
        st.sampled_from([0.0, 1.0, 2.0, 5.0]),
        min_size=1,
    )
)
def test_fair_shares_rank_accounts_then_users(usage: dict[tuple[str, str], float]) -> None:
    """The best has 1, equals are equal, and nobody of a busier account goes before another's."""
    shares = fair_shares(usage)
    accounts = {name: sum(usage[who] for who in usage if who[0] == name) for name, _ in usage}
    assert max(shares.values()) == 1
    assert min(shares.values()) >= 1 / len(usage)
    for one in usage:
        for other in usage:
            first, second = ((accounts[who[0]], usage[who]) for who in (one, other))
            assert (shares[one] > shares[other]) == (first < second)
