"""Templates refuse gaps, and a user's words stay words."""

import jinja2
import pytest

from slurm_ext.report.render import as_text, render

JOB = {
    "script": "train|*.sh\x1b[31m",
    "left_alone": False,
    "cpus_per_task": (8, 1),
    "num_workers": (0, 2),
    "samples_per_s": (40.0, 80.0),
    "predicted_samples_per_s": 79.0,
    "interval": (70.0, 90.0),
    "message": "<script>",
    "emulated": True,
}
FACTS = {
    "slurm_version": "22.05",
    "cores": 2,
    "accelerator": "emulated",
    "rejected_jobs": 0,
    "drained_nodes": 0,
    "records": 8,
}


def test_a_name_that_is_missing_is_an_error() -> None:
    """A template never prints an empty cell for what nobody gave it."""
    with pytest.raises(jinja2.UndefinedError):
        render("demo.md.jinja", jobs=[JOB])


def test_a_hostile_name_stays_in_its_cell() -> None:
    """Pipes, markup and terminal escapes of a script's name do not break the table."""
    row = next(
        line
        for line in render("demo.md.jinja", jobs=[JOB], **FACTS).splitlines()
        if "8 → 1" in line
    )
    assert "\x1b" not in row
    assert "train\\|\\*.sh·" in row
    assert "2.00x" in row


def test_words_become_one_line() -> None:
    """A line break in a name does not start a new table row."""
    assert as_text("a\nb") == "a·b"
