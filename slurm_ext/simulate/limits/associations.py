"""Associations of a site: limits of accounts, of those below them, and of users.

Limits whose name begins with Max are each user's; who sets none has those of the account, or of the
next one above that sets one. Those that begin with Grp are of all jobs below.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from slurm_ext.simulate.limits.limit import Limit

GROUP = "Grp"
ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """An account, or a user in it; `left_out`: what it sets and no replay has."""

    account: str
    user: str = ""
    partition: str = ""  # of a user's: only jobs there
    parent: str = ""  # of an account: the one above
    sums: Mapping[Limit, int] = field(default_factory=dict)
    each: Mapping[Limit, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name, as messages have it."""
        where = f" in partition {self.partition}" if self.partition else ""
        return (
            f"user {self.user} of {self.account}{where}" if self.user else f"account {self.account}"
        )


Who = tuple[str, str, str]  # account, user, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationTable:
    """The associations of a cluster; `usual`: default accounts of users, and default QOS."""

    source: str
    by: Mapping[Who, AccountLimits]
    usual_account: Mapping[str, str] = field(default_factory=dict)
    usual_qos: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by account and user

    def account_of(self, account: str, user: str) -> str:
        """A job's account; the user's default one, or the only one, where it names none."""
        if account or user in self.usual_account:
            return account or self.usual_account[user]
        accounts = {other for other, name, _ in self.by if name == user}
        return accounts.pop() if user and len(accounts) == 1 else ""

    def path(self, account: str, user: str, partition: str) -> tuple[AccountLimits, ...]:
        """The user of a job, with limits that it inherits, and the accounts, lowest first.

        Empty: the job's account is not known.
        """
        accounts = tuple(self._accounts(account))
        if not accounts:
            return ()
        own = self.by.get((account, user, partition)) or self.by.get((account, user, ""))
        own = own or AccountLimits(account=account, user=user)
        sums, of_a_job = dict[Limit, int](), dict[Limit, float]()
        for owner in reversed((own, *accounts)):
            sums |= {limit: value for limit, value in owner.sums.items() if not _is_group(limit)}
            of_a_job |= owner.each
        sums |= {limit: value for limit, value in own.sums.items() if _is_group(limit)}
        return (replace(own, sums=sums, each=of_a_job), *(_groups(owner) for owner in accounts))

    def _accounts(self, account: str) -> Iterator[AccountLimits]:
        """The account and those above it."""
        passed = set[str]()
        while (limits := self.by.get((account, "", ""))) and account not in passed:
            yield limits
            passed.add(account)
            account = limits.parent


def _groups(account: AccountLimits) -> AccountLimits:
    """An account's limits on all jobs below it."""
    sums = {limit: value for limit, value in account.sums.items() if _is_group(limit)}
    return replace(account, sums=sums, each={})


def _is_group(limit: Limit) -> bool:
    return limit[0].startswith(GROUP)
