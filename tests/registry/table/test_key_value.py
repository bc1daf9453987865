"""KeyValueFormat without Spark: reading and writing Flink's records, refusals, rows from keys and values, options."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import DecodedBatch, KeyValueFormat
from kvformat.registry.contract import discovery
from kvformat.registry.contract.errors import ConfigurationError, OptionError, ReadingOnlyError, SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.table import decode_records
from kvformat.registry.table.encode_records import hold_back
from tests.support import interop, vectors
from tests.support.probe import ProbeFormat

_UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
_KAFKA = {"key.format": "json", "key.fields": "id", "value.format": "json", "value.fields-include": "EXCEPT_KEY"}


# --- Flink's records --------------------------------------------------------------------------------------


def _decoded(kv: KeyValueFormat, case: interop.Case, row: FlinkType) -> tuple[list[interop.Row], bool]:
    """Return the rows before the first error, in the order of the table's columns, and whether there is an error."""
    columns = interop.table(case)
    of_value = [c for c in columns.metadata() if c.key.startswith("value.")]
    batch = kv.decode_batch(
        interop.binary(case, "key"), interop.binary(case, "value"), metadata=[column.key for column in of_value]
    )
    physical = [field.name for field in columns.physical().fields]
    given = FlinkType(
        "ROW",
        fields=(*columns.physical().fields, *(FlinkField(c.name, c.type) for c in of_value if c.type is not None)),
    )
    order = [[*physical, *(column.name for column in of_value)].index(field.name) for field in row.fields]
    rows: list[interop.Row] = []
    for i, values in enumerate(batch.rows):
        if batch.errors is not None and batch.errors[i].is_valid:
            return rows, True
        for place in range(batch.rows.offsets[i].as_py(), batch.rows.offsets[i + 1].as_py()):
            kind = "+I" if batch.row_kinds is None else batch.row_kinds[place].as_py()
            found = vectors.from_arrow(batch.rows.values[place], given)
            rows.append((kind, tuple(found[j] for j in order)))
        assert values.is_valid
    return rows, False


@pytest.mark.parametrize("name", sorted(set(interop.cases()) - set(interop.OTHER_RECORDS)))
def test_decoding_equals_flink(name: str, tmp_path: Path) -> None:
    case = interop.cases()[name]
    kv = KeyValueFormat.from_ddl(interop.ddl(case, tmp_path))
    row = interop.row_type(interop.table(case), of_kafka=False)
    rows, failed = _decoded(kv, case, row)
    key = interop.table(case).primary_key
    if key is not None and case["ddl"].count("'upsert-kafka'"):
        places = [[field.name for field in row.fields].index(column) for column in key]
        rows = interop.normalized(rows, places, row)
    wanted = interop.wanted_rows(case, row)
    assert failed == interop.fails(case)
    if failed:  # Flink emits rows in batches, so rows before the error may be missing
        rows = rows[: len(wanted)]
    assert interop.same_rows(case, rows, wanted, row), (rows, wanted)


@pytest.mark.parametrize("name", [name for name, case in interop.cases().items() if case["rows"]])
def test_encoding_equals_flink(name: str, tmp_path: Path) -> None:
    case = interop.cases()[name]
    kv = KeyValueFormat.from_ddl(interop.ddl(case, tmp_path))
    columns = interop.table(case)
    row = nullable(columns.physical())
    rows = interop.written_rows(case, row)
    if "sink.buffer-flush.max-rows" in columns.options:
        rows = _last_by_key(rows)
    struct = vectors.to_arrow([values for _, values in rows], row)
    batch = kv.encode_batch(struct, row_kinds=pa.array([kind for kind, _ in rows], pa.string()))
    assert batch.errors is None
    keys = pa.nulls(len(rows), pa.binary()) if batch.keys is None else batch.keys
    pairs = pa.table({"key": keys, "value": batch.values})
    pairs = pairs if batch.kept is None else pairs.filter(batch.kept)
    got = [(record["key"], record["value"]) for record in pairs.to_pylist()]
    wanted = list(zip(interop.binary(case, "key").to_pylist(), interop.binary(case, "value").to_pylist(), strict=True))
    if len({record["partition"] for record in case["records"]}) > 1 or "sink.buffer-flush.max-rows" in columns.options:
        got, wanted = sorted(got, key=repr), sorted(wanted, key=repr)
    assert got == wanted


def _last_by_key(rows: list[interop.Row]) -> list[interop.Row]:
    """Return the rows that remain after a sink's buffer removed duplicates."""
    return list({values[0]: (kind, values) for kind, values in rows}.values())


# --- Flink's refusals -------------------------------------------------------------------------------------


def _refusal(ddl: str, statement: str) -> str | None:
    """Return the error of reading (select) or writing (insert) a table, or None."""
    try:
        kv = KeyValueFormat.from_ddl(ddl)
        if statement == "select":
            kv.decode_batch(None, pa.array([], pa.binary()))
        else:
            kv.encode_batch(pa.array([], arrow_type(nullable(parse_create_table(ddl).physical()))))
    except ConfigurationError as error:
        return str(error)
    return None


@pytest.mark.parametrize("case", interop.refusals(), ids=lambda case: f"{case['name']}-{case['statement']}")
def test_tables_are_accepted_and_refused_as_in_flink(case: interop.Case, tmp_path: Path) -> None:
    wanted = case["error"] is not None and case["name"] != "metadata_header_list"  # supported in kvformat
    refusal = _refusal(interop.ddl(case, tmp_path), case["statement"])
    assert (refusal is not None) == wanted, refusal
    assert refusal is None or not [name for name in _named(case) if name not in refusal]


