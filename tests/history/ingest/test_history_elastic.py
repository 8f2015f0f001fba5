"""What DLQUEUE_ELASTIC said in a submission's environment travels by journal and ledger."""

import json
from pathlib import Path

from slurm_ext.history.ingest.decisions import claim, elastic_jobs, record_proposals
from slurm_ext.history.ingest.proposals import line_of, proposal_of
from slurm_ext.history.store.store import open_history
from tests.history.ingest.test_history_decisions import proposal


def test_only_jobs_that_are_known_by_their_id_are_told(database: Path) -> None:
    """Of a proposal that became none, or said nothing, there is nothing to tell."""
    said = {"d1-a": "1-8", "d1-b": None, "d1-c": "2-4"}
    asked = proposal("d1-a")
    lines = [line_of(proposal(token, elastic=word)) for token, word in said.items()]
    with open_history(database) as history:
        record_proposals(history, [proposal_of(line.encode()) for line in lines], "one.jsonl", 1)
        claim(history, "d1-a", 7, uid=asked.uid, now_s=0.0)
        claim(history, "d1-b", 8, uid=asked.uid, now_s=0.0)
        assert elastic_jobs(history) == {(7, asked.uid, asked.job_name): "1-8"}


def test_a_journal_of_before_is_read() -> None:
    """Its lines say nothing of it."""
    line = json.loads(line_of(proposal(elastic="1-8")))
    assert proposal_of(json.dumps(line).encode()).elastic == "1-8"
    del line["elastic"]
    assert proposal_of(json.dumps(line).encode()).elastic is None
