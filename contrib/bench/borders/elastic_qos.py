"""Attacks on limits: an elastic job that would have more than its user's QOS allows."""

import json
import sys
import tempfile
import time
from pathlib import Path

from contrib.bench.borders.attack import Attack, Happened, as_user
from slurm_ext.sandbox import Sandbox, SandboxSpec

USER = "games"  # of whom every release knows: 26.05 has no user "nobody"
MOST, WANTED = 2, 8  # GPUs of the QOS, and of the node
SCRIPT = "#!/bin/sh\nwhile :; do sleep 1; done\n"
REPORT = {
    "v": 1,
    "left": 1e9,
    "limits": {"initial": 128, "most": 4096, "local_least": 16, "local_most": 512},
    "noise": {"square": 1.0, "variance": 1000.0},
    "steps": [{"gpus": 1, "nodes": 1, "local": 128, "compute_s": 0.1, "sync_s": 0.0}],
}


def exceed_qos(folder: Path) -> Happened:
    """Report a training that gains by every GPU there is."""
    spec = SandboxSpec(
        cpus=WANTED,
        gpus=WANTED,
        accounting=True,
        slurm_conf="AccountingStorageEnforce=limits,qos\n",
        settings={"elastic.mode": "shadow", "elastic.least_s": 1.0},
    )
    with Sandbox(folder / "s", spec, temporary=True) as slurm:
        for words in (
            f"add qos small set MaxTRESPerUser=gres/gpu={MOST}",
            f"add user {USER} account=sandbox",
            f"modify user {USER} set qos+=small defaultqos=small",
        ):
            slurm.run(["sacctmgr", "-i", *words.split()])
        planned = _planned(slurm)
    beyond = [move for move in planned if move["after"]["gpus"] > MOST]
    grown = any(move["after"]["gpus"] == MOST for move in planned)
    return Happened(held=not beyond and grown, what=str([move["done"] for move in planned]))


def _planned(slurm: Sandbox) -> list[dict[str, dict[str, int]]]:
    """Moves that one look of the loop would make of the attacker's running job."""
    with tempfile.TemporaryDirectory(dir=slurm.layout.root) as name:
        work = Path(name)
        work.chmod(0o777)
        argv = ("--requeue", "--gres=gpu:1", "--comment=DLQUEUE_ELASTIC=1-8", f"--chdir={work}")
        job, _ = slurm.sbatch(*argv, script=SCRIPT, **as_user(USER))
        while slurm.job(job).get("JobState") != "RUNNING":
            time.sleep(0.1)
        command = ["sh", "-c", 'cat > "$0"', str(work / f"dlqueue-elastic-{job}.json")]
        slurm.run(command, input=json.dumps(REPORT), **as_user(USER))
        look = ["control", "--elastic", "--dry-run", "--json"]
        moves = json.loads(slurm.run([sys.executable, "-m", "slurm_ext.cli", *look]).stdout)[
            "moves"
        ]
    return list(moves)


ATTACKS = (
    Attack(
        name="elastic_job_beyond_qos",
        row=12,
        tried="an elastic job of a user with two GPUs by QOS reports a gain by eight",
        before="the loop asked for four, which the QOS never lets start",
        act=exceed_qos,
    ),
)
