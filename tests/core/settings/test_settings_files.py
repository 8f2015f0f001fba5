"""Settings files with one fault each: the error names file, key, value, and what is valid."""

import re
from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError, SettingsError
from slurm_ext.core.settings.document import load

FILES = sorted((Path(__file__).parents[2] / "bad_input" / "settings").iterdir())
NOT_TOML = {"torn-half-way.toml", "key-twice.toml", "not-utf-8.toml", "nul-bytes.toml"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_error_says_where_what_and_what_would_be_valid(path: Path) -> None:
    """One line, without a control character, whatever is in the file."""
    with pytest.raises(InputError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()
    if path.name in NOT_TOML:
        assert re.search("is not TOML|is not UTF-8", said)
    else:
        assert isinstance(caught.value, SettingsError)
        assert re.search(r": [a-z_.]+ = .+ is not valid: expected .+", said)
