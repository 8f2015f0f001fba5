"""Pages of the reference, made from the settings, the commands, the record's fields, the schemas.

They exist in the built site alone, so that they cannot be out of date.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slurm_ext.cli.common import command_facts as facts
from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.cli.common.parsers import module_of, parser_of
from slurm_ext.core.settings.table import TABLE
from slurm_ext.node.record.fields import HEAD, PARTS, SECTIONS

SCHEMAS = Path(__file__).parents[1] / "schemas"
WIDTH = "88"  # columns of what --help prints


def pages() -> Iterator[tuple[str, str]]:
    """Place in the site and Markdown of each page."""
    yield "reference/settings.md", "\n".join(_settings())
    yield "reference/commands.md", "\n".join(_commands())
    yield "reference/record.md", "\n".join(_record())
    for path in sorted(SCHEMAS.glob("*.json")):
        yield f"reference/{path.stem}-json.md", "\n".join(_schema(json.loads(path.read_text())))


def _settings() -> Iterator[str]:
    yield "# Settings"
    yield (
        "Keys of `/etc/dlqueue/dlqueue.toml` and of the files in `dlqueue.d` beside it. A later"
        " file's value counts. An unknown key, a wrong type and a value out of range are errors"
        " that name the file, the key and what is valid. `$ dlqueue config` prints them all."
    )
    section = ""
    for setting in TABLE:
        head, _, _ = setting.key.partition(".")
        if head != section:
            section = head
            yield f"\n## [{section}] {{ #{section} }}"
        default = json.dumps(setting.default) if setting.default != "" else "empty"
        yield f"\n### {setting.key} {{ #{setting.key} }}\n\n{setting.doc}."
        yield f"\nDefault: `{default}`. Valid: {setting.valid}."


def _commands() -> Iterator[str]:
    yield "# Commands\n\nEvery command takes `--json` and `--config FILE`.\n"
    yield from _table(("command", ""), ((f"[{c}](#{c})", text) for c, text in COMMANDS.items()))
    for command, text in COMMANDS.items():
        yield f"\n## dlqueue {command} {{ #{command} }}\n\n{text[0].upper()}{text[1:]}.\n"
        for line, about in facts.EXAMPLES[command]:
            yield f"- `{line}`: {about[0].lower()}{about[1:]}"
        parser = parser_of(command, module_of(command))
        yield from (f"\n```text\n{help_text}```" for help_text in _helps(parser))
        yield "\nExit status:\n"
        yield from _table(("status", ""), facts.statuses(command))
        yield "\nFiles:\n"
        yield from _table(("file", ""), ((f"`{path}`", use) for path, use in facts.files(command)))


def _helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What --help prints of a command, then of each of its verbs."""
    with patch.dict(os.environ, COLUMNS=WIDTH):
        yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _helps(verb)


def _record() -> Iterator[str]:
    yield "# Fields of a run record"
    yield (
        "A node writes one record for each run of a job, as JSON. The advisor checks every field"
        " and keeps it in history.db; a record with a wrong one is quarantined. A field"
        " that is not required may be absent, which means the same as null. *Column*: where the"
        " table `runs` keeps it."
    )
    for section, fields in {"record": HEAD, **SECTIONS, **PARTS}.items():
        yield f"\n## {section}\n"
        rows = (
            (f"`{name}`" + (" (required)" if required else ""), _kind(kind, unit), column, about)
            for name, kind, unit, _, _, required, column, about in fields
        )
        yield from _table(("field", "type", "column", ""), rows)


def _kind(kind: str, unit: str) -> str:
    return f"{kind}, {unit}" if unit else kind


def _schema(schema: Mapping[str, Any]) -> Iterator[str]:
    """The document's keys, then those of each part that it names."""
    yield f"# {schema['title']}\n\n{schema.get('description', '')}"
    yield from _properties(schema)
    for name, part in schema.get("$defs", {}).items():
        yield f"\n## {name} {{ #{name} }}\n\n{part.get('description', '')}"
        yield from _properties(part)


def _properties(schema: Mapping[str, Any]) -> Iterator[str]:
    for part in schema.get("oneOf", [schema]):
        required = part.get("required", ())
        rows = [
            (f"`{name}`" + ("" if name in required else " (may be absent)"), _type(value), about)
            for name, value in part.get("properties", {}).items()
            for about in [value.get("description", "")]
        ]
        if rows:
            yield ""
            yield from _table(("key", "type", ""), rows)


def _type(value: Mapping[str, Any]) -> str:
    """A type in words, with a link to the part that it is."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in value or "oneOf" in value:
        return " or ".join(_type(part) for part in value.get("anyOf", value.get("oneOf")))
    if "enum" in value or "const" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value.get("enum", [value.get("const")]))
    kinds = value.get("type", "anything")
    words = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    return f"{words} of {_type(value['items'])}" if isinstance(value.get("items"), dict) else words


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
