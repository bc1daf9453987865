"""Tables of each format with a registry, through a real broker and a real registry (Apicurio, by Confluent's API)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from tests.support import services

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

_KEYS = {"json-registry": "json-registry", "proto-registry": "proto-registry", "avro-glue": "raw"}
_COUNT = 300


@pytest.mark.parametrize("format", ["avro-registry", "json-registry", "proto-registry", "avro-apicurio", "avro-glue"])
def test_rows_are_unchanged_after_a_broker_and_a_registry(
    format: str, spark: Any, broker: Any, apicurio: services.SchemaRegistry, tmp_path: Path
) -> None:
    topic, key = broker.create(f"tables-{format}-{tmp_path.name}", 3), _KEYS.get(format, "avro-registry")
    urls = {
        "avro-apicurio": apicurio.url.replace("/apis/ccompat/v7", "/apis/registry/v3"),
        "avro-glue": f"file:{tmp_path}",  # Spark's workers have no credentials for a registry of AWS
    }
    options = {
        "properties.bootstrap.servers": broker.bootstrap,
        f"value.{format}.url": urls.get(format, apicurio.url),
        **({} if key == "raw" else {f"key.{key}.url": apicurio.url}),
    }
    if format == "avro-glue":
        options |= {"value.avro-glue.schema.name": "orders", "value.avro-glue.schema.autoRegistration": "true"}
        options["value.avro-glue.schema.compression"] = "ZLIB"
    table = KafkaTable.from_ddl(
        f"""CREATE TABLE orders (
            id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2), moment TIMESTAMP(3), tags ARRAY<STRING>,
            place ROW<city STRING, storey INT>, schema_id STRING METADATA FROM 'value.registry.schema-id' VIRTUAL
        ) WITH (
            'connector' = 'kafka', 'topic' = '{topic}', 'scan.startup.mode' = 'earliest-offset',
            'key.format' = '{key}', 'key.fields' = 'id', 'value.format' = '{format}',
            'value.fields-include' = 'EXCEPT_KEY'
        )""",
        options=options,
    )
    rows = spark.range(_COUNT).selectExpr(
        "id",
        "CASE WHEN id % 7 > 0 THEN concat('name ', id) END AS name",
        "CAST(id / 4 AS DECIMAL(10, 2)) AS price",
        "CAST(timestamp_millis(1700000000000 + id * 1234567) AS TIMESTAMP_NTZ) AS moment",
        "array('a', CAST(id AS STRING)) AS tags",
        "named_struct('city', 'Kiel', 'storey', CAST(id % 9 AS INT)) AS place",
    )
    table.write(rows)
    found = table.read(spark)
    assert found.select("schema_id").distinct().count() == 1
    wanted, got = (df.orderBy("id").collect() for df in (rows, found.select(*rows.columns)))
    assert len(got) == _COUNT
    assert [row.asDict(recursive=True) for row in got] == [row.asDict(recursive=True) for row in wanted]
    records = broker.records(topic)
    assert len({record.partition() for record in records}) == 3
