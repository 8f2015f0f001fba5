"""A world of ranks for tests: forked after torch was imported once, joined by gloo.

python -m tests.spatial.world RANKS MODULE FOLDER runs every function of MODULE whose name begins
with `case_` on all ranks, one after the other, and writes what each returned on each rank.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Results = dict[str, list[Any]]
"""Of each case: what every rank returned."""


def results_of(module: str, ranks: int, folder: Path) -> Results:
    """Run the cases of `module`; a rank that fails or hangs fails the test that asked."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spatial.world", str(ranks), module, str(folder)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-6000:]
    by_rank = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    return {name: [one[name] for one in by_rank] for name in by_rank[0]}


def main() -> int:
    """Fork the ranks and wait for them."""
    ranks, module, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    cases = vars(imported(module))
    children = []
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            os._exit(_rank(rank, ranks, cases, folder))
        children.append(pid)
    return max(os.waitpid(pid, 0)[1] != 0 for pid in children)


def imported(module: str) -> Any:
    """The module, with all that its ranks would import, each by itself, once they are forked.

    Python's garbage collector does not look at it, neither here nor in any of the ranks.
    """
    gc.disable()
    from tests.probe.in_children import import_all_of_torch

    found = importlib.import_module(module)
    import_all_of_torch()  # and collects again
    gc.freeze()
    return found


def _rank(rank: int, ranks: int, cases: dict[str, Callable[[Path], Any]], folder: Path) -> int:
    import torch
    import torch.distributed as dist

    try:
        torch.set_num_threads(1)
        meet = f"file://{folder / 'meet'}"
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=ranks)
        results = {}
        for name in [name for name in cases if name.startswith("case_")]:
            torch.manual_seed(0)
            results[name] = cases[name](folder)
        (folder / f"{rank}.json").write_text(json.dumps(results))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
