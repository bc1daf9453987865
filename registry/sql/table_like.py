"""CREATE TABLE ... LIKE base: what of the base a table takes, and what it may set against it.

    LIKE base (EXCLUDING ALL INCLUDING GENERATED OVERWRITING OPTIONS)

| feature | without a word | EXCLUDING | INCLUDING, and both have it | OVERWRITING |
| --- | --- | --- | --- | --- |
| physical columns | taken | taken | an error | |
| GENERATED, METADATA (columns) | INCLUDING | left out | an error | the new column, in the old place |
| WATERMARKS | INCLUDING | left out | an error | the new one, of the same column |
| CONSTRAINTS (PRIMARY KEY) | INCLUDING | left out; its columns stay NOT NULL | an error | not allowed |
| PARTITIONS | INCLUDING | taken, unless the table has its own | an error | not allowed |
| OPTIONS | OVERWRITING | left out | an error | the new value |

Rules: Flink's `MergeTableLikeUtil`, as Flink 2.3.0 answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kvformat.registry.sql.table_definition import TableColumn, TableDefinition

Strategy = Literal["INCLUDING", "EXCLUDING", "OVERWRITING"]
STRATEGIES: tuple[Strategy, ...] = ("INCLUDING", "EXCLUDING", "OVERWRITING")
FEATURES = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_OVERWRITABLE = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_FEATURE_OF = {"physical": "PHYSICAL", "computed": "GENERATED", "metadata": "METADATA"}


def strategies(given: Mapping[str, Strategy]) -> Mapping[str, Strategy]:
    """What is done with each feature, when these are said; raises `ValueError` for what Flink refuses."""
    for feature, strategy in given.items():
        if strategy == "OVERWRITING" and feature not in _OVERWRITABLE:
            raise ValueError(f"OVERWRITING {feature} is not possible, only of {', '.join(_OVERWRITABLE)}")
    rest: Strategy = given.get("ALL", "INCLUDING")
    options: Strategy = given.get("ALL", "OVERWRITING")
    return {**dict.fromkeys(FEATURES, rest), "PHYSICAL": "INCLUDING", "OPTIONS": options, **given}


def merged(base: TableDefinition, own: TableDefinition, given: Mapping[str, Strategy]) -> TableDefinition:
    """The table that has its own parts and those of its base; raises `ValueError` where they don't go together."""
    like = strategies(given)
    columns = _columns(base, own, like)
    key, watermark = base.primary_key, base.watermark
    if like["CONSTRAINTS"] == "EXCLUDING":
        key = None
    if own.primary_key is not None:
        if key is not None:
            raise ValueError("the base table has a PRIMARY KEY already; write EXCLUDING CONSTRAINTS")
        _check_not_null(base, own.primary_key)
        key = own.primary_key
    if like["WATERMARKS"] == "EXCLUDING":
        watermark = None
    if own.watermark is not None:
        if watermark is not None and watermark.column != own.watermark.column:
            raise ValueError(
                f"the base table has a WATERMARK of '{watermark.column}' already; write EXCLUDING WATERMARKS"
            )
        if watermark is not None and like["WATERMARKS"] != "OVERWRITING":
            raise ValueError(f"the base table has a WATERMARK of '{watermark.column}' already{_either('WATERMARKS')}")
        watermark = own.watermark
    elif watermark is not None and watermark.column not in columns:
        raise ValueError(f"the WATERMARK of the base table is of '{watermark.column}', which is left out")
    if own.partition_keys and base.partition_keys and like["PARTITIONS"] != "EXCLUDING":
        raise ValueError("the base table is PARTITIONED BY already; write EXCLUDING PARTITIONS")
    return replace(
        own,
        columns=tuple(columns.values()),
        options=_options(base.options, own.options, like["OPTIONS"]),
        primary_key=key,
        watermark=watermark,
        partition_keys=own.partition_keys or base.partition_keys,
    )


def _columns(base: TableDefinition, own: TableDefinition, like: Mapping[str, Strategy]) -> dict[str, TableColumn]:
    """The base's columns that are taken, then the new ones; one that is overwritten keeps its place."""
    columns = {column.name: column for column in base.columns if like[_FEATURE_OF[column.kind]] != "EXCLUDING"}
    for column in own.columns:
        before = columns.get(column.name)
        if before is not None:
            feature = _FEATURE_OF[column.kind]
            if column.kind == "physical" or before.kind != column.kind:
                raise ValueError(f"a column named '{column.name}' exists in the base table already")
            if like[feature] != "OVERWRITING":
                raise ValueError(f"a column named '{column.name}' exists in the base table already{_either(feature)}")
        columns[column.name] = column
    return columns


def _check_not_null(base: TableDefinition, key: Sequence[str]) -> None:
    for column in base.columns:
        if column.name in key and column.kind == "physical" and column.type is not None and column.type.nullable:
            raise ValueError(f"column '{column.name}' of the PRIMARY KEY is the base table's, and may be NULL there")


def _options(base: Mapping[str, str], own: Mapping[str, str], strategy: Strategy) -> Mapping[str, str]:
    if strategy == "EXCLUDING":
        return own
    if strategy == "INCLUDING" and base.keys() & own.keys():
        raise ValueError(f"the base table has one of the options already{_either('OPTIONS')}")
    return {**base, **own}


def _either(feature: str) -> str:
    return f"; write EXCLUDING {feature} or OVERWRITING {feature}"
