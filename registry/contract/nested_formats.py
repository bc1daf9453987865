"""Formats inside formats: options of type `format`, which have a format with its own options as their value.

    payload.format = json                       the name of the nested format
    payload.json.ignore-parse-errors = true     an option of the nested format, after its name
    payload = get_format("json")                in Python, the nested format itself

The declarations of the nested format check its options and mask its secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import ConfigurationError, OptionError, add_context
from kvformat.registry.contract.format_hooks import FormatHooks, Part
from kvformat.registry.contract.options import Option, find_option


def make_nested_format(outer: str, spec: Option, keys: Sequence[str], options: Mapping[str, Any]) -> FormatHooks:
    """Create the format that the option `spec` of the format `outer` declares.

    `keys` are those of `options` that belong to it. Raises `OptionError` and the errors of `get_format`, with the keys
    as they are in `options`.
    """
    if spec.name in keys:
        inner = options[spec.name]
        if isinstance(inner, FormatHooks) and len(keys) == 1:
            return inner
        raise OptionError(
            f"option '{spec.name}' of format '{outer}' must be a Format, without other options for it. As text, set "
            f"its name with '{spec.key}' and its options with '{spec.name}.<format>.<option>'",
            format=outer,
            option=spec.name,
        )
    if spec.key not in keys:
        raise OptionError(
            f"format '{outer}' needs the option '{spec.key}' because '{keys[0]}' is set", format=outer, option=spec.key
        )
    identifier = str(options[spec.key])
    prefix = f"{spec.name}.{identifier}."
    for key in keys:
        if key != spec.key and not key.startswith(prefix):
            raise OptionError(
                f"option '{key}' does not belong to '{spec.key}' = '{identifier}': its options begin with '{prefix}'",
                format=outer,
                option=key,
            )
    try:
        cls = format_class(identifier)
    except ConfigurationError as error:
        raise add_context(error, f"option '{spec.key}' of format '{outer}': ", option=spec.key) from error
    try:
        return cls({key.removeprefix(prefix): options[key] for key in keys if key != spec.key})
    except ConfigurationError as error:
        raise nested_error(error, outer, spec.name, identifier) from error


def nested_error(error: ConfigurationError, outer: str, name: str, identifier: str) -> ConfigurationError:
    """Return an error of a nested format with the key that the option has in the outer format."""
    prefix = f"{name}.{identifier}."
    where = f"in format '{outer}', options '{prefix}*': "
    return add_context(error, where, option=f"{prefix}{error.option}" if error.option else None)


def find_nested_option(specs: Sequence[Option], key: str) -> Option | None:
    """Return the declaration of the option with a given key, also if it is an option of a nested format.

    Returns None for an unknown key and for a key of a format that is not installed.
    """
    spec = find_option(specs, key)
    if spec is None or spec.type != "format" or key in (spec.name, spec.key):
        return spec
    identifier, _, rest = key.removeprefix(f"{spec.name}.").partition(".")
    try:
        return find_nested_option(format_class(identifier).option_specs, rest)
    except ConfigurationError:
        return None


def complete_nested_options(
    specs: Sequence[Option], options: Mapping[str, Any], *, topic: str, part: Part
) -> Mapping[str, Any]:
    """Return the options with the additions of nested formats for a table of one topic; see `complete_options`."""
    completed = dict(options)
    for spec in specs:
        if spec.type != "format" or spec.key not in options:
            continue
        try:
            cls = format_class(str(options[spec.key]))
        except ConfigurationError:
            continue  # creating the format reports the error
        prefix = f"{spec.name}.{options[spec.key]}."
        nested = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
        whole = cls.complete_options(nested, topic=topic, part=part)
        completed |= {f"{prefix}{name}": value for name, value in whole.items()}
    return completed
