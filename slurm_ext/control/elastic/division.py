"""The division of a pool's GPUs among its elastic jobs, as the policy decides it. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from slurm_ext.control.elastic.jobs import ElasticPool, Resizable
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.elastic.gpu_division import DivisionTerms, Utility
from slurm_ext.policy.elastic.optimiser import GpuBudget, divided, sizes_for
from slurm_ext.policy.elastic.user_shares import UserShares, divided_among_users
from slurm_ext.policy.elastic.utility import ElasticJob, GoodputReport, utility_of


def division_of(
    pool: ElasticPool,
    reports: Mapping[str, GoodputReport | None],
    wanted: Mapping[str, int],
    settings: Settings,
    wait_s: float = 0.0,
) -> dict[str, int]:
    """The policy's own: what a replay of this state would decide (elastic_optimiser.py).

    `wanted`: the sizes of jobs that were requeued and wait for them, which they keep. A running job
    is never stopped for others: it keeps what it has if nothing is left for it. A stop costs
    `elastic.restart_s` and `wait_s`. No user has more than an equal share of what others want, or
    than limits leave him.
    """
    able = _sizes(pool, settings)
    sizes = tuple(sorted({*able, *(resizable.gpus for resizable in pool.jobs)}))
    gpus = pool.gpus - sum(wanted.get(resizable.name, 0) for resizable in pool.jobs)
    jobs = [resizable for resizable in pool.jobs if resizable.name not in wanted]
    while True:
        wishes = [
            _utility(_elastic(resizable, reports), sizes, {*able, resizable.gpus}, pool)
            for resizable in jobs
        ]
        shares = _shares(pool, jobs, wanted)
        divide = _divider(pool, sizes, settings, wait_s)
        division = divided_among_users(divide, wishes, max(gpus, 0), sizes, shares)
        stay = [
            resizable for resizable in jobs if resizable.runs and resizable.name not in division
        ]
        if not stay:
            return division
        gpus -= sum(resizable.gpus for resizable in stay)
        jobs = [resizable for resizable in jobs if resizable not in stay]


def _divider(
    pool: ElasticPool, sizes: tuple[int, ...], settings: Settings, wait_s: float
) -> Callable[[Sequence[Utility], int], dict[str, int]]:
    by = str(settings["elastic.optimiser"])
    terms = DivisionTerms(restart_s=settings["elastic.restart_s"] + wait_s, gpus_a_job=0.0)

    def divide(some: Sequence[Utility], count: int) -> dict[str, int]:
        budget = GpuBudget(gpus=count, per_node=pool.per_node)
        return divided(by, some, sizes, budget, terms)

    return divide


def _sizes(pool: ElasticPool, settings: Settings) -> tuple[int, ...]:
    """Sizes that the optimiser chooses from."""
    board = GpuBudget(gpus=max(pool.gpus, 1), per_node=pool.per_node)
    most = max(resizable.most for resizable in pool.jobs)
    return sizes_for(settings["elastic.optimiser"], board, most)


def _shares(
    pool: ElasticPool, divided_jobs: Sequence[Resizable], wanted: Mapping[str, int]
) -> UserShares:
    """Users of the pool's jobs; those that are not divided keep their GPUs, or will have them."""
    gpus = Counter[str]()
    for resizable in pool.jobs:
        if resizable not in divided_jobs:
            gpus[resizable.user] += wanted.get(resizable.name, resizable.gpus)
    users = {resizable.name: resizable.user for resizable in pool.jobs}
    return UserShares(user_of=users, most=pool.most, held=gpus)


def _elastic(resizable: Resizable, reports: Mapping[str, GoodputReport | None]) -> ElasticJob:
    name = resizable.name
    return ElasticJob(
        name=name,
        least=resizable.least,
        most=resizable.most,
        held=resizable.gpus if resizable.runs else 0,
        arrival_s=float(resizable.info.submit_time_s or 0),
        report=reports.get(name),
    )


def _utility(job: ElasticJob, sizes: tuple[int, ...], own: Set[int], pool: ElasticPool) -> Utility:
    """Utility of one job at each of `sizes`; only its `own` it can have.

    The size that another job holds may be one that is not alike on the pool's nodes.
    """
    columns = [column for column, size in enumerate(sizes) if size in own]
    utility = utility_of(job, tuple(sizes[column] for column in columns), pool.per_node)
    goodput = np.zeros(len(sizes))
    goodput[columns] = utility.goodput
    return replace(utility, goodput=goodput)
