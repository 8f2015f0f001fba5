"""Slurm's lists of hosts and of reservations."""

from datetime import datetime

import pytest

from slurm_ext.node.common.job import first_host
from slurm_ext.slurm.hostlist import MOST, expand, first
from slurm_ext.slurm.listing import read_reservations


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,3],m2", ("n08", "n09", "n10", "n3", "m2")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[1,2]-ib", ("n1-ib", "n2-ib")),
        ("n[1-4]-ib,m1", ("n1-ib", "n2-ib", "n3-ib", "n4-ib", "m1")),
        ("gpu[3,5]", ("gpu3", "gpu5")),
        ("a,b", ("a", "b")),
        ("m2,n[1-2]", ("m2", "n1", "n2")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[5-5]", ("n5",)),
    ],
)
def test_a_list_is_its_names_in_order(text: str, names: tuple[str, ...]) -> None:
    """Zeros that fill are kept; the first is also found without the others, on nodes as well."""
    assert expand(text) == names
    assert first(text) == first_host(text) == (names[0] if names else text)


@pytest.mark.parametrize(("count", "fits"), [(MOST, True), (MOST + 1, False)])
def test_a_list_has_an_end(count: int, fits: bool) -> None:
    """A hundred thousand hosts are the most that a list may name."""
    text = f"n[1-{count}]"
    if fits:
        assert len(expand(text)) == count
    else:
        with pytest.raises(ValueError, match="names more than"):
            expand(text)


@pytest.mark.parametrize("text", ["n[1-", "n[a-b]", "n[]", "n]1", "n1,,n2", "n[0-999999999]"])
def test_an_odd_list_is_an_error(text: str) -> None:
    """Nothing is guessed, and nothing endless is made."""
    with pytest.raises(ValueError, match="host"):
        expand(text)
    assert first(text) == first_host(text)


def test_reservations_are_read_as_slurm_prints_them() -> None:
    """22.05's line; no reservation at all is a sentence."""
    line = (
        "ReservationName=r StartTime=2026-11-21T22:29:22 EndTime=2026-11-21T22:39:22 "
        "Duration=00:10:00 Nodes=n[2-3] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) "
        "Flags=SPEC_NODES TRES=cpu=4 Users=root State=ACTIVE BurstBuffer=(null)\n"
    )
    (one,) = read_reservations(line)
    assert (one.name, one.nodes) == ("r", ("n2", "n3"))
    assert one.start_s == datetime(2026, 11, 21, 22, 29, 22).timestamp()  # noqa: DTZ001 - local, as Slurm prints it
    assert one.end_s - one.start_s == 600
    assert read_reservations("No reservations in the system\n") == ()
