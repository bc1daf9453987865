"""A JSON Schema of a registry with the schemas that it refers to.

A reference is resolved as the specification says, by the package `referencing`: pointers (`#/$defs/Item`), anchors,
identifiers of schemas inside of others, absolute ones, and those relative to the identifiers around them.
"""

from __future__ import annotations

import contextlib
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.codecs._json_documents import BYTE_ORDER_MARK
from kvformat.registry.contract.errors import MissingExtraError, SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.schema_registries import RegistrySchema

_CONDITIONS = {"required", "not", "type", "title", "description", "$comment"}
_ROOT = "urn:kvformat:schema"
"""The identifier of a schema that has none."""
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
            others = {name: json.loads(text.removeprefix(BYTE_ORDER_MARK)) for name, text in schema.references}
            return cls(json.loads(schema.text.removeprefix(BYTE_ORDER_MARK)), others)
        except (ValueError, RecursionError) as bad:
            raise SchemaError(f"the JSON Schema is not valid JSON: {bad}") from None

    def followed(self, node: Any) -> Any:
        """Follow a reference, in this schema (`#/$defs/Item`) or to another (`item.json`). None if it leads nowhere."""
        from referencing.exceptions import Unresolvable

        reference = str(node["$ref"])
        uri, hash_sign, fragment = reference.partition("#")
        shortened = f"{uri.rpartition('/')[2]}{hash_sign}{fragment}"  # a registry may name a schema without its folder
        for registries, base in ((self._registries, self._bases.get(id(node), _ROOT)), (self._registries, _ROOT)):
            for registry in registries:
                for text in dict.fromkeys((reference, shortened)):
                    try:
                        return registry.resolver(base).lookup(text).contents
                    except (Unresolvable, ValueError):
                        continue
        return None

    @cached_property
    def _registries(self) -> list[Any]:
        """The schemas by their identifiers, read by the rules of the newest version and of the seventh draft.

        Most schemas do not say which version they have, and the versions only differ in the words for identifiers.
        """
        try:
            from referencing import Registry
            from referencing.jsonschema import DRAFT7, DRAFT202012
        except ImportError as cause:
            raise MissingExtraError(
                "references of JSON Schemas are resolved by the package 'referencing', which is not installed",
                extra="confluent",
            ) from cause
        documents = [*self.others.items(), (_ROOT, self.root)]
        registries = []
        for specification in (DRAFT202012, DRAFT7):
            resources = [(name, specification.create_resource(content)) for name, content in documents]
            identified = [(name, r) for _, r in resources if isinstance(name := _identifier(r.contents), str)]
            registry = Registry().with_resources([*resources, *identified])
            with contextlib.suppress(TypeError, ValueError, AttributeError, KeyError):  # a word has a wrong type
                registry = registry.crawl()
            registries.append(registry)
        return registries

    @cached_property
    def _bases(self) -> dict[int, str]:
        """The identifier around each reference."""
        bases: dict[int, str] = {}
        try:
            for name, content in [*self.others.items(), (_ROOT, self.root)]:
                for node, base in _references(content, name):
                    bases[id(node)] = base
        except RecursionError:
            raise SchemaError("the JSON Schema has too many levels") from None
        return bases

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
        if not is_reference(node):
            return ""
        last = str(node["$ref"]).rpartition("/")[2]
        name = last.partition("#")[0] or last.lstrip("#")
        return urllib.parse.unquote(name).replace("~1", "/").replace("~0", "~")


def alternatives(node: Mapping[str, Any]) -> list[Any]:
    """Return the schemas of `oneOf` or `anyOf`. An object whose alternatives only require members is not a union."""
    unions = [node[word] for word in ("oneOf", "anyOf") if isinstance(node.get(word), list)]
    if isinstance(node.get("properties"), dict) or isinstance(node.get("allOf"), list):
        unions = [branches for branches in unions if not _are_more(branches)]
    return unions[0] if unions else []


def schemas_of_some(node: Mapping[str, Any]) -> list[Any]:
    """Return the schemas that hold for some objects only and may add members to them: of if, then, else and others."""
    schemas = [node[word] for word in ("if", "then", "else") if word in node]
    for word in ("dependentSchemas", "dependencies"):
        schemas += node[word].values() if isinstance(node.get(word), dict) else []
    for word in ("oneOf", "anyOf"):
        schemas += node[word] if isinstance(node.get(word), list) and _are_more(node[word]) else []
    return schemas


def _are_more(branches: list[Any]) -> bool:
    """Return whether alternatives beside an object's own members only add or require members, and have no names."""
    return all(
        isinstance(branch, dict) and (_is_condition(branch) or ("properties" in branch and not branch.get("title")))
        for branch in branches
    )


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


def _identifier(node: Any) -> str | None:
    """Return the identifier of a schema; None if it has none, or only that of a part (`#item`)."""
    identifier = node.get("$id") if isinstance(node, dict) else None
    return identifier if isinstance(identifier, str) and not identifier.startswith("#") else None


def _references(node: Any, base: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the references in a schema, each with the identifier around it."""
    if isinstance(node, list):
        for item in node:
            yield from _references(item, base)
    elif isinstance(node, dict):
        base = urllib.parse.urljoin(base, _identifier(node) or "")
        if is_reference(node):
            yield node, base
        for value in node.values():
            yield from _references(value, base)
