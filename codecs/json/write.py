"""Rows as JSON texts, column by column, to the byte as Flink writes them.

    rows      [(1, 'a'), (2, None)] of ROW<id INT, s STRING>
    parts     '{"id":'  ['1', '2']  ',"s":'  ['"a"', null]  '}'
    texts     ['{"id":1,"s":"a"}', '{"id":2,"s":null}']

Each column becomes *parts*: fixed strings, and string arrays with one text per value. Joined, they are the texts of the
column. A row without nulls adds the parts of its fields to the parts of its parent. So most values are copied once, by
one join at the end. A column with nulls has a single array as its parts, and the join writes its nulls as `null`.
Elements of a list are joined per list. Only characters above U+FFFF, some floating-point numbers and years outside of
0 to 9999 are formatted one at a time.

Rules: Flink's "JSON Format" page and its `RowDataToJsonConverters`, with the number texts of
`registry/java/numbers.py`.
"""

from __future__ import annotations

import binascii
import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, RowsOf, as_integers, as_type, replace_malformed, stored_type, text_bytes
from kvformat.codecs._timestamps.texts import PER_DAY, TEXT, date_texts, time_texts, timestamp_texts, without_zeros
from kvformat.codecs._timestamps.write import check_forms, form_writer
from kvformat.codecs.json.scalars import epoch_factor
from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.types import EPOCHS
from kvformat.codecs.json.variant import variant_texts
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.errors import SchemaError, listed
from kvformat.registry.contract.types import FlinkType, arrow_type
from kvformat.registry.java.numbers import double_texts, plain_decimal_texts, replace_where, stripped_decimal_texts

Parts = list[str | pa.LargeStringArray]

_NULL_KEY = (
    "Fail to serialize at field: {path}. JSON format doesn't support to serialize map data with null keys. "
    "You can drop null key entries or encode null in literals by specifying map-null-key.mode option."
)


class JsonWriter:
    """Writes rows of one type.

    Raises `SchemaError` for a MAP or MULTISET with keys that are not strings. Columns are found by name. A column may
    have another Arrow type of its kind (large_string, dictionary, timestamp[ns], ...). A map may also be a list of
    pairs: their keys may be null, unlike the keys of Arrow's maps. `write` raises `SchemaError` for a column that is
    missing, has another kind of type, or does not fit its declared type.
    Declared lengths, precisions of times, and NOT NULL are not enforced, as in Flink.
    """

    def __init__(self, row: FlinkType, settings: WriteSettings) -> None:
        for path, t in row.walk():
            if t.root in ("MAP", "MULTISET") and t.fields[0].type.root not in ("CHAR", "VARCHAR"):
                raise SchemaError(
                    f"column '{path}': JSON format doesn't support non-string as key type of map. "
                    f"The type is: {t.summary()}",
                    field=path,
                )
        check_forms(row, settings.forms)
        self._row, self._settings = row, settings

    def write(self, rows: pa.StructArray) -> EncodedBatch:
        """Write rows. A null or failed row has no message."""
        texts, reasons = self.texts(rows)
        return EncodedBatch(texts.cast(pa.large_binary()).cast(pa.binary()), *reason_arrays(reasons))

    def texts(self, rows: pa.StructArray) -> tuple[pa.LargeStringArray, list[Reason | None]]:
        """Write rows as text, for an envelope. Returns the texts, null for null and failed rows, and the errors."""
        batch = _Batch(self._settings)
        parts = batch.row(rows, self._row, "", lambda places: places)
        return batch.finish(join_texts(parts, len(rows)))