_TERMS = (
    "key.fields-prefix", "key.fields", "key.format", "value.format", "value.fields-include", "topic-pattern", "topic",
    "properties.bootstrap.servers", "scan.startup.timestamp-millis", "scan.startup.specific-offsets",
    "scan.bounded.timestamp-millis", "scan.bounded.specific-offsets", "sink.partitioner", "sink.buffer-flush.max-rows",
    "sink.buffer-flush.interval", "sink.transactional-id-prefix", "fail-on-missing-field", "ignore-parse-errors",
    "timestamp-format.standard", "csv.field-delimiter", "'raw'", "'json' format", "debezium-json", "canal-json",
    "maxwell-json", "'avro-confluent'", "avro-confluent.subject", "PRIMARY KEY", "Topic Pattern", "'JSON'",
    "'protobuf9'", "com.acme.Nope", "java.lang.String", "round-robin", "'nope'", "'x'", "'id,v'", "'h'", "'v'", "maybe",
    "RFC", "TIMESTAMP_LTZ(3)", "The key type is: INT", "latest-offset", "at-least-once",
)  # fmt: skip


def _named(case: interop.Case) -> list[str]:
    """Return the options, columns and formats in Flink's last cause, without its lists of supported values."""
    chain = case["error"] if isinstance(case["error"], str) else "\n".join(case["error"])
    last = chain.split("Caused by: ")[-1]
    for end in ("Supported options:", "Available factory", "The following columns", "supports the following"):
        last = last.partition(end)[0]
    if "Unsupported options:" in last:
        return last.partition("Unsupported options:")[2].split()
    return [term for term in _TERMS if term in last]


# Intended differences from Flink, by a part of the DDL.
_OTHERWISE = {
    "'9999999999 d'": "a duration that Python can't hold",
    "'partition:-1,offset:1'": "no partition has such a number",
    "scan.watermark.emit.on-event.gap": "in Flink's documentation, though its connector refuses it",
    "'topic-pattern' = '['": "Java's patterns are left to Java",
    "'topic-pattern' = '('": "Java's patterns are left to Java",
    "'topic-pattern' = '*'": "Java's patterns are left to Java",
    "avro-confluent.ssl.": "looked at when the registry's client is made",
    "avro-confluent.basic-auth.credentials-source' = 'USER_INFO'": "looked at when the registry's client is made",
    "'format' = 'json', 'value.format' = 'avro-confluent')": "Flink adds an option that it then does not know",
    "value.maxwell-json.table.include": "an option of ours",
    "value.maxwell-json.database.include": "an option of ours",
}


# With several malformed options, Flink may name another one first.
_NAMED_LATER = {"at-least-once", "value.avro-confluent.schema-registry.subject"}


def test_more_tables_are_accepted_and_refused_as_in_flink() -> None:
    others, silent, used = [], [], set()
    for case in interop.plans():
        refusal = _refusal(case["ddl"], case["statement"])
        if (refusal is None) != (case["error"] is None):
            reasons = [mark for mark in _OTHERWISE if mark in case["ddl"]]
            used.update(reasons)
            if not reasons:
                others.append((case, refusal))
        elif refusal is not None and not {name for name in _named(case) if name not in refusal} <= _NAMED_LATER:
            silent.append((case, refusal))
    assert not others
    assert not silent
    assert used == set(_OTHERWISE)


def test_nearly_all_refusals_of_flink_name_an_option_or_column() -> None:
    silent = [case["name"] for case in interop.refusals() if case["error"] is not None and not _named(case)]
    assert set(silent) <= {"avro_confluent_no_url", "avro_confluent_schema_unparsable"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {**_UPSERT, "key.fields": "id"},
            "'upsert-kafka' does not have the option 'key.fields': the key is the table's PRIMARY KEY",
        ),
        ({**_UPSERT, "scan.startup.mode": "latest-offset"}, "option 'scan.startup.mode': .* the earliest offset"),
        ({**_UPSERT, "scan.startup.timestamp-millis": "1"}, "'scan.startup.timestamp-millis': .* the earliest offset"),
        ({**_UPSERT, "format": "json"}, "does not have the option 'format': .* with 'value.format'"),
        (
            {**_UPSERT, "sink.partitioner": "fixed"},
            "does not have the option 'sink.partitioner': .* keeps the records of a key together",
        ),
    ],
)
def test_errors_of_upsert_table_options_have_a_next_step(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=f"(?s)Unsupported options found.*{message}"):
        KeyValueFormat("id INT, v STRING", options, primary_key=["id"])


def test_key_fields_with_commas_between() -> None:
    with pytest.raises(OptionError, match=r"field 'id, v' in the table.* Separate columns by ';': 'id;v'"):
        KeyValueFormat("id INT, v STRING", {**_KAFKA, "key.fields": "id, v"})
    with pytest.raises(OptionError, match="Did you mean 'id'"):
        KeyValueFormat("id INT, v STRING", {**_KAFKA, "key.fields": "id,"})


@pytest.mark.parametrize("ddl", [None, b"CREATE TABLE", 1, Path("orders.sql")])
def test_a_ddl_must_be_a_text(ddl: Any) -> None:
    with pytest.raises(SchemaError, match=f"from_ddl takes Flink SQL as a string, not {type(ddl).__name__}"):
        KeyValueFormat.from_ddl(ddl)


# --- rows from keys and values ---------------------------------------------------------------------------


def _batch(kv: KeyValueFormat, *records: tuple[str | None, str | None]) -> list[Any]:
    """Return the rows with their kinds, or the error, of each record."""
    keys = pa.array([None if key is None else key.encode() for key, _ in records], pa.binary())
    values = pa.array([None if value is None else value.encode() for _, value in records], pa.binary())
    batch = kv.decode_batch(keys, values)
    found: list[Any] = []
    for i, rows in enumerate(batch.rows.to_pylist()):
        if batch.errors is not None and batch.errors[i].is_valid:
            assert rows is None
            assert batch.parts is not None
            found.append((batch.parts[i].as_py(), batch.errors[i].as_py()))
            continue
        start = batch.rows.offsets[i].as_py()
        kinds = ["+I"] * len(rows) if batch.row_kinds is None else batch.row_kinds.to_pylist()[start:]
        found.append([(kind, *row.values()) for kind, row in zip(kinds, rows, strict=False)])
    return found


