"""First advice: the largest removable seconds, then what costs least, and nothing below a floor."""

from dataclasses import replace

import pytest

from slurm_ext.core.advice.advice import Advice, Cost, as_json, ordered
from slurm_ext.core.advice.facts import RankFacts, TrainingFacts, WorkerFacts
from slurm_ext.core.advice.first import LEAST_S, first_advice

LOADER = WorkerFacts(workers=2, wall_s=0.1, cpu_s=0.01)
SLOW = TrainingFacts(step_s=0.05, wait_s=0.03, cores=4.0, loader=LOADER, measured_s=100.0)
RANKS = RankFacts(exposed_s=0.02, comm_s=0.03, overlap_s=0.01, backward_s=0.03, buckets=(1 << 20,))
TOGETHER = TrainingFacts(step_s=0.05, ranks=RANKS, measured_s=100.0)


def actions(facts: TrainingFacts) -> list[str]:
    """The actions, first one first."""
    return [one.action for one in first_advice(facts)]


def loading(**changes: object) -> list[str]:
    """The actions for SLOW with another loader."""
    return actions(replace(SLOW, loader=replace(LOADER, **changes)))  # type: ignore[arg-type]  # by name


def test_workers_that_sleep_are_too_few() -> None:
    """Two that deliver every 50 ms to a loop of 20 ms: seven keep up, with what they remove."""
    (one,) = first_advice(SLOW)
    assert (one.word, one.action, one.value) == ("data", "more_workers", 7)
    assert one.removable_s == pytest.approx(0.03)
    assert one.share == pytest.approx(0.6)
    assert one.option == "DataLoader(num_workers=7)"


def test_a_loop_that_loads_itself_gets_workers() -> None:
    """Nothing overlaps without a worker, whatever the cores do."""
    assert loading(workers=0, wall_s=0.03, cpu_s=0.03) == ["load_in_workers"]


def test_workers_that_fill_their_cores_need_more_of_them() -> None:
    """More workers would share the same cores; where there are no more, samples cost too much."""
    full = replace(SLOW, cores=1.0, loader=WorkerFacts(workers=6, wall_s=0.3, cpu_s=0.05))
    assert actions(full) == ["more_cpus"]
    assert actions(replace(full, room_cores=1.0)) == ["cheaper_samples"]


def test_no_more_cpus_are_told_than_there_are() -> None:
    """Nor more seconds than these remove: two of four cores' work is left to wait for."""
    full = replace(SLOW, step_s=0.12, wait_s=0.1, cores=1.0)
    full = replace(full, loader=WorkerFacts(workers=8, wall_s=0.8, cpu_s=0.1, queued_s=0.7))
    (enough,), (few,) = first_advice(full), first_advice(replace(full, room_cores=2.0))
    assert (enough.value, few.value) == (7, 2)
    assert enough.removable_s == pytest.approx(0.08)
    assert few.removable_s == pytest.approx(0.05)


def test_workers_and_cores_that_are_both_short_are_told_together() -> None:
    """Either alone leaves the step waiting: one advice has both, with what both remove."""
    alone = replace(SLOW, step_s=0.12, wait_s=0.1, cores=1.0)
    loads = replace(alone, loader=WorkerFacts(workers=0, wall_s=0.1, cpu_s=0.1))
    first, second = first_advice(loads)
    assert (first.action, first.value, first.workers) == ("more_cpus", 7, 7)
    assert first.removable_s == pytest.approx(0.1)
    assert first.option == "sbatch --cpus-per-task=7, and DataLoader(num_workers=7)"
    assert second.action == "load_in_workers"
    assert second.removable_s == pytest.approx(0.02)


def test_workers_that_stay_leave_cores_alone_to_be_told() -> None:
    """Where their number was searched for, an advice on CPUs names none."""
    full = replace(SLOW, cores=1.0, loader=WorkerFacts(workers=1, wall_s=0.05, cpu_s=0.05))
    tuned = WorkerFacts(workers=1, wall_s=0.05, cpu_s=0.05, stays=True)
    assert first_advice(full)[0].workers is not None
    assert [one.workers for one in first_advice(replace(full, loader=tuned))] == [None]


def test_other_jobs_on_its_cores_are_no_fault_of_its_own() -> None:
    """A wait for cores that its own processes do not fill is not advised on."""
    assert loading(wall_s=0.1, cpu_s=0.01, queued_s=0.085) == []


def test_what_waits_for_storage_is_told_apart_by_size_and_by_trial() -> None:
    """Small reads want more readers; large ones, or readers that gained nothing, a copy."""
    small = {"sample_bytes": 4_096.0}
    large = {"sample_bytes": 5e5}
    assert loading(**small) == ["more_workers_to_read"]
    assert loading(**large) == ["local_copy"]
    assert loading(**small, flat=True) == ["local_copy"]
    assert loading(**large, flat=False) == ["more_workers_to_read"]


def test_memory_binds_where_no_worker_fits() -> None:
    """More workers would help, and the job has no room for one."""
    fits = replace(SLOW, loader=replace(LOADER, rss_bytes=100))
    assert actions(replace(fits, mem_bytes=300)) == ["more_workers"]
    assert actions(replace(fits, mem_bytes=299)) == ["more_memory"]


