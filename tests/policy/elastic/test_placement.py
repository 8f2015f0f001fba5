"""Sizes find nodes, and who keeps its size mostly keeps its nodes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.gpu_division import sizes_of
from slurm_ext.policy.elastic.placement import Places, place


@st.composite
def rounds(draw: st.DrawFn) -> tuple[int, int, list[dict[str, int]]]:
    """A cluster, and what jobs get in a few rounds after each other, always as much as there is."""
    per_node, nodes = draw(st.sampled_from([1, 2, 4, 6, 8])), draw(st.integers(1, 5))
    sizes = sizes_of(nodes * per_node, per_node, nodes * per_node)
    asked = []
    for _ in range(draw(st.integers(1, 4))):
        left, given_out = nodes * per_node, dict[str, int]()
        for job in draw(st.permutations([str(number) for number in range(12)])):
            fits = [size for size in sizes if size <= left]
            if fits:
                given_out[job] = draw(st.sampled_from(fits))
                left -= given_out[job]
        asked.append(given_out)
    return per_node, nodes, asked


@given(rounds())
def test_whatever_sums_up_finds_a_place(case: tuple[int, int, list[dict[str, int]]]) -> None:
    """Every job has its size, on as few nodes as that needs, and no node gives more than it has."""
    per_node, nodes, asked = case
    held: Places = {}
    for sizes in asked:
        held = place(sizes, held, nodes, per_node)
        used: Counter[int] = Counter()
        for job, size in sizes.items():
            assert sum(held[job].values()) == size
            assert len(held[job]) == -(-size // per_node)
            used.update(held[job])
        assert set(held) == set(sizes)
        assert all(0 <= node < nodes and count <= per_node for node, count in used.items())


def test_who_keeps_its_size_stays() -> None:
    """Others go around them."""
    held = {"a": {1: 2}, "b": {0: 4}}
    placed = place({"a": 2, "b": 4, "c": 2, "d": 4}, held, 3, 4)
    assert placed["a"] == {1: 2}
    assert placed["b"] == {0: 4}
    assert placed["c"] == {1: 2}


def test_small_ones_move_where_a_node_is_needed() -> None:
    """Two halves on two nodes join on one for the sake of a whole one."""
    placed = place({"a": 2, "b": 2, "c": 4}, {"a": {0: 2}, "b": {1: 2}}, 2, 4)
    assert len({*placed["a"], *placed["b"]}) == 1


def test_a_whole_node_is_freed_even_where_each_has_somebody() -> None:
    """Full nodes of small jobs are cleared last."""
    held = {f"{number}": {number // 2: 2} for number in range(4)}
    placed = place({"0": 2, "1": 2, "whole": 4}, held, 2, 4)
    assert len(placed["whole"]) == 1


@pytest.mark.parametrize("sizes", [{"a": 9}, {"a": 0}, {"a": 6}, {"a": 3, "b": 3, "c": 2}])
def test_what_cannot_be_placed_is_an_error(sizes: dict[str, int]) -> None:
    """More than there is, or sizes that are neither parts nor whole nodes."""
    with pytest.raises(InputError, match="placement"):
        place(sizes, {}, 2, 4)