def test_a_batch_of_all_kinds_of_records() -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    assert _batch(
        kv,
        ('{"id":1}', '{"v":"a"}'),
        (None, '{"v":"no key"}'),
        ("", '{"v":"empty key"}'),
        ('[{"id":2},{"id":3}]', '[{"v":"b"},{"v":"c"}]'),
        ('{"id":4}', None),
        ('{"id":5}', "[]"),
        ("{", '{"v":"d"}'),
        ('{"id":6}', "{"),
        ("{", "{"),
        ('{"id":7}', '{"v":"e"}'),
    ) == [
        [("+I", 1, "a")],
        [("+I", None, "no key")],
        [("+I", None, "empty key")],
        [("+I", 2, "b"), ("+I", 3, "b"), ("+I", 2, "c"), ("+I", 3, "c")],
        [],
        [],
        ("key", "json: not JSON: expecting property name enclosed in double quotes at character 2"),
        ("value", "json: not JSON: expecting property name enclosed in double quotes at character 2"),
        (
            "record",
            "key: json: not JSON: expecting property name enclosed in double quotes at character 2; "
            "value: json: not JSON: expecting property name enclosed in double quotes at character 2",
        ),
        [("+I", 7, "e")],
    ]


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_upsert_records(include: str) -> None:
    options = {**_UPSERT, "value.fields-include": include, "value.json.ignore-parse-errors": "true"}
    kv = KeyValueFormat("v STRING, id INT", options, primary_key=["id"])
    assert _batch(
        kv,
        ('{"id":1}', '{"id":1,"v":"a"}'),
        ('{"id":1}', None),
        ('[{"id":2},{"id":3}]', None),
        ('{"id":4}', "{"),
        (None, '{"id":5,"v":"b"}'),
        ("", None),
        ('{"id":null}', None),
    ) == [
        [("+U", "a", 1)],
        [("-D", None, 1)],
        [("-D", None, 2), ("-D", None, 3)],
        [],
        ("key", "the key is null, but an upsert table needs one"),
        ("key", "skipped: format 'json' returned no row for this message"),
        ("record", "column 'id' of the PRIMARY KEY is NULL"),
    ]


def test_the_values_copy_of_a_key_column_wins_also_if_null() -> None:
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, "value.fields-include": "ALL"})
    assert _batch(kv, ('{"id":1}', '{"id":9,"v":"a"}'), ('{"id":2}', '{"v":"b"}'), (None, '{"id":3}')) == [
        [("+I", 9, "a")],
        [("+I", None, "b")],
        [("+I", 3, None)],
    ]
    upsert = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    assert _batch(upsert, ('{"id":2}', '{"v":"b"}'), ('{"id":2}', '{"id":2}')) == [
        ("record", "column 'id' of the PRIMARY KEY is NULL"),
        [("+U", 2, None)],
    ]
    assert _batch(upsert, ('{"id":2}', '{"id":9,"v":"b"}'), ('{"id":2,"v":"k"}', None)) == [
        [("+U", 9, "b")],
        [("-D", 2, None)],
    ], "a tombstone deletes the row of its key, which is the only one that it has"


@pytest.mark.parametrize(
    ("columns", "options", "row"),
    [
        ("id INT, v STRING", {"value.fields-include": "ALL"}, ("+I", 9, "a")),
        ("id INT, v STRING", {"value.fields-include": "EXCEPT_KEY"}, ("+I", 1, "a")),
        ("v STRING, id INT", {"key.fields": "id;v", "value.fields-include": "ALL"}, ("+I", "a", 9)),
        ("v STRING, id INT", {"key.fields": "id;v"}, ("+I", "k", 1)),
        ("k_id INT, id INT, v STRING", {"key.fields": "k_id", "key.fields-prefix": "k_"}, ("+I", 1, 9, "a")),
        ("id INT, k_v STRING, v STRING", {"key.fields": "k_v", "key.fields-prefix": "k_"}, ("+I", 9, "k", "a")),
        (
            "v_id INT, k_id INT, k_v STRING",
            {"key.fields": "k_v;k_id", "key.fields-prefix": "k_", "value.fields-prefix": "v_"},
            ("+I", 9, 1, "k"),
        ),
    ],
)
def test_a_column_is_that_of_its_part_if_key_and_value_disagree(
    columns: str, options: dict[str, str], row: tuple[Any, ...]
) -> None:
    record = ('{"id":1,"v":"k"}', '{"id":9,"v":"a"}')
    assert _batch(KeyValueFormat(columns, {**_KAFKA, **options}), record) == [[row]]


def test_a_deleted_row_takes_from_the_key_only_what_its_value_does_not_have() -> None:
    options = {"key.format": "json", "key.fields": "id;n", "value.format": "debezium-json"}
    kv = KeyValueFormat("id INT, n INT, v STRING", options | {"value.debezium-json.changelog.mode": "upsert"})
    before = '{"before":%s,"after":null,"op":"d"}'
    assert _batch(
        kv,
        ('{"id":1,"n":5}', before % '{"id":9,"v":"a"}'),
        ('{"id":2,"n":6}', '{"before":null,"after":{"id":8,"n":4,"v":"b"},"op":"c"}'),
        ('{"id":3,"n":7}', before % '{"v":"c"}'),
    ) == [[("-D", 9, 5, "a")], [("+I", 8, 4, "b")], [("-D", 3, 7, "c")]]


@pytest.mark.parametrize(
    ("key", "primary_key", "good"),
    [("id", ["id"], True), ("id;n", ["id"], True), ("id;n", ["id", "n"], True), ("id", ["id", "n"], False)],
)
def test_a_deletion_without_a_row_needs_the_whole_primary_key_in_the_key(
    key: str, primary_key: list[str], good: bool
) -> None:
    options = {"key.format": "json", "key.fields": key, "value.format": "debezium-json"}
    upsert = options | {"value.debezium-json.changelog.mode": "upsert"}
    kv = KeyValueFormat("id INT NOT NULL, n INT", upsert, primary_key=primary_key)
    (answer,) = _batch(kv, ('{"id":1,"n":5}', '{"before":null,"after":null,"op":"d"}'))
    assert answer == [("-D", 1, 5 if "n" in key else None)] if good else "a deletion needs it" in answer[1]


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_a_skipped_message_deletes_nothing_beside_one_that_does(order: int) -> None:
    kv = KeyValueFormat("id INT, v STRING", {**_UPSERT, "value.json.ignore-parse-errors": "true"}, primary_key=["id"])
    records = [('{"id":1}', "null"), ('{"id":2}', "{"), ('{"id":3}', " null "), ('{"id":4}', "[")][::order]
    assert _batch(kv, *records) == [[("-D", 1, None)], [], [("-D", 3, None)], []][::order]
    keys, values = (pa.array([text.encode() for text in texts]) for texts in zip(*records, strict=True))
    captured = decode_records.decode_records(kv._plan("decode").layout, keys, values, capture=True)
    assert captured.codes is not None
    assert captured.codes.to_pylist() == [None, "SKIPPED", None, "SKIPPED"][::order]


