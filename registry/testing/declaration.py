"""What the author of a format says about it: how it is made, rows that it must keep, and what it does not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.format import Format
from kvformat.registry.testing.edges import EDGES, known_type

FormatDirection = Literal["both", "decode", "encode"]
_ROOTS: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR", "BINARY"),
    *("VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND"),
    *("ARRAY", "MAP", "MULTISET", "ROW"),
)
"""Words that stand for all types of a kind."""


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
    types: the types whose edges are tried, in any spelling of a schema; by default those that the kit lists. Empty for
        a format whose schema is given elsewhere.
    unsupported: of these the ones that the format refuses, by their text or by a type in them, such as 'MAP'.
    most_columns: how many columns a schema may have, None for any number.
    changed_values: edges that come out as another value: type, then the value's text, then the text that it becomes.
    unlike_wider: types of integers whose bytes are not those of the next wider type, as in Avro: one read as the
        other may be any number.
    changed_reads: values of one type that are another value where they are read as another type: 'DOUBLE as INT', then
        the value's text, then the text that it becomes. `{"DOUBLE as INT": {"7.9": "7"}}`, as Flink's json.
    untyped: why a value may be any other one where it is read as another type, as in Avro's bytes, which don't say of
        what type they are.
    by_position: whether columns are found by their order, as in csv, and not by their names.
    null_is_row: whether a null message is a row of nulls, as with Flink's raw, and not nothing.
    null_is_error: whether a null message is an error, as with Flink's protobuf, and not nothing.
    skipped: messages from which the format makes no row on purpose, with the first sample's schema.
    bad: messages that are errors with the first sample's schema, such as torn and malformed ones; every format that
        reads needs some. The kit finds further ones by itself.
    never_bad: why no message is an error, for a format to which any bytes are a row, or nothing.
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
    changed_reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    untyped: str = ""
    by_position: bool = False
    null_is_row: bool = False
    null_is_error: bool = False
    skipped: Sequence[bytes] = ()
    bad: Sequence[bytes] = ()
    never_bad: str = ""

    def __post_init__(self) -> None:
        """Spell all types as the kit does; raises `ConfigurationError` for one that can't be read."""
        spelled = {
            "types": tuple(map(known_type, self.types)),
            "unlike_wider": tuple(map(known_type, self.unlike_wider)),
            "unsupported": tuple(text if text in _ROOTS else known_type(text) for text in self.unsupported),
            "changed_values": {known_type(text): changes for text, changes in self.changed_values.items()},
            "changed_reads": {_known_pair(text): changes for text, changes in self.changed_reads.items()},
        }
        for name, value in spelled.items():
            object.__setattr__(self, name, value)


def _known_pair(text: str) -> str:
    written, word, read = text.partition(" as ")
    if not word:
        raise ConfigurationError(f"'changed_reads' of the test kit has {text!r}; it is written as 'DOUBLE as INT'")
    return f"{known_type(written)} as {known_type(read)}"
