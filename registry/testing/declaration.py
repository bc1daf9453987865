"""The author's declaration of a format: its options, sample rows, and the rules that it does not follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.format import Format
from kvformat.registry.testing.edges import EDGES, known_type

FormatDirection = Literal["both", "decode", "encode"]
_ROOTS: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR", "BINARY"),
    *("VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND"),
    *("VARIANT", "ARRAY", "MAP", "MULTISET", "ROW"),
)
"""Names that stand for all types of a kind, such as DECIMAL for DECIMAL(10, 2)."""


@dataclass(frozen=True)
class Sample:
    """Sample rows. A format that encodes them and decodes the messages must return equal rows.

    schema: the columns, as DDL in Flink's or Spark's spelling.
    rows: a mapping of column name to value for each row. None is a null row. A MAP may be a dict.
    row_kinds: the kind of each row ('+I', '-U', '+U', '-D'). None means that all rows are inserts.
    options: the format's options for this sample. None means the options of the `Declaration`.
    messages: the exact bytes of each row. A decode-only format needs them. Leave them out if a row may be written in
        several ways.
    metadata: metadata keys to request in addition to the schema's columns. Their values are not compared.
    """

    schema: str
    rows: Sequence[Mapping[str, Any] | None]
    row_kinds: Sequence[str] | None = None
    options: Mapping[str, Any] | None = None
    messages: Sequence[bytes | None] | None = None
    metadata: Sequence[str] = ()


@dataclass(frozen=True)
class Declaration:
    """A format and its author's statements about it. The attributes of a `FormatContract` have the same names.

    format: the identifier of a registered or installed format, or a class.
    options: the options of every sample that does not have options of its own.
    samples: the sample rows.
    direction: 'both', or 'decode' or 'encode' for a format with only this direction.
    types: the types to test with edge values, in any spelling of a schema. The default are the types that the kit
        lists. Empty for a format that takes its schema from elsewhere.
    unsupported: types that the format refuses. An entry also covers all types that contain it, such as 'MAP'.
    most_columns: the maximum number of columns of a schema. None means any number.
    changed_values: edge values that decode to another value: type, then the value's text, then the decoded text.
    unlike_wider: integer types whose bytes differ from those of the next wider type, as in Avro. Such bytes, read as
        the wider type, may be any number.
    changed_reads: values that change when they are read as another type: 'DOUBLE as INT', then the value's text, then
        the decoded text. Flink's json has `{"DOUBLE as INT": {"7.9": "7"}}`.
    untyped: why a value may become any other value when it is read as another type. Avro's bytes, for example, do not
        store their type.
    by_position: whether columns are matched by position, as in csv, instead of by name.
    null_is_row: whether a null message is a row of nulls, as in Flink's raw, instead of no row.
    null_is_error: whether a null message is an error, as in Flink's protobuf, instead of no row.
    skipped: messages that the format skips on purpose, with the first sample's schema.
    bad: messages that are errors with the first sample's schema, such as truncated and malformed ones. Every format
        that decodes needs some. The kit finds further ones itself.
    never_bad: why no message is an error, for a format that accepts any bytes.
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
        """Convert all types to the kit's spelling. Raises `ConfigurationError` for a text that is not a type."""
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
        raise ConfigurationError(f"the test kit's 'changed_reads' has the key {text!r}; write it as 'DOUBLE as INT'")
    return f"{known_type(written)} as {known_type(read)}"
