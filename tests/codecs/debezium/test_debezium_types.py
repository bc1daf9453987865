"""Debezium's own types: every Connect type in JSON with a schema, in JSON without a schema, and in Avro.

Sources: Debezium's documentation ("Data type mappings" of MySQL, PostgreSQL, Oracle, SQL Server; `DOCUMENTED` has the
rows) and Debezium's classes in `io.debezium.time` and `io.debezium.data`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import warnings
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.debezium import embedded_schema
from kvformat.codecs.debezium.connect_schema import ConnectSchema
from kvformat.codecs.debezium.connect_types import flink_type, own_type
from kvformat.codecs.debezium.own_types import _common_type
from kvformat.codecs.discovery.column_types import Notes
from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.errors import DebeziumTypesWarning, OptionError, SchemaError
from kvformat.registry.contract.types import arrow_type
from tests.codecs.debezium.debezium_tables import DOCUMENTED
from tests.codecs.debezium.debezium_types import (
    CLOCK,
    CONNECT,
    DATA,
    DAY_PARTS,
    GOOD,
    LARGEST_PARTS,
    MICROS_OF_DAY,
    MOMENT,
    MOMENT_TEXT,
    NINE_O_CLOCK,
    NUMBER,
    TIME,
    WITH_SCHEMA,
    Given,
    avro_envelope,
    avro_event,
    decimal,
    decoded_avro,
    decoded_json,
    envelope,
    event,
    micros,
    parts,
    unscaled,
    variable,
)
from tests.support.registry_server import Registry


def test_every_documented_type_is_tested() -> None:
    read = {(given.type, given.name, re.split(r"[(<]", type)[0]) for given, type, _ in GOOD}
    missing = [row for row in DOCUMENTED if row[3:] not in read]
    assert not missing, missing
    assert len(DOCUMENTED) > 120, len(DOCUMENTED)


def test_a_structured_date_may_be_read_as_a_row(registry: Registry) -> None:
    columns, schema = {"v": parts("StructuredDate", **DAY_PARTS)}, "v ROW<year INT, `day` SMALLINT>"
    for batch in (decoded_json(columns, schema), decoded_avro(registry, columns, schema)):
        assert batch.rows.to_pylist() == [[{"v": {"year": 2025, "day": 3}}]]


def test_a_sparse_vector_is_read_as_text_or_row(registry: Registry) -> None:
    """`SparseDoubleVector`: for map keys that are not texts, JsonConverter writes a list of pairs, AvroData records."""
    pair = Given("struct", "srv.Pair", None, inner={"key": Given("int16", "", None), "value": NUMBER})
    inner = {"dimensions": Given("int16", "", None), "vector": Given("array", "", None, inner=pair)}
    name = f"{DATA}SparseDoubleVector"
    text = decoded_json({"v": Given("struct", name, {"dimensions": 5, "vector": [[1, 0.5]]}, inner=inner)}, "v STRING")
    assert text.rows.to_pylist() == [[{"v": '{"dimensions":5,"vector":[[1,0.5]]}'}]]
    value = {"dimensions": 5, "vector": [{"key": 1, "value": 0.5}]}
    columns = {"v": Given("struct", name, value, inner=inner)}
    batch = decoded_avro(
        registry, columns, "v ROW<dimensions SMALLINT, `vector` ARRAY<ROW<`key` INT, `value` DOUBLE>>>"
    )
    assert batch.rows.to_pylist() == [[{"v": value}]]


BAD: list[tuple[Given, str, str]] = [
    (Given("int32", f"{TIME}Date", -2_440_589), "DATE", "cannot read -2440589"),
    (Given("int32", f"{CONNECT}Date", -(2**31)), "DATE", "cannot read -2147483648"),
    (decimal(10**10, 2), "DECIMAL(10, 2)", "Decimal by the message's schema) as DECIMAL(10, 2)"),
    (decimal(12_345, 4), "DECIMAL(10, 2)", "as DECIMAL(10, 2)"),
    (decimal(10**80, 2), "DECIMAL(38, 2)", "as DECIMAL(38, 2)"),
    (Given("bytes", f"{CONNECT}Decimal", b""), "DECIMAL(10, 2)", "as DECIMAL(10, 2)"),
    (decimal(5, 2), "DOUBLE", "declare it as DECIMAL(p, 2), STRING or BYTES"),
    (variable(12_345, 4), "DECIMAL(10, 2)", "VariableScaleDecimal by the message's schema) as DECIMAL(10, 2)"),
    (variable(1, 2**31 - 1), "DECIMAL(10, 2)", "as DECIMAL(10, 2)"),
    (Given("int64", f"{TIME}MicroTimestamp", 5), "TIMESTAMP_LTZ(6)", "declare it as TIMESTAMP (it has no time zone)"),
    (Given("int64", f"{TIME}MicroTimestamp", 5), "DATE", "declare it as TIMESTAMP, or as BIGINT"),
    (Given("int64", f"{TIME}Timestamp", 2**62), "TIMESTAMP(3)", f"cannot read {2**62} (which is {TIME}Timestamp"),
    (Given("int64", f"{TIME}MicroTime", 86_400_000_000), "TIME(6)", "cannot read 86400000000"),
    (Given("int64", f"{TIME}MicroTime", -5), "TIME(6)", "cannot read -5"),
    (Given("string", f"{TIME}ZonedTimestamp", "2018-02-30T14:00:00Z"), "TIMESTAMP_LTZ(3)", "2018-02-30"),
    (Given("string", f"{TIME}ZonedTimestamp", "2018-02-03 14:00:00"), "TIMESTAMP_LTZ(3)", "2018-02-03 14"),
    (Given("string", f"{TIME}ZonedTimestamp", "2018-02-03T14:00:00Z"), "TIMESTAMP(3)", "declare it as TIMESTAMP_LTZ"),
    (Given("string", f"{TIME}ZonedTime", "24:30Z"), "TIME(3)", "24:30Z"),
    (parts("StructuredDate", **DAY_PARTS | {"day": 32}), "DATE", "StructuredDate by the message's schema) as DATE"),
    (parts("StructuredDate", **DAY_PARTS | {"day": None}), "DATE", "as DATE"),
    (parts("StructuredDate", **DAY_PARTS | {"year": 2**31 - 1}), "DATE", "as DATE"),
    (parts("StructuredDate", **DAY_PARTS, specialValue="NAN"), "DATE", "as DATE"),
    (parts("StructuredDate", **DAY_PARTS), "TIMESTAMP(3)", "declare it as DATE, or as ROW of its parts"),
    (parts("StructuredTimestamp", **DAY_PARTS | {"year": 294_277}, **NINE_O_CLOCK), "TIMESTAMP(6)", "as TIMESTAMP(6)"),
    (parts("StructuredTime", **NINE_O_CLOCK | {"hour": 24}), "TIME(6)", "as TIME(6)"),
    (parts("StructuredDuration", **LARGEST_PARTS | {"months": 1}), "INTERVAL DAY TO SECOND", "as INTERVAL DAY"),
    (parts("StructuredDuration", **LARGEST_PARTS), "TIME(6)", "as TIME(6)"),
    (Given("string", f"{TIME}ZonedTimestamp", "+294277-01-01T00:00:00Z"), "TIMESTAMP_LTZ(3)", "+294277"),
    (Given("string", f"{TIME}ZonedTimestamp", "2018-02-03T14:00:60Z"), "TIMESTAMP_LTZ(3)", "14:00:60"),
    (Given("int64", "", 5), "TIMESTAMP(3)", "declare it as BIGINT and convert it"),
    (Given("int32", "", 5), "DATE", "declare it as BIGINT and convert it"),
    (
        Given("float64", "", 1.5),
        "TIMESTAMP(3)",
        "(which is float64 by the message's schema) as TIMESTAMP(3); declare it",
    ),
    (Given("float64", "", 1.5), "INT", " INT"),
    (Given("float32", "", 128.0), "TINYINT", " TINYINT"),
    (Given("bytes", "", base64.b64decode("1234")), "INT", "declare it as BYTES"),
    (Given("bytes", "", base64.b64decode("1234")), "DECIMAL(10, 2)", "declare it as BYTES"),
    (Given("bytes", "", base64.b64decode("true")), "BOOLEAN", "declare it as BYTES"),
    (Given("int64", "", 5), "INTERVAL DAY TO SECOND", "declare it as the number or text that it is"),
    (Given("int16", "", 2), "BOOLEAN", "cannot read 2 (which is int16 by the message's schema) as BOOLEAN"),
    (Given("string", "", "00ff"), "BYTES", "set 'binary.handling.mode' to the connector's"),
    (Given("bytes", f"{DATA}Bits", b"\xff" * 9), "BIGINT", "as BIGINT"),
    (Given("bytes", f"{DATA}Bits", bytes(7) + b"\x80"), "BIGINT", "as BIGINT"),
    (
        Given("array", "", [0, 2**62], inner=Given("int64", f"{TIME}Timestamp", None)),
        "ARRAY<TIMESTAMP(3)>",
        "'v.element'",
    ),
]


# --- with a schema -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", ["json", "avro"])
@pytest.mark.parametrize(("given", "type", "value"), GOOD, ids=[f"{g.name or g.type}-{t}-{v}" for g, t, v in GOOD])
def test_a_value_is_read_by_its_schema(registry: Registry, carrier: str, given: Given, type: str, value: Any) -> None:
    if carrier == "avro" and given.parameters.get("scale", "0").startswith("-"):
        pytest.skip("Avro does not have negative scales")
    columns = {"id": Given("int64", "", 1), "v": given}
    schema = f"id BIGINT, v {type}, missing TIMESTAMP(3)"
    batch = decoded_json(columns, schema) if carrier == "json" else decoded_avro(registry, columns, schema)
    assert batch.errors is None, batch.errors
    batch.rows.validate(full=True)
    assert batch.rows.to_pylist() == [[{"id": 1, "v": value, "missing": None}]]
    nothing = {"id": Given("int64", "", 1), "v": given._replace(value=None)}
    batch = decoded_json(nothing, schema) if carrier == "json" else decoded_avro(registry, nothing, schema)
    assert batch.errors is None, batch.errors
    assert batch.rows.to_pylist() == [[{"id": 1, "v": None, "missing": None}]]


_MOST = (2**63 - 1) // 1000
_EACH = {-(2**63): -(2**63), -1: -1, 0: 0, 2**63 - 1: 2**63 - 1}
_IN_MILLIS = {0: 0, -1: -1000, _MOST: _MOST * 1000, -_MOST: -_MOST * 1000}
_IN_MILLIS |= dict.fromkeys((_MOST + 1, -_MOST - 1, 2**63 - 1, -(2**63)))
_IN_NANOS = {0: 0, 999: 0, 1999: 1, -1: -1, -1000: -1, -1001: -2, 9_007_199_254_740_993_000: 9_007_199_254_740_993}
_FIRST, _LAST = -9_223_372_036_832_400_000, 9_223_372_036_825_200_000  # Postgres's infinity
COUNTS: list[tuple[str, str, dict[int, Any]]] = [  # counts, with days, microseconds, nanoseconds or None for an error
    ("Timestamp", "TIMESTAMP(3)", _IN_MILLIS),
    ("MicroTimestamp", "TIMESTAMP(6)", _EACH),
    ("NanoTimestamp", "TIMESTAMP(6)", {**_IN_NANOS, 2**63 - 1: _LAST, -(2**63): _FIRST, 2**63 - 2: _MOST}),
    ("MicroDuration", "INTERVAL DAY TO SECOND", _EACH),
    ("NanoDuration", "INTERVAL DAY TO SECOND", {**_IN_NANOS, 2**63 - 1: _MOST}),
    ("Time", "TIME(3)", {0: 0, 86_399_999: 86_399_999 * 10**6, 86_400_000: None, -1: None}),
    ("MicroTime", "TIME(6)", {0: 0, 86_400 * 10**6 - 1: (86_400 * 10**6 - 1) * 1000, 86_400 * 10**6: None, -1: None}),
    ("NanoTime", "TIME(6)", {0: 0, 1: 1, 86_400 * 10**9 - 1: 86_400 * 10**9 - 1, 86_400 * 10**9: None, -1: None}),
    ("Date", "DATE", {-2_440_588: -2_440_588, -2_440_589: None, 2**31 - 1: 2**31 - 1}),
    ("Date", "STRING", {0: "1970-01-01", -1: "1969-12-31", 2_932_896: "9999-12-31", 2_932_897: "+10000-01-01"}),
    ("Time", "STRING", {0: "00:00:00", 1000: "00:00:01", 1: "00:00:00.001", -1: "-00:00:00.001", 10: "00:00:00.010"}),
    ("MicroTime", "STRING", {1: "00:00:00.000001", 1000: "00:00:00.001", 3_600_000_000: "01:00:00"}),
    ("NanoTime", "STRING", {1: "00:00:00.000000001", 1000: "00:00:00.000001", 10**6: "00:00:00.001"}),
    ("Timestamp", "STRING", {-1: "1969-12-31T23:59:59.999", 86_399_999: "1970-01-01T23:59:59.999"}),
    ("MicroTimestamp", "STRING", {-1: "1969-12-31T23:59:59.999999", 86_400 * 10**6: "1970-01-02T00:00:00"}),
]


@pytest.mark.parametrize(("name", "type", "wanted"), COUNTS, ids=[f"{name} {t}" for name, t, _ in COUNTS])
def test_counts_are_read_up_to_the_limits_of_their_columns(name: str, type: str, wanted: dict[int, Any]) -> None:
    schema = envelope({"v": Given("int32" if name == "Date" else "int64", f"{TIME}{name}", None)})
    events = [event({"v": count}, schema) for count in (*wanted, None, *wanted)]
    batch = get_format("debezium-json", WITH_SCHEMA).decode_batch(pa.array(events), f"v {type}")
    values = batch.rows.values.field(0)
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if type == "DATE" else pa.int64())
    good = [value for value in wanted.values() if value is not None]
    assert values.to_pylist() == [*good, None, *good]
    lengths = [None if value is None else 1 for value in wanted.values()]
    assert batch.rows.value_lengths().to_pylist() == [*lengths, 1, *lengths]


@pytest.mark.parametrize("carrier", ["json", "avro"])
@pytest.mark.parametrize(("given", "type", "words"), BAD, ids=[f"{g.name or g.type}-{t}-{w}" for g, t, w in BAD])
def test_a_value_that_the_column_cannot_hold_is_an_error(
    registry: Registry, carrier: str, given: Given, type: str, words: str
) -> None:
    columns = {"v": given}
    batch = decoded_json(columns, f"v {type}") if carrier == "json" else decoded_avro(registry, columns, f"v {type}")
    assert batch.errors is not None
    assert words in batch.errors[0].as_py()
    assert batch.rows.to_pylist() == [None]
    nothing = {"v": given._replace(value=None)}
    batch = decoded_json(nothing, f"v {type}") if carrier == "json" else decoded_avro(registry, nothing, f"v {type}")
    assert batch.rows.to_pylist() == [[{"v": None}]], "a NULL fits any column"


@pytest.mark.parametrize("type", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "INTERVAL DAY TO SECOND", "TIME(6)", "STRING"])
def test_a_column_that_older_messages_do_not_have_is_null(registry: Registry, type: str) -> None:
    """The column may have a type that Avro does not have. The table can be created without messages."""
    inner = Given("struct", "", {"a": 7}, inner={"a": Given("int64", "", None)})
    columns, schema = {"id": Given("int64", "", 1), "of": inner}, f"id BIGINT, of ROW<a BIGINT, b {type}>, v {type}"
    for batch in (decoded_json(columns, schema), decoded_avro(registry, columns, schema)):
        assert batch.errors is None, batch.errors
        assert batch.rows.to_pylist() == [[{"id": 1, "of": {"a": 7, "b": None}, "v": None}]]
    options = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:9092"}
    options |= {"format": "debezium-avro-confluent", "debezium-avro-confluent.url": registry.url}
    KeyValueFormat(f"id BIGINT, v {type}", {**options, "debezium-avro-confluent.types": "debezium"})


def test_a_key_without_a_schema_is_its_own_error_if_its_columns_need_one() -> None:
    keys = get_format("debezium-json", {"types": "debezium"}).for_key(get_format("json"))
    day = {"field": "d", "type": "int32", "name": f"{TIME}Date"}
    good = json.dumps({"schema": {"type": "struct", "fields": [day]}, "payload": {"d": 18266}}).encode()
    batch = keys.decode_batch(pa.array([good, b'{"d":18266}', good]), "d DATE")
    assert batch.rows.to_pylist() == [[{"d": dt.date(2020, 1, 5)}], None, [{"d": dt.date(2020, 1, 5)}]]
    assert batch.errors is not None
    assert [error is None for error in batch.errors.to_pylist()] == [True, False, True]


def test_a_key_in_avro_is_read_by_the_types_of_debezium(registry: Registry) -> None:
    time = {"type": "long", "connect.version": 1, "connect.name": f"{TIME}MicroTimestamp"}
    registry.ids[1] = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "t", "type": time}]})
    value = get_format("debezium-avro-confluent", {"url": registry.url, "types": "debezium"})
    key = value.for_key(get_format("avro-confluent", {"url": registry.url}))
    batch = key.decode_batch(pa.array([b"\0\0\0\0\1\x80\x89\x7a"]), "t TIMESTAMP(6)")
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"t": dt.datetime(1970, 1, 1, 0, 0, 1)}]]
    json_key = get_format("json")
    assert value.for_key(json_key) is json_key


def test_a_key_in_avro_is_read_with_the_mode_of_bytes_of_its_value(registry: Registry) -> None:
    fields = [{"name": "b", "type": "string"}]
    registry.ids[1] = json.dumps({"type": "record", "name": "Key", "fields": fields})
    options = {"url": registry.url, "types": "debezium", "binary.handling.mode": "hex"}
    key = get_format("debezium-avro-confluent", options).for_key(get_format("avro-confluent", {"url": registry.url}))
    assert key.decode_batch(pa.array([b"\0\0\0\0\1\x0800ff"]), "b BYTES").rows.to_pylist() == [[{"b": b"\0\xff"}]]


def test_ignore_parse_errors_makes_a_bad_value_null_and_keeps_the_message() -> None:
    columns = {"id": Given("int64", "", 1), "v": Given("int64", f"{TIME}MicroTime", -5)}
    batch = decoded_json(columns, "id INT, v TIME(6)", **{"ignore-parse-errors": "true"})
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"id": 1, "v": None}]]


@pytest.mark.parametrize(("mode", "text"), [("hex", "00ff3e"), ("base64", "AP8+"), ("base64-url-safe", "AP8-")])
def test_binary_handling_mode_decodes_bytes(registry: Registry, mode: str, text: str) -> None:
    columns, option = {"v": Given("string", "", text)}, {"binary.handling.mode": mode}
    for batch in (decoded_json(columns, "v BYTES", **option), decoded_avro(registry, columns, "v BYTES", **option)):
        assert batch.rows.to_pylist() == [[{"v": b"\0\xff>"}]]
    wrong = {"v": Given("string", "", "!!")}
    for batch in (decoded_json(wrong, "v BYTES", **option), decoded_avro(registry, wrong, "v BYTES", **option)):
        assert batch.codes.to_pylist() == ["WRONG_TYPE"]  # type: ignore[union-attr]


# --- batches -----------------------------------------------------------------------------------------------

_AMOUNTS = {"old": decimal(125, 2), "new": Given("string", "", "1.25"), "finer": decimal(12_500, 4)}


def _mixed() -> tuple[list[bytes | None], list[Any]]:
    """Return good and bad messages of three schemas, and their rows; "error" for an error."""
    messages: list[bytes | None] = []
    rows: list[Any] = []
    for n in range(60):
        given = list(_AMOUNTS.values())[(n // 7) % 3]
        schema = envelope({"id": Given("int64", "", None), "amount": given})
        messages.append(event({"id": n, "amount": given.value}, schema))
        rows.append([{"id": n, "amount": Decimal("1.25")}])
        if n % 11 == 0:
            messages.append(event({"id": n, "amount": "?!"}, schema))
            rows.append("error")
        if n % 13 == 0:
            messages += [None, b"", b"{", json.dumps({"schema": schema, "payload": {"op": "c"}}).encode()]
            rows += [None, [], "error", "error"]
    return messages, rows


def test_messages_of_several_schemas_are_read_in_one_batch() -> None:
    messages, rows = _mixed()
    fmt = get_format("debezium-json", WITH_SCHEMA)
    batch = fmt.decode_batch(pa.array(messages), "id BIGINT, amount DECIMAL(10, 2)")
    batch.rows.validate(full=True)
    assert batch.errors is not None
    found = [
        "error" if error else row for row, error in zip(batch.rows.to_pylist(), batch.errors.to_pylist(), strict=True)
    ]
    assert found == rows
    assert batch.row_kinds.to_pylist() == ["+I"] * 60  # type: ignore[union-attr]
    alone = [fmt.decode_batch(pa.array([m], pa.binary()), "id BIGINT, amount DECIMAL(10, 2)") for m in messages]
    texts = [None if one.errors is None else one.errors[0].as_py() for one in alone]
    assert texts == batch.errors.to_pylist(), "an error does not depend on the other messages"
    assert [one.rows.to_pylist()[0] for one in alone] == batch.rows.to_pylist()


def test_avro_of_several_schemas_is_read_in_one_batch(registry: Registry) -> None:
    messages: list[bytes | None] = []
    for number, given in enumerate(_AMOUNTS.values()):
        schema = avro_envelope({"id": Given("int64", "", None), "amount": given})
        registry.ids[number + 1] = json.dumps(schema)
        messages += [avro_event(number + 1, schema, {"id": n, "amount": given.value}) for n in range(3)]
        messages += [None, b"", b"\0\0\0\0\x63\0", b"\1"]
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": "debezium"})
    batch = fmt.decode_batch(pa.array(messages), "id BIGINT, amount DECIMAL(10, 2)")
    assert batch.rows.to_pylist() == [
        *([{"id": n, "amount": Decimal("1.25")}] for n in range(3)),
        *(None, [], None, None),
    ] * 3  # fmt: skip
    assert batch.codes.to_pylist() == [*[None] * 5, "UNKNOWN_SCHEMA", "MALFORMED"] * 3  # type: ignore[union-attr]


def test_a_column_that_needs_a_schema_is_an_error_without_one() -> None:
    fmt = get_format("debezium-json", WITH_SCHEMA)
    wanted = "id INT, d DATE"
    nothing = [event({"id": 1, "d": 5}, schema) for schema in ({}, [], "x", {"type": "string"}, 7)]
    batch = fmt.decode_batch(
        pa.array([*nothing, event({"id": 1, "d": 5}, {}).replace(b'"schema": {}', b'"x": 1')]), wanted
    )
    assert batch.rows.to_pylist() == [None] * 6
    for error in batch.errors.to_pylist():  # type: ignore[union-attr]
        assert "'schema': is missing" in error
        assert "set 'time.precision.mode'" in error
    modes = get_format("debezium-json", WITH_SCHEMA | {"time.precision.mode": "connect"})
    assert modes.decode_batch(pa.array(nothing), wanted).rows.to_pylist() == [[{"id": 1, "d": dt.date(1970, 1, 6)}]] * 5
    # a column that does not need a schema is read
    assert fmt.decode_batch(pa.array(nothing), "id INT").rows.to_pylist() == [[{"id": 1}]] * 5


# --- times out of Python's range ---------------------------------------------------------------------------

_FIRST, _LAST = -9_223_372_036_832_400_000, 9_223_372_036_825_200_000
FAR: list[tuple[Given, str, int]] = [
    # connectors/postgresql, "TIMESTAMP type", and `PostgresValueConverter`, `DateTimeFormat` for other types
    (Given("int64", f"{TIME}MicroTimestamp", _LAST), "TIMESTAMP(6)", _LAST),
    (Given("int64", f"{TIME}MicroTimestamp", _FIRST), "TIMESTAMP(6)", _FIRST),
    (Given("int64", f"{TIME}NanoTimestamp", 2**63 - 1), "TIMESTAMP(6)", _LAST),
    (Given("int64", f"{TIME}NanoTimestamp", -(2**63)), "TIMESTAMP(6)", _FIRST),
    (Given("int64", f"{CONNECT}Timestamp", _LAST // 1000), "TIMESTAMP(3)", _LAST),
    (Given("string", f"{TIME}ZonedTimestamp", "infinity"), "TIMESTAMP_LTZ(6)", _LAST),
    (Given("string", f"{TIME}ZonedTimestamp", "-infinity"), "TIMESTAMP_LTZ(6)", _FIRST),
    (Given("string", f"{TIME}IsoTimestamp", "+294247-01-10T04:00:25.2Z"), "TIMESTAMP(6)", _LAST),
    (Given("int32", f"{TIME}Date", -2_147_472_692), "DATE", 106_751_991),
    (Given("int32", f"{TIME}Date", -2_147_472_691), "DATE", -106_751_992),
    *(
        (parts(name, **dict.fromkeys((*DAY_PARTS, *NINE_O_CLOCK, "offsetSeconds")), specialValue=special), type, value)
        for special, day, value in [
            ("POSITIVE_INFINITY", 106_751_991, _LAST),
            ("NEGATIVE_INFINITY", -106_751_992, _FIRST),
        ]
        for name, type, value in [
            ("StructuredDate", "DATE", day),
            ("StructuredTimestamp", "TIMESTAMP(6)", value),
            ("StructuredZonedTimestamp", "TIMESTAMP_LTZ(6)", value),
        ]
    ),
    (Given("string", f"{TIME}ZonedTimestamp", "+10000-01-01T00:00:00Z"), "TIMESTAMP_LTZ(6)", 253_402_300_800_000_000),
    (Given("string", f"{TIME}IsoTimestamp", "-0043-03-15T12:00:00Z"), "TIMESTAMP(6)", -63_517_780_800_000_000),
    (Given("string", f"{TIME}IsoDate", "+10000-01-01Z"), "DATE", 2_932_897),
]


@pytest.mark.parametrize("carrier", ["json", "avro"])
@pytest.mark.parametrize(("given", "type", "value"), FAR)
def test_infinity_is_the_first_or_last_time_and_years_may_have_more_digits(
    registry: Registry, carrier: str, given: Given, type: str, value: int
) -> None:
    columns = {"v": given}
    batch = decoded_json(columns, f"v {type}") if carrier == "json" else decoded_avro(registry, columns, f"v {type}")
    assert batch.errors is None, batch.errors
    (column,) = batch.rows.values.flatten()
    whole = (
        column.cast(pa.int32()).cast(pa.int64()) if type == "DATE" else column.cast(pa.timestamp("us")).cast(pa.int64())
    )
    assert whole.to_pylist() == [value]


# --- without a schema --------------------------------------------------------------------------------------

_DAY_MICROS = micros("2025-03-03")
WITHOUT: list[tuple[dict[str, str], str, Any, Any]] = [
    ({"decimal.handling.mode": "precise"}, "DECIMAL(10, 2)", "AdTA", Decimal("1200.00")),
    ({"decimal.handling.mode": "string"}, "DECIMAL(10, 2)", "1200.00", Decimal("1200.00")),
    ({"decimal.handling.mode": "double"}, "DECIMAL(10, 2)", 1200.5, Decimal("1200.50")),
    ({"time.precision.mode": "adaptive"}, "DATE", 20_150, dt.date(2025, 3, 3)),
    ({"time.precision.mode": "adaptive"}, "TIMESTAMP(0)", _DAY_MICROS // 1000, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "adaptive"}, "TIMESTAMP(3)", _DAY_MICROS // 1000, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "adaptive"}, "TIMESTAMP(6)", _DAY_MICROS, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "adaptive"}, "TIMESTAMP(9)", _DAY_MICROS * 1000, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "adaptive_time_microseconds"}, "TIMESTAMP(3)", 0, dt.datetime(1970, 1, 1)),
    ({"time.precision.mode": "adaptive_time_microseconds"}, "TIME(3)", MICROS_OF_DAY, CLOCK),
    ({"time.precision.mode": "connect"}, "TIMESTAMP(6)", _DAY_MICROS // 1000, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "connect"}, "TIME(3)", 1500, dt.time(0, 0, 1, 500_000)),
    ({"time.precision.mode": "microseconds"}, "TIMESTAMP(3)", _DAY_MICROS, dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "nanoseconds"}, "TIME(3)", MICROS_OF_DAY * 1000, CLOCK),
    ({"time.precision.mode": "isostring"}, "TIMESTAMP(3)", "2025-03-03T00:00:00Z", dt.datetime(2025, 3, 3)),
    ({"time.precision.mode": "isostring"}, "DATE", "2025-03-03Z", dt.date(2025, 3, 3)),
    ({"time.precision.mode": "structured"}, "DATE", {**DAY_PARTS, "specialValue": None}, dt.date(2025, 3, 3)),
    ({"time.precision.mode": "structured"}, "TIME(3)", NINE_O_CLOCK, CLOCK),
    ({"time.precision.mode": "structured"}, "TIMESTAMP(3)", {**DAY_PARTS, **NINE_O_CLOCK}, MOMENT),
    (
        {"time.precision.mode": "structured"},
        "TIMESTAMP_LTZ(3)",
        {**DAY_PARTS, **NINE_O_CLOCK, "offsetSeconds": 0},
        MOMENT.replace(tzinfo=dt.UTC),
    ),
    (
        {"time.precision.mode": "structured"},
        "INTERVAL DAY TO SECOND",
        {**LARGEST_PARTS, "nanos": 0},
        dt.timedelta(days=1, seconds=7384),
    ),
    ({}, "TIMESTAMP_LTZ(3)", "2025-03-03T00:00:00Z", dt.datetime(2025, 3, 3, tzinfo=dt.UTC)),
    ({}, "BYTES", "AP8+", b"\0\xff>"),
    ({"binary.handling.mode": "hex"}, "BYTES", "00ff3e", b"\0\xff>"),
    ({"time.precision.mode": "adaptive"}, "ARRAY<DATE>", [0, 1], [dt.date(1970, 1, 1), dt.date(1970, 1, 2)]),
]


@pytest.mark.parametrize(("options", "type", "given", "value"), WITHOUT)
def test_without_a_schema_the_options_decide(options: dict[str, str], type: str, given: Any, value: Any) -> None:
    fmt = get_format("debezium-json", {"types": "debezium"} | options)
    batch = fmt.decode_batch(pa.array([event({"v": given})]), f"v {type}")
    assert batch.errors is None, batch.errors
    assert batch.rows.to_pylist() == [[{"v": value}]]


@pytest.mark.parametrize(
    ("options", "type", "words"),
    [
        ({}, "DECIMAL(10, 2)", "set 'decimal.handling.mode' to the connector's"),
        ({}, "DATE", "set 'time.precision.mode' to the connector's"),
        ({}, "ROW<a TIMESTAMP(3)>", "column 'v.a' is TIMESTAMP"),
    ],
)
def test_a_needed_option_that_is_not_set_is_an_error(options: dict[str, str], type: str, words: str) -> None:
    fmt = get_format("debezium-json", {"types": "debezium"} | options)
    with pytest.raises(SchemaError, match=words):
        fmt.decode_batch(pa.array([], pa.binary()), f"v {type}")


# --- options -----------------------------------------------------------------------------------------------


def test_invalid_combinations_of_options() -> None:
    with pytest.raises(OptionError, match=r"'decimal\.handling\.mode' of format 'debezium-json' is used only with"):
        get_format("debezium-json", {"decimal.handling.mode": "string"}).decode_batch(pa.nulls(0, pa.binary()), "a INT")
    with pytest.raises(OptionError, match="for reading only"):
        get_format("debezium-json", {"types": "debezium"}).encode_batch(pa.array([{"a": 1}]), "a BIGINT")
    options = {"url": "mock://x", "types": "debezium", "schema": '"string"'}
    with pytest.raises(OptionError, match="leave the option 'schema' out"):
        get_format("debezium-avro-confluent", options).decode_batch(pa.nulls(0, pa.binary()), "a INT")
    with pytest.raises(OptionError, match=r"supported values are \[flink, debezium\]"):
        get_format("debezium-json", {"types": "mysql"})


def test_the_default_are_flinks_types() -> None:
    for options in ({}, {"types": "flink"}, {"types": "FLINK"}):
        batch = get_format("debezium-json", options).decode_batch(pa.array([event({"v": "AdTA"})]), "v DECIMAL(10, 2)")
        assert batch.codes.to_pylist() == ["WRONG_TYPE"]  # type: ignore[union-attr]


def test_an_error_with_flinks_types_names_the_option() -> None:
    columns = {"amount": decimal(120_000, 2), "n": Given("int64", "", 1)}
    message = event({"amount": b"\1\xd4\xc0", "n": "x"}, envelope(columns))
    batch = get_format("debezium-json", {"schema-include": "true"}).decode_batch(
        pa.array([message, message]), "amount DECIMAL(10, 2)"
    )
    assert (
        batch.errors.to_pylist()
        == [  # type: ignore[union-attr]
            """field 'payload.after.amount': cannot read "AdTA" as DECIMAL(10, 2). By the message's schema it is """
            f"{CONNECT}Decimal: set 'types' = 'debezium' to read it"
        ]
        * 2
    )
    batch = get_format("debezium-json").decode_batch(
        pa.array([event({"v": 1_740_998_941_000_001}), event({"v": "x"}), b"{"]), "v TIMESTAMP(6)"
    )
    first, second, third = batch.errors.to_pylist()  # type: ignore[union-attr]
    assert "set 'types' = 'debezium'" in first
    assert "set 'types' = 'debezium'" in second
    assert "debezium" not in third


