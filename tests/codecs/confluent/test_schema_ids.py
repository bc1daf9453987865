"""The metadata `registry.schema-id` of all formats with a registry."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, MetadataError, get_format
from tests.support.new_schemas import SCHEMAS, old_and_new
from tests.support.registry_server import Registry


@pytest.mark.parametrize("format", SCHEMAS)
def test_each_row_has_the_id_of_its_schema(format: str, registry: Registry) -> None:
    fmt, (old, new) = old_and_new(format, registry, None)
    guid = registry.guid(2)
    of_guid = b"\1" + uuid.UUID(guid).bytes + new[5:]
    messages = [old, None, new, b"\7", of_guid, old[:4], old]
    wanted = ["1", None, "2", None, guid, None, "1"]
    for start in range(len(messages) + 1):
        some = pa.array(messages, pa.binary())[start:]
        rows = fmt.decode_batch(some, "id INT", metadata=["registry.schema-id"]).rows
        found = [lists and [row["registry.schema-id"] for row in lists] for lists in rows.to_pylist()]
        assert found == [one and [one] for one in wanted[start:]]
        assert rows.values.field("id").to_pylist() == [7] * sum(one is not None for one in wanted[start:])
    none = fmt.decode_batch(pa.array([None, None], pa.binary()), "id INT", metadata=["registry.schema-id"])
    assert none.rows.to_pylist() == [None, None]
    with pytest.raises(MetadataError, match=r"Did you mean 'registry\.schema-id'"):
        fmt.decode_batch(pa.array([old]), "id INT", metadata=["registry.schema_id"])


def test_the_id_stands_where_the_metadata_asks_for_it(registry: Registry) -> None:
    fmt = get_format("json-debezium-registry", {"unchanged.columns": "keep"})
    after = b'{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u","ts_ms":5,"source":{"db":"shop"}}'
    for keys in (["registry.schema-id", "source.database"], ["source.database", "registry.schema-id"]):
        batch = fmt.decode_batch(pa.array([b"\0\0\0\1\1" + after]), "id INT, name STRING", metadata=keys)
        assert batch.rows.type.value_type.names == ["id", "name", *keys, "unchanged_columns"]
        ((first, second),) = batch.rows.to_pylist()
        assert first["registry.schema-id"] == second["registry.schema-id"] == "257"
        assert second["source.database"] == "shop"


def test_a_table_reads_ids_of_headers_too(registry: Registry) -> None:
    registry.ids[7] = '{"type":"object"}'
    table = KeyValueFormat.from_ddl(
        "CREATE TABLE t (a BIGINT) WITH ('connector' = 'kafka', "
        "'topic' = 't', 'properties.bootstrap.servers' = 'b:9', 'scan.startup.mode' = 'earliest-offset', "
        "'format' = 'json-registry')"
    )
    headers = [[{"key": "__value_schema_id", "value": b"\0\0\0\0\7"}], []]
    batch = table.decode_batch(
        None,
        pa.array([b'{"a":1}', b'\0\0\0\0\5{"a":2}']),
        headers=pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        metadata={"schema_id": "value.registry.schema-id"},
    )
    assert batch.rows.to_pylist() == [[{"a": 1, "schema_id": "7"}], [{"a": 2, "schema_id": "5"}]]
