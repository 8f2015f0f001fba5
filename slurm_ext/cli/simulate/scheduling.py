"""For how many waiting jobs each policy's backfill keeps room: Slurm's own as its site says."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace

from slurm_ext.cli.simulate.command import check
from slurm_ext.core.errors import UsageError
from slurm_ext.policy.queue.order import Rule
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.planning.scheduling_conf import read_scheduling
from slurm_ext.simulate.queue.engine import DEPTH

MULTIFACTOR = "multifactor"
ALL = "all"
MOST = 10**9


def scheduling_of(
    args: argparse.Namespace, rules: Sequence[Rule], *, planned: bool
) -> Callable[[Rule], Scheduling | None]:
    """A rule's backfill; None: room for the first job alone. Raises UsageError and InputError.

    `planned`: nodes differ or change, or limits count, which only a planning queue can replay.
    """
    if planned and (preempting := [rule.name for rule in rules if rule.preempting is not None]):
        raise UsageError(
            f"--policy {preempting[0]}: it preempts on equal nodes only, without limits: --nodes N"
        )
    check("--depth", args.depth, 1, MOST)
    most = _reservations(args.reservations)
    usual = None if args.reservations is None else exact(most, args.depth or DEPTH)
    if args.slurm_conf is None:
        return lambda _rule: usual
    site = read_scheduling(args.slurm_conf)
    if args.reservations is not None:
        site = replace(site, reservations=most)
    if args.depth is not None:
        site = replace(site, depth=args.depth)
    return lambda rule: site if rule.backfill and _is_slurms(rule) else usual


def _is_slurms(rule: Rule) -> bool:
    return rule.name.partition("+")[0] == MULTIFACTOR


def _reservations(text: str | None) -> int | None:
    """None: all."""
    if text is None or text == ALL:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:11]) <= MOST):
        raise UsageError(f"--reservations {text!r}: a number from 1 to {MOST} or {ALL} is wanted")
    return int(text)
