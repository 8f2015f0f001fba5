"""The advisor's rehearsal before it listens."""

import json
from pathlib import Path

from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.warm_up import JOB, warm_up
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request


def test_the_rehearsal_leaves_nothing_behind(tmp_path: Path) -> None:
    """No entry in the journal, no run and no rule: the made-up job is unknown afterwards."""
    journal = Journal(tmp_path)
    advisor = Advisor(Settings(), journal)
    warm_up(advisor)
    journal.close()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""]
    assert len(advisor.runs) == 0
    reply, stays = advisor.reply(encode_request("predict", JOB), trusted=True)
    assert (stays, b"no runs like this one" in reply) == (True, True)


def test_the_rehearsal_goes_all_the_way(tmp_path: Path) -> None:
    """It is worth its time only where it ends in an edit: understand, think, decide, write."""
    journal = Journal(tmp_path)
    reply = json.loads(warm_up(Advisor(Settings(), journal)))
    journal.close()
    assert reply["edits"]["cpus_per_task"] > 1
    assert reply["decision"].startswith("d1-")
