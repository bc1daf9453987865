"""The fast reader: runs a plan's actions for all messages of a batch at once.

It refuses unusual messages and leaves them to the exact reader. Their partly read values are replaced. For all other
messages, both readers give the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.bounds import added_per_item
from kvformat.codecs._avro.columns import (
    ArrayPart,
    IndexedPart,
    ItemLists,
    Nulls,
    Numbers,
    Part,
    Structs,
    item_type,
    scatter,
)
from kvformat.codecs._avro.cursors import AvroBatch, CursorNumbers, Cursors, decode_longs, is_too_long, read_varints
from kvformat.codecs._avro.leaves import (
    BytesLeaf,
    EnumLeaf,
    FixedLeaf,
    FixedWidthLeaf,
    Leaf,
    NullLeaf,
    PartReader,
    VarintLeaf,
    number_skipper,
)
from kvformat.codecs._avro.resolve import (
    Action,
    Array,
    ByteString,
    Constant,
    Enum,
    Fail,
    Map,
    Null,
    Number,
    Plan,
    Record,
    Skip,
    Step,
    ToBranch,
    Union,
)
from kvformat.codecs._avro.schema import MAX_DECIMAL128, Schema
from kvformat.codecs._columnar import Ints, MessageNumbers, Positions, ranges
from kvformat.registry.contract.cache import cached_by_identity

_FEW: Final = 24
"""With fewer messages, the exact reader is faster."""
_MANY_ITEMS: Final = 4
"""Numbers per message above which it is faster to find the ends of all numbers first."""
_MOST_SEARCHED: Final = 2**24
"""Bytes of a batch up to which the ends of all numbers are found; they take eight times the memory."""
_MOST_BRANCHES: Final = 64
"""Branches of a union whose index fits into one byte."""
_U = np.uint64


@cached_by_identity
def fast_reader(plan: Plan) -> PartReader:
    """Return the part reader of a plan. Cached."""
    return _UnlessFew(_compile(plan.action, plan.reader.arrow_type))


class _UnlessFew(PartReader):
    """Leaves few messages to the exact reader."""

    def __init__(self, node: PartReader) -> None:
        self._node = node

    def read_part(self, cursors: Cursors) -> Part:
        if len(cursors) < _FEW:
            cursors.refuse_all()
            return Nulls(len(cursors))
        return self._node.read_part(cursors)


class _Refuse(PartReader):
    """Refuses all messages: for errors and for types that only the exact reader supports."""

    def read_part(self, cursors: Cursors) -> Part:
        cursors.refuse_all()
        return Nulls(len(cursors))


class _Default(PartReader):
    """Gives the default of a field that the message does not have."""

    def __init__(self, value: object, kind: pa.DataType) -> None:
        self._value = pa.array([value], kind)

    def read_part(self, cursors: Cursors) -> Part:
        return Nulls(len(cursors)) if self._value.null_count else ArrayPart(self._value, len(cursors))


class _Record(PartReader):
    """Reads fields in the writer's order and puts them in the reader's order."""

    def __init__(self, steps: Sequence[tuple[PartReader, int | None]], count: int) -> None:
        self._steps, self._count = steps, count

    def read_part(self, cursors: Cursors) -> Part:
        parts: list[Part] = [Nulls(len(cursors))] * self._count
        for node, target in self._steps:
            part = node.read_part(cursors)
            if target is not None:
                parts[target] = part
        return Structs(tuple(parts), len(cursors))


class _Into(PartReader):
    """Reads a value into one branch of a reader's union that is a struct in Arrow."""

    def __init__(self, node: PartReader, target: int, count: int) -> None:
        self._node, self._target, self._count = node, target, count

    def read_part(self, cursors: Cursors) -> Part:
        parts: list[Part] = [Nulls(len(cursors))] * self._count
        parts[self._target] = self._node.read_part(cursors)
        return Structs(tuple(parts), len(cursors))


