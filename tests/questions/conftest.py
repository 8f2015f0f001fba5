"""Fixtures of the tests of questions."""

from tests.advisor.service.conftest import advisor
from tests.munge import munge
from tests.questions.port_rig import as_user, rig

__all__ = ["advisor", "as_user", "munge", "rig"]
