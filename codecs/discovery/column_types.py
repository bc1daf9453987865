"""From what was seen to Flink's types: the one place of the rules.

| seen | type |
| --- | --- |
| true, false | BOOLEAN |
| whole numbers | INT, BIGINT, DECIMAL(20, 0), DECIMAL(38, 0): the first that holds all of them |
| numbers with fractions | DOUBLE, if it gives back each of them; else DECIMAL(38, s) with the digits seen |
| texts that are all dates, or times of a day | DATE, TIME(3) |
| texts that are all timestamps, or timestamps with a Z | TIMESTAMP(p), TIMESTAMP_LTZ(p); p is 3, 6 or 9 |
| other texts | STRING |
| arrays | ARRAY of what their elements are together |
| objects | ROW; MAP<STRING, t> where names are data, see `_is_map` |
| nothing but nulls, numbers too long for DECIMAL, values of several kinds, what is nested too deeply | STRING |

STRING holds any JSON value: numbers as they are written, objects and arrays as JSON without blanks. Everything is
nullable: a sample can't tell what is never missing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator

from kvformat.codecs.discovery.value_summary import (
    DATE,
    DECIMAL_TEXT,
    ISO,
    ISO_ZONED,
    MAX_MEMBERS,
    MOST_DIGITS,
    OFFSET,
    SQL,
    SQL_ZONED,
    TIME,
    ValueSummary,
    merge_summaries,
)
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType

STANDARD = "timestamp-format.standard"

_INT, _LONG, _UNSIGNED_DIGITS = 2**31, 2**63, 20
_TIMES = {SQL: "TIMESTAMP", ISO: "TIMESTAMP", SQL_ZONED: "TIMESTAMP_LTZ", ISO_ZONED: "TIMESTAMP_LTZ"}
_MAP_NAMES = 20  # so many different names, each in less than half of the objects, are data
_DATA_NAME = re.compile(r"[0-9].*|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{16,}", re.DOTALL)
_MOST_TRIALS = 3  # maps in maps; each is tried in two ways
_MOST_SHOWN = 8  # columns of one note
_LONGEST_SHOWN = 60  # characters of a name in a note


def array_of(element: FlinkType) -> FlinkType:
    """ARRAY<element>."""
    return FlinkType("ARRAY", fields=(FlinkField("element", element),))


def map_of(value: FlinkType) -> FlinkType:
    """MAP<STRING, value>."""
    return FlinkType("MAP", fields=(FlinkField("key", STRING), FlinkField("value", value)))


def shown(name: str) -> str:
    """A name that may have any character, as a note shows it on one line."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class Notes:
    """Notes for the user about a guess, each once, with its columns."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}

    def add(self, what: str, place: str = "") -> None:
        """Note something, of a column where it is about one."""
        places = self._places.setdefault(what, [])
        if place and place not in places:
            places.append(place)

    def extend(self, others: Notes) -> None:
        """Take the notes of others over."""
        for what, places in others._places.items():
            for place in places or ("",):
                self.add(what, place)

    def without(self, places: Collection[str]) -> Notes:
        """The notes that are not about these columns alone, for a guess that changes them."""
        notes = Notes()
        for what, noted in self._places.items():
            left = [place for place in noted if place not in places]
            if left or not noted:
                notes._places[what] = left
        return notes

    def texts(self) -> tuple[str, ...]:
        """The notes in the order in which they were made."""
        return tuple(self._text(what, places) for what, places in self._places.items())

    @staticmethod
    def _text(what: str, places: list[str]) -> str:
        more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
        return f"{', '.join(places[:_MOST_SHOWN])}{more}: {what}" if places else what


def standard_of(seen: ValueSummary) -> str:
    """The `timestamp-format.standard` that reads most of the columns; SQL, the default, where both read as many."""
    forms = [form for leaf in _leaves(seen) if len(leaf.forms) == 1 for form in leaf.forms]
    iso = sum(form in (ISO, ISO_ZONED) for form in forms)
    return "ISO-8601" if iso > sum(form in (SQL, SQL_ZONED) for form in forms) else "SQL"


def _leaves(seen: ValueSummary) -> Iterator[ValueSummary]:
    if seen.forms and seen.texts == seen.values:
        yield seen
    for inner in (*seen.members.values(), seen.others, seen.elements):
        if inner is not None:
            yield from _leaves(inner)


class Types:
    """Makes types of what was seen; `iso` says which timestamps the format reads, None that columns must declare them.

    `notes` takes what was guessed.

    `within` counts the maps around, in which values of several kinds are conflicts.
    """

    def __init__(self, notes: Notes, *, iso: bool | None, within: int = 0) -> None:
        self._notes, self._iso, self._within = notes, iso, within
        self._conflicts = 0

    def columns(self, seen: ValueSummary, path: str = "") -> tuple[FlinkField, ...]:
        """The columns of rows; what can't be a column is left out, with a note."""
        fields = []
        for name, member in seen.members.items():
            if is_name(name):
                fields.append(FlinkField(name, self.type(member, f"{path}.{shown(name)}" if path else shown(name))))
            else:
                self._notes.add(f"the member {name[:_LONGEST_SHOWN]!a} can't be a column name and is left out")
        if seen.others is not None:
            self._notes.add(f"rows have more than {MAX_MEMBERS} members; the others are left out")
        self._note_names(seen, path)
        return tuple(fields)

    def type(self, seen: ValueSummary, path: str) -> FlinkType:
        """The type of what is in one place."""
        if seen.too_deep:
            return self._text("values are nested too deeply for types: kept as text", path)
        kinds = {
            "booleans": seen.booleans,
            "numbers": seen.numbers,
            "texts": seen.texts,
            "objects": seen.objects,
            "arrays": seen.arrays,
        }
        there = {kind: count for kind, count in kinds.items() if count}
        if not there:
            return self._text("only null was found: STRING reads any value", path)
        if len(there) > 1:
            counts = " and ".join(f"{count} {kind}" for kind, count in there.items())
            self._conflicts += 1
            return self._text(f"values of several kinds ({counts}): kept as text", path)
        if seen.booleans:
            return FlinkType("BOOLEAN")
        if seen.numbers:
            return self._number(seen, path)
        if seen.texts:
            return self._time(seen, path)
        if seen.objects:
            return self._object(seen, path)
        assert seen.elements is not None
        if not seen.elements.values and not seen.elements.too_deep:
            self._notes.add("no element was found: ARRAY<STRING> reads any", path)
            return array_of(STRING)
        return array_of(self.type(seen.elements, f"{path}[]"))

    def _number(self, seen: ValueSummary, path: str) -> FlinkType:
        if seen.fractions and not seen.inexact:
            return FlinkType("DOUBLE")
        if seen.whole_digits + seen.scale > MOST_DIGITS:
            return self._text(f"there are numbers of more than the {MOST_DIGITS} digits of DECIMAL: kept as text", path)
        if seen.fractions:
            self._notes.add("numbers that DOUBLE would change: DECIMAL; one that it can't hold becomes NULL", path)
            return FlinkType("DECIMAL", precision=MOST_DIGITS, scale=seen.scale)
        if seen.least >= -_INT and seen.most < _INT:
            return FlinkType("INT")
        if seen.least >= -_LONG and seen.most < _LONG:
            return FlinkType("BIGINT")
        digits = _UNSIGNED_DIGITS if seen.whole_digits <= _UNSIGNED_DIGITS else MOST_DIGITS
        self._notes.add("whole numbers beyond BIGINT: DECIMAL; one that it can't hold becomes NULL", path)
        return FlinkType("DECIMAL", precision=digits, scale=0)

    def _time(self, seen: ValueSummary, path: str) -> FlinkType:
        if len(seen.forms) > 1:
            times = {form: count for form, count in seen.forms.items() if form in _TIMES or form == DATE}
            if times:
                counts = ", ".join(f"{count} {form}" for form, count in times.items())
                self._notes.add(f"of {seen.texts} texts some are times ({counts}), but not all of one form", path)
            return STRING
        (form,) = seen.forms
        precision = max(3, -(-seen.second_digits // 3) * 3)
        if form == DATE:
            return FlinkType("DATE")
        if form == TIME:
            if seen.second_digits > 3:
                return self._text("times of a day with more digits than TIME(3) keeps", path)
            self._notes.add("TIME needs Spark's setting spark.sql.timeType.enabled", path)
            return FlinkType("TIME", precision=3)
        if form == DECIMAL_TEXT:
            return self._text("texts that are numbers: DECIMAL with enough digits reads them, too", path)
        if form == OFFSET:
            return self._text("timestamps with an offset: the format reads only those in UTC, with Z", path)
        if form not in _TIMES:
            return STRING
        if self._iso is None:
            return self._text("timestamps: declare TIMESTAMP or TIMESTAMP_LTZ if the format's options read them", path)
        if (form in (ISO, ISO_ZONED)) != self._iso:
            other = "SQL" if self._iso else "ISO-8601"
            return self._text(f"timestamps in the form that only '{STANDARD}' = '{other}' reads", path)
        if precision > 6:
            self._notes.add("Spark cuts digits of a second below a microsecond", path)
        return FlinkType(_TIMES[form], precision=precision)

    def _object(self, seen: ValueSummary, path: str) -> FlinkType:
        if not seen.members:
            self._notes.add("no member was found: MAP<STRING, STRING> reads any", path)
            return map_of(STRING)
        usable = all(map(is_name, seen.members)) and seen.others is None
        if not usable or _is_map(seen):
            value = self._one_type(seen, path)
            if value is not None:
                if seen.repeated:
                    self._notes.add("a name comes twice in an object: the last value counts", path)
                self._notes.add(f"{len(seen.members)} different names of values of one type: a MAP", path)
                return map_of(value)
            if not usable:
                return self._text("members that can't be fields of a ROW, of several types: kept as text", path)
        return FlinkType("ROW", fields=self.columns(seen, path))

    def _one_type(self, seen: ValueSummary, path: str) -> FlinkType | None:
        """The type of all members together, None where they are of several kinds at any level."""
        if self._within >= _MOST_TRIALS:
            return None
        places = [*seen.members.values(), *([seen.others] if seen.others is not None else [])]
        trial = Types(Notes(), iso=self._iso, within=self._within + 1)
        common = trial.type(merge_summaries(places), f"{path}{{}}")
        if trial._conflicts:
            return None
        self._notes.extend(trial._notes)
        return common

    def _note_names(self, seen: ValueSummary, path: str) -> None:
        if seen.repeated:
            self._notes.add("a name comes twice in an object: the last value counts", path)
        folded: dict[str, str] = {}
        for name in seen.members:
            before = folded.setdefault(folded_name(name), name)
            if before != name:
                self._notes.add(
                    f"'{shown(before)}' and '{shown(name)}' differ in the case of letters only: Spark needs "
                    "spark.sql.caseSensitive = true to tell them apart",
                    path,
                )

    def _text(self, why: str, path: str) -> FlinkType:
        self._notes.add(why, path)
        return STRING


def _is_map(seen: ValueSummary) -> bool:
    """Whether names are data: all look like numbers, UUIDs or hashes, or there are many that few objects share."""
    names = seen.members
    if seen.others is not None or (len(names) > 1 and all(map(_DATA_NAME.fullmatch, names))):
        return True
    return len(names) >= _MAP_NAMES and 2 * sum(seen.counts.values()) < seen.objects * len(names)


def is_name(name: str) -> bool:
    """Whether a column can have the name: a character other than a blank, and no half of one."""
    return bool(name.strip()) and not any("\ud800" <= c <= "\udfff" for c in name)


def is_text_name(value: object) -> bool:
    """Whether a value is a text that can be a name."""
    return type(value) is str and is_name(value)


@functools.lru_cache(10_000)
def folded_name(name: str) -> str:
    """Return what is equal for names that Spark does not tell apart: Java compares them character by character."""
    letters = (upper if len(upper := letter.upper()) == 1 else letter for letter in name)
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in letters)
