"""Places on nodes on small examples: what leaves the least, who moves, and who finds none."""

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.placement import place


def test_a_part_goes_where_it_leaves_the_least() -> None:
    """Of equal nodes the first; the largest part first, by name where they are as large."""
    held = {"x": {0: 1}, "y": {1: 2}}
    assert place({"x": 1, "y": 2, "a": 1}, held, 3, 4)["a"] == {1: 1}
    assert place({"x": 1, "y": 2, "a": 2}, held, 3, 4)["a"] == {1: 2}
    assert place({"b": 2, "a": 2, "c": 4}, {}, 2, 4) == {"c": {0: 4}, "a": {1: 2}, "b": {1: 2}}
    assert place({"a": 1, "b": 2}, {}, 2, 4) == {"b": {0: 2}, "a": {0: 1}}


def test_a_job_moves_if_its_place_is_not_the_right_one() -> None:
    """Another size, a node that is not there, or more nodes than it needs."""
    assert place({"a": 2}, {"a": {1: 2}}, 2, 4) == {"a": {1: 2}}
    assert place({"a": 2}, {"a": {1: 4}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {2: 2}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {-1: 2}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 2}, {"a": {0: 1, 1: 1}}, 2, 4) == {"a": {0: 2}}
    assert place({"a": 8}, {"a": {1: 4, 2: 4}}, 3, 4) == {"a": {1: 4, 2: 4}}


def test_the_emptiest_node_is_cleared_for_a_whole_one() -> None:
    """No more than are needed, and full nodes last."""
    held = {"a": {0: 2}, "b": {1: 1}, "c": {2: 4}}
    placed = place({"a": 2, "b": 1, "c": 4, "w": 4}, held, 3, 4)
    assert placed == {"a": {0: 2}, "c": {2: 4}, "w": {1: 4}, "b": {0: 1}}
    both = place({"a": 2, "b": 1, "w": 4}, {"a": {0: 2}, "b": {1: 1}}, 3, 4)
    assert (both["a"], both["b"], both["w"]) == ({0: 2}, {1: 1}, {2: 4})
    full = {"a": {0: 2}, "b": {0: 2}, "c": {1: 2}}
    assert place({"a": 2, "b": 2, "c": 2, "w": 4}, full, 3, 4)["w"] == {2: 4}
    two = place({"v": 8, "w": 4}, {}, 3, 4)
    assert two == {"v": {0: 4, 1: 4}, "w": {2: 4}}


def test_small_parts_make_room_for_a_larger_one() -> None:
    """The fewest of them, off the node that is nearest to enough."""
    held = {"a": {0: 1}, "b": {0: 1}, "c": {0: 1}, "d": {1: 1}, "e": {1: 1}, "f": {1: 1}}
    sizes = dict.fromkeys("abcdef", 1) | {"g": 2}
    placed = place(sizes, held, 2, 4)
    assert placed["g"] == {0: 2}
    assert placed["a"] == {1: 1}
    assert {name: placed[name] for name in "bcdef"} == {name: held[name] for name in "bcdef"}


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"a": 9}, "9 GPUs of 8"),
        ({"a": 0}, "expected parts of a node or whole nodes: {'a': 0}"),
        ({"a": 6}, "expected parts of a node or whole nodes: {'a': 6}"),
        ({"a": 3, "b": 3, "c": 2}, "no place for 2 GPUs: sizes do not divide each other"),
    ],
)
def test_why_there_is_no_place(sizes: dict[str, int], why: str) -> None:
    """The message has the numbers."""
    with pytest.raises(InputError) as raised:
        place(sizes, {}, 2, 4)
    assert why in str(raised.value)
    assert len(place({"a": 8}, {}, 2, 4)["a"]) == 2
