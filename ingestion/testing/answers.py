"""Translates cases of the vectors to the classes of `kvformat.ingestion`, and their results to answers.

The form has no place for the error of a row. A value that does not fit its column is shown as null there, and a merge
that Flink CDC fails at is shown with the library's type.
"""

from __future__ import annotations

import base64
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kvformat.ingestion.behaviors import SchemaChangeBehavior, SchemaEvolution, accepted_tags
from kvformat.ingestion.errors import UnsupportedChangeError
from kvformat.ingestion.pipeline.routes import Route, Router, Selector
from kvformat.ingestion.pipeline.sink import parse_sink
from kvformat.ingestion.schemas.coerce import coerce, fit_rows
from kvformat.ingestion.schemas.events import (
    CreateTable,
    SchemaEvent,
    event_from_json,
    event_to_json,
    schema_difference,
)
from kvformat.ingestion.schemas.state import SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema, merge_schemas, needs_no_change
from kvformat.ingestion.schemas.types import is_compatible, merge_types, parse_column_type
from kvformat.ingestion.sink.changes import CREATE, DELETE, UPDATE, TableChanges
from kvformat.ingestion.sink.records import TableRecords
from kvformat.ingestion.sink.settings import SinkSettings
from kvformat.ingestion.testing.values import array_of, values_of
from kvformat.registry.contract.errors import KvFormatError

_MERGE_ZONE = "Asia/Shanghai"
"""The session's time zone of the cases that merge types."""
_TABLE = TableId(("db", "t"))


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return the library's answer to a case, without its answer, in the form of the vectors.

    Raises `KeyError` for a case of no known form.
    """
    if "current" in case:
        return _merge_types(case)
    if "upcoming_schema" in case:
        return _merge_schemas(case)
    if "options" in case:
        return _sink(case)
    try:
        if "selector" in case:
            selector = Selector(case["selector"], "source-table")
            return {"matches": [selector.matches(TableId.parse(table)) for table in case["tables"]]}
        router = Router([Route.of(route) for route in case["routes"]], case["route_mode"])
        if "tables" in case:
            return {"routed": [_routed(router, TableId.parse(table)) for table in case["tables"]]}
    except KvFormatError as cause:
        return _error(cause)
    return {"steps": list(_Evolution(router, case).steps(case["events"]))}


def _error(cause: Exception) -> dict[str, Any]:
    return {"error": {"class": type(cause).__name__, "message": str(cause)}}


# --- merge ---------------------------------------------------------------------------------------------


def _merge_types(case: dict[str, Any]) -> dict[str, Any]:
    current, upcoming = parse_column_type(case["current"]), parse_column_type(case["upcoming"])
    merged = merge_types(current, upcoming)
    coerced = []
    for value in case["values"]:
        try:
            values = coerce(array_of([value], upcoming), upcoming, merged, _MERGE_ZONE)
            coerced += values_of(values, merged)
        except KvFormatError as cause:
            coerced.append(_error(cause))
    return {"compatible": is_compatible(current, upcoming), "merged": str(merged), "coerced": coerced}


def _merge_schemas(case: dict[str, Any]) -> dict[str, Any]:
    current = None if case["current_schema"] is None else TableSchema.from_json(case["current_schema"])
    upcoming = TableSchema.from_json(case["upcoming_schema"])
    merged = merge_schemas(current, upcoming)
    return {
        "compatible": needs_no_change(current, upcoming),
        "merged": merged.to_json(),
        "events": [_event(event) for event in schema_difference(_TABLE, current, merged)],
    }


def _event(event: SchemaEvent) -> dict[str, Any]:
    ((name, details),) = event_to_json(event).items()
    return {name: {**details, "table": str(event.table)}}


# --- evolve --------------------------------------------------------------------------------------------


def _routed(router: Router, table: TableId) -> list[str] | dict[str, Any]:
    try:
        return [str(target) for target in router.targets(table)]
    except KvFormatError as cause:
        return _error(cause)


class _Evolution:
    """The tables of a case, and a target that refuses the kinds of changes in `unsupported`."""

    def __init__(self, router: Router, case: dict[str, Any]) -> None:
        self._router, self._behavior = router, SchemaChangeBehavior(case["behavior"])
        self._plans = SchemaEvolution(router, self._behavior, accepted_tags(case["accepted"], [], self._behavior))
        self._unsupported = case["unsupported"]
        self._state = SchemaState()

    def steps(self, events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the answers of the events, up to the first error, which ends the job."""
        for event in events:
            ((name, details),) = event.items()
            table = TableId.parse(details["table"])
            try:
                if name in _OPERATIONS:
                    yield {"rows": self._rows(table, name, details)}
                else:
                    yield self._change(event_from_json({name: {**details, "table": table.parts}}))
            except KvFormatError as cause:
                yield _error(cause)
                return

    def _change(self, event: SchemaEvent) -> dict[str, Any]:
        self._state, planned = self._plans.plan(self._state, event)
        targets = self._router.targets(event.table)
        applied = []
        for change in sorted(planned, key=lambda change: _java_order(change.table)):
            if change.tag in self._unsupported:
                if self._behavior is not SchemaChangeBehavior.TRY_EVOLVE:
                    raise UnsupportedChangeError(f"the target does not support {change.tag}", table=str(change.table))
                continue
            self._state = self._state.change_target(change)
            applied.append(_event(change))
        schemas = {str(target): self._state.targets.get(target) for target in targets}
        return {"applied": applied, "evolved": {name: s and s.to_json() for name, s in schemas.items()}}

    def _rows(self, table: TableId, operation: str, details: dict[str, Any]) -> dict[str, Any]:
        source = self._state.sources[table]
        rows: dict[str, Any] = {}
        for target in self._router.targets(table):
            schema = self._state.targets.get(target)
            if schema is None:
                rows[str(target)] = None
                continue
            images = {
                image: _row(details[image], source, schema) if details.get(image) is not None else None
                for image in ("before", "after")
            }
            rows[str(target)] = {"op": operation.upper(), **images}
        return rows