def test_a_thousand_pairs_of_key_and_value_rows_are_read_and_one_more_is_an_error() -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    for keys, values, fine in ((10, 100, True), (7, 143, False), (1, 1001, True), (1001, 1, True)):
        (rows,) = _batch(kv, ("[" + ",".join(["{}"] * keys) + "]", "[" + ",".join(["{}"] * values) + "]"))
        assert isinstance(rows, list) is fine, (keys, values)


def test_the_bytes_that_rows_repeat_are_limited_by_those_of_the_record() -> None:
    """64 KiB, and 16 for each byte of the record; a key of several rows repeats the value in the same way."""
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    many = "[" + ",".join(["{}"] * 20) + "   ]"  # 64 bytes, so that the division has no rest
    most = decode_records._MOST_REPEATED
    # 20 rows repeat `length` bytes 20 times, and one row repeats those of `many`: 20 l + m = most + 16 (l + m)
    length = (most + 15 * len(many)) // 4
    for size, fine in ((length, True), (length + 1, False)):
        long = '{"x":"' + "y" * (size - 8) + '"}'
        assert len(long) == size
        for record in ((long, many), (many, long)):
            (rows,) = _batch(kv, record)
            assert isinstance(rows, list) is fine, (size, fine)


def test_the_rows_of_a_small_record_are_limited() -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    many = "[" + ",".join(["{}"] * 100) + "]"
    long = json.dumps({"id": 1, "x": "y" * 10_000})
    pairs, repeated, fine = _batch(kv, (many, many), (long, "[" + ",".join(["{}"] * 1000) + "]"), ('{"id":1}', many))
    assert pairs == ("record", "key and value have several rows each, together more than 1000")
    assert repeated == ("record", "its rows would take many times as much memory as the record itself")
    assert len(fine) == 100


def test_the_repetition_of_a_key_with_many_columns_is_limited() -> None:
    """A key of two bytes may have thousands of columns, also nested. They are repeated for each row of the value."""
    columns = ", ".join(f"k{n} INT" for n in range(1000))
    fields = ";".join(["r", *(f"k{n}" for n in range(1000))])
    kv = KeyValueFormat(f"r ROW<{columns}>, {columns}, v STRING", {**_KAFKA, "key.fields": fields})
    most = decode_records.MOST_CELLS // 2002
    enough, too_many = ("[" + ",".join(["{}"] * count) + "]" for count in (most - 10, most + 100))
    first, refused, last = _batch(kv, ("{}", enough), ("{}", too_many), ("{}", "{}"))
    assert refused == ("record", "its rows would take many times as much memory as the record itself")
    assert (len(first), len(last)) == (most - 10, 1)


def test_the_repetition_of_keys_in_a_batch_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ", ".join(f"k{n} INT" for n in range(1000))
    kv = KeyValueFormat(f"{columns}, v STRING", {**_KAFKA, "key.fields": ";".join(f"k{n}" for n in range(1000))})
    monkeypatch.setattr(decode_records, "MOST_CELLS_OF_A_BATCH", 25_000)
    value = "[" + ",".join(["{}"] * 10) + "]"
    assert [type(rows) for rows in _batch(kv, *[("{}", value)] * 4, ("{}", "{}"))] == [list, list, tuple, tuple, list]


def test_cells_are_limited_exactly_and_a_refused_record_takes_nothing_from_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = ", ".join(f"k{n} INT" for n in range(1000))
    kv = KeyValueFormat(f"{columns}, v STRING", {**_KAFKA, "key.fields": ";".join(f"k{n}" for n in range(1000))})
    ten, eleven = ("[" + ",".join(["{}"] * count) + "]" for count in (10, 11))
    beyond = 1001 * 10 + 2 * 1 - 8 * (len("{}") + len(ten))
    monkeypatch.setattr(decode_records, "MOST_CELLS", beyond)
    monkeypatch.setattr(decode_records, "MOST_CELLS_OF_A_BATCH", 2 * beyond)
    kinds = [type(rows) for rows in _batch(kv, ("{}", eleven), *[("{}", ten)] * 3)]
    assert kinds == [tuple, list, list, tuple]
    monkeypatch.setattr(decode_records, "MOST_CELLS", beyond - 1)
    assert [type(rows) for rows in _batch(kv, ("{}", ten))] == [tuple]


def test_key_rows_are_paired_with_the_value_rows_of_their_own_record() -> None:
    """Each part has four rows, as many as the table."""
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    records = [('[{"id":1},{"id":2}]', '[{"v":"a"},{"v":"b"}]'), ('{"id":3}', "[]"), ('{"id":4}', "[]")]
    pairs = [("+I", 1, "a"), ("+I", 2, "a"), ("+I", 1, "b"), ("+I", 2, "b")]
    assert _batch(kv, *records) == [pairs, [], []]
    turned = [(value.replace("v", "id").replace('"a"', "1").replace('"b"', "2"), key) for key, value in records]
    assert (
        _batch(KeyValueFormat("id INT, v STRING", _KAFKA), *turned)
        == [[("+I", i, None) for i in (1, 2, 1, 2)]] + [[("+I", None, None)]] * 2
    )


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_a_captured_record_has_one_row_of_nulls_and_the_code_of_its_key_first(include: str) -> None:
    kv = KeyValueFormat("id INT, n INT", {**_UPSERT, "value.fields-include": include}, primary_key=["id"])
    records = [
        ('{"id":1}', "{", "value", "MALFORMED"),
        ('{"id":2}', '{"n":"x"}', "value", "WRONG_TYPE"),
        ('{"id":null}', '{"n":3}', "record", "NULL_KEY"),
        ("{", '{"n":"x"}', "record", "MALFORMED"),
        ('{"id":"x"}', "{", "record", "WRONG_TYPE"),
        ('[{"id":7},{"id":8}]', "null", None, None),
    ]
    keys, values = (pa.array([record[place].encode() for record in records]) for place in (0, 1))
    found = decode_records.decode_records(kv._plan("decode").layout, keys, values, capture=True)
    assert [column.to_pylist() for column in found.columns] == [[None] * 5 + [7, 8], [None] * 7]
    assert found.counts.tolist() == [1] * 5 + [2]
    assert found.indexes().to_pylist() == [None] * 5 + [0, 1]
    assert found.parts is not None
    assert found.codes is not None
    assert [*zip(found.parts.to_pylist(), found.codes.to_pylist(), strict=True)] == [record[2:] for record in records]


