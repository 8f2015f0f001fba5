"""JSON without `re`: the same values and texts as `json`, whatever C part a Python has."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.common import json_text

ROOT = Path(__file__).parents[3]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture(params=["own", "absent", "other"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module as it is, without a C part, and with one whose encoder takes other arguments."""
    if request.param == "absent":
        monkeypatch.setitem(sys.modules, "_json", None)
    elif request.param == "other":
        monkeypatch.setattr("_json.make_encoder", lambda: None)
    yield importlib.reload(json_text)
    monkeypatch.undo()
    importlib.reload(json_text)


@given(VALUES)
def test_values_come_back(value: Any) -> None:
    """Text and value are those of `json`."""
    text = json_text.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"))
    assert json_text.loads(text) == value


def test_it_is_json_with_any_c_part(either: Any) -> None:
    """White space around a value is none of it."""
    document = {"a": [1, 2.5, None, True, "é\n\ud800"], "b": {}}
    assert either.loads(f" \n{json.dumps(document, indent=1)}\t\r\n") == document
    assert either.dumps(document) == json.dumps(document, separators=(",", ":"))


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":}', "[1] 2", "NaN", "[-Infinity]", "\ufeff{}", "'a'", '"\n"']
)
def test_what_is_no_json_is_a_value_error(either: Any, text: str) -> None:
    """NaN too, which `json` takes."""
    with pytest.raises(ValueError, match=r"."):
        either.loads(text)


def test_what_has_no_text_is_refused(either: Any) -> None:
    """A number that is none, and an object that is no JSON."""
    with pytest.raises(ValueError, match="float"):
        either.dumps([float("nan")])
    with pytest.raises(TypeError):
        either.dumps({"a": object()})


def test_hooks_import_neither_re_nor_enum() -> None:
    """Half of their time went there."""
    hooks = ", ".join(f"slurm_ext.node.hooks.{name}" for name in ("entry", "task_prolog", "prolog"))
    more = ", ".join(
        f"slurm_ext.node.{name}" for name in ("hooks.epilog", "record.compose", "transport.worker")
    )
    shown = "print(sorted({'re', 'enum', 'json', 'typing'} & {*sys.modules}))"
    code = f"import sys; sys.path.append({str(ROOT)!r}); import {hooks}, {more}; {shown}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"
