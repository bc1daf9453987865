"""Avro schemas of a registry that refer to others: their definitions replace the names."""

from __future__ import annotations

import functools
import json
from typing import Any

from kvformat.codecs._avro import Schema, parse_schema
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import RegistrySchema


def parse_complete(schema: RegistrySchema) -> Schema:
    """Parse an Avro schema of a registry, with the schemas that it refers to. Raises `SchemaError`."""
    return parse_schema(_complete_text(schema) if schema.references else schema.text, check_defaults=False)


@functools.lru_cache(maxsize=256)
def _complete_text(schema: RegistrySchema) -> str:
    """Return the text of a schema in which the definitions of others replace their names. Raises `SchemaError`."""
    try:
        definitions = {name: json.loads(text) for name, text in schema.references}
        return json.dumps(_inline_references(json.loads(schema.text), "", definitions, set()))
    except (ValueError, RecursionError) as bad:
        raise SchemaError(f"a schema that it refers to is not valid: {bad}") from None


def _inline_references(node: Any, space: str, definitions: dict[str, Any], known: set[str]) -> Any:
    """Return a schema in which the definition replaces the first use of each name from another schema."""
    if isinstance(node, list):
        return [_inline_references(branch, space, definitions, known) for branch in node]
    if isinstance(node, str):
        full = node if "." in node or not space else f"{space}.{node}"
        name = full if full in definitions else node
        if name not in definitions or name in known:
            return node
        known.add(name)
        return _inline_references(definitions[name], "", definitions, known)
    if not isinstance(node, dict):
        return node
    if "name" in node:
        name = str(node["name"])
        space = name.rpartition(".")[0] if "." in name else str(node.get("namespace", space))
    inner = {
        key: _inline_references(node[key], space, definitions, known)
        for key in ("type", "items", "values")
        if key in node
    }
    if isinstance(node.get("fields"), list):
        inner["fields"] = [
            {**f, "type": _inline_references(f["type"], space, definitions, known)} for f in node["fields"]
        ]
    return {**node, **inner}
