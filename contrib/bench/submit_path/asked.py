"""An advisor and a Lua that are asked in this process, and what a submission costs each."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrib.bench.house.ways import advisor_of
from contrib.bench.submit_path.hostile import as_bytes
from slurm_ext.advisor.evidence.whole_run import whole_run_predictor
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.gpu_pools import GpuPool
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.service.warm_up import RUN
from slurm_ext.core.records import LoaderRun
from slurm_ext.core.settings.document import Settings
from tests.lua.lua_process import Expression, Lua, install, literal

CPUS, CPUS_ALONE = 128, 8  # of a node
# Runs of several shapes that waited for their cores.
CROWDED = tuple(
    replace(
        RUN,
        workers=workers,
        cores=float(workers + 1),
        samples_per_s=7.0 * workers,
        accel_samples_per_s=1000.0,
        fetch_wall_s=0.14,
        fetch_queued_s=0.06,
        step_queued_s=0.0,
        main_queued_s=0.0,
    )
    for workers in range(1, 9)
)
SETTINGS = {
    "site.mode": "act",
    "policy.holdout_share": 0.0,
    "sharing.mode": "act",
    "elastic.mode": "act",
    "control.mode": "act",
}
TIMED = """local job = mock_job(...)
local from = os.clock()
local line = request.line(job, job.script, {}, 50, 0)
local took = os.clock() - from
return { line = line, took = took * 1000 }
"""
ANSWERED = """local job = mock_job({}, {}, {})
local from = os.clock()
local writes, message = edits.from_reply(...)
edits.apply(job, writes)
return (os.clock() - from) * 1000
"""


class Bench:
    """An advisor that knows the job's user and name, and a Lua that asks it."""

    def __init__(
        self, folder: Path, runs: Sequence[LoaderRun] = (), cpus: int = CPUS_ALONE
    ) -> None:
        self.advisor, self.job = advisor_of(folder, runs)
        self.advisor.settings = Settings(values=SETTINGS)
        self.advisor.rules = _rules(cpus)
        install(folder, Settings())
        self.lua = Lua("lua5.1")
        parts = "json = dofile(... .. '/json.lua') edits = loadfile(... .. '/edits.lua')(json)"
        request = "request = dofile(... .. '/request.lua')"
        self.lua.run(f"{parts} {request}", str(folder).encode())
        self.count = 0

    def took_ms(self, script: str, fields: Mapping[str, Any]) -> tuple[float, float]:
        """CPU of the advisor and of Lua for one submission, which none was before."""
        self.count += 1
        whole_run_predictor.cache_clear()
        whole = {
            "name": self.job.name,
            "user_name": self.job.user_name,
            "partition": "none",
            **{name: as_bytes(self._new(value)) for name, value in fields.items() if name != "env"},
            "work_dir": f"/{self.count}" + fields.get("work_dir", ""),
            "script": Expression("(...)"),
        }
        given = ", ".join(map(literal, (whole, fields.get("env", {}), {})))
        asked = self.lua.run(TIMED.replace("...", given), as_bytes(script))
        from_s = time.thread_time()
        reply, _ = self.advisor.reply(asked[b"line"], trusted=True)
        took_ms = (time.thread_time() - from_s) * 1000
        return took_ms, asked[b"took"] + self.lua.run(ANSWERED, reply.rstrip(b"\n"))

    def _new(self, value: Any) -> Any:
        """The value with this submission's number in it, where it has a place for that."""
        return value.replace("{number}", str(self.count)) if isinstance(value, str) else value


def _rules(cpus: int) -> ClusterRules:
    names = ["none", *(f"p{number}" for number in range(200))]
    return ClusterRules(
        partitions={name: PartitionRules(cpus_per_node=cpus) for name in names},
        pools={name: GpuPool(nodes=frozenset(map(str, range(100)))) for name in names},
    )
