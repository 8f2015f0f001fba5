"""The autotune benchmark: what counts as settled."""

from typing import Any

from contrib.bench.autotune.__main__ import _settling


def trained(search: Any) -> dict[str, Any]:
    """A training's figures, with what its loader's search tells."""
    return {"search": search}


def test_a_search_that_never_settles_misses_the_target() -> None:
    """However soon the others do; a loader that was left alone has no search to judge."""
    soon, never = trained({"settled_s": 3.5}), trained({"settled_s": None})
    (met,) = _settling({"jpeg": soon, "left": trained(None)})
    assert (met["met"], met["got"]) == (True, 3.5)
    (missed,) = _settling({"jpeg": soon, "slow": never})
    assert (missed["met"], missed["what"]) == (False, "seconds until settled (slow: never)")
    assert _settling({"left": trained(None)}) == []
