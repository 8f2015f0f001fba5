"""The planned actions of the queue, elastic and energy loops as a table."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def action_lines(status: Mapping[str, Any], details: Iterable[str]) -> "Iterator[RenderableType]":
    """The mode, the actions, and the loop's own lines."""
    from rich.markup import escape
    from rich.table import Table

    actions = status["moves"]
    count = len(actions)
    yield f"mode {status['mode']}: {count} action{'' if count == 1 else 's'}"
    if actions:
        table = Table("job or node", "action", "outcome", "why", box=None)
        for row in actions:
            cells = (row["subject"], row["done"], row["outcome"] or "not done", row["why"])
            table.add_row(*map(escape, cells))
        yield table
    yield from map(escape, details)
