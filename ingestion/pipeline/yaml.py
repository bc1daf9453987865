"""Parse the YAML of a pipeline into blocks of texts, with the values of `${name}` in place.

    source:
      type: kafka
      topic: ${kafka.topic}                                       from `set`, or from the variable KAFKA_TOPIC
      properties.sasl.jaas.config: ${secret_values.kafka.login}   a secret: shown as ****** only
    sink:
      type: values

Each scalar is a text: `0`, `true` and `8601-8604` stay as written. Anchors and aliases work. Tags, merge keys (`<<`)
and keys that are written twice are errors. The size of the text, its number of values and its depth are limited.
Rules: Flink CDC's `YamlPipelineDefinitionParser`; variables are those of Ververica's deployments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kvformat.registry.contract.errors import ConfigurationError, did_you_mean, listed, needs_extra

Value: TypeAlias = "str | list[Value] | dict[str, Value]"
BLOCKS = ("source", "sink", "transform", "route", "pipeline")
MASK = "******"
_SECRETS = "secret_values."
_VARIABLE = re.compile(r"\$\{[ \t]*([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*\}")
_NOT_OF_NAMES = re.compile(r"[.-]")
_ONE_LINE = re.compile(r"[^\n{}]+")
_INDENTED_BLOCK = re.compile(rf"[ \t]+({'|'.join(BLOCKS)})[ \t]*:[ \t]*(?:#.*)?")
_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))
_LONGEST = 2**20  # characters of a text; a pipeline of 1,000 tables with their columns has about 500,000
_MOST_VALUES = 20_000  # values of a text, with those of aliases: more would take seconds to parse
_DEEPEST = 8  # levels of maps and lists; a pipeline has four
_SHOWN = 60  # characters of a key that an error shows


class Secret(str):
    """A text with a secret. Only `reveal` returns it; `repr`, `str` and formatted strings show `******`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def reveal(self) -> str:
        """Return the text as a plain `str`."""
        return super().__str__()


@dataclass(frozen=True)
class Document:
    """The blocks of a text, by name, and notes on what was corrected.

    A scalar is a `str`, and a `Secret` if it has a secret. places: where an option of a block is in the text, by block
    and option; the option "" is the block. refused: reasons why the pipeline can't be started, by block and option. A
    reason replaces that of the block for the same option.
    """

    blocks: Mapping[str, Value]
    notes: tuple[str, ...] = ()
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def place(self, block: str, option: str | None) -> str:
        """Return where an option is, in brackets and after a blank, or ""."""
        ends = f".{option}"  # an error of a format has its option without the name of the format
        places = [
            place for (name, key), place in self.places.items() if name == block and key and f".{key}".endswith(ends)
        ]
        position = places[0] if option and places else self.places.get((block, ""))
        return f" ({position})" if position else ""


def read_text(text_or_path: str | os.PathLike[str]) -> str:
    """Return a text, or the content of the file at a path.

    A `str` is a path if it is one line without `{` and without `: `. Raises `ConfigurationError` if the file can't be
    read.
    """
    if isinstance(text_or_path, str) and (": " in text_or_path or not _ONE_LINE.fullmatch(text_or_path)):
        return text_or_path
    try:
        with open(text_or_path, encoding="utf-8-sig") as file:
            return file.read(_LONGEST + 1)
    except UnicodeDecodeError:
        raise ConfigurationError(f"the pipeline {text_or_path} is not a text in UTF-8") from None
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        raise ConfigurationError(f"the pipeline {os.fspath(text_or_path)[:200]!r} can't be read: {reason}") from None


def parse_document(text: str, variables: Mapping[str, Any] | None = None) -> Document:
    """Parse the text of a pipeline.

    `variables` are the values of `${name}`; a name that is not there is looked up in the environment, in upper case and
    with `_` instead of `.` and `-`. Raises `ConfigurationError` with line and column, and `MissingExtraError`.
    """
    if len(text) > _LONGEST:
        raise ConfigurationError(f"the pipeline has more than {_LONGEST:,} characters")
    notes: list[str] = []
    root = _composed(text, notes)
    if root is None:
        raise ConfigurationError(f"the pipeline is empty; it needs the blocks {listed(BLOCKS[:2])}")
    blocks = _Converter(_lookup(variables or {})).value(root, 0)
    if not isinstance(blocks, dict):
        raise ConfigurationError(f"the pipeline must be a map of the blocks {', '.join(BLOCKS)}")
    unknown = next((key for key in blocks if key not in BLOCKS), None)
    if unknown is not None:
        raise ConfigurationError(
            f"the pipeline has no block {shown_key(unknown)}.{did_you_mean(unknown, BLOCKS)} "
            f"Allowed blocks: {', '.join(BLOCKS)}"
        )
    return Document(blocks, tuple(notes))


def shown_key(key: str) -> str:
    """Return a key, quoted and shortened for an error."""
    return repr(key if len(key) <= _SHOWN else f"{key[:_SHOWN]}...")


# --- from text to nodes ----------------------------------------------------------------------------------------


