"""`debezium-avro-confluent`: one change of a row per message, in Avro whose schema is in a schema registry.

    00  00 00 00 01  02  00  02 02 0e  02 02 63      `00`, the schema's id, and the datum, a record in a union with
                                                     null: before (null), after ({"id": 7}), op ("c")

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  no rows

The datum is read and written as format `avro-confluent` reads and writes a row of `before`, `after` and `op`. All three
are read for every operation. Other fields of a connector (`source`, `ts_ms`) are skipped. The format writes only these
three, and an update as a deletion and a creation. With `flattened`, the datum is the row alone, and fields beside its
columns say what was done to it.
Rules: Flink's "Debezium Format" page, its `DebeziumAvroDeserializationSchema` and `DebeziumAvroSerializationSchema`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._avro import Schema, parse_schema
from kvformat.codecs._avro.table import read_values
from kvformat.codecs._avro.types import provided_schema, row_of_schema, schema_text
from kvformat.codecs._changes.envelope import DELETE, INSERT, KINDS, UPDATE_AFTER, UPDATE_BEFORE
from kvformat.codecs._changes.other_messages import ERROR, OTHER_MESSAGES, find_by_members
from kvformat.codecs._changes.reading_only import check_reading_only
from kvformat.codecs._changes.row_plan import RowPlan, join_parts
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs._changes.upsert import MODE_OPTION, NO_KEY_HINT, ChangeDataFormat
from kvformat.codecs._columnar import validity
from kvformat.codecs._confluent.format import ConfluentTable, RegistryFormat
from kvformat.codecs._debezium import flattened_avro
from kvformat.codecs._debezium.connect_schema import ConnectSchema, image_schema_from_avro, is_mongodb_schema
from kvformat.codecs._debezium.hints import MONGODB_HINT, NO_BEFORE_HINT
from kvformat.codecs._debezium.options import (
    AVRO_TYPE_OPTIONS,
    DEBEZIUM,
    FLATTENED,
    check_types,
    modes_of,
)
from kvformat.codecs._debezium.other_messages import OTHER_BY_MEMBERS, OTHER_BY_OPERATION
from kvformat.codecs._debezium.value_readings import ConnectorModes, flink_misreads, plan_row
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DebeziumTypesWarning, OptionError, SchemaError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType

_Mask = npt.NDArray[np.bool_]

_ROWS = {
    "c": (("after", INSERT),),
    "r": (("after", INSERT),),
    "u": (("before", UPDATE_BEFORE), ("after", UPDATE_AFTER)),
    "d": (("before", DELETE),),
}
"""The rows of each operation: the field that has the row, and the row's kind."""
_UPSERT_ROWS = {**_ROWS, "u": (("after", UPDATE_AFTER),)}
"""The rows of each operation with 'changelog.mode' = 'upsert'."""
_IMAGES = ("before", "after")
_NEEDED_BY = {"c": "a creation", "r": "a snapshot's row", "u": "an update", "d": "a deletion"}


