"""The summary: `$DLQUEUE_RUN_DIR/summary-<pid>.json`, one for each process that trains.

A job in which none does, but some imported torch, has one without loaders and optimizer.

Schema (version 1; example: tests/golden/probe/v1.json). Times are seconds, sizes bytes, null is
"not measured", never zero.

- v, pid, rank, world_size, host, python, torch; accelerator: the GPU, null: none; emulated: a
  stand-in waits where a GPU would compute (it says so in DLQUEUE_EMULATED); threads: of torch in
  one operation; frameworks: those of FRAMEWORKS that the program imported
- started_s, ended_s: the clock (Unix) at the first DataLoader or step (none: at the import of
  torch), and at this writing;
  finished: Python came to its end (false: killed, or still running; rewritten every few seconds,
  about each second where DLQUEUE_MAX_WORKERS is set)
- cores: what affinity and cgroup quotas leave this process; node_cores: the machine's
- main_cpu_s: CPU of this process, workers apart
- directive: num_workers and decision as the environment gave them
- faults: what the probe itself failed at, one clause each; the job did not notice
- data_ranks: ranks over which its gradients are averaged, by DDP, by FSDP or by the shares of its
  sampler; 1: none of these was seen; null: it was in no group of torch.distributed's
- optimizer: steps of the busiest optimiser, and wall_s from its first step to its latest, without
  validations (a module in evaluation mode, and no step meanwhile); where loaders do not feed them,
  with the steps of optimisers that came before or after; backward passes where neither an
  optimiser nor a loader is; null: none was seen (a torch before 2.1, a compiled step without a
  loader, no optimiser of torch's or Keras's)
- communication: the largest DistributedDataParallel's, by torch's own logger; null: none was timed.
  Means over steps passes that it timed (the first two are left out): forward_s, backward_s (its
  computing), comm_s (first bucket's start to last one's end), overlap_s (the part of it within
  backward_s; the rest is exposed, waiting for slower ranks included); per_step: such passes for
  each step of the optimisers; bucket_bytes, backend; iterations and exposed_s: some of those
  passes, the same ones in each rank, and what each waited after its computing; comm_hook: the
  program's own; buckets: where DLQUEUE_BUCKETS asks for it (buckets/request.py), else null:
  signature of the model, ranks of its group, takes_lists (this torch takes a list of caps), caps
  (KiB) as the submission has them if they were taken, user_caps (the program's own were), and
  left_alone: why none are taken (null, too, if another model was meant); of the group's rank 0,
  ready_bytes and ready_s: gradients that are ready together, in their order, and seconds from then
  to the last one of the pass
- loaders, each:
  - id, dataset (class), style (map or iterable), batch_size, length (samples, null: unknown)
  - model: number of the first model that optimisers stepped with its batches; null: none
  - first_batches: marks of the first batches' content and its sampler's share, of a process in a
    group (counters/marks.py): ranks with the same ones read the same batches; empty: not read
  - user_num_workers as the script asked; started_workers; gate: how many of them may work (0: none
    yet, the loader starts them when it is asked to); most_workers: what the gate can be asked for
    (null: the loader cannot be moved)
  - method: gated (set by the directive) or own (the user's setting)
  - left_alone: why the directive was not followed, or would not be where there is none (a look
    finds less than the trial of lazy_workers.py); fallback: why it was given up half-way
  - worker_rss_bytes: private memory of the largest worker; startup_s: starting workers, and
    ending those of passes that were left before their end; first_startup_s: that of the first
    pass, which has what is done once (null: later passes start none)
  - tuned: the search for a worker count where DLQUEUE_AUTOTUNE asks for one, else null: workers
    where it stays (null: it goes on), settled_s and settled_batches of measuring until it first
    stayed, rates (workers, samples_per_s, wait: share of the time) of the counts measured
  - phases (first_epoch; later; passes that only evaluate apart, and so are batches that one
    passed over before its first step), each: epochs, samples (0, with batches: nobody
    knows how many each has, its parts differ in length), batches, steps (of the optimisers,
    done with its batches: none in a validation); shared_steps: those that took another loader's
    batch, too (zipped ones; a loader's with itself count once); wall_s = wait_s (in next()) +
    step_s (between them); gathered_s: before it, between two passes, where the second one's data
    is made, or the loop computes and evaluates nothing (passes/gathering.py);
    first_wait_s: of wait_s, for each pass's first batch; workers: mean number at work; lent_s:
    wall_s in a phase with lent ones among them (workers/lent.py), which stands before the same
    phase without them, else 0;
    fetch_samples, fetch_wall_s, fetch_cpu_s, bytes_read: what fetching took in whichever process
    did it (samples made may run ahead of samples used); fetch_p50_s, fetch_p99_s: of one fetch, a
    batch, by a histogram, right to an eighth; main_cpu_s: CPU of this process during the phase;
    home_cpu_s: of that, during fetches that it did itself (all its threads);
    fetch_queued_s, wait_queued_s, step_queued_s: the parts of those times in which the thread was
    ready and waited for a core (read around some batches; their sum is exact, its division an
    estimate); delivered_bytes: tensors handed to the training (estimated from a batch five times a
    second)
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from typing import Any, Callable

from .counters import machine
from .directive import Directive

VERSION = 1
FRAMEWORKS = (
    "lightning",
    "pytorch_lightning",
    "transformers",
    "accelerate",
    "deepspeed",
    "fastai",
    "timm",
    "monai",
    "ultralytics",
    "torch_geometric",
    "webdataset",
    "torchdata",
    "ignite",
    "keras",
    "jax",
    "tensorflow",
)


def process_facts() -> dict[str, Any]:
    """Facts that do not change while the process lives."""
    return {
        "v": VERSION,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": _of_torch(lambda torch: str(torch.__version__)),
        "started_s": time.time(),
        "cores": machine.cores(),
        "node_cores": os.cpu_count(),
    }


def document(
    facts: dict[str, Any],
    directive: Directive,
    measured: dict[str, Any],
    faults: list[str],
    finished: bool,
    group: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The whole summary as of now; `group`: rank and world size in a group that may be gone."""
    rank, world_size = group or place()
    return {
        **facts,
        "rank": rank,
        "world_size": world_size,
        "accelerator": _accelerator(),
        "emulated": os.environ.get("DLQUEUE_EMULATED") == "1",
        "threads": _of_torch(lambda torch: int(torch.get_num_threads())),
        "frameworks": [name for name in FRAMEWORKS if name in sys.modules],
        "ended_s": time.time(),
        "finished": finished,
        "main_cpu_s": time.process_time(),
        "directive": {"num_workers": directive.num_workers, "decision": directive.decision},
        **measured,
        "faults": faults,
    }


def write(run_dir: str, body: dict[str, Any]) -> None:
    """Atomically: a reader sees the old one or the new one."""
    path = os.path.join(run_dir, f"summary-{os.getpid()}.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(body, file)
    os.replace(path + ".new", path)


def joined() -> tuple[int, int] | None:
    """Rank and world size in torch.distributed; None: the process is in no group now."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def place() -> tuple[int, int]:
    """Rank and world size: torch.distributed's, else the launcher's, else those of Slurm's step.

    A batch script runs once, whatever number of tasks the job has.
    """
    found = joined()
    if found is not None:
        return found
    for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
        texts = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(text.isascii() and text.isdecimal() and len(text) < 8 for text in texts):
            return int(texts[0]), int(texts[1])
    return 0, 1


def _of_torch(ask: Callable[[Any], Any]) -> Any:
    """Torch's answer; None where the process did not import it."""
    torch = sys.modules.get("torch")
    return None if torch is None else ask(torch)


def _accelerator() -> str | None:
    """The GPU that torch uses; a process that did not start CUDA is not made to."""
    cuda = _of_torch(lambda torch: getattr(torch, "cuda", None))
    if cuda is None or not cuda.is_initialized():
        return None
    return str(cuda.get_device_name())
