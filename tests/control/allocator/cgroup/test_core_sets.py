"""Sets of cores at their bounds: lists as Linux writes them, and which cores a job gets."""

import pytest

from slurm_ext.control.allocator.cgroup.cores import assign_cores, format_cores, parse_cores


def cores(*numbers: int) -> frozenset[int]:
    """A set of cores."""
    return frozenset(numbers)


EIGHT = frozenset(range(8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", cores()),
        ("\n", cores()),
        (",", cores()),
        ("0", cores(0)),
        (" 0-3,8\n", cores(0, 1, 2, 3, 8)),
        ("3-3", cores(3)),
        ("8191", cores(8191)),
        ("5-6,,1", cores(1, 5, 6)),
    ],
)
def test_a_list_of_cores_is_read(text: str, expected: frozenset[int]) -> None:
    """Ranges include their ends, and empty items count for nothing."""
    assert parse_cores(text) == expected


@pytest.mark.parametrize("text", ["8192", "8191-8192", "4-3"])
def test_a_list_out_of_bounds_names_itself(text: str) -> None:
    """A core number of 8192 or more, and a range that ends before it begins, are refused."""
    with pytest.raises(ValueError, match=f"^'{text}' is not a list of cores$"):
        parse_cores(text)


def test_a_long_list_is_cut_in_the_message() -> None:
    """The first 80 characters of a bad list are shown."""
    text = "9999," * 20
    with pytest.raises(ValueError, match=f"^'{text[:80]}' is not a list of cores$"):
        parse_cores(text)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (cores(), ""),
        (cores(5), "5"),
        (cores(1, 2), "1-2"),
        (cores(0, 2), "0,2"),
        (cores(9, 8, 3, 1, 0, 2), "0-3,8-9"),
    ],
)
def test_the_shortest_list_is_written(numbers: frozenset[int], expected: str) -> None:
    """Neighbours are one range, of two already."""
    assert format_cores(numbers) == expected


def test_a_pool_that_is_too_small_is_refused() -> None:
    """As many cores as there are can be assigned, and not one more."""
    assert assign_cores({"a": 1, "b": 1}, cores(0, 1), {}, {}) == {"a": cores(0), "b": cores(1)}
    with pytest.raises(ValueError, match=r"^3 cores of 2$"):
        assign_cores({"a": 1, "b": 2}, cores(0, 1), {}, {})


@pytest.mark.parametrize(
    ("count", "now", "home", "expected"),
    [
        (1, cores(0, 1, 3), cores(3), cores(3)),  # shrinks to what Slurm gave it
        (2, cores(1, 2, 3), cores(), cores(1, 2)),  # of equals the lowest stay
        (2, cores(0, 1, 3), cores(3), cores(0, 3)),
        (2, cores(9, 6), cores(), cores(5, 6)),  # core 9 is not in the pool; 5 comes before 7
        (3, cores(), cores(6, 7, 20), cores(5, 6, 7)),  # its own, then the nearest
        (2, cores(0), cores(), cores(0, 1)),
        (2, cores(7), cores(), cores(6, 7)),
        (2, cores(0), cores(6), cores(0, 6)),  # its own by Slurm come before near ones
        (1, cores(), cores(), cores(0)),
        (0, cores(4), cores(4), cores()),
    ],
)
def test_a_job_keeps_its_cores_then_gets_its_own_then_near_ones(
    count: int, now: frozenset[int], home: frozenset[int], expected: frozenset[int]
) -> None:
    """Cores that it has stay, then those that Slurm gave it, then those nearest by number."""
    assert assign_cores({"a": count}, EIGHT, {"a": now}, {"a": home}) == {"a": expected}


def test_a_job_of_unknown_home_gets_the_middle_of_what_is_free() -> None:
    """Its neighbours on both sides are free then; of two in the middle it gets the lower."""
    assert assign_cores({"a": 1}, EIGHT, {}, {}) == {"a": cores(3)}
    assert assign_cores({"a": 1}, frozenset(range(9)), {}, {}) == {"a": cores(4)}


def test_a_free_core_goes_to_the_job_that_slurm_gave_it() -> None:
    """Even if another job, first by name, is as near."""
    expected = {"a": cores(0, 2), "b": cores(1)}
    assert assign_cores({"a": 2, "b": 1}, EIGHT, {"a": cores(0)}, {"b": cores(1)}) == expected


def test_cores_that_another_job_keeps_are_not_free() -> None:
    """A job that grows takes none of them, near as they are."""
    now = {"a": cores(0), "b": cores(1, 2)}
    expected = {"a": cores(0, 3), "b": cores(1, 2)}
    assert assign_cores({"a": 2, "b": 2}, EIGHT, now, {}) == expected