class DebeziumAvroConfluentFormat(ChangeDataFormat, RegistryFormat):
    """The `debezium-avro-confluent` format."""

    identifier: ClassVar[str] = "debezium-avro-confluent"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *RegistryFormat.option_specs,
        *AVRO_TYPE_OPTIONS,
        OTHER_MESSAGES,
        MODE_OPTION,
        *UNCHANGED_OPTIONS,
        FLATTENED,
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs._infer.avro_schemas import recognize_debezium_avro

        return recognize_debezium_avro(sample)

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs._infer.avro_schemas import propose_debezium_avro

        return propose_debezium_avro(sample, self._given, self)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options[FLATTENED.name]:
            self.changelog_mode = ChangelogMode.UPSERT
            self.nulls_delete = True
        if self.options["types"] == DEBEZIUM:
            self.time_digits = 6  # a CREATE TABLE declares at most three, as in Flink, but databases have six

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_types(self, direction)
        check_reading_only(
            self, direction, FLATTENED, "whole changes", ". Rows alone are written by format avro-confluent"
        )
        if self.options["schema"] is not None and (self.options["types"] == DEBEZIUM or self.options[FLATTENED.name]):
            option = "types' = 'debezium" if self.options["types"] == DEBEZIUM else "flattened' = 'true"
            raise OptionError(
                f"with '{option}' values are read by their writer's schema: leave the option 'schema' out",
                format=self.identifier,
                option="schema",
            )

    def table(self, schema: pa.Schema) -> ConfluentTable:
        return _table(schema, self.options["schema"])

    def check(self, provided: Schema, row: FlinkType) -> None:
        _check(provided, row)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        row = row_type(schema)
        present = np.asarray(messages.is_valid())
        filled = np.asarray(pc.fill_null(pc.greater(pc.binary_length(messages), 0), False))
        if self.options[OTHER_MESSAGES.name] != ERROR:
            filled = filled & ~self._skipped(messages, row, filled)
        if not filled.all():
            messages = pc.if_else(pa.array(filled), messages, pa.scalar(None, pa.binary()))
        flat = self.options[FLATTENED.name]

        def on_writer(writer: Schema) -> None:
            if self.options["types"] != DEBEZIUM:
                _warn_of_types(row, writer, flat)

        if flat or self.options["types"] == DEBEZIUM:
            batch = self._decode_by_schemas(messages, row, present, filled, on_writer)
        else:
            batch = self._decoded(messages, self.table(schema), present, filled, on_writer)
        if batch.errors is not None and not flat:
            batch = self._with_mongodb_hints(batch, messages, filled)
        return batch if self.unchanged is None else self.unchanged.apply(batch, [field.name for field in row.fields])

    def _skipped(self, messages: pa.BinaryArray, row: FlinkType, filled: _Mask) -> _Mask:
        """The messages that are skipped because of their schema, which does not have an operation."""
        ids, writers = self.writers(messages, filled)
        setting, skipped = self.options[OTHER_MESSAGES.name], []
        for schema_id, writer in writers.items():
            if self.options[FLATTENED.name]:
                other = flattened_avro.other_message_of(writer, row, OTHER_BY_MEMBERS)
            else:
                other = find_by_members(OTHER_BY_MEMBERS, {field.name: field for field in writer.fields})
            if other is not None and other.is_skipped(setting):
                skipped.append(schema_id)
        return np.isin(ids, skipped)

    def _decoded(
        self,
        messages: pa.BinaryArray,
        table: ConfluentTable,
        present: _Mask,
        filled: _Mask,
        on_writer: Callable[[Schema], None] | None = None,
    ) -> DecodedBatch:
        decoded = self.decode_datums(messages, table.schema, filled, on_writer, with_nulls=True)
        envelopes, errors = read_values(decoded, table.row, micros_as_millis=False)
        bare = self.upsert and self.row_key is not None and self.row_key.in_record
        others = self.options[OTHER_MESSAGES.name]
        return _Changes(
            envelopes, errors, present, filled, others=others, upsert=self.upsert, bare_deletes=bare
        ).decoded()

    def _decode_by_schemas(
        self,
        messages: pa.BinaryArray,
        row: FlinkType,
        present: _Mask,
        filled: _Mask,
        on_writer: Callable[[Schema], None],
    ) -> DecodedBatch:
        """Decode messages by their writers' schemas; messages whose columns are read alike are decoded together."""
        typed, flat = self.options["types"] == DEBEZIUM, self.options[FLATTENED.name]
        modes = modes_of(self.options) if typed else None
        ids, writers = self.writers(messages, filled)
        found: dict[str, _Reading] = {}
        which = np.zeros(len(ids), np.int64)  # messages without a schema go with any reading
        for schema_id, writer in writers.items():
            reading = _reading(row, writer, modes, flat)
            found.setdefault(reading.name, reading)
            which[ids == schema_id] = list(found).index(reading.name)
        parts = []
        for number, reading in enumerate(found.values() or [_reading(row, None, modes, flat)]):
            at = np.flatnonzero(which == number)
            some = messages if len(at) == len(ids) else messages.take(pa.array(at))
            if flat:
                batch = self._flat(some, reading, len(row.fields), present[at], filled[at], on_writer)
            else:
                batch = self._decoded(some, reading.table, present[at], filled[at], on_writer)
            parts.append((at, batch if reading.plan is None else reading.plan.apply(batch)))
        return parts[0][1] if len(parts) == 1 else join_parts(parts)

    def _flat(
        self,
        messages: pa.BinaryArray,
        reading: _Reading,
        columns: int,
        present: _Mask,
        filled: _Mask,
        on_writer: Callable[[Schema], None],
    ) -> DecodedBatch:
        """Decode messages that are rows alone."""
        decoded = self.decode_datums(messages, reading.table.schema, filled, on_writer, with_nulls=True)
        rows, errors = read_values(decoded, reading.table.row, micros_as_millis=False)
        if reading.refusal:
            refused = pa.scalar(ErrorCode.MISSING_FIELD.marked(reading.refusal))
            nothing = pa.nulls(len(messages), pa.string()) if errors is None else errors
            errors = pc.if_else(pa.array(filled), pc.coalesce(nothing, refused), nothing)
        setting = self.options[OTHER_MESSAGES.name]
        return flattened_avro.decode_flattened(rows, errors, columns, present, filled, OTHER_BY_OPERATION, setting)

    def _with_mongodb_hints(self, batch: DecodedBatch, messages: pa.BinaryArray, filled: _Mask) -> DecodedBatch:
        """The batch with hints at the errors of MongoDB's messages."""
        assert batch.errors is not None
        ids, writers = self.writers(messages, filled)
        mongodb = [schema_id for schema_id, writer in writers.items() if is_mongodb_schema(writer)]
        if not mongodb:
            return batch
        texts: list[str | None] = batch.errors.to_pylist()
        for place in np.flatnonzero(np.isin(ids, mongodb) & np.asarray(batch.errors.is_valid())).tolist():
            texts[place] = str(texts[place]).removesuffix(NO_BEFORE_HINT).removesuffix(NO_KEY_HINT) + MONGODB_HINT
        return replace(batch, errors=pa.array(texts, pa.string()))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        table = self.table(schema)
        deleted = pa.repeat(pa.scalar(False), len(rows))
        if row_kinds is not None:
            deleted = pc.is_in(row_kinds, pa.array([KINDS[UPDATE_BEFORE], KINDS[DELETE]]))
        nothing = pa.scalar(None, rows.type)
        before, after = pc.if_else(deleted, rows, nothing), pc.if_else(deleted, nothing, rows)
        op = pc.if_else(deleted, pa.scalar("d"), pa.scalar("c"))
        envelopes = pa.StructArray.from_arrays(
            [before, after, op], names=[field.name for field in table.row.fields], mask=rows.is_null()
        )
        return self.encode_datums(envelopes, table)