def test_slices_and_texts_are_accepted() -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    keys, values = pa.array(["x", '{"id":1}', "y"]), pa.array([b"{", b'{"v":"a"}', b"{"])
    assert kv.decode_batch(keys[1:2], values[1:2]).rows.to_pylist() == [[{"id": 1, "v": "a"}]]
    assert len(kv.decode_batch(keys[:0], values[:0]).rows) == 0
    without_key = KeyValueFormat("v STRING", {"format": "json"})
    assert without_key.decode_batch(None, values[1:2]).rows.to_pylist() == [[{"v": "a"}]]


# --- writing ------------------------------------------------------------------------------------------------


def _written(kv: KeyValueFormat, rows: list[tuple[str, int | None, str]]) -> list[tuple[Any, Any]]:
    struct = pa.array([{"v": v, "id": i} for _, i, v in rows], pa.struct({"v": pa.string(), "id": pa.int32()}))
    batch = kv.encode_batch(struct, row_kinds=pa.array([kind for kind, _, _ in rows]))
    assert batch.errors is None
    kept = [True] * len(rows) if batch.kept is None else batch.kept.to_pylist()
    assert batch.keys is not None
    return [
        (key, value)
        for key, value, keep in zip(batch.keys.to_pylist(), batch.values.to_pylist(), kept, strict=True)
        if keep
    ]


def test_an_update_is_one_record_and_a_changed_key_deletes_the_old_key() -> None:
    kv = KeyValueFormat("id BIGINT, v STRING", {**_UPSERT, "value.fields-include": "EXCEPT_KEY"}, primary_key=["id"])
    rows = [
        ("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"),  # an update writes only the new value
        ("-U", 1, "b"), ("+U", 2, "b"),  # the key changes, so the old key is deleted
        ("-U", 2, "b"), ("+I", 2, "c"),  # not a pair
        ("-D", 2, "c"), ("-U", 3, "d"),
    ]  # fmt: skip
    assert _written(kv, rows) == [
        (b'{"id":1}', b'{"v":"a"}'), (b'{"id":1}', b'{"v":"b"}'),
        (b'{"id":1}', None), (b'{"id":2}', b'{"v":"b"}'),
        (b'{"id":2}', None), (b'{"id":2}', b'{"v":"c"}'),
        (b'{"id":2}', None), (b'{"id":3}', None),
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [[1] * 7, [2, 2, 2, 1], [3, 4], [7], [0, 6, 0, 1, 0]])
def test_at_most_one_row_is_buffered(sizes: list[int]) -> None:
    kinds = ["+I", "-U", "+U", "-U", "-U", "+U", "-U"]
    batches, start = [], 0
    for size in sizes:
        batches.append(pa.record_batch({"kind": kinds[start : start + size], "n": range(start, start + size)}))
        start += size
    given = list(hold_back(iter(batches), lambda batch: batch["kind"][-1].as_py() == "-U"))
    assert [n for batch in given for n in batch["n"].to_pylist()] == list(range(7))
    for batch, following in itertools.pairwise(given):  # not a pair is torn
        assert (batch["kind"][-1].as_py(), following["kind"][0].as_py()) != ("-U", "+U")


def test_errors_of_rows_name_the_reason() -> None:
    kv = KeyValueFormat("id INT, v DECIMAL(4, 2)", _UPSERT, primary_key=["id"])
    rows = pa.array([{"id": 1, "v": None}, {"id": None, "v": None}], pa.struct({"id": pa.int16(), "v": pa.null()}))
    batch = kv.encode_batch(rows)
    assert batch.values.to_pylist()[0] == b'{"id":1,"v":null}'
    assert batch.errors.to_pylist() == [None, "column 'id' of the PRIMARY KEY is NULL"]  # type: ignore[union-attr]
    for wrong, message in (
        (pa.struct({"id": pa.int64(), "v": pa.null()}), "column 'id' is int64, which does not fit INT"),
        (pa.struct({"id": pa.int32()}), "column 'v' is missing"),
    ):
        with pytest.raises(SchemaError, match=message):
            kv.encode_batch(pa.array([], wrong))
    for kinds in (["+I", "X"], ["+I"], ["+I"] * 3):
        with pytest.raises(SchemaError, match="row_kinds must have"):
            kv.encode_batch(rows, row_kinds=pa.array(kinds))


def test_each_column_of_the_primary_key_must_not_be_null() -> None:
    kv = KeyValueFormat("a INT, b INT", _UPSERT, primary_key=["b", "a"])
    rows = pa.array([{"a": 1, "b": None}, {"a": None, "b": 1}, {}, {"a": 1, "b": 1}, {"a": None, "b": 2}])
    batch = kv.encode_batch(rows.cast(pa.struct({"a": pa.int32(), "b": pa.int32()})))
    names = [None if text is None else text.split("'")[1] for text in batch.errors.to_pylist()]  # type: ignore[union-attr]
    assert names == ["b", "a", "b", None, "a"]


