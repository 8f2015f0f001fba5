"""An admin is told which settings of the site's slurm.conf a replay ignores."""

from pathlib import Path

from slurm_ext.simulate.planning.ignored_conf import ignored


def test_what_changes_starts_and_is_not_replayed_is_named(tmp_path: Path) -> None:
    """With its value and its owner, included files too; Slurm's own defaults are not."""
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-2] CPUs=4 Weight=5 State=UNKNOWN\n")
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "TopologyPlugin=topology/tree\nSchedulerType=sched/backfill\nJobRequeue=0\n"
        "include nodes.conf\nPartitionName=gpu Nodes=ALL AllowAccounts=lab OverSubscribe=NO\n"
    )
    assert ignored(conf) == [
        "JobRequeue=0",
        "TopologyPlugin=topology/tree",
        "Weight=5 of node n[1-2]",
        "AllowAccounts=lab of partition gpu",
    ]


def test_a_plain_slurm_conf_has_nothing_to_say(tmp_path: Path) -> None:
    """No note where the replay has all that is set."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nPartitionName=main Nodes=ALL State=UP\nOverTimeLimit=0\n")
    assert ignored(conf) == []
