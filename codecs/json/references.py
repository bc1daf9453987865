"""A JSON Schema of a registry with the schemas that it refers to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import BYTE_ORDER_MARK, RegistrySchema

_CONDITIONS = {"required", "not", "type", "title", "description", "$comment"}
_MOST_STEPS = 100
"""References that are followed from one to the next."""


@dataclass(frozen=True)
class SchemaDocuments:
    """A JSON Schema, and the schemas that it refers to by their names."""

    root: Any
    others: Mapping[str, Any]

    @classmethod
    def of(cls, schema: RegistrySchema) -> SchemaDocuments:
        """Parse a schema and its references. Raises `SchemaError` for a text that is not JSON."""
        try:
            others = {
                name: _absolute(json.loads(text.removeprefix(BYTE_ORDER_MARK)), name)
                for name, text in schema.references
            }
            return cls(json.loads(schema.text.removeprefix(BYTE_ORDER_MARK)), others)
        except (ValueError, RecursionError) as bad:
            raise SchemaError(f"the JSON Schema is not valid JSON: {bad}") from None

    def followed(self, node: Any) -> Any:
        """Follow a reference, in this schema (`#/$defs/Item`) or to another (`item.json`). None if it leads nowhere."""
        name, _, pointer = node["$ref"].partition("#")
        found = self.others.get(name, self.others.get(name.rpartition("/")[2])) if name else self.root
        for step in filter(None, pointer.split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def target(self, node: Any) -> dict[str, Any]:
        """Return the object that a node is or refers to, empty if there is none."""
        for _ in range(_MOST_STEPS):
            if not is_reference(node):
                return node if isinstance(node, dict) else {}
            node = self.followed(node)
        return {}

    def branches(self) -> list[Any]:
        """Return the branches of a schema that is a union, without null; else none."""
        branches = alternatives(self.target(self.root))
        return [branch for branch in branches if self.target(branch).get("type") != "null"]

    def title(self, node: Any) -> str:
        """Return the title of a schema. Without one, the name of the definition that it refers to, or an empty text."""
        title = self.target(node).get("title")
        if isinstance(title, str) and title:
            return title
        return str(node["$ref"]).rpartition("/")[2].partition("#")[0] if is_reference(node) else ""


def alternatives(node: Mapping[str, Any]) -> list[Any]:
    """Return the schemas of `oneOf` or `anyOf`. An object whose alternatives only require members is no union."""
    given = [node[word] for word in ("oneOf", "anyOf") if isinstance(node.get(word), list)]
    if isinstance(node.get("properties"), dict):
        given = [branches for branches in given if not all(map(_is_condition, branches))]
    return given[0] if given else []


def _is_condition(node: Any) -> bool:
    """Return whether a schema says no more of an object than which members it has."""
    return isinstance(node, dict) and node.keys() <= _CONDITIONS and node.get("type", "object") == "object"


def required_members(node: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the members that a schema requires of an object; none if they are not a list."""
    names = node.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def is_reference(node: Any) -> bool:
    """Return whether a schema is a reference to another one."""
    return isinstance(node, dict) and isinstance(node.get("$ref"), str)


def _absolute(node: Any, name: str) -> Any:
    """Return another schema in which references to itself begin with its name."""
    if isinstance(node, list):
        return [_absolute(item, name) for item in node]
    if not isinstance(node, dict):
        return node
    inner = {word: _absolute(value, name) for word, value in node.items()}
    target = node.get("$ref")
    return {**inner, "$ref": name + target} if isinstance(target, str) and target.startswith("#") else inner
