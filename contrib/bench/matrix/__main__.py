"""Tests of the real Slurm under each release of it, each in the root of its Debian (as root).

`here` is this machine's own Slurm; trixie and sid are made by debootstrap, and kept in build/slurm
(1 GB each). `--state` keeps what each release showed: the next start goes on with the others.
`--page FILE` writes the table as Markdown.
"""

import argparse
import os
from pathlib import Path

from contrib.bench.common.program import Result, at_most, kept_folder, options, run
from contrib.bench.matrix.page import page
from contrib.bench.matrix.reports import FAILED
from contrib.bench.matrix.runs import HERE, ROOT, ROOTS, release_of
from slurm_ext.core.errors import UsageError

RELEASES = (HERE, "trixie", "sid")
# What packages hold is no question of Slurm's, and is built by tools that its roots lack.
TESTS = ("-m", "slurm and not long", "--ignore=tests/packages")
QUICK = ("tests/slurm/test_client_contract.py",)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    if os.geteuid() != 0 and set(args.releases) != {HERE}:
        raise UsageError("only root makes the root of another system; --releases here needs none")
    if not 1 <= args.workers <= 64:
        raise UsageError(f"--workers {args.workers}: 1 to 64 are wanted")
    (ROOT / ROOTS).mkdir(parents=True, exist_ok=True)
    tests = QUICK if args.quick else TESTS
    with kept_folder(args.state) as folder:
        releases = [release_of(one, folder, tests, args.workers) for one in args.releases]
    if args.page is not None:
        args.page.write_text(page(releases))
    figures = {
        one.version: {**one.counts(), "seconds": one.seconds, "commit": one.commit}
        for one in releases
    }
    wanted = [
        at_most(f"tests that fail under {one.version}", 0, one.counts()[FAILED]) for one in releases
    ]
    return {"bench": "matrix", "figures": figures, "wanted": wanted}


def main() -> None:
    """Test and print."""
    parser = options(__doc__, quick="the client's contract alone")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=RELEASES)
    parser.add_argument("--workers", type=int, default=5, help="tests at the same time (5)")
    parser.add_argument("--state", type=Path, help="keep each release's report there")
    parser.add_argument("--page", type=Path, help="Markdown of all releases")
    run(parser, result, lambda _: None)


if __name__ == "__main__":
    main()