class _Changes:
    """Converts a batch of envelopes to rows with kinds.

    `present` says which messages are not null, `filled` which of them are not empty. `bare_deletes` says that a
    deletion may lack its row.
    """

    def __init__(
        self,
        envelopes: pa.StructArray,
        errors: pa.Array | None,
        present: _Mask,
        filled: _Mask,
        *,
        others: str,
        upsert: bool,
        bare_deletes: bool,
    ) -> None:
        self._rows, self._remedy = (_UPSERT_ROWS, NO_KEY_HINT) if upsert else (_ROWS, NO_BEFORE_HINT)
        self._bare_deletes = bare_deletes
        self._present, self._filled, self._errors = present, filled, errors
        before, after, op = envelopes.flatten()
        self._images = dict(zip(_IMAGES, (before, after), strict=True))
        self._has = {name: np.asarray(image.is_valid()) for name, image in self._images.items()}
        self._envelope = np.asarray(envelopes.is_valid())
        self._op, self._others = op, others
        self._which = np.asarray(pc.fill_null(pc.index_in(op, pa.array(list(_ROWS))), -1))

    def decoded(self) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        errors = self._all_errors()
        good = self._filled if errors is None else self._filled & np.asarray(errors.is_null())
        counts = np.zeros(len(good), np.int64)
        # the index of each message's first row among the images: `before` of all messages, then `after` of all
        first = np.zeros(len(good), np.int64)
        kinds = np.zeros(len(good), np.int64)
        for which, rows in enumerate(self._rows.values()):
            of = good & (self._which == which)
            counts[of], kinds[of] = len(rows), rows[0][1]
            first[of] = np.flatnonzero(of) + _IMAGES.index(rows[0][0]) * len(good)
        offsets = np.zeros(len(good) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        at = np.repeat(first, counts)
        kind = np.repeat(kinds, counts)
        second = offsets[1:][counts == 2] - 1
        at[second] += len(good)
        kind[second] = UPDATE_AFTER
        images = pa.concat_arrays(list(self._images.values())).take(pa.array(at))
        rows_of_all = pa.Array.from_buffers(images.type, len(images), [None], children=images.flatten())
        values = pa.field("item", rows_of_all.type)
        buffers = [validity(self._present if errors is None else self._present & np.asarray(errors.is_null()))]
        buffers.append(pa.py_buffer(offsets))
        lists = pa.Array.from_buffers(pa.list_(values), len(good), buffers, children=[rows_of_all])
        return DecodedBatch(lists, pa.array(KINDS).take(pa.array(kind)), errors)

    def _all_errors(self) -> pa.StringArray | None:
        """The errors of reading, and the errors of envelopes that are not a change."""
        read = self._filled if self._errors is None else self._filled & np.asarray(self._errors.is_null())
        complete = np.zeros(len(read), np.bool_)
        for which, (op, rows) in enumerate(self._rows.items()):
            has = np.logical_and.reduce([self._has[image] for image, _ in rows])
            complete |= (self._which == which) & (has | (op == "d" and self._bare_deletes))
        if self._others != ERROR:
            skipped = [op for op, other in OTHER_BY_OPERATION.items() if other.is_skipped(self._others)]
            complete |= np.asarray(pc.is_in(self._op, pa.array(skipped)))
        bad = np.flatnonzero(read & ~complete)
        if not len(bad):
            return self._errors
        texts = [None] * len(read) if self._errors is None else self._errors.to_pylist()
        for row in bad.tolist():
            texts[row] = self._fault(row)
        return pa.array(texts, pa.string())

    def _fault(self, row: int) -> str:
        """The error of an envelope that is Avro, but not a change."""
        known = ", ".join(f'"{known}"' for known in _ROWS)
        if not self._envelope[row]:
            return ErrorCode.MISSING_FIELD.marked("the message is null in place of a record of before, after and op")
        op = self._op[row].as_py()
        if op is None:
            hint = ". Heartbeats and transactions do not have it: set 'other-messages' to 'skip' to skip them"
            return ErrorCode.MISSING_FIELD.marked(
                f"'op': is missing or null; it must be one of {known}{hint if self._others == ERROR else ''}. "
                "If the messages are rows alone (the transform ExtractNewRecordState), set 'flattened' to true, or "
                "read them as plain rows by format avro-confluent"
            )
        if op not in _ROWS:
            return ErrorCode.UNKNOWN_OPERATION.marked(
                f"'op': unknown value {op!r:.40}; it must be one of {known}, in this spelling"
                f"{OTHER_BY_OPERATION[op].hint() if op in OTHER_BY_OPERATION else ''}"
            )
        image = next(image for image, _ in self._rows[op] if not self._has[image][row])
        remedy = self._remedy if image == "before" else ""
        return ErrorCode.MISSING_FIELD.marked(f"'{image}': is missing or null, but {_NEEDED_BY[op]} needs it{remedy}")


def _envelope(row: FlinkType) -> FlinkType:
    """The type of an envelope: the rows before and after a change, and the operation."""
    image, op = replace(row, nullable=True), FlinkType("VARCHAR", length=MAX_LENGTH)
    return FlinkType("ROW", fields=(*(FlinkField(name, image) for name in _IMAGES), FlinkField("op", op)))


@cached_by_identity
def _table(schema: pa.Schema, provided: str | None) -> ConfluentTable:
    row = _envelope(row_type(schema))
    if provided is None:
        return ConfluentTable(row, parse_schema(schema_text(row, legacy=True, optional=True)))
    given = provided_schema(provided)
    _check(given, row)
    return ConfluentTable(row, given)


class _Reading(NamedTuple):
    """How the messages of a writer's schema are read: as a table of wire values, which the `plan`, if any, converts.

    If there is a `refusal`, the messages are not rows alone, and have this error. `name` is equal for writers whose
    columns are read alike.
    """

    plan: RowPlan | None
    table: ConfluentTable
    refusal: str
    name: str


@cached_by_identity
def _reading(row: FlinkType, writer: Schema | None, modes: ConnectorModes | None, flat: bool) -> _Reading:
    plan, wire, refusal = None, row, ""
    if modes is not None:
        image = None if writer is None else image_schema_from_avro(writer, flat=flat)
        plan = plan_row(row, image or ConnectSchema("struct"), modes, "avro")
        wire = plan.wire
    if not flat:
        wire = _envelope(wire)
    else:
        wire = flattened_avro.add_marks(wire, writer)
        refusal = "" if writer is None else flattened_avro.refusal_of(writer, row, OTHER_BY_MEMBERS)
    schema = parse_schema(schema_text(wire, legacy=True, optional=True))
    return _Reading(plan, ConfluentTable(wire, schema), refusal, f"{plan} {wire.summary()} {refusal}")


@cached_by_identity
def _warn_of_types(row: FlinkType, writer: Schema, flat: bool) -> None:
    """Warn once for each schema about columns for which Flink takes the values for other values."""
    image = image_schema_from_avro(writer, flat=flat)
    for column in row.fields:
        written = None if image is None else image.fields.get(column.name)
        if written is not None and flink_misreads(column.type, written):
            warnings.warn(
                f"format '{DebeziumAvroConfluentFormat.identifier}': column '{column.name}' is "
                f"{column.type.summary()}, but {written} in the schema of its messages. As in Flink, its values are "
                "read as other values. Set 'types' = 'debezium', or declare the column as the number, text or bytes "
                "that the messages have",
                DebeziumTypesWarning,
                stacklevel=3,  # beyond the cache
            )


def _check(provided: Schema, row: FlinkType) -> None:
    """Raise `SchemaError` if the given schema is not exactly that of the envelope."""
    found = row_of_schema(provided)
    if found != row:
        raise SchemaError(
            "Schema provided for 'debezium-avro-confluent' format must be a nullable record type with fields 'before', "
            f"'after', 'op' and schema of fields 'before' and 'after' must match the table schema: {provided.text}. It "
            f"stands for {found.summary()}, the table has {row.summary()}",
            format=DebeziumAvroConfluentFormat.identifier,
        )
