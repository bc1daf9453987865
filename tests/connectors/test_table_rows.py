"""Which rows reading a table gives, and which metadata it needs for that; test_reading.py has Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, table_rows
from kvformat.connectors.table_rows import check_normalized, gives_changes, needs_headers
from kvformat.registry.contract.errors import ConfigurationError

GIVEN = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "properties.group.id": "g"}


def kv(format: str = "json", key: bool = False, columns: str = "id INT NOT NULL", **options: Any) -> Any:
    return KafkaTable(columns, GIVEN | {"format": format, **options}, primary_key=["id"] if key else []).kv


INSERTS, CHANGES, KEYED = kv(), kv("debezium-json"), kv("debezium-json", key=True)


@pytest.mark.parametrize(
    ("table", "changelog", "more", "wanted"),
    [
        (INSERTS, None, {}, True),
        (INSERTS, False, {}, True),
        (INSERTS, None, {"errors": "capture", "row_index": True}, True),
        (CHANGES, None, {}, True),
        (CHANGES, True, {"errors": "capture"}, True),
        (KEYED, None, {}, False),
        (KEYED, False, {}, False),
        (KEYED, True, {}, True),
        (KEYED, True, {"errors": "capture"}, True),
        (KEYED, True, {"row_index": True}, True),
    ],
)
def test_a_table_with_a_primary_key_gives_current_rows(
    table: Any, changelog: bool | None, more: dict[str, Any], wanted: bool
) -> None:
    asked = {"errors": "raise", "row_index": False, **more}
    assert gives_changes(table, changelog=changelog, **asked) is wanted


@pytest.mark.parametrize(
    ("table", "changelog", "more", "told"),
    [
        (INSERTS, True, {}, "has only inserts and no changes"),
        (CHANGES, False, {}, "has no PRIMARY KEY"),
        (KEYED, None, {"errors": "capture"}, r"errors='capture' needs records.*changelog=True"),
        (KEYED, None, {"row_index": True}, r"row_index=True needs records.*changelog=True"),
        (KEYED, False, {"row_index": True}, "row_index=True needs records"),
    ],
)
def test_rows_that_a_table_cannot_give_are_refused(
    table: Any, changelog: bool | None, more: dict[str, Any], told: str
) -> None:
    asked = {"errors": "raise", "row_index": False, **more}
    with pytest.raises(ConfigurationError, match=told):
        gives_changes(table, changelog=changelog, **asked)


@pytest.mark.parametrize(
    ("metadata", "errors", "wanted"),
    [
        (None, "raise", False),
        (None, "null", False),
        (None, "capture", True),
        (["headers"], "raise", True),
        ({"h": "header-list"}, "raise", True),
        (["offset", "timestamp"], "raise", False),
        ({"headers": "offset"}, "raise", False),
    ],
)
def test_headers_are_needed_for_metadata_and_for_bad_records(metadata: Any, errors: Any, wanted: bool) -> None:
    assert needs_headers(INSERTS, metadata, errors) is wanted


@pytest.mark.parametrize(("key", "wanted"), [("headers", True), ("offset", False)])
def test_headers_are_needed_for_columns_of_the_ddl(key: str, wanted: bool) -> None:
    kind = "MAP<STRING, BYTES>" if key == "headers" else "BIGINT"
    options = ", ".join(f"'{name}' = '{text}'" for name, text in {**GIVEN, "format": "json"}.items())
    table = KafkaTable.from_ddl(f"CREATE TABLE t (id INT, m {kind} METADATA FROM '{key}' VIRTUAL) WITH ({options})")
    assert needs_headers(table.kv, None, "raise") is wanted


@pytest.mark.parametrize("more", [{"errors": "capture"}, {"row_index": True}])
def test_a_normalized_changelog_has_no_bad_records_and_indices(more: dict[str, Any]) -> None:
    check_normalized(KEYED, errors="raise", row_index=False)
    with pytest.raises(ConfigurationError, match="gives the rows of 'table' without error and row_index"):
        check_normalized(KEYED, **{"errors": "raise", "row_index": False, **more})


def test_a_normalized_changelog_has_the_columns_of_the_table_and_of_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    table = KafkaTable("id INT NOT NULL", {**GIVEN, "format": "debezium-json"}, primary_key=["id"]).kv
    order = ["_kvformat_partition", "_kvformat_offset"]
    changes = SimpleNamespace(columns=["id", "p", *order, "unchanged_columns", "row_kind", "row_index"])
    found: list[Any] = []
    monkeypatch.setattr(table_rows, "normalize_changes", lambda *given, columns: found.append((*given, columns)))
    table_rows.normalized(table, lambda **_: changes, {"p": "partition"})  # type: ignore[arg-type,return-value]
    assert found == [(changes, table, order, ["id", "p"])]
    with pytest.raises(ConfigurationError, match="has only inserts, which are complete"):
        table_rows.normalized(INSERTS, lambda **_: changes, None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ["partition", "offset"]),
        ({"topic": "a;b"}, ["topic", "partition", "offset"]),
        ({"topic": None, "topic-pattern": "a.*"}, ["topic", "partition", "offset"]),
    ],
)
def test_the_last_row_of_a_key_is_that_of_the_last_partition_and_offset(
    options: dict[str, Any], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic counts before them if there are several. These columns are not in the result."""
    given = {key: value for key, value in {**GIVEN, "format": "debezium-json", **options}.items() if value is not None}
    table = KafkaTable("id INT NOT NULL", given, primary_key=["id"]).kv
    asked: list[Any] = []

    class Changes:
        def drop(self, *names: str) -> Any:
            return names

    def decode(*, metadata: Any, row_index: bool) -> Changes:
        asked.append((metadata, row_index))
        return Changes()

    monkeypatch.setattr(table_rows, "latest_by_key", lambda changes, _, by: asked.append(by) or changes)
    names = [f"_kvformat_{key}" for key in order]
    dropped = table_rows.current(table, decode, {"p": "partition"})  # type: ignore[arg-type]
    assert list(dropped) == names  # type: ignore[call-overload]
    assert asked == [({"p": "partition", **dict(zip(names, order, strict=True))}, True), names]
