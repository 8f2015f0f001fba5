"""Record → ingest → refresh → train: hostile records and summaries beside an honest user's.

Two ways in: a summary that a job's own process writes, read as the epilog reads it, and a whole
record as a hostile node sends it, whose identity is Slurm's. After each batch the spool has to be
empty, the advisor's memory fresh, and the decision for an honest user's next job what it was.
"""

import json
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from contrib.bench.common import synthetic_history
from contrib.bench.fuzz.mutate import mutated
from contrib.bench.fuzz.pair import STRANGER, STUCK, Pair, Tried
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.cli.train import train_all
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History, open_history
from slurm_ext.node.record.bounds import OutOfBoundsError
from slurm_ext.node.record.summaries import parse_summary

BATCH = 250
HISTORY = 4000  # inputs into one history
HONEST = 60  # runs of the victim
VICTIM = synthetic_history.submission(7)
WITHOUT_WORKERS = 7  # seed of a run that loads its data itself: workers are proposed
ATTACKER = {"user": "nobody", "uid": 65534}


def run(inputs: int, random: Random) -> Tried:
    """Try so many records; each history is trained on once."""
    logging.disable(logging.CRITICAL)  # what is refused is said once a batch
    tried = Tried()
    try:
        while tried.inputs < inputs:
            with tempfile.TemporaryDirectory(prefix="dlq-fuzz-") as folder:
                _one_history(Path(folder), tried, min(HISTORY, inputs - tried.inputs), random)
    finally:
        logging.disable(logging.NOTSET)
    return tried


@dataclass(slots=True)
class _Site:
    """An advisor that acts, and the history that it reads."""

    state: Path
    history: History
    advisor: Advisor
    refresher: Refresher

    def refresh(self) -> dict[str, str]:
        """Faults of one look at the files."""
        self.refresher.refresh()
        return self.refresher.faults()

    def decision(self) -> Any:
        """The change of the victim's submission; its message may rest on runs of others."""
        reply, _ = self.advisor.reply(encode_request("predict", VICTIM), True)
        body = json.loads(reply)
        return {name: body[name] for name in ("eligible", "action", "before", "after", "proposed")}


def _one_history(state: Path, tried: Tried, inputs: int, random: Random) -> None:
    settings = Settings(values={"paths.state_dir": str(state), "site.mode": "act"})
    advisor = Advisor(settings, Journal(state / "journal"))
    with open_history(state / "history.db") as history:
        site = _Site(state, history, advisor, Refresher(advisor, None))
        for number in range(HONEST):
            _put(state, _victims(number), number)
        ingest_folder(history, state / "spool", now_s=2e9)
        site.refresh()
        honest, first = site.decision(), tried.inputs
        while tried.inputs < first + inputs:
            _batch(site, tried, min(BATCH, first + inputs - tried.inputs), random, honest)
        with tried.one("training on all of them", many=0):
            train_all(state, 0)


def _batch(site: _Site, tried: Tried, many: int, random: Random, honest: Any) -> None:
    bodies = [_hostile(tried.inputs + number, random) for number in range(many)]
    for number, body in enumerate(bodies):
        _put(site.state, body, tried.inputs + number + 10**6)
    texts = json.dumps(bodies)
    with tried.one(texts, many):
        report = ingest_folder(site.history, site.state / "spool", now_s=2e9)
        if report.left or any((site.state / "spool").glob("*.json")):
            tried.add(STUCK, texts, f"records wait for ever: {report}")
        if fault := site.refresh():
            tried.add(STUCK, texts, f"the refresher does not go on: {fault}")
        if site.decision() != honest:
            tried.add(STRANGER, texts, "the honest user's next job is decided on otherwise")


def _victims(number: int) -> dict[str, Any]:
    body = synthetic_history.record(number + 1, Random(WITHOUT_WORKERS))
    name = {"user": VICTIM.user_name, "uid": VICTIM.user_id, "job_name": VICTIM.name}
    return {**body, "identity": {**body["identity"], **name}}


def _hostile(number: int, random: Random) -> dict[str, Any]:
    """The attacker's record: its summary, or all that Slurm does not know, is damaged."""
    honest = synthetic_history.record(number + 10**6, random)
    identity = {**honest["identity"], **ATTACKER}
    if random.random() < 0.5:
        summaries, faults = _collected(mutated(honest["probe"]["summaries"][0], random))
        return {**honest, "identity": identity, "probe": {"summaries": summaries, "faults": faults}}
    body = mutated(honest, random)
    return {**body, "identity": identity, "record_id": honest["record_id"]}


def _collected(summary: Any) -> tuple[list[Any], list[str]]:
    """A summary as the epilog collects it."""
    try:
        return [parse_summary(json.dumps(summary).encode())], []
    except OutOfBoundsError as error:
        return [], [str(error)]


def _put(state: Path, body: Any, number: int) -> None:
    spool = state / "spool"
    spool.mkdir(exist_ok=True)
    (spool / f"{number}.json").write_text(json.dumps(body))


PAIR = Pair(name="records", about="record → ingest → refresh → train", share=0.03, run=run)
