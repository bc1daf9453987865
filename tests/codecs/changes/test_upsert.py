"""Change data without the row before an update: 'changelog.mode' = 'upsert'."""

from __future__ import annotations

import io
import json
import pickle
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.registry import ChangelogMode, KeyValueFormat, get_format
from kvformat.registry.contract.errors import ConfigurationError, OptionError
from kvformat.registry.format import Format
from tests.support.decoding import alone, answers, decoded

_SCHEMA = "id INT, name STRING"
_A, _B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
_KEY = {"id": 1, "name": None}
_JSON = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [{"name": "id", "type": ["null", "int"]}, {"name": "name", "type": ["null", "string"]}],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": ["null", "string"]},
    ],
}


def _made(name: str, folder: Path, **options: str) -> Format:
    given = {"changelog.mode": "upsert", **{key.replace("_", "-"): value for key, value in options.items()}}
    if name == "debezium-avro-confluent":
        (folder / "1.avsc").write_text(json.dumps(_ENVELOPE))
        given["url"] = f"file:{folder}"
    return get_format(name, given)


def _message(format: str, kind: str, before: Any, after: Any) -> bytes:
    """Return a change as the format writes it; `kind` is 'i', 'u' or 'd'."""
    if format == "debezium-avro-confluent":
        datum = io.BytesIO()
        change = {"before": before, "after": after, "op": {"i": "c"}.get(kind, kind)}
        fastavro.schemaless_writer(datum, fastavro.parse_schema(_ENVELOPE), change)
        return b"\0\0\0\0\1" + datum.getvalue()
    if format == "debezium-json":
        return json.dumps({"before": before, "after": after, "op": {"i": "c"}.get(kind, kind)}).encode()
    if format == "ogg-json":
        return json.dumps({"before": before, "after": after, "op_type": kind.upper()}).encode()
    text = {"i": "insert", "u": "update", "d": "delete"}[kind]
    data, old = (before, None) if kind == "d" else (after, None)
    if kind == "u":
        old = {name: value for name, value in (before or {}).items() if value != after.get(name)}
    if format == "maxwell-json":
        return json.dumps({"data": data, "old": old, "type": text}).encode()
    return json.dumps({"data": [data], "old": old and [old], "type": text.upper()}).encode()


def _rows(format: Format, messages: list[bytes | None], schema: str = _SCHEMA) -> list[Any]:
    """Return the rows of each message with kinds, or its error. Check that each gets the same answer by itself."""
    batch = decoded(format, messages, schema)
    assert answers(batch) == alone(format, messages, schema)
    assert batch.row_kinds is not None
    kinds = iter(batch.row_kinds.to_pylist())
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    found: list[Any] = []
    for rows, error in zip(batch.rows.to_pylist(), errors, strict=True):
        found.append(error if rows is None else [(next(kinds), *row.values()) for row in rows])
    return found


@pytest.mark.parametrize("name", [*_JSON, "debezium-avro-confluent"])
def test_an_update_gives_only_its_new_row(name: str, tmp_path: Path) -> None:
    format = _made(name, tmp_path)
    messages = [_message(name, "i", None, _A), _message(name, "u", _A, _B), _message(name, "d", _B, None)]
    wanted = [[("+I", 1, "a")], [("+U", 1, "b")], [("-D", 1, "b")]]
    assert _rows(format, messages) == wanted
    assert format.changelog_mode is ChangelogMode.UPSERT
    assert type(format)({"url": f"file:{tmp_path}"} if "avro" in name else {}).changelog_mode is ChangelogMode.ALL
    rng = random.Random(3)
    places = [rng.randrange(3) for _ in range(500)]
    assert _rows(format, [messages[place] for place in places]) == [wanted[place] for place in places]


