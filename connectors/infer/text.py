"""`csv` and `raw`: columns of messages that have no names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.connectors.infer.inferred import InferredSchema, column_text
from kvformat.connectors.infer.sample import MessageSample
from kvformat.connectors.infer.seen import ISO, ISO_ZONED, OFFSET, Seen
from kvformat.connectors.infer.types import BYTES, STRING, Notes, Types
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.types import FlinkField

DELIMITERS = (",", ";", "\t", "|")
_WRITTEN = {"\t": "\\t"}  # as an option
_MOST_COLUMNS = 1000
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,4})?|[eE][+-]?[0-9]{1,4})")
_LONGEST_NUMBER = 100  # characters


def raw_schema(sample: MessageSample, options: Mapping[str, Any], name: str = "value") -> InferredSchema:
    """One column: text where all messages are UTF-8 or the charset is given, else bytes."""
    is_text = "charset" in options or all(map(is_utf8, sample.present()))
    return InferredSchema("raw", (FlinkField(name, STRING if is_text else BYTES),), dict(options))


def is_utf8(message: bytes) -> bool:
    """Whether the bytes are text."""
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def widths(messages: Sequence[bytes], delimiter: str) -> Counter[int]:
    """How many columns how many messages have; only the first line counts, as for the format."""
    found: Counter[int] = Counter()
    for message in messages:
        line = message.decode("utf-8", "replace").splitlines()[:1]
        try:
            found[len(next(csv.reader(line, delimiter=delimiter), []))] += 1
        except csv.Error:
            found[0] += 1
    return found


def delimiter_of(messages: Sequence[bytes]) -> tuple[str, int, float]:
    """The delimiter by which most messages have equally many columns, how many, and the share of such messages."""
    best = (",", 1, 1.0)
    for delimiter in DELIMITERS:
        usual = [(count, width) for width, count in widths(messages, delimiter).items() if width > 1]
        if usual:
            count, width = max(usual)
            found = (delimiter, width, count / len(messages))
            if best[1] == 1 or (found[2], found[1]) > (best[2], best[1]):
                best = found
    return best


def csv_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """Columns f0, f1, ... of the usual number, by the kinds of their texts."""
    notes, given, messages = Notes(), dict(options), list(sample.present())
    if "field-delimiter" not in given:
        delimiter, _, _ = delimiter_of(messages)
        if delimiter != ",":
            given["field-delimiter"] = _WRITTEN.get(delimiter, delimiter)
    else:
        delimiter = {"\\t": "\t"}.get(str(given["field-delimiter"]), str(given["field-delimiter"]))
    counted = widths(messages, delimiter) if len(delimiter) == 1 and delimiter not in '\r\n"' else Counter()
    width = counted.most_common(1)[0][0] if counted else 0
    if not 0 < width <= _MOST_COLUMNS:
        return InferredSchema("csv", (), given, (), ("there is no record",))
    others = {columns: count for columns, count in counted.items() if columns != width}
    if others:
        counts = ", ".join(f"{count} of {columns}" for columns, count in sorted(others.items())[:5])
        notes.add(f"{counted[width]} messages have {width} columns, others not: {counts}")
    names = [f"f{i}" for i in range(width)]
    texts = [FlinkField(name, STRING) for name in names]
    format, array = get_format("csv", given), sample.array()
    rows = format.decode_batch(array, ", ".join(map(column_text, texts))).rows.flatten()
    types = Types(notes, iso=False)
    guessed = [
        FlinkField(name, types.type(_seen(column.to_pylist()), name))
        for name, column in zip(names, rows.flatten(), strict=True)
    ]
    return InferredSchema("csv", _readable(format, array, texts, guessed), given, (), notes.texts())


def _readable(format: Any, array: Any, texts: list[FlinkField], guessed: list[FlinkField]) -> tuple[FlinkField, ...]:
    """The columns guessed, but texts where a guess makes a message an error that is none with texts."""

    def bad(columns: list[FlinkField]) -> int:
        errors = format.decode_batch(array, ", ".join(map(column_text, columns))).errors
        return 0 if errors is None else len(errors) - int(errors.null_count)

    usual = bad(texts)
    if bad(guessed) == usual:
        return tuple(guessed)
    return tuple(
        guess if bad([*texts[:at], guess, *texts[at + 1 :]]) == usual else texts[at] for at, guess in enumerate(guessed)
    )


def _seen(texts: list[str | None]) -> Seen:
    """What the texts of a column are, by the forms in which csv writes values; an empty one is no value."""
    seen = Seen()
    for text in texts:
        seen.look(_node(text))
    for form in (ISO, ISO_ZONED, OFFSET):  # csv reads none of them
        if form in seen.forms:
            seen.forms[""] = seen.forms.get("", 0) + seen.forms.pop(form)
    mixed = sum(1 for kind in (seen.texts, seen.numbers, seen.booleans) if kind) > 1
    return Seen(texts=len(texts), forms={"": len(texts)}) if mixed else seen


def _node(text: str | None) -> Node:
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) <= _LONGEST_NUMBER and _WHOLE.fullmatch(text):
        return Integer(text)
    return Fraction(text) if len(text) <= _LONGEST_NUMBER and _FRACTION.fullmatch(text) else text
