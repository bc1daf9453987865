"""`csv`: columns of messages that have no names."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.codecs._rows import error_count
from kvformat.codecs.discovery.column_types import Notes, Types
from kvformat.codecs.discovery.message_kinds import text_indices
from kvformat.codecs.discovery.value_summary import ISO, ISO_ZONED, OFFSET, ValueSummary
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal, columns_text
from kvformat.registry.contract.types import STRING, FlinkField

DELIMITERS = (",", ";", "\t", "|")
_WRITTEN = {"\t": "\\t"}  # as an option
_MOST_COLUMNS = 1000
_CSV_SHARE, _CSV_RECORDS, _CSV_COLUMNS = 0.9, 3, 3
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,4})?|[eE][+-]?[0-9]{1,4})")
_LONGEST_NUMBER = 100  # characters


def widths(messages: Sequence[bytes], delimiter: str) -> Counter[int]:
    """How many columns how many messages have; only the first record counts, as for the format."""
    counts: Counter[int] = Counter()
    for message in messages:
        lines = io.StringIO(message.decode("utf-8", "replace"), newline="")
        try:
            counts[len(next(csv.reader(lines, delimiter=delimiter), []))] += 1
        except csv.Error:
            counts[0] += 1
    return counts


def delimiter_of(messages: Sequence[bytes]) -> tuple[str, int, float]:
    """The delimiter by which most messages have equally many columns, how many, and the share of such messages."""
    best = (",", 1, 1.0)
    for delimiter in DELIMITERS:
        usual = [(count, width) for width, count in widths(messages, delimiter).items() if width > 1]
        if usual:
            count, width = max(usual)
            candidate = (delimiter, width, count / len(messages))
            if best[1] == 1 or (candidate[2], candidate[1]) > (best[2], best[1]):
                best = candidate
    return best


def recognize_csv(sample: MessageSample) -> tuple[Recognition, ...]:
    """Recognize text that one delimiter splits into the same number of columns, in most messages."""
    indices = text_indices(sample)
    messages = [sample.values[index] or b"" for index in indices]
    delimiter, width, share = delimiter_of(messages)
    enough = len(messages) >= _CSV_RECORDS or width >= _CSV_COLUMNS
    if width < 2 or share < _CSV_SHARE or not enough:
        return ()
    name = {"\t": "a tab"}.get(delimiter, f"'{delimiter}'")
    return (Recognition(indices, 0.8, f"are text, {share:.0%} of which has {width} columns with {name} between"),)


def propose_csv(sample: MessageSample, options: Mapping[str, Any]) -> SchemaProposal:
    """Columns f0, f1, ... of the usual number, by the kinds of their texts."""
    notes, proposed_options, messages = Notes(), dict(options), list(sample.present())
    if "field-delimiter" not in proposed_options:
        delimiter, _, _ = delimiter_of(messages)
        if delimiter != ",":
            proposed_options["field-delimiter"] = _WRITTEN.get(delimiter, delimiter)
    else:
        delimiter = {"\\t": "\t"}.get(
            str(proposed_options["field-delimiter"]), str(proposed_options["field-delimiter"])
        )
    counted = widths(messages, delimiter) if len(delimiter) == 1 and delimiter not in '\r\n"' else Counter()
    width = counted.most_common(1)[0][0] if counted else 0
    if not 0 < width <= _MOST_COLUMNS:
        return SchemaProposal((), proposed_options, (), ("there is no record",))
    others = {columns: count for columns, count in counted.items() if columns != width}
    if others:
        counts = ", ".join(f"{count} of {columns}" for columns, count in sorted(others.items())[:5])
        notes.add(f"{counted[width]} messages have {width} columns, others not: {counts}")
    names = [f"f{i}" for i in range(width)]
    texts = [FlinkField(name, STRING) for name in names]
    format, array = get_format("csv", proposed_options), sample.array()
    rows = format.decode_batch(array, columns_text(tuple(texts))).rows.flatten()
    types = Types(notes, iso=False)
    guessed = [
        FlinkField(name, types.type(_seen(column.to_pylist()), name))
        for name, column in zip(names, rows.flatten(), strict=True)
    ]
    return SchemaProposal(_readable(format, array, texts, guessed), proposed_options, (), notes.texts())


def _readable(format: Any, array: Any, texts: list[FlinkField], guessed: list[FlinkField]) -> tuple[FlinkField, ...]:
    """The columns guessed, but texts where a guess makes a message an error that is none with texts."""

    def bad(columns: list[FlinkField]) -> int:
        return error_count(format.decode_batch(array, columns_text(tuple(columns))))

    usual = bad(texts)
    if bad(guessed) == usual:
        return tuple(guessed)
    return tuple(
        guess if bad([*texts[:at], guess, *texts[at + 1 :]]) == usual else texts[at] for at, guess in enumerate(guessed)
    )


def _seen(texts: list[str | None]) -> ValueSummary:
    """Summarize the texts of a column, by the forms in which csv writes values; an empty text is not a value."""
    seen = ValueSummary()
    for text in texts:
        seen.add(_node(text))
    for form in (ISO, ISO_ZONED, OFFSET):  # csv reads none of them
        if form in seen.forms:
            seen.forms[""] = seen.forms.get("", 0) + seen.forms.pop(form)
    mixed = sum(1 for kind in (seen.texts, seen.numbers, seen.booleans) if kind) > 1
    return ValueSummary(texts=len(texts), forms={"": len(texts)}) if mixed else seen


def _node(text: str | None) -> Node:
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) <= _LONGEST_NUMBER and _WHOLE.fullmatch(text):
        return Integer(text)
    return Fraction(text) if len(text) <= _LONGEST_NUMBER and _FRACTION.fullmatch(text) else text
