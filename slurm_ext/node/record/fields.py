"""The run record, field by field: the one table behind composer, reader, history and manual.

A field is a tuple: name, type, unit, smallest, largest, required, column, sentence. The two bounds
are those of a number; of a text or a list `largest` is the most characters or items. A field that
is not required may be absent, which means the same as null: not set or not measured. `column` is
the field's column in `runs` of history.db, or "". Plain tuples, because node hooks read this file
and dataclasses are slow to import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Field = tuple[str, str, str, float, float, bool, str, str]

VERSION = 1
KIND = "run"
STATES = (
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "OUT_OF_MEMORY",
    "CANCELLED",
    "NODE_FAIL",
    "REQUEUED",
    "UNKNOWN",
)
LARGEST = 10**18 - 1  # of any number: SQLite's integers end at 9.2e18
LONGEST = 4096  # characters of any text
MAX_COUNTERS, MAX_CORUNNERS, MAX_ROWS = 256, 1024, 1000
MAX_SHARED_GPUS, MAX_GPUS = 16, 4096
MAX_PARTS = 65_536  # of an object whose keys are not in this table
MAX_SUMMARIES, MAX_LOADERS, MAX_PHASES = 1024, 64, 8
MAX_RATES = 32  # counts that one search measures
MAX_FAULTS = 4096
MAX_FRAMEWORKS = 16
MAX_MARKS = 16  # of a loader's first batches
MAX_BUCKETS, MAX_SAMPLED = 1024, 32  # of gradients; backward passes that were looked at
MAX_READY = 256  # groups of gradients that are ready together
LONGEST_NAME = 256  # characters of a name inside a summary or a counter

TEXT, WHOLE, NUMBER, OBJECT, FLAG = "text", "integer", "number", "object", "flag"
LIST, TEXTS, NUMBERS, COUNTED = "list", "texts", "numbers", "count"
"""Types. `texts` is a list of texts, `numbers` one of numbers that are not below zero; `count` is a
list, or the number of its items; `flag` is true or false."""


def text(
    name: str, about: str, *, column: str = "", required: bool = False, longest: int = LONGEST
) -> Field:
    """A field that is a text."""
    return (name, TEXT, "", 0, longest, required, column, about)


def short(name: str, about: str, *, required: bool = False) -> Field:
    """A field that is a short text."""
    return text(name, about, required=required, longest=LONGEST_NAME)


def whole(name: str, unit: str, about: str, *, column: str = "", required: bool = False) -> Field:
    """A field that is an integer, never negative."""
    return (name, WHOLE, unit, 0, LARGEST, required, column, about)


def number(
    name: str,
    unit: str,
    about: str,
    *,
    column: str = "",
    required: bool = False,
    signed: bool = False,
) -> Field:
    """A field that is a number; below zero only where it is signed."""
    return (name, NUMBER, unit, -LARGEST if signed else 0, LARGEST, required, column, about)


def several(
    name: str, kind: str, most: int, about: str, *, column: str = "", required: bool = False
) -> Field:
    """A field that is a list."""
    return (name, kind, "", 0, most, required, column, about)


HEAD = (
    text("record_id", "Cluster, job, restart and node: once in a history.", required=True),
    text("decision", "Token of the submission's decision."),
    ("mps", OBJECT, "", 0, MAX_PARTS, False, "", "The job's share of MPS: GPU, limits, faults."),
    ("timeline", OBJECT, "", 0, MAX_PARTS, False, "", "Samples over the run."),
)
TIMELINE = (
    several("columns", TEXTS, MAX_ROWS, "Names of the columns."),
    several("rows", LIST, MAX_ROWS, "Rows of numbers.", required=True),
)
IDENTITY = (
    text("cluster", "Name of the cluster.", column="cluster", required=True),
    whole("job_id", "", "Slurm's job id.", column="job_id", required=True),
    whole("restart", "", "Times the job was requeued before.", column="restart", required=True),
    text("node", "Name of the node that ran it.", column="node", required=True),
    text("user", "User name.", column="user"),
    whole("uid", "", "User id.", column="uid"),
    text("account", "Slurm account.", column="account"),
    text("partition", "Slurm partition.", column="partition"),
    text("job_name", "Job name.", column="job_name"),
    text("work_dir", "Working directory.", column="work_dir"),
    whole("array_job_id", "", "Id of the job array.", column="array_job_id"),
    whole("array_task_id", "", "Index in the job array.", column="array_task_id"),
)
ALLOCATION = (
    whole("cpus", "", "CPUs of the job on this node.", column="cpus"),
    whole("cpus_per_task", "", "CPUs of one task.", column="cpus_per_task"),
    whole("num_tasks", "", "Tasks of the whole job.", column="num_tasks"),
    whole("num_nodes", "", "Nodes of the whole job.", column="num_nodes"),
    whole("mem_bytes", "bytes", "Memory on this node.", column="mem_bytes"),
    several("gpus", COUNTED, MAX_GPUS, "GPUs on this node, by index or UUID.", column="gpus"),
    number("time_limit_s", "s", "Time limit.", column="time_limit_s"),
    text("cpu_list", "CPUs that it could use, as the kernel lists them."),
    several("gpu_uuids", LIST, MAX_GPUS, "UUIDs of its GPUs."),
    (
        "of_node",
        FLAG,
        "",
        0,
        1,
        False,
        "",
        "CPUs and memory are this node's, not the whole job's.",
    ),
)
TIMES = (
    number("submit_s", "s", "Submission, since the epoch.", column="submit_s"),
    number("start_s", "s", "Start, since the epoch.", column="start_s"),
    number("end_s", "s", "End, since the epoch.", column="end_s"),
    number("elapsed_s", "s", "Run time by a clock that nobody sets.", column="elapsed_s"),
)
OUTCOME = (
    text("state", f"End of the run: {', '.join(STATES)}.", column="state", required=True),
    whole("exit_code", "", "Exit code.", column="exit_code"),
    whole("signal", "", "Signal that ended it.", column="signal"),
    text("source", "Witness: epilog, node, reconcile, sacct.", column="source", required=True),
)
HOST = (
    whole("cores", "", "CPUs of the node.", column="node_cores"),
    whole("mem_bytes", "bytes", "Memory of the node.", column="node_mem_bytes"),
    several("gpus", TEXTS, MAX_GPUS, "Models of the node's GPUs.", column="node_gpus"),
    text("boot_id", "The kernel's boot id.", column="boot_id"),
    text("kernel", "Release of the kernel.", column="kernel"),
)
PROBE = (
    several("summaries", LIST, MAX_SUMMARIES, "One summary for each process that trains."),
    several("faults", TEXTS, MAX_FAULTS, "Sentences on what could not be measured."),
    whole("unprobed", "", "Python processes of the job that the probe was not in."),
)
COUNTER = (
    text("name", "Name of the counter.", required=True, longest=LONGEST_NAME),
    text("unit", "Unit: s, B, J, W, 1.", required=True, longest=LONGEST_NAME),
    text("source", "Where it was counted.", required=True, longest=LONGEST_NAME),
    number("value", "", "Value; null where it was not counted.", signed=True),
)
CORUNNER = (
    whole("job_id", "", "Another job that was on the node.", required=True),
    number("overlap_s", "s", "Time that both were there.", signed=True),
)
SHARED = (
    whole("cpus", "", "CPUs that both jobs could use."),
    whole("sockets", "", "Sockets that both could use."),
    several("gpus", TEXTS, MAX_SHARED_GPUS, "GPUs of both, by UUID."),
)
SUMMARY = (
    whole("v", "", "Version of the summary."),
    whole("pid", "", "Process id."),
    whole("rank", "", "Rank of the training process."),
    number("world_size", "", "Training processes of the job."),
    short("host", "Name of the node."),
    short("python", "Version of Python."),
    short("torch", "Version of PyTorch."),
    number("cores", "", "CPUs that the process could use."),
    whole("node_cores", "", "CPUs of the node."),
    number("started_s", "s", "Start of the process, since the epoch."),
    number("ended_s", "s", "Time of the last line, since the epoch."),
    ("finished", FLAG, "", 0, 1, False, "", "Python came to its end."),
    number("main_cpu_s", "s", "CPU time of the process, without its workers."),
    short("accelerator", "Name of the GPU in use; null: none."),
    ("emulated", FLAG, "", 0, 1, False, "", "A stand-in waits where a GPU would compute."),
    whole("threads", "", "Threads of PyTorch inside one operation."),
    several("frameworks", TEXTS, MAX_FRAMEWORKS, "Training frameworks that were imported."),
    whole("data_ranks", "", "Ranks over which its gradients are averaged; null: in no group."),
    ("optimizer", OBJECT, "", 0, MAX_PARTS, False, "", "Steps of its busiest optimiser."),
    ("communication", OBJECT, "", 0, MAX_PARTS, False, "", "Its gradients' way to other ranks."),
    ("directive", OBJECT, "", 0, MAX_PARTS, False, "", "Workers and token of its environment."),
    several("loaders", LIST, MAX_LOADERS, "One entry for each DataLoader."),
    several("faults", TEXTS, MAX_FAULTS, "Clauses on what the probe failed at."),
)
DIRECTIVE = (
    whole("num_workers", "", "Workers that the decision asks for."),
    short("decision", "Token of the submission's decision."),
)
OPTIMIZER = (
    whole("steps", "", "Steps done.", required=True),
    number("wall_s", "s", "Time from the first step to the latest.", required=True),
)
COMMUNICATION = (
    number("forward_s", "s", "Forward pass, mean of the sampled steps."),
    number("backward_s", "s", "Backward pass, its own computing alone."),
    number("comm_s", "s", "First bucket's start to last one's end; slow ranks included."),
    number("overlap_s", "s", "Part of comm_s that lay within backward_s."),
    whole("steps", "", "Sampled steps, which the means are of.", required=True),
    number("per_step", "", "Synchronised backward passes for each step of the optimisers."),
    several("bucket_bytes", NUMBERS, MAX_BUCKETS, "Bytes of each bucket of gradients."),
    short("backend", "Backend of its process group: gloo, nccl."),
    several("iterations", NUMBERS, MAX_SAMPLED, "Iterations of the sampled steps."),
    several("exposed_s", NUMBERS, MAX_SAMPLED, "Waiting after the backward pass in each, in s."),
    short("comm_hook", "The program's own hook for its gradients' way."),
    ("buckets", OBJECT, "", 0, MAX_PARTS, False, "", "What bucket sizes rest on, where asked for."),
)
BUCKETS = (
    short("signature", "Digest of the gradients' sizes and types.", required=True),
    whole("ranks", "", "Ranks of its process group.", required=True),
    ("takes_lists", FLAG, "", 0, 1, False, "", "This torch takes a list of bucket sizes."),
    short("caps", "Bucket sizes of the decision, in KiB; null: not taken, or none."),
    ("user_caps", FLAG, "", 0, 1, False, "", "The program sets its own bucket size."),
    short("left_alone", "Why no decision's bucket sizes are taken."),
    several("ready_bytes", NUMBERS, MAX_READY, "Gradients that are ready together, in order."),
    several("ready_s", NUMBERS, MAX_READY, "Seconds from then to the last gradient of the pass."),
)
LOADER = (
    whole("id", "", "Number of the loader in its process."),
    short("dataset", "Class of the dataset."),
    short("style", "map or iterable."),
    number("batch_size", "samples", "Samples in a batch."),
    number("length", "samples", "Samples in the dataset."),
    whole("model", "", "Number of the first model that steps with its batches changed."),
    several("first_batches", NUMBERS, MAX_MARKS, "Marks of its first batches, by their content."),
    whole("user_num_workers", "", "Workers that the script asks for."),
    whole("started_workers", "", "Workers that were started."),
    whole("gate", "", "Workers that may work."),
    whole("most_workers", "", "Workers that the gate can be asked for."),
    short("method", "gated (by the directive) or own (the script's)."),
    text("left_alone", "Why its workers are as the script set them."),
    text("fallback", "Why the workers that it was given were given up."),
    whole("worker_rss_bytes", "bytes", "Largest private memory of a worker."),
    number("startup_s", "s", "Time to start the workers."),
    number("first_startup_s", "s", "That of the first pass; null: later ones start no workers."),
    ("tuned", OBJECT, "", 0, MAX_PARTS, False, "", "Its search for a count; null: it has none."),
    several("phases", LIST, MAX_PHASES, "Sums over epochs: first, later.", required=True),
)
TUNED = (
    whole("workers", "", "Workers where the search stays; null: it goes on."),
    number("settled_s", "s", "Measuring until it first stayed."),
    whole("settled_batches", "", "Batches of that time."),
    several("rates", LIST, MAX_RATES, "One entry for each count that was measured.", required=True),
)
RATE = (
    whole("workers", "", "Workers at work.", required=True),
    number("samples_per_s", "samples/s", "Steady rate of the loop.", required=True),
    number("wait", "", "Share of the time that waited for data.", required=True),
)
PHASE = (
    short("phase", "first_epoch or later.", required=True),
    number("epochs", "", "Epochs that began."),
    number("samples", "samples", "Samples delivered; 0 with batches: not known.", required=True),
    number("batches", "", "Batches delivered."),
    number("steps", "", "Steps of the optimisers with these batches."),
    number("shared_steps", "", "Those of them that took another loader's batch, too."),
    number("wall_s", "s", "Wall time of the loop."),
    number("gathered_s", "s", "Before passes, for making their data or computing; not in wall_s."),
    number("wait_s", "s", "Part of it that waited for data."),
    number("step_s", "s", "Part of it between two batches."),
    number("workers", "", "Mean workers.", required=True),
    number("first_wait_s", "s", "Part of the waits that was for each pass's first batch."),
    number("lent_s", "s", "Part of the wall time with lent workers at work."),
    number("fetch_samples", "samples", "Samples whose loading was timed."),
    number("fetch_wall_s", "s", "Their loading, wall time."),
    number("fetch_cpu_s", "s", "Their loading, CPU time."),
    number("fetch_p50_s", "s", "Time that half of the fetches, a batch each, stayed below."),
    number("fetch_p99_s", "s", "Time that 99 of 100 fetches stayed below."),
    number("bytes_read", "bytes", "Bytes read while loading."),
    number("main_cpu_s", "s", "CPU time of the training process."),
    number("home_cpu_s", "s", "Part of it during loading in the process itself."),
    number("fetch_queued_s", "s", "Part of the loading that waited for a core."),
    number("step_queued_s", "s", "Part of the steps that waited for a core."),
    number("wait_queued_s", "s", "Part of the waits that waited for a core."),
    number("delivered_bytes", "bytes", "Bytes of the batches."),
)

SECTIONS: dict[str, tuple[Field, ...]] = {
    "identity": IDENTITY,
    "allocation": ALLOCATION,
    "times": TIMES,
    "outcome": OUTCOME,
    "host": HOST,
    "probe": PROBE,
}
"""Objects of a record that are always there, in the record's order."""

PARTS: dict[str, tuple[Field, ...]] = {
    "timeline": TIMELINE,
    "counters[]": COUNTER,
    "corunners[]": CORUNNER,
    "corunners[].shared": SHARED,
    "probe.summaries[]": SUMMARY,
    "probe.summaries[].optimizer": OPTIMIZER,
    "probe.summaries[].communication": COMMUNICATION,
    "probe.summaries[].communication.buckets": BUCKETS,
    "probe.summaries[].directive": DIRECTIVE,
    "probe.summaries[].loaders[]": LOADER,
    "probe.summaries[].loaders[].tuned": TUNED,
    "probe.summaries[].loaders[].tuned.rates[]": RATE,
    "probe.summaries[].loaders[].phases[]": PHASE,
}
"""Items of a record's lists."""


def pick(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A section of a record with the table's keys, null where `values` has none."""
    return {field[0]: values.get(field[0]) for field in SECTIONS[section]}
