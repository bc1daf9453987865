"""Values of the vectors of Flink CDC as Arrow arrays, and the other way around.

| type | in a case | in an answer |
| --- | --- | --- |
| BOOLEAN, integers | boolean, integer | the same |
| FLOAT, DOUBLE | number | `{"float": text}`, `{"double": text}` with Java's text |
| DECIMAL, texts, DATE, TIMESTAMP_TZ | text | the same |
| TIME | text | the same; Java omits zero seconds |
| TIMESTAMP, TIMESTAMP_LTZ | ISO text, with `Z` for TIMESTAMP_LTZ | the same; Java omits zero seconds of a TIMESTAMP |
| BINARY, VARBINARY | base64 | `{"bytes": base64}` |
| ARRAY, ROW | list | list |
| MAP | object | object |
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.ingestion.schemas.coerce import arrow_type_of, texts_of
from kvformat.ingestion.schemas.types import BINARY_ROOTS
from kvformat.registry.contract.types import FlinkType

_NANOSECONDS = re.compile(r"\.\d{7,9}Z?$")


def array_of(values: list[Any], t: FlinkType) -> pa.Array:
    """Return an Arrow array of a case's values."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        fine = any(isinstance(value, str) and _NANOSECONDS.search(value) for value in values)
        unit = "ns" if fine else "us"
        moments = np.array([None if v is None else v.removesuffix("Z") for v in values], f"datetime64[{unit}]")
        return pa.array(moments).cast(pa.timestamp(unit, "UTC" if t.root == "TIMESTAMP_LTZ" else None))
    if t.root == "ARRAY":
        flat = [element for value in values for element in value or ()]
        return pa.ListArray.from_arrays(_offsets(values), array_of(flat, t.fields[0].type))
    if t.root == "MAP":
        pairs = [pair for value in values for pair in (value or {}).items()]
        keys, items = ([pair[i] for pair in pairs] for i in (0, 1))
        return pa.MapArray.from_arrays(
            _offsets(values), array_of(keys, t.fields[0].type), array_of(items, t.fields[1].type)
        )
    if t.root == "ROW":
        fields = [array_of([v and v[i] for v in values], field.type) for i, field in enumerate(t.fields)]
        mask = pa.array([value is None for value in values])
        return pa.StructArray.from_arrays(fields, [field.name for field in t.fields], mask=mask)
    return pa.array([None if value is None else _parsed(value, t) for value in values]).cast(arrow_type_of(t))


def _offsets(values: list[Any]) -> pa.Array:
    """Return offsets of lists. A null list has a null offset."""
    ends = np.concatenate([[0], np.cumsum([len(value or ()) for value in values])])
    missing = [*(value is None for value in values), False]
    return pa.array(ends, pa.int32(), mask=np.array(missing))


def _parsed(value: Any, t: FlinkType) -> Any:
    if t.root == "DECIMAL":
        return Decimal(value)
    if t.root in BINARY_ROOTS:
        return base64.b64decode(value)
    if t.root == "DATE":
        return dt.date.fromisoformat(value)
    if t.root == "TIME":
        return dt.time.fromisoformat(value)
    return float(value) if t.root in ("FLOAT", "DOUBLE") else value


def values_of(values: pa.Array, t: FlinkType) -> list[Any]:
    """Return the values in the form of an answer."""
    if t.root in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT"):
        items: list[Any] = values.to_pylist()
        return items
    if t.root in ("ARRAY", "ROW", "MAP"):
        return [_nested(value, t) if value.is_valid else None for value in values]
    texts = texts_of(values, t).to_pylist()
    return [None if text is None else _shown(text, t) for text in texts]


def _nested(value: Any, t: FlinkType) -> Any:
    if t.root == "ARRAY":
        return values_of(value.values, t.fields[0].type)
    if t.root == "ROW":
        return [values_of(pa.array([value[f.name].as_py()], value[f.name].type), f.type)[0] for f in t.fields]
    return {entry["key"]: entry["value"] for entry in value.values.to_pylist()}


def _shown(text: str, t: FlinkType) -> Any:
    if t.root in ("FLOAT", "DOUBLE"):
        return {t.root.lower(): text}
    if t.root in BINARY_ROOTS:
        return {"bytes": text}
    return text.removesuffix(":00") if t.root in ("TIME", "TIMESTAMP") else text
