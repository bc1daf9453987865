"""Rules of inspections: which guess is the first, what is counted, and which table is proposed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import inspect_topic
from kvformat.connectors.infer import inspection
from kvformat.registry import KeyValueFormat


def texts(*rows: Any) -> list[bytes | None]:
    return [json.dumps(row).encode() for row in rows]


@pytest.mark.parametrize(
    ("topic", "bootstrap", "told"), [(None, None, True), ("t", None, True), (None, "b:1", True), ("t", "b:1", False)]
)
def test_a_table_without_a_topic_or_brokers_has_a_note(topic: str | None, bootstrap: str | None, told: bool) -> None:
    found = inspect_topic(texts({"a": 1}), topic=topic, bootstrap=bootstrap)
    assert ("set topic and properties.bootstrap.servers in the table" in found.notes) == told
    assert not any("set topic" in note for note in inspect_topic([b"\x1f\x8b\x08"]).notes), "there is no table"


def test_blank_messages_and_null_keys_are_counted() -> None:
    found = inspect_topic([None, b"", b" \n", b"{}"], [None, b"", b" ", b"k"])
    assert found.counts == {"messages": 4, "nulls": 1, "empty": 2, "keys": 3, "null keys": 1}


def test_an_inspection_says_what_it_has_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_MOST", 2)
    found = inspect_topic(texts({"a": 1}, {"a": 2}, {"b": 3}))
    assert (found.counts["messages"], found.notes[0]) == (2, "only the first 2 messages were read")


def test_the_first_guess_is_the_most_frequent_and_not_the_surest() -> None:
    values = [*texts({"a": 1}), b"some text", b"some other text", b"and more"]
    for given in (values, values[::-1]):
        found = inspect_topic(given)
        assert [(guess.format, len(guess.reason.split(" of ")[0])) for guess in found.guesses] == [
            ("raw", 1),
            ("json", 1),
        ]
        assert found.ddl is not None
        assert "'format' = 'raw'" in found.ddl
    equal = [*texts({"a": 1}, {"a": 2}), b"some text", b"some other text"]
    assert [guess.format for guess in inspect_topic(equal[::-1]).guesses] == ["json", "raw"], "then the surest"


def test_options_belong_to_the_guess_of_their_part() -> None:
    iso, plain = texts({"at": "2024-02-29T12:00:00Z"}), texts({"id": 1})
    for values, keys in ((plain, iso), (iso, plain)):
        found = inspect_topic(values, keys)
        options = {guess.part: dict(guess.options) for guess in found.guesses}
        wanted = {"timestamp-format.standard": "ISO-8601"}
        assert options == {"value": wanted if values is iso else {}, "key": wanted if keys is iso else {}}


def test_a_record_without_a_key_forbids_upserts() -> None:
    values: list[bytes | None] = [*texts({"v": 1}, {"v": 2}), None]
    found = inspect_topic(values, [b"a", None, b"a"])
    assert "'connector' = 'kafka'" in (found.ddl or "")
    assert not any("upsert" in note for note in found.notes)


def test_nulls_as_json_are_deletes_of_an_upsert_table() -> None:
    keys, values = pa.array([b"a", b"b", b"a"]), texts({"v": 1}, {"v": 2}, None)
    found = inspect_topic(values, keys)
    assert found.counts["nulls as JSON"] == 1
    batch = KeyValueFormat.from_ddl(found.ddl or "").decode_batch(keys, pa.array(values))
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["+U", "+U", "-D"]


def test_a_primary_key_has_all_columns_of_the_key() -> None:
    """Values without one of them get key columns of their own."""
    keys = texts({"id": 1, "region": "x"}, {"id": 1, "region": "y"}, {"id": 1, "region": "x"})
    both = ({"id": 1, "region": "x"}, {"id": 1, "region": "y"})
    for rows, key in ((both, "`id`, `region`"), (({"id": 1}, {"id": 1}), "`key_id`, `key_region`")):
        values = [*texts(*rows), None]
        found = inspect_topic(values, keys)
        assert found.ddl is not None
        assert f"PRIMARY KEY ({key}) NOT ENFORCED" in found.ddl
        batch = KeyValueFormat.from_ddl(found.ddl).decode_batch(pa.array(keys), pa.array(values, pa.binary()))
        assert batch.errors is None
        assert len(batch.rows.values) == 3


@pytest.mark.parametrize("name", ["a;b", "it's", 'a"b', " a", "a ", "ä"])
def test_any_name_can_be_a_column_of_the_key(name: str) -> None:
    keys, values = texts({name: 7, "z": 1}), texts({"v": 1})
    found = inspect_topic(values, keys)
    assert found.ddl is not None
    assert not any("errors" in note or "can't" in note for note in found.notes)
    batch = KeyValueFormat.from_ddl(found.ddl).decode_batch(pa.array(keys), pa.array(values))
    assert batch.rows.values.to_pylist() == [{name: 7, "z": 1, "v": 1}]


def test_key_columns_get_a_prefix_that_no_column_has() -> None:
    keys, values = texts({"id": 7}), texts({"id": 1, "key_id": 2, "key_key_id": 3})
    found = inspect_topic(values, keys)
    assert "'key.fields-prefix' = 'key_key_key_'" in (found.ddl or "")


def test_the_first_error_of_a_table_is_told() -> None:
    values = [*texts({"a": 1}, {"a": 2}, {"a": 3}), b'{"a":}', b'{"a"']
    found = inspect_topic(values)
    errors = KeyValueFormat.from_ddl(found.ddl or "").decode_batch(None, pa.array(values)).errors
    assert errors is not None
    first, second = errors.drop_null().to_pylist()
    assert f"2 of 5 records are errors to the proposed table, the first: {first}" in found.notes
    assert first != second


def test_each_type_with_columns_has_a_table_with_a_name_of_its_own(tmp_path: Path) -> None:
    """Of equal last names both are full. A type without columns is noted."""
    fields = {"x.Node": [{"name": "next", "type": ["null", "x.Node"]}]}
    messages: list[bytes | None] = []
    for number, (name, count) in enumerate((("a.Order", 3), ("x.Node", 2), ("b.Order", 1), ("c.Item", 1)), 1):
        of_type = fields.get(name, [{"name": "id", "type": "long"}])
        (tmp_path / f"{number}.avsc").write_text(json.dumps({"type": "record", "name": name, "fields": of_type}))
        messages += [b"\0\0\0\0" + bytes([number]) + (b"\0" if name in fields else b"\2")] * count
    found = inspect_topic(messages, registry=f"file:{tmp_path}")
    names = {name: ddl.partition("`")[2].partition("`")[0] for name, ddl in found.tables.items()}
    assert names == {"a.Order": "a.Order", "b.Order": "b.Order", "c.Item": "Item"}
    assert any(note.startswith("no columns of the type x.Node: ") for note in found.notes)
