"""Slurm's spellings of time, memory and TRES."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.units import (
    format_memory,
    format_minutes,
    parse_memory,
    parse_minutes,
    parse_tres,
)

SECONDS = st.integers(min_value=0, max_value=400 * 86400)


@given(SECONDS)
def test_a_time_survives_the_round_trip_to_the_second(seconds: int) -> None:
    """What we print as a time limit is the time limit that we read back."""
    read = parse_minutes(format_minutes(seconds / 60))
    assert read is not None
    assert round(read * 60) == seconds


def test_no_limit_is_none_both_ways() -> None:
    """UNLIMITED is not a number of minutes, and None is printed as Slurm's word."""
    assert parse_minutes("UNLIMITED") is parse_minutes("infinite") is parse_minutes("-1") is None
    assert format_minutes(None) == "UNLIMITED"


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("1:30", 1.5),
        ("1:30:00", 90),
        ("1-12", 36 * 60),
        ("1-12:30", 36 * 60 + 30),
        ("2-00:00:30", 2 * 1440 + 0.5),
        (" 10 ", 10),
    ],
)
def test_every_form_of_the_manual_is_read(text: str, minutes: float) -> None:
    """M, M:S, H:M:S, D-H, D-H:M and D-H:M:S mean what sbatch(1) says."""
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-5", "1:2:3:4", "1-1:2:3:4", "1h", "a", "1.5", "1-a"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    """A time that Slurm would not take is an error and never 0 or "no limit"."""
    with pytest.raises(ValueError, match=r"time|hours"):
        parse_minutes(text)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    """No text brings the parser down."""
    try:
        minutes = parse_minutes(text)
    except ValueError:
        return
    assert minutes is None or minutes >= 0


@given(st.integers(min_value=1, max_value=1 << 50))
def test_a_size_survives_the_round_trip_to_the_kibibyte(size: int) -> None:
    """A size is printed exactly, or rounded up by less than a kibibyte: never less than asked."""
    read = parse_memory(format_memory(size))
    assert 0 <= read - size < 1024


@given(st.integers(min_value=1, max_value=1 << 20), st.sampled_from("MGTP"))
def test_whole_units_are_printed_exactly(count: int, unit: str) -> None:
    """Multiples of a mebibyte come back as they were."""
    size = parse_memory(f"{count}{unit}")
    assert parse_memory(format_memory(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 << 30),
        ("400M", 400 << 20),
        ("512", 512 << 20),
        ("1.5G", 3 << 29),
        ("4096K", 4 << 20),
        ("4GiB", 4 << 30),
        ("4gb", 4 << 30),
    ],
)
def test_sizes_as_people_and_slurm_write_them(text: str, size: int) -> None:
    """A bare number is mebibytes; letters of either case are powers of 1024."""
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "G", "-4G", "4X", "4 G", "1e9", "4GG", "0x10"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size that cannot be read is an error, not a guess."""
    with pytest.raises(ValueError, match="not a memory size"):
        parse_memory(text)


NAMES = st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6}(:[a-z0-9]{1,4})?)?", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 10**6).map(str), max_size=6))
def test_a_tres_list_survives_the_round_trip(tres: dict[str, str]) -> None:
    """Every name and count of a TRES list is found, typed GRES included."""
    assert parse_tres(",".join(f"{name}={count}" for name, count in tres.items())) == tres


@pytest.mark.parametrize("text", ["cpu", "cpu=", "=4", "cpu=4,gres/gpu"])
def test_half_a_tres_is_refused(text: str) -> None:
    """A name without a count is an error."""
    with pytest.raises(ValueError, match="TRES"):
        parse_tres(text)
