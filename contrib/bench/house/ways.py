"""Files, functions and rooms that one real call passes in `slurm_ext`, counted with sys.setprofile.

`python contrib/bench/house/ways.py` prints one JSON object: {"submission": {...}, ...}.
Each function that is entered counts once; lambdas, comprehensions and generated code (a dataclass's
`__init__`) do not count. In the order in which functions are first entered, each change of room is
a switch.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import slurm_ext

if TYPE_CHECKING:
    from slurm_ext.advisor.service.advisor import Advisor
    from slurm_ext.core.records import Submission

RUNS = 8
PACKAGE = f"{Path(slurm_ext.__file__).parent}/"


@dataclass(slots=True)
class Way:
    """Functions that were entered, in this order, with the number of their calls."""

    functions: dict[CodeType, int] = field(default_factory=dict)

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """A profiler for sys.setprofile."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            self.functions[code] = self.functions.get(code, 0) + 1

    def as_json(self) -> dict[str, Any]:
        """Counts, and the names behind them."""
        places = [
            f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"
            for code in self.functions
        ]
        rooms = [place.partition("/")[0] for place in places]
        return {
            "files": len({place.partition(":")[0] for place in places}),
            "functions": len(places),
            "calls": sum(self.functions.values()),
            "room_switches": sum(one != other for one, other in pairwise(rooms)),
            "names": places,
        }


def way_of(call: Callable[[], object]) -> dict[str, Any]:
    """What `call` passes."""
    way = Way()
    sys.setprofile(way.enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return way.as_json()


def submission() -> dict[str, Any]:
    """A first submission of its kind, from its line to the reply's, by an advisor that acts."""
    from slurm_ext.core.wire import encode_request

    with tempfile.TemporaryDirectory() as folder:
        advisor, job = _advisor(Path(folder))
        first, other = (replace(job, script=f"{job.script}: {number}\n") for number in range(2))
        advisor.reply(encode_request("submit", first), trusted=True)  # settles what is lazy
        line = encode_request("submit", other)
        return way_of(lambda: advisor.reply(line, trusted=True))


def _advisor(folder: Path) -> tuple["Advisor", "Submission"]:
    """An advisor with RUNS runs of the user's job name, and such a job."""
    import numpy as np

    from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY
    from slurm_ext.advisor.limits.bounds import PartitionRules
    from slurm_ext.advisor.limits.partition_limits import ClusterRules
    from slurm_ext.advisor.pipeline.journal import Journal
    from slurm_ext.advisor.service.advisor import Advisor
    from slurm_ext.advisor.service.warm_up import JOB, RUN
    from slurm_ext.core.job_keys import keys_of
    from slurm_ext.core.settings.document import Settings

    settings = {"site.mode": "act", "policy.holdout_share": 0.0}
    advisor = Advisor(Settings(values=settings), Journal(folder))
    advisor.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    keys = keys_of(JOB)
    row = [np.nan if value is None else value for name in COLUMNS for value in [getattr(RUN, name)]]
    columns = [np.full(RUNS, keys.get(level, NO_KEY), np.int64) for level in LEVELS]
    advisor.runs.extend(np.array([row] * RUNS, np.float32), columns)
    return advisor, JOB


def main() -> None:
    """Print every way's counts; `names` of one way are listed by `ways.py WAY`."""
    ways = {"submission": submission}
    if sys.argv[1:]:
        print(json.dumps(ways[sys.argv[1]](), indent=1))
        return
    counts = {name: way() for name, way in ways.items()}
    print(json.dumps({way: {**count, "names": None} for way, count in counts.items()}))


if __name__ == "__main__":
    main()
