"""The table of fields: what the composer writes, the reader checks and the history keeps."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.ingest import rows
from slurm_ext.history.store.store import open_history
from slurm_ext.node.record import fields
from slurm_ext.node.record.field_checks import known_summary
from slurm_ext.node.record.reader import UnusableRecordError, validate

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spool" / "v1.json").read_text())
Field = tuple[Any, ...]
SQL = {fields.TEXT: "TEXT", fields.WHOLE: "INTEGER", fields.NUMBER: "REAL"}
EACH = [(name, field) for name, columns in fields.SECTIONS.items() for field in columns]
NUMBERS = [(name, field) for name, field in EACH if field[1] in (fields.WHOLE, fields.NUMBER)]

WRONG: dict[str, tuple[object, ...]] = {
    "batch_size": ([1], "abc", -1, {}, True),
    "phases": (None, "many", [7], [{"phase": "later"}]),
    "user_num_workers": ("4", [4]),
    "worker_rss_bytes": ("1", -5),
    "dataset": (3, ["x"]),
}


def named(parameter: Any) -> str:
    """Of a section or a field."""
    return parameter if isinstance(parameter, str) else str(parameter[0])


def changed(section: str, name: str, value: Any) -> bytes:
    """The golden record with one value changed."""
    return json.dumps({**GOLDEN, section: {**GOLDEN[section], name: value}}).encode()


def test_the_golden_record_has_the_fields_of_the_table() -> None:
    """Section by section, no more and no fewer."""
    for section, columns in fields.SECTIONS.items():
        assert sorted(GOLDEN[section]) == sorted(field[0] for field in columns)


def test_the_history_has_a_column_of_the_type_for_each_field(tmp_path: Path) -> None:
    """Whatever the table says of a column, the tables of history.db say, too."""
    with open_history(tmp_path / "history.db") as history:
        found = history.conn.execute("SELECT name, type FROM pragma_table_info('runs')").fetchall()
    columns = dict(found)
    assert set(rows.RUN_COLUMNS) == set(columns) - {"id", "ingested_s"}
    for _, field in EACH:
        if field[6]:
            assert columns[field[6]] == SQL.get(field[1], "INTEGER")


def test_each_field_has_a_sentence_and_sane_bounds() -> None:
    """For the manual, and so that no value is unbounded."""
    parts = [field for columns in fields.PARTS.values() for field in columns]
    for name, kind, _, least, most, *_, about in [*parts, *(field for _, field in EACH)]:
        assert name
        assert kind
        assert least <= 0 < most <= fields.LARGEST
        assert about.endswith(".")


@pytest.mark.parametrize(("section", "field"), EACH, ids=named)
def test_absent_means_null_where_a_field_is_not_required(section: str, field: Field) -> None:
    """Both are read; of a required field, neither is."""
    absent = {name: value for name, value in GOLDEN[section].items() if name != field[0]}
    for record in ({**GOLDEN, section: absent}, json.loads(changed(section, field[0], None))):
        raw = json.dumps(record).encode()
        if field[5]:
            with pytest.raises(UnusableRecordError, match=rf"has no {section}\.{field[0]}"):
                validate(raw, "x")
        else:
            assert validate(raw, "x")[section].get(field[0]) is None


@pytest.mark.parametrize(("section", "field"), EACH, ids=named)
@pytest.mark.parametrize("value", [True, {}, {"a": 1}, 1.5, "text", [1], 7], ids=str)
def test_a_value_of_another_type_is_refused(section: str, field: Field, value: object) -> None:
    """True is no number, 1.5 no integer; what passes is of the field's type."""
    types: dict[str, tuple[type, ...]] = {
        fields.TEXT: (str,),
        fields.WHOLE: (int,),
        fields.NUMBER: (int, float),
        fields.LIST: (list,),
        fields.TEXTS: (),
        fields.COUNTED: (list, int),
        fields.FLAG: (bool,),
    }
    fits = type(value) in types[field[1]] and field[0] not in ("state", "summaries")
    if fits:
        validate(changed(section, field[0], value), "x")
    else:
        with pytest.raises(UnusableRecordError):
            validate(changed(section, field[0], value), "x")


