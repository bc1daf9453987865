"""Messages of change data for the benchmarks: changes of orders as connectors write them, about 660 bytes each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _orders import ROW, SCHEMA, SEED, chunks

from kvformat.registry import get_format
from kvformat.registry.contract.schemas import arrow_schema

_TEXT = pa.large_string()
_SHARES = (("c", 0.4), ("u", 0.4), ("d", 0.2))
_CHANGED = ("weight", "paid", "ordered_at")
"""The columns that an update changes."""
_SOURCE = (
    ',"source":{"version":"2.7.3.Final","connector":"mysql","name":"shop","ts_ms":',
    ',"snapshot":"false","db":"inventory","sequence":null,"table":"%s","server_id":223344,"gtid":null,'
    '"file":"mysql-bin.000003","pos":',
    ',"row":0,"thread":7,"query":null}',
)


class Changes:
    """A chunk of changes: the rows before and after each change, and its operation."""

    def __init__(self, after: pa.StructArray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        operations, shares = zip(*_SHARES, strict=True)
        self.operation = pa.array(rng.choice(operations, len(after), p=shares))
        shuffled = pa.array(rng.permutation(len(after)))
        before = [
            column.take(shuffled) if field.name in _CHANGED else column
            for field, column in zip(after.type, after.flatten(), strict=True)
        ]
        self.after, self.before = after, pa.StructArray.from_arrays(before, fields=list(after.type))

    def texts(self, rows: pa.StructArray) -> pa.Array:
        plain = get_format("json", {"encode.decimal-as-plain-number": "true"})
        return plain.encode_batch(rows, SCHEMA).messages.cast(pa.string()).cast(_TEXT)

    def where(self, operations: str, yes: Any, no: Any) -> pa.Array:
        """Return `yes` for each change with one of these operations, otherwise `no`."""
        chosen = pc.is_in(self.operation, pa.array(list(operations)))
        return pc.if_else(chosen, *(_text(part) for part in (yes, no)))

    def numbers(self, first: int) -> pa.Array:
        """Return an increasing number for each message, as text."""
        return pa.array(np.arange(first, first + 37 * len(self.after), 37)).cast(pa.string()).cast(_TEXT)

    def images(self, operations: str, *closing: Any) -> pa.Array:
        """Return messages with whole rows before and after. `operations`: letters of create, update and delete."""
        before = self.where("ud", self.texts(self.before), "null")
        after = self.where("cu", self.texts(self.after), "null")
        create, update, delete = operations
        operation = self.where("c", create, self.where("u", update, delete))
        return _joined('{"before":', before, ',"after":', after, *closing, operation, '"}')

    def old_values(self) -> pa.Array:
        """Return the old values of the changed columns of each update, as JSON, and null for other changes."""
        names = [field.name for field in self.before.type if field.name in _CHANGED]
        changed = pa.StructArray.from_arrays([self.before.field(name) for name in names], names)
        row = pa.schema([field for field in arrow_schema(ROW) if field.name in names])
        texts = get_format("json").encode_batch(changed, row).messages.cast(pa.string()).cast(_TEXT)
        return self.where("u", texts, "null")

    def data(self) -> pa.Array:
        """Return the row after each change, and the row before a deletion, as JSON."""
        return self.where("d", self.texts(self.before), self.texts(self.after))


def _text(part: Any) -> Any:
    return part if isinstance(part, pa.Array) else pa.scalar(part, _TEXT)


def _joined(*parts: Any) -> pa.BinaryArray:
    joined = pc.binary_join_element_wise(*map(_text, parts), pa.scalar("", _TEXT))
    return joined.cast(pa.large_binary()).cast(pa.binary())


def changes_of(records: int) -> Iterator[Changes]:
    for number, rows in enumerate(chunks(records)):
        yield Changes(rows, SEED + number)


def debezium(changes: Changes, table: str = "orders") -> pa.BinaryArray:
    source = (_SOURCE[0], changes.numbers(1_700_000_000_000), _SOURCE[1] % table, changes.numbers(4000), _SOURCE[2])
    return changes.images("cud", *source, ',"transaction":null,"ts_ms":1700000000123,"op":"')


def with_schema(changes: Changes) -> pa.BinaryArray:
    """Return messages in the envelope of Kafka Connect's converter, with `schema` and `payload`."""
    opening = f'{{"schema":{json.dumps(_CONNECT, separators=(",", ":"))},"payload":'
    return _joined(opening, debezium(changes).cast(pa.string()).cast(_TEXT), "}")