class _Batch:
    """Writes one batch and collects its errors."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._failures: list[tuple[Ints, Reason]] = []

    def finish(self, texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, list[Reason | None]]:
        """Return the texts, null for failed rows, and the errors. A row has its first error."""
        if not self._failures:
            return texts, []
        errors = np.full(len(texts), None, dtype=object)
        for rows, error in reversed(self._failures):
            errors[rows] = error
        reasons = errors.tolist()
        return pc.if_else(pa.array([reason is None for reason in reasons]), texts, pa.scalar(None, TEXT)), reasons

    def value(self, values: pa.Array, t: FlinkType, path: str, rows_of: RowsOf) -> Parts:
        values = _unwrapped(values, t)
        if t.root == "ROW":
            return self.row(values, t, path, rows_of)
        if t.root == "ARRAY":
            return self._array(values, t, path, rows_of)
        if t.root in ("MAP", "MULTISET"):
            return self._map(values, t, path, rows_of)
        if t.root == "VARIANT":
            return self._variant(values, t, path, rows_of)
        return self._scalar(values, t, path)

    def row(self, values: pa.StructArray, t: FlinkType, path: str, rows_of: RowsOf) -> Parts:
        if not pa.types.is_struct(values.type):
            raise _wrong_arrow_type(values, t, path)
        children = values.flatten() if values.null_count else [values.field(i) for i in range(values.type.num_fields)]
        by_name = {field.name: child for field, child in zip(values.type, children, strict=True)}
        members: list[Parts] = []
        for field in t.fields:
            at = f"{path}.{field.name}" if path else field.name
            if field.name not in by_name:
                raise SchemaError(
                    f"column '{at}' is missing: {field.type} was declared, the data has {listed(by_name)}", field=at
                )
            members.append([member_name(field.name) + ":", *self.value(by_name[field.name], field.type, at, rows_of)])
        if self._settings.ignore_null_fields and any(_has_nulls(member[1:]) for member in members):
            inside: Parts = [_skip_nulls(members, len(values))]
        else:
            inside = [part for i, member in enumerate(members) for part in ("," if i else "", *member)]
        return keep_nulls(values, ["{", *inside, "}"])

    def _array(self, values: pa.Array, t: FlinkType, path: str, rows_of: RowsOf) -> Parts:
        if not _is_list(values.type):
            raise _wrong_arrow_type(values, t, path)
        counts = list_counts(pc.list_value_length(values))
        offsets = list_offsets(counts)

        def parent_rows(places: Ints) -> Ints:
            return rows_of(np.searchsorted(offsets, places, side="right") - 1)

        parts = self.value(values.flatten(), t.fields[0].type, f"{path}.element", parent_rows)
        return keep_nulls(values, ["[", *join_lists(parts, offsets), "]"])

    def _map(self, values: pa.Array, t: FlinkType, path: str, rows_of: RowsOf) -> Parts:
        if not (pa.types.is_map(values.type) or _is_list_of_pairs(values.type)):
            raise _wrong_arrow_type(values, t, path)
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        counts, keys, items = map_entries(values)
        keys = _unwrapped(keys, t.fields[0].type)
        if not _is_text(keys.type):
            raise _wrong_arrow_type(keys, t.fields[0].type, f"{path}.key")
        owners = np.repeat(np.arange(len(values)), counts)
        real = values.is_valid().to_numpy(zero_copy_only=False)

        def parent_rows(places: Ints) -> Ints:
            maps = owners[places]
            return rows_of(maps[real[maps]])  # entries of a null map are ignored

        keys = self._replace_null_keys(keys.cast(TEXT), path, parent_rows)
        parts = ['"', escape_json(keys), '":', *self.value(items, value_type, f"{path}.value", parent_rows)]
        kept = _unique_entries(owners, keys)
        if kept is not None:
            counts = np.bincount(owners[kept], minlength=len(values))
            parts = [join_texts(parts, len(owners)).take(pa.array(kept))]
        return keep_nulls(values, ["{", *join_lists(parts, list_offsets(counts)), "}"])

    def _replace_null_keys(self, keys: pa.LargeStringArray, path: str, rows_of: RowsOf) -> pa.LargeStringArray:
        """Apply `map-null-key.mode` to the keys of maps. Entries with a key that is still null are not written."""
        if keys.null_count and self._settings.null_key_mode == "FAIL":
            places = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
            self._failures.append((rows_of(places), Reason(ErrorCode.NULL_VALUE, _NULL_KEY.format(path=path))))
        return keys.fill_null(self._settings.null_key_literal) if self._settings.null_key_mode == "LITERAL" else keys

    def _variant(self, values: pa.Array, t: FlinkType, path: str, rows_of: RowsOf) -> Parts:
        if values.type != arrow_type(t):
            raise _wrong_arrow_type(values, t, path)
        texts, problems = variant_texts(values)
        for place, (code, reason) in problems:
            self._failures.append((rows_of(np.array([place])), Reason(code, f"column '{path}': {reason}")))
        return [texts]

    def _scalar(self, values: pa.Array, t: FlinkType, path: str) -> Parts:
        accepts, text = _SCALARS[t.root]
        if not accepts(values.type):
            raise _wrong_arrow_type(values, t, path)
        try:
            if self._settings.epochs and t.root in EPOCHS:
                return _epoch(values, t)
            return text(values, t, self._settings)
        except pa.ArrowInvalid as e:
            raise _wrong_arrow_type(values, t, path) from e


def _wrong_arrow_type(values: pa.Array, t: FlinkType, path: str) -> SchemaError:
    wanted = stored_type(t)
    return SchemaError(
        f"column '{path}': the data has the Arrow type {values.type}, which can't be written as {t}; "
        f"provide it as {wanted}, or cast it first",
        field=path,
    )


# --- parts ---------------------------------------------------------------------------------------------


def join_texts(
    parts: Sequence[str | pa.LargeStringArray], length: int, *, nulls: str = "replace"
) -> pa.LargeStringArray:
    """Join parts to one text per value. A null part becomes `null`; with `emit_null` the whole text becomes null."""
    merged: Parts = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif not isinstance(part, str) or part:
            merged.append(part)
    if len(merged) == 1:
        only = merged[0]
        return pa.repeat(pa.scalar(only, TEXT), length) if isinstance(only, str) else only
    pieces = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in merged]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT), null_handling=nulls, null_replacement="null")


def _has_nulls(parts: Sequence[str | pa.LargeStringArray]) -> bool:
    return len(parts) == 1 and not isinstance(parts[0], str) and parts[0].null_count > 0


def keep_nulls(values: pa.Array, parts: Parts) -> Parts:
    """Return the parts unchanged if no value is null. Otherwise return one array, null for each null value."""
    if not values.null_count:
        return parts
    return [pc.if_else(values.is_valid(), join_texts(parts, len(values)), pa.scalar(None, TEXT))]


def _skip_nulls(members: list[Parts], length: int) -> pa.LargeStringArray:
    """Join the fields that are not null, as `name:value` with commas between them."""
    texts = [
        join_texts(member, length, nulls="emit_null" if _has_nulls(member[1:]) else "replace") for member in members
    ]
    # Arrow's join would give null for a row without any field
    empty = functools.reduce(pc.and_, [text.is_null() for text in texts])
    texts[0] = pc.if_else(empty, pa.scalar("", TEXT), texts[0])
    return pc.binary_join_element_wise(*texts, pa.scalar(",", TEXT), null_handling="skip")


def _has_fixed_ends(parts: Parts) -> bool:
    """Whether the parts are one array without nulls between two fixed strings."""
    if len(parts) != 3 or not isinstance(parts[0], str) or not isinstance(parts[2], str):
        return False
    return not isinstance(parts[1], str) and bool(parts[1].null_count == 0)


def join_lists(parts: Parts, offsets: Ints) -> Parts:
    """Join the parts of all elements per list, with commas. Returns parts of the text between the brackets."""
    before, after = "", ""
    if _has_fixed_ends(parts) and (np.diff(offsets) > 0).all():
        # the fixed strings around every element become part of the separator
        before, elements, after = parts
    else:
        elements = join_texts(parts, int(offsets[-1])).fill_null("null")
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), elements)
    return [before, pc.binary_join(lists, pa.scalar(f"{after},{before}", TEXT)), after]


def quote_texts(texts: pa.LargeStringArray, suffix: str = "") -> Parts:
    """Return the parts of texts between quotes, each with a suffix after it; null stays null."""
    parts: Parts = ['"', texts, suffix + '"']
    return [join_texts(parts, len(texts), nulls="emit_null")] if texts.null_count else parts


# --- arrays --------------------------------------------------------------------------------------------


def _unwrapped(values: pa.Array, t: FlinkType) -> pa.Array:
    """Convert dictionary, extension, null and view arrays to plain arrays."""
    if isinstance(values.type, pa.ExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), stored_type(t))
    if pa.types.is_string_view(values.type):
        return values.cast(TEXT)
    return values.cast(pa.large_binary()) if pa.types.is_binary_view(values.type) else values


def _is_list(t: pa.DataType) -> bool:
    kinds = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(kind(t) for kind in kinds)


def list_counts(lengths: pa.Array) -> Ints:
    """Return the numbers of elements, 0 for null lists."""
    counts: Ints = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts


def list_offsets(counts: Ints) -> Ints:
    """Return the offsets of lists with so many elements, one more than there are lists."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _is_list_of_pairs(t: pa.DataType) -> bool:
    return _is_list(t) and pa.types.is_struct(t.value_type) and t.value_type.num_fields == 2


