"""Evidence of gradients' way to other ranks, from records that users' processes wrote."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.records import SyncRun
from slurm_ext.core.stalls.bucket_caps import as_mib, as_text, is_caps
from slurm_ext.core.stalls.sync_run import sync_run
from slurm_ext.probe.buckets.request import BucketRequest

FOLDER = Path(__file__).parents[1] / "golden"
PROBE = json.loads((FOLDER / "probe" / "v1.json").read_text(encoding="utf-8"))
RECORD = json.loads((FOLDER / "spool" / "v1.json").read_text(encoding="utf-8"))


def record(**buckets: Any) -> dict[str, Any]:
    """The golden record with the golden summaries of two ranks; the second has no ready times."""
    made: dict[str, Any] = deepcopy(RECORD)
    first, second = deepcopy(PROBE), deepcopy(PROBE)
    first["communication"]["buckets"] |= buckets
    for rank, summary in enumerate((first, second)):
        summary |= {"rank": rank, "world_size": 2, "pid": 4242 + rank}
    second["communication"]["buckets"] |= {"ready_bytes": [], "ready_s": []}
    made["probe"]["summaries"] = [second, first]
    made["allocation"] |= {"num_tasks": 2}
    return made


def evidence(**buckets: Any) -> SyncRun:
    """Of such a record."""
    found = sync_run(record(**buckets))
    assert found is not None
    return found


def test_the_evidence_of_the_golden_summary() -> None:
    """By rank 0's word on its gradients, wherever it stands in the record."""
    found = evidence()
    assert (found.signature, found.ranks, found.nodes) == ("3f0c9a51be77", 2, 1)
    assert (found.backend, found.accelerator, found.caps) == ("gloo", None, None)
    assert found.takes_lists
    assert found.exposed_s == pytest.approx(0.0090, abs=1e-4)
    assert found.syncs == 1.0
    assert 0 < found.waiting < 1
    assert sum(found.ready_bytes) == sum(found.bucket_bytes) == 27262976
    assert found.ready_s == (0.0455, 0.031, 0.0165, 0.0)


@pytest.mark.parametrize(
    "buckets",
    [
        {"ready_s": []},
        {"ready_s": [0.0, 0.1, 0.2, 0.3]},
        {"ready_s": [1e9, 0.1, 0.1, 0.0]},
        {"ready_bytes": [0, 0, 0, 0]},
        {"ready_bytes": [1, 1, 1, 1]},
        {"signature": "x; rm -rf /"},
        {"caps": "4096; true"},
        {"caps": "x,,"},
    ],
)
def test_what_no_training_measures_is_no_evidence(buckets: dict[str, Any]) -> None:
    """Times out of order, other bytes than were sent, texts of another form."""
    assert sync_run(record(**buckets)) is None


def test_records_that_nobody_asked_have_none() -> None:
    """As all records of before."""
    made = record()
    for summary in made["probe"]["summaries"]:
        summary["communication"] = None
    assert sync_run(made) is None
    assert sync_run(RECORD) is None


def test_a_reason_is_plain_text() -> None:
    """A user's own process wrote it."""
    assert evidence(left_alone="\x1b[31mred").left_alone == "\\x1b[31mred"


def test_loaders_without_batches_are_no_evidence() -> None:
    """A made-up record divides nothing by zero."""
    made = record()
    for summary in made["probe"]["summaries"]:
        for phase in summary["loaders"][0]["phases"]:
            phase["batches"] = 0
    assert sync_run(made) is None


@pytest.mark.parametrize(
    ("caps", "text"),
    [
        ([4096.0], "4096"),
        ([512.9, 1024, 1024, 8192], "512,1024x2,8192"),
        ([0.2, 1 << 30], f"1,{1 << 22}"),
        ([2.0] * 24, "2x24"),
    ],
)
def test_the_probe_reads_the_sizes_that_are_written(caps: list[float], text: str) -> None:
    """The longest list fits into a variable."""
    assert as_text(caps) == text
    assert is_caps(text)
    request = BucketRequest({"DLQUEUE_BUCKETS": f"3f0c9a51be77:2:{text}"})
    assert [kib / 1024 for kib in request.caps_kib] == as_mib(text)
    assert len(as_text([float(4_000_000 + place) for place in range(24)])) <= 220