def _composed(text: str, notes: list[str]) -> Any:
    """Return the root node of the text, None if it is empty.

    The name of a block that is indented by mistake, as in one example of the product pages, is moved to the beginning
    of its line. YAML does not allow it.
    """
    yaml = _pyyaml()
    lines = text.splitlines(keepends=True)
    for _ in BLOCKS:
        try:
            return _compose(yaml, "".join(lines))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line if mark is not None else 0
            content = lines[line].rstrip("\r\n") if line < len(lines) else ""
            block = _INDENTED_BLOCK.fullmatch(content)
            if block is None:
                raise ConfigurationError(_syntax_error(error, mark, content)) from None
            lines[line] = lines[line].lstrip(" \t")
            notes.append(f"'{block[1]}' at line {line + 1} is read as a block of the pipeline: do not indent it")
        except yaml.YAMLError as error:
            at = f" at character {error.position + 1}" if hasattr(error, "position") else ""
            raise ConfigurationError(f"the pipeline is not YAML: a character{at} is not allowed") from None
        except RecursionError:
            raise _too_deep() from None
    raise ConfigurationError("the pipeline is not YAML: its blocks are indented differently")


def _compose(yaml: Any, text: str) -> Any:
    """Parse a text to nodes; counts them as they come, before the whole text is parsed."""
    count = 0

    class Loader(yaml.BaseLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            nonlocal count
            count += 1
            if count > _MOST_VALUES:
                raise _too_many()
            return super().compose_node(parent, index)

    return yaml.compose(text, Loader=Loader)


def _syntax_error(error: Any, mark: Any, content: str) -> str:
    """Return the error's text with line and column, but without the line, which may have a password."""
    at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    hint = ""
    if "${" in content:
        hint = ". Inside of [...] and {...}, put a text with ${...} in quotes"
    elif ": " in content.partition(": ")[2]:
        hint = ". A text with ': ' needs quotes"
    elif content.partition(":")[2].strip()[:1] in tuple("*&!|>%@`{["):
        hint = ". A text that begins with a special character needs quotes, or '\\*' for '*'"
    return f"the pipeline is not YAML: {error.problem or error.context or 'syntax error'}{at}{hint}"


def _pyyaml() -> Any:
    with needs_extra("a pipeline in YAML needs PyYAML", extra="ingest"):
        import yaml
    return yaml


def _too_deep() -> ConfigurationError:
    return ConfigurationError(f"the pipeline has more than {_DEEPEST} levels of maps and lists")


def _too_many() -> ConfigurationError:
    return ConfigurationError(f"the pipeline has more than {_MOST_VALUES:,} values")


# --- from nodes to texts ---------------------------------------------------------------------------------------


class _Converter:
    """Converts nodes to texts, lists and dicts, and replaces variables."""

    def __init__(self, variable: Callable[[str], str]) -> None:
        self.variable = variable
        self.count = 0

    def value(self, node: Any, depth: int) -> Value:
        """Convert a node. An alias is converted each time, and counted."""
        self.count += 1
        if self.count > _MOST_VALUES:
            raise _too_many()
        if depth > _DEEPEST:
            raise _too_deep()
        if node.tag not in _TAGS:
            raise ConfigurationError(f"{_position(node)}: tags (!...) are not supported; write the plain value")
        if node.id == "scalar":
            return self._replaced(node)
        if node.id == "sequence":
            return [self.value(item, depth + 1) for item in node.value]
        return self._map(node, depth)

    def _map(self, node: Any, depth: int) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.id != "scalar":
                raise ConfigurationError(f"{_position(key_node)}: a key must be a text")
            if key == "<<":
                raise ConfigurationError(f"{_position(key_node)}: merge keys (<<) are not supported; repeat the keys")
            if "${" in key:
                raise ConfigurationError(f"{_position(key_node)}: a variable can stand in a value, not in a key")
            if key in entries:
                raise ConfigurationError(f"{_position(key_node)}: the key {shown_key(key)} is written twice")
            if value_node.id == "scalar" and not value_node.value and value_node.style is None and depth:
                raise ConfigurationError(
                    f"{_position(key_node)}: the key {shown_key(key)} has no value. Remove it, or write '' for an "
                    "empty text"
                )
            entries[key] = self.value(value_node, depth + 1)
        return entries

    def _replaced(self, node: Any) -> str:
        return _replaced(node.value, self.variable, _position(node))


def with_variables(text: str, variables: Mapping[str, Any], position: str) -> str:
    """Return a text with the values of its variables, a `Secret` if one of them is.

    Raises `ConfigurationError` with the position, for a variable without a value.
    """
    return _replaced(text, _lookup(variables), position)


def _replaced(text: str, variable: Callable[[str], str], position: str) -> str:
    """Return a text with its variables replaced; the values themselves are not searched again."""
    names = _VARIABLE.findall(text)
    if text.count("${") != len(names):
        raise ConfigurationError(
            f"{position}: after '${{' a name and '}}' must follow. A name has letters, digits, '_', '.' and '-'"
        )
    if not names:
        return text
    try:
        replaced = _VARIABLE.sub(lambda match: variable(match[1]), text)
    except LookupError as missing:
        raise ConfigurationError(f"{position}: {missing.args[0]}") from None
    return Secret(replaced) if any(name.startswith(_SECRETS) for name in names) else replaced


def _position(node: Any) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


def _lookup(variables: Mapping[str, Any]) -> Callable[[str], str]:
    """Return the function that finds a variable; it raises `LookupError` with a text."""

    def find(name: str) -> str:
        if name in variables:
            value = variables[name]
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, str | int | float):
                return value.reveal() if isinstance(value, Secret) else str(value)
            raise LookupError(f"the variable '{name}' must be a text, not {type(value).__name__}")
        in_environment = _NOT_OF_NAMES.sub("_", name).upper()
        if in_environment in os.environ:
            return os.environ[in_environment]
        near = did_you_mean(name, variables)
        raise LookupError(
            f"the variable '{name}' has no value.{near} Set it with --set {name}=..., set={{'{name}': ...}}, or the "
            f"environment variable {in_environment}"
        )

    return find