_OPERATIONS = ("insert", "update", "delete", "replace")


def _java_order(table: TableId) -> int:
    """Return the place of a table in a `HashSet`: Flink CDC changes the targets of a table in its order."""
    parts = (table.namespace, table.schema, table.table)
    code = functools.reduce(lambda code, part: _java_hash(part or "") + 31 * code, parts, 1) & 0xFFFFFFFF
    return (code ^ code >> 16) & 0xF


def _java_hash(text: str) -> int:
    return functools.reduce(lambda code, unit: (31 * code + unit) & 0xFFFFFFFF, text.encode("utf-16-be")[1::2], 0)


def _row(row: list[Any], source: TableSchema, target: TableSchema) -> list[Any]:
    """Return a row of the source as a row of the target, with null for a value that does not fit."""
    arrays = [array_of([value], column.type) for value, column in zip(row, source.columns, strict=True)]
    fitted = fit_rows(pa.StructArray.from_arrays(arrays, [*source.names]), source, target, "UTC").rows
    pairs = zip(fitted.flatten(), target.columns, strict=True)
    return [value for values, column in pairs for value in values_of(values, column.type)]


# --- sink ----------------------------------------------------------------------------------------------


def _sink(case: dict[str, Any]) -> dict[str, Any]:
    """Write the rows between two changes of a schema as one batch per table."""
    try:
        settings = SinkSettings.of(parse_sink({**_KAFKA, **case["options"]}))
    except KvFormatError as cause:
        return {"sink_error": _error(cause)["error"]}
    schemas: dict[TableId, TableSchema] = {}
    records: list[Any] = []
    events = [next(iter(event.items())) for event in case["events"]]
    for is_row, group in itertools.groupby(enumerate(events), key=lambda item: item[1][0] in _OPERATIONS):
        if not is_row:
            for _, (name, details) in group:
                table = TableId.parse(details["table"])
                event = event_from_json({name: {**details, "table": table.parts}})
                schemas = {**schemas, table: _schema_after(event, schemas.get(table))}
                records.append(None)
            continue
        rows = list(group)
        written: dict[int, Any] = {}
        for table in dict.fromkeys(TableId.parse(details["table"]) for _, (_, details) in rows):
            of_table = [(place, name, details) for place, (name, details) in rows if details["table"] == str(table)]
            answers = _records(table, schemas[table], settings, [(name, details) for _, name, details in of_table])
            written |= dict(zip([place for place, *_ in of_table], answers, strict=True))
        records += [written[place] for place, _ in rows]
    return {"records": records}


def _schema_after(event: SchemaEvent, schema: TableSchema | None) -> TableSchema:
    if isinstance(event, CreateTable):
        return event.schema
    assert schema is not None
    return event.apply(schema)


def _records(
    table: TableId, schema: TableSchema, settings: SinkSettings, rows: list[tuple[str, dict[str, Any]]]
) -> list[Any]:
    try:
        writer = TableRecords(table, schema, settings)
    except KvFormatError as cause:
        return [_error(cause)] * len(rows)
    operations = pa.array([_CODES[name] for name, _ in rows])
    images = array_of([details.get(image) for image in ("before", "after") for _, details in rows], schema.row_type())
    written = writer.write(TableChanges(operations, images[: len(rows)], images[len(rows) :]))
    reasons = written.reasons or [None] * len(rows)
    return [
        {"error": {"class": None, "message": reason.text}}
        if reason is not None
        else {
            "topic": writer.topic,
            "partition": writer.partition,
            "key": _base64(key),
            "value": _base64(value),
            "headers": [[name, _base64(content)] for name, content in writer.headers],
        }
        for key, value, reason in zip(written.keys.to_pylist(), written.values.to_pylist(), reasons, strict=True)
    ]


_KAFKA = {"type": "kafka", "properties.bootstrap.servers": "localhost:9092"}
_CODES = {"insert": CREATE, "update": UPDATE, "replace": UPDATE, "delete": DELETE}


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
