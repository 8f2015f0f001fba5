"""Ranks of a program, forked once all is imported, with the variables that srun gives.

`python -m tests.probe.forked_ranks COUNT MODULE WORD...` calls `main` of MODULE in each.
"""

import importlib
import os
import sys
from typing import Any

from tests.probe.in_children import ended_well, import_all_of_torch, in_a_child


def as_rank(rank: int, program: Any) -> None:
    """One of them."""
    os.environ["RANK"] = str(rank)
    program.main()


if __name__ == "__main__":
    count, program = int(sys.argv[1]), importlib.import_module(sys.argv[2])
    sys.argv = sys.argv[2:]
    import_all_of_torch()
    ended_well(*[in_a_child(as_rank, rank, program) for rank in range(count)])
