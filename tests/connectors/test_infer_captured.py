"""Topics written by real connectors: the proposed table reads each record, and deletes are deletes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.connectors import Inspection, infer_schema, inspect_topic
from kvformat.registry import KeyValueFormat
from tests.support.registry_server import Registry

Messages = list[bytes | None]
FAR = 9_223_372_036_825_200_000
"""PostgreSQL's infinity, in microseconds."""


def texts(*rows: Any) -> Messages:
    return [json.dumps(row).encode() for row in rows]


def wrapped(name: str, fields: Mapping[str, str], *rows: Any, names: Mapping[str, str] | None = None) -> Messages:
    """Return rows as Connect's JsonConverter writes them with a named schema."""
    parts = [
        {"field": f, "type": t, "optional": True, **({"name": names[f]} if names and f in names else {})}
        for f, t in fields.items()
    ]
    schema = {"type": "struct", "name": name, "fields": parts}
    return texts(*({"schema": schema, "payload": row} for row in rows))


def avro(schema_id: int, schema: Any, *rows: Any) -> Messages:
    parsed, found = fastavro.parse_schema(schema), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        found.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    return [*found]


def read(found: Inspection, keys: Messages, values: Messages) -> list[tuple[str, Any]]:
    """Read all records with the proposed table and return the row kinds and rows."""
    assert found.ddl is not None, found.notes
    batch = KeyValueFormat.from_ddl(found.ddl).decode_batch(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    assert batch.errors is None, batch.errors
    assert batch.row_kinds is not None
    rows = batch.rows.values
    times = [i for i, field in enumerate(rows.type) if pa.types.is_timestamp(field.type)]
    columns = [rows.field(i).cast(pa.int64()) if i in times else rows.field(i) for i in range(rows.type.num_fields)]
    return [
        (kind, dict(zip(rows.type.names, row, strict=True)))
        for kind, *row in zip(batch.row_kinds.to_pylist(), *(c.to_pylist() for c in columns), strict=True)
    ]


# --- without the row before a change ---------------------------------------------------------------------

DEFAULT = [
    {"op": "r", "before": None, "after": {"id": 1, "name": "a"}},
    {"op": "u", "before": None, "after": {"id": 1, "name": "b"}},
    {"op": "d", "before": {"id": 1, "name": None}, "after": None},
]
"""Messages for PostgreSQL's default replica identity."""
DEFAULT_KEYS = texts({"id": 1}, {"id": 1}, {"id": 1})
CHANGED = [("+I", {"id": 1, "name": "a"}), ("+U", {"id": 1, "name": "b"}), ("-D", {"id": 1, "name": None})]


def test_updates_without_the_old_row_are_read_by_key() -> None:
    values = texts(*DEFAULT)
    found = inspect_topic(values, DEFAULT_KEYS)
    assert found.guesses[0].options == {"changelog.mode": "upsert"}
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in (found.ddl or "")
    assert read(found, DEFAULT_KEYS, values) == CHANGED
    (note,) = [note for note in found.notes if "replica identity" in note]
    assert note.startswith("value: 1 changes come without the row before them")
    inferred = infer_schema(values, format="debezium-json", keys=DEFAULT_KEYS)
    assert (inferred.primary_key, dict(inferred.options)) == (("id",), {"changelog.mode": "upsert"})


def test_without_a_key_a_note_says_what_is_missing() -> None:
    found = infer_schema(texts(*DEFAULT), format="debezium-json")
    assert dict(found.options) == {}
    assert "which needs a PRIMARY KEY, and the keys of the records name none" in found.notes[-1]


def test_deletes_with_only_the_key_need_upsert_mode() -> None:
    found = infer_schema(texts(DEFAULT[0], DEFAULT[2]), format="debezium-json", keys=DEFAULT_KEYS[:2])
    assert dict(found.options) == {"changelog.mode": "upsert"}
    whole = {"op": "d", "before": {"id": 1, "name": "a"}, "after": None}
    found = infer_schema(texts(DEFAULT[0], whole), format="debezium-json", keys=DEFAULT_KEYS[:2])
    assert dict(found.options) == {}
    empty = {"op": "c", "before": None, "after": {"id": 1, "name": None}}
    found = infer_schema(texts(empty, DEFAULT[2]), format="debezium-json", keys=DEFAULT_KEYS[:2])
    assert dict(found.options) == {}, "no row has more than its key"
    given = infer_schema(texts(*DEFAULT), format="debezium-json", keys=DEFAULT_KEYS, options={"changelog.mode": "all"})
    assert dict(given.options) == {"changelog.mode": "all"}


@pytest.mark.parametrize("key_format", ["avro", "json"])
def test_avro_key_comes_from_the_registry(registry: Registry, key_format: str) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]
    row = {"type": "record", "name": "Value", "fields": fields}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    envelope = {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    registry.ids = {3: json.dumps(envelope), 4: json.dumps(key)}
    values = avro(3, envelope, *DEFAULT)
    keys = avro(4, key, *[{"id": 1}] * 3) if key_format == "avro" else DEFAULT_KEYS
    found = inspect_topic(values, keys, registry=registry.url)
    assert found.guesses[0].options["changelog.mode"] == "upsert"
    assert read(found, keys, values) == CHANGED


def test_unchanged_column_placeholders_are_recognized() -> None:
    toast = {"op": "u", "before": None, "after": {"id": 1, "name": "__debezium_unavailable_value"}}
    values = texts(DEFAULT[0], toast)
    found = inspect_topic(values, DEFAULT_KEYS[:2])
    assert found.guesses[0].options == {"changelog.mode": "upsert", "unchanged.columns": "keep"}
    assert any("1 messages have __debezium_unavailable_value in place of" in note for note in found.notes)
    rows = read(found, DEFAULT_KEYS[:2], values)
    assert rows[1] == ("+U", {"id": 1, "name": None, "unchanged_columns": ["name"]})
    given = infer_schema(values, format="debezium-json", keys=DEFAULT_KEYS[:2], options={"unchanged.columns": "null"})
    assert dict(given.options) == {"changelog.mode": "upsert", "unchanged.columns": "null"}
    assert dict(infer_schema(values, format="debezium-json").options) == {}, "without a key, no old value is kept"


def test_messages_without_changes_are_skipped() -> None:
    others = texts({"ts_ms": 1}, {"status": "BEGIN", "id": "5", "event_count": None})
    values = [*texts(*DEFAULT), *others]
    keys = [*DEFAULT_KEYS, *texts({"serverName": "x"}), None]
    found = inspect_topic(values, keys)
    # heartbeats have other keys, which do not count for the PRIMARY KEY
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in (found.ddl or "")
    assert "'debezium-json.other-messages' = 'skip'" in (found.ddl or "")
    assert any(note.startswith("2 messages are not changes of rows") for note in found.notes)
    assert read(found, keys, values) == CHANGED
    truncate = texts({"op": "t", "before": None, "after": None})
    notes = inspect_topic([*values, *truncate], [*keys, None]).notes
    assert any(note.startswith("1 of 6 records are errors to the proposed table") for note in notes)


def test_several_tables_on_a_topic_are_named() -> None:
    one, other = ({"op": "c", "after": {name: 1}, "source": {"schema": "s", "table": name}} for name in ("a", "b"))
    found = infer_schema(texts(one, other), format="debezium-json")
    assert "the messages are of several tables (s.a, s.b), and the columns those of all" in found.notes[0]
    maxwell = {"type": "insert", "database": "d", "data": {"a": 1}}
    found = infer_schema(texts({**maxwell, "table": "a"}, {**maxwell, "table": "b"}), format="maxwell-json")
    assert found.notes[0].endswith("'table.include', and 'database.include', choose one")
    assert infer_schema(texts({**maxwell, "table": "a"}), format="maxwell-json").notes == ()


@pytest.mark.parametrize(("count", "end"), [(10, "d.t08, d.t09)"), (11, "d.t08, d.t09, ...)"), (40, "d.t09, ...)")])
def test_a_note_names_at_most_ten_tables(count: int, end: str) -> None:
    rows = [
        {"type": "insert", "data": {"a": 1}, "database": "d", "table": f"t{number % count:02}"} for number in range(90)
    ]
    (note,) = infer_schema(texts(*rows), format="maxwell-json").notes
    assert f"{end}, and the columns" in note


# --- flattened rows --------------------------------------------------------------------------------------

ROW, KEY = {"id": 1, "at": 1_700_000_000_000_000}, {"id": 1}
COLUMNS = {"id": "int32", "at": "int64"}
MICROS = {"at": "io.debezium.time.MicroTimestamp"}


def marked(row: Mapping[str, Any], op: str) -> dict[str, Any]:
    return {**row, "__op": op, "__deleted": str(op == "d").lower(), "__table": "t"}


def test_flattened_rows_with_delete_markers() -> None:
    values, keys = texts(marked(ROW, "c"), marked(ROW, "d")), texts(KEY, KEY)
    found = inspect_topic([*values, None], [*keys, *texts(KEY)])
    assert found.guesses[0].format == "debezium-json"
    assert "ExtractNewRecordState" in found.guesses[0].reason
    ddl = found.ddl or ""
    assert "'connector' = 'kafka'" in ddl
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in ddl
    assert "'debezium-json.flattened' = 'true'" in ddl
    row = {**ROW, "__table": "t"}
    assert read(found, [*keys, *texts(KEY)], [*values, None]) == [("+I", row), ("-D", row)]


def test_flattened_rows_with_a_schema_have_debezium_types() -> None:
    fields = {**COLUMNS, "__op": "string", "__deleted": "string"}
    rows = [{key: text for key, text in marked(ROW, op).items() if key != "__table"} for op in "cd"]
    values, keys = wrapped("a.b.t.Value", fields, *rows, names=MICROS), wrapped("a.b.t.Key", {"id": "int32"}, KEY, KEY)
    found = inspect_topic(values, keys)
    assert "`at` TIMESTAMP(6)" in (found.ddl or "")
    assert found.guesses[0].options == {"flattened": "true", "schema-include": "true", "types": "debezium"}
    assert read(found, keys, values) == [("+I", ROW), ("-D", ROW)]


@pytest.mark.parametrize(
    ("name", "types", "told"),
    [
        ("a.b.t.Value", {}, True),
        ("row", MICROS, True),
        ("row", {}, False),
        ("io.debezium.connector.common.Heartbeat.Value", {}, False),
    ],
)
def test_schema_tells_the_source_of_unmarked_rows(name: str, types: Mapping[str, str], told: bool) -> None:
    values, keys = wrapped(name, COLUMNS, ROW, names=types), wrapped("a.b.t.Key", {"id": "int32"}, KEY)
    found = inspect_topic([*values, None], [*keys, *keys])
    assert found.guesses[0].format == ("debezium-json" if told else "json")
    if told:
        assert "named NAME.Value or with types io.debezium.*" in found.guesses[0].reason
        assert "'connector' = 'upsert-kafka'" in (found.ddl or "")
        # the key of the record is a column of the row, or stays an object of schema and payload
        rows = read(found, [*keys, *keys], [*values, None])
        assert [(kind, row.get("payload", row)["id"]) for kind, row in rows] == [("+U", 1), ("-D", 1)]


def test_rows_without_markers_and_schema_are_recognized_by_null_text() -> None:
    values, keys = [*texts(ROW, {**ROW, "id": 2}), b"null"], texts(KEY, {"id": 2}, KEY)
    found = inspect_topic(values, keys)
    assert [guess.format for guess in found.guesses] == ["debezium-json", "json"]
    assert "the text null, as Kafka Connect's JsonConverter without schemas writes" in found.guesses[0].reason
    assert found.guesses[0].confidence == 1
    assert found.counts["nulls as JSON"] == 1
    ddl = found.ddl or ""
    assert "'connector' = 'upsert-kafka'" in ddl
    assert "'value.debezium-json.flattened' = 'true'" in ddl
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in ddl
    assert "'value.fields-include'" not in ddl  # the value contains the key's columns
    assert read(inspect_topic(values, keys), keys[:2], values[:2])[1] == ("+U", {**ROW, "id": 2})


def test_connect_tombstones_with_a_schema_are_recognized() -> None:
    values = wrapped("a.b.t.Value", COLUMNS, ROW, None)
    found = inspect_topic(values, wrapped("a.b.t.Key", {"id": "int32"}, KEY, KEY))
    assert [(guess.part, guess.format) for guess in found.guesses] == [("value", "debezium-json"), ("key", "json")]
    assert found.counts["nulls as JSON"] == 1


def test_null_text_among_texts_is_a_text() -> None:
    found = inspect_topic([b"null", b"hello", b"null"], [b"null", None, None])
    assert [(guess.part, guess.format) for guess in found.guesses] == [("value", "raw"), ("key", "raw")]
    assert "nulls as JSON" not in found.counts


def test_ordinary_upsert_topics_are_not_taken_for_debezium() -> None:
    found = inspect_topic([*texts(ROW, ROW), None], texts(KEY, KEY, KEY))
    assert found.guesses[0].format == "json"
    assert "'value.format' = 'json'" in (found.ddl or "")
    assert "'connector' = 'upsert-kafka'" in (found.ddl or "")
    assert "PRIMARY KEY (`id`) NOT ENFORCED" in (found.ddl or "")  # the value contains the key's column
    rows = read(found, texts(KEY, KEY, KEY), [*texts(ROW, ROW), None])
    assert rows[1:] == [("+U", ROW), ("-D", {"id": 1, "at": None})]


@pytest.mark.parametrize("keys", [[None, None], [b"1", b"1"], texts({"other": 1}, {"other": 1})])
def test_rows_without_key_columns_are_plain_rows(keys: Messages) -> None:
    values = texts(marked(ROW, "c"), marked(ROW, "d"))
    found = inspect_topic(values, keys)
    assert found.guesses[0].format == "json"
    assert "'__deleted'" not in (found.ddl or "")
    assert any(note.startswith("it is unknown which row an update or delete changes") for note in found.notes)
    assert "flattened" not in (found.ddl or "")


def test_key_column_takes_the_type_of_the_key() -> None:
    """Without schemas, key and value have wire types; with one, a date in the key is a number of days."""
    fields, names = {"d": "int32", "x": "string"}, {"d": "io.debezium.time.Date"}
    values, keys = wrapped("a.b.t.Value", fields, {"d": 19_000, "x": "a"}, names=names), texts({"d": 19_000})
    found = inspect_topic([*values, None], [*keys, *keys])
    assert "`d` INT" in (found.ddl or "")
    row = {"d": 19_000, "x": "a"}
    assert read(found, [*keys, *keys], [*values, None]) == [("+U", row), ("-D", {**row, "x": None})]


@pytest.mark.parametrize("deleted", [True, False])
def test_flattened_rows_in_avro(registry: Registry, deleted: bool) -> None:
    at = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": ["null", at]}]
    marks = [{"name": "__deleted", "type": ["null", "string"]}] if deleted else []
    value = {"type": "record", "name": "Value", "namespace": "a.b.t", "fields": [*fields, *marks]}
    key = {"type": "record", "name": "Key", "namespace": "a.b.t", "fields": fields[:1]}
    registry.ids = {3: json.dumps(value), 4: json.dumps(key)}
    rows = [{**ROW, "__deleted": "false"}, {**ROW, "__deleted": "true"}] if deleted else [ROW]
    values, keys = avro(3, value, *rows), avro(4, key, *[KEY] * 2)
    values = values if deleted else [*values, None]
    found = inspect_topic(values, keys, registry=registry.url)
    assert [guess.format for guess in found.guesses] == ["debezium-avro-confluent", "avro-confluent"]
    assert found.guesses[0].options["flattened"] == "true"
    assert f"'connector' = '{'kafka' if deleted else 'upsert-kafka'}'" in (found.ddl or "")
    kinds = read(found, keys, values)
    assert kinds[0] == ("+U", ROW)
    assert (kinds[1][0], kinds[1][1]["id"]) == ("-D", 1)


# --- types -----------------------------------------------------------------------------------------------


def test_timestamps_with_infinite_values_are_timestamps() -> None:
    fields, names = {"id": "int32", "z": "string"}, {"z": "io.debezium.time.ZonedTimestamp"}
    rows = [{"id": 1, "z": z} for z in ("2024-02-29T12:00:00Z", "infinity", None)]
    values, keys = wrapped("a.b.t.Value", fields, *rows, names=names), texts(*[KEY] * 3)
    found = infer_schema(values, format="debezium-json", keys=keys, options={"flattened": "true"})
    assert found.ddl == "`id` INT, `z` TIMESTAMP_LTZ(6)"
    assert dict(found.options)["types"] == "debezium"
    rows = read(inspect_topic(values, keys), keys, values)
    assert [row["z"] for _, row in rows] == [1_709_208_000_000_000, FAR, None]


@pytest.mark.parametrize(
    ("moments", "wanted", "own"),
    [
        (("2024-02-29T12:00:00Z", "infinity", "-infinity"), "TIMESTAMP_LTZ(6)", True),
        (("2024-02-29T12:00:00.5Z", "294246-12-31T23:59:59.999999Z"), "TIMESTAMP_LTZ(6)", True),
        (("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.123456Z"), "TIMESTAMP_LTZ(6)", False),
        (("2024-02-29T12:00:00Z", "infinity", "2024-02-29T12:00:00.1234567Z"), "STRING", False),
        (("2024-02-29T12:00:00Z", "infinity", "soon"), "STRING", False),
        (("infinity", "-infinity"), "STRING", False),
    ],
)
def test_timestamps_without_a_schema(moments: tuple[str, ...], wanted: str, own: bool) -> None:
    values = texts(*({"op": "c", "after": {"id": n, "z": z, "b": True}} for n, z in enumerate(moments)))
    keys = texts(*({"id": n} for n in range(len(moments))))
    found = infer_schema(values, format="debezium-json", keys=keys)
    assert found.ddl.replace("`", "") == f"id INT, z {wanted}, b BOOLEAN"
    assert ("types" in found.options) == own
    rows = read(inspect_topic(values, keys), keys, values)
    assert [row["b"] for _, row in rows] == [True] * len(moments)
    assert (FAR in [row["z"] for _, row in rows]) == (own and "infinity" in moments)


def test_timestamps_stay_texts_with_given_types_or_columns_that_need_more_options() -> None:
    rows = [{"z": z, "n": 12345678901234567.25} for z in ("2024-02-29T12:00:00Z", "infinity")]
    values = texts(*({"op": "c", "after": {"z": row["z"]}} for row in rows))
    given = infer_schema(values, format="debezium-json", options={"types": "flink"})
    assert (given.ddl, given.options["types"]) == ("`z` STRING", "flink")
    large = [value.replace(b'"}}', b'", "n": 12345678901234567.25}}') for value in values if value]
    found = infer_schema(large, format="debezium-json")
    assert found.ddl == "`z` STRING, `n` DECIMAL(38, 2)"
    assert "types" not in found.options


@pytest.mark.parametrize("moment", ["infinity", "2024-02-29T12:00:00Z"])
def test_timestamps_in_avro(registry: Registry, moment: str) -> None:
    z = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
    row = {"type": "record", "name": "Value", "fields": [{"name": "z", "type": ["null", z]}]}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    envelope = {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}
    registry.ids = {3: json.dumps(envelope)}
    values = avro(3, envelope, {"op": "c", "before": None, "after": {"z": moment}})
    found = inspect_topic(values, registry=registry.url)
    assert "`z` TIMESTAMP_LTZ(6)" in (found.ddl or "")
    assert read(found, [None], values) == [("+I", {"z": FAR if moment == "infinity" else 1_709_208_000_000_000})]


def test_canal_bytes_are_bytes() -> None:
    types = {"id": "int(11)", "b": "blob", "v": "varbinary(9)", "t": "text", "x": "longblob"}
    row = {"id": "1", "b": "\x00\xff", "v": None, "t": "\xff", "x": "\u20ac"}
    message = {"data": [row], "type": "INSERT", "isDdl": False, "mysqlType": types}
    found = infer_schema(texts(message), format="canal-json")
    assert found.ddl == "`id` INT, `b` BYTES, `v` BYTES, `t` STRING, `x` STRING"
    assert dict(found.options) == {"bytes.encoding": "ISO-8859-1"}
    assert read(inspect_topic(texts(message)), [None], texts(message))[0][1] == {**row, "id": 1, "b": b"\x00\xff"}
    numbers = {**message, "mysqlType": None, "sqlType": {"id": 4, "b": 2004, "v": -3, "t": 2005, "x": 12}}
    assert infer_schema(texts(numbers), format="canal-json").ddl == found.ddl
    given = infer_schema(texts(message), format="canal-json", options={"bytes.encoding": "base64"})
    assert "`b` STRING" in given.ddl


def test_debezium_types_read_a_set(registry: Registry) -> None:
    words = {"type": "string", "connect.name": "io.debezium.data.EnumSet"}
    row = {"type": "record", "name": "Value", "fields": [{"name": "s", "type": ["null", words]}]}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    envelope = {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}
    registry.ids = {3: json.dumps(envelope)}
    values = avro(3, envelope, {"op": "c", "before": None, "after": {"s": "red,blue"}})
    found = inspect_topic(values, registry=registry.url)
    assert read(found, [None], values) == [("+I", {"s": ["red", "blue"]})]
