"""What the author of a format says about it: how it is made, rows that it must keep, and what it does not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kvformat.registry.format import Format
from kvformat.registry.testing.edges import EDGES

FormatDirection = Literal["both", "decode", "encode"]


@dataclass(frozen=True)
class Sample:
    """Rows that a format must keep: encoded and decoded again they are as they were.

    schema: the columns, as DDL in Flink's or Spark's spelling.
    rows: a mapping of column name to value for each row; None is a null row. A MAP may be a dict.
    row_kinds: the kind of each row ('+I', '-U', '+U', '-D'), None for inserts.
    options: those of the format for this sample, None for those that all samples have.
    messages: the bytes that each row is, if they are to be just these. A format that only reads needs them. One that
        writes a row in several ways leaves them out.
    metadata: keys of metadata whose columns are asked for beside the rows; their values are not compared.
    """

    schema: str
    rows: Sequence[Mapping[str, Any] | None]
    row_kinds: Sequence[str] | None = None
    options: Mapping[str, Any] | None = None
    messages: Sequence[bytes | None] | None = None
    metadata: Sequence[str] = ()


@dataclass(frozen=True)
class Declaration:
    """A format and what its author says about it; the attributes of a `FormatContract` have the same names.

    format: the identifier of a format that is registered or installed, or a class.
    options: those that every sample gets that has none of its own.
    samples: rows that the format must keep.
    direction: 'both', or the one that a format has that only reads or only writes.
    types: the Flink types whose edges are tried; by default all that the kit knows. Empty for a format whose schema is
        given elsewhere.
    unsupported: of these the ones that the format refuses, by their text or by a type in them, such as 'MAP'.
    most_columns: how many columns a schema may have, None for any number.
    changed_values: edges that come out as another value: type, then the value's text, then the text that it becomes.
    unlike_wider: types of integers whose bytes are not those of the next wider type, as in Avro: one read as the
        other may be any number.
    null_is_row: whether a null message is a row of nulls, as with Flink's raw, and not nothing.
    null_is_error: whether a null message is an error, as with Flink's protobuf, and not nothing.
    skipped: messages from which the format makes no row on purpose, with the first sample's schema.
    bad: messages that are errors with the first sample's schema; the kit finds further ones by itself.
    """

    format: str | type[Format]
    options: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    direction: FormatDirection = "both"
    types: Sequence[str] = tuple(EDGES)
    unsupported: Sequence[str] = ()
    most_columns: int | None = None
    changed_values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unlike_wider: Sequence[str] = ()
    null_is_row: bool = False
    null_is_error: bool = False
    skipped: Sequence[bytes] = ()
    bad: Sequence[bytes] = ()
