"""Parser of `scontrol --oneliner show assoc_mgr`: limits that slurmctld enforces, and their use.

A limit is written `2(1)`: two, of which one is in use; `N(1)` is no limit. Those of one job have no
use: `MaxWallPJ=10`. A QOS has more of them for each account and each user, in braces.
"""

import re
from collections.abc import Iterator, Mapping

from slurm_ext.slurm.records import EnforcedLimits

_PAIR = re.compile(r"(\w+)=(\S*)")
_GROUP = re.compile(r"(\S+)=\{([^}]*)\}")
_AMOUNT = re.compile(r"([0-9.]+)(?:\(([0-9.]+)\))?")
_BY_ACCOUNT, _BY_USER = " Account Limits=", " User Limits="


def read_limits(text: str) -> tuple[EnforcedLimits, ...]:
    """Parse the records of QOS and of associations. Raises ValueError, KeyError."""
    lines = text.splitlines()
    return (
        *(_association(line) for line in lines if line.startswith("ClusterName=")),
        *(_qos(line) for line in lines if line.startswith("QOS=")),
    )


def _association(line: str) -> EnforcedLimits:
    pairs = dict(_PAIR.findall(line))
    return EnforcedLimits(
        account=pairs["Account"],
        user=_name(pairs["UserName"]),
        parent=_name(pairs["ParentAccount"]),
        limits=dict(_limits(pairs)),
    )


def _qos(line: str) -> EnforcedLimits:
    own, _, rest = line.partition(_BY_ACCOUNT)
    accounts, _, users = rest.partition(_BY_USER)
    if not rest:
        own, _, users = line.partition(_BY_USER)
    pairs = dict(_PAIR.findall(own))
    return EnforcedLimits(
        qos=_name(pairs["QOS"]),
        limits=dict(_limits(pairs)),
        by_account={name: dict(_limits(group)) for name, group in _groups(accounts)},
        by_user={_uid(name): dict(_limits(group)) for name, group in _groups(users)},
    )


def _groups(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for name, inside in _GROUP.findall(text):
        yield name, dict(_PAIR.findall(inside))


def _limits(pairs: Mapping[str, str]) -> Iterator[tuple[str, tuple[float, float | None]]]:
    """Each limit that is set; those of TRES by their names."""
    for name, text in pairs.items():
        if not name.startswith(("Grp", "Max", "Min")):
            continue
        if "TRES" not in name:
            yield from _limit(name, text)
            continue
        for item in filter(None, text.split(",")):
            tres, _, amount = item.rpartition("=")
            yield from _limit(f"{name}/{tres}", amount)


def _limit(name: str, text: str) -> Iterator[tuple[str, tuple[float, float | None]]]:
    amount = _AMOUNT.fullmatch(text)
    if amount is not None:
        yield name, (float(amount[1]), None if amount[2] is None else float(amount[2]))


def _uid(text: str) -> int:
    """The id of `0` or `root(0)`."""
    return int(text.rpartition("(")[2].rstrip(")"))


def _name(text: str) -> str:
    """A name without the id behind it: root(0)."""
    return text.partition("(")[0]
