"""Run folder → sampler → epilog → delivery: hostile summaries, names and lines of squeue.

Each job has an honest summary beside the hostile ones: a record that does not reach the advisor's
folder, that its reader refuses, or that lacks that summary is a finding.
"""

import json
import os
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from contrib.bench.fuzz.mutate import TOKENS, mutated, mutated_text
from contrib.bench.fuzz.pair import STRANGER, STUCK, Pair, Tried
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_node_config
from slurm_ext.node.common import state
from slurm_ext.node.common.config import NodeConfig
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.node.record import compose
from slurm_ext.node.record.reader import read_record
from slurm_ext.node.record.squeue import _FIELDS, parse_squeue
from slurm_ext.node.sampling.run_folder import RunFolder
from slurm_ext.node.transport.worker import deliver_records

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "probe" / "v1.json"
SUMMARIES = 60  # hostile ones of a job
UID = 65534 if os.geteuid() == 0 else os.geteuid()
NAMES = ("summary-{}.json", "summary-{}.json.new", "summary-{}\n.json", "decision", "curve", "mps")
_SAID = {"state": "RUNNING", "time_limit_s": "1-00:00:00", "mem_bytes": "cpu=2,mem=1.50G,node=1"}


def run(inputs: int, random: Random) -> Tried:
    """End jobs with so many hostile files and lines."""
    tried = Tried()
    with tempfile.TemporaryDirectory(prefix="dlq-fuzz-") as folder:
        node = _Node(Path(folder))
        while tried.inputs < inputs:
            given = node.fill(tried.inputs + 1, min(SUMMARIES, inputs - tried.inputs), random)
            with tried.one(given, len(given)):
                node.end(tried, given, random)
    return tried


class _Node:
    """A node's spool, and the folder into which its records go."""

    def __init__(self, root: Path) -> None:
        self.there = root / "advisor"
        self.there.mkdir()
        values = {"site.cluster": "c", "node.spool_dir": str(root / "spool")}
        values |= {"node.folder": str(self.there), "paths.slurm_bin": "/nowhere"}
        text = render_node_config(Settings("fuzz", values))
        self.config, self.spool, self.key = (
            NodeConfig(json.loads(text)),
            Spool(str(root / "spool")),
            "",
        )
        self.spool.prepare()
        self.honest = json.loads(GOLDEN.read_text())

    def fill(self, job: int, many: int, random: Random) -> list[str]:
        """Write a job's run folder; its hostile texts."""
        self.key = f"{job}.0"
        identity = {"job_id": job, "restart": 0, "cluster": "c", "node": "n1", "uid": UID}
        known = {"identity": identity, "boot_id": state.boot_id(), "started_uptime_s": 0.0}
        state.save(self.spool, self.key, "json", known, durable=False)
        make_run_dir(self.spool, self.key, UID)
        texts = [_hostile(self.honest, random) for _ in range(many)]
        self._write("summary-1.json", json.dumps(self.honest))
        for number, text in enumerate(texts, 2):
            self._write(random.choice((NAMES[0], NAMES[0], *NAMES)).format(number), text)
        return texts

    def _write(self, name: str, text: str) -> None:
        path = Path(self.spool.run_dir(self.key), name)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        os.chown(path, UID, -1)

    def end(self, tried: Tried, given: list[str], random: Random) -> None:
        """Sample, compose and deliver."""
        RunFolder(self.spool.run_dir(self.key), UID).look()
        parse_squeue(_line(random), 7)
        compose.compose_record(self.config, self.spool, self.key, time.monotonic() + 60)
        deliver_records(self.config, life_s=0.5)
        path = self.there / f"c-{self.key.replace('.', '-')}-n1.json"
        if not path.exists() or any(Path(self.spool.out).iterdir()):
            tried.add(STUCK, given, "the record is not delivered")
            return
        record = read_record(path)
        path.unlink()
        if record["identity"]["uid"] != UID or record["identity"]["job_id"] != int(self.key[:-2]):
            tried.add(STRANGER, given, "the record is another job's")
        if self.honest["pid"] not in [each.get("pid") for each in record["probe"]["summaries"]]:
            tried.add(STUCK, given, "the honest summary is not in the record")


def _hostile(honest: dict[str, Any], random: Random) -> str:
    text = json.dumps(mutated(honest, random))
    return mutated_text(text, random) if random.random() < 0.3 else text


def _line(random: Random) -> str:
    """A line of squeue, some of its cells damaged."""
    cells = dict.fromkeys((name for name, _, _ in _FIELDS), "0") | _SAID | {"job_id": "7"}
    for _ in range(random.randint(1, 3)):
        name = random.choice(list(cells))
        damaged = (mutated_text(cells[name], random), random.choice(TOKENS), "mem=1e308P")
        cells[name] = random.choice(damaged)
    line = "".join(f"{cells[name]:<{width}}"[:width] for name, _, width in _FIELDS)
    return line.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


PAIR = Pair(
    name="run_folders", about="run folder → sampler → epilog → delivery", share=0.5, run=run
)
