"""Tables on a broker, and maintained tables, for several test modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvformat.connectors import KafkaTable
from kvformat.registry import current_table
from tests.support.starting import started

SCHEMA = "id INT NOT NULL, n BIGINT"


def upsert(bootstrap: str, topic: str, schema: str = SCHEMA, **options: Any) -> KafkaTable:
    """Return an upsert table in JSON with `id` in the key and the other columns in the value."""
    given = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "key.format": "json",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }
    return KafkaTable(schema, given | options, primary_key=["id"])


def change(key: int, n: int | None, **more: Any) -> tuple[bytes, bytes | None]:
    rest = "".join(f',"{name}":{value}' for name, value in more.items())
    return b'{"id":%d}' % key, None if n is None else b'{"n":%d%s}' % (n, rest.encode())


def rows(spark: Any, path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in current_table(spark, path).collect())


class Maintained:
    """A table in a folder, which `update` brings up to date."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.path, self.checkpoint = spark, folder / "table", str(folder / "checkpoint")

    def update(self, table: KafkaTable, target: Any = None, **more: Any) -> None:
        more |= {"checkpoint_location": self.checkpoint, "trigger": {"availableNow": True}}
        query = started(lambda: table.maintain(self.spark, target or self.path, **more))
        assert query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
