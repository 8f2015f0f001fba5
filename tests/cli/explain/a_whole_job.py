"""A job of which everything is known: on two nodes, sampled, probed and changed."""

import json
from pathlib import Path
from typing import Any

from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden"
JOB = 1043
NODES = ("n1", "n2")
TOKEN = "d1-00000000000000aa"
COLUMNS = ["t_s", "cpu_s", "mem_bytes", "io_read_bytes", "gpu_busy_s", "gpu_mem_bytes"]
DECIDED = {
    "token": TOKEN,
    "state": "claimed",
    "decided_s": 1_760_000_000.0,
    "job_id": JOB,
    "mode": "act",
    "action": "change",
    "holdout": 0,
    "reason": "its loader cannot keep up",
    "uid": 1000,
    "level": "same script",
    "runs": 5,
    "factor": 1.0,
    "edits": "{}",
    "before_cpus": 1,
    "before_workers": 0,
    "before_bottleneck": "data",
    "after_cpus": 2,
    "after_workers": 4,
    "after_bottleneck": "accelerator",
    **{f"before_{name}": rate for name, rate in (("samples_per_s", 60), ("low", 50), ("high", 72))},
    **{
        f"after_{name}": rate
        for name, rate in (("samples_per_s", 140), ("low", 120), ("high", 160))
    },
}


def record(name: str, node: str) -> dict[str, Any]:
    """The golden record of a GPU's job on one of NODES, with samples of ten minutes."""
    made: dict[str, Any] = json.loads((GOLDEN / "spool" / "v1-shared-gpu.json").read_text())
    summary = json.loads((GOLDEN / "probe" / "v1.json").read_text())
    made |= {"record_id": f"cluster-{JOB}-0-{node}", "decision": TOKEN}
    made["identity"] |= {"job_id": JOB, "node": node, "user": name, "job_name": name}
    made["times"] |= {"end_s": 1_760_000_601.0, "elapsed_s": 600.0}
    made["probe"] = {"summaries": [summary], "faults": [], "unprobed": None}
    rows = [[t, 1.5 * t, 3e8 + 1e5 * t, 4e6 * t, 0.4 * t, 9e9] for t in range(0, 601, 10)]
    made["timeline"] = {
        "columns": [*COLUMNS, "loop_s", "wait_s"],
        "rows": [[*row, 0.9 * row[0], 0.3 * row[0]] for row in rows],
    }
    return made


def whole_job(folder: Path, name: str) -> Path:
    """A history with that job of a user and a script of this name; returns its settings file."""
    (folder / "spool").mkdir()
    for node in NODES:
        (folder / "spool" / f"{node}.json").write_text(json.dumps(record(name, node)))
    with open_history(folder / "history.db") as history:
        row = {
            **DECIDED,
            "user": name,
            "job_name": name,
            "message": f"dlqueue: {name} gets 4 workers",
        }
        places = ", ".join("?" * len(row))
        statement = f"INSERT INTO decisions ({', '.join(row)}) VALUES ({places})"
        history.conn.execute(statement, list(row.values()))
        ingest_folder(history, folder / "spool", now_s=2e9)
    # No squeue in there: nobody asks a Slurm.
    config = folder / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{folder}"\nslurm_bin = "{folder}"\n')
    return config
