"""One fault's turn: a cluster is built, measured and taken down, and the row is kept."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster, cluster
from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.measure import Counts, Measurement
from contrib.bench.campaign.state import State
from contrib.bench.common.tree import commit


def measured(fault: Fault, counts: Counts, state: State, logs: Path | None) -> None:
    """Measure a fault on a cluster of its own and keep the row; a missed row's evidence stays."""
    began_s, measured_at, load = time.monotonic(), commit(), os.getloadavg()[0]
    say = _progress(fault.name, began_s)
    with tempfile.TemporaryDirectory(prefix="dlq-campaign-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        say(fault.what)
        with (
            cluster(folder, fault.needs, fault.settings) as running,
            fault.prepared(running),
        ):
            row = Measurement(fault, running, counts, say).row()
            if logs is not None and not row.held:
                _keep(running, logs / fault.name)
    state.keep(row, commit=measured_at, load=load, seconds=time.monotonic() - began_s)
    say(f"{'held' if row.held else 'MISSED'}: {row.harm}, recovery {row.recovery_s}")


def _keep(running: Cluster, into: Path) -> None:
    """The daemons' logs, the accounts and the history as they are."""
    shutil.copytree(running.slurm.path("log"), into, dirs_exist_ok=True)
    sacct = ["sacct", "-a", "-D", "-n", "-P", "-o", "JobID,State,ExitCode,Start,End,NodeList"]
    (into / "sacct").write_text(running.slurm.run(sacct, check=False).stdout, encoding="utf-8")
    for file in running.slurm.path("dlqueue").glob("history.db*"):
        with suppress(FileNotFoundError):  # SQLite removes its log meanwhile
            shutil.copy(file, into)


def _progress(name: str, began_s: float) -> Callable[[str], None]:
    def say(what: str) -> None:
        print(f"{name} {time.monotonic() - began_s:4.0f} s: {what}", file=sys.stderr, flush=True)

    return say
