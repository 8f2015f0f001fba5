"""Texts that fuzzing found: numbers beyond any machine, summaries that grow when parsed."""

import pytest

from slurm_ext.node.record.squeue import memory_bytes, seconds
from slurm_ext.node.record.summaries import MAX_PARTS, parse_summary


@pytest.mark.parametrize(
    "amount", ["1e308P", "inf", "nan", "-inf", "1e400", "-5G", "9e17P", "x", ""]
)
def test_an_impossible_memory_is_unknown(amount: str) -> None:
    """Neither a traceback nor a number that the history refuses."""
    assert memory_bytes(f"cpu=2,mem={amount},node=1") is None


def test_an_impossible_time_limit_is_unknown() -> None:
    """A limit that no integer of the history holds."""
    assert seconds("9" * 19 + "-00:00:00") is None
    assert seconds("1-00:00:00") == 86400


@pytest.mark.parametrize("part", [b"[]", b"{}", b"["])
def test_a_summary_of_many_parts_is_not_parsed(part: bytes) -> None:
    """They are counted in the bytes: parsed, one of three bytes takes sixty."""
    raw = b'{"v": 1, "loaders": [' + b",".join([part] * (MAX_PARTS + 1)) + b"]}"
    with pytest.raises(ValueError, match=f"at most {MAX_PARTS}"):
        parse_summary(raw)
