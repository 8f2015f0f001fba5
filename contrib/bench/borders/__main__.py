"""Attacks of one Unix user on others and on the cluster, carried out on real sandboxes (root).

    python -m contrib.bench.borders [--only NAME] [--json]

Each module of ATTACKS' list has attacks on one border. The figures hold what was tried, what
happened, and what happened before the border was there.
"""

import os
import sys
import tempfile
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import Attack, Happened
from contrib.bench.common.program import Result, options, row, run
from slurm_ext.core.errors import DlqueueError, MissingError

ATTACKS: tuple[str, ...] = (
    "blinding",
    "sandbox_root",
    "run_folder",
    "evidence",
    "gpu_sharing",
    "units",
    "elastic_qos",
    "submissions",
    "records",
    "stream",
    "templates",
    "install_root",
)
"""Modules of this package that have ATTACKS, in the order of SECURITY.md's rows."""


def main() -> None:
    """Attack and print."""
    parser = options(__doc__, quick="the same: each attack is carried out once")
    parser.add_argument("--only", metavar="NAME", help="this attack alone")
    run(parser, result, show)


def result(args: Namespace) -> Result:
    """The benchmark's last line. Raises MissingError unless root."""
    if os.geteuid() != 0:
        raise MissingError("attacks are carried out as other users", "run it as root")
    chosen = [attack for attack in attacks() if args.only in (None, attack.name)]
    figures = {attack.name: _carried_out(attack) for attack in chosen}
    wanted = [
        row(f"{name} ({figure['row']})", "no harm", figure["happened"], met=figure["held"])
        for name, figure in figures.items()
    ]
    return {"bench": "borders", "figures": figures, "wanted": wanted}


def attacks() -> list[Attack]:
    """Every attack, in the order of the rows."""
    modules = [import_module(f"{__package__}.{name}") for name in ATTACKS]
    return [attack for module in modules for attack in module.ATTACKS]


def _carried_out(attack: Attack) -> dict[str, Any]:
    print(f"{attack.name}: {attack.tried}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="dlq-borders-") as folder:
        Path(folder).chmod(0o755)  # the attacker's commands reach the sandbox inside
        try:
            happened = attack.act(Path(folder))
        except (DlqueueError, OSError) as error:
            happened = Happened(held=False, what=f"the attack could not be carried out: {error}")
    return {
        "row": attack.row,
        "tried": attack.tried,
        "before": attack.before,
        "happened": happened.what,
        "held": happened.held,
    }


def show(measured: Result) -> None:
    """One line an attack."""
    for name, figure in measured["figures"].items():
        mark = "holds " if figure["held"] else "BROKEN"
        print(f"{mark} {figure['row']:>2} {name}: {figure['happened']}")
        print(f"          before: {figure['before']}")


if __name__ == "__main__":
    main()
