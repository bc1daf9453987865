"""Formats inside of formats: options of the type `format`, whose value is a format with options of its own.

    payload.format = json                       which one, by its name
    payload.json.ignore-parse-errors = true     its options, behind its name
    payload = get_format("json")                or the format itself, from Python

Options of the inner format are checked by its own declarations, and shown as these say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import ConfigurationError, OptionError, retold
from kvformat.registry.contract.format_hooks import FormatHooks, Part
from kvformat.registry.contract.options import Option, owner


def inner_format(outer: str, spec: Option, keys: Sequence[str], given: Mapping[str, Any]) -> FormatHooks:
    """The format that these keys are about; raises `OptionError` and what `get_format` does, with the whole keys."""
    if spec.name in keys:
        found = given[spec.name]
        if isinstance(found, FormatHooks) and len(keys) == 1:
            return found
        raise OptionError(
            f"option '{spec.name}' of format '{outer}' is a Format and nothing else; as texts, name it by "
            f"'{spec.key}' and give its options as '{spec.name}.<format>.<option>'",
            format=outer,
            option=spec.name,
        )
    if spec.key not in keys:
        raise OptionError(
            f"format '{outer}' needs the option '{spec.key}' where there is '{keys[0]}'", format=outer, option=spec.key
        )
    identifier = str(given[spec.key])
    prefix = f"{spec.name}.{identifier}."
    for key in keys:
        if key != spec.key and not key.startswith(prefix):
            raise OptionError(
                f"option '{key}' is not for '{spec.key}' = '{identifier}', whose options begin with '{prefix}'",
                format=outer,
                option=key,
            )
    try:
        cls = format_class(identifier)
    except ConfigurationError as error:
        raise retold(error, f"option '{spec.key}' of format '{outer}': ", option=spec.key) from error
    try:
        return cls({key.removeprefix(prefix): given[key] for key in keys if key != spec.key})
    except ConfigurationError as error:
        raise of_inner(error, outer, spec.name, identifier) from error


def of_inner(error: ConfigurationError, outer: str, name: str, identifier: str) -> ConfigurationError:
    """What is wrong with an inner format, with the option as it is given to the outer one."""
    prefix = f"{name}.{identifier}."
    where = f"in format '{outer}', options '{prefix}*': "
    return retold(error, where, option=f"{prefix}{error.option}" if error.option else None)


def innermost(specs: Sequence[Option], key: str) -> Option | None:
    """The declaration of the value of a given key, which is that of the inner format where it is an option of one.

    None for a key that nobody knows, also where the format that it names is not there.
    """
    spec = owner(specs, key)
    if spec is None or spec.type != "format" or key in (spec.name, spec.key):
        return spec
    identifier, _, rest = key.removeprefix(f"{spec.name}.").partition(".")
    try:
        return innermost(format_class(identifier).option_specs, rest)
    except ConfigurationError:
        return None


def complete_inner(specs: Sequence[Option], given: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
    """The given options with what inner formats add to theirs for a table of one topic; see `complete_options`."""
    completed = dict(given)
    for spec in specs:
        if spec.type != "format" or spec.key not in given:
            continue
        try:
            cls = format_class(str(given[spec.key]))
        except ConfigurationError:
            continue  # the format itself, when it is made, says what is wrong
        prefix = f"{spec.name}.{given[spec.key]}."
        own = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
        whole = cls.complete_options(own, topic=topic, part=part)
        completed |= {f"{prefix}{name}": value for name, value in whole.items()}
    return completed
