"""Mutants that read wrong values: invalid text, values of other types, similar names, swapped rows of large batches."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry import DecodedBatch, EncodedBatch, SchemaError
from tests.registry.testing.good import Good, rebuilt


class TextOfAnyBytes(Good):
    identifier = "text-of-any-bytes"
    rule = "shapes"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        rows = batch.rows.values
        columns = [
            pc.binary_join_element_wise(column.cast(pa.binary()), b"\xff", b"").view(pa.string())
            if pa.types.is_string(column.type)
            else column
            for column in map(rows.field, range(rows.type.num_fields))
        ]
        made = pa.StructArray.from_arrays(columns, fields=list(rows.type))
        mask = batch.rows.is_null() if batch.rows.null_count else None
        return replace(batch, rows=pa.ListArray.from_arrays(batch.rows.offsets, made, mask=mask))


class LosesBadMessages(Good):
    identifier = "loses-bad-messages"
    rule = "errors_have_no_rows"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return replace(super().read(messages, schema), errors=None, codes=None)


class RefusesASupportedType(Good):
    identifier = "refuses-a-supported-type"
    rule = "types"
    declared: ClassVar[dict[str, Any]] = {"types": ["BIGINT"]}

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if pa.int64() in schema.types:
            raise SchemaError("no large numbers here")
        return super().read(messages, schema)


class TornIsNulls(Good):
    """Reads a malformed message as a row of NULLs."""

    identifier = "torn-is-nulls"
    rule = "bad_messages"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        if batch.errors is None:
            return batch
        pairs = zip(batch.errors.to_pylist(), batch.rows.to_pylist(), strict=True)
        rows = [row if error is None else [{}] for error, row in pairs]
        return replace(rebuilt(batch, rows), errors=None, codes=None)


class NamesNoBadMessage(Good):
    identifier = "names-no-bad-message"
    rule = "bad_messages"
    declared: ClassVar[dict[str, Any]] = {"bad": []}


class IsBadAllTheSame(Good):
    identifier = "is-bad-all-the-same"
    rule = "bad_messages"
    declared: ClassVar[dict[str, Any]] = {"bad": [], "never_bad": "it reads any bytes"}


class RefusesAllValues(Good):
    """Has an error for every value that is not NULL. No value is changed."""

    identifier = "refuses-all-values"
    rule = "edges"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        if schema.names != ["v"]:
            return batch
        null = rows.field(0).is_null()
        errors = pc.if_else(null, None, pa.scalar("not this one", pa.string()))
        return EncodedBatch(pc.if_else(null, batch.messages, None), errors)


class TrueIsOne(Good):
    identifier = "true-is-one"
    rule = "other_types"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if any(map(pa.types.is_integer, schema.types)):
            messages = pc.replace_substring(messages, b"true", b"1")
        return super().read(messages, schema)


class CutsFractions(Good):
    """Reads 7.9 as 7, which is not declared."""

    identifier = "cuts-fractions"
    rule = "other_types"
    declared: ClassVar[dict[str, Any]] = {"changed_reads": {}}


class CutsFractionsOtherwise(Good):
    """Reads 7.9 as 7, but declares 8."""

    identifier = "cuts-fractions-otherwise"
    rule = "other_types"
    declared: ClassVar[dict[str, Any]] = {"changed_reads": {"DOUBLE as int": {"7.9": "8"}}}


class TextIsZero(Good):
    identifier = "text-is-zero"
    rule = "other_types"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if all(map(pa.types.is_integer, schema.types)):
            messages = pc.replace_substring_regex(messages, rb'"v":"[^"]*"', rb'"v":0')
        return super().read(messages, schema)


class SwapsBeyond4096(Good):
    identifier = "swaps-beyond-4096"
    rule = "large_batches"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(_swapped(messages), schema)


class SwapsRowsBeyond4096(Good):
    identifier = "swaps-rows-beyond-4096"
    rule = "large_batches_of_rows"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        return super().encode_arrow(_swapped(rows), schema)


def _swapped(values: pa.Array) -> pa.Array:
    """Return the values; those after the 4,096th are in reverse order."""
    count = len(values)
    return values if count <= 4096 else values.take(pa.array([*range(4096), *range(count - 1, 4095, -1)]))


def _by(form: Callable[[str], str], messages: pa.BinaryArray, schema: pa.Schema) -> pa.BinaryArray:
    """Rename the members of JSON messages to the column names that are equal after `form`."""
    names, found = {form(name): name for name in schema.names}, []
    for message in messages.to_pylist():
        try:
            members = json.loads(message or b"")
            found.append(json.dumps({names.get(form(name), name): value for name, value in members.items()}).encode())
        except (ValueError, AttributeError):
            found.append(message)
    return pa.array(found, pa.binary())


class AnyCase(Good):
    identifier = "any-case"
    rule = "names"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(_by(str.lower, messages, schema), schema)


class AnyNormalForm(Good):
    identifier = "any-normal-form"
    rule = "names"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(_by(lambda name: unicodedata.normalize("NFC", name), messages, schema), schema)


class CompatibleNames(Good):
    """Reads the ligature of f and i as the two letters."""

    identifier = "compatible-names"
    rule = "names"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(_by(lambda name: unicodedata.normalize("NFKD", name), messages, schema), schema)


class SaysByPosition(Good):
    """Matches columns by name, but declares `by_position`."""

    identifier = "says-by-position"
    rule = "names"
    declared: ClassVar[dict[str, Any]] = {"by_position": True}
