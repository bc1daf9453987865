"""The rules of the blocks `transform` and `route`.

    parse_transforms(items)     columns, filters, keys and properties by table; the first rule that matches applies
    parse_routes(items)         targets by table

Rules: Flink CDC's pages "Transform" and "Route", `YamlPipelineDefinitionParser`, `TransformParser`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.ingestion.pipeline.flink_projection import translate_flink_filter, translate_flink_projection
from kvformat.ingestion.pipeline.options import ROUTE_OPTIONS, TRANSFORM_OPTIONS, Refusal, parse_values, texts
from kvformat.ingestion.pipeline.routes import Route, Selector, pattern_warning
from kvformat.ingestion.pipeline.transform_sql import Projected, Translated, translate_filter, translate_projection
from kvformat.ingestion.pipeline.yaml import Secret, shown_key
from kvformat.registry.contract.errors import ConfigurationError, OptionError, add_context
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.types import FlinkType, quoted

_KIND = "__data_event_type__"
_QUOTED = re.compile(r"^`(.*)`$", re.DOTALL)
_NAME = re.compile(r"`((?:[^`]|``)+)`|'(?:[^']|'')*'|([^\W\d]\w*)")


@dataclass(frozen=True)
class TransformRule:
    """A rule of the block `transform`.

    source_table, selector: the text and the pattern of the tables.
    columns: the projection, None for all columns as they are. `filter`: the condition, "" for none.
    metadata: the metadata columns that projection and filter use.
    table_options: properties of a created table. `soft_delete`: a deleted row is written with its old values.
    is_flink: whether projection and filter are Flink SQL. Then a computed column is a new one, and never replaces a
    column of the messages.
    refused: expressions that can't be evaluated as Flink does; their columns are left out.
    """

    source_table: str
    columns: tuple[Projected, ...] | None
    filter: str
    metadata: frozenset[str]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    table_options: Mapping[str, str]
    soft_delete: bool
    description: str
    notes: tuple[str, ...]
    selector: Selector = field(repr=False, compare=False)
    is_flink: bool = False
    refused: tuple[Refusal, ...] = field(default=(), repr=False)

    @property
    def computed(self) -> tuple[Projected, ...]:
        """The columns with an expression."""
        return tuple(item for item in self.columns or () if item.name and item.spark != quoted(item.name))

    def used_names(self) -> frozenset[str]:
        """Return the names in the projection and the filter: of columns, and also of functions and of keywords."""
        names = (name for text in (*self._texts(), self.filter) for name in _NAME.findall(text))
        return frozenset(quoted.replace("``", "`") or plain for quoted, plain in names) - {""}

    def _texts(self) -> Iterator[str]:
        for item in self.columns or ():
            yield item.flink if self.is_flink and item.flink else item.spark


def parse_transforms(items: Any, types: Mapping[str, FlinkType] | None = None) -> tuple[TransformRule, ...]:
    """Check the block `transform`. Raises `ConfigurationError` with the number of the rule.

    `types` are those of the columns that the source declares.
    """
    rules: list[TransformRule] = []
    for where, values in _rules("transform", items, TRANSFORM_OPTIONS):
        rule = _transform(where, values, types or {})
        if any(rule.source_table == other.source_table for other in rules):
            note = f"{where}: no effect, because an earlier rule has the same 'source-table'"
            rule = replace(rule, notes=(*rule.notes, note))
        rules.append(rule)
    return tuple(rules)


def parse_routes(items: Any) -> tuple[Route, ...]:
    """Check the block `route`. Raises `ConfigurationError` with the number of the rule."""
    routes = []
    for where, values in _rules("route", items, ROUTE_OPTIONS):
        route = Route.of(values)
        try:
            route.check()
        except ConfigurationError as error:
            raise add_context(error, f"{where}: ") from None
        routes.append(route)
    return tuple(routes)


def _rules(block: str, items: Any, specs: Sequence[Option]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each rule for errors, and its values."""
    if items == "":
        return
    if isinstance(items, Mapping) or not isinstance(items, list | tuple):
        raise ConfigurationError(
            f"{block}: must be a list of rules: put '- ' before the first key of each rule, as in '- source-table: ...'"
        )
    for number, item in enumerate(items, 1):
        where = f"{block} {number}"
        if not isinstance(item, Mapping):
            raise ConfigurationError(f"{where}: a rule must be a map, such as 'source-table: db.t'")
        options = texts(where, item)
        secret = next((key for key, text in options.items() if isinstance(text, Secret)), None)
        if secret is not None:
            raise OptionError(
                f"{where}: option {shown_key(secret)} has a secret (secret_values), but tables and expressions are "
                "shown to people. Use a variable without 'secret_values.'",
                option=secret,
            )
        values = parse_values(where, specs, options)
        for key in ("source-table", "sink-table"):
            if key in values and not values[key].strip():
                raise OptionError(f"{where}: '{key}' must not be empty", option=key)
        yield where, values


