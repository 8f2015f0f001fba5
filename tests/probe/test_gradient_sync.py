"""Gradients' way to other ranks: what is read of torch's logger, when, and what is kept of it."""

import threading
from typing import Any

import pytest
import torch

from slurm_ext.probe.stalls.gradient_sync import NEVER, SyncTimes, rate_for, watch

MS = 1_000_000  # nanoseconds


class Module:
    """Stands in for a DistributedDataParallel whose logger times iterations as torch's does."""

    def __init__(self, size: int = 8) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(size))
        self.rate = 100
        self.iterations = 0  # forward passes that began
        self.data: dict[str, Any] = {"iteration": 0, "bucket_sizes": "48", "backend_name": "gloo"}

    def parameters(self) -> Any:
        """As torch's modules have them."""
        return iter([self.weight])

    def forward(self, exposed_ms: int = 20) -> None:
        """Begin one: the logger takes in the iteration before, if it is a timed one."""
        before = self.iterations
        self.iterations += 1
        if before and (before <= 10 or before % self.rate == 0):
            self.data |= {"iteration": before, "rebuilt_bucket_sizes": "32, 16"}
            self.data |= {"forward_compute_time": 30 * MS, "backward_compute_time": 60 * MS}
            self.data["backward_comm_time"] = (50 + exposed_ms) * MS
            self.data["backward_compute_comm_overlap_time"] = 50 * MS

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return dict(self.data)

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        self.rate = rate


def trained(
    steps: int, *, passes: int = 1, each_s: float = 0.1, cold: int = 0
) -> tuple[SyncTimes, Module]:
    """So many steps, each of so many synchronised passes; the first `cold` wait 500 ms."""
    sync, module = SyncTimes(), Module()
    sync.made(module, 0, 0.0)
    for step in range(1, steps + 1):
        for _ in range(passes):
            module.forward(500 if module.iterations <= cold else 20)
        if step >= sync.due:
            sync.look(step, step * each_s)
    return sync, module


def test_the_row_of_a_training() -> None:
    """Seconds of a pass, buckets in use, and the same iterations in each rank."""
    row = trained(60, each_s=100.0)[0].row()
    assert row is not None
    assert row["backend"] == "gloo"
    assert row["bucket_bytes"] == [32, 16]
    assert row["iterations"][:4] == [4, 6, 8, 10]
    assert row["exposed_s"] == [0.02] * len(row["iterations"])
    assert (row["steps"], row["per_step"]) == (57, 1.0)
    times = [row[name] for name in ("forward_s", "backward_s", "comm_s", "overlap_s")]
    assert times == pytest.approx([0.03, 0.06, 0.07, 0.05])


def test_the_first_two_passes_are_left_out() -> None:
    """They make connections, and torch's first buckets."""
    row = trained(60, cold=2)[0].row()
    assert row is not None
    assert row["comm_s"] == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("step_s", "read_s", "rate"),
    [(0.1, 5e-5, 1), (0.1, 6e-5, 2), (0.01, 5e-5, 10), (0.001, 5e-5, 100), (0.0, 0.0, 1)],
)
def test_timing_costs_a_thousandth_of_the_step(step_s: float, read_s: float, rate: int) -> None:
    """Torch's part and reading it; never fewer passes than torch times by itself."""
    assert rate_for(step_s, read_s) == rate


def test_on_cpus_more_passes_are_timed() -> None:
    """Where a step takes long, each of them."""
    assert trained(30, each_s=100.0)[1].rate == 1


@pytest.mark.parametrize("passes", [1, 4, 16])
def test_passes_for_each_step_are_counted(passes: int) -> None:
    """Gradient accumulation that synchronises each time."""
    row = trained(400, passes=passes)[0].row()
    assert row is not None
    assert row["per_step"] == pytest.approx(passes, rel=0.05)


def test_of_a_long_training_a_bounded_list_is_kept() -> None:
    """Whichever iterations it is, ranks that went equally far kept the same."""
    row = trained(20_000, each_s=100.0)[0].row()
    assert row is not None
    assert len(row["iterations"]) <= 32
    assert row["iterations"][-1] > 10_000
    assert row["steps"] > 1000


def test_a_rate_of_change_weighs_by_the_steps_that_it_stands_for() -> None:
    """Ten early passes are no tenth of a thousand."""
    sync, module = SyncTimes(), Module()
    sync.made(module, 0, 0.0)
    for step in range(1, 1002):
        module.forward(500 if module.iterations < 11 else 20)
        sync.look(step, 0.0)
    row = sync.row()
    assert row is not None
    assert row["comm_s"] - row["overlap_s"] == pytest.approx(0.02 + 8 / 998 * 0.48, rel=0.01)


def test_a_module_that_is_gone_is_not_kept() -> None:
    """Its numbers are, and nothing is read any more."""
    sync, module = trained(40)
    before = sync.row()
    del module
    sync.look(50, 5.0)
    assert sync.due == NEVER
    assert before is not None
    assert sync.row() == before


def test_the_larger_module_is_followed() -> None:
    """A smaller one beside it is not; one that comes after it is."""
    sync, small, large = SyncTimes(), Module(4), Module(400)
    for made in (small, large, Module(8)):
        sync.made(made, 0, 0.0)
    for step in range(1, 20):
        large.forward()
        sync.look(step, 0.0)
    assert sync.row() is not None
    del large
    sync.made(small, 20, 0.0)
    assert sync.row() is None


def test_another_thread_reads_nothing() -> None:
    """The logger's lock may be held for as long as other ranks take."""
    sync, module = SyncTimes(), Module()
    module.forward()
    sync.made(module, 0, 0.0)
    for _ in range(5):
        module.forward()
    thread = threading.Thread(target=sync.look, args=(5, 0.0))
    thread.start()
    thread.join()
    assert sync.row() is None
    sync.look(6, 0.0)
    assert sync.row() is not None


def test_nothing_is_read_within_a_backward_pass() -> None:
    """An optimiser that steps in its gradients' hooks would wait for its own pass."""
    sync, module = SyncTimes(), Module()
    sync.made(module, 0, 0.0)
    for _ in range(5):
        module.forward()
    weight: Any = torch.nn.Parameter(torch.ones(1))
    weight.register_post_accumulate_grad_hook(lambda _: sync.look(5, 0.0))
    (weight * 2).sum().backward()
    assert sync.row() is None


def test_a_module_that_never_synchronises_is_read_seldom() -> None:
    """Each look costs some microseconds."""
    sync, module = SyncTimes(), Module()
    sync.made(module, 0, 0.0)
    looks = 0
    for step in range(1, 1001):
        if step >= sync.due:
            looks += 1
            sync.look(step, 0.0)
    assert looks < 60
    assert sync.row() is None
    assert module.iterations == 0


def test_a_construction_is_as_it_was() -> None:
    """What fails in noting it is not the job's; its signature and its errors are torch's."""
    seen: list[Any] = []

    class Kind:
        def __init__(self, size: int) -> None:
            self.size = 1 // size

    def made(module: Any, _: Any) -> None:
        seen.append(module)
        raise RuntimeError

    watch(Kind, made)
    one = Kind(1)
    assert seen == [one]
    assert one.size == 1
    with pytest.raises(ZeroDivisionError):
        Kind(0)
    assert len(seen) == 1
