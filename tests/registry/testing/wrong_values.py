"""Wrong formats that read something as something else: text, other types, other names, and rows of large batches."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry import DecodedBatch, EncodedBatch
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


class TornIsNulls(Good):
    """A message that can't be read is a row of NULLs."""

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


class TrueIsOne(Good):
    identifier = "true-is-one"
    rule = "other_types"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if any(map(pa.types.is_integer, schema.types)):
            messages = pc.replace_substring(messages, b"true", b"1")
        return super().read(messages, schema)


class CutsFractions(Good):
    """7.9 is 7, and the author does not say so."""

    identifier = "cuts-fractions"
    rule = "other_types"
    declared: ClassVar[dict[str, Any]] = {"changed_reads": {}}


class CutsFractionsOtherwise(Good):
    """7.9 is 7, where the author says that it is 8."""

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
    """The values with those behind the 4,096th in turned order."""
    count = len(values)
    return values if count <= 4096 else values.take(pa.array([*range(4096), *range(count - 1, 4095, -1)]))


def _by(form: Callable[[str], str], messages: pa.BinaryArray, schema: pa.Schema) -> pa.BinaryArray:
    """Messages whose members have the names of columns that are equal in this form."""
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
    """The ligature of f and i is f and i."""

    identifier = "compatible-names"
    rule = "names"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(_by(lambda name: unicodedata.normalize("NFKD", name), messages, schema), schema)


class SaysByPosition(Good):
    """It finds columns by name."""

    identifier = "says-by-position"
    rule = "names"
    declared: ClassVar[dict[str, Any]] = {"by_position": True}
