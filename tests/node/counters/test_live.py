"""What a running job has counted, read from beside its sampler."""

from slurm_ext.node.counters.live import SAMPLE_TIME, live_counters, rates
from tests.node.by_hand import BURN, Node, wait_for


def test_a_running_jobs_counters_are_read_and_an_ended_ones_are_gone(node: Node) -> None:
    """While the job runs its figures grow; after its epilog there are none."""
    node.prolog(7)
    node.job(7, BURN.format(60))
    root = str(node.root / "spool")
    wait_for(lambda: live_counters(root, "7.0").get("cpu_user", ("", 0.0))[1] > 0)
    before = live_counters(root, "7.0")
    wait_for(lambda: rates(before, live_counters(root, "7.0")).get("cpu_user", 0.0) > 0)
    node.epilog(7)
    assert live_counters(root, "7.0") == {}
    assert live_counters(root, "8.0") == {}


def test_only_what_both_readings_counted_alike_has_a_rate() -> None:
    """Another source, a step backwards or no time between them: no rate, never a wrong one."""
    before = {
        SAMPLE_TIME: ("clock", 10.0),
        "a": ("proc", 4.0),
        "b": ("proc", 4.0),
        "c": ("proc", 4.0),
    }
    now = {
        SAMPLE_TIME: ("clock", 12.0),
        "a": ("proc", 5.0),
        "b": ("cgroup/v2", 9.0),
        "c": ("proc", 1.0),
    }
    assert rates(before, now) == {"a": 0.5}
    assert rates(now, before) == {}
    assert rates({}, now) == {}