def test_an_error_stays_with_its_row_among_deleted_ones() -> None:
    kv = KeyValueFormat("id INT, t TIME(0)", _UPSERT, primary_key=["id"])
    day = 86_400_000_000_000
    times = pa.array([day, day, 0, day, 1, day], pa.int64()).view(pa.time64("ns"))
    rows = pa.StructArray.from_arrays([pa.array(range(6), pa.int32()), times], ["id", "t"])
    batch = kv.encode_batch(rows, row_kinds=pa.array(["-D", "+U", "+I", "-U", "+U", "+U"]))
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "OUT_OF_RANGE", None, None, None, "OUT_OF_RANGE"]
    assert [value is None for value in batch.values.to_pylist()] == [True, True, False, True, False, True]


def test_deleted_rows_need_only_their_key() -> None:
    kv = KeyValueFormat(
        "id INT, s STRING NOT NULL",
        {**_UPSERT, "value.format": "raw", "value.fields-include": "EXCEPT_KEY"},
        primary_key=["id"],
    )
    rows = pa.array([{"id": 1, "s": None}, {"id": 2, "s": "x"}], pa.struct({"id": pa.int32(), "s": pa.string()}))
    assert kv.encode_batch(rows, row_kinds=pa.array(["-D", "+U"])).values.to_pylist() == [None, b"x"]


# --- the projection and its options ---------------------------------------------------------------------------


def test_key_columns_keep_the_order_of_key_fields_and_lose_their_prefix() -> None:
    pytest.importorskip("pyspark")
    kv = KeyValueFormat(
        "k_id INT NOT NULL, k_ts STRING, id INT",
        {**_KAFKA, "key.fields": "k_ts; k_id", "key.fields-prefix": "k_"},
    )
    assert kv.key_schema is not None
    assert kv.key_schema.simpleString() == "struct<ts:string,id:int>"
    assert not kv.key_schema["id"].nullable
    assert kv.value_schema.simpleString() == "struct<id:int>"
    batch = kv.encode_batch(pa.array([{"k_id": 1, "k_ts": "a", "id": 2}]).cast(
        pa.struct({"k_id": pa.int32(), "k_ts": pa.string(), "id": pa.int32()})
    ))  # fmt: skip
    assert batch.keys.to_pylist() == [b'{"ts":"a","id":1}']  # type: ignore[union-attr]
    assert batch.values.to_pylist() == [b'{"id":2}']


def test_prefix_of_value_columns() -> None:
    kv = KeyValueFormat(
        "key_id INT, val_name STRING", {**_KAFKA, "key.fields": "key_id", "key.fields-prefix": "key_",
                                         "value.fields-prefix": "val_"},
    )  # fmt: skip
    assert _batch(kv, ('{"id":1}', '{"name":"a"}')) == [[("+I", 1, "a")]]
    for options, message in (
        ({"value.fields-prefix": "va_"}, "field 'val_name' is not prefixed"),
        ({"value.fields-prefix": "al_"}, "field 'val_name' is not prefixed"),
        ({"key.fields-prefix": "ey_"}, "field 'key_id' is not prefixed"),
        ({"value.fields-prefix": "k"}, "neither may be a prefix of the other"),
        ({"value.fields-prefix": "key_v"}, "neither may be a prefix of the other"),
        ({"value.fields-prefix": "val_name"}, "non-whitespace"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            KeyValueFormat(
                "key_id INT, val_name STRING",
                {**_KAFKA, "key.fields": "key_id", "key.fields-prefix": "key_", **options},
            )


def test_a_key_field_twice_is_written_twice() -> None:
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, "key.fields": "id;id", "value.fields-include": "ALL"})
    rows = pa.array([{"id": 1, "v": "a"}], pa.struct({"id": pa.int32(), "v": pa.string()}))
    assert kv.encode_batch(rows).keys.to_pylist() == [b'{"id":1,"id_$0":1}']  # type: ignore[union-attr]


def test_connector_options_are_optional_and_checked_when_given() -> None:
    base = {"connector": "kafka", "format": "json"}
    KeyValueFormat("v STRING", base)
    KeyValueFormat("v STRING", {**base, "scan.startup.mode": "group-offsets"})
    for options, message in (
        ({"topic": "a", "topic-pattern": "a"}, "shouldn't be set together"),
        ({"sink.parallelism": "many"}, "'sink.parallelism': expected a whole number"),
        ({"tpoic": "a"}, "Did you mean 'topic'"),
        ({"topic": None}, "option 'topic' must be a string, not NoneType"),
        ({"value.json.ignore-parse-errors": "true"}, "value.json.ignore-parse-errors"),
        ({"ingestion.error-tolerance.max-count": "-2"}, "max-count"),
        ({"scan.watermark.alignment.group": "g"}, "'scan.watermark.alignment.max-drift' must be set"),
        ({"scan.watermark.alignment.update-interval": "1 s"}, "'scan.watermark.alignment.group' and"),
        ({"scan.topic-partition-discovery.interval": "9999999999 d"}, "discovery.interval.*longer than 999999999 days"),
        ({"connector": "kafkaa"}, "Did you mean 'kafka'"),
    ):
        with pytest.raises(OptionError, match=message):
            KeyValueFormat("v STRING", {**base, **options})
    with pytest.raises(OptionError, match="'connector'"):
        KeyValueFormat.from_ddl("CREATE TABLE t (v STRING) WITH ('format' = 'json')")


