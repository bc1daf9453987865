"""The fast reader: a plan's actions for all messages of a batch at once.

A message that does anything unusual is refused and left to the exact reader; what was read of it until then is
overwritten. A message that is not refused has exactly the exact reader's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._avro.bounds import added_per_item
from kvformat.codecs._avro.columns import ItemLists, Made, Nulls, Numbers, Part, Placed, Structs, item_type, place
from kvformat.codecs._avro.cursors import AvroBatch, LaneNumbers, Lanes, is_too_long, longs, varint
from kvformat.codecs._avro.leaves import (
    BytesLeaf,
    FixedLeaf,
    Leaf,
    NullLeaf,
    PartReader,
    SymbolLeaf,
    WholeLeaf,
    WidthLeaf,
    skip_number,
)
from kvformat.codecs._avro.resolve import (
    Action,
    Array,
    Branches,
    ByteString,
    Constant,
    Fail,
    Into,
    Map,
    Null,
    Number,
    Plan,
    Record,
    Skip,
    Step,
    Symbol,
)
from kvformat.codecs._avro.schema import MAX_DECIMAL128, Schema
from kvformat.codecs._columnar import ByteArray, Ints, MessageNumbers, Positions, spread
from kvformat.registry.contract.cache import cached_by_identity

_FEW: Final = 24
"""Messages for which one step for all of them costs more than the exact reader does for each."""
_MANY_ITEMS: Final = 4
"""Numbers per message from which on finding where they all end is worth it."""
_MOST_SEARCHED: Final = 2**24
"""Bytes of a batch in which that is done; it takes eight times the memory."""
_MOST_BRANCHES: Final = 64
"""Branches of a union whose index is one byte."""
_U = np.uint64


@cached_by_identity
def fast_reader(plan: Plan) -> PartReader:
    """The compiled form of a plan."""
    return _Few(_compiled(plan.action, plan.reader.arrow_type))


class _Few(PartReader):
    """Leaves it to the exact reader where there is little to read."""

    def __init__(self, node: PartReader) -> None:
        self._node = node

    def read(self, lanes: Lanes) -> Part:
        if len(lanes) < _FEW:
            lanes.refuse_all()
            return Nulls(len(lanes))
        return self._node.read(lanes)


class _Refuse(PartReader):
    """Whatever the exact reader does better, errors above all."""

    def read(self, lanes: Lanes) -> Part:
        lanes.refuse_all()
        return Nulls(len(lanes))


class _Default(PartReader):
    """A value that is not in the message."""

    def __init__(self, value: object, kind: pa.DataType) -> None:
        self._value = pa.array([value], kind)

    def read(self, lanes: Lanes) -> Part:
        return Nulls(len(lanes)) if self._value.null_count else Made(self._value, len(lanes))


class _Record(PartReader):
    """Fields in the writer's order, each to its place in the reader's."""

    def __init__(self, steps: Sequence[tuple[PartReader, int | None]], count: int) -> None:
        self._steps, self._count = steps, count

    def read(self, lanes: Lanes) -> Part:
        parts: list[Part] = [Nulls(len(lanes))] * self._count
        for node, target in self._steps:
            part = node.read(lanes)
            if target is not None:
                parts[target] = part
        return Structs(tuple(parts), len(lanes))


class _Into(PartReader):
    """A value for one branch of a reader's union that is a struct."""

    def __init__(self, node: PartReader, target: int, count: int) -> None:
        self._node, self._target, self._count = node, target, count

    def read(self, lanes: Lanes) -> Part:
        parts: list[Part] = [Nulls(len(lanes))] * self._count
        parts[self._target] = self._node.read(lanes)
        return Structs(tuple(parts), len(lanes))


class _Optional(PartReader):
    """A union of null and a leaf."""

    def __init__(self, leaf: Leaf, null_index: int) -> None:
        self._leaf = leaf
        self._null, self._some = np.uint8(2 * null_index), np.uint8(2 - 2 * null_index)

    def read(self, lanes: Lanes) -> Part:
        branch = lanes.batch.bytes[lanes.pos]
        valid = branch == self._some
        if valid.all():
            return self._leaf.read_at(lanes, 1, None)
        odd = (branch != self._null) & ~valid
        if odd.any():
            lanes.refuse(odd)
        return self._leaf.read_at(lanes, 1, valid)


class _Union(PartReader):
    """Any union: each branch is read for the messages that chose it. Without a type, it is gone over."""

    def __init__(self, branches: Sequence[PartReader], kind: pa.DataType | None) -> None:
        self._branches, self._type = branches[:_MOST_BRANCHES], kind

    def read(self, lanes: Lanes) -> Part:
        index = lanes.batch.bytes[lanes.pos]
        lanes.move(1, 1)
        parts: list[Placed] = []
        for number, node in enumerate(self._branches):
            here = index == 2 * number
            if here.all():
                return node.read(lanes)
            if here.any():
                where = LaneNumbers(np.flatnonzero(here))
                some = lanes.select(where)
                parts.append((where, node.read(some)))
                lanes.rejoin(where, some)
        self._refuse_others(lanes, index)
        if self._type is None:
            return Nulls(len(lanes))
        return place(parts, len(lanes), self._type, lanes.batch)

    def _refuse_others(self, lanes: Lanes, index: ByteArray) -> None:
        others = ((index & 1) == 1) | (index >= 2 * len(self._branches))
        if others.any():
            lanes.refuse(others)


