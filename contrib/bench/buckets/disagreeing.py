"""One rank of `buckets` whose ranks are asked for different bucket sizes.

    python -m contrib.bench.buckets.disagreeing ASKED FILE

ASKED is a JSON list of caps (KiB) by rank. FILE gets the seconds that the module's construction
took, and how many buckets it has after three steps.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed

from contrib.bench.buckets.shapes import Model
from contrib.bench.buckets.training import constructed, trained


def main() -> None:
    """Construct, train three steps, write."""
    asked, path = json.loads(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    trained(constructed(Model("chain"), ""), 1)  # whatever torch imports for its first module
    began = time.perf_counter()
    module = constructed(Model("chain"), asked[torch.distributed.get_rank()], must=False)
    told = {"constructed_s": time.perf_counter() - began, "steps_s": trained(module, 3)}
    Path(path).write_text(json.dumps(told), encoding="ascii")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
