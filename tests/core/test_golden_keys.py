"""Keys of the submissions that golden files hold: a release changes none of an ordinary job."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Submission

GOLDEN = Path(__file__).parent.parent / "golden" / "keys"


def keys_by_name(job: dict[str, Any]) -> dict[str, int]:
    """The keys of a golden line's job."""
    submission = Submission(**{**job, "argv": tuple(job["argv"])})
    return {level.name: key for level, key in keys_of(submission).items()}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: str(path.name))
def test_every_release_gives_the_same_keys(path: Path) -> None:
    """Histories hold them: with another key, a site's runs would be unknown to its jobs."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    changed = [one["about"] for one in lines if keys_by_name(one["job"]) != one["keys"]]
    assert len(lines) > 100
    assert changed == []