def map_entries(values: pa.Array) -> tuple[Ints, pa.Array, pa.Array]:
    """Return the number of entries of each map, and all keys and values. Null maps may have entries, too."""
    if not pa.types.is_map(values.type):
        keys, items = values.flatten().flatten()
        return list_counts(pc.list_value_length(values)), keys, items
    offsets = values.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    counts: Ints = np.diff(offsets).astype(np.int64)
    return counts, values.keys.slice(first, count), values.items.slice(first, count)


def _unique_entries(owners: Ints, keys: pa.LargeStringArray) -> Ints | None:
    """Return the indices of the entries to write, None for all.

    Entries with a null key are skipped. Of equal keys the last entry counts, at the position of the first, as in Java.
    """
    if not keys.null_count and not (owners[1:] == owners[:-1]).any():
        return None
    encoded = keys.dictionary_encode()
    known = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    codes = encoded.indices.fill_null(0).to_numpy()[known]
    marks = owners[known] * (len(encoded.dictionary) + 1) + codes
    distinct, first = np.unique(marks, return_index=True)
    if len(distinct) == len(owners):
        return None
    last = len(marks) - 1 - np.unique(marks[::-1], return_index=True)[1]
    kept: Ints = known[last[np.argsort(first)]]
    return kept


# --- scalars -------------------------------------------------------------------------------------------


