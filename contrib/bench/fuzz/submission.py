"""script → Lua → advisor → edits: hostile jobs in a real Lua, and what becomes of a stranger's.

Lua makes the request as in slurmctld, the advisor answers it, and Lua applies the answer to a
stand-in for Slurm's job, which errs where the real Slurm would not survive. A request that the
advisor refuses is stuck: such a job would never be decided on. The decision on an honest user's job
has to stay what it was.
"""

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from contrib.bench.fuzz.mutate import HOSTILE, TOKENS, mutated_text
from contrib.bench.fuzz.pair import STRANGER, STUCK, Pair, Tried
from contrib.bench.submit_path.asked import Bench
from slurm_ext.core.records import ENV_NAMES, Submission
from slurm_ext.core.wire import MAX_TEXT, encode_request
from tests.lua.lua_process import literal

EVERY = 100  # inputs between two looks at the honest job
SCRIPTS = (
    "#!/bin/bash\n#SBATCH -c 2\nsrun python3 train.py --workers 2\n",
    "#!/bin/sh\npython -m pkg.train --lr 0.1\ntorchrun -m x /opt/a.py\n",
    "#!/bin/bash\nsrun -G1 \\\n --gres=gpu:1 ./a.out $SLURM_GPUS\n# end",
)
TEXTS = (
    "name",
    "user_name",
    "partition",
    "account",
    "default_account",
    "qos",
    "reservation",
    "comment",
    "work_dir",
    "array_inx",
    "cpus_per_tres",
    "tres_per_node",
    "tres_per_job",
    "tres_per_task",
    "tres_per_socket",
    "tres_bind",
    "tres_freq",
    "mem_per_tres",
    "features",
    "prefer",
    "script",
)
NUMBERS = (
    "cpus_per_task",
    "pn_min_cpus",
    "ntasks_per_node",
    "shared",
    "ntasks_per_tres",
    "user_id",
    "num_tasks",
    "min_nodes",
    "max_nodes",
    "min_cpus",
    "time_limit",
    "het_job_offset",
    "min_mem_per_cpu",
    "min_mem_per_node",
)
VALUES = (0, 1, 2, 4, 63, 1000, 65533, 65534, 65535, 2**31, 2**32 - 2, 2**32 - 1, 2.0**63, 2.0**64)
WORDS = (
    "dlqueue=share",
    "dlqueue=off",
    "gres:gpu:1",
    "gres/gpu:a100=2",
    "cpu=4",
    "none",
    "p1,p2",
    "gres:gpu:99999999999999",
    "1:8",
    "mps:50",
    "0-9",
    "single:1",
    "ada",
    "root",
)
ASKED = "local job = mock_job(...) return request.line(job, job.script, {}, 50, 0)"
APPLIED = """local job, raw = mock_job(%s)
local writes, message = edits.from_reply(...)
edits.apply(job, writes)
return message or ""
"""


def run(inputs: int, random: Random) -> Tried:
    """Submit so many hostile jobs, and the honest one between them."""
    tried = Tried()
    with tempfile.TemporaryDirectory(prefix="dlq-fuzz-") as folder:
        bench = Bench(Path(folder))
        honest = _decision(bench)
        while tried.inputs < inputs:
            job = _job(random)
            with tried.one(job):
                why = _submitted(bench, job)
                if why:
                    tried.add(STUCK, job, why)
            if tried.inputs % EVERY == 0 and _decision(bench) != honest:
                tried.add(STRANGER, job, "the honest job is decided on otherwise")
                honest = _decision(bench)
        bench.lua.close()
    return tried


def _submitted(bench: Bench, job: str) -> str:
    """Submit a job as slurmctld does; why it was refused, or empty."""
    line = bench.lua.run(ASKED.replace("...", job))
    reply, _ = bench.advisor.reply(line, trusted=True)
    said = bench.lua.run(APPLIED % job, reply.rstrip(b"\n"))
    if not said.decode("ascii").isprintable():
        return f"its user is told {said!r}"
    return str(json.loads(reply).get("error", ""))


def _decision(bench: Bench) -> dict[str, Any]:
    """The decision on an honest user's job that has run before."""
    job = Submission(
        name=bench.job.name,
        user_name=bench.job.user_name,
        partition="none",
        num_tasks=1,
        script=SCRIPTS[0],
    )
    reply, _ = bench.advisor.reply(encode_request("predict", job), trusted=True)
    said: dict[str, Any] = json.loads(reply)
    return said


def _job(random: Random) -> str:
    """A hostile job as mock_job's arguments, in Lua."""
    fields: dict[str, Any] = {"script": _raw(mutated_text(random.choice(SCRIPTS), random))}
    for _ in range(random.randint(0, 5)):
        fields[random.choice(TEXTS)] = _text(random)
        fields[random.choice(NUMBERS)] = random.choice(VALUES)
    if random.random() < 0.3:
        words = [_text(random)[:600] for _ in range(random.choice((0, 1, 2, 3, 70)))]
        fields |= {"argc": random.choice((0, 1, len(words), 70)), "argv": dict(enumerate(words))}
    env = {random.choice(ENV_NAMES): _text(random) for _ in range(random.randint(0, 3))}
    return ", ".join(map(literal, (fields, env, {})))


def _text(random: Random) -> bytes:
    hostile = [value for value in (*HOSTILE, *TOKENS, *WORDS) if isinstance(value, str)]
    text = random.choice((random.choice(hostile), random.choice(WORDS)))
    if random.random() < 0.3:
        text = mutated_text(text * random.choice((1, 1, 2, 500)), random)
    return _raw(text)[: random.choice((20, 200, MAX_TEXT + 1))]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


PAIR = Pair(name="submission", about="script → Lua → advisor → edits", share=0.4, run=run)