def _field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    """Return an optional field in the form of Kafka Connect's schemas."""
    return {"type": kind, "optional": True, **more, "field": name}


_ADDRESS = [_field("city", "string"), _field("zip", "string"), _field("floor", "int32")]
_CONNECT_ROW = [
    {"type": "int64", "optional": False, "field": "order_id"},
    _field("customer", "string"),
    _field("product", "string"),
    _field("weight", "double"),
    _field("price", "double"),
    _field("ordered_at", "string"),
    _field("paid", "boolean"),
    _field("tags", "array", items={"type": "string", "optional": False}),
    _field("address", "struct", fields=_ADDRESS, name="shop.inventory.orders.address"),
]
_CONNECT_SOURCE = [
    *({"type": "string", "optional": False, "field": name} for name in ("version", "connector", "name")),
    {"type": "int64", "optional": False, "field": "ts_ms"},
    _field(
        "snapshot",
        "string",
        name="io.debezium.data.Enum",
        version=1,
        parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
        default="false",
    ),
    {"type": "string", "optional": False, "field": "db"},
    _field("sequence", "string"),
    _field("table", "string"),
    {"type": "int64", "optional": False, "field": "server_id"},
    _field("gtid", "string"),
    {"type": "string", "optional": False, "field": "file"},
    {"type": "int64", "optional": False, "field": "pos"},
    {"type": "int32", "optional": False, "field": "row"},
    _field("thread", "int64"),
    _field("query", "string"),
]
_CONNECT_TRANSACTION = [
    {"type": kind, "optional": False, "field": name}
    for name, kind in (("id", "string"), ("total_order", "int64"), ("data_collection_order", "int64"))
]
_CONNECT = {
    "type": "struct",
    "fields": [
        _field("before", "struct", fields=_CONNECT_ROW, name="shop.inventory.orders.Value"),
        _field("after", "struct", fields=_CONNECT_ROW, name="shop.inventory.orders.Value"),
        _field("source", "struct", fields=_CONNECT_SOURCE, optional=False, name="io.debezium.connector.mysql.Source"),
        _field("transaction", "struct", fields=_CONNECT_TRANSACTION, name="event.block", version=1),
        _field("ts_ms", "int64"),
        {"type": "string", "optional": False, "field": "op"},
    ],
    "optional": False,
    "name": "shop.inventory.orders.Envelope",
    "version": 2,
}
"""The schema that Connect writes before each payload. It is the same for all messages of a table."""


def ogg(changes: Changes) -> pa.BinaryArray:
    times = '"op_ts":"2024-05-13 15:40:06.123456","current_ts":"2024-05-13T15:40:07.327000"'
    return changes.images("IUD", f',"table":"SHOP.ORDERS",{times},"primary_keys":["order_id"],"op_type":"')


def maxwell(changes: Changes) -> pa.BinaryArray:
    operation = changes.where("c", "insert", changes.where("u", "update", "delete"))
    opening = '{"database":"shop","table":"orders","ts":1700000000,"xid":9,"commit":true,"type":"'
    return _joined(opening, operation, '","data":', changes.data(), ',"old":', changes.old_values(), "}")


def canal(changes: Changes) -> pa.BinaryArray:
    operation = changes.where("c", "INSERT", changes.where("u", "UPDATE", "DELETE"))
    old = changes.where("u", _bracketed(changes.old_values()), "null")
    opening = '{"database":"shop","es":1700000000000,"id":3,"isDdl":false,"data":['
    closing = ',"pkNames":["order_id"],"sql":"","ts":1700000000123,"table":"orders","type":"'
    return _joined(opening, changes.data(), '],"old":', old, closing, operation, '"}')


def _bracketed(texts: pa.Array) -> pa.Array:
    return _joined("[", texts, "]").cast(pa.string()).cast(_TEXT)
