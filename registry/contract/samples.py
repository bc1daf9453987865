"""Samples of messages, and the answers of a format: the messages that it recognizes and the columns it proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from kvformat.registry.contract.types import FlinkField, quoted

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class MessageSample:
    """Some of the values, or of the keys, of a topic.

    values: the messages, None for a null one.
    keys: the keys of the records, one for each message; None if they are unknown.
    cut: a description of the messages that the sample omits; empty if it is complete.
    part: whether `values` are values or keys of records.
    registry: options of a format such as `avro-confluent` that name a schema registry; empty without one. They may have
        secrets, so `repr` omits them.
    framed: the indices of values before which the id of a schema was put that was in a header of the record.
    """

    values: tuple[bytes | None, ...]
    keys: tuple[bytes | None, ...] | None = None
    cut: str = ""
    part: Literal["key", "value"] = "value"
    registry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    framed: frozenset[int] = frozenset()
    _results: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def array(self) -> pa.BinaryArray:
        """Return the messages as a binary array, the input of `decode_batch`."""
        return pa.array(self.values, pa.binary())

    def only(self, indices: Sequence[int]) -> MessageSample:
        """Return the sample with only the messages at these indices."""
        values = tuple(self.values[index] for index in indices)
        keys = None if self.keys is None else tuple(self.keys[index] for index in indices)
        framed = frozenset(place for place, index in enumerate(indices) if index in self.framed)
        return replace(self, values=values, keys=keys, framed=framed)

    def indexed(self) -> Iterator[tuple[int, bytes]]:
        """Yield index and bytes of each message that is neither null nor blank."""
        return ((i, value) for i, value in enumerate(self.values) if value is not None and value.strip())

    def present(self) -> Iterator[bytes]:
        """Yield the messages that are neither null nor blank."""
        return (value for _, value in self.indexed())

    def computed(self, function: Callable[[MessageSample], _Result]) -> _Result:
        """Return the cached result of a function of the sample. All formats share the cache."""
        if function not in self._results:
            self._results[function] = function(self)
        result: _Result = self._results[function]
        return result


@dataclass(frozen=True)
class SchemaProposal:
    """Columns that read the messages of a sample.

    fields: the columns, with Flink types.
    options: options of the format that the messages need, without a prefix. `repr` omits them: they may have secrets.
    primary_key: the columns of the key, if the messages name them.
    notes: sentences about guesses, conflicts and columns that are left out.
    unreadable: why no format reads these messages; empty if one does.
    """

    fields: tuple[FlinkField, ...]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    primary_key: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unreadable: str = ""

    @property
    def ddl(self) -> str:
        """The columns as a list of Flink SQL, for the `schema` arguments of the library."""
        return columns_text(self.fields)


@dataclass(frozen=True)
class Recognition:
    """Messages of a sample that a format recognizes, with the confidence.

    messages: the indices of the messages in `MessageSample.values`.
    confidence: from 0 to 1. Each message goes to the format with the highest confidence.
    description: what the messages are; it continues the text "3 of 5 messages".
    options: options of the format that reading them needs, without a prefix. `repr` omits them: they may have secrets.
    specificity: decides between equal confidences. 0 is for a syntax that other formats use, too, such as JSON or text.
    notes: sentences for the user. They are shown for every format that reads the messages.
    format: the format that reads the messages, if it differs from the format that recognizes them.
    marks_deletes: whether a field of the messages marks deleted rows, so that no null message is needed.
    without_key: used instead if the keys of the records do not identify the changed rows; None if the messages need
        no key.
    adapt: changes the columns that the format proposes for the messages.
    """

    messages: tuple[int, ...]
    confidence: float
    description: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    specificity: int = 2
    notes: tuple[str, ...] = ()
    format: str = ""
    marks_deletes: bool = False
    without_key: Recognition | None = None
    adapt: Callable[[SchemaProposal], SchemaProposal] | None = None


def columns_text(columns: tuple[FlinkField, ...]) -> str:
    """Return the columns as a list of Flink SQL, without parentheses."""
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
