"""The one jinja2 environment: an undefined name in a template is an error, never an empty cell.

A site may put templates of its own in place of ours. One that has an error is named with its line,
and ours stands in for it: nobody waits for a report because of a typo. All of them run in jinja2's
sandbox: they read what the report has, and reach nothing else of this process.
"""

import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slurm_ext.core.errors import InputError
from slurm_ext.report import formatting

FOLDER = "report"  # of templates/: what a site may replace


class TemplateError(InputError):
    """A site's template that could not be used; ours was."""


def render(template: str, /, **values: Any) -> str:
    """The text of `templates/<template>`; HTML templates escape, Markdown ones use `text`."""
    text: str = _environment().get_template(template).render(**values)
    return text


def render_with(
    site: Path | None, template: str, /, **values: Any
) -> tuple[str, list[TemplateError]]:
    """As `render`, with a site's templates before ours, and what was wrong with them.

    The templates know the faults as `faults`. Raises InputError where there is no such folder.
    """
    if site is not None and not site.is_dir():
        raise InputError(str(site), "is no folder; report.templates names one, or nothing")
    faults: dict[str, TemplateError] = {}
    while True:
        environment = _environment(site, faults)
        messages = sorted(faults.values(), key=str)
        try:
            return environment.get_template(template).render(**values, faults=messages), messages
        # Whatever a template does wrong: a name, an operation, a filter, a loop without an end.
        except Exception as error:
            name, fault = _blamed(error, site)
            if fault is None or name in faults:
                raise
            faults[name] = fault


def strangers(site: Path | None, keys: Iterable[str]) -> list[TemplateError]:
    """Files of a site's folder that stand in for nothing: a typo in a name must not be silent.

    `keys`: the sections, each of which may have a template. `_NAME.jinja` is a site's own part.
    """
    if site is None:
        return []
    ours = _environment().list_templates(filter_func=lambda name: name.startswith(f"{FOLDER}/"))
    names = {name.removeprefix(f"{FOLDER}/") for name in ours} | {f"{k}.html.jinja" for k in keys}
    paths = (path for path in sorted(site.iterdir()) if not path.name.startswith(("_", ".")))
    valid = ", ".join(sorted(names))
    return [
        TemplateError(str(path), f"stands in for no template of ours: {valid}, or _NAME for a part")
        for path in paths
        if path.name not in names
    ]


def as_text(value: object) -> str:
    """A user's words as one Markdown table cell: no line break, no markup, no terminal escape."""
    flat = "".join(char if char.isprintable() else "·" for char in str(value))
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in flat)


def _blamed(error: Exception, site: Path | None) -> tuple[str, TemplateError | None]:
    """The site's template in which it went wrong, and where; none where it was ours."""
    if site is None:
        return "", None
    places = [(str(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, jinja2.TemplateSyntaxError):
        places.append((str(error.filename), error.lineno))
    own = [(Path(path), line) for path, line in places if Path(path).is_relative_to(site)]
    if not own:
        return "", None
    path, line = own[-1]
    why = f"{type(error).__name__}: {error}".partition("\n")[0]
    return path.relative_to(site).as_posix(), TemplateError(
        str(path), f"{why}; ours stands in", line=line
    )


class _Environment(ImmutableSandboxedEnvironment):
    """Calls only methods of plain values, and what jinja2 itself brings."""

    def is_safe_callable(self, obj: Any) -> bool:
        """True for `"x".upper`, `rows.items`, macros and `range`; False for what acts."""
        owner = getattr(obj, "__self__", obj)
        plain = isinstance(owner, str | int | float | list | tuple | dict)
        own = type(owner).__module__.startswith("jinja2.") or obj in self.globals.values()
        return (plain or own) and super().is_safe_callable(obj)


class _Site(jinja2.BaseLoader):
    """A site's folder without its faulty templates."""

    def __init__(self, folder: Path, without: Mapping[str, TemplateError]) -> None:
        self._folder, self._without = folder, without

    def get_source(
        self,
        environment: jinja2.Environment,  # noqa: ARG002 (jinja2 hands it over)
        template: str,
    ) -> tuple[str, str, Any]:
        """Raises TemplateNotFound, or TemplateSyntaxError for what is no text."""
        name = template.removeprefix(f"{FOLDER}/")
        path = self._folder / name
        if name == template or name in self._without or ".." in path.parts or not path.is_file():
            raise jinja2.TemplateNotFound(template)
        try:
            return path.read_text(encoding="utf-8"), str(path), lambda: True
        except (OSError, UnicodeDecodeError) as error:
            why = f"cannot be read: {error}"
            raise jinja2.TemplateSyntaxError(why, 1, name, str(path)) from None


def _environment(
    site: Path | None = None, without: Mapping[str, TemplateError] | None = None
) -> jinja2.Environment:
    ours: jinja2.BaseLoader = jinja2.PackageLoader("slurm_ext.report")
    loaders = [ours] if site is None else [_Site(site, without or {}), ours]
    environment = _Environment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html", "html.jinja"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "text": as_text,
        "shown": formatting.shown,
        "heat": formatting.heat,
        "counted": formatting.counted,
    }
    return environment
