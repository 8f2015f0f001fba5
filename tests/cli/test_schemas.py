"""The JSON of predict and explain is what contrib/schemas says: a key that is new there is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.predict.test_predict_explain import TOKEN, dlqueue, predicted, script, taught
from tests.manual import ROOT

__all__ = ["script", "taught"]  # fixtures


def schema(name: str) -> Draft202012Validator:
    """The schema, itself checked."""
    text = (ROOT / "contrib" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    found = json.loads(text)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def faults(name: str, document: dict[str, Any]) -> list[str]:
    """Where the document is not as the schema says."""
    return [f"{fault.json_path}: {fault.message}" for fault in schema(name).iter_errors(document)]


def test_an_answer_without_evidence_is_as_the_schema_says(tmp_path: Path, script: Path) -> None:
    """All keys are there, null where nothing is known."""
    assert faults("predict", predicted(tmp_path, script)) == []


def test_an_answer_with_evidence_is_as_the_schema_says(taught: Path, script: Path) -> None:
    """With predictions, curve and past runs."""
    said = predicted(taught, script)
    assert said["past"]
    assert faults("predict", said) == []


@pytest.mark.parametrize("named", [TOKEN, "1042"])
def test_an_explanation_is_as_the_schema_says(taught: Path, named: str) -> None:
    """By token and by job."""
    done = dlqueue("explain", named, "--json", folder=taught)
    assert faults("explain", json.loads(done.stdout)) == []


def test_a_key_that_the_schema_lacks_is_seen(tmp_path: Path, script: Path) -> None:
    """Else nobody would write it down."""
    said = predicted(tmp_path, script)
    assert faults("predict", {**said, "whim": 1})
    del said["why"]
    assert faults("predict", said)
