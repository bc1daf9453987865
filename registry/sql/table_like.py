"""CREATE TABLE ... LIKE base: which parts of the base table the new table takes, and what it may override.

    LIKE base (EXCLUDING ALL INCLUDING GENERATED OVERWRITING OPTIONS)

| feature | default | EXCLUDING | INCLUDING, if both have it | OVERWRITING |
| --- | --- | --- | --- | --- |
| physical columns | taken | taken | an error | |
| GENERATED, METADATA (columns) | INCLUDING | left out | an error | the new column, in the old position |
| WATERMARKS | INCLUDING | left out | an error | the new one, of the same column |
| CONSTRAINTS (PRIMARY KEY) | INCLUDING | left out; its columns stay NOT NULL | an error | not allowed |
| PARTITIONS, DISTRIBUTION | INCLUDING | taken, unless the table has its own | an error | not allowed |
| OPTIONS | OVERWRITING | left out | an error | the new value |

Rules: Flink's `MergeTableLikeUtil`, and the answers of Flink 2.3.0.
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


def _strategies(declared: Mapping[str, Strategy]) -> Mapping[str, Strategy]:
    """Return the strategy of each feature; raises `ValueError` for a combination that Flink refuses."""
    for feature, strategy in declared.items():
        if strategy == "OVERWRITING" and feature not in _OVERWRITABLE:
            raise ValueError(f"OVERWRITING {feature} is not allowed, only OVERWRITING of {', '.join(_OVERWRITABLE)}")
    rest: Strategy = declared.get("ALL", "INCLUDING")
    options: Strategy = declared.get("ALL", "OVERWRITING")
    return {**dict.fromkeys(FEATURES, rest), "PHYSICAL": "INCLUDING", "OPTIONS": options, **declared}


def merge_with_base(
    base: TableDefinition, derived: TableDefinition, strategies: Mapping[str, Strategy]
) -> TableDefinition:
    """Return the table `derived` with the parts that it takes from `base`; raises `ValueError` if they conflict.

    `strategies` are those written in the statement, by feature.
    """
    like = _strategies(strategies)
    columns = _columns(base, derived, like)
    key, watermark = base.primary_key, base.watermark
    if like["CONSTRAINTS"] == "EXCLUDING":
        key = None
    if derived.primary_key is not None:
        if key is not None:
            raise ValueError("the base table already has a PRIMARY KEY; write EXCLUDING CONSTRAINTS")
        _check_not_null(base, derived.primary_key)
        key = derived.primary_key
    if like["WATERMARKS"] == "EXCLUDING":
        watermark = None
    if derived.watermark is not None:
        if watermark is not None and watermark.column != derived.watermark.column:
            raise ValueError(
                f"the base table already has a WATERMARK of '{watermark.column}'; write EXCLUDING WATERMARKS"
            )
        if watermark is not None and like["WATERMARKS"] != "OVERWRITING":
            raise ValueError(
                f"the base table already has a WATERMARK of '{watermark.column}'{_exclude_or_overwrite('WATERMARKS')}"
            )
        watermark = derived.watermark
    elif watermark is not None and watermark.column not in columns:
        raise ValueError(f"the WATERMARK of the base table uses the column '{watermark.column}', which is excluded")
    if derived.partition_keys and base.partition_keys and like["PARTITIONS"] != "EXCLUDING":
        raise ValueError("the base table is already PARTITIONED BY; write EXCLUDING PARTITIONS")
    if derived.distribution is not None and base.distribution is not None and like["DISTRIBUTION"] != "EXCLUDING":
        raise ValueError("the base table is already DISTRIBUTED; write EXCLUDING DISTRIBUTION")
    return replace(
        derived,
        columns=tuple(columns.values()),
        options=_options(base.options, derived.options, like["OPTIONS"]),
        primary_key=key,
        watermark=watermark,
        partition_keys=derived.partition_keys or base.partition_keys,
        distribution=base.distribution if derived.distribution is None else derived.distribution,
    )


def _columns(base: TableDefinition, derived: TableDefinition, like: Mapping[str, Strategy]) -> dict[str, TableColumn]:
    """Return the columns taken from the base, then the new ones; an overwritten column keeps its position."""
    columns = {column.name: column for column in base.columns if like[_FEATURE_OF[column.kind]] != "EXCLUDING"}
    for column in derived.columns:
        before = columns.get(column.name)
        if before is not None:
            feature = _FEATURE_OF[column.kind]
            if column.kind == "physical" or before.kind != column.kind:
                raise ValueError(f"a column named '{column.name}' already exists in the base table")
            if like[feature] != "OVERWRITING":
                raise ValueError(
                    f"a column named '{column.name}' already exists in the base table{_exclude_or_overwrite(feature)}"
                )
        columns[column.name] = column
    return columns


def _check_not_null(base: TableDefinition, key: Sequence[str]) -> None:
    for column in base.columns:
        if column.name in key and column.kind == "physical" and column.type is not None and column.type.nullable:
            raise ValueError(
                f"column '{column.name}' of the PRIMARY KEY comes from the base table, where it may be NULL"
            )


def _options(base: Mapping[str, str], derived: Mapping[str, str], strategy: Strategy) -> Mapping[str, str]:
    if strategy == "EXCLUDING":
        return derived
    if strategy == "INCLUDING" and base.keys() & derived.keys():
        raise ValueError(f"the base table already has one of the options{_exclude_or_overwrite('OPTIONS')}")
    return {**base, **derived}


def _exclude_or_overwrite(feature: str) -> str:
    return f"; write EXCLUDING {feature} or OVERWRITING {feature}"
