"""Discovery in change data: rules for messages of each format, its options, and rows without an envelope."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import get_format
from kvformat.registry.contract.look import LookRequest
from kvformat.registry.java.regex import JavaPattern, SlowMatchError
from tests.support.looking import as_bytes, columns, look, table

_SOURCE = {"db": "d", "table": "t"}
_PLACEHOLDER = "__debezium_unavailable_value"


def _message(format: str, row: Any, name: str = "t") -> dict[str, Any]:
    """Return the insertion of a row into a table."""
    if format == "debezium-json":
        return {"op": "c", "before": None, "after": row, "source": {"db": "d", "table": name}}
    if format == "ogg-json":
        return {"op_type": "I", "table": f"d.{name}", "after": row}
    if format == "canal-json":
        return {"type": "INSERT", "isDdl": False, "database": "d", "table": name, "data": [row], "old": None}
    return {"type": "insert", "database": "d", "table": name, "data": row}


@pytest.mark.parametrize(
    ("format", "message", "expected"),
    [
        (
            "debezium-json",
            {"op": "u", "before": {"id": 1, "v": 2}, "after": {"w": 3, "id": 1}, "source": _SOURCE},
            [("id", 0), ("v", 1), ("w", 2)],
        ),
        (
            "ogg-json",
            {"op_type": "U", "table": "d.t", "before": {"id": 1, "v": 2}, "after": {"w": 3, "id": 1}},
            [("id", 0), ("v", 1), ("w", 2)],
        ),
        (
            "maxwell-json",
            {"database": "d", "table": "t", "type": "update", "old": {"v": 2}, "data": {"w": 3, "id": 1}},
            [("w", 0), ("id", 1), ("v", 2)],
        ),
        (
            "canal-json",
            {"database": "d", "table": "t", "type": "UPDATE", "old": [{"v": "2"}], "data": [{"w": "3"}, {"id": "1"}]},
            [("w", 0), ("id", 1), ("v", 2)],
        ),
    ],
)
def test_columns_of_a_whole_row_come_before_those_of_old_values(
    format: str, message: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    assert [(column.name, column.place) for column in look(format, [message]).columns] == expected


@pytest.mark.parametrize("format", ["debezium-json", "maxwell-json", "canal-json", "ogg-json"])
def test_the_timestamp_standard_decides_which_texts_are_timestamps(format: str) -> None:
    message = _message(format, {"v": "2024-02-29T12:00:00Z"})
    assert columns(look(format, [message])) == {"v": "STRING"}
    given = {"timestamp-format.standard": "ISO-8601"}
    assert columns(look(format, [message], given=given)) == {"v": "TIMESTAMP_LTZ(0)"}


@pytest.mark.parametrize(("format", "value"), [("maxwell-json", 1), ("canal-json", "1")])
def test_numbers_of_a_boolean_column_fit_it_with_the_types_of_mysql(format: str, value: Any) -> None:
    known = {("d", "t"): table("v BOOLEAN")}
    message = _message(format, {"v": value})
    assert columns(look(format, [message], given={"types": "mysql"}, known=known)) == {}
    assert columns(look(format, [message], known=known)) != {}


def test_an_unknown_statement_of_canal_is_skipped() -> None:
    statement = {"type": "DROP_VIEW", "isDdl": True, "database": "d", "table": "t", "data": None, "old": None}
    looked = look("canal-json", [statement, {**statement, "isDdl": False}])
    assert looked.indices.to_pylist() == [None, None]
    assert [*looked.errors] == [1]


def test_the_types_of_a_row_that_lacks_them_are_an_error_of_each_such_message() -> None:
    good = {**_message("canal-json", {"id": "1"}), "sqlType": {"id": 4}}
    for bad in (_message("canal-json", {"id": "1"}), {**good, "sqlType": None}, {**good, "sqlType": 4}):
        looked = look("canal-json", [good, bad, bad, good, bad], infer_schema__strategy="SQL_TYPE")
        assert [*looked.errors] == [1, 2, 4]
        assert looked.indices.to_pylist() == [0, None, None, 0, None]


@pytest.mark.parametrize("policy", ["data", "null", "keep"])
def test_a_placeholder_of_an_unchanged_value_has_no_type(policy: str) -> None:
    known = {("d", "t"): table("id BIGINT, n BIGINT")}
    update = {**_message("debezium-json", {"id": 1, "n": _PLACEHOLDER, "new": _PLACEHOLDER}), "op": "u"}
    given = {"changelog.mode": "upsert", "unchanged.columns": policy}
    found = columns(look("debezium-json", [update], given=given, known=known))
    assert found == ({"n": "STRING", "new": "STRING"} if policy == "data" else {})


def test_a_filter_that_takes_too_long_is_an_error_of_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def matches(pattern: JavaPattern, text: str) -> bool:
        if text == "slow":
            raise SlowMatchError(1)
        return text == "t"

    monkeypatch.setattr(JavaPattern, "matches", matches)
    messages = [_message("canal-json", {"id": "1"}, name) for name in ("t", "slow", "u", "t")]
    looked = look("canal-json", messages, given={"table.include": "(a|aa)+"})
    assert looked.indices.to_pylist() == [0, None, None, 0]
    assert {at: error.partition("]")[0] for at, error in looked.errors.items()} == {1: "[TOO_LARGE"}


@pytest.mark.parametrize(
    ("format", "option", "given", "default"),
    [
        *(
            (format, "other-messages", "error", "skip-all")
            for format in ("debezium-json", "canal-json", "maxwell-json", "ogg-json", "debezium-avro-confluent")
        ),
        ("debezium-json", "types", "flink", "debezium"),
        ("debezium-avro-confluent", "types", "flink", "debezium"),
    ],
)
def test_given_options_hold_in_ingestion(format: str, option: str, given: str, default: str) -> None:
    options = {"url": "mock://x"} if "avro" in format else {}
    options |= {"schema-include": "true"} if option == "types" and "avro" not in format else {}
    made = type(get_format(format, options))
    assert made.look_options(options)[option] == default
    assert made.look_options({**options, option: given})[option] == given
    if format == "debezium-json":
        assert "types" not in made.look_options({}), "without schemas in messages, options must say the types"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "BIGINT"), ({"schema-include": "true"}, "INT"), ({"types": "debezium"}, "DATE")],
)
def test_a_key_with_a_schema_has_its_types_beside_values_that_have_them(given: dict[str, str], expected: str) -> None:
    day = {"type": "int32", "name": "io.debezium.time.Date", "field": "d"}
    key = {"schema": {"type": "struct", "fields": [day]}, "payload": {"d": 18266}}
    looker = get_format("debezium-json", given).for_key(get_format("json")).looker(LookRequest(part="key"))
    looked = looker.look(pa.array([as_bytes(key)]), pa.array(["topic"]))
    assert columns(looked) == {"d": expected}


@pytest.mark.parametrize("names", [[], [None], [7], [""], ["id", " "], "id", {"id": 1}])
@pytest.mark.parametrize(("format", "member"), [("canal-json", "pkNames"), ("maxwell-json", "primary_key_columns")])
def test_a_key_has_names_that_columns_can_have(format: str, member: str, names: Any) -> None:
    looked = look(format, [{**_message(format, {"id": "1"}), member: names}])
    assert (looked.indices.to_pylist(), looked.keys, dict(looked.errors)) == ([0], (), {})


@pytest.mark.parametrize(("row", "operation"), [([1], "c"), ({"id": 1}, "?")])
def test_a_known_table_reports_a_bad_change_by_its_own_decoding(row: Any, operation: str) -> None:
    message = {**_message("debezium-json", row), "op": operation}
    looked = look("debezium-json", [message], known={("d", "t"): table("id BIGINT")})
    assert (looked.indices.to_pylist(), dict(looked.errors)) == ([0], {})
    assert [*look("debezium-json", [message]).errors] == [0]


# --- rows without an envelope --------------------------------------------------------------------------------

_ORDER = {"id": 7, "status": "NEW", "event_count": 5}
"""The members of Debezium's messages about transactions."""


