"""Jobs without a time limit have the one that their site gives them, and backfill plans with it."""

from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.cli import main
from slurm_ext.simulate.planning.layout import Layout, PartitionNodes
from slurm_ext.simulate.planning.layout_conf import read_layout
from slurm_ext.simulate.planning.usual_limits import GIVEN, with_usual_limits
from tests.simulate.traces import trace_of

ROWS = "job,submit_s,duration_s,gpus\n1,0,600,6\n2,60,3600,4\n3,120,300,2\n4,180,120,1\n"
SITE = "NodeName=n1 Gres=gpu:8\nPartitionName=p Nodes=n1 "
LAYOUT = Layout(
    sizes=[8],
    types=[""],
    partitions={"p": PartitionNodes(nodes=1, most_s=7200.0, usual_s=3600.0)},
    usual="p",
)


@pytest.mark.parametrize(("limits", "third_s"), [("", 600), (" DefaultTime=5", 120)])
def test_backfill_plans_with_the_limit_of_the_partition(
    tmp_path: Path, limits: str, third_s: float
) -> None:
    """By MaxTime the third job might run past the second's promised start; by DefaultTime not."""
    trace, conf, jobs = (tmp_path / name for name in ("t.csv", "slurm.conf", "jobs.csv"))
    trace.write_text(ROWS)
    conf.write_text(f"{SITE}MaxTime=12:00:00{limits}\n")
    words = ["simulate", str(trace), "--slurm-conf", str(conf), "--jobs", str(jobs)]
    assert main([*words, "--policy", "multifactor+backfill"]) == 0
    rows = [line.split(",") for line in jobs.read_text().splitlines()]
    assert [float(row[7]) for row in rows if row[1] == "3"] == [third_s]


@pytest.mark.parametrize(
    ("limits", "usual_s"),
    [
        ("MaxTime=10", 600),
        ("MaxTime=10 DefaultTime=5", 300),
        ("DefaultTime=5", 300),
        ("MaxTime=10 DefaultTime=20", 600),
        ("MaxTime=10 DefaultTime=UNLIMITED", 600),
        ("MaxTime=UNLIMITED", inf),
    ],
)
def test_a_partition_gives_its_default_time_or_its_longest(
    tmp_path: Path, limits: str, usual_s: float
) -> None:
    """A DefaultTime above MaxTime is none, as in Slurm."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(SITE + limits)
    assert read_layout(conf).partitions["p"].usual_s == usual_s


@pytest.mark.parametrize(
    ("layout", "most_s", "given_s"),
    [
        (LAYOUT, inf, 3600.0),
        (LAYOUT, 5400.0, 5400.0),
        (LAYOUT, 119.0, 60.0),
        (LAYOUT, 9000.0, 3600.0),
        (None, 5400.0, 5400.0),
    ],
)
def test_qos_and_accounts_say_first(layout: Layout | None, most_s: float, given_s: float) -> None:
    """What they allow is given, in whole minutes, unless the partition allows less; it is told."""
    trace = trace_of([(0.0, 10.0, 1), (1.0, 10.0, 1)], limits=[nan, 50.0])
    given = with_usual_limits(trace, layout, np.full(2, most_s))
    assert given.limit_s.tolist() == [given_s, 50.0]
    assert given.repairs == {GIVEN: 1}


def test_where_nobody_sets_a_limit_a_trace_stays_as_it_is() -> None:
    """A replay on plain nodes is the same as ever."""
    trace = trace_of([(0.0, 10.0, 1), (1.0, 10.0, 1)])
    same = with_usual_limits(trace, None, np.full(2, inf))
    assert np.isnan(same.limit_s).all()
    assert same.repairs == {}
