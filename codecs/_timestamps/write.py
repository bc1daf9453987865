"""Timestamps that are written in a form of the user's choice: the first one that can be written."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, as_integers, as_type
from kvformat.codecs._timestamps.options import PATTERNS, ZONE, TimestampForms
from kvformat.codecs._timestamps.patterns import EPOCHS, ISO, OFFSETS, SQL, Items, TimestampForm, Token
from kvformat.codecs._timestamps.texts import PER_DAY, TEXT, timestamp_texts
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.zones import Zone, offset_of_moment

TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")
"""The types that the forms are for."""
# a text of `timestamp_texts`
_PARTS = r"^(?P<y>[+-]?\d+)-(?P<M>\d\d)-(?P<d>\d\d) (?P<H>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<S>\d+))?$"
_UTC = {"X": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00", "xxxx": "+0000", "xxxxx": "+00:00", "V": "UTC"}
_UTC |= {"Z": "+0000", "ZZZZZ": "Z"}
"""The text for UTC by the number of letters; other numbers of letters write that of a single letter."""


def check_forms(row: FlinkType, forms: TimestampForms | None) -> None:
    """Raise `SchemaError` for a timestamp in a row that none of the forms can write."""
    for path, t in row.walk() if forms is not None else ():
        if t.root in TIMESTAMPS:
            try:
                form_writer(t, forms)
            except ValueError as error:
                raise SchemaError(f"column '{path}': {error}", field=path) from None


@functools.lru_cache(maxsize=256)
def form_writer(t: FlinkType, forms: TimestampForms) -> FormWriter:
    """Return the writer of the first form that can be written. Raises `ValueError` if there is none."""
    reasons = []
    for form in forms.forms:
        try:
            return FormWriter(t, form, forms.zone)
        except ValueError as error:
            reasons.append(f"{form.name} {error}")
    raise ValueError(
        f"no form of '{PATTERNS}' can be written for {t.summary()}: {'; '.join(reasons)}. Add a form that can, such as "
        f"{SQL}, {ISO} or epoch-millis"
    )


class FormWriter:
    """Writes timestamps in one form.

    TIMESTAMP has no offset: optional sections with one are left out. TIMESTAMP_LTZ is written in UTC if the form has an
    offset, otherwise in the zone of the option. Digits of a second that the form does not have are dropped.
    Raises `ValueError` for a form that would lose more of the type.
    """

    def __init__(self, t: FlinkType, form: TimestampForm, zone: Zone | None) -> None:
        self._form, self.is_number, self._zone = form, form.is_epoch, None
        self._zoned = t.root == "TIMESTAMP_LTZ"
        self._tokens = [*_written(form.items, set(), with_offset=self._zoned)]
        if form.is_epoch or form.name in (SQL, ISO):
            return
        letters = {token.letter for token in self._tokens}
        if any(token.letter in "yu" and token.count == 2 for token in self._tokens if token.letter):
            raise ValueError("has no century")
        if not letters & {"H", "h"} or not letters >= {"m", "s"}:
            raise ValueError("has no time of day with seconds")
        has_offset = bool(letters & {*OFFSETS, "V"})
        if has_offset and not self._zoned:
            raise ValueError("needs an offset, outside of [ and ]")
        if self._zoned and not has_offset:
            if zone is None:
                raise ValueError(f"has no offset, and '{ZONE}' is not set")
            self._zone = zone

    def texts(self, values: pa.Array) -> pa.LargeStringArray:
        """Return the texts of timestamps, null for null."""
        if self._form.name in (SQL, ISO):
            texts = timestamp_texts(values, " " if self._form.name == SQL else "T")
            return _joined([texts, "Z"]) if self._zoned else texts
        have, want = PER_DAY[values.type.unit], PER_DAY["us"]
        micros = as_integers(values)
        micros = micros // (have // want) if have > want else micros * (want // have)
        if self.is_number:
            power = EPOCHS[self._form.name]
            return _epochs(as_type(micros // 10 ** max(power, 0), pa.int64(), values), power)
        if self._zone is not None:
            micros = micros + _offsets(micros, self._zone)
        parts = pc.extract_regex(timestamp_texts(as_type(micros, pa.timestamp("us"), values)), _PARTS)
        fields = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))
        return _joined([self._part(token, fields) for token in self._tokens])

    def _part(self, token: Token, fields: dict[str, pa.Array]) -> pa.Array | str:
        letter, count = token.letter, token.count
        if not letter:
            return token.text
        if letter in (*OFFSETS, "V"):
            return _UTC.get(letter * count, _UTC[letter])
        if letter == "S":
            return pc.utf8_slice_codeunits(pc.utf8_rpad(fields["S"], 9, "0"), 0, count)
        if letter == "a":
            return pc.if_else(pc.less(fields["H"].cast(pa.int8()), 12), "AM", "PM").cast(TEXT)
        field = fields["y" if letter in "yu" else "H" if letter == "h" else letter]
        if letter == "h":
            hours = fields["H"].cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False)
            field = pc.utf8_lpad(pa.array((hours + 11) % 12 + 1).cast(TEXT), 2, "0")
        return pc.replace_substring_regex(field, "^0", "") if count == 1 else field


def _joined(parts: list[pa.Array | str]) -> pa.LargeStringArray:
    """Join the parts of each text; null if one of them is null."""
    pieces = [pa.scalar(part, TEXT) if isinstance(part, str) else part.cast(TEXT) for part in parts]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT))


def _epochs(numbers: pa.Array, power: int) -> pa.LargeStringArray:
    """Return numbers as texts, with zeros for a negative `power`: the result may exceed 64 bits."""
    texts = numbers.cast(TEXT)
    return texts if power >= 0 else pc.if_else(pc.equal(numbers, 0), texts, _joined([texts, "0" * -power]))


def _offsets(micros: Ints, zone: Zone) -> Ints:
    """Return the offsets of moments in microseconds."""
    if isinstance(zone, int):
        return np.full(len(micros), zone * 1_000_000)
    return np.array([offset_of_moment(zone, moment) * 1_000_000 for moment in micros.tolist()], np.int64)


def _written(items: Items, known: set[str], *, with_offset: bool) -> Iterator[Token]:
    """Yield the tokens to write. `known` has the letters so far: a section that repeats one is left out.

    Only the letters of the section itself count: sections in it are decided on their own.
    """
    for item in items:
        if isinstance(item, Token):
            known.add(_kind(item))
            yield item
            continue
        inside = {_kind(token) for token in item.items if isinstance(token, Token) and token.letter}
        if not inside & known and (with_offset or "offset" not in inside):
            yield from _written(item.items, known, with_offset=with_offset)


def _kind(token: Token) -> str:
    return "offset" if token.letter and token.letter in (*OFFSETS, "V") else token.letter
