"""`kvformat formats` and `kvformat options`: list formats and options from their declarations."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from typing import Any

import click

from kvformat.connectors.cli._output import json_option, show, table, write_json
from kvformat.registry.contract.discovery import GROUP, available_formats, format_class
from kvformat.registry.contract.errors import ConfigurationError, UnknownFormatError, did_you_mean, listed
from kvformat.registry.contract.options import Option, display_value
from kvformat.registry.sql import connector_options

_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*).*;.*\bextra == ['\"]([\w-]+)['\"]")
_OF_ITS_AUTHORS = ("dev", "docs")  # extras


@click.command()
@json_option("A line of JSON for each format.")
def formats_command(as_json: bool) -> None:
    """List the installed formats, with the kinds of their rows and their distribution.

    If a format can't be loaded, its description is the reason.
    """
    formats = [_format(name) for name in available_formats()]
    if as_json:
        write_json(formats)
        return
    names = ("format", "rows", "from", "description")
    rows = [(f["name"], f["rows"], f["distribution"], f["description"]) for f in formats]
    words = table(names, rows)
    for distribution, extras in sorted({(f["distribution"], f["missing_extras"]) for f in formats}):
        if extras:
            words.append(f"\n\nExtras of {distribution} that are not installed: {', '.join(extras)}")
    show(*words)


def _format(name: str) -> dict[str, Any]:
    points = importlib.metadata.entry_points(group=GROUP, name=name)
    owner = next((point.dist for point in points if point.dist is not None), None)
    entry: dict[str, Any] = {"name": name, "rows": "?", "description": ""}
    try:
        cls = format_class(name)
    except ConfigurationError as error:
        entry["description"] = str(error)
    else:
        entry["rows"] = ", ".join(sorted(cls.changelog_mode.value, key="+I -U +U -D".find))
        text = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""
        first = text.strip().partition("\n")[0]
        entry["description"] = first.removeprefix(f"`{name}`: ")
    entry["distribution"] = f"{owner.name} {owner.version}" if owner else "(this process)"
    entry["missing_extras"] = () if owner is None else missing_extras(owner)
    return entry


def missing_extras(distribution: importlib.metadata.Distribution) -> tuple[str, ...]:
    """Return the extras of a distribution with a package that is not installed, except extras for its developers."""
    missing = set()
    for requirement in distribution.requires or ():
        match = _REQUIREMENT.match(requirement)
        if match and match[2] not in _OF_ITS_AUTHORS:
            try:
                importlib.metadata.version(match[1])
            except importlib.metadata.PackageNotFoundError:
                missing.add(match[2])
    return tuple(sorted(missing))


@click.command()
@click.argument("name", metavar="FORMAT|CONNECTOR")
@json_option("A line of JSON for each option.")
def options_command(name: str, as_json: bool) -> None:
    """List the options of a FORMAT, or of a connector, `kafka` or `upsert-kafka`.

    In a table, the format's name is the prefix of its options: `json.ignore-parse-errors`, or
    `value.json.ignore-parse-errors` in a table with a key.
    """
    specs = _specs(name)
    if as_json:
        write_json(_shown(spec) for spec in specs)
        return
    names = ("option", "type", "default", "allowed", "meaning")
    rows = [
        (
            spec.key,
            spec.type,
            "required" if spec.required else _default(spec),
            " | ".join(spec.allowed or ()),
            spec.doc.replace("`", "") + (f" Also as {', '.join(spec.fallback)}." if spec.fallback else ""),
        )
        for spec in specs
    ]
    show(*(table(names, rows) if rows else [f"{name} has no options"]))


def _specs(name: str) -> tuple[Option, ...]:
    connectors = (connector_options.KAFKA, connector_options.UPSERT_KAFKA)
    if name in connectors:
        return connector_options.options_of(name)
    try:
        return format_class(name).option_specs
    except UnknownFormatError:
        known = (*available_formats(), *connectors)
        raise UnknownFormatError(
            f"there is no format or connector {name!r}.{did_you_mean(name, known)} There are {listed(known)}",
            format=name,
        ) from None


def _default(spec: Option) -> str:
    return "" if spec.default is None else display_value(spec.default)


def _shown(spec: Option) -> dict[str, Any]:
    return {
        "name": spec.key,
        "type": spec.type,
        "required": spec.required,
        "default": None if spec.default is None else _default(spec),
        "allowed": None if spec.allowed is None else list(spec.allowed),
        "also": list(spec.fallback),
        "secret": spec.sensitive or connector_options.is_secret(spec.name),
        "doc": spec.doc,
    }