@pytest.mark.parametrize(
    ("given", "type"),
    [
        (Given("int64", f"{TIME}MicroTimestamp", micros(MOMENT_TEXT)), "TIMESTAMP(3)"),
        (Given("int32", f"{TIME}Date", 20_150), "TIME(3)"),
        (Given("bytes", "", b"\xff"), "STRING"),
        (Given("bytes", "", b"\xff"), "DECIMAL(10, 2)"),
    ],
)
def test_a_value_that_flink_misreads_in_avro_gives_one_warning(registry: Registry, given: Given, type: str) -> None:
    written = avro_envelope({"v": given})
    registry.ids[1] = json.dumps(written)
    messages = pa.array([avro_event(1, written, {"v": given.value})] * 2)
    fmt = get_format("debezium-avro-confluent", {"url": registry.url})
    with pytest.warns(DebeziumTypesWarning, match="column 'v' .* Set 'types' = 'debezium'"):
        fmt.decode_batch(messages, f"v {type}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DebeziumTypesWarning)
        assert fmt.decode_batch(messages, f"v {type}").errors is None


def test_values_that_flink_reads_correctly_in_avro_give_no_warning(registry: Registry) -> None:
    columns = {
        "d": Given("int32", f"{TIME}Date", 1),
        "ts": Given("int64", f"{TIME}Timestamp", 1),
        "n": decimal(5, 2),
        "raw": Given("int64", f"{TIME}MicroTimestamp", 1),
        "s": Given("string", "", "x"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", DebeziumTypesWarning)
        written = avro_envelope(columns)
        registry.ids[1] = json.dumps(written)
        message = avro_event(1, written, {name: one.value for name, one in columns.items()})
        fmt = get_format("debezium-avro-confluent", {"url": registry.url})
        batch = fmt.decode_batch(pa.array([message]), "d DATE, ts TIMESTAMP(3), n DECIMAL(10, 2), raw BIGINT, s STRING")
    assert batch.errors is None


def test_each_error_of_a_batch_has_its_own_code(registry: Registry) -> None:
    """One batch has a value that the column can't hold, an unknown schema, and two known schemas."""
    messages = []
    for number, given in enumerate((decimal(125, 2), Given("string", "", "1.25"))):
        schema = avro_envelope({"v": given})
        registry.ids[number + 1] = json.dumps(schema)
        messages += [avro_event(number + 1, schema, {"v": value}) for value in (given.value, given.value)]
    first = avro_envelope({"v": decimal(125, 2)})
    messages += [avro_event(1, first, {"v": unscaled(10**12)}), b"\0\0\0\0\x63\0"]
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": "debezium"})
    batch = fmt.decode_batch(pa.array(messages), "v DECIMAL(10, 2)")
    assert batch.codes.to_pylist() == [*[None] * 4, "OUT_OF_RANGE", "UNKNOWN_SCHEMA"]  # type: ignore[union-attr]
    assert not any(text.startswith("[") for text in batch.errors.drop_null().to_pylist())  # type: ignore[union-attr]


def test_a_broken_message_does_not_change_how_the_next_messages_are_read() -> None:
    fmt = get_format("debezium-json", WITH_SCHEMA)
    good = event({"v": 20_150}, envelope({"v": Given("int32", f"{TIME}Date", None)}))
    reads: list[int] = []
    schema = "v DATE"
    fmt.decode_batch(pa.array([good]), schema)
    before = embedded_schema._WireReader.read

    def counted(self: Any, messages: pa.BinaryArray) -> Any:
        reads.append(len(messages))
        return before(self, messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_schema._WireReader, "read", counted)
        for _ in range(3):
            batch = fmt.decode_batch(pa.array([good, b"{", good]), schema)
            assert batch.rows.value_lengths().to_pylist() == [1, None, 1]
    assert reads == [3, 1] * 3, "all messages by the usual plan, and the broken one by the plan without a schema"


def test_an_empty_batch_has_the_types_of_the_table_after_messages_of_any_schema() -> None:
    fmt, schema = get_format("debezium-json", WITH_SCHEMA), "v ARRAY<STRING>"
    message = event({"v": "x"}, envelope({"v": Given("string", "", None)}))
    for messages in ([], [message, message], [], [None], []):
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
        assert batch.rows.type.value_type == arrow_type(parse_schema(schema))


def test_an_error_may_name_a_text_that_utf8_cannot_encode() -> None:
    message = event({"v": 1}, envelope({"v": Given("int64", "org.NAME", None)})).replace(b"NAME", b"\xf0\x80\x80\x80")
    batch = get_format("debezium-json", WITH_SCHEMA).decode_batch(pa.array([message, message]), "v ARRAY<STRING>")
    assert batch.errors is not None
    assert ["KERNEL_FAILED" in text for text in batch.errors.to_pylist()] == [False, False]
    assert "'v'" in batch.errors[0].as_py()
    assert "\\udc00" in batch.errors[0].as_py()


def test_days_out_of_the_range_of_dates_are_an_error() -> None:
    columns = {"v": Given("int64", f"{TIME}Date", 2**31)}
    batch = decoded_json(columns, "v DATE")
    assert batch.codes.to_pylist() == ["OUT_OF_RANGE"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("scale", "precision", "type"),
    [
        ("2", "10", "DECIMAL(10, 2)"),
        ("2", None, "DECIMAL(38, 2)"),
        ("-3", "5", "DECIMAL(8, 0)"),
        ("-999", None, "DECIMAL(38, 0)"),
        ("-1000", None, "STRING"),  # a number of at most four characters
        ("38", "38", "DECIMAL(38, 38)"),
        ("39", "39", "STRING"),
        ("11", "10", "STRING"),
        ("x", "10", "STRING"),
        (None, "10", "STRING"),
    ],
)
def test_the_decimal_of_a_schema_is_proposed_if_it_has_at_most_38_digits(
    scale: str | None, precision: str | None, type: str
) -> None:
    given = {"scale": scale, "connect.decimal.precision": precision}
    parameters = {name: text for name, text in given.items() if text is not None}
    schema = ConnectSchema("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)
    assert own_type(schema) == parse_type(type)


@pytest.mark.parametrize(
    ("schema", "as_flink", "own"),
    [
        (ConnectSchema("int64", f"{TIME}MicroTimestamp"), "BIGINT", "TIMESTAMP(6)"),
        (ConnectSchema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(6)"),
        (ConnectSchema("bytes", f"{DATA}Bits", {"length": "63"}), "BYTES", "BIGINT"),
        (ConnectSchema("bytes", f"{DATA}Bits", {"length": "64"}), "BYTES", "BYTES"),
        (ConnectSchema("string", f"{DATA}EnumSet"), "STRING", "ARRAY<STRING>"),
        (ConnectSchema("array", items=ConnectSchema("int64", f"{TIME}NanoTime")), "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
        (
            ConnectSchema("map", items=ConnectSchema("int8"), keys=ConnectSchema("string")),
            "MAP<STRING, TINYINT>",
            "MAP<STRING, TINYINT>",
        ),
        (
            ConnectSchema("map", items=ConnectSchema("int8"), keys=ConnectSchema("int8")),
            None,
            "MAP<STRING, TINYINT>",
        ),
        (ConnectSchema("struct", fields={"a": ConnectSchema("float64")}), "ROW<a DOUBLE>", "ROW<a DOUBLE>"),
        (ConnectSchema("struct", fields={"a": ConnectSchema("union")}), None, "ROW<a STRING>"),
        (ConnectSchema("union"), None, "STRING"),
    ],
)
def test_a_schema_of_connect_has_two_readings(schema: ConnectSchema, as_flink: str | None, own: str) -> None:
    found = flink_type(schema, "c", Notes())
    assert found == (None if as_flink is None else parse_type(as_flink))
    assert own_type(schema) == parse_type(own)


def test_a_schema_of_connect_is_read_down_to_32_levels_as_flink_reads_it() -> None:
    schema = ConnectSchema("string")
    for _ in range(32):
        schema = ConnectSchema("array", items=schema)
    assert flink_type(schema, "c", Notes()) is not None
    assert flink_type(ConnectSchema("array", items=schema), "c", Notes()) is None


def test_columns_of_several_schemas_have_their_common_type() -> None:
    common = {
        ("INT", "BIGINT", "TINYINT"): "BIGINT",
        ("TIME(3)", "TIME(6)"): "TIME(6)",
        ("TIMESTAMP(3)", "TIMESTAMP(6)"): "TIMESTAMP(6)",
        ("DECIMAL(5, 2)", "DECIMAL(10, 0)"): "DECIMAL(12, 2)",
        ("DECIMAL(38, 0)", "DECIMAL(2, 1)"): None,
        ("FLOAT", "DOUBLE"): None,
        ("BIGINT", "DECIMAL(5, 2)"): None,
        ("ARRAY<STRING>", "ARRAY<INT>"): None,
        ("STRING", "STRING"): "STRING",
    }
    for types, expected in common.items():
        assert _common_type([*map(parse_type, types)]) == (None if expected is None else parse_type(expected)), types


def test_notes_without_a_column_keep_those_of_others() -> None:
    notes = Notes()
    for place in ("a", "b", "c"):
        notes.add("no type but text takes all", place)
    notes.add("declared as INT", "b")
    notes.add("b: of no column")
    assert notes.without({"b", "c"}).texts() == ("a: no type but text takes all", "b: of no column")
    assert len(notes.texts()) == 3
