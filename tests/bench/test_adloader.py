"""The live proof's pure parts: mixes, parts, figures, policies; and the reading of its tables."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.adloader import curves, dlqueue_policy, metrics, policies, report, workload
from contrib.bench.adloader.actuator import STARTING, Actuator, Grant, Group, Watched
from contrib.bench.adloader.own_cpu import OwnCpu
from contrib.bench.adloader.parts import DLQUEUE, POLICIES, TABLES, Measured, Part, parts, turned


def steady(samples_per_s: float, begin_s: float, end_s: float, kind: str = "jpeg") -> Any:
    """A job whose batches of ten come evenly."""
    count = round((end_s - begin_s) * samples_per_s / 10)
    moments = [begin_s + n * (end_s - begin_s) / count for n in range(count + 1)]
    batches = [(at_s, 10 * (n + 1)) for n, at_s in enumerate(moments)]
    return metrics.Trained(kind=kind, submit_s=0.0, batches=batches)


def machine() -> policies.Machine:
    """Two cores; jpeg needs cores, records needs workers, the others need nothing."""
    shapes: dict[str, Callable[[float, int], float]] = {
        "jpeg": lambda cores, _: 100 * cores,
        "records": lambda _, workers: 60.0 * workers,
        "compute": lambda *_: 100.0,
        "thumbs": lambda *_: 30.0,
    }
    grid = [(s, w) for s in curves.SHARES if s <= 2 for w in curves.WORKERS]
    tables = {
        kind: curves.Table({point: shape(*point) for point in grid})
        for kind, shape in shapes.items()
    }
    return policies.Machine(2, tables)


@pytest.mark.parametrize("name", workload.MIXES)
@pytest.mark.parametrize("width", [2, 4])
def test_same_seed_same_jobs(name: str, width: int) -> None:
    """A mix is a function of its seed; every job arrives no earlier than the one before."""
    mix = workload.MIXES[name]
    assert mix(3, width) == mix(3, width)
    arrivals = [job.submit_s for job in mix(3, width)]
    assert arrivals == sorted(arrivals)


def test_seeds_differ_in_order_not_in_kinds() -> None:
    """Another seed has the same kinds of jobs in another order."""
    orders = {tuple(job.kind for job in workload.mixed(seed, 2)) for seed in range(6)}
    assert len(orders) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_jobs_of_the_mix_take_about_a_minute() -> None:
    """Sizes follow from each kind's rate; two at a time, five jobs take two to four minutes."""
    for job in workload.mixed(1, 2):
        assert 45 < job.samples * workload.EPOCHS / workload.USUAL_RATE[job.kind] < 75
    assert 120 < workload.usual_s(workload.mixed(1, 2), 2) < 240


def test_rate_is_between_first_and_last_batch() -> None:
    """What starting costs is no part of a job's rate, and the first batch's samples neither."""
    assert steady(50, 7, 17).samples_per_s == pytest.approx(50)


def test_window_is_while_as_many_train_as_fit() -> None:
    """The aggregate counts only what was trained while the node was loaded."""
    jobs = [steady(100, 0, 10), steady(10, 2, 20), steady(20, 4, 12), steady(40, 11, 30)]
    assert metrics.window(jobs, 3) == (4, 12)
    assert metrics.window(jobs, 2) == (2, 20)
    begun = steady(100, 0, 10).samples_in(4, 12)
    assert begun == pytest.approx(600, abs=10)
    assert metrics.aggregate(jobs, 3) == pytest.approx((600 + 80 + 160 + 40) / 8, rel=0.1)


def test_worst_job_is_reported_by_its_ratio_to_slurm() -> None:
    """Twice as fast in the mean may still be worse for one: that one is the figure."""
    base = [steady(50, 0, 20), steady(50, 0, 20), steady(50, 0, 20)]
    other = [steady(150, 0, 10), steady(100, 0, 10), steady(45, 0, 20)]
    figures = metrics.figures(other, [base], 3)
    assert figures["worst_job_ratio"] == pytest.approx(0.9, rel=0.01)
    assert figures["mean_job_ratio"] == pytest.approx((3 + 2 + 0.9) / 3, rel=0.01)
    assert figures["makespan_s"] == 20
    assert figures["mean_completion_s"] == pytest.approx(40 / 3)