class _Optional(PartReader):
    """Reads a union of null and a leaf."""

    def __init__(self, leaf: Leaf, null_index: int) -> None:
        self._leaf = leaf
        self._null, self._some = np.uint8(2 * null_index), np.uint8(2 - 2 * null_index)

    def read_part(self, cursors: Cursors) -> Part:
        branch = cursors.batch.bytes[cursors.pos]
        valid = branch == self._some
        if valid.all():
            return self._leaf.read_values(cursors, 1, None)
        invalid = (branch != self._null) & ~valid
        if invalid.any():
            cursors.refuse(invalid)
        return self._leaf.read_values(cursors, 1, valid)


class _Union(PartReader):
    """Reads any union, branch by branch: each for the messages that have it. Without a type, skips the union."""

    def __init__(self, branches: Sequence[PartReader], kind: pa.DataType | None) -> None:
        self._branches, self._type = branches[:_MOST_BRANCHES], kind

    def read_part(self, cursors: Cursors) -> Part:
        index = cursors.batch.bytes[cursors.pos]
        cursors.move(1, 1)
        parts: list[IndexedPart] = []
        for number, node in enumerate(self._branches):
            here = index == 2 * number
            if here.all():
                return node.read_part(cursors)
            if here.any():
                where = CursorNumbers(np.flatnonzero(here))
                some = cursors.select(where)
                parts.append((where, node.read_part(some)))
                cursors.rejoin(where, some)
        others = ((index & 1) == 1) | (index >= 2 * len(self._branches))
        if others.any():
            cursors.refuse(others)
        if self._type is None:
            return Nulls(len(cursors))
        return scatter(parts, len(cursors), self._type, cursors.batch)


