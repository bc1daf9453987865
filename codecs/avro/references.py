"""Avro schemas of a registry that refer to others: the definitions of types replace their names.

As in Confluent's Java library, a schema may use all types in the schemas that it refers to, also those inside of other
types. The name of a reference usually is the full name of its type, but need not be.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.schema import Schema
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import RegistrySchema


def parse_complete(schema: RegistrySchema) -> Schema:
    """Parse an Avro schema of a registry, with the schemas that it refers to. Raises `SchemaError`."""
    return parse_schema(_complete_text(schema) if schema.references else schema.text, check_defaults=False)


@functools.lru_cache(maxsize=256)
def _complete_text(schema: RegistrySchema) -> str:
    """Return the text of a schema in which the definitions of others replace their names. Raises `SchemaError`."""
    try:
        inlining = _Inlining({name: json.loads(text) for name, text in schema.references})
        return json.dumps(inlining.complete(json.loads(schema.text), ""))
    except (ValueError, RecursionError) as bad:
        raise SchemaError(f"a schema that it refers to is not valid: {bad}") from None


class _Inlining:
    """Replaces the first use of each type of other schemas by its definition. Leaves what is not valid as it is."""

    def __init__(self, references: dict[str, Any]) -> None:
        self._definitions = {name: (node, "") for name, node in references.items()}
        for node in references.values():
            self._definitions |= {_full_name(part, space): (part, space) for part, space in _named_types(node, "")}
        self._used: set[str] = set()
        self._defined: set[str] = set()

    def complete(self, node: Any, space: str) -> Any:
        """Return a schema in the namespace `space` with the definitions of all types that it uses."""
        if isinstance(node, list):
            return [self.complete(branch, space) for branch in node]
        if isinstance(node, str):
            full = node if "." in node or not space else f"{space}.{node}"
            name = full if full in self._definitions else node
            if name not in self._definitions or name in self._used:
                return node
            self._used.add(name)
            return self.complete(*self._definitions[name])
        if not isinstance(node, dict):
            return node
        inner: dict[str, Any] = {}
        if "name" in node:
            full = _full_name(node, space)
            if self._definitions.get(full, (None,))[0] is node:
                if full in self._defined:
                    return full
                self._defined.add(full)
                inner["namespace"] = full.rpartition(".")[0]  # also if it is none, in a type that has one
            space = full.rpartition(".")[0]
        inner |= {key: self.complete(node[key], space) for key in ("type", "items", "values") if key in node}
        if isinstance(node.get("fields"), list):
            inner["fields"] = [
                {**field, "type": self.complete(field["type"], space)} if _is_field(field) else field
                for field in node["fields"]
            ]
        return {**node, **inner}


def _named_types(node: Any, space: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the definitions of types in a schema, each with the namespace around it."""
    if isinstance(node, list):
        for branch in node:
            yield from _named_types(branch, space)
    elif isinstance(node, dict):
        if "name" in node:
            yield node, space
            space = _full_name(node, space).rpartition(".")[0]
        for key in ("type", "items", "values"):
            yield from _named_types(node.get(key), space)
        for field in node["fields"] if isinstance(node.get("fields"), list) else ():
            yield from _named_types(field["type"] if _is_field(field) else None, space)


def _full_name(node: dict[str, Any], space: str) -> str:
    name, namespace = str(node["name"]), node.get("namespace", space)
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_field(node: Any) -> bool:
    return isinstance(node, dict) and "type" in node
