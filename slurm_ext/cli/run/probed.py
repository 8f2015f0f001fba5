"""One run under the probe: its folder, its environment, and the record of its end."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common.job import PROBE_SITE, clean, gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

CLEAR_S = 1.0  # for the run's folder, at its end
READ_S = 5.0  # for its summaries
CLUSTER = "own"


class Watched:
    """A program that runs under the probe, from before its start to after its end."""

    def __init__(self, argv: list[str], work_dir: str, workers: int | None) -> None:
        """`workers`: where its search for a worker count starts; None: from its own setting."""
        self._argv, self._work_dir = argv, work_dir
        above = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 (the folder below is new and ours)
        # Links end here: a program may change its folder, and removal follows none.
        self.run_dir = f"{os.path.realpath(above)}/dlqueue-run-{os.urandom(8).hex()}"
        os.mkdir(self.run_dir, 0o700)
        self._began_s, self._clock_s = time.time(), time.monotonic()
        before = os.environ.get("PYTHONPATH")
        path = f"{PROBE_SITE}:{before}" if before else PROBE_SITE
        wishes = {"DLQUEUE_AUTOTUNE": "1"}
        if workers is not None:
            wishes["DLQUEUE_NUM_WORKERS"] = str(workers)
        ours = {"DLQUEUE_RUN_DIR": self.run_dir, "PYTHONPATH": path}
        self.env = {**wishes, **os.environ, **ours}  # a word of the user's own comes first

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from slurm_ext.node.common.removal import remove_tree

        above, name = os.path.split(self.run_dir)
        remove_tree(name, above, time.monotonic() + CLEAR_S)

    def ended(self, status: int, cpu_s: tuple[float, float]) -> dict[str, Any]:
        """Document for `own_history.keep`: the run record without its number, and the command."""
        elapsed_s = time.monotonic() - self._clock_s
        from shlex import join

        from slurm_ext.node.record import fields
        from slurm_ext.node.record.summaries import collect

        left = collect(self.run_dir, os.geteuid(), time.monotonic() + READ_S)
        record = {
            "v": fields.VERSION,
            "kind": fields.KIND,
            "identity": _identity(self._argv, self._work_dir),
            "allocation": _allocation(),
            "times": {
                "start_s": self._began_s,
                "end_s": self._began_s + elapsed_s,
                "elapsed_s": round(elapsed_s, 3),
            },
            "outcome": _outcome(status),
            "host": {"cores": os.cpu_count(), "kernel": os.uname().release},
            "counters": [
                {"name": f"cpu_{name}", "unit": "s", "source": "getrusage", "value": round(used, 3)}
                for name, used in zip(("user", "system"), cpu_s, strict=True)
            ],
            "corunners": [],
            "timeline": None,
            "decision": f"d1-{os.urandom(8).hex()}",
            "probe": {"summaries": left.summaries, "faults": left.faults},
        }
        return {"command": clean(join(self._argv)), "record": record}


def _identity(argv: list[str], work_dir: str) -> dict[str, Any]:
    return {
        "cluster": CLUSTER,
        "restart": 0,
        "node": os.uname().nodename.partition(".")[0],
        "user": _user(),
        "uid": os.geteuid(),
        "job_name": clean(_program(argv)),
        "work_dir": clean(work_dir),
    }


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _program(argv: list[str]) -> str:
    """The first word that looks like a program of the user's; else the command itself."""
    return os.path.basename(next((word for word in argv if word.endswith(".py")), argv[0]))


def _allocation() -> dict[str, Any]:
    cpus = len(os.sched_getaffinity(0))
    return {
        "cpus": cpus,
        "cpus_per_task": cpus,
        "num_tasks": 1,
        "num_nodes": 1,
        "gpus": gpus(os.environ),
    }


def _outcome(status: int) -> dict[str, Any]:
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 0 if signal else os.WEXITSTATUS(status)
    return {
        "state": "COMPLETED" if not signal and not code else "FAILED",
        "exit_code": code,
        "signal": signal,
        "source": "node",
    }