@pytest.mark.parametrize(
    ("options", "direction", "message"),
    [
        ({"scan.startup.mode": "timestamp"}, "decode", "scan.startup.timestamp-millis"),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0, offset:1"}, "decode",
         "topic"),
        ({"topic": "t", "scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "0:1"}, "decode",
         "should follow the format"),
        ({"json.ignore-parse-errors": "true", "json.fail-on-missing-field": "true"}, "decode", "json"),
        ({"sink.partitioner": "org.acme.Own"}, "encode", "org.acme.Own"),
        ({"sink.delivery-guarantee": "exactly-once"}, "encode", "transactional-id-prefix"),
        ({"sink.semantic": "EXACTLY_ONCE"}, "encode", "transactional-id-prefix.*'sink.semantic' = 'EXACTLY_ONCE'"),
        ({"sink.semantic": "maybe"}, "encode", "'sink.semantic' must be one of exactly-once, .*, none, not 'maybe'"),
        ({"scan.parallelism": "0"}, "decode", "'scan.parallelism' must be at least 1"),
        ({"sink.parallelism": "-1"}, "encode", "'sink.parallelism' must be at least 1"),
    ],
)  # fmt: skip
def test_errors_of_one_direction_are_raised_only_there(options: dict[str, str], direction: str, message: str) -> None:
    kv = KeyValueFormat("v STRING", {"format": "json", **options})
    empty: Any = pa.array([], pa.struct({"v": pa.string()}))
    if direction == "decode":
        kv.encode_batch(empty)
        with pytest.raises(ConfigurationError, match=message):
            kv.decode_batch(None, pa.array([], pa.binary()))
    else:
        kv.decode_batch(None, pa.array([], pa.binary()))
        with pytest.raises(ConfigurationError, match=message):
            kv.encode_batch(empty)


def test_the_offset_reset_option_is_checked() -> None:
    ddl = """CREATE TABLE t (v STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
        'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g', 'properties.auto.offset.reset' = '{}')"""
    nothing = pa.array([], pa.binary())
    assert len(KeyValueFormat.from_ddl(ddl.format("LATEST")).decode_batch(None, nothing).rows) == 0
    with pytest.raises(OptionError, match=r"auto\.offset\.reset can not be set to newest"):
        KeyValueFormat.from_ddl(ddl.format("newest")).decode_batch(None, nothing)
    elsewhere = {"scan.startup.mode": "earliest-offset"}  # Flink then leaves it to the client
    assert KeyValueFormat.from_ddl(ddl.format("newest"), options=elsewhere).decode_batch(None, nothing).errors is None


@pytest.mark.parametrize(
    ("rows", "interval", "wrong"),
    [
        ("1", "1 ms", None),
        ("0", None, None),
        ("0", "0 s", None),
        ("1", None, "interval"),
        ("1", "0 s", "interval"),
        ("0", "1 ms", "max-rows"),
        (None, "1 ms", "max-rows"),
    ],
)
def test_both_limits_of_the_sinks_buffer_are_set_or_none(
    rows: str | None, interval: str | None, wrong: str | None
) -> None:
    given = {"sink.buffer-flush.max-rows": rows, "sink.buffer-flush.interval": interval}
    options = _UPSERT | {key: text for key, text in given.items() if text is not None}
    kv = KeyValueFormat("id INT, v STRING", options, primary_key=["id"])
    if wrong is None:
        assert kv.connector_options("encode")["sink.buffer-flush.max-rows"] == int(rows or 0)
        return
    with pytest.raises(OptionError, match="set to be greater than zero") as caught:
        kv.connector_options("encode")
    assert caught.value.option == f"sink.buffer-flush.{wrong}"


def test_only_a_table_of_one_topic_names_the_subject_of_its_schema() -> None:
    options = {"format": "avro-confluent", "avro-confluent.url": "mock://x"}
    one = KeyValueFormat("id INT", options | {"topic": "a"})
    assert one._plan("encode").layout.value_format.options["subject"] == "a-value"
    several = KeyValueFormat("id INT", options | {"topic": "a;b"})
    with pytest.raises(OptionError, match="subject is required"):
        several.connector_options("encode")


def test_a_metadata_column_must_be_castable_in_the_direction_of_its_use() -> None:
    """Flink casts a TIMESTAMP to a TIME, and no TIME to a TIMESTAMP."""
    ddl = """CREATE TABLE t (v STRING, ts TIME METADATA FROM 'timestamp' {}) WITH ('connector' = 'kafka', 'topic' = 't',
        'format' = 'json', 'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g')"""
    kv = KeyValueFormat.from_ddl(ddl.format(""))
    assert [column.name for column in kv._plan("decode").metadata] == ["ts"]
    with pytest.raises(SchemaError, match="must be castable to metadata type 'TIMESTAMP_LTZ"):
        kv._plan("encode")
    assert KeyValueFormat.from_ddl(ddl.format("VIRTUAL"))._plan("encode").metadata == ()


def test_a_table_of_a_pattern_of_topics_can_be_written() -> None:
    options = {"connector": "kafka", "properties.bootstrap.servers": "b", "format": "json", "topic-pattern": "a.*"}
    options |= {"scan.startup.mode": "earliest-offset"}
    assert KeyValueFormat("id INT", options).planned().connector_options("encode")["topic"] is None
    del options["topic-pattern"]
    with pytest.raises(OptionError, match=r"must be set\. \('topic' is empty\)"):
        KeyValueFormat("id INT", options | {"topic": ""}).planned().connector_options("encode")


def test_a_list_of_key_fields_has_no_gaps() -> None:
    with pytest.raises(OptionError, match=r"Could not find the field '' .*'key\.fields'"):
        KeyValueFormat("id INT, v STRING", {**_KAFKA, "key.fields": "id;;v"})
    with pytest.raises(OptionError, match=r"'key\.fields' can only be declared if a key format"):
        KeyValueFormat("v STRING", {"format": "json", "key.fields": ""})
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, "key.fields": "id;"})
    assert kv.key_schema is not None
    assert kv.key_schema.names == ["id"]


