"""Slurm's spellings of time, memory and TRES."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.units import (
    MIB,
    format_memory,
    format_minutes,
    parse_memory,
    parse_minutes,
    parse_tres,
)
from slurm_ext.node.record.squeue import memory_bytes, seconds

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


TIMES = [
    ("0", 0),
    ("90", 90),
    ("1:30", 1.5),
    ("1:30:00", 90),
    ("00:00:59", 59 / 60),
    ("23:59:59", 24 * 60 - 1 / 60),
    ("1-0", 24 * 60),
    ("1-12", 36 * 60),
    ("1-12:30", 36 * 60 + 30),
    ("2-00:00:30", 2 * 1440 + 0.5),
    ("UNLIMITED", None),
]
NO_TIMES = [
    "",
    "-",
    "1-",
    "-5",
    "1:2:3:4",
    "1-1:2:3:4",
    "1h",
    "a",
    "1.5",
    "1-a",
    "1:",
    ":1",
    "1--2",
]


@pytest.mark.parametrize(("text", "minutes"), TIMES)
def test_every_form_of_the_manual_is_read(text: str, minutes: float | None) -> None:
    """M, M:S, H:M:S, D-H, D-H:M and D-H:M:S mean what sbatch(1) says, on nodes as well."""
    assert parse_minutes(f" {text}\n") == minutes
    assert seconds(text) == (None if minutes is None else pytest.approx(minutes * 60))


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_is_refused(text: str) -> None:
    """A time that Slurm would not take is an error, never 0 or no limit; nodes leave it out."""
    with pytest.raises(ValueError, match="is not a Slurm time"):
        parse_minutes(text)
    assert seconds(text) is None


@pytest.mark.parametrize("text", ["٣", "1:٣", "9" * 11, "0:" + "9" * 400, "9" * 5000 + "-1"])
def test_no_number_is_too_long_for_a_machine(text: str) -> None:
    """Ten digits are 19,000 years; other scripts' digits are Slurm's no more than ours."""
    with pytest.raises(ValueError, match="is not a Slurm time"):
        parse_minutes(text)
    assert parse_minutes("9" * 10) == 9_999_999_999


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


SIZES = [
    ("0", 0),
    ("512", 512 << 20),
    ("7K", 7 << 10),
    ("4096K", 4 << 20),
    ("400M", 400 << 20),
    ("1.5G", 3 << 29),
    ("1.50G", 3 << 29),
    ("2T", 2 << 40),
    ("1P", 1 << 50),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_sizes_as_slurm_writes_them(text: str, size: int) -> None:
    """A bare number is mebibytes; letters are powers of 1024, on nodes as well."""
    assert parse_memory(f" {text} ") == size
    assert memory_bytes(f"cpu=2,mem={text},node=1") == size


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("4gb", 4 << 30), ("4g", 4 << 30), ("3B", 3 << 20)]
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    """Letters of either case, with or without the byte."""
    assert parse_memory(text) == size


def test_a_bare_number_has_the_unit_of_its_option() -> None:
    """`--memory` of our own commands may be in other units than Slurm's."""
    assert parse_memory("3", "G") == 3 << 30
    assert parse_memory("3K", "G") == 3 << 10


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0K"),
        (1, "1K"),
        (1024, "1K"),
        (1025, "2K"),
        ((1 << 20) - 1, "1024K"),
        (1 << 20, "1M"),
        (1 << 30, "1G"),
        (3 << 29, "1536M"),
        (1 << 40, "1T"),
        (1 << 50, "1P"),
    ],
)
def test_the_largest_exact_unit_is_printed(size: int, text: str) -> None:
    """What is no whole number of kibibytes is rounded up."""
    assert format_memory(size) == text


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0, "00:00:00"),
        (0.5, "00:00:30"),
        (59 + 59 / 60, "00:59:59"),
        (60, "01:00:00"),
        (1439.99, "23:59:59"),
        (1440, "1-00:00:00"),
        (3 * 1440 + 61.5, "3-01:01:30"),
    ],
)
def test_times_are_printed_as_slurm_does(minutes: float, text: str) -> None:
    """Days only where there are any; two digits of the others."""
    assert format_minutes(minutes) == text


@pytest.mark.parametrize(
    "text", ["", "G", "-4G", "4X", "4 G", "1e9", "4GG", "0x10", "1.", ".5", "9" * 16, "1.0000001G"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size that cannot be read is an error, not a guess."""
    with pytest.raises(ValueError, match="not a memory size"):
        parse_memory(text)


NAMES = st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6}(:[a-z0-9]{1,4})?)?", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 10**6).map(str), max_size=6))
def test_a_tres_list_survives_the_round_trip(tres: dict[str, str]) -> None:
    """Every name and count of a TRES list is found, typed GRES included."""
    assert parse_tres(",".join(f"{name}={count}" for name, count in tres.items())) == tres


@pytest.mark.parametrize(
    ("text", "tres"),
    [
        ("", {}),
        (" , ", {}),
        (" cpu = 4 ,mem=1G,", {"cpu": "4", "mem": "1G"}),
        ("gres/gpu:a100=2", {"gres/gpu:a100": "2"}),
        ("a==b", {"a": "=b"}),
    ],
)
def test_spaces_and_ends_do_not_count(text: str, tres: dict[str, str]) -> None:
    """Sacct pads its columns, and sacctmgr ends lists with a comma."""
    assert parse_tres(text) == tres


def test_a_mebibyte() -> None:
    """Slurm's unit of memory."""
    assert parse_memory("1") == MIB == 1 << 20


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu= ", "=4", " =4", "cpu=4,gres/gpu"])
def test_half_a_tres_is_refused(text: str) -> None:
    """A name without a count is an error."""
    with pytest.raises(ValueError, match="TRES"):
        parse_tres(text)