@pytest.mark.parametrize("name", ["debezium-json", "ogg-json", "debezium-avro-confluent"])
@pytest.mark.parametrize("lenient", [False, True])
def test_only_the_key_of_the_row_before_a_change_is_needed(name: str, lenient: bool, tmp_path: Path) -> None:
    """PostgreSQL's default replica identity sends no `before` of an update, and only the key of a deleted row."""
    options = {"ignore_parse_errors": "true"} if lenient and "json" in name else {}
    format = _made(name, tmp_path, **options)
    messages = [_message(name, "u", None, _B), _message(name, "u", _KEY, _B), _message(name, "d", _KEY, None)]
    assert _rows(format, messages) == [[("+U", 1, "b")], [("+U", 1, "b")], [("-D", 1, None)]]


def test_the_row_before_an_update_is_not_read() -> None:
    bad = json.dumps({"before": {"id": "no number"}, "after": _B, "op": "u"}).encode()
    assert _rows(_made("debezium-json", Path()), [bad]) == [[("+U", 1, "b")]]
    wrapped = json.dumps({"schema": {}, "payload": {"before": "?", "after": _B, "op": "u"}}).encode()
    assert _rows(_made("debezium-json", Path(), schema_include="true"), [wrapped]) == [[("+U", 1, "b")]]


@pytest.mark.parametrize("name", ["debezium-json", "ogg-json", "debezium-avro-confluent"])
def test_the_error_of_a_missing_before_row_names_the_mode(name: str, tmp_path: Path) -> None:
    format = _made(name, tmp_path, **{"changelog.mode": "all"})
    (error,) = _rows(format, [_message(name, "u", None, _B)])
    assert "REPLICA IDENTITY FULL" in error
    assert "'changelog.mode' to 'upsert'" in error


@pytest.mark.parametrize("name", ["debezium-json", "ogg-json", "debezium-avro-confluent"])
def test_a_deletion_without_a_row_or_a_key_is_an_error(name: str, tmp_path: Path) -> None:
    made = _made(name, tmp_path)
    for format in (made, made.for_rows(("id",), in_record=False)):
        first, bad, last = _rows(
            format,
            [_message(name, "i", None, _A), _message(name, "d", None, None), _message(name, "i", None, _B)],
        )
        assert (first, last) == ([("+I", 1, "a")], [("+I", 1, "b")])
        assert "'before': is missing or null, but a deletion needs it" in bad or "an update needs it" in bad
        assert "the key of the record" in bad
        assert "'key.format'" in bad


def _table(name: str, folder: Path, columns: str = _SCHEMA, key: Any = ("id",), **options: str) -> KeyValueFormat:
    given = {"value.format": name, f"value.{name}.changelog.mode": "upsert", **options}
    if name == "debezium-avro-confluent":
        (folder / "1.avsc").write_text(json.dumps(_ENVELOPE))
        given[f"value.{name}.url"] = f"file:{folder}"
    return KeyValueFormat(columns, given, primary_key=key)


def _with_key(name: str, folder: Path, include: str = "ALL", **options: str) -> KeyValueFormat:
    keys = {"key.format": "json", "key.fields": "id", "value.fields-include": include}
    return _table(name, folder, **keys, **options)


def _records(kv: KeyValueFormat, keys: list[bytes | None] | None, values: list[bytes | None]) -> list[Any]:
    key = None if keys is None else pa.array(keys, pa.binary())
    batch = kv.decode_batch(key, pa.array(values, pa.binary()))
    assert batch.row_kinds is not None
    kinds = iter(batch.row_kinds.to_pylist())
    errors = [None] * len(values) if batch.errors is None else batch.errors.to_pylist()
    return [
        error if rows is None else [(next(kinds), *row.values()) for row in rows]
        for rows, error in zip(batch.rows.to_pylist(), errors, strict=True)
    ]


@pytest.mark.parametrize("name", ["debezium-json", "ogg-json", "debezium-avro-confluent"])
@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_the_key_of_a_record_says_which_row_is_deleted(name: str, include: str, tmp_path: Path) -> None:
    if include == "EXCEPT_KEY" and "avro" in name:
        pytest.skip("the schema of the writer has the key in the value")
    kv = _with_key(name, tmp_path, include)
    assert kv.changelog_mode is ChangelogMode.UPSERT
    values: list[bytes | None] = [
        _message(name, "i", None, _A),
        _message(name, "u", None, _B),
        _message(name, "d", None, None),
        None,
        _message(name, "d", _KEY, None),
    ]
    wanted = [[("+I", 1, "a")], [("+U", 1, "b")], [("-D", 1, None)], [], [("-D", 1, None)]]
    found = _records(kv, [b'{"id": 1}'] * len(values), values)
    assert [rows or [] for rows in found] == wanted
    assert _records(pickle.loads(pickle.dumps(kv)), [b'{"id": 1}'], values[2:3]) == [[("-D", 1, None)]]


