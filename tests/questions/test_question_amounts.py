"""Numbers of a question, which a stranger writes."""

import json

import pytest

from slurm_ext.core.errors import WireError
from slurm_ext.questions.question import VERSION, decode


@pytest.mark.parametrize("amount", ["1" + "0" * 400, "1e19", "NaN", "Infinity", "-1e300", "true"])
def test_a_number_beyond_all_sense_is_refused_by_name(amount: str) -> None:
    """Whole numbers of any length are JSON, too, and no float holds them."""
    fields = f'{{"limit": 1, "since_s": {amount}}}'
    raw = f'{{"v": {VERSION}, "kind": "jobs", "nonce": "{"0" * 32}", "fields": {fields}}}'
    with pytest.raises(WireError, match="since_s"):
        decode(raw.encode())
    sound = json.loads(raw.replace(amount, "12.5"))
    assert decode(json.dumps(sound).encode()).fields["since_s"] == 12.5
