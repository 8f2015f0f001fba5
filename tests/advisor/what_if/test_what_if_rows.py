"""A job in other shapes: which rows there are, what they say, and which one is recommended."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.what_if.shapes import MOST_CHOSEN, ClusterNodes
from slurm_ext.advisor.what_if.table import MOST_ROWS, WhatIfRow
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.slurm import StartEstimate
from tests.advisor.what_if.drafts import (
    NOW_S,
    RUN,
    drafted,
    marked,
    rate,
    table,
)


def test_the_table_has_the_written_the_recommended_the_knee_and_the_maximum() -> None:
    """At a glance: at most a dozen rows, each mark once, in the order of their size."""
    made = table(RUN)
    written, chosen = marked(made, "written"), marked(made, "recommended")
    knee, most = marked(made, "knee"), marked(made, "maximum")
    assert len(made.rows) <= MOST_ROWS
    assert (written.layout.cpus_per_task, written.layout.num_workers) == (4, 1)
    assert rate(written) < rate(knee) <= rate(most)
    assert rate(chosen) >= 0.95 * rate(most)
    assert knee.layout.cpus_per_task <= most.layout.cpus_per_task
    order = [(row.layout.gpus, row.layout.cpus_per_task) for row in made.rows]
    assert order == sorted(order)


def test_run_time_comes_from_the_jobs_own_work_and_carries_both_doubts() -> None:
    """Samples of earlier runs over the row's rate, and the seconds beside the training loop."""
    row = marked(table(RUN, RUN), "written")
    assert row.rate is not None
    assert row.run_s == pytest.approx(36_000 / rate(row) + 30)
    assert row.run_interval is not None
    assert row.run_interval.low == pytest.approx(36_000 / row.rate.interval.high + 30)
    assert row.run_interval.high == pytest.approx(36_000 / row.rate.interval.low + 30)
    vague = marked(table(RUN, replace(RUN, run_samples=30_000.0, outside_s=90.0)), "written")
    assert vague.run_interval is not None
    assert vague.run_interval.low < row.run_interval.low
    assert vague.run_interval.high > row.run_interval.high


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([replace(RUN, run_samples=None)], "no run of this script has come to its end"),
        ([replace(RUN, run_samples=0.0)], "no run of this script has come to its end"),
        ([RUN, replace(RUN, run_samples=3e6)], "different amounts of work: 3.6e+04 to 3e+06"),
    ],
)
def test_unknown_or_contradictory_work_gives_rates_without_run_times(
    runs: list[LoaderRun], why: str
) -> None:
    """Nothing is averaged over runs that were told to do different things."""
    row = marked(table(*runs), "written")
    assert row.rate is not None
    assert (row.run_s, row.result_s) == (None, None)
    assert why in row.run_why


def test_other_jobs_of_the_kind_say_how_fast_but_not_how_long() -> None:
    """Their amount of work is theirs."""
    runs = [replace(RUN, accel_samples_per_s=100.0 + n) for n in range(8)]
    row = marked(table(*runs, level=Level.KIND), "written")
    assert row.rate is not None
    assert row.run_s is None


def test_without_history_the_row_as_written_is_there_and_says_that_nothing_is_known() -> None:
    """No rate is invented; what Slurm says of the wait is told all the same."""
    made = table(says=lambda _: StartEstimate(start_s=int(NOW_S) + 60))
    (row,) = made.rows
    assert row.marks == ("written",)
    assert (row.rate, row.rate_why, row.wait_s) == (
        None,
        "I do not know yet: no runs like this one",
        60.0,
    )


def test_runs_that_contradict_each_other_widen_the_interval_or_say_nothing() -> None:
    """Three times faster at the same shape is doubt; twenty times is no answer."""

    def faster(by: float) -> WhatIfRow:
        other = replace(
            RUN,
            samples_per_s=12.0 * by,
            accel_samples_per_s=100.0 * by,
            fetch_wall_s=0.08 / by,
            fetch_cpu_s=0.078 / by,
        )
        return marked(table(RUN, other), "written")

    sure, doubtful = faster(1.0).rate, faster(3.0).rate
    assert sure is not None
    assert doubtful is not None
    assert doubtful.interval.high / doubtful.interval.low > sure.interval.high / sure.interval.low
    assert faster(20.0).rate is None
    why = "I do not know: 2 runs like this one contradict each other: 12 to 240 samples/s"
    assert faster(20.0).rate_why == why


def test_time_to_result_is_waiting_and_running() -> None:
    """From now on; a start that has passed is no wait."""
    row = marked(table(RUN, says=lambda _: StartEstimate(start_s=int(NOW_S) + 600)), "written")
    assert row.run_s is not None
    assert (row.wait_s, row.result_s) == (600.0, 600.0 + row.run_s)
    late = marked(table(RUN, says=lambda _: StartEstimate(start_s=1)), "written")
    assert late.wait_s == 0.0
    unknown = marked(table(RUN, says=lambda _: StartEstimate(why="away")), "written")
    assert (unknown.wait_s, unknown.result_s) == (None, None)


def test_what_slurm_refuses_is_shown_and_never_recommended() -> None:
    """The next best row that Slurm takes is; where it takes none, none is."""
    free = marked(table(RUN), "recommended").layout.cpus_per_task
    made = table(
        RUN,
        says=lambda one: (
            StartEstimate(refused="no") if one.cpus_per_task >= free else StartEstimate(start_s=0)
        ),
    )
    chosen = marked(made, "recommended")
    assert chosen.layout.cpus_per_task < free
    assert [row for row in made.rows if row.start.refused]
    none = table(RUN, says=lambda _: StartEstimate(refused="no"))
    assert not any("recommended" in row.marks for row in none.rows)


def test_a_job_that_is_fine_as_written_is_recommended_as_written() -> None:
    """Nobody is sent to another shape for nothing."""
    fine = replace(
        RUN, samples_per_s=99.0, fetch_wall_s=0.001, fetch_cpu_s=0.0005, cores=1.0, user_workers=1
    )
    made = table(fine, fine, head="#SBATCH -c 1 --gres=gpu:1")
    assert "recommended" in marked(made, "written").marks
    offline = table(
        fine, fine, head="#SBATCH -c 1 --gres=gpu:1", rules=None, machines=ClusterNodes()
    )
    assert "recommended" in marked(offline, "written").marks


def test_the_cpus_that_a_user_wrote_may_be_advised_although_dlqueue_would_keep_them() -> None:
    """The table is for people who can change their script; the site's settings are told apart."""
    made = table(RUN)
    assert made.thought.decision is not None
    assert made.thought.decision.after.cpus_per_task == 4
    assert marked(made, "recommended").layout.cpus_per_task > 4


def test_chosen_axes_make_their_rows() -> None:
    """Cores and workers as asked, best workers where none were named, and always the written."""
    made = table(RUN, cores=(1, 2), workers=(3, 5))
    asked = {(row.layout.cpus_per_task, row.layout.num_workers) for row in made.rows}
    assert {(1, 3), (1, 5), (2, 3), (2, 5), (4, 1)} <= asked
    made = table(RUN, cores=(2,))
    (row,) = [row for row in made.rows if row.layout.cpus_per_task == 2]
    assert row.layout.num_workers >= 2


def test_too_many_combinations_are_refused() -> None:
    """A table of hundreds of rows would ask slurmctld hundreds of questions."""
    with pytest.raises(UsageError, match=f"make 100 rows; at most {MOST_CHOSEN}"):
        drafted(RUN, cores=tuple(range(1, 11)), workers=tuple(range(10)))
