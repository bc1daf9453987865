"""Captured topics in Spark: deletes with a JSON null, and values that are read by their form."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from kvformat.registry import KeyValueFormat

pytestmark = pytest.mark.spark

_COLUMNS = "day DATE, n DECIMAL(20, 6), flag BOOLEAN, bits BIGINT, words ARRAY<STRING>, took INTERVAL DAY TO SECOND"
_ROW = b'{"day":18266,"n":{"scale":2,"value":"Aw=="},"flag":1,"bits":"8w==","words":"red,blue","took":1500000}'


@pytest.mark.parametrize("connector", ["upsert-kafka", "kafka"])
def test_rows_alone_without_schemas(spark: Any, connector: str) -> None:
    options = {
        "connector": connector,
        "key.format": "json",
        "value.format": "debezium-json",
        "value.debezium-json.flattened": "true",
        "value.debezium-json.types": "debezium",
        "value.debezium-json.decimal.handling.mode": "precise",
        "value.debezium-json.time.precision.mode": "connect",
    }
    options |= {"key.fields": "day"} if connector == "kafka" else {}
    kv = KeyValueFormat(_COLUMNS, options, primary_key=["day"])
    records = spark.createDataFrame([(b'{"day":18266}', _ROW), (b'{"day":18266}', b"null")], "key BINARY, value BINARY")
    first, second = sorted(kv.decode(records).collect(), key=lambda row: row.row_kind, reverse=True)
    day = dt.date(2020, 1, 5)
    took = dt.timedelta(seconds=1, microseconds=500_000)
    assert tuple(second) == (day, Decimal("0.030000"), True, 0xF3, ["red", "blue"], took, "+U")
    assert tuple(first) == (day, None, None, None, None, None, "-D")
