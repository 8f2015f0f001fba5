"""The manual page of the run record, from its table of fields (node/record/fields.py)."""

from collections.abc import Iterator

NAME = "dlqueue-record"
_ABOUT = (
    "A node writes one record for each run of a job, as JSON, into its spool. The advisor checks"
    " every field below and keeps it in history.db; a record with a wrong one is quarantined with"
    " the reason. A field that is not required may be absent, which means the same as null: not set"
    " or not measured. Unknown fields are ignored. \\fBdlqueue explain\\fR JOB \\fB\\-\\-json\\fR"
    " prints what was kept of a job."
)


def record_page() -> str:
    """The page in roff, section 5."""
    from slurm_ext import __version__
    from slurm_ext.cli.common import command_facts as facts
    from slurm_ext.cli.common.roff import section

    head = f'.TH DLQUEUE\\-RECORD 5 "" "dlqueue {__version__}" "dlqueue"'
    what = "dlqueue\\-record \\- what a node writes of a run, field by field"
    ends = section("EXAMPLES", "B", facts.RECORD_EXAMPLES) + section(
        "FILES", "I", facts.RECORD_FILES
    )
    return "\n".join(
        [head, ".SH NAME", what, ".SH DESCRIPTION", _ABOUT, ".SH FIELDS", *_fields(), ends]
    )


def _fields() -> Iterator[str]:
    from slurm_ext.node.record.fields import HEAD, PARTS, SECTIONS

    for section, columns in {"record": HEAD, **SECTIONS, **PARTS}.items():
        yield f".SS {section}"
        for name, kind, unit, least, most, required, column, about in columns:
            facts = [kind, *([unit] if unit else []), f"{least:g} to {most:g}"]
            facts += ["required"] if required else []
            facts += [f"column {column}"] if column else []
            yield f".TP\n\\fB{name}\\fR ({', '.join(facts)})\n{about}".replace("-", "\\-")
