"""Tables as the kernel compares messages with them (`_kernel.look`): the rule of each column by its type.

A rule is never less strict than `value_types.fit`. A message that does not meet the rules is looked at in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvformat.codecs._kernel import look_codes as kernel
from kvformat.codecs._kernel.look import LookTable
from kvformat.codecs.discovery import text_forms
from kvformat.codecs.discovery.text_forms import TRACKED, size_of_bits
from kvformat.codecs.json.value_types import READ_FROM_TEXTS, ValueRules, is_inferred, units_of_a_day
from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.look import KnownTable
from kvformat.registry.contract.types import INTEGER_BITS, MAX_LENGTH, FlinkType

Rule = tuple[int, int, int, int]
_NOTHING: Rule = (0, 0, 0, 0)
_ANY: Rule = (kernel.ANY, 0, 0, 0)
_NOTED = (kernel.NOTED, 0, 0, 0, 0)
_WAYS = (
    (text_forms.DAY, kernel.DATE),
    (text_forms.SPACE, kernel.WITH_SPACE),
    (text_forms.LETTER, kernel.WITH_LETTER),
    (text_forms.LOCAL, kernel.LOCAL),
    (text_forms.ZONED, kernel.ZONED),
)
"""The forms of texts that the kernel has flags for."""
_NESTED = {"ROW": kernel.ROW, "ARRAY": kernel.ARRAY, "MAP": kernel.MAP}
_LONG = 2**63 - 1


def prepared_table(
    known: KnownTable,
    values: ValueRules,
    fixed: Mapping[str, FlinkType],
    declared: Mapping[str, FlinkType] | None = None,
    *,
    trusted: bool = False,
    static: bool = False,
    fresh: frozenset[str] = frozenset(),
    nulls: frozenset[str] = frozenset(),
    key: bytes = b"",
    declaration: bytes = b"",
) -> LookTable | None:
    """Return a table for the kernel; None if every message contributes something.

    `declared` are the types that messages with the bytes `declaration` declare, None if they declare none. `key` are
    the bytes of the member with the key. `fresh` are columns that only this batch has: texts are not numbers there.
    `static` says that the types of known columns never change, so that the forms of their texts do not matter. `nulls`
    are names that contribute themselves if they come with null.
    """
    rules: list[int] = []
    nested: list[LookTable | None] = []
    names = [name for name in known.columns if _is_unicode(name)]
    for name in names:
        t = known.columns[name]
        declared_type = None if declared is None else declared.get(name)
        if _is_string(t) or (name in fixed and (name in known.as_text or t.root not in READ_FROM_TEXTS)):
            rule = _ANY
        elif name in fixed:
            rule = _rule(t, values, as_text=False, declared=True)
        elif declared_type is None:
            own_values = replace(values, texts=False, flexible_booleans=False) if name in fresh else values
            rule = _rule(t, own_values, as_text=name in known.as_text, declared=False)
        elif declared_type.root == "BINARY":
            size = declared_type.length or 0
            if not _is_string(t) and size_of_bits(known.forms.get(name)) < size:
                return None
            rule = kernel.WHOLE | kernel.NUMBER_TEXT, min(256**size - 1, _LONG), 0, 0
        elif not holds(t, declared_type):
            return None
        else:
            rule = (
                _trusted_rule(declared_type)
                if trusted
                else _rule(t, values, as_text=name in known.as_text, declared=True)
            )
        inner = _nested_table(t, values) if rule == _NOTHING else None
        if static or name in fixed or t.root not in TRACKED or (trusted and declared_type is not None):
            rules += *(rule if inner is None else (_NESTED[t.root], 0, 0, 0)), 0
        else:
            rules += _with_forms(rule, known.forms.get(name), t, values)
        nested.append(inner)
    for name in sorted(nulls - known.columns.keys() - known.nulls):
        if _is_unicode(name):
            names.append(name)
            rules += _NOTED
            nested.append(None)
    return LookTable(names, rules, nested, key, declaration, is_strict=declared is not None)


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in name)


def _with_forms(rule: Rule, forms: int | None, t: FlinkType, values: ValueRules) -> tuple[int, ...]:
    """Return a rule with the forms that each text must have, so that it contributes none."""
    flags, *numbers = rule
    if values.as_written:
        flags |= kernel.AS_WRITTEN
    if forms is None and t.root in ("BOOLEAN", "DATE"):
        flags &= ~(kernel.TRUTH_TEXT | kernel.DATE)
    elif t.root == "BOOLEAN":
        flags &= ~(0 if not forms or not forms & text_forms.WORDS else kernel.TRUTH_TEXT)
    elif forms:
        for form, flag in _WAYS:
            flags &= ~(0 if forms & form else flag)
    return flags, *numbers, kernel.ALL_FORMS if forms is None else forms & text_forms.FRACTIONS


def _nested_table(t: FlinkType, values: ValueRules) -> LookTable | None:
    """Return the table of the values inside a type, as `fits` reads them; None for types without or with odd names."""
    fields = t.fields if t.root == "ROW" else t.fields[-1:]
    if t.root not in _NESTED or not all(_is_unicode(field.name) for field in fields):
        return None
    plain = ValueRules(iso=values.iso)
    rules: list[int] = []
    nested: list[LookTable | None] = []
    for field in fields:
        inner = _nested_table(field.type, values)
        flags, *numbers = _rule(field.type, plain, as_text=False, declared=False)
        if _is_string(field.type):
            flags = kernel.ANY
        elif field.type.root in ("CHAR", "VARCHAR"):
            flags = 0
        elif inner is not None:
            flags = _NESTED[field.type.root]
        rules += flags & ~kernel.NUMBER_TEXT, *numbers, 0
        nested.append(inner)
    return LookTable([field.name for field in fields], rules, nested, b"", b"", is_strict=True)


def _trusted_rule(t: FlinkType) -> Rule:
    """Return the rule of a type that the schema of the message declares: only a time of day may not fit."""
    if t.root != "TIME":
        return _ANY
    return kernel.WHOLE | kernel.CLOCK, units_of_a_day(t) - 1, 0, min(t.precision or 0, 3)


def _is_string(t: FlinkType) -> bool:
    return t.root in ("CHAR", "VARCHAR") and t.length == MAX_LENGTH


def _rule(t: FlinkType, values: ValueRules, *, as_text: bool, declared: bool) -> Rule:
    texts = kernel.NUMBER_TEXT if values.texts or declared or not is_inferred(t) else 0
    if t.root in ("CHAR", "VARCHAR"):
        return kernel.SHORT, t.length or 0, 0, 0
    if t.root == "BOOLEAN":
        reads_texts = values.flexible_booleans or (values.texts and as_text)
        return kernel.BOOLEAN | (kernel.TRUTH_TEXT if reads_texts else 0), 0, 0, 0
    if t.root in INTEGER_BITS:
        return kernel.WHOLE | texts, 2 ** (INTEGER_BITS[t.root] - 1) - 1, 0, 0
    if t.root == "DOUBLE":
        return kernel.DOUBLE | texts, _LONG, 0, 0
    if t.root == "DECIMAL":
        scale = t.scale or 0
        return kernel.DECIMAL | texts, 0, (t.precision or 0) - scale, scale
    if t.root == "FLOAT":
        return kernel.FLOAT | texts, 0, 0, 0
    if t.root == "TIME":
        return kernel.CLOCK, 0, 0, min(t.precision or 0, 3)
    if t.root in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _time_rule(t, values, as_text=as_text, declared=declared)
    if t.root in ("BINARY", "VARBINARY") and values.latin is not None and (values.latin or as_text):
        return kernel.LATIN, 0, 0, 0
    return _NOTHING


def _time_rule(t: FlinkType, values: ValueRules, *, as_text: bool, declared: bool) -> Rule:
    if t.root == "DATE":
        return kernel.DATE, 0, 0, 0
    flags = kernel.WITH_LETTER if values.iso else kernel.WITH_SPACE
    flags |= kernel.ZONED if t.root == "TIMESTAMP_LTZ" else kernel.LOCAL
    precision = 9 if t.precision is None else t.precision
    if as_text:
        flags |= kernel.LOCAL
        if declared:
            flags |= kernel.WITH_LETTER | kernel.WITH_SPACE
        if declared or precision == 9:
            flags |= kernel.DATE
    return flags, 0, 0, precision