@pytest.mark.parametrize("start", [0, 1])
def test_rows_between_lists_are_ignored(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaves(ProbeFormat):
        def decode_arrow(
            self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
        ) -> DecodedBatch:
            count = len(messages)
            values = pa.array([{"v": str(n)} for n in range(2 * count + 1)], pa.struct({"v": pa.string()}))
            lists = pa.ListArray.from_arrays(pa.array(range(start, count + start + 1), pa.int32()), values)
            return DecodedBatch(lists, pa.array(["+I"] * len(values)))

    monkeypatch.setitem(discovery._registered, "probe", Leaves)
    batch = KeyValueFormat("v STRING", {"format": "probe"}).decode_batch(None, pa.array([b"a", None, b"c"]))
    assert batch.rows.to_pylist() == [[{"v": str(n + start)}] for n in range(3)]
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["+I"] * 3


def test_rows_behind_a_null_list_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hides(ProbeFormat):
        def decode_arrow(
            self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
        ) -> DecodedBatch:
            values = pa.array([{"v": str(n)} for n in range(len(messages))], pa.struct({"v": pa.string()}))
            offsets = pa.array(range(len(messages) + 1), pa.int32())
            lists = pa.ListArray.from_arrays(offsets, values, mask=messages.is_null())
            return DecodedBatch(lists, pa.array(["+I"] * len(values), pa.string()))

    monkeypatch.setitem(discovery._registered, "probe", Hides)
    batch = KeyValueFormat("v STRING", {"format": "probe"}).decode_batch(None, pa.array([b"a", None, b"c"]))
    assert batch.rows.to_pylist() == [[{"v": "0"}], [], [{"v": "2"}]]


def test_formats_of_other_packages_work_in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    class TopicProbe(ProbeFormat):
        @classmethod
        def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: str) -> Mapping[str, Any]:
            return {"mark": f"{topic}-{part}:", **options}

    monkeypatch.setattr(discovery, "_registered", {"probe": TopicProbe})
    options = {"topic": "t", "key.format": "json", "key.fields": "id", "value.format": "probe",
               "value.fields-include": "EXCEPT_KEY"}  # fmt: skip
    kv = KeyValueFormat("id INT, v STRING", options)
    assert kv.changelog_mode is ProbeFormat.changelog_mode
    batch = kv.decode_batch(pa.array([b'{"id":1}']), pa.array([b"-Ua\n+Ub"]), metadata=["value.probe.length"])
    assert batch.rows.to_pylist() == [
        [{"id": 1, "v": "a", "value.probe.length": 7}, {"id": 1, "v": "b", "value.probe.length": 7}]
    ]
    assert batch.row_kinds.to_pylist() == ["-U", "+U"]  # type: ignore[union-attr]
    rows = pa.array([{"id": 1, "v": "a"}], pa.struct({"id": pa.int32(), "v": pa.string()}))
    assert kv.encode_batch(rows, row_kinds=pa.array(["-D"])).values.to_pylist() == [b"-Dt-value:a"]
    given = KeyValueFormat("id INT, v STRING", {**options, "value.probe.mark": "="})
    assert given.encode_batch(rows).values.to_pylist() == [b"+I=a"]
    with pytest.raises(OptionError, match="But probe has a changelog mode"):
        KeyValueFormat("id INT, v STRING", {**options, "key.format": "probe"})
    with pytest.raises(ConfigurationError, match=r"value\.probe\.lenght.*Did you mean 'value\.probe\.length'"):
        kv.decode_batch(pa.array([], pa.binary()), pa.array([], pa.binary()), metadata=["value.probe.lenght"])


# --- repr, equality, pickling -----------------------------------------------------------------------------------

_SECRETS = {
    "properties.sasl.jaas.config": 'PlainLoginModule required username="u" password="hunter2";',
    "properties.ssl.truststore.password": "hunter2",
    "properties.bootstrap.servers": "b:9092",
    "topic": "t",
}


def test_repr_is_a_constructor_call_without_secrets() -> None:
    kv = KeyValueFormat("id INT, v DECIMAL(4, 2)", {**_UPSERT, **_SECRETS}, primary_key=["id"])
    assert "hunter2" not in repr(kv)
    assert "hunter2" not in str(kv)
    again = eval(repr(kv), {"KeyValueFormat": KeyValueFormat})
    assert again.options["properties.ssl.truststore.password"] == "******"
    plain = KeyValueFormat("id INT, v DECIMAL(4, 2)", _UPSERT, primary_key=["id"])
    assert eval(repr(plain), {"KeyValueFormat": KeyValueFormat}) == plain
    registry = {"format": "avro-confluent", "avro-confluent.url": "http://me:hunter2@registry:8081"}
    assert "hunter2" not in repr(KeyValueFormat("id INT", registry))
    token = {**registry, "avro-confluent.url": "mock://x", "avro-confluent.bearer-auth.token": "hunter2"}
    assert "hunter2" not in repr(KeyValueFormat("id INT", token))


def test_equal_by_value_and_picklable() -> None:
    kv = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    assert kv == KeyValueFormat(pa.schema({"id": pa.int32(), "v": pa.string()}), _UPSERT, primary_key=["id"])
    assert hash(kv) == hash(KeyValueFormat("id INT, v STRING", _UPSERT, primary_key="id"))
    assert kv != KeyValueFormat("id INT, v STRING", {**_UPSERT, "value.fields-include": "all"}, primary_key=["id"])
    assert pickle.loads(pickle.dumps(kv)) == kv
    ddl = interop.cases()["kafka_json_canal-json_meta"]["ddl"]
    table = KeyValueFormat.from_ddl(ddl)
    assert eval(repr(table), {"KeyValueFormat": KeyValueFormat}) == table
    assert pickle.loads(pickle.dumps(table)) == table


READING_ONLY = [
    ("debezium-json", "types", "debezium"),
    ("debezium-json", "schema-include", "true"),
    ("debezium-json", "flattened", "true"),
    ("debezium-json", "changelog.mode", "upsert"),
    ("debezium-json", "unchanged.columns", "keep"),
    ("canal-json", "types", "mysql"),
    ("canal-json", "bytes.encoding", "ISO-8859-1"),
    ("maxwell-json", "types", "mysql"),
    ("maxwell-json", "table.include", "users"),
]


@pytest.mark.parametrize(("format", "option", "value"), READING_ONLY)
def test_an_unsupported_column_error_does_not_mention_writing(format: str, option: str, value: str) -> None:
    options = {"format": format, f"{format}.{option}": value}
    columns = "id INT, m MAP<INT, STRING>"  # JSON formats do not support this map
    with pytest.raises(ConfigurationError, match="non-string as key type of map") as caught:
        KeyValueFormat(columns, options, primary_key=["id"])
    assert "writing" not in str(caught.value)
    with pytest.raises(ReadingOnlyError) as refused:
        KeyValueFormat("id INT", options, primary_key=["id"]).encode_batch(pa.array([], pa.struct({"id": pa.int32()})))
    assert option in str(refused.value)