class _Blocks(PartReader):
    """Reads the items of arrays and maps: the first item of every message, then the second, and so on.

    When only few messages have items left, it leaves them to the exact reader. Without a type, it skips the items, and
    skips blocks with a size in bytes at once.
    """

    def __init__(self, item: PartReader, least_size: int, kind: pa.DataType | None, added: int = 0) -> None:
        self._item, self._least_size, self._added = item, least_size, added
        self._item_type = None if kind is None else item_type(kind)

    def read_part(self, cursors: Cursors) -> Part:
        cursors.check()
        total = np.zeros(len(cursors), np.int64)
        runs: list[_Run] = []
        where = CursorNumbers(np.arange(len(cursors)))
        some = cursors.select(where)
        left = self._read_block_count(some)
        while True:
            going = CursorNumbers(np.flatnonzero(left))
            if len(going) < len(where):
                cursors.rejoin(where, some)
                if not len(going):
                    break
                some, where, left = some.select(going), CursorNumbers(where[going]), left[going]
            if len(where) < _FEW:
                some.refuse_all()
                cursors.rejoin(where, some)
                break
            part, count = self._read_items(some, left)
            runs.append(_Run(where, total[where], count, part))
            total[where] += count
            left = self._items_left(some, left, count)
        return Nulls(len(cursors)) if self._item_type is None else self._make_lists(total, runs, cursors.batch)

    def _read_items(self, some: Cursors, left: Ints) -> tuple[Part, Ints]:
        """Read one item of every message, or the rest of the block if its items are numbers or have one width."""
        if self._item.width and isinstance(self._item, Leaf):
            width = self._item.width
            begin, some.pos = some.pos, Positions(some.pos + width * left)
            if self._item_type is None:
                return Nulls(0), left
            within = np.arange(int(left.sum())) - np.repeat(np.cumsum(left) - left, left)
            return self._item.take(some, Positions(np.repeat(begin, left) + width * within)), left
        many = int(left.sum()) >= _MANY_ITEMS * len(left) and some.batch.size <= _MOST_SEARCHED
        if many and isinstance(self._item, VarintLeaf):
            return self._read_varints(self._item, some, left)
        part = self._item.read_part(some)
        some.check()
        return part, np.ones(len(left), np.int64)

    def _read_varints(self, item: VarintLeaf, some: Cursors, left: Ints) -> tuple[Part, Ints]:
        """Read all ints or longs that are left in the block. Each ends at a byte without the top bit."""
        last = some.batch.last_bytes
        first = np.searchsorted(last, some.pos)
        final = first + left - 1
        stop = last[np.minimum(final, len(last) - 1)] + 1
        bad = (final >= len(last)) | (stop > some.end)
        count = np.where(bad, 0, left)
        ends = last[ranges(first, count)] + 1
        starts = np.empty_like(ends)
        starts[1:] = ends[:-1]
        begins = np.cumsum(count) - count
        starts[begins[count > 0]] = some.pos[count > 0]
        messages, stops = MessageNumbers(np.repeat(some.message, count)), Positions(np.repeat(some.end, count))
        items = Cursors(some.batch, messages, Positions(starts), stops)
        some.jump(Positions(np.where(bad, some.pos, stop)), bad)
        return item.read_part(items) if len(items) else Numbers(np.zeros(0, np.int64)), count

    def _items_left(self, some: Cursors, left: Ints, count: Ints) -> Ints:
        """Return how many items are left in each block, after `count` were read. Starts the next block after an end."""
        left = left - count
        refused = some.batch.refused[some.message]
        if refused.any():
            left[refused] = 0
        ended = CursorNumbers(np.flatnonzero(left == 0))
        if len(ended) == len(left):
            return self._read_block_count(some)
        if len(ended):
            rest = some.select(ended)
            left[ended] = self._read_block_count(rest)
            some.rejoin(ended, rest)
        return left

    def _read_block_count(self, cursors: Cursors) -> Ints:
        """Read the item count of every message's next block: 0 at the end, and for a refused message."""
        counts = self._read_long(cursors)
        sized = CursorNumbers(np.flatnonzero(counts < 0))
        if len(sized):
            if self._item_type is None:
                self._skip_sized_blocks(cursors, counts, sized)
            else:
                some = cursors.select(sized)
                self._read_long(some)  # the size in bytes, which is not needed
                cursors.rejoin(sized, some)
                counts[sized] = -counts[sized]
        room = cursors.end - cursors.pos
        if self._least_size > 1:
            room //= self._least_size
        bad = (counts < 0) | (counts > room if self._least_size else counts > 0)
        if self._added:
            bad |= cursors.batch.added_too_much(cursors.message, np.where(bad, 0, counts) * self._added)
        if bad.any():
            cursors.refuse(bad)
        refused = cursors.batch.refused[cursors.message]
        if refused.any():
            counts[refused] = 0
        return counts

    def _read_long(self, cursors: Cursors) -> Ints:
        number, length = read_varints(cursors, 0, None)
        counts = decode_longs(number)
        wrong = is_too_long(length, is_int=False)
        cursors.move(length, 10)
        if wrong is not None:
            cursors.refuse(wrong)
            counts[wrong] = 0
        cursors.check()
        return counts

    def _skip_sized_blocks(self, cursors: Cursors, counts: Ints, sized: CursorNumbers) -> None:
        """Skip blocks with a size in bytes, up to the count of the next block without a size."""
        while len(sized):
            some = cursors.select(sized)
            if len(sized) < _FEW:
                some.refuse_all()
                cursors.rejoin(sized, some)
                counts[sized] = 0
                return
            size = self._read_long(some)
            bad = (size < 0) | (size > some.end - some.pos)
            some.jump(Positions(some.pos + np.where(bad, 0, size)), bad)
            counts[sized] = self._read_long(some)
            cursors.rejoin(sized, some)
            sized = CursorNumbers(sized[counts[sized] < 0])

    def _make_lists(self, total: Ints, runs: list[_Run], batch: AvroBatch) -> Part:
        first = np.cumsum(total) - total
        parts = [(ranges(first[run.where] + run.before, run.count), run.part) for run in runs]
        return ItemLists(total, scatter(parts, int(total.sum()), self._item_type, batch))


