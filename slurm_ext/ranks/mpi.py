"""Gradients of several ranks a GPU over MPI (mpi4py), for jobs that `srun` starts as MPI ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class MpiTwoLevelReduction:
    """Communicators of one layout: ranks g*R to g*R + R - 1 share GPU g, and g*R leads them.

    Collective: every rank of `comm` makes it. Raises ValueError if the ranks do not fill the
    GPUs evenly.
    """

    def __init__(self, comm: Intracomm, ranks_per_gpu: int) -> None:
        from mpi4py import MPI

        if ranks_per_gpu < 1 or comm.size % ranks_per_gpu:
            raise ValueError(f"{comm.size} ranks cannot be {ranks_per_gpu} on each GPU")
        self.world = comm.size
        self.neighbours = comm.Split(comm.rank // ranks_per_gpu, comm.rank)
        self.leads = self.neighbours.rank == 0
        self.leaders = comm.Split(0 if self.leads else MPI.UNDEFINED, comm.rank)

    def sum_(self, values: Any) -> Any:
        """`values`, a contiguous numpy array, becomes the sum over all ranks, in place."""
        from mpi4py import MPI

        if self.leads:
            self.neighbours.Reduce(MPI.IN_PLACE, values)
            self.leaders.Allreduce(MPI.IN_PLACE, values)
        else:
            self.neighbours.Reduce(values, None)
        self.neighbours.Bcast(values)
        return values

    def mean_(self, values: Any) -> Any:
        """The mean over all ranks, in place; returns it."""
        values /= self.world
        return self.sum_(values)
