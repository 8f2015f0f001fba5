"""Files, functions and rooms that one real call passes in `slurm_ext`, counted by sys.setprofile.

`python -m contrib.bench.house.ways submission` (or ingest, predict) prints one JSON object with the
counts and the functions' names. A function counts once; lambdas, comprehensions and generated code
(a dataclass's `__init__`) count only as calls. Functions are listed in the order in which they are
first entered; a room switch is a change of room in this list.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import slurm_ext

if TYPE_CHECKING:
    from slurm_ext.advisor.service.advisor import Advisor
    from slurm_ext.core.records import LoaderRun, Submission

RUNS = 8
PACKAGE = f"{Path(slurm_ext.__file__).parent}/"


@dataclass(slots=True)
class Way:
    """Functions that were entered, in this order, with the number of their calls."""

    functions: dict[CodeType, int] = field(default_factory=dict)
    calls: int = 0  # of all that is written in Python: libraries, comprehensions, generated code

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """A profiler for sys.setprofile."""
        code = frame.f_code
        self.calls += event == "call"
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            self.functions[code] = self.functions.get(code, 0) + 1

    def as_json(self) -> dict[str, Any]:
        """Counts, and the names behind them."""
        places = [
            f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"
            for code in self.functions
        ]
        rooms = [place.partition("/")[0] for place in places]
        return {
            "files": len({place.partition(":")[0] for place in places}),
            "functions": len(places),
            "own_calls": sum(self.functions.values()),
            "calls": self.calls,
            "room_switches": sum(room != other for room, other in pairwise(rooms)),
            "names": places,
        }


def way_of(call: Callable[[], object]) -> dict[str, Any]:
    """Counts of what `call` passes."""
    way = Way()
    sys.setprofile(way.enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return way.as_json()


def submission() -> dict[str, Any]:
    """A first submission of its kind, from its line to the reply's, by an advisor that acts."""
    from slurm_ext.advisor.evidence.whole_run import whole_run_predictor
    from slurm_ext.core.wire import encode_request

    with tempfile.TemporaryDirectory() as folder:
        advisor, job = advisor_of(Path(folder))
        texts = (f"{job.script}: --seed {number}\n" for number in range(2))
        first, other = (replace(job, script=text) for text in texts)
        advisor.reply(encode_request("submit", first), trusted=True)  # settles what is lazy
        whole_run_predictor.cache_clear()  # no shape was asked for before
        line = encode_request("submit", other)
        return way_of(lambda: advisor.reply(line, trusted=True))


def advisor_of(folder: Path, runs: "Sequence[LoaderRun]" = ()) -> tuple["Advisor", "Submission"]:
    """An advisor with runs of the user's script with other seeds, and such a job."""
    import numpy as np

    from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY
    from slurm_ext.advisor.limits.bounds import PartitionRules
    from slurm_ext.advisor.limits.partition_limits import ClusterRules
    from slurm_ext.advisor.pipeline.journal import Journal
    from slurm_ext.advisor.service.advisor import Advisor
    from slurm_ext.advisor.service.warm_up import JOB, RUN
    from slurm_ext.core.job_keys import keys_of
    from slurm_ext.core.settings.document import Settings

    settings = {"site.mode": "act", "policy.holdout_share": 0.0}
    advisor = Advisor(Settings(values=settings), Journal(folder))
    advisor.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    keys = keys_of(replace(JOB, script=f"{JOB.script}: --seed {RUNS}\n"))
    rows = [[getattr(run, name) for name in COLUMNS] for run in runs or [RUN] * RUNS]
    columns = [np.full(len(rows), keys.get(level, NO_KEY), np.int64) for level in LEVELS]
    owners = np.zeros(len(rows), np.int32)
    advisor.runs.extend(np.array(rows, np.float32), columns, owners)  # None becomes NaN
    return advisor, JOB


def ingest() -> dict[str, Any]:
    """One record into a history that has taken one before."""
    import time

    from contrib.bench.common.synthetic_history import write_records
    from slurm_ext.history.ingest.spool_folder import ingest_folder
    from slurm_ext.history.store.store import open_history

    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        with open_history(Path(folder) / "history.db") as history:
            write_records(spool, 1, 1)
            ingest_folder(history, spool, now_s=time.time())
            write_records(spool, 2, 1)
            return way_of(lambda: ingest_folder(history, spool, now_s=time.time()))


def predict() -> dict[str, Any]:
    """`dlqueue predict` with neither advisor nor history."""
    from contrib.bench.common.synthetic_history import script
    from slurm_ext.cli import main as dlqueue

    with tempfile.TemporaryDirectory() as folder:
        job, settings = Path(folder) / "job.sh", Path(folder) / "dlqueue.toml"
        job.write_text(script(1))
        paths = f'[paths]\nstate_dir = "{folder}/state"\nsocket = "{folder}/none.sock"\n'
        settings.write_text(paths)
        with contextlib.redirect_stdout(io.StringIO()):
            return way_of(lambda: dlqueue(["predict", str(job), "--config", str(settings)]))


WAYS = {"submission": submission, "ingest": ingest, "predict": predict}


def counted(name: str) -> dict[str, Any]:
    """Counts of one way in a process of its own, where nothing was imported or cached before."""
    command = [sys.executable, "-m", __spec__.name, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts


if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](), indent=1))
