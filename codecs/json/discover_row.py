"""Compare the row of a JSON message with its table, and report new columns, by the values or by declared types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.codecs.discovery.column_types import is_name
from kvformat.codecs.discovery.findings import Contribution, TableFindings
from kvformat.codecs.discovery.text_forms import (
    INFERRED,
    TRACKED,
    forms_of,
    forms_of_bits,
    forms_of_number,
    size_of_bits,
)
from kvformat.codecs.discovery.value_summary import MAX_DEPTH, MOST_DIGITS
from kvformat.codecs.json.value_types import READ_FROM_TEXTS, Fit, ValueRules, fit, is_time_of_day, value_type
from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, STRING, FlinkType, nullable

Row = Mapping[str, Node]
_NUMBERS = (*INTEGER_BITS, "DECIMAL", "FLOAT", "DOUBLE")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,99}))(\.[0-9]{1,100})?")


class DottedNameError(ValueError):
    """A member's name has a dot, and columns of objects are named by paths with dots."""


class RowRules:
    """Finds the contributions of rows.

    `fixed` are types of columns in all tables: their values never contribute another type. With `flatten`, an
    object's members are columns, named by their path. With `trusted`, values of declared types are not looked at,
    except times of day: the format reads them by the schema of the message. With `static`, the types of known columns
    never change.
    """

    def __init__(
        self,
        values: ValueRules,
        fixed: Mapping[str, FlinkType],
        *,
        flatten: bool = False,
        trusted: bool = False,
        static: bool = False,
    ) -> None:
        self._values, self._flatten, self._trusted, self._static = values, flatten, trusted, static
        self._fixed = {name: nullable(t) for name, t in fixed.items()}

    def contributions(
        self, row: Row, table: TableFindings, place: int = 0, declared: Mapping[str, FlinkType] | None = None
    ) -> Iterator[Contribution]:
        """Yield what the columns of a row contribute. The first member has the given place.

        `declared` are types that the message declares for columns; their values only say whether they are read as text,
        or not at all. Raises `DottedNameError` if flattened members can't be named.
        """
        types, fixed, values = table.types, self._fixed, self._values
        as_text = table.known.as_text
        members = _flattened(row) if self._flatten else row.items()
        for number, (name, value) in enumerate(members, place):
            t = None if declared is None else declared.get(name)
            if t is not None:
                yield from self._declared(name, value, t, number, table)
                continue
            if value is None:
                if name in table.nulls and name not in table.columns:
                    yield Contribution(name, number, None)
                continue
            known = types.get(name)
            if known is not None:
                if self._static or name in fixed:
                    yield from self._lost(name, value, known, number, table)
                    continue
                fitness = fit(known, value, values)
                if fitness is not Fit.MISFITS:
                    is_whole = known.root == "BIGINT"
                    forms = None if is_whole else self._new_forms(name, value, known, table, INFERRED)
                    is_new = fitness is Fit.AS_TEXT and name not in as_text
                    if is_new or forms is not None:
                        yield Contribution(name, number, None, is_new, forms)
                    continue
            elif not is_name(name):
                continue
            t = fixed.get(name)
            if t is None:
                t = _value_type(value, known, values)
                forms = None if t is None or t == STRING else self._new_forms(name, value, t, table, INFERRED)
                yield Contribution(name, number, t, forms=forms)
            else:
                yield Contribution(name, number, t)
                yield from self._lost(name, value, t, number, table)

    def _lost(self, name: str, value: Node, t: FlinkType, place: int, table: TableFindings) -> Iterator[Contribution]:
        """Yield that a column with a type that never changes is read as text, if its format may change the value."""
        if value is None or t.root not in READ_FROM_TEXTS or name in table.known.as_text:
            return
        if fit(t, value, self._values, declared=True) is not Fit.READS:
            yield Contribution(name, place, None, as_text=True)

    def _bits(self, name: str, value: Node, t: FlinkType, place: int, table: TableFindings) -> Iterator[Contribution]:
        """Yield what a BIT column contributes: BYTES whose texts are numbers. `t` has the number of bytes."""
        known, forms, size = table.types.get(name), table.forms(name), t.length or 0
        if not is_name(name) or known == STRING or name in self._fixed or (self._static and known is not None):
            return
        number = _number(value) if type(value) is str else value  # 007 is a text
        if value is not None and not (type(number) is Integer and number[0] != "-" and int(number) < 256**size):
            yield Contribution(name, place, STRING)
        elif known is None or known.root not in ("BINARY", "VARBINARY") or size_of_bits(forms) < size:
            yield Contribution(name, place, BYTES, True, forms_of_bits(size))

    def _new_forms(self, name: str, value: Node, t: FlinkType, table: TableFindings, more: int = 0) -> int | None:
        """Return the forms of a value that a column of the type reads; None if the column's have them in common.

        `more` are added to those of a text.
        """
        if isinstance(value, Integer | Fraction):
            if t.root not in ("BIGINT", "DOUBLE"):
                return None
            forms = forms_of_number(value, as_written=self._values.as_written)
        elif type(value) is not str or t.root not in TRACKED:
            return None
        else:
            forms = forms_of(value, t) | more
        known = table.forms(name)
        return None if known is not None and known & forms == known else forms

    def _declared(
        self, name: str, value: Node, t: FlinkType, place: int, table: TableFindings
    ) -> Iterator[Contribution]:
        """Yield what a column with a declared type contributes. A column without values contributes its type, too."""
        if t.root == "BINARY":
            yield from self._bits(name, value, t, place, table)
            return
        known = table.types.get(name)
        if known is None:
            if not is_name(name):
                return
            t = self._fixed.get(name, t)
            yield Contribution(name, place, t)
        elif known == STRING:
            return
        elif self._static or name in self._fixed:
            if not self._trusted:
                yield from self._lost(name, value, known, place, table)
            return
        elif not holds(known, t):
            yield Contribution(name, place, t)
        if self._trusted:
            if t.root == "TIME" and not is_time_of_day(t, value):
                yield Contribution(name, place, STRING)
            return
        if value is None:
            return
        reader = t if known is None or not holds(known, t) else known
        fitness = fit(reader, value, self._values, declared=True)
        if name in self._fixed:
            if fitness is Fit.AS_TEXT and name not in table.known.as_text:
                yield Contribution(name, place, None, as_text=True)
            return
        if fitness is Fit.MISFITS:
            wider = _wider_decimal(value) if t.root == "DECIMAL" else None
            yield Contribution(name, place, wider or STRING, forms=self._new_forms(name, value, wider or STRING, table))
            return
        if type(value) is str and not forms_of(value, t):  # such as 007
            yield Contribution(name, place, STRING)
            return
        forms = self._new_forms(name, value, t, table)
        is_new = fitness is Fit.AS_TEXT and name not in table.known.as_text
        if is_new or forms is not None:
            yield Contribution(name, place, None, is_new, forms)


