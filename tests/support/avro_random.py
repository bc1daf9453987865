"""Random Avro schemas and values for tests, with values for fastavro and for Arrow."""

from __future__ import annotations

import io
import random
from decimal import Decimal
from typing import Any

import fastavro

from kvformat.codecs.avro.schema import Schema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_TEXTS = ("", "a", "plain", "é ß 世界", "😀", "x" * 8, "y" * 9, "z" * 63, "w" * 64, "long " * 60)
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
)
_WIDTHS = (0, 1, 3, 8, 12, 16, 20, 1024, 1025)


class Maker:
    """Makes schemas and values from one random generator.

    If `readable` is false, schemas may have types that only a writer can have: null, and unions of several types.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.readable = True
        self._names = 0

    def schema(self, depth: int = 3) -> Any:
        """Return a schema as JSON values."""
        rng = self.rng
        kinds = ["primitive"] * 4 + ["logical", "decimal", "optional", "optional", "enum", "fixed"]
        kind = rng.choice([*kinds, "array", "map", "record", "record", "union"] if depth else kinds)
        if kind == "primitive":
            return rng.choice(PRIMITIVES[1:] if self.readable else PRIMITIVES)
        if kind == "logical":
            return dict(rng.choice(_LOGICAL))
        if kind == "decimal":
            return self._decimal()
        if kind == "optional":
            return self._optional(depth)
        if kind == "enum":
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B", "C_2"][: rng.randint(1, 3)]}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name("F"), "size": rng.choice(_WIDTHS)}
        if kind == "array":
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth - 1)}
        return self.record(depth) if kind == "record" else self._union(depth)

    def record(self, depth: int = 3) -> dict[str, Any]:
        """Return a record with up to five fields."""
        fields = [{"name": f"f{i}", "type": self.schema(depth - 1)} for i in range(self.rng.randint(0, 5))]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def value(self, schema: Any) -> Any:
        """Return a value for fastavro, without logical types. The value of a union is a pair of branch and value."""
        rng = self.rng
        if isinstance(schema, list):
            return self._branch(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("int", "long"):
            return self._whole(32 if kind == "int" else 64)
        if kind in ("float", "double"):
            return rng.choice([0.0, -0.0, 1.5, -2.25, 3.0e10, float("inf"), float("nan"), rng.randrange(10**6) / 4])
        if kind == "bytes":
            return self._digits(schema) if isinstance(schema, dict) else rng.randbytes(rng.choice([0, 1, 7, 8, 9, 70]))
        if kind == "string":
            return rng.choice(_TEXTS)
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "fixed":
            return self._digits(schema) if "logicalType" in schema else rng.randbytes(schema["size"])
        if kind == "enum":
            return rng.choice(schema["symbols"])
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(rng.choice([0, 0, 1, 2, 3, 5]))]
        if kind == "map":
            return {f"{rng.choice(_TEXTS)}{i}": self.value(schema["values"]) for i in range(rng.choice([0, 1, 2, 4]))}
        return {f["name"]: self.value(f["type"]) for f in schema["fields"]} if kind == "record" else None

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _whole(self, bits: int) -> int:
        size: int = self.rng.choice([3, 6, 7, 8, 13, 14, 20, 27, 28, 31, 48, 55, 56, 62, 63])
        size = min(size, bits - 1)
        number: int = self.rng.choice([self.rng.randrange(-(2**size), 2**size), 2**size - 1, -(2**size), 0])
        return number

    def _decimal(self) -> dict[str, Any]:
        precision = self.rng.choice([1, 5, 9, 18, 19, 30, 38])
        scale = self.rng.randint(0, precision)
        logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
        if self.rng.random() < 0.5:
            return {"type": "bytes", **logical}
        return {
            "type": "fixed",
            "name": self._name("D"),
            "size": self.rng.choice([0, 3, 9]) + precision // 2 + 1,
            **logical,
        }

    def _digits(self, schema: dict[str, Any]) -> bytes:
        most: int = 10 ** self.rng.randint(0, schema["precision"]) - 1
        number = self.rng.choice([self.rng.randint(-most, most), most, -most])
        if schema["type"] == "fixed":
            return number.to_bytes(schema["size"], "big", signed=True)
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)

    def _optional(self, depth: int) -> list[Any]:
        inner = self.schema(depth and depth - 1)
        while isinstance(inner, list) or inner == "null":
            inner = self.schema(depth and depth - 1)
        return ["null", inner] if self.rng.random() < 0.7 else [inner, "null"]

    def _union(self, depth: int) -> list[Any]:
        branches: dict[str, Any] = {}
        for _ in range(1 if self.readable else self.rng.randint(1, 4)):
            inner = self.schema(depth - 1)
            if not isinstance(inner, list):
                branches[branch_name(inner)] = inner
        return list(branches.values()) or ["null", "long"]

    def _branch(self, union: list[Any]) -> Any:
        chosen = self.rng.choice(union)
        return (branch_name(chosen), self.value(chosen))


def branch_name(schema: Any) -> str:
    """Return the name of a schema as a branch of a union."""
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def bare(schema: Any) -> Any:
    """Remove logical types from a schema, so that fastavro reads and writes wire values."""
    if isinstance(schema, list):
        return [bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in kept:
            kept[key] = bare(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**f, "type": bare(f["type"])} for f in kept["fields"]]
    return kept


def written(schema: Any, values: list[Any]) -> list[bytes]:
    """Encode values with fastavro."""
    parsed = fastavro.parse_schema(bare(schema))
    messages = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        messages.append(out.getvalue())
    return messages


def arrow_value(schema: Schema, value: Any) -> Any:
    """Convert a value of fastavro for `pyarrow.array`."""
    if schema.type == "union":
        name, inner = value
        branch = next(b for b in schema.branches if b.full_name == name)
        return arrow_value(branch, inner)
    if schema.logical is not None and schema.logical.name == "decimal":
        return _decimal(schema, value)
    if schema.items is not None:
        return [arrow_value(schema.items, item) for item in value]
    if schema.values is not None:
        return [(key, arrow_value(schema.values, item)) for key, item in value.items()]
    if schema.type == "record":
        return {f.name: arrow_value(f.schema, value[f.name]) for f in schema.fields}
    return value


def _decimal(schema: Schema, value: bytes) -> Decimal:
    assert schema.logical is not None
    number = int.from_bytes(value, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -schema.logical.scale))
