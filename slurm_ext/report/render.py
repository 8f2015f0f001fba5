"""The one jinja2 environment: an undefined name in a template is an error, never an empty cell."""

from typing import Any

import jinja2


def render(template: str, /, **values: Any) -> str:
    """The text of `templates/<template>`; HTML templates escape, Markdown ones use `text`."""
    text: str = _environment().get_template(template).render(**values)
    return text


def as_text(value: object) -> str:
    """A user's words as one Markdown table cell: no line break, no markup, no terminal escape."""
    flat = "".join(char if char.isprintable() else "·" for char in str(value))
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in flat)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slurm_ext.report"),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html", "html.jinja"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["text"] = as_text
    return environment
