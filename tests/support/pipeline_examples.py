"""The examples of the product pages in YAML and in SQL, and values for their variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "ingestion" / "examples"
EXAMPLES: Mapping[str, str] = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
SQL_EXAMPLES: Mapping[str, str] = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.sql")}
SECRET = "s3same"
"""A part of each secret among the variables."""
VARIABLES: Mapping[str, str] = {
    "kafka.topic": "shop",
    "kafka.bootstraps.server": "broker:9092",
    "value.format": "debezium-json",
    "scan.startup.mode": "earliest-offset",
    "mysql.source.table": r"shop.\.*",
    "mysql.port": "3306",
    "mysql.hostname": "db",
    "mysql.username": "me",
    "mysql.password": f"{SECRET}-0",
    "upsert.kafka.bootstraps.server": "broker:9092",
    "upsert.kafka.aliyun.ak": "ak",
    "upsert.kafka.aliyun.sk": f"{SECRET}-00",
    "upsert.kafka.aliyun.instanceid": "i",
    "upsert.kafka.aliyun.endpoint": "e",
    "upsert.kafka.aliyun.regionid": "r",
    "upsert.kafka.topic": "shop-now",
    "instancd-id": "i",
    "endpoint": "e",
    "region-id": "r",
    **{
        f"secret_values.{name}": f"{SECRET}-{i}"
        for i, name in enumerate(
            ("ak_id", "ak_secret", "mysql.hostname", "mysql.username", "mysql.password", "kafka-ak", "kafka-sk"), 1
        )
    },
}
