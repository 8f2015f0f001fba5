"""Exposed communication of traced steps: what no computing hides, on made-up traces."""

from typing import Any

import pytest

from slurm_ext.probe.windows.exposed import HIDDEN, MARK, by_step


def event(name: str, start: float, length: float, cat: str = "cpu_op", tid: int = 1) -> Any:
    """One event of a trace; milliseconds."""
    return {"ph": "X", "name": name, "ts": 1e3 * start, "dur": 1e3 * length, "cat": cat, "tid": tid}


def step(start: float, length: float) -> Any:
    """One marked step."""
    return event(MARK, start, length, "user_annotation")


def in_ms(found: list[dict[str, float]]) -> list[dict[str, float]]:
    """Milliseconds, without kinds of nothing."""
    return [{name: round(1e3 * value, 3) for name, value in row.items()} for row in found]


def test_what_a_kernel_covers_is_hidden() -> None:
    """NCCL's kernels less the others; two collectives at a time are one wait."""
    trace = [
        step(0, 100),
        event("gemm", 10, 30, "kernel", 7),
        event("ncclDevKernel_AllGather_RING_LL(args<4096ul>)", 30, 30, "kernel", 20),
        event("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 50, 20, "kernel", 21),
        event("aten::mm", 55, 40),  # a launch is no computing where a GPU computes
    ]
    expected = {HIDDEN: 10.0, "all-gather": 20.0, "reduce-scatter": 10.0}
    assert in_ms(by_step(trace)) == [expected]


def test_on_cpus_an_operator_that_waits_is_no_computing() -> None:
    """A hook's collective lies in the operator that calls it; only operators' own parts compute.

    It is named and begun by its call: gloo reduces and scatters by an all-reduce, a while later.
    """
    trace = [
        step(0, 100),
        event("autograd::engine::evaluate_function: PostBackward", 20, 60),
        event("c10d::_reduce_scatter_base_", 30, 1),
        event("gloo:all_reduce", 45, 25, "user_annotation", 2),
        event("aten::add_", 65, 10),
    ]
    assert in_ms(by_step(trace)) == [{HIDDEN: 5.0, "reduce-scatter": 35.0}]


def test_a_collective_over_the_edge_is_in_both_steps() -> None:
    """Each step has its own part; what lies outside of steps counts nowhere."""
    trace = [
        step(0, 50),
        step(50, 50),
        event("gloo:all_reduce", 40, 30, "user_annotation"),
        event("gloo:barrier", 95, 30, "user_annotation"),
        event("gloo:all_gather", 200, 30, "user_annotation"),
    ]
    assert in_ms(by_step(trace)) == [
        {HIDDEN: 0.0, "all-reduce": 10.0},
        {HIDDEN: 0.0, "all-reduce": 20.0, "other exchanges": 5.0},
    ]


@pytest.mark.parametrize("trace", [[], [{"ph": "M", "name": "process_name"}], [step(0, 1)]])
def test_a_trace_without_communication_has_none(trace: list[Any]) -> None:
    """No event, no number."""
    assert all(row == {HIDDEN: 0.0} for row in by_step(trace))
