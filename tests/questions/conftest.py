"""Fixtures of the tests of questions."""

from tests.advisor.service.conftest import advisor

__all__ = ["advisor"]
