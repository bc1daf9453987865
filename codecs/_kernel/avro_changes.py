"""Changes in Avro: columns with one envelope per message, which become rows with kinds.

The readers of `avro` append the fields of an envelope in the writer's order. The rows before and after the change go to
columns that both share (`Image`). If the record has ended, its operation says which of these rows come out, and with
which kinds (`OperationRows`):

    {"before": null, "after": {...}, "op": "c"}     the row is in `after`
    {"before": {...}, "after": {...}, "op": "u"}    two rows

Usually these are all rows of the batch, in their order. Otherwise `places` says where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.codes import BEFORE
from kvformat.codecs._kernel.columns import Booleans, Column
from kvformat.codecs._kernel.containers import Rows
from kvformat.codecs._kernel.memory import Bytes, filled, grown
from kvformat.codecs._kernel.operation_rows import OperationRows, int_view
from kvformat.codecs._kernel.text_columns import Texts

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.memory import byte, matches


@dataclass(frozen=True, eq=False)
class ChangeArrays:
    """The changes of a batch.

    offsets: the first row of each message that comes out, and the number of all rows. kinds: the kind of each row as an
    index into `KINDS`. places: the index of each row in the image, or None if the image has exactly these rows.
    ends: the end of each message in the image; the first item is 0. members: BEFORE or AFTER for each row in the image.
    faults: the indexes of the messages that are not a change. nulls: the indexes of the messages that are null.
    """

    offsets: pa.Buffer
    kinds: Any
    places: pa.Buffer | None
    ends: Any
    members: Any
    faults: list[int]
    nulls: Any


class Image(Rows):
    """The row before or after the change of each message: its validity. The values are in `image`, without nulls.

    `place` is the index of the last row in `image`.
    """

    def __init__(self, image: Rows, columns: list[Column], member: int, members: Bytes) -> None:
        super().__init__(image.type, image.kind, image.kind.names, columns)
        self.image, self.member, self.members, self.place = image, member, members, 0

    def start(self, capacity: int) -> int:
        return Column.start(self, capacity)

    def end_row(self) -> int:
        image = self.image
        self.place = image.length
        if image.length == image.capacity:
            image.grow(image.capacity * 2)
        image.valid[image.length] = True  # `Rows.finish` checks that all columns are equally long
        image.length += 1
        self.members.put(self.member)
        return self.end_value(True)

    def null(self) -> int:
        return Column.null(self)

    def truncate(self, length: int) -> int:
        return Column.truncate(self, length)


class Changes(Rows):
    """The change of each message. `columns` have one value per message, `image` the rows before and after changes.

    operations: the rows of each operation by its text, which is not empty. Messages of other operations, and messages
    without a row that their operation needs, are `faults`.
    """

    offsets: memoryview[int]
    ends: memoryview[int]

    def __init__(
        self, type: Any, columns: list[Column], image: Rows, members: Bytes, operations: Mapping[str, OperationRows]
    ) -> None:
        super().__init__(type, pa.struct([]), [str(number) for number in range(len(columns))], columns)
        self.image, self.members = image, members
        self.operations: list[OperationRows] = list(operations.values())
        texts = [text.encode() for text in operations]
        self.operation_texts = memoryview(b"".join(texts) + bytes(8))
        self.operation_starts = int_view([sum(map(len, texts[:i])) for i in range(len(texts) + 1)])
        first = {text[0]: i for i, text in reversed(list(enumerate(texts)))}
        self.first_operations = int_view([first.get(c, -1) for c in range(256)])
        self.kinds = Bytes(8)
        self.places: memoryview[int] = grown(None, 0, 8, "q")
        self.are_scattered = False
        self.faults: list[int] = []

    def start(self, capacity: int) -> int:
        self.image.start(capacity)
        self.members.size = 0
        self.kinds = Bytes(capacity)
        self.places = grown(None, 0, max(capacity, 8), "q")
        self.are_scattered = False
        self.faults = []
        Rows.start(self, capacity)
        self.offsets[0] = 0
        self.ends[0] = 0
        return 0

    def grow(self, capacity: int) -> int:
        kept = self.length + 1 if self.length else 0
        self.offsets = grown(self.offsets if kept else None, kept, capacity + 1, "i")
        self.ends = grown(self.ends if kept else None, kept, capacity + 1, "i")
        return Column.grow(self, capacity)

    def end_row(self) -> int:
        self.end_value(True)
        self.add_rows(self.length - 1)
        return self.end_message()

    def null(self) -> int:
        Rows.null(self)
        return self.end_message()

    def end_message(self) -> int:
        """Store where the rows of the last message end."""
        self.offsets[self.length] = self.kinds.size
        self.ends[self.length] = self.image.length
        return 0

    def truncate(self, length: int) -> int:
        Rows.truncate(self, length)
        self.image.truncate(self.ends[length])
        self.kinds.size = self.offsets[length]
        while self.faults and self.faults[len(self.faults) - 1] >= length:
            self.faults.pop()
        return 0

    def add_rows(self, message: int) -> int:
        """Add the rows of a message's operation, or the message to the faults."""
        number = self.find_operation(message)
        if number < 0:
            self.faults.append(message)
            return 0
        operation = cython.cast(OperationRows, self.operations[number])
        count = self.kinds.size
        for i in range(operation.count):
            place = self.place_of(operation, i, message)
            if place < 0:
                self.kinds.size = count
                self.faults.append(message)
                break
            row = self.kinds.size
            if row == len(self.places):
                self.places = grown(self.places, row, 2 * row, "q")
            self.places[row] = place
            if place != row:
                self.are_scattered = True
            self.kinds.put(operation.kinds[i])
        return 0

    def find_operation(self, message: int) -> int:
        """Return the number of a message's operation, -1 if it is unknown or null."""
        raise NotImplementedError

    def find_text(self, texts: Texts, index: int) -> int:
        """Return the number of the operation with a text of a column, -1 if there is none."""
        start = texts.offsets[index]
        end = texts.offsets[index + 1]
        number = self.first_operations[byte(texts.text.view, start, end)]
        if number < 0:
            return -1
        for i in range(number, len(self.operation_starts) - 2):
            first = self.operation_starts[i]
            size = self.operation_starts[i + 1] - first
            if size == end - start and matches(texts.text.view, start, end, self.operation_texts, first, size):
                return i
        return -1

    def place_of(self, operation: OperationRows, number: int, message: int) -> int:
        """Return the index in the image of a row that a message's operation gives, -1 if the row is null."""
        raise NotImplementedError

    def finish(self) -> pa.Array:
        """Return the rows of the image."""
        lengths = [column.length for column in self.columns]
        if lengths != [self.length] * len(lengths):
            raise AssertionError(f"columns of {lengths} values for {self.length} messages")
        return self.image.finish()

    def arrays(self) -> ChangeArrays:
        """Return the changes of the batch that was read last."""
        count = self.kinds.size
        usual = not self.are_scattered and self.image.length == count
        valid = np.frombuffer(memoryview(self.valid), np.uint8, self.length)
        return ChangeArrays(
            filled(self.offsets, self.length + 1),
            np.frombuffer(memoryview(self.kinds.view), np.uint8, count),
            None if usual else filled(self.places, count),
            np.frombuffer(memoryview(self.ends), np.int32, self.length + 1),
            np.frombuffer(self.members.to_bytes(), np.uint8),
            self.faults,
            np.flatnonzero(valid == 0) if self.nulls else np.zeros(0, np.int64),
        )


