"""A question as its sender may ask it: about the sender's own jobs.

The kernel vouches for the uid; the name is the machine's own (a container's may differ), and the
account one that Slurm lets this user have.
"""

import pwd
from collections.abc import Callable, Collection
from dataclasses import replace

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Submission
from slurm_ext.core.wire import decode_request, encode_request

MOST_NAMES = 1024  # kept in memory
Accounts = Callable[[str], Collection[str] | None]
"""A user's name → names of its accounts in lower case; None where Slurm knows none."""
_UNSET = Submission().user_id


class SenderRules:
    """Turns questions into their senders' own, or refuses them."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._names: dict[int, str] = {}

    def own(self, request: bytes, uid: int) -> bytes:
        """The question with its sender's identity. Raises WireError naming the field."""
        kind, job = decode_request(request)
        return request if job is None else encode_request(kind, self.own_job(job, uid))

    def own_job(self, job: Submission, uid: int) -> Submission:
        """The job with its sender's identity. Raises WireError naming the field."""
        name = self.name(uid)
        if job.user_id not in (_UNSET, uid):
            raise _not_yours("user_id", job.user_id, uid)
        if job.user_id == _UNSET and job.user_name not in ("", name):
            raise _not_yours("user_name", job.user_name, name)
        accounts = self._accounts(name)
        if job.account and accounts is not None and job.account.lower() not in accounts:
            raise _not_yours("account", job.account, " or ".join(sorted(accounts)[:9]) or "none")
        return replace(job, user_name=name, user_id=uid)

    def name(self, uid: int) -> str:
        """The machine's name of a user, as `dlqueue predict` says it."""
        if uid not in self._names:
            if len(self._names) >= MOST_NAMES:
                self._names.clear()
            try:
                self._names[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self._names[uid] = str(uid)
        return self._names[uid]


def _not_yours(field: str, claimed: object, own: object) -> WireError:
    return WireError(f"job.{field} is {claimed!r:.80}, and yours is {own}: ask about your own jobs")