@pytest.mark.parametrize("name", [*_JSON, "debezium-avro-confluent"])
def test_only_a_deletion_may_have_no_row(name: str, tmp_path: Path) -> None:
    kv, good = _with_key(name, tmp_path), _message(name, "i", None, _A)
    for kind in ("i", "u") if name != "canal-json" else ("i",):
        first, error, last = _records(kv, [b'{"id": 1}'] * 3, [good, _message(name, kind, None, None), good])
        assert first == last == [("+I", 1, "a")]
        assert "is missing or null, but" in error


@pytest.mark.parametrize("name", ["debezium-json", "ogg-json", "debezium-avro-confluent"])
def test_a_row_without_its_primary_key_is_an_error(name: str, tmp_path: Path) -> None:
    without = {"id": None, "name": "b"}
    for kv, keys in ((_table(name, tmp_path), None), (_with_key(name, tmp_path), [None, b'{"id": 2}', b"{}"])):
        values: list[bytes | None] = [
            _message(name, "d", without, None),
            _message(name, "u", None, without),
            _message(name, "i", None, without),
        ]
        for error in _records(kv, keys, values):
            avro = "Found null, expecting int"  # the column is NOT NULL; Avro checks it first
            assert avro in error if "avro" in name else error == "column 'id' of the PRIMARY KEY is NULL"


def test_a_table_in_upsert_mode_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match=r"UPDATE_AFTER but no UPDATE_BEFORE.*primary key"):
        _table("debezium-json", Path(), key=())
    assert _table("debezium-json", Path(), key=(), **{"key.format": "json", "key.fields": "id"}).key_columns == ("id",)