class Envelopes(Changes):
    """Changes in records of the row before, the row after, and the operation.

    With `bare_deletes`, a deletion without its row gives a row of nulls.
    """

    def __init__(
        self, before: Image, after: Image, op: Texts, operations: Mapping[str, OperationRows], *, bare_deletes: bool
    ) -> None:
        super().__init__(before.type, [before, after, op], before.image, before.members, operations)
        self.before, self.after, self.op, self.bare_deletes = before, after, op, bare_deletes

    def find_operation(self, message: int) -> int:
        return self.find_text(self.op, message) if self.op.valid[message] else -1

    def place_of(self, operation: OperationRows, number: int, message: int) -> int:
        is_before = operation.members[number] == BEFORE
        image = self.before if is_before else self.after
        if image.valid[message]:
            return image.place
        if not self.bare_deletes or not is_before or operation.count > 1:
            return -1
        self.image.null()
        self.members.put(BEFORE)
        return self.image.length - 1

    def truncate(self, length: int) -> int:
        self.members.size = self.ends[length]
        return Changes.truncate(self, length)

    def explain(self) -> list[tuple[Any, bool, bool]]:
        """Return the operation of each fault, and whether it has the row before and the row after a change."""
        operations = self.op.finish()
        return [
            (operations[message].as_py(), self.before.valid[message] != 0, self.after.valid[message] != 0)
            for message in self.faults
        ]


class FlatChanges(Changes):
    """Changes in records that are the row alone, with the fields `op` and `deleted`.

    A row without an operation is `upserted`, a row that is `deleted` has that operation. Both are operations. Columns
    of `op` that are not texts have no known operation.
    """

    def __init__(
        self,
        image: Rows,
        op: Column,
        deleted: Column,
        operations: Mapping[str, OperationRows],
        *,
        upsert: str,
        delete: str,
    ) -> None:
        super().__init__(image.type, [], image, Bytes(8), operations)
        self.op, self.op_text = op, op if isinstance(op, Texts) else None
        self.deleted_text = deleted if isinstance(deleted, Texts) else None
        self.deleted_flag = deleted if isinstance(deleted, Booleans) else None
        self.true = memoryview(b"true" + bytes(8))
        self.upserted, self.deleted = list(operations).index(upsert), list(operations).index(delete)

    def end_row(self) -> int:
        self.image.end_row()
        return Changes.end_row(self)

    def find_operation(self, message: int) -> int:
        row = self.image.length - 1
        if self.is_deleted(row):
            return self.deleted
        if not self.op.valid[row]:
            return self.upserted
        return -1 if self.op_text is None else self.find_text(self.op_text, row)

    def is_deleted(self, row: int) -> bool:
        """Return whether a row is marked as deleted, by a text or by a boolean."""
        flag = self.deleted_flag
        if flag is not None:
            return flag.valid[row] != 0 and flag.values[row] == 1
        texts = self.deleted_text
        if texts is None or not texts.valid[row]:
            return False
        start = texts.offsets[row]
        end = texts.offsets[row + 1]
        return end - start == 4 and matches(texts.text.view, start, end, self.true, 0, 4)

    def place_of(self, operation: OperationRows, number: int, message: int) -> int:
        return self.image.length - 1

    def explain(self) -> list[tuple[Any, bool, bool]]:
        """Return the operation of each fault, and that it has its row."""
        operations = self.op.finish()
        if not pa.types.is_binary(operations.type):
            operations = operations.cast(pa.string())
        return [(operations[self.ends[message]].as_py(), True, True) for message in self.faults]
