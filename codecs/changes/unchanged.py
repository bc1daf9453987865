"""Unchanged columns that the message of an update does not have: option 'unchanged.columns'.

    data    a placeholder is data, a missing column is NULL, as in Flink
    null    both are NULL
    error   the message is an error that names the columns
    keep    both are NULL, and `unchanged_columns` of the row has their names, so that tables keep the old values

Debezium writes a placeholder in place of a large value of PostgreSQL that did not change ("toasted"). Other sources,
such as Oracle GoldenGate with compressed updates, leave the column out of the row after the update.
Source: Debezium's PostgreSQL page, "Toasted values" and `unavailable.value.placeholder`, and its
`UnchangedToastedPlaceholder` for the values in arrays and maps.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask
from kvformat.codecs._rows import replace_columns
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.join_batches import fail_rows
from kvformat.registry.contract.options import Option

DATA, NULL, ERROR, KEEP = "data", "null", "error", "keep"
UNCHANGED_OPTION = Option(
    name="unchanged.columns",
    type="enum",
    default=DATA,
    allowed=(DATA, NULL, ERROR, KEEP),
    doc="Ours. The value of columns that an update did not change and that its message does not have. With `data`, "
    "a placeholder is data and a missing column is NULL, as in Flink. With `null`, they are NULL. With `error`, the "
    "message is an error. With `keep`, they are NULL and the column `unchanged_columns` has their names, so that "
    "tables keep the old values. For reading only.",
)
PLACEHOLDER_OPTION = Option(
    name="unavailable.value.placeholder",
    default="__debezium_unavailable_value",
    doc="Ours. The connector's setting of this name: what it writes in place of such a column. It is used unless "
    "`unchanged.columns` is `data`.",
)
UNCHANGED_OPTIONS = (UNCHANGED_OPTION, PLACEHOLDER_OPTION)
OWN_COLUMNS: Mapping[str, str] = {UNCHANGED: "ARRAY<STRING>"}


class UnchangedColumns(NamedTuple):
    """The policy for unchanged columns. `placeholder` has bytes; None if placeholders are not searched for.

    With `reads_presence`, the column after those of the table says which columns the row after an update has.
    Otherwise `apply` takes this as an argument, for messages with several rows.
    """

    policy: str
    placeholder: bytes | None
    reads_presence: bool

    @classmethod
    def of(cls, options: Mapping[str, Any], *, reads_presence: bool) -> UnchangedColumns | None:
        """Return the policy of the options. None for `data`."""
        policy = options.get(UNCHANGED_OPTION.name, DATA)
        return None if policy == DATA else cls(policy, placeholder_of(options), reads_presence)

    def apply(self, batch: DecodedBatch, names: Sequence[str], presence: pa.ListArray | None = None) -> DecodedBatch:
        """Apply the policy to a batch. Its rows begin with columns of these `names`; metadata follows them.

        `presence` has a list for each message, as `PresenceReader.read` returns it.
        """
        rows = batch.rows.values
        columns = [rows.field(place) for place in range(rows.type.num_fields)]
        kept_names = rows.type.names
        present = None
        if self.reads_presence:
            del kept_names[len(names)]
            present = columns.pop(len(names))
        updated = np.asarray(pc.equal(batch.row_kinds, "+U"))
        if presence is not None:
            present = _presence_of_updates(batch, updated, presence)
        masks = np.zeros((len(names), len(rows)), np.bool_)
        for place in range(len(names)):
            if present is not None:
                masks[place] = updated & np.asarray(present.field(place).is_null())
            if self.placeholder is not None:
                masks[place] |= _equals_placeholder(columns[place], self.placeholder)
            if masks[place].any():
                nothing = pa.scalar(None, columns[place].type)
                columns[place] = pc.if_else(pa.array(masks[place]), nothing, columns[place])
        if self.policy == KEEP:
            columns.append(_names_at(masks, names))
            kept_names.append(UNCHANGED)
        marked = replace_columns(batch, columns, kept_names)
        if self.policy != ERROR or not masks.any():
            return marked
        reasons = {row: _reason(np.flatnonzero(masks[:, row]), names) for row in np.flatnonzero(masks.any(0)).tolist()}
        return fail_rows(marked, reasons)


def _presence_of_updates(batch: DecodedBatch, updated: Mask, presence: pa.ListArray) -> pa.StructArray:
    """Return an item for each row of a batch: its columns, or null for a row that is not after an update.

    The list of a message in `presence` has one item for each of its rows after updates, in their order.
    """
    rows = np.flatnonzero(updated)
    owners = np.repeat(np.arange(len(batch.rows)), np.diff(np.asarray(batch.rows.offsets)))[rows]
    items = np.asarray(presence.offsets)[owners] + np.arange(len(rows)) - np.searchsorted(owners, owners)
    places = np.zeros(len(updated), np.int64)
    places[rows] = items
    return presence.values.take(pa.array(places, mask=~updated))


def placeholder_of(options: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of the placeholder. None if it is not searched for. The option may have them as `hex:5f5f`."""
    text = options.get(PLACEHOLDER_OPTION.name)
    if text is None or options[UNCHANGED_OPTION.name] == DATA:
        return None
    return bytes.fromhex(text.removeprefix("hex:")) if text.startswith("hex:") else text.encode()


