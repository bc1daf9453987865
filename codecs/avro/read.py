"""Reads batches of messages: makes the kernel's columns for a reader's schema, and its readers for a plan.

The columns have the reader's Arrow type. The readers of all plans of one reader's schema fill the same columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel import avro, avro_wire, count_messages
from kvformat.codecs._kernel import avro_codes as codes
from kvformat.codecs._kernel.avro_columns import Choices, FixedBytes, RepairedTexts
from kvformat.codecs._kernel.columns import Booleans, Column, Decimals, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.protobuf_columns import Pairs
from kvformat.codecs._kernel.text_columns import Binaries
from kvformat.codecs.avro.bounds import added_per_item
from kvformat.codecs.avro.decimals import BigDecimalReading, DecimalReading
from kvformat.codecs.avro.errors import PLACED, decimal_error, describe, path_words
from kvformat.codecs.avro.resolve import (
    Action,
    Array,
    ByteString,
    Choice,
    Constant,
    Enum,
    Fail,
    Map,
    Null,
    Number,
    Record,
    Skip,
    Union,
)
from kvformat.codecs.avro.schema import Schema
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.types import FlinkType

_ANY: Final = FlinkType("RAW")
"""The columns do not use Flink's type, because their Arrow type is that of an Avro schema."""
_MOST_READERS: Final = 256
"""Writers' schemas whose readers are kept for a reader's schema."""
_RANGE: Final = {"int": 2**31, "long": 2**63}
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_FIXED_WIDTH: Final = {
    ("boolean", "boolean"): codes.BOOLEAN,
    ("float", "float"): codes.SINGLE,
    ("float", "double"): codes.SINGLE_AS_DOUBLE,
    ("double", "double"): codes.DOUBLE,
}


@dataclass(frozen=True, eq=False)
class ColumnNode:
    """A column for an Arrow type, and those inside of it: of fields, of items, or of keys and values."""

    kind: pa.DataType
    column: Column
    children: tuple[ColumnNode, ...] = ()

    def field(self, name: str) -> ColumnNode:
        """Return the column of a struct's field."""
        at: int = self.kind.get_field_index(name)
        return self.children[at]


def make_columns(kind: pa.DataType) -> ColumnNode:
    """Make the columns of an Arrow type."""
    if pa.types.is_struct(kind):
        fields = tuple(make_columns(field.type) for field in kind)
        return ColumnNode(kind, Rows(_ANY, kind, kind.names, [field.column for field in fields]), fields)
    if pa.types.is_map(kind):
        key, item = make_columns(kind.key_type), make_columns(kind.item_type)
        return ColumnNode(kind, Pairs(_ANY, kind, key.column, item.column), (key, item))
    if pa.types.is_list(kind):
        item = make_columns(kind.value_type)
        return ColumnNode(kind, Lists(_ANY, kind, item.column), (item,))
    return ColumnNode(kind, _scalars(kind))


def _scalars(kind: pa.DataType) -> Column:
    if pa.types.is_boolean(kind):
        return Booleans(_ANY, kind, bool)
    if pa.types.is_string(kind):
        return RepairedTexts(_ANY, kind)
    if pa.types.is_binary(kind):
        return Binaries(_ANY, kind)
    if pa.types.is_fixed_size_binary(kind):
        return FixedBytes(_ANY, kind)
    if pa.types.is_decimal(kind):
        return Decimals(_ANY, kind, Decimal)
    stored = "u4" if kind == pa.float32() else f"i{kind.bit_width // 8}"  # floating-point numbers are kept as bits
    return Int64Column(_ANY, kind, None, stored)


# --- readers -------------------------------------------------------------------------------------------------