def test_tables_are_read_between_shares_but_never_above_measured_workers() -> None:
    """Shares in between by straight lines, worker counts in between as the next fewer."""
    tables = machine().measured
    assert tables["jpeg"].at(1.25, 3) == pytest.approx(125)
    assert tables["records"].at(1.0, 7) == 240
    assert tables["compute"].best(0.5) == (100, 1)
    assert tables["jpeg"].at(9, 1) == 200  # as far as it was measured
    assert curves.Table.from_json(tables["jpeg"].as_json()) == tables["jpeg"]


def test_whole_rounds_are_timed() -> None:
    """Four workers deliver four batches at once: half a burst does not change the rate."""
    burst = [(float(n // 4), 8 * n) for n in range(27)]
    assert curves.steady_rate(burst, 4) == pytest.approx(32)


def test_a_level_row_is_not_measured_further() -> None:
    """Two larger shares in a row that bring nothing are followed by no better one."""
    assert curves.is_level([50, 100, 101, 102])
    assert not curves.is_level([50, 100, 101])
    assert not curves.is_level([100, 101])


def test_every_division_deals_all_units() -> None:
    """The search leaves none out: as many as there are ways to cut a line of eight units."""
    every = list(policies.divisions(8, 4))
    assert len(every) == len(set(every)) == 35
    assert all(sum(division) == 8 and min(division) >= 1 for division in every)


@pytest.mark.parametrize("kinds", [("jpeg",), ("jpeg", "records"), (STARTING, "compute")])
def test_fixed_split_deals_no_more_cores_than_there_are(kinds: tuple[str, ...]) -> None:
    """Whatever runs, the grants fit the machine, and each job has one."""
    grants = policies.best_fixed(machine())(kinds)
    assert len(grants) == len(kinds)
    assert sum(grant.cores or 9 for grant in grants) <= 2 + 1e-9
    assert all(grant.workers >= 1 for grant in grants)


def test_search_gives_cores_to_jobs_that_need_them() -> None:
    """The decoding job gets what the other cannot use, and the reading one its workers."""
    jpeg, records = policies.best_fixed(machine())(("jpeg", "records"))
    assert (jpeg.cores, records.cores) == (1.75, 0.25)
    assert records.workers == max(curves.WORKERS)


def test_search_leaves_everybody_what_slurm_gives() -> None:
    """Cores that count twice elsewhere stay with a job that would be slower without them."""
    fast = machine().measured["jpeg"].rates
    tables = {**machine().measured, "compute": curves.Table({k: v * 2 for k, v in fast.items()})}
    grants = policies.best_fixed(policies.Machine(2, tables))(("jpeg", "compute"))
    assert [grant.cores for grant in grants] == [1.0, 1.0]


def test_even_split_is_of_workers() -> None:
    """As many workers as cores, in equal parts, at least one; the cores are everybody's."""
    rule = policies.even(4)
    assert set(rule(("jpeg",) * 2)) == {Grant(None, 2)}
    assert set(rule(("jpeg",) * 5)) == {Grant(None, 1)}


def test_every_policy_runs_every_mix_in_turned_order() -> None:
    """Each seed has each policy once, in another order; tables come before the search."""
    every = list(parts(3, POLICIES, quick=False))
    assert len(every) == len({part.name for part in every})
    assert every[0].policy == TABLES
    orders = [[p.policy for p in every if (p.mix, p.seed) == ("mixed", n)] for n in (1, 2, 3)]
    assert all(sorted(order) == sorted(POLICIES) for order in orders)
    assert len({order[0] for order in orders}) == 3
    assert turned([], 2) == []


def test_one_policy_is_measured_alone() -> None:
    """`--policy slurm` needs no tables, and no other policy's run."""
    assert {part.policy for part in parts(2, ["slurm"], quick=False)} == {"slurm"}
    assert [part.mix for part in parts(2, ["slurm", DLQUEUE], quick=True)] == ["quick"] * 2


def test_one_seed_takes_at_most_25_minutes_on_two_cores() -> None:
    """The time that is told before it begins."""
    assert sum(part.seconds(2) for part in parts(1, POLICIES, quick=False)) < 25 * 60


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    """The state file keeps whole parts; another call goes on with those that are missing."""
    wanted = list(parts(1, ["slurm", "even"], quick=False))
    first = Measured(tmp_path / "state")
    first.keep(wanted[0], [{"policy": "slurm", "jobs": []}])
    again = Measured(tmp_path / "state")
    assert again.rows == first.rows
    assert again.left(wanted) == wanted[1:]
    with pytest.raises(LookupError):
        again.tables()
    again.keep(Part("alone", 0, TABLES), [{"tables": {"jpeg": [[0.5, 1, 80.0]]}}])
    assert Measured(tmp_path / "state").tables() == {"jpeg": [[0.5, 1, 80.0]]}


def row(policy: str, rate: float, end_s: float, mix: str = "mixed") -> dict[str, Any]:
    """A kept run of three equal jobs."""
    batches = steady(rate, 1, end_s).batches
    jobs = [{"kind": "jpeg", "submit_s": 0.0, "batches": batches, "cpu_s": 4.0}] * 3
    where = {"mix": mix, "seed": 1, "policy": policy, "slots": 2, "emulated": True}
    return {
        **where,
        "jobs": jobs,
        "own_cpu_s": {"control": 0.5} if policy.startswith("dlq") else {},
    }


def test_report_says_what_was_missed() -> None:
    """Figures by mix and policy against Slurm as it is; a missed target is said to be missed."""
    rows: list[dict[str, Any]] = [{"tables": {}, "mix": "alone", "seed": 0, "part": "alone"}]
    rows += [row("slurm", 50, 21), row("dlqueue_warm", 100, 11), row("dlqueue_cold", 55, 20)]
    rows += [row("unconstrained", 60, 18), row("best_fixed", 101, 11)]
    rows += [row("slurm", 50, 21, "homogeneous"), row("dlqueue_cold", 45, 23, "homogeneous")]
    told = report.result(rows, 2)
    assert told["figures"]["mixed"]["dlqueue_warm"]["repeats"] == 1
    assert told["figures"]["mixed_to_slurm"]["dlqueue_warm"]["samples_per_s"] == 2.0
    assert told["figures"]["own_cpu_s"]["dlqueue_cold"] == {"control": 0.5}
    met = {one["what"]: one["met"] for one in told["wanted"]}
    missed = {what for what, is_met in met.items() if not is_met}
    assert all(what.startswith("dlqueue_cold") for what in missed)
    assert "dlqueue_cold: homogeneous samples/s of Slurm as it is" in missed
    assert len(met) == 2 * 6 + 1
    assert len(missed) == 6
    assert "dlqueue_warm" in report.table(told["figures"])


def test_a_run_without_its_baseline_is_left_out() -> None:
    """Nothing is said of a policy whose Slurm as it is has not been measured yet."""
    told = report.result([row("dlqueue_warm", 100, 11)], 2)
    assert told["wanted"] == []
    assert "mixed" not in told["figures"]


def test_nothing_is_divided_while_no_job_runs(tmp_path: Path) -> None:
    """The last job has ended and the next has not begun: the rule is not asked."""
    watched = Watched("jpeg", Group(tmp_path / "gone"), tmp_path, tmp_path / "log")
    held = Actuator(policies.even(2))
    held.jobs, held.seen = [watched], [(watched, "jpeg")]
    held.look()
    assert held.seen == []


@pytest.mark.root
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_a_setting_of_the_command_line_comes_before_ours() -> None:
    """`--set` tries another setting without an edit; all others are a site's that acts."""
    settings = dlqueue_policy.spec(2, {"control": {"mode": "shadow"}}).settings
    assert settings["control.mode"] == "shadow"
    assert settings["site.mode"] == "act"


def test_own_cpu_counts_only_dlqueue() -> None:
    """Processes below the supervisor that are not dlqueue's are not counted."""
    with subprocess.Popen(["sh", "-c", "cat; :"], stdin=subprocess.PIPE) as supervisor:
        assert OwnCpu(supervisor.pid).seconds() == {}
