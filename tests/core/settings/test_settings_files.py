"""Settings files with one fault each: the error names file, key, value, and what is valid."""

import os
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


@pytest.mark.root
@pytest.mark.parametrize("fault", ["foreign", "public"])
def test_root_obeys_no_settings_of_others(tmp_path: Path, fault: str) -> None:
    """They name programs that are run: the message says how to make them root's."""
    path = tmp_path / "dlqueue.toml"
    path.write_text('[site]\nmode = "off"\n')
    assert load(path)["site.mode"] == "off"
    os.chown(path, 65534, -1) if fault == "foreign" else path.chmod(0o666)
    with pytest.raises(InputError, match="chown root, chmod o-w"):
        load(path)
