"""What Avro messages of a schema registry contribute to their tables, by the schemas of their ids.

A message whose schema is not known or not supported contributes nothing: decoding reports its error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.columns import columns_of_schema
from kvformat.codecs.avro.datums import AvroDatums
from kvformat.codecs.avro.schema import Schema, branch_of, records_of
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.findings import Findings, schema_contributions
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.look import Looked, LookRequest, TableName
from kvformat.registry.contract.types import FlinkField, FlinkType

Types = Mapping[str, FlinkType]
"""The types of columns, by their names."""


class SchemaColumns:
    """The columns of schemas by `columns`, which is asked once for each; none if no table can have them."""

    def __init__(self, columns: Callable[[Schema], Types]) -> None:
        self._columns = columns
        self._known: dict[str, Types] = {}  # by the text of the schema

    def of(self, schema: Schema) -> Types:
        """Return the types of the columns of a schema."""
        if schema.text not in self._known:
            try:
                self._known[schema.text] = self._columns(schema)
            except SchemaError:
                self._known[schema.text] = {}
        return self._known[schema.text]


class SchemaContributions:
    """What the messages of a batch contribute by the schemas of their ids.

    columns: returns the columns of the rows of a table in a schema, for each of its records.
    ids: the id of each message, -1 if it has none. writers: the schemas by id. filled: which messages have bytes.
    """

    def __init__(
        self,
        messages: pa.BinaryArray,
        datums: AvroDatums,
        request: LookRequest,
        columns: Callable[[Schema, TableName], Sequence[Types]],
    ) -> None:
        self.findings = Findings(len(messages), request)
        self.filled = np.asarray(pc.fill_null(pc.greater(pc.binary_length(messages), 0), False))
        ids, self.writers = datums.writers(messages, self.filled)
        self.ids: list[int] = ids.tolist()
        self._request, self._columns = request, columns
        self._done: dict[tuple[int, int], Reason | None] = {}

    def add(self, message: int, name: TableName) -> None:
        """Give a message its table, and the table the columns of the message's schema."""
        table, writer = self.findings.table(name), self.writers.get(self.ids[message])
        key = table.number, self.ids[message]
        if key not in self._done:
            types = () if writer is None else self._columns(writer, name)
            columns = chain.from_iterable(of_record.items() for of_record in types)
            self._done[key] = table.add(message, list(schema_contributions(columns, table, self._request)))
        error = self._done[key]
        if error is None:
            self.findings.set_table(message, table)
        else:
            self.findings.fail(message, error)


class AvroLooker:
    """Looks at messages of rows, whose tables are named by their topics; see `Looker`.

    by_record: whether a union has the rows of the table of its name, and not those of all its records.
    """

    def __init__(self, datums: AvroDatums, request: LookRequest, *, by_record: bool) -> None:
        self._datums, self._request, self._by_record = datums, request, by_record
        self._known = SchemaColumns(lambda schema: {column.name: column.type for column in avro_columns(schema)})

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        batch = SchemaContributions(messages, self._datums, self._request, self._columns)
        present = np.asarray(messages.is_valid())
        for index, topic in enumerate(topics.to_pylist()):
            if present[index] and topic is not None:
                batch.add(index, (topic,))
        return batch.findings.looked()

    def _columns(self, writer: Schema, name: TableName) -> list[Types]:
        records = [branch_of(writer, name[0])] if self._by_record else records_of(writer)
        return [self._known.of(record) for record in records]


def avro_columns(schema: Schema) -> tuple[FlinkField, ...]:
    """Return the columns of a record schema. Raises `SchemaError` for any other schema."""
    return columns_of_schema(schema, {"schema": ""}, Notes()).fields
