"""Unchanged columns that an update does not have: 'unchanged.columns', for placeholders and partial rows."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import json
import pickle
import uuid
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract.errors import ErrorCode, OptionError
from kvformat.registry.streams.changelog_state import _with_old
from tests.support.decoding import alone, answers, decoded

_TEXT = "__debezium_unavailable_value"
_UPSERT = {"changelog.mode": "upsert"}
_SCHEMA = "id INT, t STRING, n INT"


def _toasted(text: str) -> dict[str, tuple[str, Any, Any]]:
    """Return columns by name: the type, the placeholder in JSON, and a value that is not a placeholder."""
    octets = text.encode()
    named = str(uuid.UUID(bytes=hashlib.md5(octets).digest(), version=3))
    return {
        "text": ("STRING", text, f"{text} "),
        "octets": ("BYTES", base64.b64encode(octets).decode(), "AAEC"),
        "texts": ("ARRAY<STRING>", [text], [text, text]),
        "uuids": ("ARRAY<STRING>", [named], []),
        "many": ("ARRAY<BYTES>", [base64.b64encode(octets).decode()], [None]),
        "numbers": ("ARRAY<INT>", list(octets), [*octets[:-1], 0]),
        "longs": ("ARRAY<BIGINT>", list(octets), [1]),
        "pairs": ("MAP<STRING, STRING>", {text: text}, {text: "x"}),
        "hstore": ("STRING", json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False), "{}"),
    }


@pytest.mark.parametrize("types", ["flink", "debezium"])
@pytest.mark.parametrize("setting", [None, "__ü!", "hex:5f5f5f"])
def test_placeholders_of_every_type_are_unchanged_columns(types: str, setting: str | None) -> None:
    text = _TEXT if setting is None else "___" if setting.startswith("hex:") else setting
    columns = _toasted(text)
    if not text.isascii():  # Java's bytes are signed
        for name in ("numbers", "longs"):
            columns[name] = (columns[name][0], [b - 256 if b > 127 else b for b in text.encode()], [1])
    schema = ", ".join(f"`{name}` {type}" for name, (type, _, _) in columns.items())
    options = {**_UPSERT, "types": types, "unchanged.columns": "keep"}
    options |= {} if setting is None else {"unavailable.value.placeholder": setting}
    every = {name: there for name, (_, there, _) in columns.items()}
    none = {name: other for name, (_, _, other) in columns.items()}
    messages = [every, none, dict.fromkeys(columns), *({**none, name: every[name]} for name in columns)]
    texts: list[bytes | None] = [json.dumps({"after": row, "op": "u"}).encode() for row in messages]
    format = get_format("debezium-json", options)
    batch = decoded(format, texts, schema)
    assert answers(batch) == alone(format, texts, schema)
    rows = batch.rows.values.to_pylist()
    assert [row["unchanged_columns"] for row in rows] == [list(columns), None, None, *([name] for name in columns)]
    assert all(row[name] is None for row in rows for name in row["unchanged_columns"] or [])
    assert None not in [rows[1][name] for name in columns]
    assert pickle.loads(pickle.dumps(format)).own_columns == format.own_columns


@pytest.mark.parametrize("setting", [_TEXT, "??~", "hex:fffe"])
def test_a_text_column_may_have_the_placeholder_of_any_type(setting: str) -> None:
    """Without a schema, a STRING column may be of any type in the database."""
    octets = bytes.fromhex(setting[4:]) if setting.startswith("hex:") else setting.encode()
    encoded = [base64.b64encode(octets).decode(), base64.urlsafe_b64encode(octets).decode(), octets.hex()]
    singles = [*encoded, str(uuid.UUID(bytes=hashlib.md5(octets).digest(), version=3))]
    numbers = [n - 256 if n > 127 else n for n in octets]
    values: list[Any] = [*singles, *([single] for single in singles), numbers]
    values += [json.dumps(value, separators=marks) for value in values[len(singles) :] for marks in ((",", ":"), None)]
    if not setting.startswith("hex:"):
        values += [setting, [setting], {setting: setting}, json.dumps({setting: setting})]
    texts = [json.dumps({"after": {"id": 1, "t": value}, "op": "u"}).encode() for value in [*values, "x", ["x"]]]
    given = {**_UPSERT, "unchanged.columns": "keep", "unavailable.value.placeholder": setting}
    rows = decoded(get_format("debezium-json", given), texts, "id INT, t STRING, b BYTES").rows.values.to_pylist()
    assert [row["t"] for row in rows] == [None] * len(values) + ["x", '["x"]']


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("mode", ["hex", "base64", "base64-url-safe"])
def test_placeholders_of_bytes_are_found_in_every_binary_handling_mode(mode: str, schema: bool) -> None:
    """Postgres's connector writes the placeholder itself (`convertBinaryToHex`, for example), Oracle's encodes it."""
    written = {"hex": bytes.hex, "base64": lambda b: base64.b64encode(b).decode()}.get(
        mode, lambda b: base64.urlsafe_b64encode(b).decode()
    )
    options = {**_UPSERT, "types": "debezium", "binary.handling.mode": mode, "unchanged.columns": "keep"}
    options |= {"time.precision.mode": "adaptive", "schema-include": str(schema).lower()}
    days = {"type": "int32", "name": "io.debezium.time.Date"}
    fields: list[dict[str, Any]] = [{"field": "o", "type": "string"}, {"field": "d", "type": "array", "items": days}]
    block = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    rows = [{"o": text, "d": list(_TEXT.encode())} for text in (_TEXT, written(_TEXT.encode()))]
    rows.append({"o": written(b"\xff\0"), "d": [1]})
    payloads = [{"after": row, "op": "u"} for row in rows]
    texts: list[bytes | None] = [
        json.dumps({"schema": block, "payload": payload} if schema else payload).encode() for payload in payloads
    ]
    found = decoded(get_format("debezium-json", options), texts, "o BYTES, d ARRAY<DATE>").rows.values.to_pylist()
    gone = {"o": None, "d": None, "unchanged_columns": ["o", "d"]}
    assert found == [gone, gone, {"o": b"\xff\0", "d": [datetime.date(1970, 1, 2)], "unchanged_columns": None}]


def test_values_of_types_that_have_no_placeholder_are_not_unchanged() -> None:
    columns: dict[str, tuple[str, Any]] = {
        "counts": ("MAP<STRING, INT>", {_TEXT: 1}),
        "nested": ("MAP<STRING, ARRAY<STRING>>", {_TEXT: [_TEXT]}),
        "flags": ("ARRAY<BOOLEAN>", [True]),
        "lists": ("ARRAY<ARRAY<STRING>>", [[_TEXT]]),
        "rows": ("ARRAY<ROW<x STRING>>", [{"x": _TEXT}]),
        "row": ("ROW<x STRING>", {"x": _TEXT}),
        "day": ("DATE", "2024-02-29"),
    }
    schema = ", ".join(f"`{name}` {type}" for name, (type, _) in columns.items())
    for name in _UPDATES:
        format = get_format(name, {"unchanged.columns": "error", "changelog.mode": "upsert"})
        row = {name: value for name, (_, value) in columns.items()}
        member = "after" if "after" in _UPDATES[name] else "data"
        message = _UPDATES[name] | {member: [row] if name == "canal-json" else row, "before": None, "old": None}
        batch = decoded(format, [json.dumps(message).encode()], schema)
        assert batch.errors is None
        assert None not in batch.rows.values.to_pylist()[0].values()


def test_by_default_a_placeholder_is_data() -> None:
    message: list[bytes | None] = [json.dumps({"after": {"id": 1, "t": _TEXT}, "op": "u"}).encode()]
    (row,) = decoded(get_format("debezium-json", _UPSERT), message, _SCHEMA).rows.values.to_pylist()
    assert row == {"id": 1, "t": _TEXT, "n": None}


@pytest.mark.parametrize("lenient", ["false", "true"])
def test_policy_error_names_the_columns_and_policy_null_gives_nulls(lenient: str) -> None:
    good, bad = {"id": 1, "t": "a", "n": 2}, {"id": 1, "t": _TEXT}
    texts: list[bytes | None] = [json.dumps({"after": row, "op": "u"}).encode() for row in (good, bad, good)]
    given = {**_UPSERT, "ignore-parse-errors": lenient}
    batch = decoded(get_format("debezium-json", {**given, "unchanged.columns": "error"}), texts, _SCHEMA)
    assert batch.errors is not None
    assert batch.codes is not None
    first, error, last = batch.errors.to_pylist()
    assert first is last is None
    assert "does not have the value of 't', 'n'" in error
    assert "'unchanged.columns' to 'keep'" in error
    assert batch.codes.to_pylist() == [None, ErrorCode.MISSING_FIELD, None]
    assert batch.rows.values.to_pylist() == [good, good]
    nulls = decoded(get_format("debezium-json", {**given, "unchanged.columns": "null"}), texts, _SCHEMA)
    assert nulls.rows.values.to_pylist() == [good, {"id": 1, "t": None, "n": None}, good]


_UPDATES: dict[str, dict[str, Any]] = {
    "debezium-json": {"op": "u", "before": {"id": 1}, "after": {"id": 1, "n": None}},
    "ogg-json": {"op_type": "U", "before": {"id": 1}, "after": {"id": 1, "n": None}},
    "maxwell-json": {"type": "update", "data": {"id": 1, "n": None}, "old": {"n": 1}},
    "canal-json": {"type": "UPDATE", "data": [{"id": 1, "n": None}], "old": [{"n": 1}]},
}
_OTHERS = {
    "debezium-json": ({"op": "c", "after": {"id": 1}}, {"op": "d", "before": {"id": 1}}),
    "ogg-json": ({"op_type": "I", "after": {"id": 1}}, {"op_type": "D", "before": {"id": 1}}),
    "maxwell-json": ({"type": "insert", "data": {"id": 1}}, {"type": "delete", "data": {"id": 1}}),
    "canal-json": ({"type": "INSERT", "data": [{"id": 1}]}, {"type": "DELETE", "data": [{"id": 1}]}),
}


@pytest.mark.parametrize("name", sorted(_UPDATES))
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_column_that_an_update_does_not_have_is_unchanged_but_a_null_is_not(name: str, mode: str) -> None:
    """Insertions and deletions do not have unchanged columns."""
    format = get_format(name, {"changelog.mode": mode, "unchanged.columns": "keep"})
    messages: list[bytes | None] = [json.dumps(m).encode() for m in (_UPDATES[name], *_OTHERS[name])]
    metadata = tuple(format.metadata_types)
    for keys in ((), metadata):
        batch = decoded(format, [*messages, b"?", None], _SCHEMA, metadata=keys)
        rows = batch.rows.values.to_pylist()
        assert batch.row_kinds is not None
        kept = [(kind, row["unchanged_columns"]) for kind, row in zip(batch.row_kinds.to_pylist(), rows, strict=True)]
        before = [("-U", None)] if mode == "all" else []
        assert kept == [*before, ("+U", ["t"]), ("+I", None), ("-D", None)]
        assert list(rows[0]) == ["id", "t", "n", *keys, "unchanged_columns"]


def test_each_row_of_a_canal_message_has_its_own_unchanged_columns() -> None:
    """With binlog_row_image=NOBLOB, Canal leaves an unchanged TEXT or BLOB out of the row.

    The batches also have messages of other kinds, broken messages, and rows with a new key, strict and lenient.
    """
    random, compared = Random(7), 0
    for lenient in ("false", "true"):
        for mode in ({}, {"changelog.mode": "upsert"}):
            options = {"unchanged.columns": "keep", "ignore-parse-errors": lenient, "table.include": "a", **mode}
            format = get_format("canal-json", options).for_rows(["id"], in_record=False)
            messages: list[bytes | None] = []
            kept: list[list[str] | None] = []
            for number in range(200):
                size = random.choice([1, 1, 2, 3, 9])
                rows = [{"id": n, "t": random.choice(["x", None]), "n": number} for n in range(size)]
                gone = [random.sample(["t", "n"], random.randint(0, 2)) for _ in rows]
                data = [{k: v for k, v in row.items() if k not in g} for row, g in zip(rows, gone, strict=True)]
                old = [random.choice([{"n": 1}, {"id": 50 + n}, {}]) for n in range(size)]
                kind, table = random.choice(["UPDATE", "UPDATE", "INSERT", "DELETE", "ALTER"]), random.choice("aab")
                good = random.random() < 0.8
                if not good and lenient == "false":
                    data[random.randrange(size)]["n"] = "?"  # type: ignore[assignment]
                elif not good:
                    kind = "?"
                message = {"type": kind, "table": table, "data": data, "old": old}
                messages.append(json.dumps(message).encode())
                if kind == "UPDATE" and table == "a" and good:
                    kept += [[name for name in ("t", "n") if name in names] or None for names in gone]
            batch = decoded(format, [None, b"{", *messages], _SCHEMA)
            assert batch.row_kinds is not None
            found = zip(batch.row_kinds.to_pylist(), batch.rows.values.to_pylist(), strict=True)
            unchanged = [(kind, row["unchanged_columns"]) for kind, row in found]
            assert [names for kind, names in unchanged if kind == "+U"] == kept
            assert not any(names for kind, names in unchanged if kind != "+U")
            compared += len(kept)
    assert compared > 500, compared


def test_wrapped_messages_have_unchanged_columns() -> None:
    fields = [{"field": "id", "type": "int32"}, {"field": "t", "type": "string"}, {"field": "n", "type": "int32"}]
    schema = {"type": "struct", "fields": [{"field": name, "fields": fields} for name in ("before", "after")]}
    payloads = [{"op": "u", "after": {"id": 1, "t": _TEXT}}, {"op": "c", "after": {"id": 1}}]
    texts: list[bytes | None] = [json.dumps({"schema": schema, "payload": p}).encode() for p in payloads]
    options = {**_UPSERT, "schema-include": "true", "unchanged.columns": "keep"}
    for types in ("flink", "debezium"):
        format = get_format("debezium-json", {**options, "types": types})
        rows = decoded(format, texts, _SCHEMA, metadata=("schema",)).rows.values.to_pylist()
        assert [row["unchanged_columns"] for row in rows] == [["t", "n"], None]
        assert json.loads(rows[0]["schema"]) == schema


def test_placeholders_in_avro_are_unchanged_columns(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "t", "type": ["null", "string"]}]
    fields.append({"name": "o", "type": ["null", "bytes"]})
    value = {"type": "record", "name": "Value", "fields": fields}
    envelope = {"type": "record", "name": "Envelope", "fields": [{"name": "before", "type": ["null", value]}]}
    envelope["fields"] += [{"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"}]
    (tmp_path / "1.avsc").write_text(json.dumps(envelope))
    texts: list[bytes | None] = []
    for after in ({"id": 1, "t": _TEXT, "o": _TEXT.encode()}, {"id": 2, "t": "a", "o": b"b"}):
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, fastavro.parse_schema(envelope), {"before": None, "after": after, "op": "u"})
        texts.append(b"\0\0\0\0\1" + datum.getvalue())
    for types in ("flink", "debezium"):
        given = {**_UPSERT, "url": f"file:{tmp_path}", "unchanged.columns": "keep", "types": types}
        format = get_format("debezium-avro-confluent", given)
        assert decoded(format, texts, "id INT, t STRING, o BYTES").rows.values.to_pylist() == [
            {"id": 1, "t": None, "o": None, "unchanged_columns": ["t", "o"]},
            {"id": 2, "t": "a", "o": b"b", "unchanged_columns": None},
        ]


def test_a_table_has_unchanged_columns_after_its_own_columns_and_metadata() -> None:
    options = {"key.format": "json", "key.fields": "id", "value.format": "debezium-json"}
    options |= {f"value.debezium-json.{name}": value for name, value in _UPSERT.items()}
    kv = KeyValueFormat(_SCHEMA, {**options, "value.debezium-json.unchanged.columns": "keep"}, primary_key=["id"])
    value = json.dumps({"after": {"id": 1, "t": _TEXT, "n": 1}, "op": "u", "ts_ms": 1}).encode()
    batch = kv.decode_batch(
        pa.array([b'{"id":1}'] * 2), pa.array([value, b"?"]), metadata=["value.ingestion-timestamp"]
    )
    (row,) = batch.rows.values.to_pylist()
    assert list(row) == ["id", "t", "n", "value.ingestion-timestamp", "unchanged_columns"]
    assert (row["t"], row["n"], row["unchanged_columns"]) == (None, 1, ["t"])


def test_the_option_is_for_reading_only() -> None:
    for name in _UPDATES:
        with pytest.raises(OptionError, match=r"'unchanged.columns' = 'keep' is for reading only"):
            get_format(name, {"unchanged.columns": "keep"}).prepare("encode", _SCHEMA)


def test_old_values_are_copied_from_the_state_character_by_character() -> None:
    names = ["a", "b", 'c"', "d", "e"]
    old = r'{"a":1,"b":"x\"},\\","c\"":[{"a":[1,2]},"}"],"d":12345678901234567890}'
    assert _with_old('{"a":2,"e":true}', old, ["b", 'c"', "d", "e"], names) == (
        r'{"a":2,"b":"x\"},\\","c\"":[{"a":[1,2]},"}"],"d":12345678901234567890,"e":true}'
    )
    assert _with_old("{}", old, ["e", "d"], names) == '{"d":12345678901234567890}'
    assert _with_old('{"a":2}', "{}", ["b"], names) == '{"a":2}'
