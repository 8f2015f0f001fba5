"""A document to standard output: as JSON, or in lines for people."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]


def tell(document: Document, lines: Callable[[Document], Iterable[str]], *, as_json: bool) -> None:
    """`lines` makes what people read of it; what would drive a terminal is shown, not obeyed."""
    if as_json:
        import json

        print(json.dumps(document))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines(document):
        console.print(Text("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)))
