"""The hooks' JSON is json's, without the time that importing json takes."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.common import jsontext
from slurm_ext.node.common.job import is_token
from slurm_ext.node.common.spool_layout import is_key, record_id
from tests.node.by_hand import MAIN, TOKEN, Node

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip
HOOKS = {
    "prolog": "prolog_slurmd",
    "task_prolog": "prolog_task",
    "epilog": "epilog_slurmd",
    "sampler": "prolog_slurmd",  # an epilog waits for it
}
SLOW = {"json", "re", "enum", "collections", "functools", "contextlib", "signal", "subprocess"}


@given(VALUES)
def test_what_is_written_is_jsons(value: object) -> None:
    """The same text as json's, and the same value when it is read."""
    text = jsontext.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"))
    assert jsontext.loads(text) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-tfnNI \n\\u', max_size=12))
def test_what_is_read_is_read_as_json_reads_it(text: str) -> None:
    """The same value or the same refusal, for text that is JSON or nearly."""
    assert _read(jsontext.loads, text) == _read(json.loads, text)


def _read(loads: Callable[[str], object], text: str) -> str:
    try:
        return repr(loads(text))
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_what_is_not_finite_is_not_written(value: object) -> None:
    """JSON has no word for it."""
    with pytest.raises(ValueError, match="JSON compliant"):
        jsontext.dumps(value)


def test_what_json_does_not_know_is_refused() -> None:
    """As json refuses it, by its type."""
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        jsontext.dumps({"a": set()})


def test_another_python_has_the_json_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CPython's C functions everything goes on, only later."""
    monkeypatch.setitem(sys.modules, "_json", None)
    assert jsontext.loads(jsontext.dumps({"a": [1, None]})) == {"a": [1, None]}
    assert jsontext.loads("[NaN]", lambda name: name) == ["NaN"]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_imports_nothing_slow(node: Node, hook: str) -> None:
    """Most of a hook's time is importing: none of what takes milliseconds."""
    node.prolog(7)
    argv = [sys.executable, "-I", "-S", "-X", "importtime", str(MAIN), hook, str(node.json), "7.0"]
    more = {"SLURM_JOB_EXIT_CODE": "0", "DLQUEUE_DECISION": TOKEN}
    done = subprocess.run(argv, env=node.env(7, HOOKS[hook], **more), capture_output=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert any(
        name.startswith("slurm_ext.node.") and name.endswith(f".{hook}") for name in imported
    )
    assert imported & SLOW == set()
    assert hook != "task_prolog" or Path(node.spool.run_dir("7.0"), "decision").exists()


@pytest.mark.parametrize(
    ("name", "right"),
    [
        *[(name, True) for name in ("7.0", "1" * 18 + ".0", "0.123456789")],
        *[(name, False) for name in ("1" * 19 + ".0", "7.1234567890", "7", "7.", ".0")],
        *[(name, False) for name in ("7.0.1", "\u0667.0", "7.0\n", "-7.0", "")],
    ],
)
def test_keys(name: str, right: bool) -> None:
    """A job's id and its restarts, in digits, of bounded length."""
    assert is_key(name) is right


@pytest.mark.parametrize(
    "name", ["", "d1-", "d1-0123456789ABCDEF", "d1-0123456789abcde", f"{TOKEN}\n", f"{TOKEN}0"]
)
def test_tokens(name: str) -> None:
    """Sixteen hexadecimal digits in lower case, and nothing else."""
    assert is_token(TOKEN)
    assert not is_token(name)


def test_a_records_name_is_a_file_name() -> None:
    """Whatever cluster and node are called."""
    assert record_id("a/b c", 7, 0, "n.é-1") == "a_b_c-7-0-n._-1"
