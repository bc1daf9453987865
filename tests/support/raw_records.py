"""Tables with the columns of raw records."""

from __future__ import annotations

from kvformat.registry import KeyValueFormat

BOTH = ["__raw_key__", "__raw_value__"]
_CONNECTORS = {
    "kafka": "'connector' = 'kafka', 'scan.startup.mode' = 'earliest-offset'",
    "upsert-kafka": "'connector' = 'upsert-kafka', 'key.format' = 'json'",
}


def table(columns: str, options: str = "'format' = 'json'", connector: str = "kafka") -> KeyValueFormat:
    return KeyValueFormat.from_ddl(
        f"CREATE TABLE t ({columns}) WITH ({_CONNECTORS[connector]}, 'topic' = 't', "
        f"'properties.bootstrap.servers' = 'b:9092', {options})"
    )
