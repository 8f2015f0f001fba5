"""Code that enters the user's Python, measures DataLoaders and, if asked to, sets their workers.

The way in: the task prolog puts `probe/site` on PYTHONPATH; its sitecustomize waits for torch's
DataLoader and then loads this package. Python 3.8 and newer, torch 1.13 and newer; it prints
nothing, raises nothing, and where it does not understand a loader it leaves it alone.

Environment: DLQUEUE_RUN_DIR (without it nothing happens), DLQUEUE_NUM_WORKERS (1 to 1024; absent:
measure only), DLQUEUE_MAX_WORKERS (1 to 1024: headroom), DLQUEUE_LENT=1 and DLQUEUE_AUTOTUNE=1,
DLQUEUE_SEEDED=allow (see below), DLQUEUE_NUM_THREADS (torch's, at most; a user's word wins),
DLQUEUE_BUCKETS (buckets/request.py), DLQUEUE_DECISION (copied into the summary).

Which loaders get DLQUEUE_NUM_WORKERS = W workers:
- map-style ones of at least 8 batches, of torch's own class or a subclass that only has another
  `__init__`, delivering in order. Each is counted against W while its workers live, so several
  loaders in one process never hold more than W between them; one for which nothing is left, and
  every other loader (iterable datasets, data pipes, custom iteration), stays as the user set it.
- From N >= 1 workers: torch starts W instead of N, within the user's semantics (persistent or a
  new set each epoch). Worker i bears the number i mod N of N (workers/as_written.py); a
  `worker_init_fn` that goes by its number keeps the workers as written. One worker (N = 1) makes
  its first two batches as written: where the second changed the dataset, or read on in a file or an
  iterator that it was given, there are no others (streams/watch.py).
- From 0 workers: only with torch's own samplers, under fork, and for a dataset that showed on two
  batches in the training process that it keeps no state and holds no open file, socket, thread,
  database or GPU memory, and which the loop does not change between two batches, as far as a look
  before each batch sees (inspection/loop_changes.py). A worker's copy that a fetch writes to later
  is seen as well, and the batch refused there. Whatever goes wrong in the workers, the same
  epoch goes on in the training process with the batch that was next: nothing lost, nothing twice.
- Seeds: a seed counts as pinned where torch's own or that of the loader's generator is below 2**32
  or a new generator's (unpinned, torch's own is a larger random number). A pinned job with workers
  is left alone. A pinned job without workers gets them only
  while fetching draws no random numbers; the first batch that does is fetched again in the
  training process, which stays with it, so that every random stream is the user's own.
  DLQUEUE_SEEDED=allow lifts both.

The gate: `$DLQUEUE_RUN_DIR/workers` holds how many of the W may work, looked at five times a
second; without the file it is W. Memory: W is opened only as far as the workers' measured private
memory fits, and their batches into /dev/shm and among the files that the process may open; the
user's own count is never lowered.

What such workers free stays with them for their next fetch, up to 64 MiB (workers/kept_heap.py).

Headroom: with DLQUEUE_MAX_WORKERS = M each such loader starts up to M workers, idle beyond what
works at first (W, else the user's own count; a loader without workers stays in the training process
until the file asks for some). Only as many start as fit into memory and are worth starting.

Lending: with DLQUEUE_LENT=1 the node may ask for workers more, on other jobs' idle cores and at
idle priority (workers/lent.py); each such loader keeps the user's own workers beside them.

Tuning: with DLQUEUE_AUTOTUNE=1 each such loader finds its own count while it runs, from the
directive's or the user's on (tuner/): it measures counts in turn, stays where more bring nothing,
and looks again when the training's phase changes. Workers start when they are asked for, within the
pass where they are forked (workers/growth.py). While the gate's file exists, it decides.
"""