@pytest.mark.parametrize("name", [*_JSON, "debezium-avro-confluent"])
def test_upsert_mode_is_for_reading_only(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'changelog.mode' = 'upsert' is for reading only"):
        _made(name, tmp_path, **({"subject": "s"} if "avro" in name else {})).prepare("encode", _SCHEMA)
    with pytest.raises(OptionError, match=r"supported values are \[all, upsert\]"):
        get_format(name, {"changelog.mode": "latest", **({"url": f"file:{tmp_path}"} if "avro" in name else {})})


def _new_key(name: str, key: str | None) -> bytes:
    """Return an update of three rows by Canal, or of one row by Maxwell. The last row gets another key."""
    rows = [{"id": 1, "name": "b"}, {"id": 2, "name": None}, {"id": 4, "name": "d"}]
    old = [{"name": "a"}, {"name": "x"}, {"id": 3}]
    if name == "maxwell-json":
        message: dict[str, Any] = {"data": rows[2], "old": old[2], "type": "update"}
        return json.dumps(message | ({"primary_key_columns": [key]} if key else {})).encode()
    message = {"data": rows, "old": old, "type": "UPDATE"}
    return json.dumps(message | ({"pkNames": [key]} if key else {})).encode()


@pytest.mark.parametrize("name", ["canal-json", "maxwell-json"])
def test_an_update_of_the_key_deletes_the_row_with_the_old_key(name: str, tmp_path: Path) -> None:
    several: list[Any] = [] if name == "maxwell-json" else [("+U", 1, "b"), ("+U", 2, None)]
    wanted = [*several, ("-D", 3, "d"), ("+U", 4, "d")]
    assert _records(_table(name, tmp_path), None, [_new_key(name, None)]) == [wanted]
    format = _made(name, tmp_path)
    by_message, other, unknown = _rows(format, [_new_key(name, "id"), _new_key(name, "uid"), _new_key(name, None)])
    assert by_message == wanted
    assert other == unknown == [row for row in wanted if row[0] == "+U"]
    metadata = tuple(get_format(name).metadata_types)
    batch = decoded(format, [b"?", _new_key(name, "id"), None, _new_key(name, "id")], _SCHEMA, metadata=metadata)
    assert batch.errors is not None
    assert batch.errors.is_valid().to_pylist() == [True, False, False, False]
    assert batch.rows.values.type.num_fields == 2 + len(metadata)
    assert [len(rows.as_py() or []) for rows in batch.rows] == [0, len(wanted), 0, len(wanted)]


@pytest.mark.parametrize("by_message", [False, True])
def test_a_change_of_any_column_of_the_key_deletes_the_row_with_the_old_key(by_message: bool) -> None:
    format = get_format("canal-json", {"changelog.mode": "upsert"})
    names: dict[str, Any] = {"pkNames": ["a", "b"]} if by_message else {}
    if not by_message:
        format = format.for_rows(("a", "b"), in_record=False)
    old: list[Any] = [{"a": 0}, {"n": 0}, {"b": 0}, {"a": 0, "b": 0}, {"a": None}, {}, {"b": None}]
    rows = [{"a": number, "b": number, "n": 1} for number in range(1, len(old) + 1)]
    one = {"data": rows, "old": old, "type": "UPDATE", **names}
    others = [{**one, "data": [row], "old": [before]} for row, before in zip(rows, old, strict=True)]
    messages = [json.dumps(message).encode() for message in (one, *others)]
    wanted = [
        *(("-D", 0, 1, 1), ("+U", 1, 1, 1), ("+U", 2, 2, 1), ("-D", 3, 0, 1), ("+U", 3, 3, 1), ("-D", 0, 0, 1)),
        *(("+U", 4, 4, 1), ("-D", None, 5, 1), ("+U", 5, 5, 1), ("+U", 6, 6, 1), ("-D", 7, None, 1), ("+U", 7, 7, 1)),
    ]
    first, *found = _rows(format, [*messages], "a INT, b INT, n INT")
    assert first == [row for rows in found for row in rows] == wanted


_KEYS: list[tuple[str, Any, Any]] = [
    ("BIGINT", 1, 2),
    ("STRING", "a", None),
    ("DATE", "2024-01-01", "9999-12-31"),
    ("DECIMAL(5, 2)", 1.25, 1.5),
    ("ROW<d DATE, b BOOLEAN>", {"d": "2024-01-01", "b": True}, {"d": None, "b": True}),
    ("ARRAY<ROW<x INT>>", [{"x": 1}, None], [{"x": 1}]),
    ("MAP<STRING, INT>", {"k": 1}, {"k": None}),
]


@pytest.mark.parametrize(("kind", "old", "new"), _KEYS, ids=[kind for kind, *_ in _KEYS])
def test_keys_of_any_type_are_compared(kind: str, old: Any, new: Any) -> None:
    format = get_format("canal-json", {"changelog.mode": "upsert"})
    for before, after, moves in ((old, new, True), (new, old, True), (old, old, False), (new, new, False)):
        message = {
            "data": [{"id": after, "n": 1}],
            "old": [{"id": before, "n": 0}],
            "type": "UPDATE",
            "pkNames": ["id"],
        }
        batch = decoded(format, [json.dumps(message).encode()], f"id {kind}, n INT")
        assert batch.errors is None
        assert batch.row_kinds is not None
        assert batch.row_kinds.to_pylist() == (["-D", "+U"] if moves else ["+U"]), (before, after)


@pytest.mark.parametrize("name", _JSON)
def test_a_format_keeps_the_key_of_its_rows_when_it_is_pickled(name: str) -> None:
    plain = get_format(name, {"changelog.mode": "upsert"})
    keyed = plain.for_rows(["id"], in_record=True)
    copied = pickle.loads(pickle.dumps(keyed))
    assert copied == keyed
    assert hash(copied) == hash(keyed)
    others = [plain, plain.for_rows(["name"], in_record=True), plain.for_rows(["id"], in_record=False)]
    assert all(other not in (keyed, copied) for other in others)
