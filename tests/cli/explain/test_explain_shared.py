"""`dlqueue explain` of a job that shared its node: with whom, what, for how long, at what cost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.explain.text import lines
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History, open_history
from slurm_ext.questions.explain.document import explained

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
UUID = "GPU-5a1f0e6c"


def _record(job_id: int, rate: float, corunners: list[dict[str, Any]]) -> dict[str, Any]:
    """A run of ada's train.sh that trained at `rate` of the golden one's samples/s."""
    record: dict[str, Any] = json.loads(GOLDEN.read_text())
    record["record_id"] = f"cluster-{job_id}-0-n1"
    record["identity"]["job_id"], record["decision"] = job_id, None
    record["corunners"] = corunners
    record["times"]["end_s"] += job_id
    for phase in record["probe"]["summaries"][0]["loaders"][0]["phases"]:
        phase.update({"samples": phase["samples"] * rate})
    return record


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Three runs alone, one beside job 9001 all the time at four fifths, one of somebody else."""
    spool = tmp_path / "spool"
    spool.mkdir()
    shared = {"cpus": 0, "sockets": 1, "gpus": [UUID]}
    company: list[dict[str, Any]] = [
        {"job_id": 9001, "overlap_s": 41.5, "shared": shared},
        {"job_id": 9002, "overlap_s": 1.0},
    ]
    records = [_record(job_id, 1.0, []) for job_id in (1, 2, 3)] + [_record(4, 0.8, company)]
    other = _record(9001, 0.5, [{"job_id": 4, "overlap_s": 41.5, "shared": shared}])
    other["identity"].update({"user": "bob", "job_name": "other.sh"})
    for record in [*records, other]:
        (spool / f"{record['record_id']}.json").write_text(json.dumps(record))
    with open_history(tmp_path / "history.db") as history:
        ingest_folder(history, spool, now_s=1_760_000_100.0)
        yield history


def test_partners_places_and_cost_are_told(history: History) -> None:
    """The longest first; the cost is measured against the job's own runs alone."""
    found = explained(history, "4")["runs"][0]["shared"]
    first, second = found["partners"]
    assert (first["job_id"], first["user"], first["job_name"]) == (9001, "bob", "other.sh")
    assert (first["shared"]["gpus"], second["shared"]) == ([UUID], None)
    assert (found["cost"]["by"], found["cost"]["runs"]) == ("samples", 3)
    assert found["cost"]["speed"] == pytest.approx(0.8, abs=0.01)
    assert found["cost"]["together"] == pytest.approx(0.8, abs=0.01)


def test_people_read_the_same(history: History) -> None:
    """One line a partner and one of the cost, with how sure it is."""
    said = "\n".join(lines(explained(history, "4")))
    assert "with job 9001 (bob's other.sh) for 41.5 s (100% of its time): GPU GPU-5a1f0e6c" in said
    assert "no CPU, but a socket" in said
    assert "with job 9002 for 1 s (2% of its time): the node; what of it, nobody looked" in said
    assert "ran at 0.80 of its own speed" in said
    assert "against 3 of its runs alone" in said


def test_without_a_run_alone_the_cost_is_not_guessed(history: History) -> None:
    """Bob's job was never alone."""
    document = explained(history, "9001")
    assert document["runs"][0]["shared"]["cost"] is None
    assert any("not known" in line for line in lines(document))


def test_a_run_alone_says_nothing_of_sharing(history: History) -> None:
    """Neither in JSON nor in the text."""
    document = explained(history, "1")
    assert document["runs"][0]["shared"] is None
    assert not any(line.startswith(("shared", "cost")) for line in lines(document))
