"""Schemas of Avro as Python values."""

from __future__ import annotations

from typing import Any


def record_of(*fields: tuple[Any, ...], name: str = "com.acme.Order") -> dict[str, Any]:
    """Return a record of fields, each a name, a type and perhaps a default."""
    shown = [{"name": n, "type": t} | ({"default": more[0]} if more else {}) for n, t, *more in fields]
    return {"type": "record", "name": name, "fields": shown}


def enum_of(name: str, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def fixed_of(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def time_of(logical: str) -> dict[str, Any]:
    return {"type": "int" if logical in ("date", "time-millis") else "long", "logicalType": logical}


def decimal_of(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
