"""Moves of a job as its user may read them."""

import pytest

from slurm_ext.history.views.visible import Viewer
from slurm_ext.questions.explain.queue import told

MOVE = {"move_id": "m", "job_id": 42, "done": "requeue 43", "why": ""}


@pytest.mark.parametrize(
    ("why", "hidden"),
    [
        ("it goes after job 41, place 7", "it goes after another job, place 7"),
        (
            "beside it job 41 was slow beside job 40, 42",
            "beside it another job was slow beside another job",
        ),
        ("its partition has 41 jobs", "its partition has 41 jobs"),
        ("41.0 at least 90% of its speed", "another job at least 90% of its speed"),
    ],
)
def test_no_number_of_another_job_is_told_where_slurm_hides_them(why: str, hidden: str) -> None:
    """PrivateData=jobs: what one user's job is compared with may be anybody's."""
    moves = [{**MOVE, "why": why}]
    assert told(moves, Viewer(user="ann", uid=1000)) == moves
    (shown,) = told(moves, Viewer(user="ann", uid=1000, hides_others=True))
    assert (shown["why"], shown["done"], shown["job_id"]) == (hidden, "requeue another job", 42)