def _plain(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    """Booleans and integers."""
    return [values.cast(arrow_type(t)).cast(TEXT)]


def _float(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    return [float_texts(values.cast(arrow_type(t)))]


def float_texts(values: pa.Array) -> pa.LargeStringArray:
    """Format floating-point numbers. Those that are not finite are in quotes."""
    texts, finite = double_texts(values).cast(TEXT), pc.is_finite(values)
    if not finite.false_count:
        return texts
    return pc.if_else(finite, texts, join_texts(['"', texts, '"'], len(texts), nulls="emit_null"))


def _decimal(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    values = values.cast(arrow_type(t))
    if not settings.plain_decimals:
        return [stripped_decimal_texts(values).cast(TEXT)]
    texts = plain_decimal_texts(values).cast(TEXT)
    return [without_zeros(texts) if settings.trimmed_decimals and t.scale else texts]


def _string(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    return quote_texts(escape_json(values.cast(TEXT)))


def _binary(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    return quote_texts(base64_texts(values.cast(pa.large_binary())))


def _epoch(values: pa.Array, t: FlinkType) -> Parts:
    """Dates and times as numbers; `epoch_factor` tells their units. Smaller units are truncated."""
    if t.root == "DATE":
        return [values.cast(pa.date32()).view(pa.int32()).cast(TEXT)]
    if t.root == "TIME":
        return [values.cast(pa.time32("ms"), safe=False).view(pa.int32()).cast(TEXT)]
    have, want = PER_DAY[values.type.unit], PER_DAY["ms" if epoch_factor(t) > 1 else "us"]
    numbers = as_integers(values)
    numbers = numbers // (have // want) if have > want else numbers * (want // have)
    return [as_type(numbers, pa.int64(), values).cast(TEXT)]


def _date(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    return quote_texts(date_texts(values.cast(pa.date32())))


def _time(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    return quote_texts(time_texts(values))


def _timestamp(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    if settings.forms is not None:
        form = form_writer(t, settings.forms)
        texts = form.texts(values)
        return [texts] if form.is_number else quote_texts(escape_json(texts))
    texts = timestamp_texts(values, "T" if settings.iso else " ")
    return quote_texts(texts, "Z" if t.root == "TIMESTAMP_LTZ" else "")


def _interval(values: pa.Array, t: FlinkType, settings: WriteSettings) -> Parts:
    """INTERVAL DAY TO SECOND: milliseconds; smaller units are truncated."""
    return [values.cast(pa.duration("ms"), safe=False).cast(pa.int64()).cast(TEXT)]


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def _is_bytes(t: pa.DataType) -> bool:
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t))


def _is_zoned(t: pa.DataType) -> bool:
    return pa.types.is_timestamp(t) and t.tz is not None


def _is_local(t: pa.DataType) -> bool:
    return pa.types.is_timestamp(t) and t.tz is None


def _is_single(t: pa.DataType) -> bool:
    return bool(pa.types.is_float32(t) or pa.types.is_float16(t))


_SCALARS: dict[str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, FlinkType, WriteSettings], Parts]]] = {
    "BOOLEAN": (pa.types.is_boolean, _plain),
    "TINYINT": (pa.types.is_integer, _plain),
    "SMALLINT": (pa.types.is_integer, _plain),
    "INT": (pa.types.is_integer, _plain),
    "BIGINT": (pa.types.is_integer, _plain),
    "FLOAT": (_is_single, _float),
    "DOUBLE": (pa.types.is_floating, _float),
    "DECIMAL": (pa.types.is_decimal, _decimal),
    "CHAR": (_is_text, _string),
    "VARCHAR": (_is_text, _string),
    "BINARY": (_is_bytes, _binary),
    "VARBINARY": (_is_bytes, _binary),
    "DATE": (pa.types.is_date, _date),
    "TIME": (pa.types.is_time, _time),
    "TIMESTAMP": (_is_local, _timestamp),
    "TIMESTAMP_LTZ": (_is_zoned, _timestamp),
    "INTERVAL YEAR TO MONTH": (pa.types.is_integer, _plain),
    "INTERVAL DAY TO SECOND": (pa.types.is_duration, _interval),
}


def base64_texts(values: pa.LargeBinaryArray) -> pa.LargeStringArray:
    """Encode all values as base64 in one call: pad them to triples first, and overwrite the padding with `=`."""
    lengths = list_counts(pc.binary_length(values))
    missing = -lengths % 3
    filling = pa.array([b"", b"\0", b"\0\0"], pa.large_binary()).take(pa.array(missing))
    filled = pc.binary_join_element_wise(values.fill_null(b""), filling, pa.scalar(b"", pa.large_binary()))
    offsets = list_offsets((lengths + 2) // 3 * 4)
    data = memoryview(filled.buffers()[2] or b"")[: int(offsets[-1]) // 4 * 3]
    encoded = np.frombuffer(bytearray(binascii.b2a_base64(data, newline=False)), np.uint8)
    encoded[offsets[1:][missing > 0] - 1] = ord("=")
    encoded[offsets[1:][missing > 1] - 2] = ord("=")
    texts = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(encoded))
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, TEXT)) if values.null_count else texts


# --- strings -------------------------------------------------------------------------------------------

_ASTRAL_LEAD = 0xF0  # first byte of the characters above U+FFFF
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04X}" for code in range(0x20) if chr(code) not in _ESCAPES}
_PLAIN_BYTE, _WIDE_BYTE, _ESCAPED_BYTE = 0, 1, 2
_KINDS = np.repeat(
    np.array([_PLAIN_BYTE, _WIDE_BYTE, _ESCAPED_BYTE], np.uint8), [0x80, _ASTRAL_LEAD - 0x80, 0x100 - _ASTRAL_LEAD]
)
_KINDS[[ord(character) for character in _ESCAPES]] = _ESCAPED_BYTE


def escape_json(values: pa.LargeStringArray) -> pa.LargeStringArray:
    """Escape texts for JSON strings, as Jackson does. Malformed UTF-8 becomes U+FFFD, as in Java."""
    offsets, data = text_bytes(values)
    kinds = _KINDS[data]
    worst = kinds.max(initial=_PLAIN_BYTE)
    if worst == _PLAIN_BYTE:
        return values
    repaired = replace_malformed(values)
    if repaired is not values:
        return escape_json(repaired)
    if worst == _WIDE_BYTE:
        return values
    places = np.flatnonzero(kinds == _ESCAPED_BYTE)
    escaped_rows = np.zeros(len(values), np.bool_)
    escaped_rows[np.searchsorted(offsets, places, side="right") - 1] = True
    present = set(np.unique(data[places]).tolist())
    return replace_where(values, escaped_rows, lambda some: _with_escapes(some, present))


def _with_escapes(texts: pa.LargeStringArray, present: set[int]) -> pa.LargeStringArray:
    # the backslash comes first, because the other escapes begin with it
    for code in sorted(present, key=lambda code: code != ord("\\")):
        if code < _ASTRAL_LEAD:
            texts = pc.replace_substring(texts, chr(code), _ESCAPES[chr(code)])
    if max(present) < _ASTRAL_LEAD:
        return texts
    return pa.array([None if text is None else _ASTRAL.sub(_surrogates, text) for text in texts.to_pylist()], TEXT)


def _surrogates(character: re.Match[str]) -> str:
    high, low = divmod(ord(character.group()) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


@functools.lru_cache(maxsize=4096)
def member_name(name: str) -> str:
    """Return a field's name as a JSON string."""
    return f'"{escape_json(pa.array([name], TEXT))[0].as_py()}"'