class _Blocks(PartReader):
    """The items of arrays and maps: the first of every message, then the second, and so on.

    Messages that still have items when few others do are left to the exact reader. Without a type, they are gone over,
    and blocks that tell their size in one step.
    """

    def __init__(self, item: PartReader, least_size: int, kind: pa.DataType | None, added: int = 0) -> None:
        self._item, self._least_size, self._added = item, least_size, added
        self._item_type = None if kind is None else item_type(kind)

    def read(self, lanes: Lanes) -> Part:
        lanes.check()
        total = np.zeros(len(lanes), np.int64)
        runs: list[_Run] = []
        where = LaneNumbers(np.arange(len(lanes)))
        some = lanes.select(where)
        left = self._next_block(some)
        while True:
            going = LaneNumbers(np.flatnonzero(left))
            if len(going) < len(where):
                lanes.rejoin(where, some)
                if not len(going):
                    break
                some, where, left = some.select(going), LaneNumbers(where[going]), left[going]
            if len(where) < _FEW:
                some.refuse_all()
                lanes.rejoin(where, some)
                break
            part, count = self._read_items(some, left)
            runs.append(_Run(where, total[where], count, part))
            total[where] += count
            left = self._after(some, left, count)
        return Nulls(len(lanes)) if self._item_type is None else self._put_together(total, runs, lanes.batch)

    def _read_items(self, some: Lanes, left: Ints) -> tuple[Part, Ints]:
        """An item of every message, or all that are left in the block if they have one width."""
        if self._item.width and isinstance(self._item, Leaf):
            width = self._item.width
            begin, some.pos = some.pos, Positions(some.pos + width * left)
            if self._item_type is None:
                return Nulls(0), left
            within = np.arange(int(left.sum())) - np.repeat(np.cumsum(left) - left, left)
            return self._item.take(some, Positions(np.repeat(begin, left) + width * within)), left
        many = int(left.sum()) >= _MANY_ITEMS * len(left) and some.batch.size <= _MOST_SEARCHED
        if many and isinstance(self._item, WholeLeaf):
            return self._numbers(self._item, some, left)
        part = self._item.read(some)
        some.check()
        return part, np.ones(len(left), np.int64)

    def _numbers(self, item: WholeLeaf, some: Lanes, left: Ints) -> tuple[Part, Ints]:
        """All ints or longs that are left in the block: each ends at a byte whose top bit is not set."""
        last = some.batch.last_bytes
        first = np.searchsorted(last, some.pos)
        final = first + left - 1
        stop = last[np.minimum(final, len(last) - 1)] + 1
        bad = (final >= len(last)) | (stop > some.end)
        count = np.where(bad, 0, left)
        ends = last[spread(first, count)] + 1
        starts = np.empty_like(ends)
        starts[1:] = ends[:-1]
        begins = np.cumsum(count) - count
        starts[begins[count > 0]] = some.pos[count > 0]
        messages, stops = MessageNumbers(np.repeat(some.message, count)), Positions(np.repeat(some.end, count))
        items = Lanes(some.batch, messages, Positions(starts), stops)
        some.jump(Positions(np.where(bad, some.pos, stop)), bad)
        return item.read(items) if len(items) else Numbers(np.zeros(0, np.int64)), count

    def _after(self, some: Lanes, left: Ints, count: Ints) -> Ints:
        """How many items are left after some were read, of the next block where one is at its end."""
        left = left - count
        refused = some.batch.refused[some.message]
        if refused.any():
            left[refused] = 0
        ended = LaneNumbers(np.flatnonzero(left == 0))
        if len(ended) == len(left):
            return self._next_block(some)
        if len(ended):
            rest = some.select(ended)
            left[ended] = self._next_block(rest)
            some.rejoin(ended, rest)
        return left

    def _next_block(self, lanes: Lanes) -> Ints:
        """How many items the next block of every message has; 0 at the end and where the message is refused."""
        counts = self._count(lanes)
        sized = LaneNumbers(np.flatnonzero(counts < 0))
        if len(sized):
            if self._item_type is None:
                self._pass_over_sized(lanes, counts, sized)
            else:
                some = lanes.select(sized)
                self._count(some)  # the size, which is not looked at
                lanes.rejoin(sized, some)
                counts[sized] = -counts[sized]
        room = lanes.end - lanes.pos
        if self._least_size > 1:
            room //= self._least_size
        bad = (counts < 0) | (counts > room if self._least_size else counts > 0)
        if self._added:
            bad |= lanes.batch.added_too_much(lanes.message, np.where(bad, 0, counts) * self._added)
        if bad.any():
            lanes.refuse(bad)
        refused = lanes.batch.refused[lanes.message]
        if refused.any():
            counts[refused] = 0
        return counts

    def _count(self, lanes: Lanes) -> Ints:
        number, length = varint(lanes, 0, None)
        counts = longs(number)
        wrong = is_too_long(length, is_int=False)
        lanes.move(length, 10)
        if wrong is not None:
            lanes.refuse(wrong)
            counts[wrong] = 0
        lanes.check()
        return counts

    def _pass_over_sized(self, lanes: Lanes, counts: Ints, sized: LaneNumbers) -> None:
        """Go over blocks that tell their size, to the count of the next block that doesn't."""
        while len(sized):
            some = lanes.select(sized)
            if len(sized) < _FEW:
                some.refuse_all()
                lanes.rejoin(sized, some)
                counts[sized] = 0
                return
            size = self._count(some)
            bad = (size < 0) | (size > some.end - some.pos)
            some.jump(Positions(some.pos + np.where(bad, 0, size)), bad)
            counts[sized] = self._count(some)
            lanes.rejoin(sized, some)
            sized = LaneNumbers(sized[counts[sized] < 0])

    def _put_together(self, total: Ints, runs: list[_Run], batch: AvroBatch) -> Part:
        first = np.cumsum(total) - total
        parts = [(spread(first[run.where] + run.before, run.count), run.part) for run in runs]
        return ItemLists(total, place(parts, int(total.sum()), self._item_type, batch))


