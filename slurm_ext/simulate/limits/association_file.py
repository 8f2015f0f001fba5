"""Reads associations from `sacctmgr -P show assoc tree`, or from a file of `sacctmgr dump`.

The tree indents an account by its depth, which is how its parent is known; a column `Par Name`
tells it, too (format=...,ParentName).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.associations import ROOT, AccountLimits, AssociationTable, Who
from slurm_ext.simulate.limits.limit import SUMS
from slurm_ext.simulate.limits.limit_values import columns_that_say, left_out, limits_of
from slurm_ext.simulate.limits.qos_file import who
from slurm_ext.simulate.limits.sacctmgr_file import dumped, header_of, lines_of, listed

HOW = "Cluster|Account|User|... (sacctmgr -P show assoc tree)"
PARENT = "Par Name"
ELSEWHERE = (
    "Cluster",
    "Account",
    "User",
    "Partition",
    PARENT,
    "Share",
    "Fairshare",
    "Priority",
    "QOS",
    "Def QOS",
    "DefaultQOS",
    "DefaultAccount",
    "DefaultWCKey",
    "WCKeys",
    "AdminLevel",
    "Coordinator",
    "Description",
    "Organization",
    "Classification",
    "Comment",
    "Flags",
    "ID",
    "Lineage",
)
"""Columns that are read apart, or that limit nothing: fair shares of a replay are equal ones."""

Row = tuple[int, Who, str, Mapping[str, str]]  # line, who, the parent, values by column


def read_associations(path: Path) -> AssociationTable:
    """The associations of a file. Raises InputError, naming the line and the column."""
    lines = lines_of(path)
    is_listing = {"Account", "User"} <= {*header_of(lines)}
    rows = list(_listed(lines, path) if is_listing else _dumped(lines, path))
    by: dict[Who, AccountLimits] = {}
    for number, whose, parent, values in rows:
        if whose in by:
            raise InputError(str(path), f"{' '.join(whose).strip()} is there twice", line=number)
        try:
            by[whose] = _association(whose, parent, values)
        except ValueError as error:
            raise InputError(
                str(path), f"{' '.join(whose).strip()}: {error}", line=number
            ) from None
    if not any(user for _, user, _ in by):
        raise InputError(str(path), "has no user: give what `sacctmgr -P show assoc tree` prints")
    return AssociationTable(
        source=str(path),
        by=by,
        usual_account=dict(_usual(rows, "DefaultAccount")),
        usual_qos={
            whose[:2]: name
            for _, whose, _, values in rows
            if (name := values.get("Def QOS") or values.get("DefaultQOS"))
        },
    )


def _usual(rows: list[Row], column: str) -> Iterator[tuple[str, str]]:
    for _, (_, user, _), _, values in rows:
        if user and values.get(column):
            yield user, values[column]


def _association(whose: Who, parent: str, values: Mapping[str, str]) -> AccountLimits:
    account, user, partition = whose
    columns = columns_that_say(values)
    limits = limits_of(columns)
    return AccountLimits(
        account=account,
        user=user,
        partition=partition,
        parent=parent,
        sums={limit: value for limit, value in limits.items() if limit[0] in SUMS},
        each={limit: value for limit, value in limits.items() if limit[0] not in SUMS},
        left_out=tuple(left_out(columns, ELSEWHERE)),
    )


def _listed(lines: list[str], path: Path) -> Iterator[Row]:
    above: list[tuple[int, str]] = []  # accounts from the root down to here, and their depths
    cluster = None
    for number, values in listed(lines, path):
        if cluster not in (None, values.get("Cluster")):
            why = "is of several clusters: give `sacctmgr -P show assoc tree cluster=NAME`"
            raise InputError(str(path), why, line=number)
        cluster = values.get("Cluster")
        account = values["Account"].strip()
        user, partition = values["User"].strip(), values.get("Partition", "").strip()
        if user:
            yield number, (account, user, partition), "", values
            continue
        depth = len(values["Account"]) - len(values["Account"].lstrip())
        above = [account_above for account_above in above if account_above[0] < depth]
        parent = values.get(PARENT, "").strip() or (
            above[-1][1] if above else _usual_parent(account)
        )
        above.append((depth, account))
        yield number, (account, "", ""), parent, values


def _usual_parent(account: str) -> str:
    """Without a tree each account is below the root."""
    return "" if account == ROOT else ROOT


def _dumped(lines: list[str], path: Path) -> Iterator[Row]:
    for line in dumped(lines, path, HOW):
        if line.kind == "QOS":
            continue
        account, user = who(line.kind, line.name, line.parent)
        partition = line.values.get("Partition", "")
        parent = line.parent if line.kind == "Account" else ""
        yield line.line, (account or ROOT, user, partition), parent, line.values
