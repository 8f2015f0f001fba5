"""Limits of associations and QOS as sacctmgr lists them."""

import pytest

from slurm_ext.slurm import Association, JobAllowance
from slurm_ext.slurm.accounting import ASSOCIATION_COLUMNS, QOS_COLUMNS, enforced, read_accounting

ASSOCIATIONS = """\
root|||||normal||||||
sub|||sandbox||normal|cpu=8,mem=4G|cpu=6||cpu=100|cpu=7|cpu=5
sub|root|main||small|normal,small|cpu=8|cpu=6||||billing=5
"""  # 22.05.8: sacctmgr -nP show assoc
QOS = """\
normal|||||||||||
small|cpu=1|cpu=2|||cpu=7,mem=3000|||||cpu=99|
billed|||||billing=9||||||
"""


def test_both_listings_are_read() -> None:
    """Each kind of limit counts, the smallest of a kind; memory in MiB; billing is told apart."""
    read = read_accounting(ASSOCIATIONS, QOS)
    assert read.associations == (
        Association(account="root", qos=("normal",)),
        Association(
            account="sub",
            parent="sandbox",
            qos=("normal",),
            allowance=JobAllowance(
                max_cpus=6, max_mem_mib=4096, max_cpu_minutes=5, sum_cpu_minutes=5, used_up=True
            ),
        ),
        Association(
            account="sub",
            user="root",
            partition="main",
            default_qos="small",
            qos=("normal", "small"),
            allowance=JobAllowance(max_cpus=6, by_other_means=True),
        ),
    )
    assert read.qos == {
        "normal": JobAllowance(),
        "small": JobAllowance(
            min_cpus=1,
            max_cpus=2,
            max_mem_mib=3000,
            max_cpu_minutes=99,
            sum_cpus=7,
            sum_cpu_minutes=99,
        ),
        "billed": JobAllowance(by_other_means=True),
    }


def test_a_listing_with_other_columns_is_refused() -> None:
    """A sacctmgr that lacks a column must not have its limits read as another's."""
    with pytest.raises(ValueError, match="zip"):
        read_accounting("root|x|y\n", "")
    assert (len(ASSOCIATION_COLUMNS), len(QOS_COLUMNS)) == (12, 12)


@pytest.mark.parametrize(
    ("kind", "enforce", "whether"),
    [
        ("slurmdbd", "associations,limits,qos", True),
        ("slurmdbd", "associations,limits,safe", True),
        ("slurmdbd", "associations,qos", False),
        ("slurmdbd", "none", False),
        ("none", "limits", False),
    ],
)
def test_limits_count_where_slurm_enforces_them(kind: str, enforce: str, whether: bool) -> None:
    """Slurmctld looks at them only with slurmdbd and with limits (safe implies them)."""
    config = {"AccountingStorageType": f"accounting_storage/{kind}"}
    assert enforced({**config, "AccountingStorageEnforce": enforce}) is whether
    assert enforced(config) is False


@pytest.mark.parametrize(
    ("limits", "mps", "shard"),
    [
        ("cpu=8", None, None),
        ("gres/gpu=4", 0, 0),
        ("gres/gpu:a100=4,gres/mps=300", 300, 0),
        ("gres/mps=100", 100, None),
    ],
)
def test_a_limit_on_gpus_has_to_count_their_parts_too(
    limits: str, mps: int | None, shard: int | None
) -> None:
    """A job that asks for a part of a GPU must not escape what its user's GPUs are limited to."""
    read = read_accounting("", f"q||{limits}|||||||||\n").qos["q"]
    assert (read.max_mps, read.max_shard) == (mps, shard)
    by_minutes = read_accounting("", f"q|||||||{limits}||||\n").qos["q"]
    none = 0 if "gres" in limits else None
    assert (by_minutes.max_mps, by_minutes.max_shard) == (none, none)
    at_least = read_accounting("", "q|gres/gpu=1||||||||||\n").qos["q"]
    assert (at_least.max_mps, at_least.max_shard) == (0, 0)


def test_limits_on_the_sum_of_a_users_jobs_are_told_apart() -> None:
    """A limit of one job is none of several; those of a user, an account and a group are."""
    cells = {"MaxTRESPerJob": "gres/gpu=2", "MaxTRESPerUser": "gres/gpu=6", "GrpTRES": "gres/gpu=8"}
    row = "|".join({"Name": "q", **cells}.get(column, "") for column in QOS_COLUMNS)
    allowance = read_accounting("", f"{row}\n").qos["q"]
    assert (allowance.max_gpus, allowance.max_user_gpus) == (2, 6)


def test_limits_on_sums_stand_apart() -> None:
    """A job that takes all of a sum holds up its user's others; CPU time may be used up."""
    listing = "small||||cpu=40|cpu=20|cpu=30||cpu=9000|cpu=500|cpu=300|\n"
    allowance = read_accounting("", listing).qos["small"]
    assert (allowance.sum_cpus, allowance.sum_cpu_minutes) == (20, 300)
    assert (allowance.max_cpus, allowance.max_cpu_minutes, allowance.used_up) == (20, 300, True)
