"""A table with columns of many types, and a row of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

COLUMNS = (
    "id BIGINT NOT NULL, name STRING, at TIMESTAMP(3), z TIMESTAMP_LTZ(6), d DATE, t TIME(3), p DECIMAL(10, 2), "
    "tags ARRAY<STRING>, m MAP<STRING NOT NULL, INT>, r ROW<`a` INT, `b` BYTES>, c CHAR(3), v VARCHAR(5), f FLOAT, "
    "b1 TINYINT, b2 SMALLINT, g DOUBLE, ok BOOLEAN, h BINARY(2), w VARBINARY(9), ms MULTISET<STRING NOT NULL>"
)
ROW: dict[str, Any] = {
    "id": 7,
    "name": "Ada",
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    "z": dt.datetime(2024, 2, 29, 1, 2, 3, 123456, tzinfo=dt.UTC),
    "d": dt.date(1969, 12, 31),
    "t": dt.time(23, 59, 59, 999000),
    "p": Decimal("1.50"),
    "tags": ["a", None],
    "m": [("k", 1)],
    "r": {"a": 1, "b": b"xy"},
    "c": "abc",
    "v": "é",
    "f": 1.5,
    "b1": -1,
    "b2": 300,
    "g": 0.1,
    "ok": True,
    "h": b"\0\1",
    "w": b"",
    "ms": [("e", 2)],
}