@pytest.mark.parametrize(("section", "field"), NUMBERS, ids=named)
def test_numbers_are_taken_up_to_their_bounds(section: str, field: Field) -> None:
    """Zero and the largest pass; minus one and one more do not."""
    for value in (0, fields.LARGEST):
        assert validate(changed(section, field[0], value), "x")[section][field[0]] == value
    for value in (-1, fields.LARGEST + 1):
        with pytest.raises(UnusableRecordError):
            validate(changed(section, field[0], value), "x")


@pytest.mark.parametrize(
    ("name", "most"), [("counters", fields.MAX_COUNTERS), ("corunners", fields.MAX_CORUNNERS)]
)
def test_lists_are_taken_up_to_their_length(name: str, most: int) -> None:
    """As many as the table allows, and not one more."""
    item = GOLDEN[name][0]
    assert validate(json.dumps({**GOLDEN, name: [item] * most}).encode(), "x")
    with pytest.raises(UnusableRecordError, match=f"{name} is no list of at most {most}"):
        validate(json.dumps({**GOLDEN, name: [item] * (most + 1)}).encode(), "x")


def test_texts_are_taken_up_to_their_length() -> None:
    """4,096 characters, and not one more."""
    validate(changed("identity", "job_name", "x" * fields.LONGEST), "x")
    with pytest.raises(UnusableRecordError):
        validate(changed("identity", "job_name", "x" * (fields.LONGEST + 1)), "x")


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=str,
)
def test_a_summary_that_no_probe_writes_is_left_out(name: str, value: Any) -> None:
    """It is the user's own process's: the rest of the record, and its evidence, is the same."""
    record = json.loads(json.dumps(GOLDEN))
    other = json.loads(json.dumps(GOLDEN["probe"]["summaries"][0]))
    other["loaders"][0][name] = value
    record["probe"]["summaries"].append(other)
    read = validate(json.dumps(record).encode(), "x")
    assert read["probe"]["summaries"] == GOLDEN["probe"]["summaries"]
    assert read["probe"]["faults"][-1].startswith("summary 1 is left out: ")
    assert rows.rows_of(read).loader == rows.rows_of(json.loads(json.dumps(GOLDEN))).loader
    record["probe"]["summaries"] = [other]
    assert rows.rows_of(validate(json.dumps(record).encode(), "x")).loader is None


def test_the_table_has_each_key_that_the_probe_writes() -> None:
    """Else the history would lack it: unknown keys of a summary are dropped."""
    written = json.loads((Path(__file__).parents[2] / "golden" / "probe" / "v1.json").read_text())
    (loader,) = written["loaders"]
    for values, columns in (
        (written, fields.SUMMARY),
        (written["directive"], fields.DIRECTIVE),
        (loader, fields.LOADER),
        (loader["phases"][0], fields.PHASE),
    ):
        assert set(values) == {column[0] for column in columns}
    assert known_summary(written) == written


def test_unknown_keys_of_a_summary_are_dropped() -> None:
    """A job has no other part of the history than the table's."""
    summary = GOLDEN["probe"]["summaries"][0]
    (loader, *_) = summary["loaders"]
    more = {**loader, "x": "y" * 4000, "phases": [{**loader["phases"][0], "z": [1] * 100}]}
    known = known_summary({**summary, "junk": ["y" * 4000] * 50, "loaders": [more]})
    assert known["loaders"] == [{**loader, "phases": loader["phases"][:1]}]
    assert known == {**summary, "loaders": known["loaders"]}


def test_a_record_has_the_keys_of_the_table_and_null_for_what_is_not_known() -> None:
    """The composer's own keys beyond it are left out."""
    assert fields.pick("times", {"end_s": 3.0, "more": 1}) == {
        **dict.fromkeys(("submit_s", "start_s", "elapsed_s")),
        "end_s": 3.0,
    }