@dataclass(frozen=True, slots=True)
class _Run:
    """Items that were read together.

    where: the cursors of their messages. before: how many items each message had before. count: how many items of
    each message were read.
    """

    where: CursorNumbers
    before: Ints
    count: Ints
    part: Part


class _Entry(PartReader):
    """Reads the key and the value of a map entry."""

    def __init__(self, value: PartReader) -> None:
        self._key, self._value = BytesLeaf(), value

    def read_part(self, cursors: Cursors) -> Part:
        key = self._key.read_part(cursors)
        return Structs((key, self._value.read_part(cursors)), len(cursors))


# --- compiling -----------------------------------------------------------------------------------------------


def _compile(action: Action, kind: pa.DataType) -> PartReader:
    """Return the part reader of an action whose values have this Arrow type."""
    match action:
        case Null():
            return NullLeaf()
        case Number():
            return VarintLeaf(action) if action.writer in ("int", "long") else FixedWidthLeaf(action)
        case ByteString():
            return _bytes_reader(action)
        case Enum():
            return EnumLeaf(action.texts)
        case Constant():
            return _Default(action.value, kind)
        case Fail():
            return _Refuse()
        case Skip():
            return _skipper(action.schema)
        case Record():
            return _record_reader(action, kind)
        case Array():
            return _Blocks(_compile(action.item, kind.value_type), action.least_size, kind, added_per_item(action))
        case Map():
            return _Blocks(_Entry(_compile(action.value, kind.item_type)), 1, kind, added_per_item(action))
        case Union():
            return _union_reader([_compile(branch, kind) for branch in action.branches], kind)
        case ToBranch():
            target = kind.get_field_index(action.branch)
            return _Into(_compile(action.action, kind[target].type), target, kind.num_fields)


def _bytes_reader(action: ByteString) -> PartReader:
    if action.decimal is not None and action.decimal.precision > MAX_DECIMAL128:
        return _Refuse()
    return BytesLeaf(action.decimal) if action.size is None else FixedLeaf(action.size, action.decimal)


def _record_reader(action: Record, kind: pa.DataType) -> PartReader:
    places = {field.name: index for index, field in enumerate(kind)}
    steps = [_field_reader(step, places, kind) for step in action.steps]
    for name, default in action.defaults.items():
        steps.append((_compile(default, kind[places[name]].type), places[name]))
    return _Record(steps, kind.num_fields)


def _field_reader(step: Step, places: dict[str, int], kind: pa.DataType) -> tuple[PartReader, int | None]:
    if step.target is None:
        return _compile(step.action, pa.null()), None
    return _compile(step.action, kind[places[step.target]].type), places[step.target]


def _union_reader(branches: list[PartReader], kind: pa.DataType | None) -> PartReader:
    if len(branches) == 2:
        for null_index, leaf in enumerate(reversed(branches)):
            if isinstance(leaf, Leaf) and isinstance(branches[null_index], NullLeaf):
                return _Optional(leaf, null_index)
    return _Union(branches, kind)


def _skipper(schema: Schema) -> PartReader:
    """Return the part reader that skips a value of the schema."""
    if schema.is_recursive:
        return _Refuse()
    if schema.type == "null":
        return NullLeaf()
    if schema.type in ("string", "bytes"):
        return BytesLeaf()
    if schema.type == "fixed":
        return FixedLeaf(schema.size)
    if schema.type == "record":
        return _Record([(_skipper(f.schema), None) for f in schema.fields], 0)
    if schema.type == "union":
        return _union_reader([_skipper(branch) for branch in schema.branches], None)
    if schema.items is not None:
        return _Blocks(_skipper(schema.items), schema.items.least_size, None)
    if schema.values is not None:
        return _Blocks(_Entry(_skipper(schema.values)), 1, None)
    return number_skipper("int" if schema.type == "enum" else schema.type)