def _value_type(value: Node, known: FlinkType | None, values: ValueRules) -> FlinkType | None:
    """Return the type of a value; a text in a column of numbers is one of the texts of Canal's numbers."""
    if values.texts and known is not None and known.root in _NUMBERS and type(value) is str:
        number = _number(value)
        if number is not None:
            return value_type(number, values)
    return value_type(value, values)


def _wider_decimal(value: Node) -> FlinkType | None:
    """Return the type of a decimal's text whose declared type has no digits, as TiCDC's; None for other values."""
    if type(value) is not str or not forms_of(value, FlinkType("DECIMAL", precision=MOST_DIGITS, scale=0)):
        return None
    whole, _, fraction = value.removeprefix("-").partition(".")
    digits = len(whole) + len(fraction)
    return FlinkType("DECIMAL", precision=digits, scale=len(fraction)) if digits <= MOST_DIGITS else None


def _number(text: str) -> Node:
    """Return a text as a number of JSON; None if it is not one."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else Fraction(text) if match[2] else Integer(text)


def _flattened(row: Row) -> Iterator[tuple[str, Node]]:
    """Yield the paths and values of all members that are not objects, and of empty and too deep objects."""
    open_: list[tuple[str, Iterator[tuple[str, Node]]]] = [("", iter(row.items()))]
    while open_:
        prefix, members = open_[-1]
        entry = next(members, None)
        if entry is None:
            open_.pop()
            continue
        name, value = entry
        if "." in name:
            raise DottedNameError(name)
        if not is_name(name):  # no column, as in a row that is not flattened
            continue
        path = prefix + name
        if isinstance(value, dict) and len(open_) < MAX_DEPTH:
            if value:
                open_.append((f"{path}.", iter(value.items())))
        else:
            yield path, value
