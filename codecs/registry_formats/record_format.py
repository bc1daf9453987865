"""The base class of formats whose messages are rows, and may be of several types in one topic.

record-name = com.shop.Order                      the rows of Order; others are errors, or skipped
record-columns = order:com.shop.Order,refund:...  rows of all named types, each in its own ROW column
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import Ints, Mask, spread, stored_type, validity
from kvformat.codecs.changes.other_messages import ERROR, SKIP
from kvformat.codecs.registries.framing import Reasons, with_errors
from kvformat.codecs.registries.options import IGNORE, ON_NEW_SCHEMA
from kvformat.codecs.registry_formats.format import RegistryFormat
from kvformat.codecs.registry_formats.record_options import (
    BY_RECORD,
    BY_TOPIC,
    BY_TOPIC_AND_RECORD,
    OTHER_MESSAGES,
    RECORD_COLUMNS,
    RECORD_NAME,
    STRATEGIES,
    SUBJECT_STRATEGY,
    TABLES_OF_TYPES,
    TOPIC,
)
from kvformat.codecs.registry_formats.record_types import NAMELESS, RecordTypes, names_of_schema, record_types
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays, reasons_of
from kvformat.registry.contract.errors import OptionError, SchemaError, listed
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.look import Looker, LookRequest, WrittenColumns
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.samples import MessageSample, SchemaProposal, columns_text
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.format import Format

_OTHER, _UNKNOWN = -2, -1


class RecordFormat(RegistryFormat):
    """A format of rows whose types are those of their schemas."""

    writes_unions: ClassVar[bool] = False
    """Whether a schema of the registry that is a union is written, by its branch `record-name`."""

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        subject_strategy = str(options.get(SUBJECT_STRATEGY, BY_TOPIC)).casefold()
        if any(subject_strategy == name.casefold() and strategy != BY_TOPIC for name, strategy in STRATEGIES.items()):
            return {TOPIC: topic, **options}
        return super().complete_options(options, topic=topic, part=part)

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in (RECORD_NAME, RECORD_COLUMNS):
            for key in (key for key in options if key.partition(".")[0] == name):
                raise OptionError(
                    f"the option '{key}' is for a declared table, and here each table gets its columns from messages. "
                    f"Remove it; '{cls.identifier}.{TABLES_OF_TYPES}' = 'true' makes a table of each type of records",
                    format=cls.identifier,
                    option=key,
                )
        return super().look_options(options)

    @abstractmethod
    def decode_records(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        """Decode messages of one type of records."""

    @property
    def record_columns(self) -> Mapping[str, str]:
        """The names of types by the columns that have their rows; empty without the option."""
        return self.options[RECORD_COLUMNS] or {}

    @property
    def reads_schemas(self) -> bool:
        return super().reads_schemas or self.options[RECORD_NAME] is not None or bool(self.record_columns)

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        columns, identifier = self.record_columns, self.identifier
        if columns and self.options[RECORD_NAME] is not None:
            raise OptionError(
                f"format '{identifier}' has the options '{RECORD_NAME}' and '{RECORD_COLUMNS}': the first is for a "
                "table of one type, the second for a table with a column for each type. Remove one of them",
                format=identifier,
                option=RECORD_COLUMNS,
            )
        for name in ("schema", "schema-id"):
            if columns and self.options[name] is not None:
                raise OptionError(
                    f"option '{name}' of format '{identifier}' is for one type of records, and '{RECORD_COLUMNS}' "
                    f"names {len(columns)}. Remove it",
                    format=identifier,
                    option=name,
                )
        twice = [name for name in columns.values() if list(columns.values()).count(name) > 1]
        if twice:
            raise OptionError(
                f"option '{RECORD_COLUMNS}' of format '{identifier}' has several columns for the type {twice[0]}. Give "
                "each type one column",
                format=identifier,
                option=RECORD_COLUMNS,
            )
        if not self.names_subject and self.registry.subject is not None:
            raise OptionError(
                f"format '{identifier}' has the subject '{self.registry.subject}', and '{SUBJECT_STRATEGY}' = "
                f"'{self._strategy}', which makes subjects of the names of types. Remove one of them",
                format=identifier,
                option=SUBJECT_STRATEGY,
            )
        if direction == "encode" and self._strategy == BY_TOPIC_AND_RECORD and self.options[TOPIC] is None:
            raise OptionError(
                f"format '{identifier}' needs the option '{TOPIC}' for '{SUBJECT_STRATEGY}' = '{BY_TOPIC_AND_RECORD}'. "
                "A table with one topic has it",
                format=identifier,
                option=TOPIC,
            )

    @property
    def _strategy(self) -> str:
        return STRATEGIES[self.options[SUBJECT_STRATEGY]]

    # --- proposals ---------------------------------------------------------------------------------------

    @abstractmethod
    def propose_records(self, sample: MessageSample) -> SchemaProposal:
        """Propose columns for messages of one type of records, or of types with the same columns."""

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.registry_formats.record_samples import records_of_type, with_note_of_types

        name, fields, notes = self.options[RECORD_NAME], [], []
        if name is not None:
            return self.propose_records(records_of_type(sample, self, name))
        if not self.record_columns:
            try:
                proposal = self.propose_records(sample)
            except SchemaError as bad:
                names = self.record_types(sample.array()).by_name()
                if len(names) < 2:
                    raise
                how = f"set '{RECORD_NAME}' to one of them, or '{RECORD_COLUMNS}' for all"
                raise SchemaError(
                    f"{bad}. The messages have the types {listed(names)}: {how}", format=self.identifier
                ) from None
            return with_note_of_types(proposal, sample, self) if self.settings.url else proposal
        for column, name in self.record_columns.items():
            proposal = self._of_type(name).propose_schema(sample)
            fields.append(FlinkField(column, FlinkType("ROW", fields=proposal.fields)))
            notes += [f"{column}: {note}" for note in proposal.notes]
        kept = tuple(field for field in fields if field.type.fields)
        return SchemaProposal(kept, self._raw_options, (), tuple(notes))

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.registry_formats.records_discover import RecordLooker

        inner = self.looker_of_records(request)
        return RecordLooker(self, inner) if request.options.get(TABLES_OF_TYPES) else inner

    def looker_of_records(self, request: LookRequest) -> Looker:
        """Return the looker of messages whose tables are named by their topics, or by their types."""
        from kvformat.codecs.registry_formats.written_columns import SchemaLooker

        return SchemaLooker(self, super().looker(request), request)

    def written_columns(self, messages: pa.BinaryArray) -> WrittenColumns | None:
        from kvformat.codecs.registry_formats.written_columns import written_columns

        if not self.settings.url or self.options["schema"] is not None:
            return None
        return written_columns(messages, self)

    # --- reading -----------------------------------------------------------------------------------------

    def decode_framed(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        columns, name = self.record_columns, self.options[RECORD_NAME]
        if not columns and name is None:
            return self.decode_records(messages, schema)
        numbers = self._types_of_columns(row_type(schema)) if columns else [0]
        at_once = self.decode_at_once(messages, row_type(schema)) if columns else None
        if at_once is not None:
            return at_once
        types = self.record_types(messages)
        which, errors = self._wanted(types, list(columns.values()) if columns else [name])
        if columns:
            batch = self._decode_columns(messages, types, which, errors, row_type(schema), numbers)
        else:
            kept = which > _OTHER
            if kept.all():
                return self.decode_records(messages, schema)
            batch = _insert(self.decode_records(messages.filter(pa.array(kept)), schema), kept, errors)
        return batch if errors is None else with_errors(batch, errors)

    def record_types(self, messages: pa.BinaryArray) -> RecordTypes:
        """Return the types of the messages. Raises `SchemaRegistryError`."""
        return record_types(messages, self.framing, self.kind, self.settings, self.identifier)

    def _wanted(self, types: RecordTypes, names: list[str]) -> tuple[Ints, Reasons | None]:
        """Return which of the names each message has, and the errors of messages of other types, None for no errors.

        A message of another type has the number `_OTHER`. It has `_UNKNOWN` if decoding reports why it has no type.
        """
        numbers = [names.index(name) if name in names else _OTHER for name in types.names]
        which: Ints = np.array([*numbers, _UNKNOWN], np.int64)[types.which]
        skips = self.options[OTHER_MESSAGES] != ERROR
        if not types.errors and (skips or _OTHER not in numbers):
            return which, None
        reasons = np.full(len(which), None, object)
        for place, (possible, reason) in types.errors.items():
            which[place] = _OTHER
            reasons[place] = None if skips and possible and not possible & set(names) else reason
        if not skips:
            texts = np.array([self._other_type(types, number, names) for number in range(len(types.names))], object)
            at = np.flatnonzero((which == _OTHER) & (types.which >= 0))
            reasons[at] = texts[types.which[at]]
        return which, reasons

    @staticmethod
    def _other_type(types: RecordTypes, number: int, names: list[str]) -> Reason:
        return Reason(
            ErrorCode.INCOMPATIBLE_SCHEMA,
            f"the message has the type {types.names[number]}, by schema {types.schemas[number]}, and the table has "
            f"records of {listed(names)}. Set '{OTHER_MESSAGES}' = '{SKIP}' to skip messages of other types",
        )

    def decode_at_once(self, messages: pa.BinaryArray, row: FlinkType) -> DecodedBatch | None:
        """Decode messages to rows with a column for each type, if each message is of one of these types.

        Returns None if it can't; then the messages of each type are decoded after each other, with the same result.
        """
        return None

    def _decode_columns(
        self,
        messages: pa.BinaryArray,
        types: RecordTypes,
        which: Ints,
        others: Reasons | None,
        row: FlinkType,
        numbers: list[int],
    ) -> DecodedBatch:
        """Decode messages to rows with a column for each type. The types of the columns have these `numbers`.

        `which` has the number of each message's type, and `others` are the errors of messages of other types.
        """
        columns, names = row.fields or (FlinkField("", row),), [*self.record_columns.values()]
        which = np.where(which == _UNKNOWN, numbers[0], which)  # whose decoder reports the error
        counts = (which != _OTHER).astype(np.int64)  # one row, also for a type whose column is not selected
        if others is not None:
            counts[[reason is not None for reason in others]] = -1
        order = np.argsort(which.astype(np.int16), kind="stable")
        ends = np.searchsorted(which[order], range(-2, max(numbers) + 2))
        by_type, parts = messages.take(pa.array(order)), []
        reasons: Reasons | None = None
        for number, column in zip(numbers, columns, strict=True):
            start, end = ends[number + 2], ends[number + 3]
            own_messages, of_column = by_type.slice(start, end - start), schema_of_column(column.type)
            reader = self if self.options[ON_NEW_SCHEMA] == IGNORE else self._of_type(names[number])
            batch = reader.decode_records(own_messages, of_column)
            counts[order[start:end]] = np.asarray(batch.rows.value_lengths().fill_null(-1))
            if batch.errors is not None:
                reasons = np.full(len(messages), None, object) if reasons is None else reasons
                reasons[order[start:end]] = np.array(reasons_of(batch.errors, batch.codes, len(batch.rows)), object)
            parts.append((number, batch.rows.flatten()))
        decoded = DecodedBatch(beside(parts, which, counts, row))
        return decoded if reasons is None else with_errors(decoded, reasons)

    # --- writing -----------------------------------------------------------------------------------------

    @abstractmethod
    def encode_records(self, rows: pa.StructArray, schema: pa.Schema) -> EncodedBatch:
        """Encode rows as messages of one type of records."""

    @property
    def names_subject(self) -> bool:
        return self._strategy == BY_TOPIC

    def subject_for(self, schema: pa.Schema) -> str | None:
        if self.names_subject:
            return self.registry.subject
        name = self.options[RECORD_NAME] or self._name_of(self.own_schema(schema))
        return name if self._strategy == BY_RECORD else f"{self.options[TOPIC]}-{name}"

    def _name_of(self, schema: RegistrySchema) -> str:
        name, *others = names_of_schema(schema) or (NAMELESS,)
        if others or name == NAMELESS:
            raise SchemaError(
                f"format '{self.identifier}': '{SUBJECT_STRATEGY}' = '{self._strategy}' needs a schema of one type "
                f"with a name (in JSON Schema its title): {schema.text}",
                format=self.identifier,
            )
        return name

    def schema_to_write(self, schema: pa.Schema) -> tuple[int | str, RegistrySchema] | Refused:
        to_write, name = super().schema_to_write(schema), self.options[RECORD_NAME]
        if name is None or isinstance(to_write, Refused):
            return to_write
        names = names_of_schema(to_write[1])
        if name not in names or (len(names) > 1 and not self.writes_unions):
            raise SchemaError(
                f"format '{self.identifier}': the schema to write is that of {listed(names)}, and "
                f"'{RECORD_NAME}' is '{name}'. The schema: {self.settings.scrubbed(to_write[1].text)}",
                format=self.identifier,
            )
        return to_write

    def for_encoding(self, schema: pa.Schema) -> Format:
        if not self.record_columns:
            return super().for_encoding(schema)
        if self.options["register-in-executors"]:
            return self
        for column, writer in self._writers(row_type(schema)):
            writer.for_encoding(schema_of_column(column.type))  # registers the schemas once, and may refuse them
        return type(self)({**self._raw_options, "register-in-executors": "true"})

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        if not self.record_columns:
            return self.encode_records(rows, schema)
        return self._encode_columns(rows, row_type(schema))

    def _encode_columns(self, rows: pa.StructArray, row: FlinkType) -> EncodedBatch:
        writers, columns = self._writers(row), rows.flatten()  # whose values are null in a null row
        valid = [np.asarray(column.is_valid()) for column in columns]
        has_value = np.array(valid, np.bool_).reshape(len(columns), len(rows))
        wrong = (has_value.sum(0) != 1) & np.asarray(rows.is_valid())
        order = np.full(len(rows), -1, np.int64)
        messages: list[pa.BinaryArray] = []
        reasons = np.full(len(rows), None, object)
        for (column, writer), values, mask in zip(writers, columns, has_value, strict=True):
            at = np.flatnonzero(mask & ~wrong)
            order[at] = np.arange(len(at)) + sum(len(part) for part in messages)
            batch = writer.encode_records(values.take(pa.array(at)), schema_of_column(column.type))
            messages.append(batch.messages)
            reasons[at] = np.array(reasons_of(batch.errors, batch.codes, len(at)), object)
        places = pa.array(order, mask=order < 0)
        if wrong.any():
            reasons[wrong] = Reason(
                ErrorCode.WRONG_TYPE,
                f"the row must have a value in one of the columns {listed(self.record_columns)}, and NULL in the "
                "others, because a message has one type",
            )
        in_order = pa.concat_arrays([pa.nulls(0, pa.binary()), *messages]).take(places)
        return EncodedBatch(in_order, *reason_arrays(reasons))

    def _writers(self, row: FlinkType) -> list[tuple[FlinkField, RecordFormat]]:
        """Return the columns, each with the format that writes its type."""
        self._types_of_columns(row)
        return [(column, self._of_type(self.record_columns[column.name])) for column in row.fields]

    def _of_type(self, name: str) -> RecordFormat:
        """Return the format for one of the types of the columns."""
        others = {name: value for name, value in self._raw_options.items() if name.partition(".")[0] != RECORD_COLUMNS}
        return type(self)({**others, RECORD_NAME: name})

    def _types_of_columns(self, row: FlinkType) -> list[int]:
        """Return the number of the type of each column. Raises `SchemaError`."""
        known = list(self.record_columns)
        for column in row.fields:
            if column.name not in known or column.type.root != "ROW":
                how = f"is {column.type}" if column.name in known else f"is not one of its columns {listed(known)}"
                raise SchemaError(
                    f"format '{self.identifier}': column '{column.name}' {how}. With '{RECORD_COLUMNS}', each column "
                    "of the table is a ROW with the fields of one type",
                    format=self.identifier,
                    field=column.name,
                )
        return [known.index(column.name) for column in row.fields] or [0]


def beside(parts: Sequence[tuple[int, pa.StructArray]], which: Ints, counts: Ints, row: FlinkType) -> pa.ListArray:
    """Return rows with a column for each part, null where the rows of a message are those of another part.

    A part has a number, and the rows of the messages with this number in `which`. `counts` has the number of rows of
    each message, -1 for null.
    """
    sizes = np.maximum(counts, 0)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    single = bool((counts == 1).all())
    of_rows = which if single else np.repeat(which, sizes)
    kind = _type_of(row)
    columns = [spread(rows, of_rows == number) for number, rows in parts[: kind.num_fields]]
    values = pa.Array.from_buffers(kind, int(offsets[-1]), [None], children=columns)
    buffers = [None if single else validity(counts >= 0), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(pa.field("element", kind)), len(counts), buffers, children=[values])


def _insert(batch: DecodedBatch, kept: Mask, errors: Reasons | None) -> DecodedBatch:
    """Insert messages without rows into a batch, which has those that are `kept`. Those with an error are null."""
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    of_kept = pa.array(before[1:] - 1, mask=~kept)
    is_valid = np.ones(len(kept), np.bool_) if errors is None else np.array([reason is None for reason in errors])
    is_valid[kept] = np.asarray(batch.rows.is_valid())
    buffers = [validity(is_valid), pa.py_buffer(np.asarray(batch.rows.offsets)[before])]
    rows = pa.Array.from_buffers(batch.rows.type, len(kept), buffers, children=[batch.rows.values])
    all_errors = None if batch.errors is None else batch.errors.take(of_kept)
    return DecodedBatch(rows, None, all_errors, None if batch.codes is None else batch.codes.take(of_kept))


@cached_by_identity
def schema_of_column(row: FlinkType) -> pa.Schema:
    """Return the schema of a table whose columns are the fields of a ROW."""
    return resolve_schema(columns_text(row.fields))


_type_of = cached_by_identity(stored_type)