@dataclass(frozen=True, slots=True)
class _Run:
    """Items that were read together: of which messages, how many those had before, and how many items each."""

    where: LaneNumbers
    before: Ints
    count: Ints
    part: Part


class _Entry(PartReader):
    """A key and a value."""

    def __init__(self, value: PartReader) -> None:
        self._key, self._value = BytesLeaf(), value

    def read(self, lanes: Lanes) -> Part:
        key = self._key.read(lanes)
        return Structs((key, self._value.read(lanes)), len(lanes))


# --- compiling -----------------------------------------------------------------------------------------------


def _compiled(action: Action, kind: pa.DataType) -> PartReader:
    """The node of an action whose values have this Arrow type."""
    match action:
        case Null():
            return NullLeaf()
        case Number():
            return WholeLeaf(action) if action.writer in ("int", "long") else WidthLeaf(action)
        case ByteString():
            return _bytes_node(action)
        case Symbol():
            return SymbolLeaf(action.texts)
        case Constant():
            return _Default(action.value, kind)
        case Fail():
            return _Refuse()
        case Skip():
            return _skipping(action.schema)
        case Record():
            return _record_node(action, kind)
        case Array():
            return _Blocks(_compiled(action.item, kind.value_type), action.least_size, kind, added_per_item(action))
        case Map():
            return _Blocks(_Entry(_compiled(action.value, kind.item_type)), 1, kind, added_per_item(action))
        case Branches():
            return _union_node([_compiled(branch, kind) for branch in action.branches], kind)
        case Into():
            target = kind.get_field_index(action.branch)
            return _Into(_compiled(action.action, kind[target].type), target, kind.num_fields)


def _bytes_node(action: ByteString) -> PartReader:
    if action.decimal is not None and action.decimal.precision > MAX_DECIMAL128:
        return _Refuse()
    return BytesLeaf(action.decimal) if action.size is None else FixedLeaf(action.size, action.decimal)


def _record_node(action: Record, kind: pa.DataType) -> PartReader:
    places = {field.name: index for index, field in enumerate(kind)}
    steps = [_step_node(step, places, kind) for step in action.steps]
    for name, default in action.defaults.items():
        steps.append((_compiled(default, kind[places[name]].type), places[name]))
    return _Record(steps, kind.num_fields)


def _step_node(step: Step, places: dict[str, int], kind: pa.DataType) -> tuple[PartReader, int | None]:
    if step.target is None:
        return _compiled(step.action, pa.null()), None
    return _compiled(step.action, kind[places[step.target]].type), places[step.target]


def _union_node(branches: list[PartReader], kind: pa.DataType | None) -> PartReader:
    if len(branches) == 2:
        for null_index, leaf in enumerate(reversed(branches)):
            if isinstance(leaf, Leaf) and isinstance(branches[null_index], NullLeaf):
                return _Optional(leaf, null_index)
    return _Union(branches, kind)


def _skipping(schema: Schema) -> PartReader:
    """The node that goes over a value of the schema."""
    if schema.is_recursive:
        return _Refuse()
    if schema.type == "null":
        return NullLeaf()
    if schema.type in ("string", "bytes"):
        return BytesLeaf()
    if schema.type == "fixed":
        return FixedLeaf(schema.size)
    if schema.type == "record":
        return _Record([(_skipping(f.schema), None) for f in schema.fields], 0)
    if schema.type == "union":
        return _union_node([_skipping(branch) for branch in schema.branches], None)
    if schema.items is not None:
        return _Blocks(_skipping(schema.items), schema.items.least_size, None)
    if schema.values is not None:
        return _Blocks(_Entry(_skipping(schema.values)), 1, None)
    return skip_number("int" if schema.type == "enum" else schema.type)