def _reason(places: Any, names: Sequence[str]) -> Reason:
    shown = ", ".join(f"'{names[place]}'" for place in places)
    return Reason(
        ErrorCode.MISSING_FIELD,
        f"the message does not have the value of {shown}, which the update did not change. Set 'unchanged.columns' to "
        "'keep', so that tables keep the old value; or have the source send whole rows",
    )


def _names_at(masks: Mask, names: Sequence[str]) -> pa.ListArray:
    """Return a list for each row, with the names of the columns in the masks. Null if there are none."""
    counts = masks.sum(0)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    texts = pa.array(list(names), pa.string()).take(pa.array(np.nonzero(masks.T)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), texts, mask=pa.array(counts == 0))


# --- placeholders --------------------------------------------------------------------------------------------


def _equals_placeholder(column: pa.Array, placeholder: bytes) -> Mask:
    """Mask the placeholders: a text, bytes, an array with one element, or a map from the placeholder to itself."""
    text, kind = placeholder.decode(errors="replace"), column.type
    if pa.types.is_string(kind):
        return _equal(column, _texts_of_placeholder(placeholder))
    if pa.types.is_binary(kind):
        return _equal(column, [placeholder])
    if pa.types.is_map(kind):
        if not (pa.types.is_string(kind.key_type) and pa.types.is_string(kind.item_type)):
            return np.zeros(len(column), np.bool_)
        return _single(column, _equal(column.keys, [text]) & _equal(column.items, [text]))
    if not pa.types.is_list(kind):
        return np.zeros(len(column), np.bool_)
    if pa.types.is_integer(kind.value_type) or pa.types.is_date32(kind.value_type):
        return _equal_lists(column, np.frombuffer(placeholder, np.int8))
    if pa.types.is_string(kind.value_type):
        return _single(column, _equal(column.values, [text, _name_of(placeholder)]))
    if pa.types.is_binary(kind.value_type):
        return _single(column, _equal(column.values, [placeholder]))
    return np.zeros(len(column), np.bool_)


@functools.lru_cache(maxsize=64)
def _texts_of_placeholder(placeholder: bytes) -> list[str]:
    """Return the texts of the placeholder in a STRING column: of a text, of bytes, and JSON of arrays and maps of them.

    A column of the database may have any type if its messages have no schema.
    """
    text = placeholder.decode(errors="replace")
    encoded = [base64.b64encode(placeholder), base64.urlsafe_b64encode(placeholder), placeholder.hex().encode()]
    singles = [text, _name_of(placeholder), *(each.decode() for each in encoded)]
    numbers = np.frombuffer(placeholder, np.int8).tolist()
    nested: list[Any] = [{text: text}, numbers, *([single] for single in singles)]
    nested_texts = [
        json.dumps(each, separators=marks, ensure_ascii=False)
        for each in nested
        for marks in ((",", ":"), (", ", ": "))
    ]
    return [*singles, *nested_texts]


def _name_of(placeholder: bytes) -> str:
    """Return the UUID that Debezium makes of the placeholder."""
    digest = hashlib.md5(placeholder, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _equal(column: pa.Array, values: list[Any]) -> Mask:
    is_equal: Mask = np.asarray(pc.is_in(column, pa.array(values, column.type)))
    return is_equal


def _single(column: pa.Array, is_placeholder: Mask) -> Mask:
    """Mask the lists or maps with exactly one element, if the element is the placeholder."""
    offsets = np.asarray(column.offsets)
    is_single: Mask = (np.diff(offsets) == 1) & np.asarray(column.is_valid())
    is_single[is_single] = is_placeholder[offsets[:-1][is_single]]
    return is_single


def _equal_lists(column: pa.ListArray, numbers: npt.NDArray[np.int8]) -> Mask:
    """Mask the lists with exactly these elements. Elements may be dates, as numbers of days."""
    values = pa.array(numbers, pa.int32()).cast(column.type.value_type).to_pylist()
    offsets = np.asarray(column.offsets)
    same: Mask = (np.diff(offsets) == len(values)) & np.asarray(column.is_valid())
    for row in np.flatnonzero(same).tolist():
        same[row] = column.values[offsets[row] : offsets[row + 1]].to_pylist() == values
    return same