def _transform(where: str, values: Mapping[str, Any], types: Mapping[str, FlinkType]) -> TransformRule:
    notes = []
    projection = filtered = Translated()
    is_flink = values["dialect"] == "flink"
    text, condition = values["projection"], values["filter"]
    try:
        selector = Selector(values["source-table"], "transform.source-table")
        if text is not None:
            projection = translate_flink_projection(text, types) if is_flink else translate_projection(text)
        if condition is not None:
            filtered = translate_flink_filter(condition, types) if is_flink else translate_filter(condition)
    except ConfigurationError as error:
        raise add_context(error, f"{where}: ") from None
    if warning := pattern_warning(values["source-table"]):
        notes.append(f"{where}: {warning}")
    if projection.divides or filtered.divides:
        notes.append(f"{where}: '/' of two integers has a fraction in Spark, not in Flink; use DIV for whole numbers")
    soft_delete = values["converter-after-transform"] is not None
    if soft_delete and _KIND not in projection.metadata:
        notes.append(
            f"{where}: SOFT_DELETE writes deleted rows as rows: add a column that says so, '{_KIND} AS op_type', to "
            "the projection"
        )
    return TransformRule(
        values["source-table"],
        projection.columns if values["projection"] is not None else None,
        filtered.flink if is_flink else filtered.spark,
        projection.metadata | filtered.metadata,
        _names(where, "primary-keys", values["primary-keys"]),
        _names(where, "partition-keys", values["partition-keys"]),
        _table_options(where, values["table-options"], values["table-options.delimiter"]),
        soft_delete,
        values["description"] or "",
        tuple(notes),
        selector,
        is_flink,
        tuple(Refusal(f"{where}: {why}", why.option) for why in (*projection.refused, *filtered.refused)),
    )


def _names(where: str, key: str, text: str | None) -> tuple[str, ...]:
    """Split the names of columns at commas. A name may be in backticks, where two stand for one."""
    if text is None:
        return ()
    plain = (name.strip() for name in text.split(","))
    names = tuple(_QUOTED.sub(lambda match: match[1].replace("``", "`"), name) for name in plain)
    if not all(names):
        raise OptionError(f"{where}: '{key}' must be names of columns, separated by ','", option=key)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise OptionError(f"{where}: '{key}' has the column {shown_key(twice)} twice", option=key)
    return names


def _table_options(where: str, text: str | None, delimiter: str) -> dict[str, str]:
    """Parse `k=v,k2=v2`; a value may have `=`."""
    options: dict[str, str] = {}
    key = "table-options"
    if not delimiter:
        raise OptionError(f"{where}: '{key}.delimiter' must not be empty", option=f"{key}.delimiter")
    for entry in (text or "").split(delimiter):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not entry.strip():
            continue
        if not name or not equals or name in options:
            what = "is set twice" if name in options else f"must be 'name=value', separated by {delimiter!r}"
            raise OptionError(f"{where}: '{key}': {shown_key(entry.strip())} {what}", option=key)
        options[name] = value
    return options