@pytest.mark.parametrize("known", [{}, {("topic",): table("id BIGINT, name STRING")}])
@pytest.mark.parametrize(
    ("row", "is_row"),
    [
        ({**_ORDER, "name": "pen"}, True),
        ({**_ORDER, "__deleted": "false"}, True),
        ({**_ORDER, "__op": "c"}, True),
        ({**_ORDER, "ts_ms": 5, "data_collections": None}, False),
        ({"ts_ms": 5}, False),
        ({"ts_ms": 5, "id": 7}, True),
        ({"ddl": "ALTER TABLE t ADD v INT", "databaseName": "d", "tableChanges": [], "ts_ms": 5}, False),
        ({"ddl": "x", "databaseName": "d", "ts_ms": 5, "author": "Ada"}, True),
    ],
)
def test_a_row_with_the_members_of_another_message_and_one_more_is_a_row(
    row: dict[str, Any], is_row: bool, known: Any
) -> None:
    for wrapped in (False, True):
        given = {"flattened": "true", "schema-include": str(wrapped).lower()}
        message = {"schema": None, "payload": row} if wrapped else row
        looked = look("debezium-json", [message], given=given, known=known)
        assert not looked.errors
        assert looked.indices.to_pylist() == ([0] if is_row else [None])


def test_a_flattened_row_may_have_columns_named_as_members_of_an_envelope() -> None:
    row = {"op": "sold", "after": {"x": 1}, "id": 7}
    given = {"flattened": "true"}
    looked = look("debezium-json", [row], given=given, known={("topic",): table("op STRING, id BIGINT")})
    assert (dict(looked.errors), columns(looked)) == ({}, {"after": "STRING"})
    assert [*look("debezium-json", [row], given=given, known={("topic",): table("id BIGINT")}).errors] == [0]


def test_a_record_without_a_value_is_placed_once() -> None:
    looker = get_format("debezium-json", {"flattened": "true"}).looker(LookRequest())
    for name, value in (("a", None), ("b", as_bytes({"id": 1}))):
        looked = looker.look(pa.array([value], pa.binary()), pa.array([name]))
        assert [looked.tables[place] for place in looked.indices.to_pylist()] == [(name,)]


@pytest.mark.parametrize(("topic", "found"), [("p.goods", True), ("p.more_goods", False)])
def test_only_whole_parts_of_a_topic_tell_the_table_of_a_record_without_a_value(topic: str, found: bool) -> None:
    known = {("shop", "goods"): table("id BIGINT")}
    looked = look("debezium-json", [None], given={"flattened": "true"}, topic=topic, known=known)
    assert looked.tables == ((("shop", "goods"),) if found else ())
    assert [*looked.errors] == ([] if found else [0])