def test_a_count_that_was_searched_for_stays() -> None:
    """Its own search knows more than one mean; other causes are told as ever."""
    assert loading(stays=True) == []
    assert loading(stays=True, sample_bytes=5e5) == ["local_copy"]


def test_slow_samples_are_those_that_the_mean_does_not_explain() -> None:
    """Workers keep up on average, a hundredth of the batches takes far longer."""
    bursts = {"wall_s": 0.03, "p50_s": 0.02, "p99_s": 0.2}
    assert loading(**bursts) == ["deeper_prefetch"]
    assert loading(**{**bursts, "p99_s": 0.04}) == []
    assert loading(**bursts, queued_s=0.01) == []  # its cores were busy


def test_workers_that_start_with_each_pass_are_kept() -> None:
    """What later passes waited for new workers goes away."""
    short = TrainingFacts(
        step_s=0.05, start_s=0.02, restart_s=0.018, loader=LOADER, measured_s=100.0
    )
    assert actions(short) == ["persistent_workers"]


def test_buckets_hide_what_the_backward_pass_can_hide() -> None:
    """One bucket of all gradients leaves its messages exposed; many small ones are sent earlier."""
    (one,) = first_advice(TOGETHER)
    assert (one.word, one.action) == ("network", "buckets")
    assert one.removable_s == pytest.approx(0.03 * 7 / 8 - 0.01)
    assert (one.low_s, one.high_s) == (0.0, 0.02)


def test_ranks_that_fit_one_node_belong_there() -> None:
    """Where messages last longer than what could hide them, one node comes before buckets."""
    apart = replace(RANKS, exposed_s=0.03, comm_s=0.06, nodes=2, fits_one_node=True)
    assert actions(replace(TOGETHER, step_s=0.06, ranks=apart))[0] == "one_node"


def test_compression_has_its_conditions() -> None:
    """Only where messages outlast what hides them, and torch's hook can run (NCCL)."""
    long = replace(RANKS, exposed_s=0.04, comm_s=0.07, overlap_s=0.03, backend="nccl")
    said = actions(replace(TOGETHER, step_s=0.08, ranks=long))
    assert said == ["compress_gradients"]
    assert actions(replace(TOGETHER, step_s=0.08, ranks=replace(long, backend="gloo"))) == []
    assert actions(replace(TOGETHER, step_s=0.08, ranks=replace(long, backward_s=0.08))) != said


def test_a_rank_that_is_always_slow_is_its_nodes() -> None:
    """One that moves is a matter of the batches; where nobody knows, nothing is said of it."""
    ranks = RankFacts(skew_s=0.02, slow_rank=1, slow_node="n2")
    (one,) = first_advice(replace(TOGETHER, ranks=ranks))
    assert (one.word, one.action) == ("skew", "exclude_node")
    assert "rank 1 on n2" in one.next
    assert one.option == "sbatch --exclude=n2"
    moving, unknown = replace(ranks, slow_rank=None, moves=True), replace(ranks, slow_rank=None)
    assert actions(replace(TOGETHER, ranks=moving)) == ["even_batches"]
    assert actions(replace(TOGETHER, ranks=unknown)) == []


def test_an_accelerator_with_little_to_do_gets_larger_steps() -> None:
    """Unless what it waits for is the loader."""
    lazy = TrainingFacts(step_s=0.003, accelerator_busy=0.35, measured_s=100.0)
    assert actions(lazy) == ["larger_batch"]
    assert actions(replace(SLOW, accelerator_busy=0.38)) == ["more_workers"]


def test_nothing_is_said_below_the_floors() -> None:
    """A tenth of the step, 15 % of exposed communication, 40 s of training."""
    assert actions(replace(SLOW, step_s=0.4, wait_s=0.03)) == []
    assert actions(replace(TOGETHER, step_s=0.15)) == []
    assert actions(replace(SLOW, measured_s=LEAST_S - 1)) == []


def test_seconds_come_before_cost_and_cost_before_nothing() -> None:
    """What removes nearly the same is ordered by what it costs the user."""
    some = [
        Advice(word="data", action=name, next="", cost=cost, removable_s=seconds)
        for name, cost, seconds in (
            ("code", Cost.CODE, 1.0),
            ("setting", Cost.SETTING, 0.95),
            ("resource", Cost.RESOURCE, 0.93),
            ("small", Cost.SETTING, 0.5),
        )
    ]
    assert [one.action for one in ordered(some)] == ["setting", "resource", "code", "small"]


def test_an_interval_holds_what_it_is_about() -> None:
    """Where the spread of the figures is known, the removable seconds have their bounds."""
    (one,) = first_advice(replace(SLOW, spread=0.1))
    assert one.low_s is not None
    assert one.high_s is not None
    assert one.low_s < one.removable_s <= one.high_s
    said = as_json(one, steps=1000.0)
    assert said["interval_s"][0] < said["removable_s"] == pytest.approx(30.0)
    assert as_json(one)["removable_s"] is None
