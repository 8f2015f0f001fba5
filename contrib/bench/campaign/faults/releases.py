"""dlqueue is rolled back and upgraded under load: hooks and advisor, across the last migration."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.advisor import advisor_with
from contrib.bench.campaign.faults.fault import Fault
from contrib.bench.campaign.faults.hooks import replaced
from contrib.bench.common.tree import ROOT, git

_PACKAGE = "slurm_ext"
_HOOKS = ("prolog", "task_prolog", "epilog")
_SCHEMA = "slurm_ext/history/store/schema.py"


@contextmanager
def _rolled_back(cluster: Cluster) -> Iterator[None]:
    """The release before the last migration, and this one again in the end."""
    earlier = cluster.slurm.path("earlier")
    _unpack(_before(), earlier)
    with ExitStack() as stack:
        for hook in _HOOKS:
            path = cluster.slurm.path(f"etc/{hook}")
            text = path.read_text().replace(f"{ROOT}/{_PACKAGE}", f"{earlier}/{_PACKAGE}")
            stack.enter_context(replaced(path, text))
        stack.enter_context(advisor_with(cluster, earlier, PYTHONPATH=str(earlier)))
        yield


def _before() -> str:
    """The commit before the one that changed the history's tables last; empty without git."""
    last = git("log", "-n1", "--format=%H", "--", _SCHEMA)
    return git("rev-parse", "--verify", "--quiet", f"{last}^") if last else ""


def _unpack(commit: str, folder: Path) -> None:
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, _PACKAGE], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def _no_history() -> str:
    return "" if _before() else "needs the commits of this repository"


FAULTS = (
    Fault(
        "rolled_back",
        "dlqueue is rolled back across a migration, and upgraded",
        _rolled_back,
        missing=_no_history,
    ),
)
