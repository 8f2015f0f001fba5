"""Coverage of a week is a range where jobs still ran when the trace was cut."""

import numpy as np

from contrib.bench.duration.scores import DAY_S, FEWEST, judged_weeks, weeks_of_all

HELD = (0.88, 0.92)


def test_jobs_that_still_run_may_end_inside_or_outside() -> None:
    """Of 100 jobs 5 run, and one of these is older than its upper bound already."""
    inside, running, beyond = (np.zeros(100, dtype=bool) for _ in range(3))
    inside[:90] = True
    running[95:] = beyond[99:] = True
    ((jobs, least, most),) = weeks_of_all(inside, running, beyond, np.arange(100.0))
    assert (jobs, least, most) == (100, 0.90, 0.94)


def test_the_age_of_a_running_job_is_not_taken_for_its_run_time() -> None:
    """An age within the interval says nothing of where the job will end."""
    inside = running = np.ones(4, dtype=bool)
    weeks = weeks_of_all(inside, running, ~running, np.array([0.0, 1.0, 8 * DAY_S, 8 * DAY_S]))
    assert weeks == [(2, 0.0, 1.0), (2, 0.0, 1.0)]


def test_a_week_is_judged_where_its_running_jobs_cannot_decide() -> None:
    """Small weeks, and those that may be on either side of a bound, are only listed."""
    good, unsure, small = (FEWEST, 0.89, 0.91), (FEWEST, 0.87, 0.93), (FEWEST - 1, 0.1, 0.1)
    assert judged_weeks([good, unsure, small], HELD) == ([0.89, 0.91], True)
    assert judged_weeks([good, (FEWEST, 0.93, 0.97)], HELD) == ([0.89, 0.97], False)
    assert judged_weeks([good, (FEWEST, 0.8, 0.87)], HELD) == ([0.8, 0.91], False)
    assert judged_weeks([unsure, small], HELD) == (None, False)