class ReaderMaker:
    """Makes the readers of a plan's actions.

    A reader is made once for each action and path, because schemas may use a record in many places. A path leads to
    one column.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ColumnNode | None, tuple[str, ...], int], avro_wire.AvroReader] = {}
        self._skippers: dict[int, avro_wire.AvroReader] = {}

    def reader(
        self, action: Action, node: ColumnNode | None, path: tuple[str, ...] = (), null_branch: int = -1
    ) -> avro_wire.AvroReader:
        """Return the reader of an action. `node` is None for values that are skipped.

        path: the names of the fields around the value. null_branch: see `AvroReader`.
        """
        key = (id(action), node, path, null_branch)
        if key not in self._known:
            reader = self._reader(action, node, path)
            if null_branch >= 0:
                reader.null_branch = null_branch
            self._known[key] = reader
        return self._known[key]

    def _reader(self, action: Action, node: ColumnNode | None, path: tuple[str, ...]) -> avro_wire.AvroReader:
        if isinstance(action, Fail):
            return avro.FailReader(ErrorCode.INCOMPATIBLE_SCHEMA, action.reason)
        if isinstance(action, Skip):
            return self.skipper(action.schema)
        assert node is not None
        column: Any = node.column
        match action:
            case Null():
                return avro.NullReader(column)
            case Number():
                return _number_reader(action, column)
            case ByteString():
                return _bytes_reader(action, column)
            case Enum():
                unknown = [
                    (ErrorCode.INCOMPATIBLE_SCHEMA, f"No match for {name} in the reader's enum")
                    if text is None
                    else None
                    for text, name in zip(action.texts, action.names, strict=True)
                ]
                return avro.EnumReader(column, list(action.texts), unknown)
            case Constant():
                value = _put_form(action.value, node.kind)
                return avro.NullReader(column) if value is None else avro.DefaultReader(column, value)
            case Record():
                return self._record(action, column, node, path)
            case Array():
                item = self.reader(action.item, node.children[0], (*path, "element"))
                words, added = path_words((*path, "element")), added_per_item(action)
                return avro.ArrayReader(column, item, words, least_size=action.least_size, added=added)
            case Map():
                key, inside = avro.ByteStringReader(column.keys), (*path, "value")
                item = self.reader(action.value, node.children[1], inside)
                return avro.MapReader(column, key, item, path_words(inside), added=added_per_item(action))
            case Union():
                return self._union(action, node, path)
            case Choice():
                value = self.reader(action.action, node.children[action.number], path)
                return avro.ChoiceReader(column, action.number, value)

    def _record(self, action: Record, column: Rows, node: ColumnNode, path: tuple[str, ...]) -> avro_wire.AvroReader:
        parts = [(step.target or step.name, step.target, step.action) for step in action.steps]
        parts += [(name, name, default) for name, default in action.defaults.items()]
        paths = [(*path, name) for name, _, _ in parts]
        readers = [
            self.reader(inner, None if target is None else node.field(target), at)
            for (_, target, inner), at in zip(parts, paths, strict=True)
        ]
        return avro.RecordReader(column, readers, [path_words(at) for at in paths])

    def _union(self, action: Union, node: ColumnNode, path: tuple[str, ...]) -> avro_wire.AvroReader:
        branches = action.branches
        if len(branches) == 2:
            for index, null in enumerate(branches):
                other = branches[1 - index]
                if isinstance(null, Null) and not isinstance(other, Null | Fail):
                    return self.reader(other, node, path, 2 * index)
        return avro.UnionReader([self.reader(branch, node, path) for branch in branches])

    def skipper(self, schema: Schema) -> avro_wire.AvroReader:
        """Return the reader that skips a value of a schema. The schema may contain itself."""
        known = self._skippers.get(id(schema))
        if known is not None:
            return known
        plain = _plain_skipper(schema)
        skipper: avro_wire.AvroReader
        if plain is not None:
            skipper = plain
        elif schema.type == "record":
            record = skipper = self._skippers[id(schema)] = avro_wire.RecordSkipper()
            record.fill([self.skipper(field.schema) for field in schema.fields])
        elif schema.type == "union":
            union = skipper = self._skippers[id(schema)] = avro_wire.UnionSkipper()
            union.fill([self.skipper(branch) for branch in schema.branches])
        elif schema.items is not None or schema.values is not None:
            keyed = schema.values is not None
            item: Any = schema.values if keyed else schema.items
            blocks = skipper = self._skippers[id(schema)] = avro_wire.BlocksSkipper(
                item.least_size + keyed, keyed=keyed
            )
            blocks.fill(self.skipper(item))
        else:
            skipper = avro_wire.FixedSkipper(_WIDTHS.get(schema.type, schema.size))
        self._skippers[id(schema)] = skipper
        return skipper


def _plain_skipper(schema: Schema) -> avro_wire.AvroReader | None:
    """Return a reader that skips a text, a number, or a union of one of them and null. None for other schemas."""
    if schema.type in ("string", "bytes"):
        return avro_wire.BytesSkipper()
    if schema.type in ("int", "long", "enum"):
        return avro_wire.NumberSkipper(is_int=schema.type != "long")
    types = [branch.type for branch in schema.branches]
    if len(types) != 2 or "null" not in types:
        return None
    null = types.index("null")
    skipper = _plain_skipper(schema.branches[1 - null])
    if skipper is not None:
        skipper.null_branch = 2 * null
    return skipper


def _number_reader(action: Number, column: Any) -> avro_wire.AvroReader:
    if action.writer not in _RANGE:
        return avro.FixedWidthReader(column, _FIXED_WIDTH[action.writer, action.reader])
    is_int = action.writer == "int"
    if action.reader not in _RANGE:
        how = codes.AS_SINGLE if action.reader == "float" else codes.AS_DOUBLE
        return avro.IntegerReader(column, how, action.reader, is_int=is_int)
    if action.times == action.divisor == 1:
        return avro.IntegerReader(column, codes.PLAIN, action.reader, is_int=is_int)
    bound = _RANGE[action.reader]
    # the numbers n with -bound <= n * times // divisor < bound
    least = -(bound * action.divisor // action.times)
    most = (bound * action.divisor - 1) // action.times
    return avro.IntegerReader(
        column,
        codes.SCALED,
        action.reader,
        is_int=is_int,
        times=action.times,
        divisor=action.divisor,
        least=max(least, -_RANGE["long"]),
        most=min(most, _RANGE["long"] - 1),
    )


def _bytes_reader(action: ByteString, column: Any) -> avro_wire.AvroReader:
    if action.decimal is not None:
        if isinstance(action.decimal, BigDecimalReading):
            return avro.DecimalReader(column, -1, action.decimal.value, decimal_error, most=-1, times=1, divisor=1)
        return _decimal_reader(action.decimal, -1 if action.size is None else action.size, column)
    return avro.ByteStringReader(column) if action.size is None else avro.FixedReader(column, action.size)


def _decimal_reader(reading: DecimalReading, size: int, column: Any) -> avro_wire.AvroReader:
    times = 10 ** max(reading.scale - reading.written_scale, 0)
    divisor = 10 ** max(reading.written_scale - reading.scale, 0)
    most = min(10**reading.precision - 1, _RANGE["long"] - 1) // times
    return avro.DecimalReader(
        column,
        size,
        reading.value,
        decimal_error,
        most=min(most * divisor, _RANGE["long"] - 1),
        times=times,
        divisor=divisor,
    )


def _put_form(value: Any, kind: pa.DataType) -> Any:
    """Return a default as the columns' `put` takes it: floating-point numbers as their bits."""
    if value is None:
        return None
    if kind == pa.float32():
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.uint32))
    if kind == pa.float64():
        return struct.unpack("<q", struct.pack("<d", value))[0]
    if pa.types.is_struct(kind):
        return {field.name: _put_form(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_put_form(key, kind.key_type), _put_form(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [_put_form(item, kind.value_type) for item in value]
    if pa.types.is_string(kind):
        return value.encode("utf-8", "replace").decode()  # JSON can write lone surrogates, UTF-8 can't
    return value


# --- batches -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoded:
    """The result of reading a batch.

    values: array of the reader's Arrow type with one value per message. Null for a null message, a message with an
        error, and the datum null. Or one list of values per message: see `read_batch`.
    errors, codes: string arrays with the error text and the `ErrorCode` of each message, null for a message without an
        error. None if there are no errors.
    """

    values: pa.Array
    errors: pa.StringArray | None
    codes: pa.StringArray | None


class BatchColumns:
    """The columns of a reader's schema, and the readers of its plans. `make_root` makes the columns."""

    def __init__(self, make_root: Callable[[], ColumnNode]) -> None:
        self._make_root = make_root
        self._start()

    def _start(self) -> None:
        self._root = self._make_root()
        self._batch = avro.AvroBatch(self._root.column, PLACED, describe)
        self._numbers: dict[int, tuple[Action, int]] = {}

    @property
    def root(self) -> Column:
        """The column of the values."""
        return self._root.column

    def chosen(self) -> list[pa.Array]:
        """Return the values of the columns of `Choices`."""
        return [node.column.finish() for node in self._root.children]

    def numbers(self, plans: Sequence[Action]) -> list[int]:
        """Return the number of each plan's reader in the batch."""
        if len(self._numbers.keys() | {id(plan) for plan in plans}) > max(_MOST_READERS, len(plans)):
            self._start()
        return [self._number(plan) for plan in plans]

    def _number(self, plan: Action) -> int:
        entry = self._numbers.get(id(plan))
        if entry is None:
            reader = ReaderMaker().reader(plan, self._root)
            entry = self._numbers[id(plan)] = plan, self._batch.add_reader(reader)
        return entry[1]

    def read(
        self, messages: pa.BinaryArray, plans: Sequence[Action], which: Any, start: int, *, with_nulls: bool
    ) -> Decoded:
        """Read the datum of each message. Arguments and result are those of `read_batch`."""
        numbers = np.array([*self.numbers(plans), -1], np.int64)
        of_messages: Any = np.full(len(messages), numbers[0]) if which is None else numbers[which]
        values = self._batch.read_batch(messages, of_messages, start, with_nulls=with_nulls)
        return Decoded(values, *self._batch.errors())


@cached_by_identity
def _columns_of(reader: Schema) -> Guarded[BatchColumns]:
    return Guarded(lambda: BatchColumns(lambda: make_columns(reader.arrow_type)))


def read_batch(
    messages: pa.BinaryArray,
    plans: Sequence[Action],
    reader: Schema,
    which: Any = None,
    start: int = 0,
    *,
    with_nulls: bool = True,
) -> Decoded:
    """Read the datum of each message.

    reader: the reader's schema of all plans. which: for each message the index of its plan, -1 to skip the message; or
    None if there is one plan. start: bytes before each datum. with_nulls: whether each message has one value; otherwise
    it has a list of at most one value, which is null for a null message, a skipped message and a message with an error,
    and empty for the datum null.
    """
    count_messages(len(messages))
    with _columns_of(reader).use() as columns:  # the columns grow in place
        return columns.read(messages, plans, which, start, with_nulls=with_nulls)


class ChoiceBatch:
    """Reads batches of datums that each fill one of several columns. `kinds` are the Arrow types of the columns."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        def root() -> ColumnNode:
            nodes = tuple(make_columns(kind) for kind in kinds)
            return ColumnNode(pa.int32(), Choices(_ANY, pa.int32(), [node.column for node in nodes]), nodes)

        self._columns = Guarded(lambda: BatchColumns(root))

    def read(
        self, messages: pa.BinaryArray, plans: Sequence[Choice], which: Any, start: int
    ) -> tuple[Decoded, list[pa.Array]]:
        """Return a list for each message, with the number of the column that it fills, and the values of each column.

        The arguments and the lists are those of `read_batch`.
        """
        count_messages(len(messages))
        with self._columns.use() as columns:
            return columns.read(messages, plans, which, start, with_nulls=False), columns.chosen()
